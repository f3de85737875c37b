/* Allocations: device, pinned, managed (as pinned), and questions about pointers. */
#include "emu.h"

#include <string.h>

static hipError_t allocate(void **out, size_t size, enum emu_kind kind, unsigned flags) {
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    DONE(emu_allocate(size, EMU_GRANULE, kind, flags, out));
}

API hipError_t hipMalloc(void **out, size_t size) { return allocate(out, size, EMU_DEVICE, 0); }
API hipError_t hipExtMallocWithFlags(void **out, size_t size, unsigned flags) {
    return allocate(out, size, EMU_DEVICE, flags);
}
API hipError_t hipMallocAsync(void **out, size_t size, hipStream_t stream) {
    TRY(emu_check_stream(stream));
    return allocate(out, size, EMU_DEVICE, 0);
}
API hipError_t hipMallocManaged(void **out, size_t size, unsigned flags) {
    return allocate(out, size, EMU_MANAGED, flags);
}
API hipError_t hipHostMalloc(void **out, size_t size, unsigned flags) { return allocate(out, size, EMU_HOST, flags); }
API hipError_t hipHostAlloc(void **out, size_t size, unsigned flags) { return allocate(out, size, EMU_HOST, flags); }
API hipError_t hipMallocHost(void **out, size_t size) { return allocate(out, size, EMU_HOST, 0); }
API hipError_t hipMemAllocHost(void **out, size_t size) { return allocate(out, size, EMU_HOST, 0); }

static hipError_t pitched(void **out, size_t *pitch, size_t width, size_t rows) {
    TRY(emu_begin());
    if (!out || !pitch)
        DONE(hipErrorInvalidValue);
    *pitch = (width + EMU_GRANULE - 1) / EMU_GRANULE * EMU_GRANULE;
    if (*pitch < width || (rows && *pitch > SIZE_MAX / rows))
        DONE(hipErrorInvalidValue);
    DONE(emu_allocate(*pitch * rows, EMU_GRANULE, EMU_DEVICE, 0, out));
}

API hipError_t hipMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    return pitched(out, pitch, width, height);
}
API hipError_t hipMemAllocPitch(hipDeviceptr_t *out, size_t *pitch, size_t width, size_t height, unsigned element) {
    if (element != 4 && element != 8 && element != 16)
        DONE(hipErrorInvalidValue);
    return pitched(out, pitch, width, height);
}
API hipError_t hipMalloc3D(hipPitchedPtr *out, hipExtent extent) {
    if (!out || (extent.depth && extent.height > SIZE_MAX / extent.depth))
        DONE(hipErrorInvalidValue);
    out->xsize = extent.width;
    out->ysize = extent.height;
    return pitched(&out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
}

API hipError_t hipFree(void *pointer) {
    TRY(emu_begin());
    DONE(emu_release(pointer, false));
}
API hipError_t hipFreeAsync(void *pointer, hipStream_t stream) {
    TRY(emu_check_stream(stream));
    return hipFree(pointer);
}
API hipError_t hipHostFree(void *pointer) { return hipFree(pointer); }
API hipError_t hipFreeHost(void *pointer) { return hipFree(pointer); }

API hipError_t hipMemGetInfo(size_t *available, size_t *total) {
    TRY(emu_begin());
    if (!available || !total)
        DONE(hipErrorInvalidValue);
    emu_usage(available, total);
    DONE(hipSuccess);
}

/* The block of a pointer that the program may know of. */
static hipError_t known(const void *pointer, emu_block *block) {
    hipError_t status = emu_begin();
    if (status != hipSuccess)
        return status;
    return emu_find(pointer, block) && block->kind != EMU_INTERNAL ? hipSuccess : hipErrorInvalidValue;
}

static bool on_host(const emu_block *block) { return block->kind == EMU_HOST || block->kind == EMU_MANAGED; }

API hipError_t hipHostGetDevicePointer(void **out, void *host, unsigned flags) {
    emu_block block;
    TRY(known(host, &block));
    if (!out || flags || !on_host(&block))
        DONE(hipErrorInvalidValue);
    *out = host;
    DONE(hipSuccess);
}
API hipError_t hipHostGetFlags(unsigned *out, void *host) {
    emu_block block;
    TRY(known(host, &block));
    if (!out || !on_host(&block))
        DONE(hipErrorInvalidValue);
    *out = block.flags;
    DONE(hipSuccess);
}
API hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t pointer) {
    emu_block block;
    hipError_t status = known(pointer, &block);
    if (status != hipSuccess)
        DONE(status == hipErrorInvalidValue ? hipErrorNotFound : status);
    if (base)
        *base = (void *)(uintptr_t)block.start;
    if (size)
        *size = block.size;
    DONE(hipSuccess);
}
API hipError_t hipMemPtrGetInfo(void *pointer, size_t *size) {
    emu_block block;
    TRY(known(pointer, &block));
    if (!size)
        DONE(hipErrorInvalidValue);
    *size = block.size;
    DONE(hipSuccess);
}
API hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *pointer) {
    TRY(emu_begin());
    if (!out || !pointer)
        DONE(hipErrorInvalidValue);
    emu_block block;
    *out = (hipPointerAttribute_t){.device = -2, .hostPointer = (void *)(uintptr_t)pointer};
    if (known(pointer, &block) != hipSuccess)
        DONE(hipSuccess); /* memory that HIP does not know, since version 6 */
    out->device = 0;
    out->devicePointer = (void *)(uintptr_t)pointer;
    out->hostPointer = on_host(&block) ? out->devicePointer : NULL;
    out->isManaged = block.kind == EMU_MANAGED;
    out->allocationFlags = block.flags;
    out->type = out->isManaged ? hipMemoryTypeManaged : on_host(&block) ? hipMemoryTypeHost : hipMemoryTypeDevice;
    DONE(hipSuccess);
}

/* hipPointer_attribute */
enum { MEMORY_TYPE = 2, DEVICE_POINTER, HOST_POINTER, SYNC_MEMOPS = 6, BUFFER_ID, IS_MANAGED, DEVICE_ORDINAL,
       RANGE_START = 11, RANGE_SIZE, MAPPED };

static hipError_t attribute(void *out, int which, const void *pointer) {
    emu_block block;
    hipError_t status = known(pointer, &block);
    if (status != hipSuccess)
        return status;
    switch (which) {
    case MEMORY_TYPE:
        *(unsigned *)out = on_host(&block) ? hipMemoryTypeHost : hipMemoryTypeDevice;
        return hipSuccess;
    case DEVICE_POINTER:
        *(const void **)out = pointer;
        return hipSuccess;
    case HOST_POINTER:
        *(const void **)out = on_host(&block) ? pointer : NULL;
        return on_host(&block) ? hipSuccess : hipErrorInvalidValue;
    case SYNC_MEMOPS:
    case MAPPED:
        *(unsigned *)out = 1;
        return hipSuccess;
    case IS_MANAGED:
        *(unsigned *)out = block.kind == EMU_MANAGED;
        return hipSuccess;
    case DEVICE_ORDINAL:
        *(int *)out = 0;
        return hipSuccess;
    case BUFFER_ID:
    case RANGE_START:
        *(uint64_t *)out = block.start;
        return hipSuccess;
    case RANGE_SIZE:
        *(size_t *)out = block.size;
        return hipSuccess;
    default:
        return hipErrorNotSupported;
    }
}

API hipError_t hipPointerGetAttribute(void *out, int which, hipDeviceptr_t pointer) {
    DONE(out && pointer ? attribute(out, which, pointer) : hipErrorInvalidValue);
}
API hipError_t hipDrvPointerGetAttributes(unsigned count, int *which, void **out, hipDeviceptr_t pointer) {
    if (!which || !out)
        DONE(hipErrorInvalidValue);
    for (unsigned i = 0; i < count; i++) {
        bool wide = which[i] == DEVICE_POINTER || which[i] == HOST_POINTER || which[i] >= RANGE_START ||
                    which[i] == BUFFER_ID;
        memset(out[i], 0, wide && which[i] != MAPPED ? 8 : 4); /* what stays where the pointer is not known */
        if (attribute(out[i], which[i], pointer) == hipErrorNotSupported)
            DONE(hipErrorNotSupported);
    }
    DONE(hipSuccess);
}
API hipError_t hipMemPrefetchAsync(const void *pointer, size_t size, int device, hipStream_t stream) {
    (void)size;
    (void)device;
    emu_block block;
    TRY(emu_check_stream(stream));
    DONE(known(pointer, &block));
}
API hipError_t hipMemAdvise(const void *pointer, size_t size, int advice, int device) {
    (void)size;
    (void)advice;
    (void)device;
    emu_block block;
    DONE(known(pointer, &block));
}
