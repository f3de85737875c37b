/* A HIP program in plain C: cases by name, on whatever libamdhip64 the loader finds. A line for each that is right; the
 * first that is not ends the run.
 * usage: program CODE_OBJECT CASE... */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const char *object_path;
static hipModule_t module;

hipFunction_t kernel(const char *name) {
    hipFunction_t found;
    if (!module)
        CHECK(hipModuleLoad(&module, object_path));
    CHECK(hipModuleGetFunction(&found, module, name));
    return found;
}

void launch(hipFunction_t f, unsigned blocks, unsigned threads, unsigned lds, hipStream_t stream, void **params) {
    CHECK(hipModuleLaunchKernel(f, blocks, 1, 1, threads, 1, 1, lds, stream, params, NULL));
}

void *device(size_t size, const void *content) {
    void *place;
    CHECK(hipMalloc(&place, size));
    if (content)
        CHECK(hipMemcpyHtoD(place, content, size));
    return place;
}

static void vector_add(void) {
    enum { COUNT = 1000 };
    float a[COUNT], b[COUNT], c[COUNT];
    for (int i = 0; i < COUNT; i++)
        a[i] = (float)i * 0.25f, b[i] = 1.0f / (float)(i + 1);
    void *da = device(sizeof a, a), *db = device(sizeof b, b), *dc = device(sizeof c, NULL);
    unsigned count = COUNT;
    launch(kernel("vector_add"), 8, 128, 0, NULL, (void *[]){&da, &db, &dc, &count});
    CHECK(hipMemcpyDtoH(c, dc, sizeof c));
    for (int i = 0; i < COUNT; i++)
        EXPECT(c[i] == a[i] + b[i]);
    struct {
        void *a, *b, *c;
        unsigned count;
    } packed = {db, db, dc, COUNT}; /* the other way to give arguments */
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, (void *)3};
    CHECK(hipModuleLaunchKernel(kernel("vector_add"), 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
    CHECK(hipMemcpyDtoH(c, dc, sizeof c));
    for (int i = 0; i < COUNT; i++)
        EXPECT(c[i] == 2 * b[i]);
}

static void reduction(void) {
    enum { BLOCKS = 5, THREADS = 256 };
    unsigned values[BLOCKS * THREADS], sums[BLOCKS];
    for (unsigned i = 0; i < BLOCKS * THREADS; i++)
        values[i] = i * 2654435761u;
    void *from = device(sizeof values, values), *to = device(sizeof sums, NULL);
    launch(kernel("block_sums"), BLOCKS, THREADS, 0, NULL, (void *[]){&from, &to});
    CHECK(hipMemcpyDtoH(sums, to, sizeof sums));
    for (unsigned b = 0; b < BLOCKS; b++) {
        unsigned sum = 0;
        for (unsigned t = 0; t < THREADS; t++)
            sum += values[b * THREADS + t];
        EXPECT(sums[b] == sum);
    }
}

static void atomics(void) {
    enum { COUNT = 3000 };
    unsigned char values[COUNT];
    unsigned bins[256], expected[256] = {0}, count = COUNT;
    for (int i = 0; i < COUNT; i++)
        expected[values[i] = (unsigned char)(i * i % 7 ? i % 11 : 200)]++;
    void *from = device(sizeof values, values), *to = device(sizeof bins, NULL);
    CHECK(hipMemsetD32(to, 0, 256));
    launch(kernel("histogram"), 12, 256, 0, NULL, (void *[]){&from, &to, &count});
    CHECK(hipMemcpyDtoH(bins, to, sizeof bins));
    EXPECT(!memcmp(bins, expected, sizeof bins));
}

static void module_globals(void) {
    unsigned out[2], value;
    void *to = device(sizeof out, NULL), *global, *last;
    size_t size;
    for (unsigned i = 1; i <= 3; i++) {
        launch(kernel("count_launches"), 1, 64, 0, NULL, (void *[]){&to});
        CHECK(hipMemcpyDtoH(out, to, sizeof out));
        EXPECT(out[0] == 40 + i && out[1] == 4);
    }
    CHECK(hipModuleGetGlobal(&global, &size, module, "launches"));
    EXPECT(size == sizeof value);
    CHECK(hipMemcpyDtoH(&value, global, size));
    EXPECT(value == 43);
    value = 100; /* and the kernel sees what the program writes */
    CHECK(hipMemcpyHtoD(global, &value, size));
    launch(kernel("count_launches"), 1, 32, 0, NULL, (void *[]){&to});
    CHECK(hipMemcpyDtoH(out, to, sizeof out));
    EXPECT(out[0] == 101);
    CHECK(hipModuleGetGlobal(&global, &size, module, "last_place"));
    CHECK(hipMemcpyDtoH(&last, global, sizeof last));
    EXPECT(last == to);
    FAILS(hipModuleGetGlobal(&global, &size, module, "no_such"), hipErrorNotFound);
    hipFunction_t f;
    FAILS(hipModuleGetFunction(&f, module, "no_such"), hipErrorNotFound);
    hipModule_t other; /* a second copy of the module has its own variables */
    CHECK(hipModuleLoad(&other, object_path));
    CHECK(hipModuleGetFunction(&f, other, "count_launches"));
    launch(f, 1, 32, 0, NULL, (void *[]){&to});
    CHECK(hipMemcpyDtoH(out, to, sizeof out));
    EXPECT(out[0] == 41);
    CHECK(hipModuleUnload(other));
    FAILS(hipModuleLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&to}, NULL), hipErrorInvalidHandle);
}

/* Nearest texels of a two-dimensional array of four floats, texel coordinates clamped and normalised ones wrapped. */
static void texture(void) {
    enum { WIDTH = 13, HEIGHT = 6, COUNT = 200 };
    float texels[HEIGHT][WIDTH][4], places[COUNT][2], out[COUNT][4];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 4; c++)
                texels[y][x][c] = (float)(100 * y + x) + 0.25f * (float)c;
    hipArray_t array;
    CHECK(hipArrayCreate(&array, &(HIP_ARRAY_DESCRIPTOR){WIDTH, HEIGHT, 0x20, 4}));
    hip_Memcpy2D copy = {.srcMemoryType = hipMemoryTypeHost, .srcHost = texels, .srcPitch = sizeof texels[0],
                         .dstMemoryType = hipMemoryTypeArray, .dstArray = array, .WidthInBytes = sizeof texels[0],
                         .Height = HEIGHT};
    CHECK(hipMemcpyParam2D(&copy));
    HIP_RESOURCE_DESC source = {.resType = hipResourceTypeArray, .res.array.hArray = array};
    void *to = device(sizeof out, NULL);
    for (int normalised = 0; normalised < 2; normalised++) {
        int mode = normalised ? 0 : 1;
        HIP_TEXTURE_DESC how = {.addressMode = {mode, mode, mode},
                                .flags = normalised ? HIP_TRSF_NORMALIZED_COORDINATES : 0};
        hipTextureObject_t object;
        CHECK(hipTexObjectCreate(&object, &source, &how, NULL));
        for (int i = 0; i < COUNT; i++) {
            float x = (float)(i * 7 % 40 - 10) + 0.5f, y = (float)(i * 5 % 20 - 6) + 0.5f;
            places[i][0] = normalised ? x / WIDTH : x;
            places[i][1] = normalised ? y / HEIGHT : y;
        }
        void *at = device(sizeof places, places);
        unsigned count = COUNT;
        launch(kernel("sample"), 2, 128, 0, NULL, (void *[]){&object, &at, &to, &count});
        CHECK(hipMemcpyDtoH(out, to, sizeof out));
        for (int i = 0; i < COUNT; i++) {
            int x = i * 7 % 40 - 10, y = i * 5 % 20 - 6;
            if (normalised)
                x = (x + 10 * WIDTH) % WIDTH, y = (y + 10 * HEIGHT) % HEIGHT;
            else
                x = x < 0 ? 0 : x >= WIDTH ? WIDTH - 1 : x, y = y < 0 ? 0 : y >= HEIGHT ? HEIGHT - 1 : y;
            EXPECT(!memcmp(out[i], texels[y][x], sizeof out[i]));
        }
        CHECK(hipTexObjectDestroy(object));
        FAILS(hipTexObjectDestroy(object), hipErrorInvalidValue);
    }
    CHECK(hipArrayDestroy(array));
    FAILS(hipArrayDestroy(array), hipErrorInvalidHandle);
    FAILS(hipTexObjectCreate(&(hipTextureObject_t){0}, &source, &(HIP_TEXTURE_DESC){0}, NULL), hipErrorInvalidHandle);
}

/* A texture of pitched memory: bytes as normalised floats, outside a border of zeros. */
static void pitched_texture(void) {
    enum { WIDTH = 10, HEIGHT = 3, COUNT = 60 };
    unsigned char texels[HEIGHT][WIDTH][4];
    float places[COUNT][2], out[COUNT][4];
    for (int i = 0; i < HEIGHT * WIDTH * 4; i++)
        (&texels[0][0][0])[i] = (unsigned char)(i * 37);
    void *rows, *to = device(sizeof out, NULL);
    size_t pitch;
    CHECK(hipMallocPitch(&rows, &pitch, sizeof texels[0], HEIGHT));
    CHECK(hipMemcpy2D(rows, pitch, texels, sizeof texels[0], sizeof texels[0], HEIGHT, hipMemcpyHostToDevice));
    HIP_RESOURCE_DESC source = {.resType = hipResourceTypePitch2D, .res.pitch2D = {rows, 1, 4, WIDTH, HEIGHT, pitch}};
    HIP_TEXTURE_DESC how = {.addressMode = {3, 3, 3}};
    hipTextureObject_t object;
    CHECK(hipTexObjectCreate(&object, &source, &how, NULL));
    for (int i = 0; i < COUNT; i++)
        places[i][0] = (float)(i % 12 - 1) + 0.5f, places[i][1] = (float)(i / 12 - 1) + 0.5f;
    void *at = device(sizeof places, places);
    unsigned count = COUNT;
    launch(kernel("sample"), 1, 64, 0, NULL, (void *[]){&object, &at, &to, &count});
    CHECK(hipMemcpyDtoH(out, to, sizeof out));
    for (int i = 0; i < COUNT; i++)
        for (int c = 0; c < 4; c++) {
            int x = i % 12 - 1, y = i / 12 - 1;
            float want = x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT ? 0.0f : (float)(texels[y][x][c] / 255.0);
            EXPECT(out[i][c] == want);
        }
    CHECK(hipTexObjectDestroy(object));
    source.res.pitch2D.pitchInBytes = 100; /* not a pitch that the hardware has */
    FAILS(hipTexObjectCreate(&object, &source, &how, NULL), hipErrorInvalidValue);
}

static void surface(void) {
    enum { WIDTH = 9, HEIGHT = 5 };
    unsigned short texels[HEIGHT][WIDTH][4], out[HEIGHT][WIDTH][4];
    for (int i = 0; i < HEIGHT * WIDTH * 4; i++)
        (&texels[0][0][0])[i] = (unsigned short)(0x3C00 | (i * 13 & 0x1FF) << 1); /* halves in [1, 2) */
    hipArray_t arrays[2];
    hipSurfaceObject_t objects[2];
    for (int i = 0; i < 2; i++) {
        HIP_ARRAY3D_DESCRIPTOR shape = {WIDTH, HEIGHT, 0, 0x10, 4, 2};
        CHECK(hipArray3DCreate(&arrays[i], &shape));
        hipResourceDesc source = {.resType = hipResourceTypeArray, .res.array.array = arrays[i]};
        CHECK(hipCreateSurfaceObject(&objects[i], &source));
    }
    CHECK(hipMemcpy2DToArray(arrays[0], 0, 0, texels, sizeof texels[0], sizeof texels[0], HEIGHT, hipMemcpyHostToDevice));
    unsigned width = WIDTH, height = HEIGHT;
    launch(kernel("bump"), 2, 32, 0, NULL, (void *[]){&objects[0], &objects[1], &width, &height});
    CHECK(hipMemcpy2DFromArray(out, sizeof out[0], arrays[1], 0, 0, sizeof out[0], HEIGHT, hipMemcpyDeviceToHost));
    for (int i = 0; i < HEIGHT * WIDTH * 4; i++) {
        unsigned short before = (&texels[0][0][0])[i]; /* 1 + m/1024 with an even m: 2 + m/1024 is a half */
        EXPECT((&out[0][0][0])[i] == (0x4000 | (before & 0x3FF) >> 1));
    }
}

static void streams_and_events(void) {
    enum { COUNT = 500 };
    hipStream_t streams[2];
    hipEvent_t first, last, untimed;
    CHECK(hipStreamCreate(&streams[0]));
    CHECK(hipStreamCreateWithFlags(&streams[1], 1));
    CHECK(hipEventCreate(&first));
    CHECK(hipEventCreate(&last));
    CHECK(hipEventCreateWithFlags(&untimed, 2));
    void *a = device(4 * COUNT, NULL), *b = device(4 * COUNT, NULL), *c = device(4 * COUNT, NULL);
    unsigned count = COUNT, one = 1, two = 2, out[COUNT];
    CHECK(hipEventRecord(first, streams[0]));
    launch(kernel("fill"), 4, 128, 0, streams[0], (void *[]){&a, &one, &count});
    CHECK(hipEventRecord(last, streams[0]));
    launch(kernel("fill"), 4, 128, 0, streams[1], (void *[]){&b, &two, &count});
    CHECK(hipStreamWaitEvent(streams[1], last, 0));
    launch(kernel("scale_add"), 4, 128, 0, streams[1], (void *[]){&c, &a, &b, &two, &count});
    CHECK(hipMemcpyDtoHAsync(out, c, sizeof out, streams[1]));
    CHECK(hipStreamSynchronize(streams[1]));
    for (unsigned i = 0; i < COUNT; i++)
        EXPECT(out[i] == (1 + i) * 2 + 2 + i);
    float passed = -1;
    CHECK(hipEventSynchronize(last));
    CHECK(hipEventElapsedTime(&passed, first, last));
    EXPECT(passed > 0 && passed < 60000);
    CHECK(hipEventRecord(untimed, NULL));
    FAILS(hipEventElapsedTime(&passed, first, untimed), hipErrorInvalidHandle);
    CHECK(hipEventQuery(last));
    CHECK(hipStreamQuery(streams[0]));
    CHECK(hipStreamDestroy(streams[0]));
    FAILS(hipStreamSynchronize(streams[0]), hipErrorInvalidHandle);
    FAILS(hipStreamQuery((hipStream_t)0x1234), hipErrorInvalidHandle);
    EXPECT(hipGetLastError() == hipErrorInvalidHandle);
    EXPECT(hipGetLastError() == hipSuccess);
}

static void arguments_and_lds(void) {
    struct mixed {
        unsigned char small;
        double wide;
        unsigned short odd[3];
    } d = {7, 8e6, {1, 2, 65535}};
    unsigned out[6], values[2][96], size;
    unsigned char a = 200;
    double b = 12345.0;
    unsigned short c = 54321;
    void *to = device(sizeof out, NULL);
    launch(kernel("mixed_arguments"), 1, 1, 0, NULL, (void *[]){&a, &b, &c, &d, &to});
    CHECK(hipMemcpyDtoH(out, to, sizeof out));
    EXPECT(out[0] == 200 && out[1] == 12345 && out[2] == 54321 && out[3] == 7 && out[4] == 8000000 && out[5] == 65535);
    for (unsigned i = 0; i < 192; i++)
        (&values[0][0])[i] = i;
    void *at = device(sizeof values, values);
    launch(kernel("reversed"), 2, 96, sizeof values[0], NULL, (void *[]){&at, &to});
    CHECK(hipMemcpyDtoH(values, at, sizeof values));
    for (unsigned i = 0; i < 192; i++)
        EXPECT((&values[0][0])[i] == i / 96 * 96 + 95 - i % 96);
    CHECK(hipMemcpyDtoH(&size, to, sizeof size));
    EXPECT(size == 192);
    hipFunction_t f = kernel("reversed");
    FAILS(hipModuleLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&at, &to}, NULL), hipErrorInvalidConfiguration);
    FAILS(hipModuleLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, (void *[]){&at, &to}, NULL),
          hipErrorInvalidConfiguration);
    FAILS(hipModuleLaunchKernel(f, 1, 1, 1, 32, 1, 1, 65537, NULL, (void *[]){&at, &to}, NULL), hipErrorInvalidValue);
    FAILS(hipModuleLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), hipErrorInvalidValue);
    int blocks, value;
    CHECK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 128, 0, 0));
    EXPECT(blocks == 16);
    CHECK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 128, 65536, 0));
    EXPECT(blocks == 2);
    CHECK(hipFuncGetAttribute(&value, 0, f));
    EXPECT(value == 1024);
    CHECK(hipFuncGetAttribute(&value, 1, kernel("block_sums")));
    EXPECT(value == 1024);
}

static void fault(void) {
    void *to = device(64, NULL), *zero = NULL;
    unsigned value = 1, count = 17, out[16];
    FAILS(hipModuleLaunchKernel(kernel("fill"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&to, &value, &count}, NULL),
          hipErrorLaunchFailure);
    EXPECT(hipGetLastError() == hipErrorLaunchFailure);
    FAILS(hipDeviceSynchronize(), hipErrorLaunchFailure);
    FAILS(hipMemcpyDtoH(out, to, 64), hipErrorLaunchFailure);
    CHECK(hipDeviceReset());
    module = NULL;
    CHECK(hipDeviceSynchronize());
    to = device(64, NULL);
    count = 16;
    launch(kernel("fill"), 1, 32, 0, NULL, (void *[]){&to, &value, &count});
    FAILS(hipModuleLaunchKernel(kernel("fill"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&zero, &value, &count}, NULL),
          hipErrorLaunchFailure);
}

/* Kernels may not write what a loader maps read-only, nor reach one another's freed memory. */
static void protection(void) {
    void *table, *gone = device(256, NULL);
    size_t size;
    unsigned value = 1, count = 1;
    kernel("fill");
    CHECK(hipModuleGetGlobal(&table, &size, module, "table"));
    FAILS(hipModuleLaunchKernel(kernel("fill"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&table, &value, &count}, NULL),
          hipErrorLaunchFailure);
    CHECK(hipDeviceReset());
    module = NULL;
    gone = device(256, NULL);
    CHECK(hipFree(gone));
    FAILS(hipModuleLaunchKernel(kernel("fill"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&gone, &value, &count}, NULL),
          hipErrorLaunchFailure);
}

static void device_pointer_on_host(void) {
    volatile char *place = device(64, NULL);
    pid_t child = fork();
    if (!child) {
        place[0] = 1; /* no such memory here */
        _exit(0);
    }
    int state;
    waitpid(child, &state, 0);
    EXPECT(WIFSIGNALED(state));
    child = fork();
    if (!child)
        _exit(hipDeviceSynchronize() == hipErrorNotInitialized ? 7 : 1);
    waitpid(child, &state, 0);
    EXPECT(WIFEXITED(state) && WEXITSTATUS(state) == 7);
    EXPECT(waitpid(-1, &state, WNOHANG) == -1); /* the helper is no child of ours */
    vector_add();
}

static void *one_thread(void *argument) {
    unsigned start = (unsigned)(uintptr_t)argument * 1000, count = 300, out[300];
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    for (int round = 0; round < 5; round++) {
        void *to = device(sizeof out, NULL);
        launch(kernel("fill"), 3, 128, 0, stream, (void *[]){&to, &start, &count});
        CHECK(hipMemcpyAsync(out, to, sizeof out, hipMemcpyDeviceToHost, stream));
        CHECK(hipStreamSynchronize(stream));
        for (unsigned i = 0; i < count; i++)
            EXPECT(out[i] == start + i);
        CHECK(hipFree(to));
    }
    CHECK(hipStreamDestroy(stream));
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    kernel("fill");
    for (uintptr_t i = 0; i < 4; i++)
        EXPECT(!pthread_create(&all[i], NULL, one_thread, (void *)i));
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

/* Ends by being killed. */
static void never_ends(void) {
    vector_add();
    puts("launching");
    fflush(stdout);
    unsigned zero = 0;
    void *flag = device(sizeof zero, &zero);
    launch(kernel("endless"), 1, 32, 0, NULL, (void *[]){&flag});
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(vector_add), CASE(reduction), CASE(atomics), CASE(module_globals), CASE(texture), CASE(pitched_texture), CASE(surface),
    CASE(streams_and_events), CASE(arguments_and_lds), CASE(memory), CASE(limit), CASE(fault), CASE(protection),
    CASE(device_pointer_on_host), CASE(threads), CASE(never_ends),
};

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    object_path = arguments[1];
    CHECK(hipInit(0));
    for (int n = 2; n < count; n++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (!strcmp(cases[i].name, arguments[n])) {
                cases[i].run();
                printf("%s: ok\n", arguments[n]);
            }
    return 0;
}
