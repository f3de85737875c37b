/* A CUDA library that records what it is given. Every call appends a line `CALL STATUS FILE LIBRARY` to $FAKE_CUDA_DIR/calls and
 * stores the image (or the file name) that it received in FILE. $FAKE_CUDA_REJECT: refuse images with that text. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static size_t size_of(const unsigned char *image) {
    const char *limit = getenv("FAKE_CUDA_BYTES"); /* for images that no sound loader would measure */
    if (limit != NULL) return (size_t)atoi(limit);
    uint32_t magic;
    uint16_t header;
    uint64_t files;
    memcpy(&magic, image, 4);
    if (magic == 0xba55ed50) {
        memcpy(&header, image + 6, 2);
        memcpy(&files, image + 8, 8);
        return header + files;
    }
    if (magic == 0x466243b1) return 24;
    return strlen((const char *)image);
}

static int record(const char *call, const void *bytes, size_t size) {
    static atomic_int number;
    const char *folder = getenv("FAKE_CUDA_DIR"), *rejected = getenv("FAKE_CUDA_REJECT");
    char path[512], line[600];
    if (folder == NULL) return 0; /* timing runs */
    const int status = rejected != NULL && memmem(bytes, size, rejected, strlen(rejected)) != NULL ? 218 : 0;
    snprintf(path, sizeof path, "%s/%ld-%d", folder, (long)getpid(), atomic_fetch_add(&number, 1));
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fwrite(bytes, 1, size, file);
        fclose(file);
    }
    Dl_info own = {0};
    dladdr((void *)record, &own);
    const char *base = strrchr(own.dli_fname, '/');
    const int used = snprintf(line, sizeof line, "%s %d %s %s\n", call, status, path, base != NULL ? base + 1 : "-");
    snprintf(path, sizeof path, "%s/calls", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, line, (size_t)used) != used) abort();
    close(fd);
    return status;
}

static int image_call(const char *call, void **module, const void *image) {
    *module = (void *)1;
    return record(call, image, size_of(image));
}

API int cuModuleLoad(void **module, const char *path) {
    *module = (void *)1;
    return record("cuModuleLoad", path, strlen(path));
}
API int cuModuleLoadData(void **module, const void *image) { return image_call("cuModuleLoadData", module, image); }
API int cuModuleLoadFatBinary(void **module, const void *image) {
    return image_call("cuModuleLoadFatBinary", module, image);
}
API int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    if (count < 1 || options[0] != 7 || values[0] != (void *)70) return 1;
    const int status = image_call("cuModuleLoadDataEx", module, image);
    if (count == 5) { /* logs and their sizes: the driver writes how much it used */
        if (values[2] != (void *)64 || values[4] != (void *)64) return 1;
        strcpy(values[status != 0 ? 3 : 1], status != 0 ? "bad" : "fine");
        values[2] = (void *)(size_t)(status != 0 ? 0 : 4);
        values[4] = (void *)(size_t)(status != 0 ? 3 : 0);
    }
    return status;
}
API int cuLibraryLoadData(void **library, const void *image, int *jit, void **jit_values, unsigned jit_count,
                          int *options, void **values, unsigned count) {
    if (jit_count != 1 || jit[0] != 7 || jit_values[0] != (void *)70 || count != 1 || options[0] != 1 || values[0] != 0)
        return 1;
    const int status = image_call("cuLibraryLoadData", library, image);
    jit_values[0] = (void *)(size_t)(71 + status);
    values[0] = (void *)1;
    return status;
}
API int cuLibraryLoadFromFile(void **library, const char *path, int *jit, void **jit_values, unsigned jit_count,
                              int *options, void **values, unsigned count) {
    if (jit_count != 1 || jit[0] != 7 || jit_values[0] != (void *)70 || count != 1 || options[0] != 1 || values[0] != 0)
        return 1;
    *library = (void *)1;
    return record("cuLibraryLoadFromFile", path, strlen(path));
}
API int cuLinkAddData_v2(void *state, int type, void *data, size_t size, const char *name, unsigned count, int *options,
                         void **values) {
    (void)state, (void)type, (void)name, (void)options;
    return count == 3 && values == (void **)24 ? record("cuLinkAddData_v2", data, size) : 1;
}
API int cuInit(unsigned flags) { return record("cuInit", &flags, sizeof flags); }
API int cuMemAlloc_v2(void **pointer, size_t size) {
    *pointer = (void *)16;
    return record("cuMemAlloc_v2", &size, sizeof size);
}

API int cuGetProcAddress(const char *symbol, void **pointer, int version, uint64_t flags);
API int cuGetProcAddress_v2(const char *symbol, void **pointer, int version, uint64_t flags, int *found);

static const struct {
    const char *name;
    void *address;
} table[] = {{"cuModuleLoad", cuModuleLoad},
             {"cuModuleLoadData", cuModuleLoadData},
             {"cuModuleLoadDataEx", cuModuleLoadDataEx},
             {"cuModuleLoadFatBinary", cuModuleLoadFatBinary},
             {"cuLibraryLoadData", cuLibraryLoadData},
             {"cuLibraryLoadFromFile", cuLibraryLoadFromFile},
             {"cuLinkAddData", cuLinkAddData_v2},
             {"cuInit", cuInit},
             {"cuMemAlloc", cuMemAlloc_v2}};

API int cuGetProcAddress(const char *symbol, void **pointer, int version, uint64_t flags) {
    (void)flags;
    *pointer = NULL;
    if (strcmp(symbol, "cuGetProcAddress") == 0)
        *pointer = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i)
        if (strcmp(symbol, table[i].name) == 0) *pointer = table[i].address;
    return *pointer != NULL ? 0 : 500;
}
API int cuGetProcAddress_v2(const char *symbol, void **pointer, int version, uint64_t flags, int *found) {
    const int status = cuGetProcAddress(symbol, pointer, version, flags);
    if (found != NULL) *found = status == 0 ? 0 : 1;
    return status;
}
