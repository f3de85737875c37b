/* libzluda_rr: internal interfaces. C11, libc and libdl only. Nothing here aborts, throws or leaves the caller without
 * an answer: every function that can fail says why, and the original module then goes to the real loader. */
#ifndef ZRR_H
#define ZRR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ZRR_EXPORT __attribute__((visibility("default")))
#define ZRR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define ZRR_SYMBOL_NOT_FOUND 302 /* CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND */
#define ZRR_NO_CALL (-1)         /* in place of the driver's answer: its library has no call for text in memory */
#define ZRR_NOTE_BYTES 480
#define ZRR_REASON_BYTES 256
/* For code that runs before a sanitizer's runtime is ready, or on a stack that it does not know. */
#define ZRR_NO_SANITIZER __attribute__((no_sanitize("address"), no_sanitize("undefined")))
/* Modules larger than this pass untouched; the largest known one is under 3 MB. */
#define ZRR_MAX_IMAGE ((size_t)64 << 20)
#define ZRR_KEY_CHARS 49 /* 32 hex digits, '-', 16 hex digits */

/* ---- settings.c ---- */

#define ZRR_VALUE_BYTES 1024

typedef struct {
#define OPTION(field, variable, kind, choices, initial, meaning) char field[ZRR_VALUE_BYTES];
#include "options.def"
#undef OPTION
} zrr_settings;

/* Environment over config.toml over defaults. NULL when memory is short; free() the result. */
zrr_settings *zrr_settings_read(void);
bool zrr_cache_path(const zrr_settings *settings, char *path, size_t size);
/* "NAME=ABSOLUTE PATH" where the environment has a relative one in this XDG variable, as seen at the start; else NULL. */
const char *zrr_absolute_xdg(const char *variable);

/* ---- log.c ---- */

enum zrr_level { ZRR_INFO = 1, ZRR_DEBUG = 2 };
void zrr_log(const zrr_settings *settings, enum zrr_level level, const char *format, ...) ZRR_PRINTF(3, 4);
/* Looks at the standard error output; `first`: before the host can have closed it. */
void zrr_log_start(bool first);
void zrr_reason(char *reason, const char *format, ...) ZRR_PRINTF(2, 3); /* ZRR_REASON_BYTES */
bool zrr_write_all(int fd, const void *bytes, size_t size);

/* ---- hash.c: MurmurHash3 x64 128, seed 0 (public domain algorithm) ---- */

typedef struct {
    uint64_t low, high;
} zrr_hash;

zrr_hash zrr_hash_bytes(const void *bytes, size_t size);
void zrr_hash_hex(zrr_hash hash, char text[33]);
static inline bool zrr_hash_equal(zrr_hash a, zrr_hash b) { return a.low == b.low && a.high == b.high; }

/* ---- image.c ---- */

/* The bytes behind a loader's untyped pointer. NULL `bytes`: not a module this library works on, `reason` says why. */
typedef struct {
    const unsigned char *bytes;
    size_t size;
    const char *kind; /* "ptx" or "fatbin" */
    char reason[ZRR_REASON_BYTES];
} zrr_image;

/* `size` 0: unknown, found from the image itself and checked to be readable. */
zrr_image zrr_image_examine(const void *image, size_t size);
bool zrr_readable(const void *bytes, size_t size);

/* ---- tool.c: the record of the Python side: fingerprint, program, layers ---- */

typedef struct {
    bool valid;
    char fingerprint[33];
    char command[1024];
    char layers[512];
} zrr_tool;

zrr_tool zrr_tool_read(int folder);

/* ---- cache.c ---- */

typedef struct {
    int folder; /* directory descriptor, -1 when unusable */
    char path[1200];
    char reason[ZRR_REASON_BYTES];
} zrr_cache;

enum zrr_entry_kind { ZRR_MISSING = 0, ZRR_REPLACED = 1, ZRR_UNCHANGED = 2 };

typedef struct {
    enum zrr_entry_kind kind;
    char *payload; /* ends in NUL; malloc */
    size_t size;   /* without the NUL */
    char note[ZRR_NOTE_BYTES];
    char dropped[ZRR_REASON_BYTES]; /* why a corrupt entry was removed, else empty */
} zrr_entry;

zrr_cache zrr_cache_open(const zrr_settings *settings, bool create);
/* `fingerprint` "" gives the key of locks and requests, which a new version of the tool does not change. */
void zrr_cache_key(zrr_hash image, const zrr_settings *settings, const char *fingerprint, char key[ZRR_KEY_CHARS + 1]);
zrr_entry zrr_cache_read(const zrr_cache *cache, const char *key, zrr_hash image, size_t image_size);
bool zrr_cache_request(const zrr_cache *cache, const char *key, const zrr_image *image, char *reason);
void zrr_cache_record(const zrr_cache *cache, const char *event, const char *key, const char *note);
bool zrr_read_exactly(int fd, char *out, size_t size);
void zrr_process_name(char *name, size_t size);

/* ---- bodies.c ---- */

/* 1: `*paths` names the files of bitcode that the text needs, one a line; free() it. 0: it needs none. -1: they are not
 * there, or not sound, and the log says why. `size` 0: the text ends at its NUL. */
int zrr_bodies(const char *ptx, size_t size, char **paths);

/* ---- child.c ---- */

/* Descriptors that a rewriter inherits: the module's lock, a pipe that ends with it, its place among the rewriters. */
typedef struct {
    int lock, worker;
} zrr_locks;

/* Run `program hook-child FOLDER KEY` with nothing of the host's: no descriptors, no signal masks or handlers, no
 * SIGCHLD. The child keeps `locks` (open file descriptions) until it ends. Waits up to `wait_ms` for its end. */
bool zrr_child_run(const char *program, const zrr_cache *cache, const char *key, zrr_locks locks, int wait_ms, char *reason);

/* ---- program.c ---- */

/* The absolute path of a program that can be executed, or a reason. */
bool zrr_program_find(const char *name, char *path, size_t size, char *reason);

/* ---- queue.c ---- */

/* A place among the rewriters that run at a time; -1: all are taken. */
int zrr_queue_enter(const zrr_cache *cache);
/* Put the module into the queue; `before` is how the last rewrite of it failed, else empty. */
bool zrr_queue_ask(const zrr_cache *cache, const char *key, const zrr_image *image, char *before, char *reason);
/* It is in the queue, and nobody has begun with it. */
bool zrr_queue_waits(const zrr_cache *cache, const char *key);
/* Whether this process has put the module into the queue before; to remember that it has. False: too many by now. */
bool zrr_queue_asked(zrr_hash image);
bool zrr_queue_note(zrr_hash image, char *reason);
/* What the last rewriter of this module left in `KEY.err`: its exit status and its last words. Empty: nothing. */
void zrr_queue_failure(const zrr_cache *cache, const char *key, char *text);

/* ---- replace.c ---- */

typedef struct {
    char *text; /* PTX, or a fatbin for a fatbin; a NUL behind it; free() */
    size_t size;
    struct zrr_job *job;
} zrr_replacement;

/* What to load instead of `image`; false: load the image itself. Never fails otherwise. `where` names the call. What was
 * replaced is settled by one of the two functions below, which logs the loader's answer and frees everything. */
bool zrr_replace(const char *where, const void *image, size_t size, zrr_replacement *out);
bool zrr_replace_file(const char *where, const char *path, zrr_replacement *out);
void zrr_accepted(zrr_replacement *text, bool keep); /* `keep`: the loader goes on reading the text */
void zrr_rejected(zrr_replacement *text, int status, int original);

/* ---- arguments.c ---- */

typedef struct {
    void *place, *bytes;
    size_t size;
} zrr_saved;

typedef struct {
    unsigned count;
    void **caller, **trial; /* `trial` goes to the loader */
    zrr_saved saved[2];     /* the caller's buffers for text */
} zrr_values;

/* `options` NULL: the values belong to no options of the compiler. False: no memory. */
bool zrr_values_copy(zrr_values *what, const int *options, void **values, unsigned count);
void zrr_values_settle(zrr_values *what, bool accepted);

/* ---- start.c ---- */

/* Something of the host's passes the hook by: one line of the log and of the runs for each name. */
void zrr_bypassed(const char *what, const char *name, const char *how);
void zrr_remember_start(void); /* symbols.c */

#endif
