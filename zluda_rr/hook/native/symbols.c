/* How a program comes by the intercepted functions: dlsym and cuGetProcAddress; and what passes them by: dlopen with
 * RTLD_DEEPBIND and dlmopen. Everything that is not ours goes on by a jump, so that the real function sees its caller:
 * RTLD_NEXT means "behind the caller", and a library is looked for in its caller's RUNPATH. */
#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <stdatomic.h>

/* The driver was asked for `symbol`: hand out an entry for what it gave. */
static void substitute(const char *symbol, void **pointer, int version, void *driver) {
    if (symbol == NULL || pointer == NULL || *pointer == NULL) return;
    enum hook kind = zrr_hook_of(symbol);
    if (kind == GET_PROC && version >= 12000) kind = GET_PROC_V2; /* that version's cuGetProcAddress has five arguments */
    if (kind == HOOKS) return;
    /* A library that takes the address of its own function gets ours, which stands before it. */
    void *object = *pointer == zrr_exported(kind) ? zrr_behind(kind, driver) : *pointer;
    if (object != NULL) *pointer = zrr_handed_out(kind, object);
}

typedef result (*get_proc_f)(const char *, void **, int, uint64_t);
typedef result (*get_proc_v2_f)(const char *, void **, int, uint64_t, int *);

result zrr_cuGetProcAddress(const char *symbol, void **pointer, int version, uint64_t flags) {
    void *real = zrr_called;
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    const result status = ZRR_CALL(get_proc_f, real)(symbol, pointer, version, flags);
    if (status == 0) substitute(symbol, pointer, version, real);
    return status;
}

result zrr_cuGetProcAddress_v2(const char *symbol, void **pointer, int version, uint64_t flags, int *found) {
    void *real = zrr_called;
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    const result status = ZRR_CALL(get_proc_v2_f, real)(symbol, pointer, version, flags, found);
    if (status == 0) substitute(symbol, pointer, version, real);
    return status;
}

#ifndef ZRR_PROXY

/* ---- RTLD_NEXT. The loader's list begins with the libraries of the start, in the order of the global scope. ---- */

static _Atomic(struct link_map *) last_of_start;

ZRR_NO_SANITIZER static struct link_map *end_of_start(struct link_map *own) {
    struct link_map *last = atomic_load(&last_of_start);
    if (last == NULL) {
        for (last = own; last->l_next != NULL;) last = last->l_next;
        atomic_store(&last_of_start, last);
    }
    return last;
}

void zrr_remember_start(void) { end_of_start(zrr_map_of(zrr_exported(LOAD))); }

/* Whether `later` comes behind `map`, up to the last library of the start. */
ZRR_NO_SANITIZER static bool follows(const struct link_map *map, const struct link_map *later, const struct link_map *last) {
    while (map != last && map != NULL && map != later) map = map->l_next;
    return map == later;
}

ZRR_NO_SANITIZER static void *in_map(struct link_map *map, enum hook kind) {
    if (map->l_name == NULL || map->l_name[0] == 0) return NULL;
    void *library = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void *object = library != NULL ? zrr_real_dlsym()(library, zrr_hook_name(kind)) : NULL;
    if (library != NULL) dlclose(library);
    return object != NULL && zrr_map_of(object) == map ? object : NULL;
}

/* False: the question passes this library by, and glibc answers it. Else `*object`, or NULL for nothing there. */
ZRR_NO_SANITIZER static bool look_next(enum hook kind, const void *caller, void **object) {
    struct link_map *own = zrr_map_of(zrr_exported(kind)), *from = zrr_map_of(caller), *first = own;
    while (first->l_prev != NULL) first = first->l_prev;
    if (from == NULL) from = first; /* as glibc takes it: code from nowhere is the program's */
    struct link_map *last = end_of_start(own);
    *object = zrr_real_dlsym()(RTLD_NEXT, zrr_hook_name(kind)); /* behind this library */
    if (follows(first, from, own)) {
        for (struct link_map *map = from->l_next; map != own && map != NULL; map = map->l_next) {
            void *between = in_map(map, kind);
            if (between != NULL) *object = between;
            if (between != NULL) break;
        }
        return true;
    }
    if (*object == NULL || !follows(own, from, last)) return false;
    struct link_map *found = zrr_map_of(*object);
    return found != from && (follows(from, found, last) || !follows(first, found, last));
}

ZRR_NO_SANITIZER static bool look_up(void *library, enum hook kind, const void *caller, void **object) {
    const zrr_dlsym_f look = zrr_real_dlsym();
    const char *name = zrr_hook_name(kind);
    if (library == RTLD_NEXT) {
        if (!look_next(kind, caller, object)) return false;
    } else {
        *object = look(library, name);
        if (*object == NULL) return true;
        if (*object == zrr_exported(kind)) { /* the global scope, where this library stands first */
            *object = look(RTLD_NEXT, name);
            if (*object == NULL && library == RTLD_DEFAULT) *object = zrr_behind(kind, caller);
        }
    }
    if (*object == NULL) return look(RTLD_NEXT, name) == NULL; /* dlerror tells of it */
    *object = zrr_handed_out(kind, *object);
    dlerror(); /* and not of what was tried on the way */
    return true;
}

#if defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define JUMP __attribute__((musttail))
#else
#define JUMP
#endif

ZRR_EXPORT ZRR_NO_SANITIZER void *dlsym(void *restrict library, const char *restrict name) {
    const zrr_dlsym_f look = zrr_real_dlsym();
    if (look == NULL) return NULL;
    const enum hook kind = name[0] == 'c' && name[1] == 'u' ? zrr_hook_of(name) : HOOKS;
    void *object = NULL;
    if (kind != HOOKS && look_up(library, kind, __builtin_return_address(0), &object)) return object;
    JUMP return look(library, name);
}

typedef void *(*dlopen_f)(const char *, int);
typedef void *(*dlmopen_f)(Lmid_t, const char *, int);

ZRR_NO_SANITIZER static void *next_opener(_Atomic(void *) *known, const char *name) {
    void *object = atomic_load(known);
    if (object == NULL) atomic_store(known, object = zrr_next_version(name));
    return object;
}

ZRR_EXPORT ZRR_NO_SANITIZER void *dlopen(const char *file, int mode) {
    static _Atomic(void *) known;
    const dlopen_f open = ZRR_CALL(dlopen_f, next_opener(&known, "dlopen"));
    if ((mode & RTLD_DEEPBIND) != 0 && file != NULL)
        zrr_bypassed("RTLD_DEEPBIND", file, "opened with RTLD_DEEPBIND, so its own calls of CUDA do not pass the hook");
    JUMP return open(file, mode);
}

ZRR_EXPORT ZRR_NO_SANITIZER void *dlmopen(Lmid_t space, const char *file, int mode) {
    static _Atomic(void *) known;
    const dlmopen_f open = ZRR_CALL(dlmopen_f, next_opener(&known, "dlmopen"));
    if (space == LM_ID_NEWLM && file != NULL)
        zrr_bypassed("dlmopen", file, "opened in a namespace of its own, so its own calls of CUDA do not pass the hook");
    JUMP return open(space, file, mode);
}

#endif
