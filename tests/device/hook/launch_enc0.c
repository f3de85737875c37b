/* Loads enc0 through the CUDA driver and launches it: launch_enc0 MODULE.ptx WEIGHTS TEXELS EX EY SX SY OUT [LAUNCHES]
 *
 * Nothing here knows of the hook; it is there or not. Writes plane arena, merged planes and the surfaces blend, gate and
 * half one after the other to OUT; prints load and kernel times. Parameter block: docs of the enc0 rule. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} array_descriptor;
typedef struct {
    int type;
    void *array;
    char rest[120];
    unsigned flags;
} resource_descriptor;
typedef struct {
    size_t x, y;
    int type;
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch;
} copy_side;
typedef struct {
    copy_side from, to;
    size_t width_bytes, height;
} copy_2d;
enum { HALF = 0x10, SURFACE_LDST = 2, HOST = 1, ARRAY = 3, TEXEL = 8, PARAMETERS = 1032 };

static void *cuda;
static void *symbol(const char *name) {
    void *found = dlsym(cuda, name);
    if (found == NULL) {
        fprintf(stderr, "no %s\n", name);
        exit(3);
    }
    return found;
}
#define CU(name, type, ...)                                                        \
    do {                                                                           \
        const int status = ((int(*) type)symbol(#name))(__VA_ARGS__);              \
        if (status != 0) {                                                         \
            fprintf(stderr, #name ": error %d\n", status);                         \
            exit(3);                                                               \
        }                                                                          \
    } while (0)

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = calloc(1, *size + 1);
    if (fread(bytes, 1, *size, file) != *size) exit(2);
    fclose(file);
    return bytes;
}

static uint64_t buffer(const void *data, size_t size, int poison) {
    uint64_t address = 0;
    CU(cuMemAlloc_v2, (uint64_t *, size_t), &address, size);
    if (data != NULL)
        CU(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t), address, data, size);
    else
        CU(cuMemsetD8_v2, (uint64_t, unsigned char, size_t), address, (unsigned char)poison, size);
    return address;
}

typedef struct {
    void *array;
    uint64_t handle;
    size_t width, height;
} surface;

static surface make_surface(size_t width, size_t height, const void *texels) {
    surface made = {NULL, 0, width, height};
    const array_descriptor shape = {width, height, 0, HALF, 4, SURFACE_LDST};
    CU(cuArray3DCreate_v2, (void **, const array_descriptor *), &made.array, &shape);
    unsigned char *poison = malloc(width * height * TEXEL);
    memset(poison, 0xcd, width * height * TEXEL);
    copy_2d copy = {{0, 0, HOST, texels != NULL ? texels : poison, 0, NULL, width * TEXEL},
                    {0, 0, ARRAY, NULL, 0, made.array, 0},
                    width * TEXEL,
                    height};
    CU(cuMemcpy2D_v2, (const copy_2d *), &copy);
    free(poison);
    resource_descriptor resource;
    memset(&resource, 0, sizeof resource);
    resource.array = made.array;
    CU(cuSurfObjectCreate, (uint64_t *, const resource_descriptor *), &made.handle, &resource);
    return made;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void write_surface(FILE *out, const surface *from) {
    unsigned char *bytes = malloc(from->width * from->height * TEXEL);
    copy_2d copy = {{0, 0, ARRAY, NULL, 0, from->array, 0},
                    {0, 0, HOST, bytes, 0, NULL, from->width * TEXEL},
                    from->width * TEXEL,
                    from->height};
    CU(cuMemcpy2D_v2, (const copy_2d *), &copy);
    fwrite(bytes, TEXEL, from->width * from->height, out);
    free(bytes);
}

int main(int count, char **arguments) {
    if (count < 9) return 2;
    size_t size = 0, weights_bytes = 0, texel_bytes = 0;
    unsigned char *text = read_file(arguments[1], &size);
    unsigned char *weights = read_file(arguments[2], &weights_bytes), *texels = read_file(arguments[3], &texel_bytes);
    const uint32_t ex = (uint32_t)atoi(arguments[4]), ey = (uint32_t)atoi(arguments[5]);
    const uint16_t shift[2] = {(uint16_t)atoi(arguments[6]), (uint16_t)atoi(arguments[7])};
    const int launches = count > 9 ? atoi(arguments[9]) : 100;
    if (texel_bytes != (size_t)ex * ey * TEXEL) return 2;

    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (cuda == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    void *context = NULL, *module = NULL, *kernel = NULL, *begin = NULL, *end = NULL;
    CU(cuInit, (unsigned), 0);
    CU(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    CU(cuCtxSetCurrent, (void *), context);
    const double load_began = now_ms();
    CU(cuModuleLoadData, (void **, const void *), &module, text);
    const double loaded = now_ms();
    CU(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, "cuda_dldn_engine_swin_enc0_kernel");

    const size_t arena_bytes = (size_t)32 * ex * ey, merged_bytes = (size_t)16 * ex * ey;
    const uint64_t arena = buffer(NULL, arena_bytes, 0xcd), merged = buffer(NULL, merged_bytes, 0xcd);
    const uint64_t image = buffer(weights, weights_bytes, 0);
    const surface color = make_surface(ex, ey, texels), blend = make_surface(ex, ey, NULL),
                  gate = make_surface(ex, ey, NULL), half = make_surface(ex / 2, ey / 2, NULL);
    unsigned char block[PARAMETERS] = {0};
    memcpy(block, &ex, 4);
    memcpy(block + 4, &ey, 4);
    memcpy(block + 40, &image, 8);
    memcpy(block + 48, &arena, 8);
    memcpy(block + 56, &merged, 8);
    memcpy(block + 80, shift, 4);
    memcpy(block + 112, &blend.handle, 8);
    memcpy(block + 120, &gate.handle, 8);
    memcpy(block + 128, &half.handle, 8);
    memcpy(block + 304, &color.handle, 8);
    void *parameters[] = {block};
    const unsigned gx = (ex + shift[0] + 7) / 8, gy = (ey + shift[1] + 7) / 8;
#define LAUNCH()                                                                                                     \
    CU(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, \
                        void **),                                                                                    \
       kernel, gx, gy, 1, 32, 1, 1, 0, NULL, parameters, NULL)
    LAUNCH();
    CU(cuCtxSynchronize, (void));
    CU(cuEventCreate, (void **, unsigned), &begin, 0);
    CU(cuEventCreate, (void **, unsigned), &end, 0);
    CU(cuEventRecord, (void *, void *), begin, NULL);
    for (int i = 0; i < launches; ++i) LAUNCH();
    CU(cuEventRecord, (void *, void *), end, NULL);
    CU(cuEventSynchronize, (void *), end);
    float ms = 0;
    CU(cuEventElapsedTime, (float *, void *, void *), &ms, begin, end);

    FILE *out = fopen(arguments[8], "wb");
    if (out == NULL) return 2;
    unsigned char *host = malloc(arena_bytes);
    CU(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), host, arena, arena_bytes);
    fwrite(host, 1, arena_bytes, out);
    CU(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), host, merged, merged_bytes);
    fwrite(host, 1, merged_bytes, out);
    write_surface(out, &blend);
    write_surface(out, &gate);
    write_surface(out, &half);
    fclose(out);
    printf("load %.1f ms, kernel %.2f us (mean of %d launches of %u x %u blocks)\n", loaded - load_began,
           1000 * ms / launches, launches, gx, gy);
    return 0;
}
