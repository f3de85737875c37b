/* Code objects: read by the helper, placed in device memory once, so that their variables last between launches. */
#define _GNU_SOURCE
#include "emu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ihipModule {
    uint32_t number;
    void *image;
    struct ihipFunction *functions;
    struct ihipModule *next;
};

enum { MAX_ARGUMENTS = 1024 };
static const uint64_t FUNCTION_MAGIC = 0x5A525246554E4354; /* ZRRFUNCT */
static const size_t LONGEST = (size_t)1 << 31;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ihipModule *modules;

static uint64_t word(const unsigned char *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static size_t elf_size(const unsigned char *image) {
    uint64_t size = word(image + 40, 8) + word(image + 58, 2) * word(image + 60, 2); /* section headers come last */
    uint64_t headers = word(image + 32, 8), entry = word(image + 54, 2), count = word(image + 56, 2);
    for (uint64_t i = 0; i < count && headers < LONGEST; i++) {
        const unsigned char *segment = image + headers + i * entry;
        uint64_t end = word(segment + 8, 8) + word(segment + 32, 8);
        size = end > size ? end : size;
    }
    return size;
}

static size_t bundle_size(const unsigned char *image) {
    uint64_t count = word(image + 24, 8), size = 32;
    const unsigned char *at = image + 32;
    for (uint64_t i = 0; i < count && i < 64; i++) {
        uint64_t end = word(at, 8) + word(at + 8, 8);
        size = end > size ? end : size;
        at += 24 + word(at + 16, 8);
    }
    return size;
}

/* HIP's loaders give no size: it stands in the headers. 0 where the bytes are no code object. */
static size_t image_size(const unsigned char *image) {
    size_t size = 0;
    if (!memcmp(image, "\177ELF\2", 5))
        size = elf_size(image);
    else if (!memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24))
        size = bundle_size(image);
    else if (!memcmp(image, "CCOB", 4) && word(image + 4, 2) >= 2) /* compressed; the first version has no size */
        size = word(image + 8, word(image + 4, 2) == 2 ? 4 : 8);
    return size < LONGEST ? size : 0;
}

static hipError_t place(struct ihipModule *module, size_t size) {
    struct {
        uint32_t number, zero;
        uint64_t address;
    } where = {module->number, 0, 0};
    hipError_t status = emu_allocate(size, EMU_PAGE, EMU_INTERNAL, 0, &module->image);
    if (status != hipSuccess)
        return status;
    where.address = (uint64_t)(uintptr_t)module->image;
    emu_part part = {&where, sizeof where};
    return emu_ask(EMU_PLACE, &part, 1, NULL, 0, NULL);
}

static void forget(struct ihipModule *module, bool tell) {
    emu_part part = {&module->number, sizeof module->number};
    if (tell)
        emu_ask(EMU_UNLOAD, &part, 1, NULL, 0, NULL);
    emu_release(module->image, true);
    while (module->functions) {
        struct ihipFunction *gone = module->functions;
        module->functions = gone->next;
        free(gone->name);
        free(gone);
    }
    free(module);
}

static hipError_t load_sized(const void *image, size_t size, hipModule_t *out) {
    struct {
        uint32_t number, zero;
        uint64_t size;
    } found;
    emu_part part = {image, size};
    hipError_t status = emu_ask(EMU_LOAD, &part, 1, &found, sizeof found, NULL);
    if (status != hipSuccess)
        return status;
    struct ihipModule *module = calloc(1, sizeof *module);
    if (!module)
        return hipErrorOutOfMemory;
    module->number = found.number;
    status = place(module, found.size);
    if (status != hipSuccess) {
        forget(module, true);
        return status;
    }
    pthread_mutex_lock(&lock);
    module->next = modules;
    modules = module;
    pthread_mutex_unlock(&lock);
    *out = module;
    return hipSuccess;
}

hipError_t emu_load(const void *image, hipModule_t *out) {
    if (!image || !out)
        return hipErrorInvalidValue;
    size_t size = image_size(image);
    return size ? load_sized(image, size, out) : hipErrorInvalidImage;
}

hipError_t emu_unload(hipModule_t module) {
    struct ihipModule *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct ihipModule **at = &modules; *at; at = &(*at)->next)
        if (*at == module) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!found)
        return hipErrorInvalidHandle;
    forget(found, true);
    return hipSuccess;
}

void emu_unload_all(void) {
    pthread_mutex_lock(&lock);
    while (modules) {
        struct ihipModule *gone = modules;
        modules = gone->next;
        forget(gone, false);
    }
    pthread_mutex_unlock(&lock);
}

static bool is_loaded(hipModule_t module) {
    struct ihipModule *at = modules;
    while (at && at != module)
        at = at->next;
    return at && module;
}

/* Asks the helper; the lock is held. */
static hipError_t find_function(hipModule_t module, const char *name, hipFunction_t *out) {
    struct {
        uint32_t fixed[8];
        emu_argument arguments[MAX_ARGUMENTS];
    } found;
    emu_part parts[] = {{&module->number, sizeof module->number}, {name, strlen(name)}};
    hipError_t status = emu_ask(EMU_FUNCTION, parts, 2, &found, sizeof found, NULL);
    if (status != hipSuccess)
        return status;
    size_t bytes = found.fixed[1] * sizeof(emu_argument);
    struct ihipFunction *function = calloc(1, sizeof *function + bytes);
    char *copy = strdup(name);
    if (!function || !copy) {
        free(function);
        free(copy);
        return hipErrorOutOfMemory;
    }
    function->magic = FUNCTION_MAGIC;
    memcpy(&function->number, found.fixed, sizeof found.fixed);
    memcpy(function->arguments, found.arguments, bytes);
    function->name = copy;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    *out = function;
    return hipSuccess;
}

hipError_t emu_function(hipModule_t module, const char *name, hipFunction_t *out) {
    if (!name || !out)
        return hipErrorInvalidValue;
    hipError_t status = hipErrorInvalidHandle;
    pthread_mutex_lock(&lock);
    if (is_loaded(module)) {
        struct ihipFunction *at = module->functions;
        while (at && strcmp(at->name, name))
            at = at->next;
        *out = at;
        status = at ? hipSuccess : find_function(module, name, out);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

hipError_t emu_check_function(hipFunction_t function) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (struct ihipModule *m = modules; m && !found; m = m->next)
        for (struct ihipFunction *f = m->functions; f && !found; f = f->next)
            found = f == function;
    pthread_mutex_unlock(&lock);
    return found ? hipSuccess : hipErrorInvalidHandle;
}

hipError_t emu_global(hipModule_t module, const char *name, void **address, size_t *size) {
    struct {
        uint64_t address, size;
    } found;
    pthread_mutex_lock(&lock);
    bool loaded = is_loaded(module);
    uint32_t number = loaded ? module->number : 0;
    pthread_mutex_unlock(&lock);
    if (!loaded || !name)
        return loaded ? hipErrorInvalidValue : hipErrorInvalidHandle;
    emu_part parts[] = {{&number, sizeof number}, {name, strlen(name)}};
    hipError_t status = emu_ask(EMU_GLOBAL, parts, 2, &found, sizeof found, NULL);
    if (status != hipSuccess)
        return status;
    if (address)
        *address = (void *)(uintptr_t)found.address;
    if (size)
        *size = found.size;
    return hipSuccess;
}

API hipError_t hipModuleLoadData(hipModule_t *out, const void *image) {
    TRY(emu_begin());
    DONE(emu_load(image, out));
}
API hipError_t hipModuleLoadDataEx(hipModule_t *out, const void *image, unsigned count, int *options, void **values) {
    (void)count;
    (void)options;
    (void)values;
    return hipModuleLoadData(out, image);
}
API hipError_t hipModuleLoadFatBinary(hipModule_t *out, const void *image) { return hipModuleLoadData(out, image); }

API hipError_t hipModuleLoad(hipModule_t *out, const char *path) {
    TRY(emu_begin());
    if (!out || !path)
        DONE(hipErrorInvalidValue);
    FILE *file = fopen(path, "rb");
    if (!file)
        DONE(hipErrorFileNotFound);
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    unsigned char *bytes = size > 0 ? malloc((size_t)size) : NULL;
    bool whole = bytes && !fseek(file, 0, SEEK_SET) && fread(bytes, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    hipError_t status = whole ? load_sized(bytes, (size_t)size, out) : hipErrorInvalidImage;
    free(bytes);
    DONE(status);
}
API hipError_t hipModuleUnload(hipModule_t module) {
    TRY(emu_begin());
    DONE(emu_unload(module));
}
API hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t module, const char *name) {
    TRY(emu_begin());
    DONE(emu_function(module, name, out));
}
API hipError_t hipModuleGetGlobal(hipDeviceptr_t *out, size_t *size, hipModule_t module, const char *name) {
    TRY(emu_begin());
    DONE(emu_global(module, name, out, size));
}
