/* Launches and what is known of a kernel beforehand. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { LDS_BYTES = 65536, WAVES = 32, VGPRS = 1536, SLOTS = 32 }; /* of a workgroup processor's SIMDs: 4 x 16 waves of 32 */
enum { BUFFER_POINTER = 1, BUFFER_SIZE, BUFFER_END };

typedef struct {
    uint32_t function, grid[3], block[3], lds;
} launch_request;

/* The explicit arguments at their offsets, from one pointer each. */
static hipError_t from_params(hipFunction_t f, void **params, unsigned char *to) {
    for (uint32_t i = 0; i < f->argument_count; i++) {
        if (!params || !params[i])
            return hipErrorInvalidValue;
        memcpy(to + f->arguments[i].offset, params[i], f->arguments[i].size);
    }
    return hipSuccess;
}

/* A buffer with the arguments as the kernel expects them. */
static hipError_t from_extra(void **extra, const void **bytes, size_t *size) {
    for (; *extra != (void *)BUFFER_END; extra += 2) {
        if (*extra == (void *)BUFFER_POINTER)
            *bytes = extra[1];
        else if (*extra == (void *)BUFFER_SIZE)
            *size = *(size_t *)extra[1];
        else
            return hipErrorInvalidValue;
    }
    return *size && !*bytes ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t check_size(hipFunction_t f, dim3 grid, dim3 block, unsigned lds) {
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return hipErrorInvalidConfiguration;
    if (block.x > 1024 || block.y > 1024 || block.z > 1024 || (uint64_t)block.x * block.y * block.z > 1024)
        return hipErrorInvalidConfiguration;
    if ((uint64_t)grid.x * block.x > UINT32_MAX || grid.y > 65536 || grid.z > 65536)
        return hipErrorInvalidConfiguration;
    if (block.x * block.y * block.z > f->max_threads) {
        emu_say("kernel %s: launched with %u threads a block, compiled for %u", f->name, block.x * block.y * block.z,
                f->max_threads);
        return hipErrorLaunchFailure;
    }
    return lds > LDS_BYTES || f->lds + lds > LDS_BYTES ? hipErrorInvalidValue : hipSuccess;
}

static hipError_t send(hipFunction_t f, dim3 grid, dim3 block, unsigned lds, const void *bytes, size_t size) {
    launch_request request = {f->number, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, lds};
    emu_part parts[] = {{&request, sizeof request}, {bytes, size}};
    hipError_t status = emu_ask(EMU_LAUNCH, parts, 2, NULL, 0, NULL);
    if (status != hipSuccess)
        emu_set_failed(true);
    return status;
}

hipError_t emu_launch(hipFunction_t f, dim3 grid, dim3 block, unsigned lds, hipStream_t stream, void **params,
                      void **extra) {
    TRY(emu_begin());
    TRY(emu_check_stream(stream));
    TRY(emu_check_function(f));
    TRY(check_size(f, grid, block, lds));
    if (params && extra)
        DONE(hipErrorInvalidValue);
    const void *bytes = NULL;
    size_t size = 0;
    if (extra) {
        TRY(from_extra(extra, &bytes, &size));
        DONE(send(f, grid, block, lds, bytes, size));
    }
    unsigned char *own = calloc(1, f->kernarg_size ? f->kernarg_size : 1);
    if (!own)
        DONE(hipErrorOutOfMemory);
    hipError_t status = from_params(f, params, own);
    if (status == hipSuccess)
        status = send(f, grid, block, lds, own, f->kernarg_size);
    free(own);
    DONE(status);
}

API hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned lds, hipStream_t stream, void **params, void **extra) {
    return emu_launch(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, lds, stream, params, extra);
}

/* Sizes in work items, which must be whole blocks, and events around the launch. */
API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
API hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t wx, uint32_t wy, uint32_t wz, uint32_t bx, uint32_t by,
                                        uint32_t bz, size_t lds, hipStream_t stream, void **params, void **extra,
                                        hipEvent_t before, hipEvent_t after, uint32_t flags) {
    (void)flags;
    if (!bx || !by || !bz || wx % bx || wy % by || wz % bz)
        DONE(hipErrorInvalidConfiguration);
    if (before)
        TRY(hipEventRecord(before, stream));
    TRY(emu_launch(f, (dim3){wx / bx, wy / by, wz / bz}, (dim3){bx, by, bz}, (unsigned)lds, stream, params, extra));
    if (after)
        TRY(hipEventRecord(after, stream));
    DONE(hipSuccess);
}

/* Blocks that fit on a workgroup processor at once: waves, registers and LDS. */
hipError_t emu_occupancy(hipFunction_t f, int threads, size_t lds, int *blocks) {
    hipError_t status = emu_check_function(f);
    if (status != hipSuccess)
        return status;
    if (threads <= 0 || !blocks)
        return hipErrorInvalidValue;
    int waves = (threads + 31) / 32, registers = ((int)f->vgprs + 23) / 24 * 24;
    int by_registers = VGPRS / (registers ? registers : 24), by_simd = by_registers < 16 ? by_registers : 16;
    int fits = 4 * by_simd / waves;
    size_t used = f->lds + lds;
    if (used && 2 * LDS_BYTES / used < (size_t)fits)
        fits = (int)(2 * LDS_BYTES / used);
    *blocks = threads > 1024 || used > LDS_BYTES ? 0 : fits < SLOTS ? fits : SLOTS;
    return hipSuccess;
}

API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t f, int threads,
                                                                           size_t lds, unsigned flags) {
    (void)flags;
    TRY(emu_begin());
    DONE(emu_occupancy(f, threads, lds, blocks));
}
API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t f, int threads, size_t lds) {
    return hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, lds, 0);
}
API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, hipFunction_t f, size_t lds,
                                                                int limit, unsigned flags) {
    (void)flags;
    TRY(emu_begin());
    TRY(emu_check_function(f));
    if (!grid || !block)
        DONE(hipErrorInvalidValue);
    int best = 0;
    *block = *grid = 0;
    int most = (int)f->max_threads < 1024 ? (int)f->max_threads : 1024;
    for (int threads = limit > 0 && limit < most ? limit : most; threads > 0; threads -= 32) {
        int blocks;
        TRY(emu_occupancy(f, threads, lds, &blocks));
        if (blocks * threads > best) {
            best = blocks * threads;
            *block = threads;
            *grid = blocks * 32; /* workgroup processors */
        }
    }
    DONE(hipSuccess);
}
API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t lds, int limit) {
    return hipModuleOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, lds, limit, 0);
}

void emu_attributes(hipFunction_t f, hipFuncAttributes *out) {
    *out = (hipFuncAttributes){.binaryVersion = 120, .ptxVersion = 120, .localSizeBytes = f->scratch,
                               .maxDynamicSharedSizeBytes = (int)(LDS_BYTES - f->lds),
                               .maxThreadsPerBlock = (int)f->max_threads, .numRegs = (int)f->vgprs,
                               .sharedSizeBytes = f->lds};
}

/* hipFunction_attribute */
API hipError_t hipFuncGetAttribute(int *out, int which, hipFunction_t f) {
    TRY(emu_begin());
    TRY(emu_check_function(f));
    if (!out)
        DONE(hipErrorInvalidValue);
    hipFuncAttributes a;
    emu_attributes(f, &a);
    const int values[] = {a.maxThreadsPerBlock, (int)a.sharedSizeBytes, (int)a.constSizeBytes,
                          (int)a.localSizeBytes, a.numRegs, a.ptxVersion, a.binaryVersion, a.cacheModeCA,
                          a.maxDynamicSharedSizeBytes, a.preferredShmemCarveout};
    if (which < 0 || (size_t)which >= sizeof values / sizeof *values)
        DONE(hipErrorInvalidValue);
    *out = values[which];
    DONE(hipSuccess);
}
