// Requantised outputs: the plane arena, the 2x2 token merge and the merged planes (seed 001 E30, E31; rr-details.md 11-13).
#pragma once

#include "fragments.cuh"

namespace rr {

/// Rows of NW/2 planes of 32 columns: word 2p + w packs n-tiles 4p + w and 4p + w + 2.
template <int MT, int NW>
__device__ __forceinline__ void requantise_rows(Words<MT, NW>& q, const Tile<MT, 2 * NW>& d) {
#pragma unroll
    for (int i = 0; i < 2 * NW * MT; ++i) {
        const int at = order(i, 2 * NW * MT);
        const int m = at / (2 * NW), p = at / 4 % (NW / 2), half = at / 2 % 2, w = at & 1;
        q.r[m][half][2 * p + w] = pack_word(d.r[m][4 * p + w][half], d.r[m][4 * p + w + 2][half]);
    }
}

/// The same words as A operand: k step p takes plane p.
template <int NW>
__device__ __forceinline__ void rows_as_a(AFragments<4, NW / 2>& a, const Words<4, NW>& q) {
#pragma unroll
    for (int i = 0; i < 8 * NW; ++i) {
        const int m = i / (2 * NW), p = i / 4 % (NW / 2);
        a.r[m][p][i % 4] = q.r[m][i & 1][2 * p + (i >> 1 & 1)];
    }
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

/// The same for NW/2 planes, plane stride 8*ex*ey words: per m-tile the planes one after the other, each with its two block
/// rows (rr-details.md 34). A function of its own: as an instance of this one, enc0's PTX would be another.
template <int NW>
__device__ __forceinline__ void scatter_patch(u32* arena, const Words<4, NW>& q, int x0, int y0, uint2 extents) {
    const int lane = static_cast<int>(lane_id());
    const int t = lane & 3;
    const int ex = static_cast<int>(extents.x), ey = static_cast<int>(extents.y);
    const int pitch = ex << 3;
    const int plane = ey * pitch;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        int base[2];
        bool outside[2];
#pragma unroll
        for (int i = 0; i < NW; ++i) {
            const int p = i / 2, half = i & 1;
            if (p == 0) {
                const u32 token = (static_cast<u32>(lane) >> 2) + 8 * (2 * m + half);
                const int y = y0 + static_cast<int>(token >> 3);
                const int x = x0 + static_cast<int>(token & 7);
                outside[half] = y < 0 || y >= ey || token > 63 || x < 0 || x >= ex;
                base[half] = pitch * y + (x << 3);
            }
#pragma unroll
            for (int w = 0; w < 2; ++w) {
                const int index = p * plane + base[half] + (t | (4 * w));
                store_guarded(arena, outside[half] ? -1 : index, q.r[m][half][2 * p + w]);
            }
        }
    }
}

/// Merged rows as A operand of 4*NP k steps NP*(2*dy + dx) + plane, NP = NW/2. Merged row r is X = (r & 7) >> 1,
/// Y = 2*(r >> 3) + (r & 1) and takes tokens (2X + dx, 2Y + dy): even g keeps its own row y, odd g its own row y + 2, the
/// other column comes from lane +-4.
template <int NW>
__device__ __forceinline__ void merge_rows(AFragments<1, 2 * NW>& a, const Words<4, NW>& q) {
    const bool even = (lane_id() & 4) == 0;
#pragma unroll
    for (int i = 0; i < 4 * NW; ++i) {
        const int at = order(i, 4 * NW);
        const int m = at / (2 * NW) * 2, p = at / 4 % (NW / 2), half = at / 2 % 2, w = at & 1;
        const u32 upper = q.r[m][half][2 * p + w];
        const u32 lower = q.r[m + 1][half][2 * p + w];
        const u32 down = __shfl_down_sync(0xffffffffu, upper, 4);
        const u32 up = __shfl_up_sync(0xffffffffu, lower, 4);
        const int reg = m / 2 + 2 * w;
        a.r[0][NW * half + p][reg] = even ? upper : up;
        a.r[0][NW * half + NW / 2 + p][reg] = even ? down : lower;
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
