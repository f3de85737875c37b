/* Memset in widths of 1, 2 and 4 bytes, over runs and boxes. */
#include "emu.h"

#include <string.h>

static void pattern(unsigned char *to, uint32_t value, size_t width, size_t count) {
    if (width == 1) {
        memset(to, (int)(value & 0xFF), count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * width, &value, width); /* little-endian: the low bytes come first */
}

/* `count` elements a row. */
static hipError_t fill(void *target, size_t pitch, size_t slice, uint32_t value, size_t width, size_t count,
                       size_t height, size_t depth, hipStream_t stream) {
    TRY(emu_begin());
    TRY(emu_check_stream(stream));
    if (!count || !height || !depth)
        DONE(hipSuccess);
    if ((uintptr_t)target % width || !emu_in_arena(target) || count > SIZE_MAX / width)
        DONE(hipErrorInvalidValue);
    size_t row = count * width, last;
    if ((height > 1 && pitch < row) || __builtin_mul_overflow(depth - 1, slice, &last))
        DONE(hipErrorInvalidValue);
    if (height - 1 > (SIZE_MAX - last - row) / (pitch ? pitch : 1))
        DONE(hipErrorInvalidValue);
    unsigned char *to = emu_bytes(target, last + (height - 1) * pitch + row);
    if (!to)
        DONE(hipErrorInvalidValue);
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            pattern(to + z * slice + y * pitch, value, width, count);
    DONE(hipSuccess);
}

#define RUN_API(name, value_type, width)                                                                               \
    API hipError_t name(void *target, value_type value, size_t count) {                                               \
        return fill(target, 0, 0, (uint32_t)value, width, count, 1, 1, NULL);                                          \
    }                                                                                                                  \
    API hipError_t name##Async(void *target, value_type value, size_t count, hipStream_t stream) {                    \
        return fill(target, 0, 0, (uint32_t)value, width, count, 1, 1, stream);                                        \
    }
RUN_API(hipMemset, int, 1)
RUN_API(hipMemsetD8, unsigned char, 1)
RUN_API(hipMemsetD16, unsigned short, 2)
RUN_API(hipMemsetD32, int, 4)

#define BOX_API(name, value_type, width)                                                                               \
    API hipError_t name(void *target, size_t pitch, value_type value, size_t count, size_t height) {                  \
        return fill(target, pitch, 0, (uint32_t)value, width, count, height, 1, NULL);                                 \
    }                                                                                                                  \
    API hipError_t name##Async(void *target, size_t pitch, value_type value, size_t count, size_t height,             \
                               hipStream_t stream) {                                                                  \
        return fill(target, pitch, 0, (uint32_t)value, width, count, height, 1, stream);                               \
    }
BOX_API(hipMemset2D, int, 1)
BOX_API(hipMemsetD2D8, unsigned char, 1)
BOX_API(hipMemsetD2D16, unsigned short, 2)
BOX_API(hipMemsetD2D32, unsigned, 4)

API hipError_t hipMemset3DAsync(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
    return fill(to.ptr, to.pitch, to.pitch * to.ysize, (uint32_t)value, 1, extent.width, extent.height, extent.depth,
                stream);
}
API hipError_t hipMemset3D(hipPitchedPtr to, int value, hipExtent extent) {
    return hipMemset3DAsync(to, value, extent, NULL);
}
