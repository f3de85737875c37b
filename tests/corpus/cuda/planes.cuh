// The prologue of a layer that reads requantised planes: 96 token rows decoded to f16 (rr-details.md 33).
//
// Plane p holds channels 32p .. 32p + 31 of every token as 8 words in slot order: word index p*8*ex*ey + 8*ex*y + 8*x + d.
// Word d = t packs n-tiles 4p and 4p + 2 of lane t, d = t | 4 n-tiles 4p + 1 and 4p + 3, so a row arrives in D layout.
#pragma once

#include "fragments.cuh"
#include "mirror.cuh"

namespace rr {

/// Two e4m3 codes to two halves, low byte in the low half.
__device__ __forceinline__ u32 decode(u16 codes) {
    u32 halves;
    asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
    return halves;
}

/// Rows 8*block + g: the patch's row `block`, then the halo above, below, left and right (rr-details.md 21), mirrored.
__device__ __forceinline__ int2 token_of(int block, int g, int x0, int y0, int ex, int ey) {
    const int x = x0 + (block < 10 ? g : block == 10 ? -1 : 8);
    const int y = y0 + (block < 8 ? block : block == 8 ? -1 : block == 9 ? 8 : g);
    return make_int2(mirror(x, ex), mirror(y, ey));
}

/// 96 rows of NP planes.
template <int NP>
__device__ __forceinline__ void load_planes(Tile<6, 4 * NP>& rows, const u32* planes, int x0, int y0, uint2 extents) {
    const u32 lane = lane_id();
    const int g = static_cast<int>(lane >> 2), t = static_cast<int>(lane & 3);
    const int ex = static_cast<int>(extents.x), ey = static_cast<int>(extents.y);
    const int pitch = ex << 3;
    const int plane = ey * pitch;
    ushort2 words[12][NP][2];
#pragma unroll
    for (int i = 0; i < 12; ++i) {
        const int block = order(i, 12);
        const int2 token = token_of(block, g, x0, y0, ex, ey);
        const int base = pitch * token.y + (token.x << 3);
#pragma unroll
        for (int j = 0; j < 2 * NP; ++j) {
            const int index = j / 2 * plane + base + (t | (4 * (j & 1)));
            words[block][j / 2][j & 1] = *reinterpret_cast<const ushort2*>(planes + index);
        }
    }
#pragma unroll
    for (int i = 0; i < 24 * NP; ++i) {
        const int at = order(i, 24 * NP);
        const int block = at / (2 * NP), p = at / 2 % NP, w = at & 1;
        u32(&row)[4 * NP][2] = rows.r[block >> 1];
        row[4 * p + w][block & 1] = decode(words[block][p][w].x);
        row[4 * p + w + 2][block & 1] = decode(words[block][p][w].y);
    }
}

/// K step s of an A operand.
template <int MT, int KS>
__device__ __forceinline__ AFragments<MT, 1> k_slice(const AFragments<MT, KS>& a, int s) {
    AFragments<MT, 1> slice;
#pragma unroll
    for (int i = 0; i < 4 * MT; ++i) slice.r[i / 4][0][i % 4] = a.r[i / 4][s][i % 4];
    return slice;
}

/// One texel of four f16 at whole coordinates.
__device__ __forceinline__ ushort4 fetch(cudaTextureObject_t texture, int x, int y) {
    ushort4 v;
    asm volatile("tex.base.2d.v4.f16.s32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
                 : "=h"(v.x), "=h"(v.y), "=h"(v.z), "=h"(v.w)
                 : "l"(texture), "r"(x), "r"(y));
    return v;
}

}  // namespace rr
