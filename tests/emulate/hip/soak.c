/* Random sequences of allocation, copy, fill, launch and free from four threads, against a model in host memory.
 * usage: soak CODE_OBJECT SEQUENCES SEED */
#include <pthread.h>
#include <string.h>

#include "check.h"

enum { THREADS = 4, BUFFERS = 8, OPERATIONS = 60, LONGEST = 40000, BLOCK = 64 };

static hipFunction_t fill_kernel, scale_kernel;
static unsigned sequences, seed;
static const char *object_path;

typedef struct {
    void *device;
    unsigned char *model;
    size_t size;
} buffer;

typedef struct {
    buffer buffers[BUFFERS];
    hipStream_t stream;
    unsigned long long state;
    unsigned sequence;
} thread_state;

static unsigned draw(thread_state *t, unsigned below) {
    t->state = t->state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(t->state >> 33) % below;
}

static buffer *pick(thread_state *t) {
    for (int i = 0; i < 4; i++) {
        buffer *b = &t->buffers[draw(t, BUFFERS)];
        if (b->device)
            return b;
    }
    return NULL;
}

static void allocate(thread_state *t) {
    buffer *b = &t->buffers[draw(t, BUFFERS)];
    if (b->device)
        return;
    b->size = draw(t, 5) ? 1 + draw(t, LONGEST) : 4 * (1 + draw(t, 64));
    CHECK(hipMalloc(&b->device, b->size));
    b->model = malloc(b->size);
    for (size_t i = 0; i < b->size; i++)
        b->model[i] = (unsigned char)draw(t, 256);
    CHECK(hipMemcpyHtoD(b->device, b->model, b->size));
}

static void compare(thread_state *t, buffer *b, size_t from, size_t size) {
    unsigned char *seen = malloc(size ? size : 1);
    CHECK(hipMemcpyAsync(seen, (char *)b->device + from, size, hipMemcpyDeviceToHost, t->stream));
    CHECK(hipStreamSynchronize(t->stream));
    if (memcmp(seen, b->model + from, size)) {
        size_t at = 0;
        while (seen[at] == b->model[from + at])
            at++;
        printf("sequence %u: byte %zu of %zu is %u, not %u\n", t->sequence, from + at, b->size, seen[at],
               b->model[from + at]);
        exit(1);
    }
    free(seen);
}

static void release(thread_state *t, buffer *b) {
    compare(t, b, 0, b->size);
    CHECK(hipFree(b->device));
    free(b->model);
    *b = (buffer){0};
}

static void upload(thread_state *t, buffer *b) {
    size_t from = draw(t, (unsigned)b->size), size = draw(t, (unsigned)(b->size - from) + 1);
    for (size_t i = 0; i < size; i++)
        b->model[from + i] = (unsigned char)draw(t, 256);
    CHECK(hipMemcpyAsync((char *)b->device + from, b->model + from, size, hipMemcpyHostToDevice, t->stream));
}

static void between(thread_state *t, buffer *a, buffer *b) {
    size_t size = draw(t, (unsigned)(a->size < b->size ? a->size : b->size) + 1);
    CHECK(hipMemcpyDtoD(b->device, (char *)a->device + (a->size - size), size));
    memmove(b->model, a->model + (a->size - size), size);
}

static void set(thread_state *t, buffer *b) {
    unsigned value = draw(t, 1u << 30) * 5;
    size_t words = b->size / 4;
    CHECK(hipMemsetD32(b->device, (int)value, words));
    for (size_t i = 0; i < words; i++)
        memcpy(b->model + 4 * i, &value, 4);
    CHECK(hipMemsetD8((char *)b->device + 4 * words, 0x5A, b->size - 4 * words));
    memset(b->model + 4 * words, 0x5A, b->size - 4 * words);
}

static unsigned word(const buffer *b, size_t i) {
    unsigned value;
    memcpy(&value, b->model + 4 * i, 4);
    return value;
}

static void run_kernel(thread_state *t, buffer *a, buffer *b) {
    unsigned count = (unsigned)((a->size < b->size ? a->size : b->size) / 4), factor = draw(t, 1000);
    unsigned blocks = draw(t, 2) ? 4 : 1 + draw(t, 3);
    count = count < blocks * BLOCK ? count : blocks * BLOCK;
    void *scale[] = {&b->device, &a->device, &b->device, &factor, &count};
    void *fill[] = {&b->device, &factor, &count};
    int scales = (int)draw(t, 2);
    CHECK(hipModuleLaunchKernel(scales ? scale_kernel : fill_kernel, blocks, 1, 1, BLOCK, 1, 1, 0, t->stream,
                                scales ? scale : fill, NULL));
    unsigned *result = malloc(4 * count + 1);
    for (unsigned i = 0; i < count; i++)
        result[i] = scales ? word(a, i) * factor + word(b, i) : factor + i;
    memcpy(b->model, result, 4 * count);
    free(result);
}

static void step(thread_state *t) {
    buffer *a = pick(t), *b = pick(t);
    if (!a || !b) {
        allocate(t);
        return;
    }
    switch (draw(t, 8)) {
    case 0:
        release(t, a);
        break;
    case 1:
        upload(t, a);
        break;
    case 2:
        between(t, a, b);
        break;
    case 3:
        set(t, a);
        break;
    case 4: {
        size_t from = draw(t, (unsigned)a->size);
        compare(t, a, from, a->size - from);
        break;
    }
    case 5:
        run_kernel(t, a, b);
        break;
    default:
        allocate(t);
    }
}

/* A module of the sequence's own: its variable counts from the start, and its memory comes back. */
static void own_module(thread_state *t) {
    hipModule_t module;
    hipFunction_t function;
    unsigned out[2];
    void *to;
    CHECK(hipModuleLoad(&module, object_path));
    CHECK(hipModuleGetFunction(&function, module, "count_launches"));
    CHECK(hipMalloc(&to, sizeof out));
    for (unsigned i = 1; i <= 1 + draw(t, 2); i++) {
        CHECK(hipModuleLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, t->stream, (void *[]){&to}, NULL));
        CHECK(hipMemcpyDtoH(out, to, sizeof out));
        if (out[0] != 40 + i || out[1] != 4) {
            printf("sequence %u: launch %u counted %u\n", t->sequence, i, out[0]);
            exit(1);
        }
    }
    CHECK(hipModuleUnload(module));
    CHECK(hipFree(to));
}

static void *run(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument;
    for (unsigned s = number; s < sequences; s += THREADS) {
        thread_state t = {.state = seed * 1000003ull + s, .sequence = s};
        CHECK(hipStreamCreate(&t.stream));
        for (int i = 0; i < OPERATIONS; i++)
            step(&t);
        if (!draw(&t, 8))
            own_module(&t);
        for (int i = 0; i < BUFFERS; i++)
            if (t.buffers[i].device)
                release(&t, &t.buffers[i]);
        CHECK(hipStreamDestroy(t.stream));
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 4)
        return 2;
    object_path = arguments[1];
    sequences = (unsigned)atoi(arguments[2]);
    seed = (unsigned)atoi(arguments[3]);
    hipModule_t module;
    CHECK(hipInit(0));
    CHECK(hipModuleLoad(&module, object_path));
    CHECK(hipModuleGetFunction(&fill_kernel, module, "fill"));
    CHECK(hipModuleGetFunction(&scale_kernel, module, "scale_add"));
    size_t before, after, total;
    CHECK(hipMemGetInfo(&before, &total));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(hipMemGetInfo(&after, &total));
    if (before != after) {
        printf("%zu bytes of device memory leaked\n", before - after);
        return 1;
    }
    CHECK(hipModuleUnload(module));
    printf("%u sequences without a difference\n", sequences);
    return 0;
}
