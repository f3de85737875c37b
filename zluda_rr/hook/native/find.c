/* Where the real functions are: what the caller would have reached if this library were not there. Nothing is kept that
 * a closed library could leave stale. */
#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* glibc's own function, or that of another library that interposes it behind this one; a versioned look-up, since a
 * plain one would find ours. */
ZRR_NO_SANITIZER void *zrr_next_version(const char *name) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *object = NULL;
    for (size_t i = 0; object == NULL && i < sizeof versions / sizeof versions[0]; ++i)
        object = dlvsym(RTLD_NEXT, name, versions[i]);
    return object;
}

ZRR_NO_SANITIZER zrr_dlsym_f zrr_real_dlsym(void) {
    static _Atomic(void *) found;
    void *object = atomic_load(&found);
    if (object == NULL) atomic_store(&found, object = zrr_next_version("dlsym"));
    return ZRR_CALL(zrr_dlsym_f, object);
}

ZRR_NO_SANITIZER struct link_map *zrr_map_of(const void *address) {
    Dl_info about;
    void *map = NULL;
    return dladdr1(address, &about, &map, RTLD_DL_LINKMAP) != 0 ? map : NULL;
}

/* A reference on a loaded library, in whichever namespace it is. */
static void *open_map(struct link_map *map) {
    Lmid_t space = LM_ID_BASE;
    if (map == NULL || map->l_name == NULL || map->l_name[0] == 0) return NULL;
    if (dlinfo(map, RTLD_DI_LMID, &space) != 0) return NULL;
    return dlmopen(space, map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

static void *look_in(void *library, enum hook kind) {
    const zrr_dlsym_f look = zrr_real_dlsym();
    void *object = look != NULL && library != NULL ? look(library, zrr_hook_name(kind)) : NULL;
    return object == zrr_exported(kind) ? NULL : object;
}

/* The library that ZLUDA_RR_CUDA_LIB names, which stays open; what is not in it is looked for elsewhere. */
static void *look_in_named(const zrr_settings *settings, enum hook kind) {
    static _Atomic(void *) opened;
    static atomic_int complained;
    if (settings->cuda_lib[0] == 0) return NULL;
    void *library = atomic_load(&opened);
    if (library == NULL) atomic_store(&opened, library = dlopen(settings->cuda_lib, RTLD_LAZY | RTLD_LOCAL));
    void *object = look_in(library, kind);
    if (object == NULL && (atomic_fetch_or(&complained, 1 << kind) & 1 << kind) == 0)
        zrr_log(settings, ZRR_INFO, "ZLUDA_RR_CUDA_LIB %.200s: no %s there", settings->cuda_lib, zrr_hook_name(kind));
    return object;
}

static void *look_in_map(struct link_map *map, enum hook kind) {
    void *library = open_map(map), *object = look_in(library, kind);
    if (library != NULL) dlclose(library);
    return object;
}

void *zrr_behind(enum hook kind, const void *caller) {
    void *object = NULL;
#ifdef ZRR_PROXY
    /* The one that this library was put in front of, whatever else follows in the loader's order. */
    void *library = dlopen("libzluda_rr_real.so", RTLD_LAZY | RTLD_NOLOAD);
    object = look_in(library, kind);
    if (library != NULL) dlclose(library);
#endif
    if (object == NULL) object = look_in(RTLD_NEXT, kind); /* the global scope */
    if (object == NULL) object = look_in_map(zrr_map_of(caller), kind); /* the caller's own */
    return object;
}

static void *find(enum hook kind, const void *caller) {
    zrr_settings *settings = zrr_settings_read();
    void *object = settings != NULL ? look_in_named(settings, kind) : NULL;
    free(settings);
    if (object == NULL) object = zrr_behind(kind, caller);
    /* These stay open: the caller has no reference of its own. */
    if (object == NULL) object = look_in(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD), kind);
    if (object == NULL) object = look_in(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), kind);
    return object;
}

/* ---- What a place in the program reaches by name is bound once, as the dynamic linker does it, and asked again only when
 * some library was closed since: a look-up takes the loader's lock, which a call of the driver does not. ---- */

enum { SITES = 64 };
static struct {
    _Atomic(const void *) caller;
    atomic_ullong closed; /* the count of closed libraries for which `real` holds, plus one; 0: none */
    _Atomic(void *) real;
} sites[HOOKS][SITES];

static int count_closed(struct dl_phdr_info *info, size_t size, void *count) {
    (void)size;
    *(unsigned long long *)count = info->dlpi_subs + 1;
    return 1;
}

static int site_of(enum hook kind, const void *caller) {
    for (int site = 0; site < SITES; ++site) {
        const void *none = NULL;
        if (atomic_compare_exchange_strong(&sites[kind][site].caller, &none, caller) || none == caller) return site;
    }
    return -1;
}

void *zrr_real(enum hook kind, const void *caller) {
    unsigned long long closed = 0;
    dl_iterate_phdr(count_closed, &closed);
    const int site = site_of(kind, caller);
    if (site >= 0 && atomic_load(&sites[kind][site].closed) == closed) {
        void *real = atomic_load(&sites[kind][site].real);
        if (atomic_load(&sites[kind][site].closed) == closed) return real;
    }
    const int error = errno;
    void *real = find(kind, caller);
    errno = error;
    if (site >= 0 && real != NULL) {
        atomic_store(&sites[kind][site].closed, 0);
        atomic_store(&sites[kind][site].real, real);
        atomic_store(&sites[kind][site].closed, closed);
    }
    return real;
}

void *zrr_partner(enum hook kind, void *real, void **library) {
    *library = open_map(zrr_map_of(real));
    return look_in(*library, kind);
}

void *zrr_handed_out(enum hook kind, void *real) {
    const int error = errno;
    zrr_settings *settings = zrr_settings_read();
    void *object = settings != NULL ? look_in_named(settings, kind) : NULL;
    if (object == NULL) object = real;
    const bool on = settings != NULL && strcmp(settings->enabled, "1") == 0;
    /* A driver's cuGetProcAddress may hand out our exported functions, which stand before its own; that is put right too. */
    void *entry = on || kind == GET_PROC || kind == GET_PROC_V2 ? zrr_bind(kind, object) : object;
    if (entry == NULL && on) zrr_log(settings, ZRR_INFO, "%s: more CUDA libraries than can be told apart", zrr_hook_name(kind));
    free(settings);
    errno = error;
    return entry != NULL ? entry : object;
}
