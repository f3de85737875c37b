/* Prototypes of HIP's public functions that the test programs call, after ROCm's hip_runtime_api.h. */
#ifndef CALLS_H
#define CALLS_H

#include "abi.h"

hipError_t hipInit(unsigned flags);
const char *hipGetErrorName(hipError_t status);
hipError_t hipGetLastError(void);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceReset(void);
hipError_t hipModuleLoad(hipModule_t *module, const char *path);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleGetGlobal(hipDeviceptr_t *address, size_t *size, hipModule_t module, const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                 hipStream_t stream, void **params, void **extra);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t function, int threads,
                                                                       size_t shared, unsigned flags);
hipError_t hipFuncGetAttribute(int *value, int attribute, hipFunction_t function);
hipError_t hipMalloc(void **place, size_t size);
hipError_t hipHostMalloc(void **place, size_t size, unsigned flags);
hipError_t hipMallocPitch(void **place, size_t *pitch, size_t width, size_t height);
hipError_t hipFree(void *place);
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags);
hipError_t hipMemGetInfo(size_t *available, size_t *total);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t place);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *place);
hipError_t hipMemcpy(void *target, const void *source, size_t size, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *target, const void *source, size_t size, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyHtoD(hipDeviceptr_t target, const void *source, size_t size);
hipError_t hipMemcpyDtoH(void *target, hipDeviceptr_t source, size_t size);
hipError_t hipMemcpyDtoHAsync(void *target, hipDeviceptr_t source, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoD(hipDeviceptr_t target, hipDeviceptr_t source, size_t size);
hipError_t hipMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                       size_t height, hipMemcpyKind kind);
hipError_t hipMemcpyParam2D(const hip_Memcpy2D *copy);
hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *copy);
hipError_t hipMemcpy2DToArray(hipArray_t array, size_t x, size_t y, const void *source, size_t pitch, size_t width,
                              size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DFromArray(void *target, size_t pitch, hipArray_t array, size_t x, size_t y, size_t width,
                                size_t height, hipMemcpyKind kind);
hipError_t hipMemset2D(void *target, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemsetD8(hipDeviceptr_t target, unsigned char value, size_t count);
hipError_t hipMemsetD16(hipDeviceptr_t target, unsigned short value, size_t count);
hipError_t hipMemsetD32(hipDeviceptr_t target, int value, size_t count);
hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *shape);
hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *shape);
hipError_t hipArrayDestroy(hipArray_t array);
hipError_t hipTexObjectCreate(hipTextureObject_t *object, const HIP_RESOURCE_DESC *source, const HIP_TEXTURE_DESC *how,
                              const void *view);
hipError_t hipTexObjectDestroy(hipTextureObject_t object);
hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *object, const hipResourceDesc *source);
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t first, hipEvent_t last);

#endif
