/* The intercepted calls: what each does with a module, given the real function that its caller would have reached.
 *
 * A replaced module that the real loader rejects is followed by the original, so the caller only ever sees the answer to
 * one of the two. A text cannot be handed to cuModuleLoadFatBinary or to the calls that take a file name: there the call
 * for text in memory, of the same library, is used instead. */
#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SUCCESS = 0 };
enum { BINARY_IS_PRESERVED = 1 /* CU_LIBRARY_BINARY_IS_PRESERVED: the driver keeps using the caller's bytes */ };
enum { INPUT_PTX = 1, INPUT_FATBINARY = 2 }; /* CUjitInputType */

typedef result (*module_load_f)(handle *, const void *);
typedef result (*module_load_ex_f)(handle *, const void *, unsigned, int *, void **);
typedef result (*library_load_f)(handle *, const void *, int *, void **, unsigned, int *, void **, unsigned);
typedef result (*link_data_f)(handle, int, void *, size_t, const char *, unsigned, int *, void **);
typedef result (*link_file_f)(handle, int, const char *, unsigned, int *, void **);

/* A library may come by one call through another, or be a shim in front of the next one: only the outermost call counts. */
static __thread int depth __attribute__((tls_model("initial-exec")));

static bool replace(enum hook kind, const void *image, zrr_replacement *text) {
    return depth == 0 && zrr_replace(zrr_hook_name(kind), image, 0, text);
}

static bool replace_file(enum hook kind, const char *path, zrr_replacement *text) {
    return depth == 0 && zrr_replace_file(zrr_hook_name(kind), path, text);
}

/* ---- modules ---- */

static result load(void *real, handle *module, const void *image) {
    ++depth;
    const result status = ZRR_CALL(module_load_f, real)(module, image);
    --depth;
    return status;
}

/* A rewritten text in place of a file or fatbin; true when it was loaded. */
static bool load_text(zrr_replacement *text, enum hook kind, handle *module, void *real, result *status) {
    void *library = NULL, *next = kind == LOAD_DATA ? real : zrr_partner(LOAD_DATA, real, &library);
    *status = next != NULL ? load(next, module, text->text) : ZRR_NO_CALL;
    if (*status == SUCCESS) zrr_accepted(text, false);
    if (library != NULL) dlclose(library);
    return *status == SUCCESS;
}

static result load_module(enum hook kind, handle *module, const void *image, void *real) {
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    zrr_replacement text;
    result status = SUCCESS;
    const bool rewritten = kind == LOAD ? replace_file(kind, image, &text) : replace(kind, image, &text);
    if (rewritten && load_text(&text, kind, module, real, &status)) return SUCCESS;
    const result original = load(real, module, image);
    if (rewritten) zrr_rejected(&text, status, original);
    return original;
}

result zrr_cuModuleLoad(handle *module, const char *path) { return load_module(LOAD, module, path, zrr_called); }

result zrr_cuModuleLoadData(handle *module, const void *image) {
    void *real = zrr_called;
    return load_module(LOAD_DATA, module, image, real);
}

result zrr_cuModuleLoadFatBinary(handle *module, const void *image) {
    void *real = zrr_called;
    return load_module(LOAD_FATBIN, module, image, real);
}

static result load_ex(void *real, handle *module, const void *image, unsigned count, int *options, void **values) {
    ++depth;
    const result status = ZRR_CALL(module_load_ex_f, real)(module, image, count, options, values);
    --depth;
    return status;
}

result zrr_cuModuleLoadDataEx(handle *module, const void *image, unsigned count, int *options, void **values) {
    void *real = zrr_called;
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    zrr_replacement text;
    if (!replace(LOAD_DATA_EX, image, &text)) return load_ex(real, module, image, count, options, values);
    zrr_values trial;
    result status = ZRR_SYMBOL_NOT_FOUND;
    if (zrr_values_copy(&trial, options, values, count)) {
        status = load_ex(real, module, text.text, count, options, trial.trial);
        zrr_values_settle(&trial, status == SUCCESS);
    }
    if (status == SUCCESS) return zrr_accepted(&text, false), status;
    const result original = load_ex(real, module, image, count, options, values);
    zrr_rejected(&text, status, original);
    return original;
}

/* ---- libraries ---- */

typedef struct {
    handle *library;
    int *jit;
    void **jit_values;
    unsigned jit_count;
    int *options;
    void **values;
    unsigned count;
} request;

static bool preserved(const request *what) {
    for (unsigned i = 0; what->options != NULL && i < what->count; ++i)
        if (what->options[i] == BINARY_IS_PRESERVED) return true;
    return false;
}

static result load_library(void *real, const request *what, const void *image) {
    ++depth;
    const result status = ZRR_CALL(library_load_f, real)(what->library, image, what->jit, what->jit_values,
                                                         what->jit_count, what->options, what->values, what->count);
    --depth;
    return status;
}

static result try_library(void *real, const request *what, const char *text) {
    zrr_values jit, own;
    if (!zrr_values_copy(&jit, what->jit, what->jit_values, what->jit_count)) return ZRR_SYMBOL_NOT_FOUND;
    result status = ZRR_SYMBOL_NOT_FOUND;
    if (zrr_values_copy(&own, NULL, what->values, what->count)) {
        request trial = *what;
        trial.jit_values = jit.trial;
        trial.values = own.trial;
        status = load_library(real, &trial, text);
        zrr_values_settle(&own, status == SUCCESS);
    }
    zrr_values_settle(&jit, status == SUCCESS);
    return status;
}

static result load_any_library(enum hook kind, const request *what, const void *image, void *real) {
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    zrr_replacement text;
    const bool file = kind == LIBRARY_FILE;
    if (!(file ? replace_file(kind, image, &text) : replace(kind, image, &text))) return load_library(real, what, image);
    void *library = NULL, *next = file ? zrr_partner(LIBRARY_DATA, real, &library) : real;
    const result status = next != NULL ? try_library(next, what, text.text) : ZRR_NO_CALL;
    if (status == SUCCESS) zrr_accepted(&text, preserved(what));
    if (library != NULL) dlclose(library);
    if (status == SUCCESS) return status;
    const result original = load_library(real, what, image);
    zrr_rejected(&text, status, original);
    return original;
}

result zrr_cuLibraryLoadData(handle *library, const void *image, int *jit, void **jit_values, unsigned jit_count,
                             int *options, void **values, unsigned count) {
    void *real = zrr_called;
    const request what = {library, jit, jit_values, jit_count, options, values, count};
    return load_any_library(LIBRARY_DATA, &what, image, real);
}

result zrr_cuLibraryLoadFromFile(handle *library, const char *path, int *jit, void **jit_values, unsigned jit_count,
                                 int *options, void **values, unsigned count) {
    void *real = zrr_called;
    const request what = {library, jit, jit_values, jit_count, options, values, count};
    return load_any_library(LIBRARY_FILE, &what, path, real);
}

/* ---- the linker of the driver: only named, since what it makes of several modules cannot be looked up ---- */

static void note_link(enum hook kind, int type) {
    if (type == INPUT_PTX || type == INPUT_FATBINARY)
        zrr_bypassed("cuLinkAddData", zrr_hook_name(kind), "its module stays as it is, since the hook replaces nothing that the driver links");
}

static result link_data(enum hook kind, handle state, int type, void *data, size_t size, const char *name, unsigned count,
                        int *options, void **values, void *real) {
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    note_link(kind, type);
    return ZRR_CALL(link_data_f, real)(state, type, data, size, name, count, options, values);
}

static result link_file(enum hook kind, handle state, int type, const char *path, unsigned count, int *options,
                        void **values, void *real) {
    if (real == NULL) return ZRR_SYMBOL_NOT_FOUND;
    note_link(kind, type);
    return ZRR_CALL(link_file_f, real)(state, type, path, count, options, values);
}

result zrr_cuLinkAddData(handle state, int type, void *data, size_t size, const char *name, unsigned count, int *options,
                         void **values) {
    void *real = zrr_called;
    return link_data(LINK_DATA, state, type, data, size, name, count, options, values, real);
}

result zrr_cuLinkAddData_v2(handle state, int type, void *data, size_t size, const char *name, unsigned count,
                            int *options, void **values) {
    void *real = zrr_called;
    return link_data(LINK_DATA_V2, state, type, data, size, name, count, options, values, real);
}

result zrr_cuLinkAddFile(handle state, int type, const char *path, unsigned count, int *options, void **values) {
    void *real = zrr_called;
    return link_file(LINK_FILE, state, type, path, count, options, values, real);
}

result zrr_cuLinkAddFile_v2(handle state, int type, const char *path, unsigned count, int *options, void **values) {
    void *real = zrr_called;
    return link_file(LINK_FILE_V2, state, type, path, count, options, values, real);
}

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
    text.text = NULL; /* the caller's now */
    zrr_accepted(&text, false);
    return 1;
}

/* Of a text that zluda_rr_transform gave: 1: link the bitcode in the files at `*paths`, one path a line; give it to
 * zluda_rr_free. 0: nothing to link. -1: compile the original. */
int zluda_rr_bodies(const char *ptx, size_t size, char **paths) {
    return ptx == NULL || paths == NULL ? -1 : zrr_bodies(ptx, size, paths);
}

void zluda_rr_free(char *text) { free(text); }
