/* The one device: an RX 9070 XT as far as numbers go. What only a card can know (PCI place, clocks under load) is that
 * of no real one. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { COMPUTE_UNITS = 64, WORKGROUP_PROCESSORS = 32, LDS_BYTES = 65536, CLOCK_KHZ = 2970000, MEMORY_CLOCK_KHZ = 1258000 };
enum { VERSION = 71500000, IMAGE_EDGE = 16384, DRIVER_CAPABILITY_MAJOR = 12 };
static const char NAME[] = "AMD Radeon RX 9070 XT (emulated)";
static const char ARCHITECTURE[] = "gfx1201";
static const char UUID[] = "zluda-rr-gfx1201";

static void fill(hipDeviceProp_tR0600 *p) {
    size_t available, total;
    emu_usage(&available, &total);
    memset(p, 0, sizeof *p);
    memcpy(p->name, NAME, sizeof NAME);
    memcpy(p->uuid.bytes, UUID, sizeof p->uuid.bytes);
    memcpy(p->gcnArchName, ARCHITECTURE, sizeof ARCHITECTURE);
    p->totalGlobalMem = total;
    p->totalConstMem = total < INT32_MAX ? total : INT32_MAX;
    p->memPitch = INT32_MAX;
    p->sharedMemPerBlock = p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = LDS_BYTES;
    p->maxSharedMemoryPerMultiProcessor = LDS_BYTES;
    p->regsPerBlock = p->regsPerMultiprocessor = 196608;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = p->maxThreadsDim[2] = 1024;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = 65536;
    p->clockRate = CLOCK_KHZ;
    p->clockInstructionRate = 100000;
    p->memoryClockRate = MEMORY_CLOCK_KHZ;
    p->memoryBusWidth = 256;
    p->l2CacheSize = 8 << 20;
    p->major = DRIVER_CAPABILITY_MAJOR;
    p->textureAlignment = p->surfaceAlignment = 256;
    p->texturePitchAlignment = 128;
    p->multiProcessorCount = WORKGROUP_PROCESSORS;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = p->concurrentKernels = 1;
    p->maxTexture1D = p->maxSurface1D = p->maxTexture2D[0] = p->maxTexture2D[1] = IMAGE_EDGE;
    p->maxSurface2D[0] = p->maxSurface2D[1] = p->maxTexture2DLinear[0] = p->maxTexture2DLinear[1] = IMAGE_EDGE;
    p->maxTexture2DLinear[2] = INT32_MAX;
    p->pciBusID = 3;
    p->arch = 0x1FFFF & ~(1u << 16) & ~(1u << 13); /* all but dynamic parallelism and __syncthreads_count */
}

API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *out, int device) {
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    if (device)
        DONE(hipErrorInvalidDevice);
    fill(out);
    DONE(hipSuccess);
}

/* Attributes of hipDeviceAttribute_t that are a field of the properties, by number. */
static const struct {
    int attribute;
    size_t offset;
} fields[] = {
#define FIELD(number, name) {number, offsetof(hipDeviceProp_tR0600, name)},
#include "attributes.def"
#undef FIELD
};

API hipError_t hipDeviceGetAttribute(int *out, int attribute, int device) {
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    if (device)
        DONE(hipErrorInvalidDevice);
    hipDeviceProp_tR0600 properties;
    fill(&properties);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attribute == attribute) {
            memcpy(out, (char *)&properties + fields[i].offset, sizeof *out);
            DONE(hipSuccess);
        }
    switch (attribute) {
    case 10014: /* image support */
        *out = 1;
        DONE(hipSuccess);
    case 10015: /* compute units */
        *out = COMPUTE_UNITS;
        DONE(hipSuccess);
    case 10017: /* wall clock, kHz */
        *out = 100000;
        DONE(hipSuccess);
    default:
        *out = 0;
        DONE(attribute >= 0 && attribute < 20000 ? hipSuccess : hipErrorInvalidValue);
    }
}

API hipError_t hipInit(unsigned flags) { DONE(flags ? hipErrorInvalidValue : emu_begin()); }

static hipError_t put(int *out, int value) {
    if (!out)
        return hipErrorInvalidValue;
    *out = value;
    return hipSuccess;
}

API hipError_t hipDriverGetVersion(int *out) { DONE(put(out, VERSION)); }
API hipError_t hipRuntimeGetVersion(int *out) { DONE(put(out, VERSION)); }
API hipError_t hipGetDeviceCount(int *out) {
    TRY(emu_begin());
    DONE(put(out, 1));
}
API hipError_t hipGetDevice(int *out) { DONE(put(out, 0)); }
API hipError_t hipSetDevice(int device) { DONE(device ? hipErrorInvalidDevice : emu_begin()); }
API hipError_t hipSetValidDevices(int *devices, int count) {
    DONE(count < 0 || (count && (!devices || devices[0])) ? hipErrorInvalidValue : hipSuccess);
}
API hipError_t hipDeviceGet(hipDevice_t *out, int ordinal) {
    TRY(emu_begin());
    DONE(ordinal ? hipErrorInvalidDevice : put(out, 0));
}
API hipError_t hipChooseDeviceR0600(int *out, const hipDeviceProp_tR0600 *wanted) {
    DONE(wanted ? put(out, 0) : hipErrorInvalidValue);
}
API hipError_t hipDeviceGetName(char *out, int size, hipDevice_t device) {
    if (!out || size <= 0)
        DONE(hipErrorInvalidValue);
    if (device)
        DONE(hipErrorInvalidDevice);
    snprintf(out, (size_t)size, "%s", NAME);
    DONE(hipSuccess);
}
API hipError_t hipDeviceGetUuid(hipUUID *out, hipDevice_t device) {
    if (!out || device)
        DONE(out ? hipErrorInvalidDevice : hipErrorInvalidValue);
    memcpy(out->bytes, UUID, sizeof out->bytes);
    DONE(hipSuccess);
}
API hipError_t hipDeviceGetPCIBusId(char *out, int size, int device) {
    if (!out || size < 13)
        DONE(hipErrorInvalidValue);
    if (device)
        DONE(hipErrorInvalidDevice);
    snprintf(out, (size_t)size, "0000:03:00.0");
    DONE(hipSuccess);
}
API hipError_t hipDeviceGetByPCIBusId(int *out, const char *place) {
    DONE(place && !strcmp(place, "0000:03:00.0") ? put(out, 0) : hipErrorInvalidValue);
}
API hipError_t hipDeviceTotalMem(size_t *out, hipDevice_t device) {
    TRY(emu_begin());
    if (!out || device)
        DONE(out ? hipErrorInvalidDevice : hipErrorInvalidValue);
    size_t available;
    emu_usage(&available, out);
    DONE(hipSuccess);
}
API hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device) {
    if (!major || !minor || device)
        DONE(device ? hipErrorInvalidDevice : hipErrorInvalidValue);
    *major = DRIVER_CAPABILITY_MAJOR;
    *minor = 0;
    DONE(hipSuccess);
}
API hipError_t hipDeviceCanAccessPeer(int *out, int device, int peer) {
    DONE(device || peer ? hipErrorInvalidDevice : put(out, 0));
}
API hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    DONE(hipSuccess);
}

/* Stack, printf buffer and heap: kept, without effect. */
static size_t limits[3] = {1024, 1 << 20, 8 << 20};
API hipError_t hipDeviceGetLimit(size_t *out, int limit) {
    if (!out || limit < 0 || limit > 2)
        DONE(out ? hipErrorUnsupportedLimit : hipErrorInvalidValue);
    *out = limits[limit];
    DONE(hipSuccess);
}
API hipError_t hipDeviceSetLimit(int limit, size_t value) {
    if (limit < 0 || limit > 2)
        DONE(hipErrorUnsupportedLimit);
    limits[limit] = value;
    DONE(hipSuccess);
}

API hipError_t hipDeviceSynchronize(void) { DONE(emu_begin()); }
API hipError_t hipSetDeviceFlags(unsigned flags) { DONE(flags & ~0xFFu ? hipErrorInvalidValue : hipSuccess); }
API hipError_t hipGetDeviceFlags(unsigned *out) { DONE(put((int *)out, 0)); }
API hipError_t hipDeviceSetCacheConfig(int config) {
    (void)config;
    DONE(hipSuccess);
}
API hipError_t hipDeviceGetCacheConfig(int *out) { DONE(put(out, 0)); }
API hipError_t hipDeviceSetSharedMemConfig(int config) {
    (void)config;
    DONE(hipSuccess);
}
API hipError_t hipDeviceGetSharedMemConfig(int *out) { DONE(put(out, 0)); }

/* Frees everything and starts afresh, also after a kernel failed. */
API hipError_t hipDeviceReset(void) {
    emu_set_failed(false);
    TRY(emu_begin());
    emu_forget_registered();
    emu_unload_all();
    emu_release_arrays();
    emu_release_all();
    emu_stop_helper();
    DONE(hipSuccess);
}

/* Nobody is listening. */
API hipError_t hipProfilerStart(void) { DONE(hipSuccess); }
API hipError_t hipProfilerStop(void) { DONE(hipSuccess); }

/* Contexts: the primary one is all there is. */
static struct ihipCtx {
    int device;
} primary;

API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *out, hipDevice_t device) {
    TRY(emu_begin());
    if (!out || device)
        DONE(hipErrorInvalidValue);
    *out = &primary;
    DONE(hipSuccess);
}
API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) { DONE(device ? hipErrorInvalidDevice : hipSuccess); }
API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned flags) {
    (void)flags;
    DONE(device ? hipErrorInvalidDevice : hipSuccess);
}
API hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) { DONE(device ? hipErrorInvalidDevice : hipDeviceReset()); }
API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned *flags, int *active) {
    if (!flags || !active || device)
        DONE(hipErrorInvalidValue);
    *flags = 0;
    *active = 1;
    DONE(hipSuccess);
}
API hipError_t hipCtxCreate(hipCtx_t *out, unsigned flags, hipDevice_t device) {
    (void)flags;
    return hipDevicePrimaryCtxRetain(out, device);
}
API hipError_t hipCtxDestroy(hipCtx_t context) { DONE(context == &primary ? hipSuccess : hipErrorInvalidContext); }
API hipError_t hipCtxGetCurrent(hipCtx_t *out) { return hipDevicePrimaryCtxRetain(out, 0); }
API hipError_t hipCtxSetCurrent(hipCtx_t context) {
    DONE(!context || context == &primary ? hipSuccess : hipErrorInvalidContext);
}
API hipError_t hipCtxPushCurrent(hipCtx_t context) { DONE(context == &primary ? hipSuccess : hipErrorInvalidContext); }
API hipError_t hipCtxPopCurrent(hipCtx_t *out) {
    if (out)
        *out = &primary;
    DONE(hipSuccess);
}
API hipError_t hipCtxGetDevice(hipDevice_t *out) { DONE(put(out, 0)); }
API hipError_t hipCtxSynchronize(void) { DONE(emu_begin()); }
