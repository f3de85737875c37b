/* The parts of HIP's public binary interface (hip_runtime_api.h, driver_types.h, HIP 6 and 7) that this library works
 * with: values and layouts only. */
#ifndef ZRR_HIP_ABI_H
#define ZRR_HIP_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
enum {
#define ERROR(name, value, text) name = value,
#include "errors.def"
#undef ERROR
};

typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream *hipStream_t;
typedef struct ihipEvent *hipEvent_t;
typedef struct ihipModule *hipModule_t;
typedef struct ihipFunction *hipFunction_t;
typedef struct ihipCtx *hipCtx_t;
typedef struct hipArray *hipArray_t;
typedef void *hipTextureObject_t;
typedef void *hipSurfaceObject_t;

typedef struct {
    uint32_t x, y, z;
} dim3;

typedef enum { hipMemoryTypeHost = 1, hipMemoryTypeDevice = 2, hipMemoryTypeManaged = 3, hipMemoryTypeArray = 10,
               hipMemoryTypeUnified = 11 } hipMemoryType;
typedef enum { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice,
               hipMemcpyDefault, hipMemcpyDeviceToDeviceNoCU = 1024 } hipMemcpyKind;

typedef struct {
    int x, y, z, w;
    int f; /* 0 signed, 1 unsigned, 2 float, 3 none */
} hipChannelFormatDesc;

typedef struct {
    size_t Width, Height;
    int Format;
    unsigned NumChannels;
} HIP_ARRAY_DESCRIPTOR;

typedef struct {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
} HIP_ARRAY3D_DESCRIPTOR;

typedef struct {
    size_t srcXInBytes, srcY;
    hipMemoryType srcMemoryType;
    const void *srcHost;
    hipDeviceptr_t srcDevice;
    hipArray_t srcArray;
    size_t srcPitch, dstXInBytes, dstY;
    hipMemoryType dstMemoryType;
    void *dstHost;
    hipDeviceptr_t dstDevice;
    hipArray_t dstArray;
    size_t dstPitch, WidthInBytes, Height;
} hip_Memcpy2D;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    hipMemoryType srcMemoryType;
    const void *srcHost;
    hipDeviceptr_t srcDevice;
    hipArray_t srcArray;
    size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
    hipMemoryType dstMemoryType;
    void *dstHost;
    hipDeviceptr_t dstDevice;
    hipArray_t dstArray;
    size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
} HIP_MEMCPY3D;

typedef struct {
    void *ptr;
    size_t pitch, xsize, ysize;
} hipPitchedPtr;

typedef struct {
    size_t width, height, depth;
} hipExtent;

typedef struct {
    size_t x, y, z;
} hipPos;

typedef struct {
    hipArray_t srcArray;
    hipPos srcPos;
    hipPitchedPtr srcPtr;
    hipArray_t dstArray;
    hipPos dstPos;
    hipPitchedPtr dstPtr;
    hipExtent extent;
    hipMemcpyKind kind;
} hipMemcpy3DParms;

enum { hipResourceTypeArray, hipResourceTypeMipmappedArray, hipResourceTypeLinear, hipResourceTypePitch2D };

typedef struct {
    int resType;
    union {
        struct {
            hipArray_t array;
        } array;
        struct {
            void *devPtr;
            hipChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void *devPtr;
            hipChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
} hipResourceDesc;

typedef struct {
    int resType;
    union {
        struct {
            hipArray_t hArray;
        } array;
        struct {
            hipDeviceptr_t devPtr;
            int format;
            unsigned numChannels;
            size_t width, height, pitchInBytes;
        } pitch2D;
        int reserved[32];
    } res;
    unsigned flags;
} HIP_RESOURCE_DESC;

typedef struct {
    int addressMode[3]; /* 0 wrap, 1 clamp, 2 mirror, 3 border */
    int filterMode;     /* 0 point, 1 linear */
    int readMode;       /* 0 element type, 1 normalised float */
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    int mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
} hipTextureDesc;

typedef struct {
    int addressMode[3];
    int filterMode;
    unsigned flags;
    unsigned maxAnisotropy;
    int mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    float borderColor[4];
    int reserved[12];
} HIP_TEXTURE_DESC;
enum { HIP_TRSF_READ_AS_INTEGER = 1, HIP_TRSF_NORMALIZED_COORDINATES = 2, HIP_TRSF_SRGB = 16 };

typedef struct {
    hipMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

typedef struct {
    int binaryVersion, cacheModeCA;
    size_t constSizeBytes, localSizeBytes;
    int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion;
    size_t sharedSizeBytes;
} hipFuncAttributes;

typedef struct {
    char bytes[16];
} hipUUID;

typedef struct {
    char name[256];
    hipUUID uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2];
    int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
    int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3];
    int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
    int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess;
    int computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseHipArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingHipArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
    int reserved[63], hipReserved[32];
    char gcnArchName[256];
    size_t maxSharedMemoryPerMultiProcessor;
    int clockInstructionRate;
    uint32_t arch; /* 17 one-bit flags */
    unsigned *hdpMemFlushCntl, *hdpRegFlushCntl;
    int cooperativeMultiDeviceUnmatched[4]; /* function, grid, block, shared memory */
    int isLargeBar, asicRevision;
} hipDeviceProp_tR0600;

#endif
