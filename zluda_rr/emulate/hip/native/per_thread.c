/* The forms for -fgpu-default-stream=per-thread: streams here never overlap, so they are what the others are. */
#include "emu.h"

#define SAME(name, parameters, arguments)                                                                              \
    hipError_t name parameters;                                                                                        \
    API hipError_t name##_spt parameters;                                                                              \
    API hipError_t name##_spt parameters { return name arguments; }

SAME(hipLaunchKernel, (const void *f, dim3 grid, dim3 block, void **params, size_t lds, hipStream_t stream),
     (f, grid, block, params, lds, stream))
SAME(hipMemset, (void *to, int value, size_t count), (to, value, count))
SAME(hipMemsetAsync, (void *to, int value, size_t count, hipStream_t stream), (to, value, count, stream))
SAME(hipMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height), (to, pitch, value, width, height))
SAME(hipMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
     (to, pitch, value, width, height, stream))
SAME(hipMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, hipMemcpyKind k),
     (to, to_pitch, from, pitch, width, height, k))
SAME(hipMemcpy2DAsync,
     (void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, hipMemcpyKind k,
      hipStream_t stream),
     (to, to_pitch, from, pitch, width, height, k, stream))
SAME(hipMemcpy3D, (const hipMemcpy3DParms *p), (p))
SAME(hipMemcpy3DAsync, (const hipMemcpy3DParms *p, hipStream_t stream), (p, stream))
SAME(hipMemcpyToSymbol, (const void *to, const void *from, size_t size, size_t offset, hipMemcpyKind k),
     (to, from, size, offset, k))
SAME(hipMemcpyFromSymbol, (void *to, const void *from, size_t size, size_t offset, hipMemcpyKind k),
     (to, from, size, offset, k))
SAME(hipEventRecord, (hipEvent_t event, hipStream_t stream), (event, stream))
SAME(hipStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned flags), (stream, event, flags))
SAME(hipLaunchHostFunc, (hipStream_t stream, void (*call)(void *), void *data), (stream, call, data))
SAME(hipStreamGetFlags, (hipStream_t stream, unsigned *out), (stream, out))
SAME(hipStreamGetPriority, (hipStream_t stream, int *out), (stream, out))
SAME(hipStreamIsCapturing, (hipStream_t stream, int *out), (stream, out))
