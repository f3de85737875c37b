/* libamdhip64, emulated: internal interfaces. C11 and libc only. Device memory is an arena in a memfd that a helper
 * process maps as well; the helper runs kernels in the gfx12 emulator. Every call has finished when it returns, so
 * whatever order of streams and events a program asks for is kept. */
#ifndef ZRR_HIP_EMU_H
#define ZRR_HIP_EMU_H

#include <stdbool.h>
#include <stdio.h>

#include "abi.h"

#define API __attribute__((visibility("default")))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
/* Every API function ends with this: a failure stays behind for hipGetLastError. */
#define DONE(status) return emu_note(status)
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        hipError_t status_ = (call);                                                                                   \
        if (status_ != hipSuccess)                                                                                     \
            DONE(status_);                                                                                             \
    } while (0)

/* ---- errors.c ---- */
hipError_t emu_note(hipError_t status);
/* One line on stderr with the library's name in front. */
void emu_say(const char *format, ...) PRINTF_LIKE(1, 2);
/* hipErrorNotSupported; says so the first time for each `said`. */
hipError_t emu_unsupported(const char *what, bool *said);
#define UNSUPPORTED(what)                                                                                              \
    do {                                                                                                               \
        static bool said_;                                                                                             \
        DONE(emu_unsupported(what, &said_));                                                                           \
    } while (0)

/* ---- arena.c: device and pinned host memory ---- */
enum { EMU_GRANULE = 256, EMU_PAGE = 4096 };
enum emu_kind { EMU_DEVICE, EMU_HOST, EMU_MANAGED, EMU_INTERNAL };
typedef struct {
    uint64_t start, size; /* user address; size as asked for */
    enum emu_kind kind;
    unsigned flags;
} emu_block;

/* Maps the arena at first use; every call that needs the device comes through here. After a kernel failed it is
 * hipErrorLaunchFailure until hipDeviceReset. */
hipError_t emu_begin(void);
void emu_set_failed(bool failed);
int emu_arena_fd(void);
uint64_t emu_arena_base(void);
uint64_t emu_arena_size(void);
uint64_t emu_table_bytes(void);
hipError_t emu_allocate(size_t size, size_t align, enum emu_kind kind, unsigned flags, void **out);
hipError_t emu_release(void *pointer, bool internal);
void emu_release_all(void);
bool emu_find(const void *pointer, emu_block *out);
bool emu_in_arena(const void *pointer);
/* The bytes behind a user pointer as this library may touch them: NULL where the range leaves its allocation. A pointer
 * outside the arena is the program's own and is returned as it is. */
void *emu_bytes(const void *pointer, size_t size);
void emu_usage(size_t *available, size_t *total);

/* ---- helper.c: the process with the emulator ---- */
enum emu_request { EMU_LOAD = 1, EMU_PLACE, EMU_UNLOAD, EMU_FUNCTION, EMU_GLOBAL, EMU_LAUNCH, EMU_IMAGE, EMU_MODEL };
typedef struct {
    const void *bytes;
    size_t size;
} emu_part;
/* Sends the parts, waits, stores up to `capacity` bytes of the answer. Text of a failed request goes to stderr. */
hipError_t emu_ask(enum emu_request request, const emu_part *parts, int count, void *answer, size_t capacity,
                   size_t *answered);
void emu_stop_helper(void);

/* ---- copy.c ---- */
/* A box of bytes within something with rows and slices. */
typedef struct {
    const void *origin; /* user pointer of the box's first byte */
    size_t pitch, slice;
} emu_box;
hipError_t emu_copy(void *target, const void *source, size_t size);
hipError_t emu_copy_box(emu_box target, emu_box source, size_t width, size_t height, size_t depth);

/* ---- array.c ---- */
struct hipArray {
    uint64_t magic;
    void *data;
    size_t width, height, depth, pitch, texel; /* texels, rows, slices (0 where there is no such axis); bytes */
    int format;
    unsigned channels, flags;
    struct hipArray *next;
};
hipError_t emu_array(hipArray_t array);
size_t emu_format_bytes(int format);
emu_box emu_array_box(hipArray_t array, size_t x_bytes, size_t y, size_t z);
/* Whether a box lies inside. */
bool emu_array_holds(hipArray_t array, size_t x_bytes, size_t y, size_t z, size_t width, size_t height, size_t depth);
void emu_release_arrays(void);

/* ---- module.c ---- */
typedef struct {
    uint32_t offset, size;
} emu_argument;
struct ihipFunction {
    uint64_t magic;
    uint32_t number, argument_count, kernarg_size, vgprs, sgprs, lds, scratch, max_threads;
    char *name;
    struct ihipModule *module;
    struct ihipFunction *next;
    emu_argument arguments[];
};
hipError_t emu_load(const void *image, hipModule_t *out);
hipError_t emu_unload(hipModule_t module);
hipError_t emu_function(hipModule_t module, const char *name, hipFunction_t *out);
hipError_t emu_global(hipModule_t module, const char *name, void **address, size_t *size);
hipError_t emu_check_function(hipFunction_t function);
void emu_unload_all(void);

/* ---- launch.c ---- */
hipError_t emu_launch(hipFunction_t function, dim3 grid, dim3 block, unsigned lds, hipStream_t stream, void **params,
                      void **extra);
hipError_t emu_occupancy(hipFunction_t function, int threads, size_t lds, int *blocks);
void emu_attributes(hipFunction_t function, hipFuncAttributes *out);

/* ---- registered.c: kernels and variables of hipcc's programs ---- */
hipError_t emu_registered_function(const void *host, hipFunction_t *out);
void emu_forget_registered(void);

/* ---- stream.c ---- */
hipError_t emu_check_stream(hipStream_t stream);

#endif
