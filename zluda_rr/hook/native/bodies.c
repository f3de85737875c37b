/* The bitcode that a rewritten module needs (zluda_rr/hook/bitcode.py): it is named in the module's comment lines
 * `// zluda-rr bitcode HASH`, each a file HASH.bc of the cache folder whose contents have that hash. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH_CHARS = 32, MAX_BODIES = 16, MAX_BITCODE = 16 << 20 };

static const char mark[] = "\n// zluda-rr bitcode ";

/* The next name at or behind `*at`, which moves behind it; NULL: no more. `bad`: a line without a whole hash. */
static const char *next_name(const char **at, const char *end, bool *bad) {
    const size_t length = sizeof mark - 1;
    const char *found = memmem(*at, (size_t)(end - *at), mark, length);
    if (found == NULL) return NULL;
    const char *name = found + length;
    const size_t digits = (size_t)(end - name) < HASH_CHARS ? (size_t)(end - name) : HASH_CHARS;
    size_t good = 0;
    while (good < digits && memchr("0123456789abcdef", name[good], 16) != NULL) ++good;
    *bad = good != HASH_CHARS || (name + HASH_CHARS < end && name[HASH_CHARS] != '\n' && name[HASH_CHARS] != '\r');
    *at = name + good;
    return name;
}

/* NULL when the file holds what its name says. */
static const char *problem_of(const zrr_cache *cache, const char *file, const char *name) {
    const int fd = openat(cache->folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return "missing; run `zluda-rr doctor`";
    struct stat about;
    char *bytes = NULL, hex[HASH_CHARS + 1];
    const char *problem = "not a file of this user";
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() && about.st_size > 0 &&
        about.st_size <= MAX_BITCODE && (bytes = malloc((size_t)about.st_size)) != NULL) {
        problem = "damaged; run `zluda-rr doctor`";
        if (zrr_read_exactly(fd, bytes, (size_t)about.st_size)) {
            zrr_hash_hex(zrr_hash_bytes(bytes, (size_t)about.st_size), hex);
            if (memcmp(hex, name, HASH_CHARS) == 0) problem = NULL;
        }
    }
    free(bytes);
    close(fd);
    return problem;
}

/* Every path and a line end behind each; the number of names, or -1. */
static int collect(const zrr_settings *settings, const zrr_cache *cache, const char *ptx, size_t size, char *paths,
                   size_t room) {
    const char *at = ptx, *end = ptx + size;
    bool bad = false;
    int count = 0;
    size_t used = 0;
    for (const char *name; (name = next_name(&at, end, &bad)) != NULL; ++count) {
        char file[HASH_CHARS + 4];
        snprintf(file, sizeof file, "%.*s.bc", HASH_CHARS, bad ? "" : name);
        const char *problem = bad || count == MAX_BODIES ? "not named as it should be" : problem_of(cache, file, name);
        if (problem != NULL) {
            zrr_log(settings, ZRR_INFO, "zluda_rr_bodies: original module: bitcode %s: %s", file, problem);
            return -1;
        }
        used += (size_t)snprintf(paths + used, room - used, "%s/%s\n", cache->path, file);
    }
    return count;
}

int zrr_bodies(const char *ptx, size_t size, char **paths) {
    const int error = errno;
    *paths = NULL;
    if (size == 0) size = strlen(ptx);
    if (memmem(ptx, size, mark, sizeof mark - 1) == NULL) return 0;
    zrr_settings *settings = zrr_settings_read();
    int count = -1;
    if (settings != NULL) {
        zrr_cache cache = zrr_cache_open(settings, false);
        const size_t room = MAX_BODIES * (sizeof cache.path + HASH_CHARS + 8);
        if (cache.folder < 0)
            zrr_log(settings, ZRR_INFO, "zluda_rr_bodies: original module: %s", cache.reason);
        else if ((*paths = malloc(room)) != NULL)
            count = collect(settings, &cache, ptx, size, *paths, room);
        if (cache.folder >= 0) close(cache.folder);
    }
    free(settings);
    if (count < 0) {
        free(*paths);
        *paths = NULL;
    }
    errno = error;
    return count < 0 ? -1 : 1;
}
