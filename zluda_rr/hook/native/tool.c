/* The record `tool` in the cache folder, written by the Python side: which version of rules, bodies and program the
 * entries are from. Lines, checked by a hash in the last one:
 *
 *   zluda-rr tool 1
 *   fingerprint HEX
 *   command PATH
 *   layers NAME,NAME
 *   file MTIME_NS SIZE PATH     one per file that the fingerprint covers
 *   check HEX
 *
 * A file that has changed since makes the record invalid, so a new version is noticed at the cost of some stat calls. Where
 * none of the files can be seen (a container with the cache and without the tool), nothing says that they changed. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOOL_BYTES = 1 << 18, CHECK_LINE = 6 + 32 + 1 };

typedef struct {
    unsigned seen, hidden;
} file_count;

static bool file_unchanged(char *line, file_count *files) {
    char *size_text = NULL, *path = NULL;
    const long long stamp = strtoll(line, &size_text, 10);
    const long long size = strtoll(size_text, &path, 10);
    struct stat about;
    if (path == NULL || *path != ' ') return false;
    if (stat(path + 1, &about) != 0) {
        ++files->hidden;
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES;
    }
    ++files->seen;
    return about.st_size == size && (long long)about.st_mtim.tv_sec * 1000000000LL + about.st_mtim.tv_nsec == stamp;
}

static bool copy(char *out, size_t size, const char *text) {
    const size_t length = strlen(text);
    if (length >= size) return false;
    memcpy(out, text, length + 1);
    return true;
}

static bool take_line(zrr_tool *tool, char *line, file_count *files) {
    if (strncmp(line, "fingerprint ", 12) == 0) return copy(tool->fingerprint, sizeof tool->fingerprint, line + 12);
    if (strncmp(line, "command ", 8) == 0) return copy(tool->command, sizeof tool->command, line + 8);
    if (strncmp(line, "layers ", 7) == 0) return copy(tool->layers, sizeof tool->layers, line + 7);
    if (strncmp(line, "file ", 5) == 0) return file_unchanged(line + 5, files);
    return strcmp(line, "zluda-rr tool 1") == 0;
}

static bool parse(zrr_tool *tool, char *text, size_t size) {
    if (size <= CHECK_LINE) return false;
    char hex[33];
    zrr_hash_hex(zrr_hash_bytes(text, size - CHECK_LINE), hex);
    const char *check = text + size - CHECK_LINE;
    if (memcmp(check, "check ", 6) != 0 || memcmp(check + 6, hex, 32) != 0 || check[38] != '\n') return false;
    text[size - CHECK_LINE] = 0;
    char *rest = NULL;
    file_count files = {0, 0};
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (!take_line(tool, line, &files) || (files.seen > 0 && files.hidden > 0)) return false;
    return strlen(tool->fingerprint) == 32;
}

zrr_tool zrr_tool_read(int folder) {
    zrr_tool tool;
    memset(&tool, 0, sizeof tool);
    const int fd = openat(folder, "tool", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return tool;
    char *text = malloc(TOOL_BYTES);
    struct stat about;
    ssize_t got = -1;
    if (text != NULL && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid())
        got = read(fd, text, TOOL_BYTES - 1);
    close(fd);
    if (got > 0) {
        text[got] = 0;
        tool.valid = parse(&tool, text, (size_t)got);
        if (!tool.valid) tool.fingerprint[0] = 0; /* the command stays usable: it is the user's own folder */
    }
    free(text);
    return tool;
}
