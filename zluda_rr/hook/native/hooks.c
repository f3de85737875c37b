/* The intercepted calls. One table says which; everything else goes to the real library untouched.
 *
 * A replaced module that the real loader rejects is followed by the original, so the caller only ever sees the answer to
 * one of the two. A text cannot be handed to cuModuleLoadFatBinary or to the calls that take a file name: there the call
 * for text in memory is used instead. */
#define _GNU_SOURCE
#include "zrr.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int result;    /* CUresult; 0 is success */
typedef void *handle;  /* CUmodule, CUlibrary */
enum { SUCCESS = 0, SYMBOL_NOT_FOUND = 302 /* CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND */ };
enum { BINARY_IS_PRESERVED = 1 /* CU_LIBRARY_BINARY_IS_PRESERVED: the driver keeps using the caller's bytes */ };

typedef result (*module_load_f)(handle *, const void *);
typedef result (*module_load_ex_f)(handle *, const void *, unsigned, int *, void **);
typedef result (*library_load_f)(handle *, const void *, int *, void **, unsigned, int *, void **, unsigned);
typedef result (*get_proc_f)(const char *, void **, int, uint64_t);
typedef result (*get_proc_v2_f)(const char *, void **, int, uint64_t, int *);
typedef void *(*dlsym_f)(void *, const char *);

ZRR_EXPORT result cuModuleLoad(handle *module, const char *path);
ZRR_EXPORT result cuModuleLoadData(handle *module, const void *image);
ZRR_EXPORT result cuModuleLoadDataEx(handle *module, const void *image, unsigned count, int *options, void **values);
ZRR_EXPORT result cuModuleLoadFatBinary(handle *module, const void *image);
ZRR_EXPORT result cuLibraryLoadData(handle *library, const void *image, int *jit, void **jit_values, unsigned jit_count,
                                    int *options, void **values, unsigned count);
ZRR_EXPORT result cuLibraryLoadFromFile(handle *library, const char *path, int *jit, void **jit_values,
                                        unsigned jit_count, int *options, void **values, unsigned count);
ZRR_EXPORT result cuGetProcAddress(const char *symbol, void **pointer, int version, uint64_t flags);
ZRR_EXPORT result cuGetProcAddress_v2(const char *symbol, void **pointer, int version, uint64_t flags, int *status);

enum hook { LOAD, LOAD_DATA, LOAD_DATA_EX, LOAD_FATBIN, LIBRARY_DATA, LIBRARY_FILE, GET_PROC, GET_PROC_V2, HOOKS };

typedef void (*function)(void);
static const struct {
    const char *name;
    function ours;
} hooks[HOOKS] = {
    [LOAD] = {"cuModuleLoad", (function)cuModuleLoad},
    [LOAD_DATA] = {"cuModuleLoadData", (function)cuModuleLoadData},
    [LOAD_DATA_EX] = {"cuModuleLoadDataEx", (function)cuModuleLoadDataEx},
    [LOAD_FATBIN] = {"cuModuleLoadFatBinary", (function)cuModuleLoadFatBinary},
    [LIBRARY_DATA] = {"cuLibraryLoadData", (function)cuLibraryLoadData},
    [LIBRARY_FILE] = {"cuLibraryLoadFromFile", (function)cuLibraryLoadFromFile},
    [GET_PROC] = {"cuGetProcAddress", (function)cuGetProcAddress},
    [GET_PROC_V2] = {"cuGetProcAddress_v2", (function)cuGetProcAddress_v2},
};

/* ISO C has no conversion between object and function pointers; dlsym's result is one all the same. */
ZRR_NO_SANITIZER static void *object_of(function f) {
    void *object = NULL;
    memcpy(&object, &f, sizeof object);
    return object;
}
#define CALL(type, object) (*(type *)&(void *){object})

static _Atomic(void *) known[HOOKS];   /* the decision of real() */
static _Atomic(void *) learned[HOOKS]; /* what the host was given before this library put its own in place */

ZRR_NO_SANITIZER static enum hook hook_of(const char *name) {
    enum hook index = LOAD;
    while (index < HOOKS && strcmp(hooks[index].name, name) != 0) ++index;
    return index;
}

/* glibc's own dlsym; a versioned look-up, since a plain one would find ours. */
ZRR_NO_SANITIZER static dlsym_f real_dlsym(void) {
    static _Atomic(void *) found;
    void *object = atomic_load(&found);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; object == NULL && i < sizeof versions / sizeof versions[0]; ++i)
        object = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    atomic_store(&found, object);
    return CALL(dlsym_f, object);
}

static void *look_in(void *library, const char *name, void *ours) {
    const dlsym_f look = real_dlsym();
    void *object = look != NULL && library != NULL ? look(library, name) : NULL;
    return object == ours ? NULL : object;
}

/* The function behind a hook: from the named library, else the one that the host was given, else the one behind this
 * library, else from the CUDA library that is or can be loaded. */
static void *real(enum hook index) {
    void *object = atomic_load(&known[index]);
    if (object != NULL) return object;
    const char *name = hooks[index].name;
    void *ours = object_of(hooks[index].ours);
    zrr_settings *settings = zrr_settings_read();
    if (settings != NULL && settings->cuda_lib[0] != 0) {
        object = look_in(dlopen(settings->cuda_lib, RTLD_LAZY | RTLD_LOCAL), name, ours);
        if (object == NULL)
            zrr_log(settings, ZRR_INFO, "ZLUDA_RR_CUDA_LIB %.200s: no %s there", settings->cuda_lib, name);
    }
    free(settings);
    if (object == NULL) object = atomic_load(&learned[index]);
    if (object == NULL) object = look_in(RTLD_NEXT, name, ours);
    if (object == NULL) object = look_in(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD), name, ours);
    if (object == NULL) object = look_in(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), name, ours);
    if (object != NULL) atomic_store(&known[index], object);
    return object;
}

ZRR_NO_SANITIZER static void learn(enum hook index, void *object) {
    void *none = NULL;
    if (object != object_of(hooks[index].ours)) atomic_compare_exchange_strong(&learned[index], &none, object);
}

static void rejected(const char *where, result status) {
    zrr_settings *settings = zrr_settings_read();
    if (settings != NULL)
        zrr_log(settings, ZRR_INFO, "%s: the real loader rejects the rewritten module (error %d); original module", where,
                status);
    free(settings);
}

/* ---- modules ---- */

/* True when the rewritten text was loaded. */
static bool load_text(const char *where, handle *module, zrr_replacement *text) {
    void *next = real(LOAD_DATA);
    const result status = next != NULL ? CALL(module_load_f, next)(module, text->text) : SYMBOL_NOT_FOUND;
    if (status != SUCCESS) rejected(where, status);
    free(text->text);
    return status == SUCCESS;
}

result cuModuleLoad(handle *module, const char *path) {
    zrr_replacement text;
    if (zrr_replace_file(hooks[LOAD].name, path, &text) && load_text(hooks[LOAD].name, module, &text)) return SUCCESS;
    void *next = real(LOAD);
    return next != NULL ? CALL(module_load_f, next)(module, path) : SYMBOL_NOT_FOUND;
}

static result load_image(enum hook index, handle *module, const void *image) {
    zrr_replacement text;
    if (zrr_replace(hooks[index].name, image, 0, &text) && load_text(hooks[index].name, module, &text)) return SUCCESS;
    void *next = real(index);
    return next != NULL ? CALL(module_load_f, next)(module, image) : SYMBOL_NOT_FOUND;
}

result cuModuleLoadData(handle *module, const void *image) { return load_image(LOAD_DATA, module, image); }

result cuModuleLoadFatBinary(handle *module, const void *image) { return load_image(LOAD_FATBIN, module, image); }

result cuModuleLoadDataEx(handle *module, const void *image, unsigned count, int *options, void **values) {
    void *next = real(LOAD_DATA_EX);
    if (next == NULL) return SYMBOL_NOT_FOUND;
    zrr_replacement text;
    if (zrr_replace(hooks[LOAD_DATA_EX].name, image, 0, &text)) {
        const result status = CALL(module_load_ex_f, next)(module, text.text, count, options, values);
        free(text.text);
        if (status == SUCCESS) return status;
        rejected(hooks[LOAD_DATA_EX].name, status);
    }
    return CALL(module_load_ex_f, next)(module, image, count, options, values);
}

/* ---- libraries ---- */

/* Texts that the driver was promised to keep finding, for the process's life. */
typedef struct kept {
    struct kept *next;
    char *text;
} kept;
static _Atomic(kept *) all_kept;

static bool preserved(const int *options, unsigned count) {
    for (unsigned i = 0; options != NULL && i < count; ++i)
        if (options[i] == BINARY_IS_PRESERVED) return true;
    return false;
}

static void release(char *text, bool keep) {
    kept *node = keep ? malloc(sizeof *node) : NULL;
    if (node != NULL) {
        *node = (kept){atomic_load(&all_kept), text};
        while (!atomic_compare_exchange_weak(&all_kept, &node->next, node)) {
        }
    } else if (!keep) {
        free(text);
    }
}

result cuLibraryLoadData(handle *library, const void *image, int *jit, void **jit_values, unsigned jit_count,
                         int *options, void **values, unsigned count) {
    void *next = real(LIBRARY_DATA);
    if (next == NULL) return SYMBOL_NOT_FOUND;
    const library_load_f load = CALL(library_load_f, next);
    zrr_replacement text;
    if (zrr_replace(hooks[LIBRARY_DATA].name, image, 0, &text)) {
        const result status = load(library, text.text, jit, jit_values, jit_count, options, values, count);
        release(text.text, status == SUCCESS && preserved(options, count));
        if (status == SUCCESS) return status;
        rejected(hooks[LIBRARY_DATA].name, status);
    }
    return load(library, image, jit, jit_values, jit_count, options, values, count);
}

result cuLibraryLoadFromFile(handle *library, const char *path, int *jit, void **jit_values, unsigned jit_count,
                             int *options, void **values, unsigned count) {
    zrr_replacement text;
    if (zrr_replace_file(hooks[LIBRARY_FILE].name, path, &text)) {
        void *next = real(LIBRARY_DATA);
        const result status =
            next == NULL ? SYMBOL_NOT_FOUND
                         : CALL(library_load_f, next)(library, text.text, jit, jit_values, jit_count, options, values,
                                                      count);
        release(text.text, status == SUCCESS && preserved(options, count));
        if (status == SUCCESS) return status;
        rejected(hooks[LIBRARY_FILE].name, status);
    }
    void *next = real(LIBRARY_FILE);
    if (next == NULL) return SYMBOL_NOT_FOUND;
    return CALL(library_load_f, next)(library, path, jit, jit_values, jit_count, options, values, count);
}

/* ---- looking functions up ---- */

/* The driver was asked for `symbol`: hand out ours, and keep what it gave. */
static void substitute(const char *symbol, void **pointer, int version) {
    if (symbol == NULL || pointer == NULL || *pointer == NULL) return;
    enum hook index = hook_of(symbol);
    if (index == GET_PROC && version >= 12000) index = GET_PROC_V2; /* that version's cuGetProcAddress has five arguments */
    if (index == HOOKS) return;
    learn(index, *pointer);
    *pointer = object_of(hooks[index].ours);
}

result cuGetProcAddress(const char *symbol, void **pointer, int version, uint64_t flags) {
    void *next = real(GET_PROC);
    if (next == NULL) return SYMBOL_NOT_FOUND;
    const result status = CALL(get_proc_f, next)(symbol, pointer, version, flags);
    if (status == SUCCESS) substitute(symbol, pointer, version);
    return status;
}

result cuGetProcAddress_v2(const char *symbol, void **pointer, int version, uint64_t flags, int *found) {
    void *next = real(GET_PROC_V2);
    if (next == NULL) return SYMBOL_NOT_FOUND;
    const result status = CALL(get_proc_v2_f, next)(symbol, pointer, version, flags, found);
    if (status == SUCCESS) substitute(symbol, pointer, version);
    return status;
}

#ifndef ZRR_PROXY
/* dlsym for LD_PRELOAD: ours for the table's names where the library has them. Any other name is passed on by a jump, so
 * that RTLD_NEXT still means "behind the caller". */
ZRR_EXPORT ZRR_NO_SANITIZER void *dlsym(void *restrict library, const char *restrict name) {
    const dlsym_f look = real_dlsym();
    if (look == NULL) return NULL;
    const enum hook index = name[0] == 'c' && name[1] == 'u' ? hook_of(name) : HOOKS;
    if (index == HOOKS) {
#if defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
        __attribute__((musttail))
#endif
        return look(library, name);
    }
    void *object = look(library, name);
    if (object == NULL) return NULL;
    learn(index, object);
    return object_of(hooks[index].ours);
}
#endif

/* ---- for a patched ZLUDA ---- */

ZRR_EXPORT int zluda_rr_transform(const char *ptx, size_t size, char **out, size_t *out_size);
ZRR_EXPORT int zluda_rr_bodies(const char *ptx, size_t size, char **paths);
ZRR_EXPORT void zluda_rr_free(char *text);

/* 1: `*out` holds the PTX to compile in place of `ptx`, with a NUL behind its `*out_size` bytes; give it to
 * zluda_rr_free. 0: use `ptx`. `size` 0: the text ends at its NUL. */
int zluda_rr_transform(const char *ptx, size_t size, char **out, size_t *out_size) {
    zrr_replacement text;
    if (out == NULL || !zrr_replace("zluda_rr_transform", ptx, size, &text)) return 0;
    *out = text.text;
    if (out_size != NULL) *out_size = text.size;
    return 1;
}

/* Of a text that zluda_rr_transform gave: 1: link the bitcode in the files at `*paths`, one path a line; give it to
 * zluda_rr_free. 0: nothing to link. -1: compile the original. */
int zluda_rr_bodies(const char *ptx, size_t size, char **paths) {
    return ptx == NULL || paths == NULL ? -1 : zrr_bodies(ptx, size, paths);
}

void zluda_rr_free(char *text) { free(text); }
