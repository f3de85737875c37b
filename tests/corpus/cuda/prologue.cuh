// The prologue of a layer that reads a surface: 32 features per token of a 10x10 grid (patch and halo 1), requantised.
//
// input_tensor: token cell = 10*(y + 1) + (x + 1) of the patch, 32 e4m3 bytes each in slot order, so that A register i of
// word 16*(i >> 1) + 4t is one 32-bit read. input_noise: four f16 per cell, three channels and a zero.
// The features are this project's choice (rr-details.md 23); the seeds do not document them:
//   f[k] = clamp(fma(c[k & 3], w0, w1) + w2*|c[(k + 1) & 3]|, -8, 8), f16, weights {w0, w1, w2, unused} at W + 8k.
#pragma once

#include "fragments.cuh"
#include "mirror.cuh"

namespace rr {

constexpr int kGrid = 10;
constexpr int kCells = kGrid * kGrid;
constexpr int kCellBytes = 32;
constexpr int kNoiseBytes = 8;

/// Features 2q and 2q + 1 of one token.
__device__ __forceinline__ u32 feature_pair(const __half (&c)[4], const u8* w, int q) {
    const ushort4 even = *reinterpret_cast<const ushort4*>(w + 16 * q);
    const ushort4 odd = *reinterpret_cast<const ushort4*>(w + 16 * q + 8);
    const auto both = [](unsigned short a, unsigned short b) { return __half2(__ushort_as_half(a), __ushort_as_half(b)); };
    const __half2 first = __half2(c[2 * q & 3], c[(2 * q + 1) & 3]);
    const __half2 second = __half2(c[(2 * q + 1) & 3], c[(2 * q + 2) & 3]);
    const __half2 linear = __hfma2(first, both(even.x, odd.x), both(even.y, odd.y));
    const __half2 sum = __hadd2(linear, __hmul2(both(even.z, odd.z), __habs2(second)));
    return as_u32(__hmin2(__hmax2(sum, __float2half2_rn(-8.0f)), __float2half2_rn(8.0f)));
}

/// Fills both shared arrays; lane l owns cells l, l + 32, l + 64, l + 96 (< 100). Ends before the barrier.
__device__ __forceinline__ void stage_features(u8* tensor, u8* noise, cudaSurfaceObject_t input,
                                               const u8* w, int x0, int y0, uint2 extents) {
    const int lane = static_cast<int>(lane_id());
    const int ex = static_cast<int>(extents.x), ey = static_cast<int>(extents.y);
#pragma unroll
    for (int round = 0; round < 4; ++round) {
        const int cell = lane + 32 * round;
        if (cell < kCells) {
            const int x = mirror(x0 + cell % kGrid - 1, ex);
            const int y = mirror(y0 + cell / kGrid - 1, ey);
            const ushort4 v = surf2Dread<ushort4>(input, 8 * x, y, cudaBoundaryModeZero);
            const __half c[4] = {__ushort_as_half(v.x), __ushort_as_half(v.y), __ushort_as_half(v.z),
                                 __ushort_as_half(v.w)};
            u32 pair[16];
#pragma unroll
            for (int q = 0; q < 16; ++q) pair[q] = feature_pair(c, w, q);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int at = order(i, 8);  // word at 16*(at >> 2) + 4*(at & 3): pairs at and at + 8
                *reinterpret_cast<u32*>(tensor + kCellBytes * cell + 4 * at) = pack_word(pair[at], pair[at + 8]);
            }
            *reinterpret_cast<ushort4*>(noise + kNoiseBytes * cell) = make_ushort4(v.x, v.y, v.z, 0);
        }
    }
}

/// A operand of 96 rows: row 8y + x of the patch, then 8 halo rows each on top, bottom, left and right (rr-details.md 21).
__device__ __forceinline__ void load_rows(AFragments<6, 1>& a, const u8* tensor) {
    const u32 lane = lane_id();
    const u32 g = lane >> 2, t = lane & 3;
    const auto word = [&](u32 cell, int w) {
        return *reinterpret_cast<const u32*>(tensor + kCellBytes * cell + 16 * w + 4 * t);
    };
#pragma unroll
    for (int i = 0; i < 24; ++i) {
        const int at = order(i, 24);
        const int m = at / 4, reg = at % 4, block = 2 * m + (reg & 1);
        const u32 cell = block < 8    ? kGrid * (block + 1) + 1 + g
                         : block == 8 ? 1 + g
                         : block == 9 ? kGrid * (kGrid - 1) + 1 + g
                                      : kGrid * (g + 1) + (block == 10 ? 0 : kGrid - 1);
        a.r[m][0][reg] = word(cell, reg >> 1);
    }
}

}  // namespace rr
