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

enum { POLL_MS = 10 };

typedef struct zrr_job {
    const char *where;
    zrr_settings *settings;
    double ms;
    zrr_image image;
    zrr_hash hash;
    zrr_cache cache;
    zrr_tool tool;
    zrr_entry entry;
    char before[ZRR_REASON_BYTES];   /* how the last rewrite failed */
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

static void failed(const job *what, char *reason, const char *otherwise) {
    char said[ZRR_REASON_BYTES];
    zrr_queue_failure(&what->cache, what->request, said);
    if (said[0] != 0)
        zrr_reason(reason, "the rewriter left no result (%.230s)", said);
    else
        zrr_reason(reason, "%s", otherwise);
}

/* The module's lock is held, and a place among the rewriters. */
static void start(job *what, zrr_locks locks, int wait_ms, char *reason) {
    const char *program = what->settings->tool[0] != 0 ? what->settings->tool
                          : what->tool.command[0] != 0 ? what->tool.command
                                                       : "zluda-rr";
    if (!zrr_child_run(program, &what->cache, what->request, locks, wait_ms, reason)) return;
    if (wait_ms == 0 && what->before[0] != 0)
        zrr_reason(reason, "the rewrite is under way again; the last one failed (%.170s)", what->before);
    else if (wait_ms == 0)
        zrr_reason(reason, "the rewrite is under way; it serves the next load");
    else if (look_up(what) == ZRR_MISSING)
        failed(what, reason, "the rewriter left no result; see `zluda-rr log`");
}

/* Once a process and module, as long as none is left waiting: what failed is not tried at every load. */
static bool request(job *what, char *reason) {
    if (zrr_queue_asked(what->hash) && !zrr_queue_waits(&what->cache, what->request)) {
        failed(what, reason, "the rewriter left no result; see `zluda-rr log`");
        return false;
    }
    return zrr_queue_ask(&what->cache, what->request, &what->image, what->before, reason) &&
           zrr_queue_note(what->hash, reason);
}

static int left_of(long long end) { return (int)((end - now_us()) / 1000); }

static void miss(job *what, char *reason) {
    const zrr_settings *settings = what->settings;
    if (strcmp(settings->miss, "off") == 0) {
        zrr_reason(reason, "not in the cache, and ZLUDA_RR_MISS is off");
        return;
    }
    const int wait_ms = strcmp(settings->miss, "sync") == 0 ? 1000 * atoi(settings->timeout) : 0;
    const long long end = now_us() + wait_ms * 1000LL;
    bool asked = false;
    do {
        zrr_locks locks = {take_lock(what, wait_ms > 0 && left_of(end) > 0 ? left_of(end) : 0, reason), -1};
        if (locks.lock < 0) return;
        /* Whoever held the lock may have made the entry. Where it failed and the wait was used up, so do we. */
        bool over = look_up(what) != ZRR_MISSING;
        const bool waited = wait_ms > 0 && left_of(end) < wait_ms - 2 * POLL_MS;
        if (!over && waited && !zrr_queue_waits(&what->cache, what->request)) {
            failed(what, reason, "another process tried to rewrite this module and left no result");
            over = true;
        }
        if (!over && !asked) over = !(asked = request(what, reason));
        if (!over && (locks.worker = zrr_queue_enter(&what->cache)) >= 0) {
            start(what, locks, wait_ms > 0 ? (left_of(end) > 1 ? left_of(end) : 1) : 0, reason);
            over = true;
        }
        if (locks.worker >= 0) close(locks.worker);
        close(locks.lock); /* not unlocked: a running child keeps it */
        if (over) return;
        const struct timespec pause = {0, 2 * POLL_MS * 1000000L};
        if (wait_ms > 0) nanosleep(&pause, NULL);
    } while (left_of(end) > 0);
    zrr_reason(reason, "the rewrite waits for others to be done; it serves a later load");
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

static void give_up(job *what, const char *reason) {
    const char *why = what->entry.kind == ZRR_UNCHANGED ? what->entry.note : reason;
    zrr_log(what->settings, ZRR_INFO, "%s: original module (%s, %zu bytes): %s", what->where, what->image.kind,
            what->image.size, why);
    zrr_cache_record(&what->cache, what->entry.kind == ZRR_UNCHANGED ? "unchanged" : "passed", what->request, why);
}

static void hand_over(job *what, zrr_replacement *out) {
    if (what->settings->dump_dir[0] != 0) {
        dump(what, strcmp(what->image.kind, "ptx") == 0 ? "original.ptx" : "original.fatbin", what->image.bytes,
             what->image.size);
        const bool fatbin = what->entry.size > 4 && memcmp(what->entry.payload, "\x50\xed\x55\xba", 4) == 0;
        dump(what, fatbin ? "rewritten.fatbin" : "rewritten.ptx", what->entry.payload, what->entry.size);
    }
    out->text = what->entry.payload;
    out->size = what->entry.size;
    out->job = what;
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
    what->ms = (double)(now_us() - began) / 1000;
    const bool replaced = what->entry.kind == ZRR_REPLACED;
    if (replaced)
        hand_over(what, out);
    else
        give_up(what, reason);
    return replaced;
}

static void release(job *what) {
    if (what != NULL && what->cache.folder >= 0) close(what->cache.folder);
    if (what != NULL) free(what->settings);
    free(what);
}

bool zrr_replace(const char *where, const void *image, size_t size, zrr_replacement *out) {
    const int error = errno;
    memset(out, 0, sizeof *out);
    job *what = calloc(1, sizeof *what);
    bool replaced = false;
    if (what != NULL) {
        what->where = where;
        what->cache.folder = -1;
        what->settings = zrr_settings_read();
        if (what->settings != NULL && strcmp(what->settings->enabled, "1") == 0)
            replaced = examine(what, image, size, out);
    }
    if (!replaced) release(what);
    errno = error;
    return replaced;
}

/* Texts that the driver was promised to keep finding, for the process's life. */
typedef struct kept {
    struct kept *next;
    char *text;
} kept;
static _Atomic(kept *) all_kept;

static void keep(char *text) {
    kept *node = malloc(sizeof *node);
    if (node == NULL) return; /* lost, but never freed */
    *node = (kept){atomic_load(&all_kept), text};
    while (!atomic_compare_exchange_weak(&all_kept, &node->next, node)) {
    }
}

void zrr_accepted(zrr_replacement *text, bool used) {
    const int error = errno;
    job *what = text->job;
    zrr_log(what->settings, ZRR_INFO, "%s: replaced %s (%zu bytes, %.1f ms)", what->where, what->entry.note,
            what->image.size, what->ms);
    zrr_cache_record(&what->cache, "replaced", what->request, what->entry.note);
    if (used)
        keep(text->text);
    else
        free(text->text);
    release(what);
    errno = error;
}

void zrr_rejected(zrr_replacement *text, int status, int original) {
    const int error = errno;
    job *what = text->job;
    char why[ZRR_REASON_BYTES];
    if (status == ZRR_NO_CALL)
        zrr_reason(why, "its library has no call for text in memory; original module");
    else if (original == 0)
        zrr_reason(why, "the real loader rejects the rewritten module (error %d); original module", status);
    else
        zrr_reason(why, "the real loader rejects the rewritten module (error %d), and the original (error %d)", status,
                   original);
    zrr_log(what->settings, ZRR_INFO, "%s: %s: %s", what->where, what->entry.note, why);
    zrr_cache_record(&what->cache, "rejected", what->request, why);
    free(text->text);
    release(what);
    errno = error;
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
