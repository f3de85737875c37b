/* What to load in place of an image: cache first, then the rewriter in a process of its own. */
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
#include <time.h>
#include <unistd.h>

/* A rewriter that always fails is not started for ever. */
enum { MAX_CHILDREN = 64, POLL_MS = 10 };

typedef struct {
    const char *where;
    const zrr_settings *settings;
    zrr_image image;
    zrr_hash hash;
    zrr_cache cache;
    zrr_tool tool;
    zrr_entry entry;
    char request[ZRR_KEY_CHARS + 1]; /* key of lock and request */
    char key[ZRR_KEY_CHARS + 1];     /* key of the entry */
} job;

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void warn_layers(const job *what, const char *variable, const char *list) {
    static atomic_int warned;
    for (const char *name = list; *name != 0 && what->tool.valid;) {
        const size_t size = strcspn(name, ",");
        bool known = false;
        for (const char *layer = what->tool.layers; *layer != 0 && !known;) {
            const size_t other = strcspn(layer, ",");
            known = other == size && memcmp(layer, name, size) == 0;
            layer += other + (layer[other] == ',');
        }
        if (!known && atomic_fetch_add(&warned, 1) < 8)
            zrr_log(what->settings, ZRR_INFO, "%s: no layer %.*s, ignored; there are: %s", variable, (int)size, name,
                    what->tool.layers);
        name += size + (name[size] == ',');
    }
}

/* Looks the image up under the record's present version. */
static enum zrr_entry_kind look_up(job *what) {
    what->tool = zrr_tool_read(what->cache.folder);
    if (!what->tool.valid) return what->entry.kind = ZRR_MISSING;
    warn_layers(what, "ZLUDA_RR_LAYERS", what->settings->layers);
    warn_layers(what, "ZLUDA_RR_DISABLE", what->settings->disable);
    zrr_cache_key(what->hash, what->settings, what->tool.fingerprint, what->key);
    what->entry = zrr_cache_read(&what->cache, what->key, what->hash, what->image.size);
    if (what->entry.dropped[0] != 0) zrr_log(what->settings, ZRR_INFO, "%s: %s", what->where, what->entry.dropped);
    return what->entry.kind;
}

/* The exclusive lock on this module, waiting up to `wait_ms` for another process or thread that holds it. */
static int take_lock(const job *what, int wait_ms, char *reason) {
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.lock", what->request);
    const int fd = openat(what->cache.folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        zrr_reason(reason, "cache %.120s: %s", what->cache.path, strerror(errno));
        return -1;
    }
    const long long end = now_us() + wait_ms * 1000LL;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || now_us() >= end)) {
            zrr_reason(reason, "a rewrite of this module is under way");
            close(fd);
            return -1;
        }
        const struct timespec pause = {0, POLL_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
    return fd;
}

static void request(job *what, int lock, int wait_ms, char *reason) {
    static atomic_int children;
    const char *program = what->settings->tool[0] != 0 ? what->settings->tool
                          : what->tool.command[0] != 0 ? what->tool.command
                                                       : "zluda-rr";
    if (atomic_fetch_add(&children, 1) >= MAX_CHILDREN) {
        zrr_reason(reason, "too many rewrites in one process");
        return;
    }
    if (!zrr_cache_request(&what->cache, what->request, &what->image, reason)) return;
    const bool ended = zrr_child_run(program, &what->cache, what->request, lock, wait_ms, reason);
    if (!ended) return;
    if (wait_ms == 0)
        zrr_reason(reason, "the rewrite is under way; it serves the next load");
    else if (look_up(what) == ZRR_MISSING)
        zrr_reason(reason, "the rewriter left no result; see `zluda-rr log`");
}

static void miss(job *what, char *reason) {
    const zrr_settings *settings = what->settings;
    if (strcmp(settings->miss, "off") == 0) {
        zrr_reason(reason, "not in the cache, and ZLUDA_RR_MISS is off");
        return;
    }
    const int wait_ms = strcmp(settings->miss, "sync") == 0 ? 1000 * atoi(settings->timeout) : 0;
    const long long begin = now_us();
    const int lock = take_lock(what, wait_ms, reason);
    if (lock < 0) return;
    const int left = wait_ms - (int)((now_us() - begin) / 1000);
    /* Whoever held the lock may have made the entry. Where it failed and the wait was used up, so do we. */
    if (look_up(what) == ZRR_MISSING) {
        if (wait_ms > 0 && left < wait_ms - 2 * POLL_MS)
            zrr_reason(reason, "another process tried to rewrite this module and left no result");
        else
            request(what, lock, wait_ms > 0 ? (left > 1 ? left : 1) : 0, reason);
    }
    close(lock); /* not unlocked: a running child keeps it */
}

static void dump(const job *what, const char *suffix, const void *bytes, size_t size) {
    char path[2 * ZRR_VALUE_BYTES];
    snprintf(path, sizeof path, "%s/%s.%s", what->settings->dump_dir, what->key, suffix);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        if (errno != EEXIST) zrr_log(what->settings, ZRR_INFO, "%.200s: %s", path, strerror(errno));
        return;
    }
    if (!zrr_write_all(fd, bytes, size)) unlink(path);
    close(fd);
}

static bool finish(job *what, const char *reason, long long began, zrr_replacement *out) {
    const zrr_settings *settings = what->settings;
    const double ms = (double)(now_us() - began) / 1000;
    if (what->entry.kind == ZRR_REPLACED) {
        zrr_log(settings, ZRR_INFO, "%s: replaced %s (%zu bytes, %.1f ms)", what->where, what->entry.note,
                what->image.size, ms);
        zrr_cache_record(&what->cache, "replaced", what->request, what->entry.note);
        if (settings->dump_dir[0] != 0) {
            dump(what, strcmp(what->image.kind, "ptx") == 0 ? "original.ptx" : "original.fatbin", what->image.bytes,
                 what->image.size);
            const bool fatbin = what->entry.size > 4 && memcmp(what->entry.payload, "\x50\xed\x55\xba", 4) == 0;
            dump(what, fatbin ? "rewritten.fatbin" : "rewritten.ptx", what->entry.payload, what->entry.size);
        }
        out->text = what->entry.payload;
        out->size = what->entry.size;
        memcpy(out->note, what->entry.note, sizeof out->note);
        return true;
    }
    const char *why = what->entry.kind == ZRR_UNCHANGED ? what->entry.note : reason;
    zrr_log(settings, ZRR_INFO, "%s: original module (%s, %zu bytes): %s", what->where, what->image.kind,
            what->image.size, why);
    zrr_cache_record(&what->cache, what->entry.kind == ZRR_UNCHANGED ? "unchanged" : "passed", what->request, why);
    return false;
}

static bool examine(job *what, const void *image, size_t size, zrr_replacement *out) {
    const long long began = now_us();
    char reason[ZRR_REASON_BYTES] = "";
    what->image = zrr_image_examine(image, size);
    if (what->image.bytes == NULL) {
        zrr_log(what->settings, ZRR_DEBUG, "%s: original module: %s", what->where, what->image.reason);
        return false;
    }
    what->cache = zrr_cache_open(what->settings, strcmp(what->settings->miss, "off") != 0);
    if (what->cache.folder < 0) {
        zrr_log(what->settings, ZRR_INFO, "%s: original module: %s", what->where, what->cache.reason);
        return false;
    }
    what->hash = zrr_hash_bytes(what->image.bytes, what->image.size);
    zrr_cache_key(what->hash, what->settings, "", what->request);
    if (look_up(what) == ZRR_MISSING) miss(what, reason);
    const bool replaced = finish(what, reason, began, out);
    close(what->cache.folder);
    return replaced;
}

bool zrr_replace(const char *where, const void *image, size_t size, zrr_replacement *out) {
    const int error = errno;
    memset(out, 0, sizeof *out);
    zrr_settings *settings = zrr_settings_read();
    job *what = calloc(1, sizeof *what);
    bool replaced = false;
    if (settings != NULL && what != NULL && strcmp(settings->enabled, "1") == 0) {
        what->where = where;
        what->settings = settings;
        replaced = examine(what, image, size, out);
    }
    free(what);
    free(settings);
    errno = error;
    return replaced;
}

static char *read_file(const char *path, size_t *size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    char *bytes = NULL;
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
        (size_t)about.st_size <= ZRR_MAX_IMAGE && (bytes = malloc((size_t)about.st_size)) != NULL) {
        size_t used = 0;
        for (ssize_t got = 1; got > 0 && used < (size_t)about.st_size; used += got > 0 ? (size_t)got : 0)
            got = read(fd, bytes + used, (size_t)about.st_size - used);
        *size = used;
    }
    if (fd >= 0) close(fd);
    return bytes;
}

bool zrr_replace_file(const char *where, const char *path, zrr_replacement *out) {
    const int error = errno;
    memset(out, 0, sizeof *out);
    size_t size = 0;
    char *bytes = path != NULL ? read_file(path, &size) : NULL;
    const bool replaced = bytes != NULL && size > 0 && zrr_replace(where, bytes, size, out);
    free(bytes);
    errno = error;
    return replaced;
}
