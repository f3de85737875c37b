/* At most two rewriters at a time work on a cache folder. Requests (`KEY.img`) wait in the folder; a rewriter that has
 * done its own module takes those that are left, so that nobody has to come back for them. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* MOST_MODULES: a rewriter that always fails is not started for ever. */
enum { WORKERS = 2, MOST_MODULES = 64, ERROR_BYTES = 4096 };

int zrr_queue_enter(const zrr_cache *cache) {
    for (int i = 0; i < WORKERS; ++i) {
        char name[32];
        snprintf(name, sizeof name, "worker-%d.lock", i);
        const int fd = openat(cache->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        close(fd);
    }
    return -1;
}

static bool is_there(const zrr_cache *cache, const char *key, const char *suffix) {
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.%s", key, suffix);
    return faccessat(cache->folder, name, F_OK, 0) == 0;
}

/* A rewriter that was started has made its file for errors; a program that cannot run leaves the request behind as well. */
bool zrr_queue_waits(const zrr_cache *cache, const char *key) {
    return is_there(cache, key, "img") && !is_there(cache, key, "err");
}

bool zrr_queue_ask(const zrr_cache *cache, const char *key, const zrr_image *image, char *before, char *reason) {
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.err", key);
    zrr_queue_failure(cache, key, before);
    unlinkat(cache->folder, name, 0);
    return zrr_cache_request(cache, key, image, reason);
}

/* Modules that this process has put into the queue. */
static _Atomic(uint64_t) asked[MOST_MODULES];

bool zrr_queue_asked(zrr_hash image) {
    for (int i = 0; i < MOST_MODULES; ++i)
        if (atomic_load(&asked[i]) == (image.low | 1)) return true;
    return false;
}

bool zrr_queue_note(zrr_hash image, char *reason) {
    for (int i = 0; i < MOST_MODULES; ++i) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&asked[i], &none, image.low | 1) || none == (image.low | 1)) return true;
    }
    zrr_reason(reason, "too many rewrites in one process");
    return false;
}

/* The last line of `text` that is not empty, cut off from it. */
static char *last_line(char *text) {
    size_t size = strlen(text);
    while (size > 0 && (unsigned char)text[size - 1] <= ' ') text[--size] = 0;
    char *line = strrchr(text, '\n');
    if (line != NULL) *line++ = 0;
    return line != NULL ? line : text;
}

void zrr_queue_failure(const zrr_cache *cache, const char *key, char *text) {
    static const char mark[] = "zluda-rr: exit status ";
    char name[ZRR_KEY_CHARS + 8];
    text[0] = 0;
    snprintf(name, sizeof name, "%s.err", key);
    const int fd = openat(cache->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    char *bytes = malloc(ERROR_BYTES + 1);
    struct stat about;
    ssize_t got = -1;
    if (bytes != NULL && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        got = pread(fd, bytes, ERROR_BYTES, about.st_size > ERROR_BYTES ? about.st_size - ERROR_BYTES : 0);
    close(fd);
    if (got > 0) {
        bytes[got] = 0;
        for (ssize_t i = 0; i < got; ++i)
            if (bytes[i] == 0) bytes[i] = '?';
        char *line = last_line(bytes), *status = NULL;
        if (strncmp(line, mark, sizeof mark - 1) == 0) {
            status = line + sizeof mark - 1;
            line = line == bytes ? line + strlen(line) : last_line(bytes);
        }
        zrr_reason(text, "%s%.20s%s%.160s", status != NULL ? "exit status " : "", status != NULL ? status : "",
                   status != NULL && *line != 0 ? ": " : "", line);
    }
    free(bytes);
}
