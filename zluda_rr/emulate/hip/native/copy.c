/* Copies in all directions. Which side is device memory follows from the pointers; a `kind` that contradicts them is
 * hipErrorInvalidMemcpyDirection only where a device side is no device memory. */
#include "emu.h"

#include <string.h>

hipError_t emu_copy(void *target, const void *source, size_t size) {
    if (!size)
        return hipSuccess;
    if (!target || !source)
        return hipErrorInvalidValue;
    void *to = emu_bytes(target, size);
    const void *from = emu_bytes(source, size);
    if (!to || !from)
        return hipErrorInvalidValue;
    memmove(to, from, size);
    return hipSuccess;
}

/* Bytes from the first to the last of a box; 0 where that is more than there can be. */
static size_t span(emu_box box, size_t width, size_t height, size_t depth) {
    size_t rows, slices, all;
    if (__builtin_mul_overflow(height - 1, box.pitch, &rows) || __builtin_mul_overflow(depth - 1, box.slice, &slices) ||
        __builtin_add_overflow(rows, slices, &all) || __builtin_add_overflow(all, width, &all))
        return 0;
    return all;
}

hipError_t emu_copy_box(emu_box target, emu_box source, size_t width, size_t height, size_t depth) {
    if (!width || !height || !depth)
        return hipSuccess;
    if (!target.origin || !source.origin)
        return hipErrorInvalidValue;
    if ((height > 1 && (target.pitch < width || source.pitch < width)))
        return hipErrorInvalidPitchValue;
    size_t to_span = span(target, width, height, depth), from_span = span(source, width, height, depth);
    if (!to_span || !from_span)
        return hipErrorInvalidValue;
    unsigned char *to = emu_bytes(target.origin, to_span);
    const unsigned char *from = emu_bytes(source.origin, from_span);
    if (!to || !from)
        return hipErrorInvalidValue;
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memmove(to + z * target.slice + y * target.pitch, from + z * source.slice + y * source.pitch, width);
    return hipSuccess;
}

static hipError_t direction(const void *target, const void *source, hipMemcpyKind kind) {
    bool to = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
    bool from = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
    if (!to && !from && kind != hipMemcpyHostToHost && kind != hipMemcpyDefault)
        return hipErrorInvalidMemcpyDirection;
    return (to && !emu_in_arena(target)) || (from && !emu_in_arena(source)) ? hipErrorInvalidMemcpyDirection : hipSuccess;
}

static hipError_t copy(void *target, const void *source, size_t size, hipMemcpyKind kind, hipStream_t stream) {
    TRY(emu_begin());
    TRY(emu_check_stream(stream));
    if (size)
        TRY(direction(target, source, kind));
    DONE(emu_copy(target, source, size));
}

#define COPY_API(name)                                                                                                 \
    API hipError_t name(void *target, const void *source, size_t size, hipMemcpyKind kind) {                           \
        return copy(target, source, size, kind, NULL);                                                                 \
    }
#define COPY_STREAM_API(name)                                                                                          \
    API hipError_t name(void *target, const void *source, size_t size, hipMemcpyKind kind, hipStream_t stream) {       \
        return copy(target, source, size, kind, stream);                                                               \
    }
COPY_API(hipMemcpy)
COPY_API(hipMemcpy_spt)
COPY_STREAM_API(hipMemcpyAsync)
COPY_STREAM_API(hipMemcpyAsync_spt)
COPY_STREAM_API(hipMemcpyWithStream)

#define DIRECTED_API(name, target_type, source_type, kind)                                                             \
    API hipError_t name(target_type target, source_type source, size_t size) {                                        \
        return copy(target, source, size, kind, NULL);                                                                 \
    }                                                                                                                  \
    API hipError_t name##Async(target_type target, source_type source, size_t size, hipStream_t stream) {             \
        return copy(target, source, size, kind, stream);                                                               \
    }
DIRECTED_API(hipMemcpyHtoD, hipDeviceptr_t, const void *, hipMemcpyHostToDevice)
DIRECTED_API(hipMemcpyDtoH, void *, hipDeviceptr_t, hipMemcpyDeviceToHost)
DIRECTED_API(hipMemcpyDtoD, hipDeviceptr_t, hipDeviceptr_t, hipMemcpyDeviceToDevice)

API hipError_t hipMemcpyPeer(void *target, int to, const void *source, int from, size_t size) {
    if (to || from)
        DONE(hipErrorInvalidDevice);
    return copy(target, source, size, hipMemcpyDeviceToDevice, NULL);
}
API hipError_t hipMemcpyPeerAsync(void *target, int to, const void *source, int from, size_t size, hipStream_t stream) {
    if (to || from)
        DONE(hipErrorInvalidDevice);
    return copy(target, source, size, hipMemcpyDeviceToDevice, stream);
}

API hipError_t hipMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                                size_t height, hipMemcpyKind kind, hipStream_t stream) {
    TRY(emu_begin());
    TRY(emu_check_stream(stream));
    if (width && height)
        TRY(direction(target, source, kind));
    if (target_pitch < width || source_pitch < width)
        DONE(hipErrorInvalidPitchValue);
    emu_box to = {target, target_pitch, 0}, from = {source, source_pitch, 0};
    DONE(emu_copy_box(to, from, width, height, 1));
}
API hipError_t hipMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                           size_t height, hipMemcpyKind kind) {
    return hipMemcpy2DAsync(target, target_pitch, source, source_pitch, width, height, kind, NULL);
}

/* One side of the driver's descriptors. */
typedef struct {
    hipMemoryType type;
    const void *host, *device;
    hipArray_t array;
    size_t x, y, z, pitch, height;
} side;

static hipError_t box_of(const side *s, size_t width, size_t height, size_t depth, emu_box *out) {
    if (s->type == hipMemoryTypeArray) {
        hipError_t status = emu_array(s->array);
        if (status != hipSuccess)
            return status;
        if (!emu_array_holds(s->array, s->x, s->y, s->z, width, height, depth))
            return hipErrorInvalidValue;
        *out = emu_array_box(s->array, s->x, s->y, s->z);
        return hipSuccess;
    }
    if (s->type < hipMemoryTypeHost || (s->type > hipMemoryTypeManaged && s->type != hipMemoryTypeUnified))
        return hipErrorInvalidValue;
    const char *origin = s->type == hipMemoryTypeHost ? s->host : s->device;
    if (!origin || (s->type == hipMemoryTypeDevice && !emu_in_arena(origin)))
        return hipErrorInvalidValue;
    size_t pitch = s->pitch ? s->pitch : s->x + width, slice = pitch * (s->height ? s->height : s->y + height);
    *out = (emu_box){origin + s->x + s->y * pitch + s->z * slice, pitch, slice};
    return hipSuccess;
}

static hipError_t copy_sides(const side *target, const side *source, size_t width, size_t height, size_t depth,
                             hipStream_t stream) {
    TRY(emu_begin());
    TRY(emu_check_stream(stream));
    if (!width || !height || !depth)
        DONE(hipSuccess);
    emu_box to, from;
    TRY(box_of(target, width, height, depth, &to));
    TRY(box_of(source, width, height, depth, &from));
    DONE(emu_copy_box(to, from, width, height, depth));
}

API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *p, hipStream_t stream) {
    if (!p)
        DONE(hipErrorInvalidValue);
    side target = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, 0, p->dstPitch, 0};
    side source = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, 0, p->srcPitch, 0};
    return copy_sides(&target, &source, p->WidthInBytes, p->Height, 1, stream);
}
API hipError_t hipMemcpyParam2D(const hip_Memcpy2D *p) { return hipMemcpyParam2DAsync(p, NULL); }
API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *p) { return hipMemcpyParam2DAsync(p, NULL); }

API hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *p, hipStream_t stream) {
    if (!p)
        DONE(hipErrorInvalidValue);
    side target = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, p->dstZ,
                   p->dstPitch,      p->dstHeight};
    side source = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, p->srcZ,
                   p->srcPitch,      p->srcHeight};
    return copy_sides(&target, &source, p->WidthInBytes, p->Height, p->Depth, stream);
}
API hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *p) { return hipDrvMemcpy3DAsync(p, NULL); }

/* The runtime's form: texels where an array takes part, bytes otherwise; rows of linear memory are `ysize` to a slice. */
static side runtime_side(hipArray_t array, hipPos at, hipPitchedPtr linear, size_t texel) {
    if (array)
        return (side){hipMemoryTypeArray, NULL, NULL, array, at.x * texel, at.y, at.z, 0, 0};
    return (side){hipMemoryTypeUnified, NULL, linear.ptr, NULL, at.x, at.y, at.z, linear.pitch, linear.ysize};
}

API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *p, hipStream_t stream) {
    TRY(emu_begin());
    if (!p || (p->srcArray && p->srcPtr.ptr) || (p->dstArray && p->dstPtr.ptr))
        DONE(hipErrorInvalidValue);
    size_t texel = 1;
    if (p->srcArray) {
        TRY(emu_array(p->srcArray));
        texel = p->srcArray->texel;
    }
    if (p->dstArray) {
        TRY(emu_array(p->dstArray));
        if (p->srcArray && p->dstArray->texel != texel)
            DONE(hipErrorInvalidValue);
        texel = p->dstArray->texel;
    }
    side target = runtime_side(p->dstArray, p->dstPos, p->dstPtr, texel);
    side source = runtime_side(p->srcArray, p->srcPos, p->srcPtr, texel);
    return copy_sides(&target, &source, p->extent.width * texel, p->extent.height, p->extent.depth, stream);
}
API hipError_t hipMemcpy3D(const hipMemcpy3DParms *p) { return hipMemcpy3DAsync(p, NULL); }

static side array_side(hipArray_t array, size_t x, size_t y) {
    return (side){hipMemoryTypeArray, NULL, NULL, array, x, y, 0, 0, 0};
}
static side linear_side(const void *pointer, size_t pitch) {
    return (side){hipMemoryTypeUnified, NULL, pointer, NULL, 0, 0, 0, pitch, 0};
}

API hipError_t hipMemcpy2DToArrayAsync(hipArray_t array, size_t x, size_t y, const void *source, size_t pitch,
                                       size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
    (void)kind;
    side to = array_side(array, x, y), from = linear_side(source, pitch);
    return copy_sides(&to, &from, width, height, 1, stream);
}
API hipError_t hipMemcpy2DToArray(hipArray_t array, size_t x, size_t y, const void *source, size_t pitch, size_t width,
                                  size_t height, hipMemcpyKind kind) {
    return hipMemcpy2DToArrayAsync(array, x, y, source, pitch, width, height, kind, NULL);
}
API hipError_t hipMemcpy2DFromArrayAsync(void *target, size_t pitch, hipArray_t array, size_t x, size_t y, size_t width,
                                         size_t height, hipMemcpyKind kind, hipStream_t stream) {
    (void)kind;
    side to = linear_side(target, pitch), from = array_side(array, x, y);
    return copy_sides(&to, &from, width, height, 1, stream);
}
API hipError_t hipMemcpy2DFromArray(void *target, size_t pitch, hipArray_t array, size_t x, size_t y, size_t width,
                                    size_t height, hipMemcpyKind kind) {
    return hipMemcpy2DFromArrayAsync(target, pitch, array, x, y, width, height, kind, NULL);
}

/* Bytes in the order of rows, from byte `x` of row 0 on: only within that row, as there is no order beyond it. */
static hipError_t row_copy(side to, side from, size_t size) { return copy_sides(&to, &from, size, 1, 1, NULL); }
API hipError_t hipMemcpyHtoA(hipArray_t array, size_t x, const void *source, size_t size) {
    return row_copy(array_side(array, x, 0), linear_side(source, 0), size);
}
API hipError_t hipMemcpyAtoH(void *target, hipArray_t array, size_t x, size_t size) {
    return row_copy(linear_side(target, 0), array_side(array, x, 0), size);
}
API hipError_t hipMemcpyDtoA(hipArray_t array, size_t x, hipDeviceptr_t source, size_t size) {
    return row_copy(array_side(array, x, 0), linear_side(source, 0), size);
}
API hipError_t hipMemcpyAtoD(hipDeviceptr_t target, hipArray_t array, size_t x, size_t size) {
    return row_copy(linear_side(target, 0), array_side(array, x, 0), size);
}
API hipError_t hipMemcpyAtoA(hipArray_t target, size_t x, hipArray_t source, size_t from, size_t size) {
    return row_copy(array_side(target, x, 0), array_side(source, from, 0), size);
}
