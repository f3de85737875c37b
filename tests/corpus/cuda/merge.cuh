// Requantised outputs: the plane arena, the 2x2 token merge and the merged planes (seed 001 E30, E31; rr-details.md 11-13).
#pragma once

#include "fragments.cuh"

namespace rr {

/// Rows of a 32-column tile as two words each: word w packs n-tiles w and w + 2.
template <int MT>
__device__ __forceinline__ void requantise_rows(Words<MT, 2>& q, const Tile<MT, 4>& d) {
#pragma unroll
    for (int i = 0; i < 4 * MT; ++i) {
        const int at = order(i, 4 * MT);
        const int m = at / 4, half = at / 2 % 2, w = at & 1;
        q.r[m][half][w] = pack_word(d.r[m][w][half], d.r[m][w + 2][half]);
    }
}

/// The same words as A operand of one k step.
__device__ __forceinline__ void rows_as_a(AFragments<4, 1>& a, const Words<4, 2>& q) {
#pragma unroll
    for (int i = 0; i < 16; ++i) a.r[i / 4][0][i % 4] = q.r[i / 4][i & 1][i >> 1 & 1];
}

/// Store `value` at word `index` unless the index is negative: what guards every scatter.
__device__ __forceinline__ void store_guarded(u32* plane, int index, u32 value) {
    if (index >= 0) plane[index] = value;
}

/// The 64 tokens of the patch into the plane arena, 8 words per token: block row j, token x = x0 + g, y = y0 + j.
__device__ __forceinline__ void scatter_patch(u32* arena, const Words<4, 2>& q, int x0, int y0, uint2 extents) {
    const int lane = static_cast<int>(lane_id());
    const int t = lane & 3;
    const int ex = static_cast<int>(extents.x), ey = static_cast<int>(extents.y);
    const int pitch = ex << 3;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const u32 token = (static_cast<u32>(lane) >> 2) + 8 * j;
        const int y = y0 + static_cast<int>(token >> 3);
        const int x = x0 + static_cast<int>(token & 7);
        const bool outside = y < 0 || y >= ey || token > 63 || x < 0 || x >= ex;
        const int base = pitch * y + (x << 3);
#pragma unroll
        for (int w = 0; w < 2; ++w) store_guarded(arena, outside ? -1 : base + (t | (4 * w)), q.r[j >> 1][j & 1][w]);
    }
}

/// Merged rows as A operand of four k steps 2*dy + dx. Merged row r is X = (r & 7) >> 1, Y = 2*(r >> 3) + (r & 1) and takes
/// tokens (2X + dx, 2Y + dy): even g keeps its own row y, odd g its own row y + 2, the other column comes from lane +-4.
__device__ __forceinline__ void merge_rows(AFragments<1, 4>& a, const Words<4, 2>& q) {
    const bool even = (lane_id() & 4) == 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int at = order(i, 8);
        const int y = (at >> 1 & 1) + 4 * (at >> 2), w = at & 1;
        const u32 upper = q.r[y >> 1][y & 1][w];
        const u32 lower = q.r[(y + 2) >> 1][y & 1][w];
        const u32 down = __shfl_down_sync(0xffffffffu, upper, 4);
        const u32 up = __shfl_up_sync(0xffffffffu, lower, 4);
        const int reg = (y >> 2) + 2 * w;
        a.r[0][2 * (y & 1)][reg] = even ? upper : up;
        a.r[0][2 * (y & 1) + 1][reg] = even ? down : lower;
    }
}

/// NP planes of 32 columns of 16 merged rows, halved extents: row r = g or g + 8 is x = (r >> 1) & 3,
/// y = 2*(r >> 3) + (r & 1) of the 4x4 merged patch.
template <int NP>
__device__ __forceinline__ void scatter_merged(u32* planes, const Tile<1, 4 * NP>& d, int x0, int y0, uint2 extents) {
    u32 words[NP][2][2];
#pragma unroll
    for (int i = 0; i < 4 * NP; ++i) {
        const int p = i / 4, half = i / 2 % 2, w = i & 1;
        words[p][half][w] = pack_word(d.r[0][4 * p + w][half], d.r[0][4 * p + w + 2][half]);
    }
    const int hx = static_cast<int>(extents.x >> 1), hy = static_cast<int>(extents.y >> 1);
    const int pitch = hx << 3;
    const int plane = hy * pitch;
    const u32 lane = lane_id();
    const int t = static_cast<int>(lane & 3);
    int base[2];
    bool outside[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 row = (lane >> 2) + 8 * half;
        const int ly = static_cast<int>((row >> 3) << 1 | (row & 1));
        const int y = (y0 >> 1) + ly;
        const int x = (x0 >> 1) + static_cast<int>(row >> 1 & 3);
        outside[half] = y < 0 || y >= hy || ly > 3 || x < 0 || x >= hx;
        base[half] = pitch * y + (x << 3);
    }
#pragma unroll
    for (int i = 0; i < 4 * NP; ++i) {
        const int p = i / 4, half = i / 2 % 2, w = i & 1;
        store_guarded(planes, outside[half] ? -1 : p * plane + base[half] + (t | (4 * w)), words[p][half][w]);
    }
}

}  // namespace rr
