/* Cases of program.c about memory. */
#include <string.h>

#include "check.h"

static unsigned char host[4096], back[4096];

static void directions(void) {
    unsigned char *pinned;
    void *one = device(4096, host), *other = device(4096, NULL), *seen;
    CHECK(hipMemcpyDtoD(other, one, 4096));
    CHECK(hipMemcpy((char *)other + 100, (char *)other + 90, 50, hipMemcpyDeviceToDevice)); /* overlapping */
    CHECK(hipMemcpyDtoH(back, other, 4096));
    memmove(host + 100, host + 90, 50);
    EXPECT(!memcmp(host, back, 4096));
    CHECK(hipHostMalloc((void **)&pinned, 4096, 0));
    CHECK(hipMemcpy(pinned, other, 4096, hipMemcpyDeviceToHost));
    EXPECT(!memcmp(host, pinned, 4096)); /* the program reads pinned memory itself */
    unsigned five = 5, count = 1024;
    CHECK(hipHostGetDevicePointer(&seen, pinned, 0));
    launch(kernel("fill"), 4, 256, 0, NULL, (void *[]){&seen, &five, &count}); /* and kernels write it */
    EXPECT(((unsigned *)pinned)[1023] == 1028);
    FAILS(hipMemcpyHtoD((char *)one + 4000, host, 97), hipErrorInvalidValue);
    FAILS(hipMemcpyDtoH(back, host, 8), hipErrorInvalidMemcpyDirection);
}

static void shapes(void) {
    void *one = device(4096, host), *pitched;
    size_t pitch;
    CHECK(hipMallocPitch(&pitched, &pitch, 100, 8));
    EXPECT(pitch >= 100 && pitch % 256 == 0);
    CHECK(hipMemset2D(pitched, pitch, 0xAB, 100, 8));
    CHECK(hipMemcpy2D((char *)pitched + 3, pitch, host, 64, 60, 8, hipMemcpyHostToDevice));
    CHECK(hipMemcpy2D(back, 100, pitched, pitch, 100, 8, hipMemcpyDeviceToHost));
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 100; x++)
            EXPECT(back[100 * y + x] == (x < 3 || x >= 63 ? 0xAB : host[64 * y + x - 3]));
    FAILS(hipMemcpy2D(back, 10, pitched, pitch, 100, 2, hipMemcpyDeviceToHost), hipErrorInvalidPitchValue);
    HIP_MEMCPY3D box = {.srcMemoryType = hipMemoryTypeHost, .srcHost = host, .srcPitch = 16, .srcHeight = 8,
                        .srcXInBytes = 2, .srcY = 1, .srcZ = 1, .dstMemoryType = hipMemoryTypeDevice,
                        .dstDevice = one, .dstPitch = 32, .dstHeight = 4, .dstXInBytes = 5, .dstZ = 1,
                        .WidthInBytes = 10, .Height = 3, .Depth = 2};
    CHECK(hipDrvMemcpy3D(&box));
    CHECK(hipMemcpyDtoH(back, one, 4096));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 3; y++)
            EXPECT(!memcmp(back + 128 * (z + 1) + 32 * y + 5, host + 128 * (z + 1) + 16 * (y + 1) + 2, 10));
}

static void fills(void) {
    void *one = device(4096, host);
    CHECK(hipMemsetD16(one, 0x1234, 7));
    CHECK(hipMemsetD32((char *)one + 64, 0x01020304, 2));
    CHECK(hipMemsetD8((char *)one + 72, 9, 3));
    CHECK(hipMemcpyDtoH(back, one, 128));
    EXPECT(back[0] == 0x34 && back[13] == 0x12 && back[14] == host[14]);
    EXPECT(back[64] == 4 && back[71] == 1 && back[72] == 9 && back[74] == 9 && back[75] == host[75]);
    FAILS(hipMemsetD32((char *)one + 2, 0, 1), hipErrorInvalidValue);
    FAILS(hipMemsetD8(one, 0, 4097), hipErrorInvalidValue);
}

static void pointers(void) {
    void *one = device(4096, host), *pinned, *base, *other;
    CHECK(hipHostMalloc(&pinned, 4096, 0));
    hipPointerAttribute_t attributes;
    CHECK(hipPointerGetAttributes(&attributes, (char *)one + 17));
    EXPECT(attributes.type == hipMemoryTypeDevice && !attributes.hostPointer);
    CHECK(hipPointerGetAttributes(&attributes, pinned));
    EXPECT(attributes.type == hipMemoryTypeHost && attributes.hostPointer == pinned);
    CHECK(hipPointerGetAttributes(&attributes, host));
    EXPECT(attributes.type == 0);
    size_t size, before, after, total;
    CHECK(hipMemGetAddressRange(&base, &size, (char *)one + 4095));
    EXPECT(base == one && size == 4096);
    FAILS(hipFree((char *)one + 256), hipErrorInvalidValue);
    CHECK(hipFree(NULL));
    CHECK(hipMemGetInfo(&before, &total));
    CHECK(hipMalloc(&other, 1 << 20));
    CHECK(hipMemGetInfo(&after, &total));
    EXPECT(before - after == 1 << 20);
    CHECK(hipFree(other));
    FAILS(hipFree(other), hipErrorInvalidValue);
}

/* Every direction and shape of copies and fills, against memory of the program's own. */
void memory(void) {
    for (int i = 0; i < 4096; i++)
        host[i] = (unsigned char)(i * 31 >> 2);
    directions();
    shapes();
    fills();
    pointers();
}

/* With a limit of 64 MiB. */
void limit(void) {
    void *places[64];
    int count = 0;
    while (hipMalloc(&places[count], 3 << 20) == hipSuccess)
        EXPECT(++count < 64);
    EXPECT(count == 21 && hipGetLastError() == hipErrorOutOfMemory);
    for (int i = 0; i < count; i += 2)
        CHECK(hipFree(places[i]));
    FAILS(hipMalloc(&places[0], (size_t)60 << 20), hipErrorOutOfMemory);
    CHECK(hipMalloc(&places[0], 3 << 20)); /* reuses a hole */
    size_t available, total;
    CHECK(hipMemGetInfo(&available, &total));
    EXPECT(total == 64 << 20);
}
