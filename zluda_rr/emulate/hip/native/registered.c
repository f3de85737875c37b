/* What hipcc's programs call: their code object registers itself before main, kernels and variables by the address of
 * their host counterparts. */
#define _GNU_SOURCE
#include "emu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t magic, version;
    const void *image;
    void *unused;
} fat_wrapper;
enum { WRAPPER_MAGIC = 0x48495046 }; /* "HIPF" */

typedef struct fat {
    const void *image;
    hipModule_t module; /* loaded at first use */
    struct fat *next;
} fat;
typedef struct symbol {
    const void *host;
    char *name;
    fat *owner;
    bool is_function;
    struct symbol *next;
} symbol;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fat *fats;
static symbol *symbols;

API void **__hipRegisterFatBinary(const void *data) {
    const fat_wrapper *wrapper = data;
    fat *found = calloc(1, sizeof *found);
    if (!found || wrapper->magic != WRAPPER_MAGIC) {
        free(found);
        return NULL;
    }
    found->image = wrapper->image;
    pthread_mutex_lock(&lock);
    found->next = fats;
    fats = found;
    pthread_mutex_unlock(&lock);
    return (void **)found;
}

API void __hipUnregisterFatBinary(void **handle) {
    pthread_mutex_lock(&lock);
    for (symbol **at = &symbols; *at;) {
        symbol *gone = *at;
        if ((void **)gone->owner != handle) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone->name);
        free(gone);
    }
    for (fat **at = &fats; *at; at = &(*at)->next)
        if ((void **)*at == handle) {
            fat *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&lock);
}

static void add(void **owner, const void *host, const char *name, bool is_function) {
    symbol *found = calloc(1, sizeof *found);
    char *copy = name ? strdup(name) : NULL;
    if (!found || !copy) {
        free(found);
        free(copy);
        return;
    }
    *found = (symbol){host, copy, (fat *)owner, is_function, NULL};
    pthread_mutex_lock(&lock);
    found->next = symbols;
    symbols = found;
    pthread_mutex_unlock(&lock);
}

API void __hipRegisterFunction(void **owner, const void *host, char *device_name, const char *name, unsigned threads,
                               void *a, void *b, void *c, void *d, int *e) {
    (void)name, (void)threads, (void)a, (void)b, (void)c, (void)d, (void)e;
    add(owner, host, device_name, true);
}
API void __hipRegisterVar(void **owner, void *host, char *host_name, char *device_name, int external, size_t size,
                          int constant, int global) {
    (void)host_name, (void)external, (void)size, (void)constant, (void)global;
    add(owner, host, device_name, false);
}
API void __hipRegisterManagedVar(void **owner, void **pointer, void *initial, const char *name, size_t size,
                                 unsigned align) {
    (void)owner, (void)pointer, (void)initial, (void)size, (void)align;
    emu_say("managed variable %s: __managed__ is not there; it stays without memory", name);
}
API void __hipRegisterSurface(void **owner, void *variable, char *host, char *device, int kind, int external) {
    (void)owner, (void)variable, (void)host, (void)kind, (void)external;
    emu_say("surface reference %s is not there; use surface objects", device);
}
API void __hipRegisterTexture(void **owner, void *variable, char *host, char *device, int kind, int norm, int external) {
    (void)owner, (void)variable, (void)host, (void)kind, (void)norm, (void)external;
    emu_say("texture reference %s is not there; use texture objects", device);
}

/* The symbol's module, loaded at need, and its name there. */
static hipError_t resolve(const void *host, bool is_function, hipModule_t *module, const char **name) {
    hipError_t status = is_function ? hipErrorInvalidDeviceFunction : hipErrorInvalidSymbol;
    pthread_mutex_lock(&lock);
    symbol *at = symbols;
    while (at && (at->host != host || at->is_function != is_function))
        at = at->next;
    if (at) {
        status = at->owner->module ? hipSuccess : emu_load(at->owner->image, &at->owner->module);
        *module = at->owner->module;
        *name = at->name;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

hipError_t emu_registered_function(const void *host, hipFunction_t *out) {
    hipModule_t module;
    const char *name;
    hipError_t status = resolve(host, true, &module, &name);
    return status == hipSuccess ? emu_function(module, name, out) : status;
}

void emu_forget_registered(void) {
    pthread_mutex_lock(&lock);
    for (fat *at = fats; at; at = at->next)
        at->module = NULL;
    pthread_mutex_unlock(&lock);
}

/* <<<>>>: the configuration waits for the launch. */
typedef struct {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
} configuration;
enum { DEEPEST = 16 };
static _Thread_local configuration waiting[DEEPEST];
static _Thread_local int depth;

API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
    if (depth == DEEPEST)
        DONE(hipErrorInvalidConfiguration);
    waiting[depth++] = (configuration){grid, block, lds, stream};
    return hipSuccess;
}
API hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *stream) {
    if (!depth)
        DONE(hipErrorMissingConfiguration);
    configuration top = waiting[--depth];
    *grid = top.grid;
    *block = top.block;
    *lds = top.lds;
    *stream = top.stream;
    return hipSuccess;
}

API hipError_t hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t lds,
                               hipStream_t stream) {
    hipFunction_t function;
    TRY(emu_begin());
    TRY(emu_registered_function(host, &function));
    return emu_launch(function, grid, block, (unsigned)lds, stream, arguments, NULL);
}
API hipError_t hipGetFuncBySymbol(hipFunction_t *out, const void *host) {
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    DONE(emu_registered_function(host, out));
}

/* Kernels by host address or, as hip-python has them, by hipFunction_t. */
static hipError_t either(const void *function, hipFunction_t *out) {
    if (emu_check_function((hipFunction_t)(uintptr_t)function) == hipSuccess) {
        *out = (hipFunction_t)(uintptr_t)function;
        return hipSuccess;
    }
    return emu_registered_function(function, out);
}
API hipError_t hipFuncGetAttributes(hipFuncAttributes *out, const void *host) {
    hipFunction_t function;
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    TRY(either(host, &function));
    emu_attributes(function, out);
    DONE(hipSuccess);
}
API hipError_t hipFuncSetAttribute(const void *host, int which, int value) {
    hipFunction_t function;
    TRY(emu_begin());
    TRY(either(host, &function));
    DONE((which == 8 || which == 9) && value >= 0 ? hipSuccess : hipErrorInvalidValue);
}
API hipError_t hipFuncSetCacheConfig(const void *host, int config) {
    (void)host, (void)config;
    DONE(hipSuccess);
}
API hipError_t hipFuncSetSharedMemConfig(const void *host, int config) {
    (void)host, (void)config;
    DONE(hipSuccess);
}
API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads,
                                                                     size_t lds, unsigned flags) {
    (void)flags;
    hipFunction_t function;
    TRY(emu_begin());
    TRY(either(host, &function));
    DONE(emu_occupancy(function, threads, lds, blocks));
}
API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t lds) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, lds, 0);
}
API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t lds, int limit);
API hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host, size_t lds, int limit) {
    hipFunction_t function;
    TRY(emu_begin());
    TRY(either(host, &function));
    return hipModuleOccupancyMaxPotentialBlockSize(grid, block, function, lds, limit);
}

static hipError_t variable(const void *host, void **address, size_t *size) {
    hipModule_t module;
    const char *name;
    hipError_t status = emu_begin();
    if (status == hipSuccess)
        status = resolve(host, false, &module, &name);
    return status == hipSuccess ? emu_global(module, name, address, size) : status;
}
API hipError_t hipGetSymbolAddress(void **out, const void *host) {
    DONE(out ? variable(host, out, NULL) : hipErrorInvalidValue);
}
API hipError_t hipGetSymbolSize(size_t *out, const void *host) {
    DONE(out ? variable(host, NULL, out) : hipErrorInvalidValue);
}

static hipError_t part_of(const void *host, size_t size, size_t offset, char **out) {
    void *address;
    size_t whole;
    hipError_t status = variable(host, &address, &whole);
    if (status == hipSuccess && (offset > whole || size > whole - offset))
        status = hipErrorInvalidValue;
    if (status == hipSuccess)
        *out = (char *)address + offset;
    return status;
}
API hipError_t hipMemcpyToSymbol(const void *host, const void *source, size_t size, size_t offset, hipMemcpyKind kind) {
    (void)kind;
    char *to;
    TRY(part_of(host, size, offset, &to));
    DONE(emu_copy(to, source, size));
}
API hipError_t hipMemcpyFromSymbol(void *target, const void *host, size_t size, size_t offset, hipMemcpyKind kind) {
    (void)kind;
    char *from;
    TRY(part_of(host, size, offset, &from));
    DONE(emu_copy(target, from, size));
}
API hipError_t hipMemcpyToSymbolAsync(const void *host, const void *source, size_t size, size_t offset,
                                      hipMemcpyKind kind, hipStream_t stream) {
    TRY(emu_check_stream(stream));
    return hipMemcpyToSymbol(host, source, size, offset, kind);
}
API hipError_t hipMemcpyFromSymbolAsync(void *target, const void *host, size_t size, size_t offset, hipMemcpyKind kind,
                                        hipStream_t stream) {
    TRY(emu_check_stream(stream));
    return hipMemcpyFromSymbol(target, host, size, offset, kind);
}
