/* Once a process: the hook says that it is there, and what stands before it. */
#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One line of the log, and one of the runs where there is a cache already. */
static void tell(const char *event, const char *what, const char *text) {
    const int error = errno;
    zrr_settings *settings = zrr_settings_read();
    if (settings != NULL && strcmp(settings->enabled, "1") == 0 && strcmp(settings->log, "off") != 0) {
        zrr_log(settings, ZRR_INFO, "%s", text);
        zrr_cache *cache = malloc(sizeof *cache);
        if (cache != NULL) {
            *cache = zrr_cache_open(settings, false);
            if (cache->folder >= 0) {
                zrr_cache_record(cache, event, what, text);
                close(cache->folder);
            }
        }
        free(cache);
    }
    free(settings);
    errno = error;
}

void zrr_bypassed(const char *what, const char *name, const char *how) {
    enum { MOST = 16 };
    static _Atomic(uint64_t) told[MOST];
    char text[ZRR_REASON_BYTES];
    const char *base = strrchr(name, '/'); /* the end of a long path says more than its beginning */
    snprintf(text, sizeof text, "%.120s: %s", strlen(name) > 120 && base != NULL ? base + 1 : name, how);
    const uint64_t hash = zrr_hash_bytes(text, strlen(text)).low | 1;
    for (int i = 0; i < MOST; ++i) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&told[i], &none, hash)) {
            tell("bypass", what, text);
            return;
        }
        if (none == hash) return;
    }
}

#ifndef ZRR_PROXY
static void name_interposer(void) {
    Dl_info first, own;
    const zrr_dlsym_f look = zrr_real_dlsym();
    void *found = look != NULL ? look(RTLD_DEFAULT, "dlsym") : NULL;
    if (found == NULL || dladdr(found, &first) == 0 || dladdr(zrr_exported(LOAD), &own) == 0) return;
    if (first.dli_fbase != own.dli_fbase && first.dli_fname != NULL)
        zrr_bypassed("dlsym", first.dli_fname, "its dlsym comes first, and what it hands out itself does not pass the hook");
}
#endif

/* Whether this library came with the program, by LD_PRELOAD, and not later, as a patched ZLUDA opens it. */
static bool came_first(void) {
#ifdef ZRR_PROXY
    return false;
#else
    const zrr_dlsym_f look = zrr_real_dlsym();
    return look != NULL && look(RTLD_DEFAULT, "zluda_rr_transform") != NULL;
#endif
}

__attribute__((constructor)) static void start(void) {
    Dl_info own = {0};
    char text[ZRR_REASON_BYTES], program[32];
    const bool first = came_first();
    zrr_log_start(first);
    zrr_process_name(program, sizeof program);
    if (dladdr(zrr_exported(LOAD), &own) == 0 || own.dli_fname == NULL) own.dli_fname = "?";
    const char *base = strrchr(own.dli_fname, '/');
    snprintf(text, sizeof text, "hook %s is loaded into %s", base != NULL ? base + 1 : own.dli_fname, program);
    tell("loaded", "-", text);
#ifndef ZRR_PROXY
    zrr_remember_start();
    if (first) name_interposer();
#endif
}
