// Loads from the prepared weight image W.
//
// B words: 16 bytes per lane and 512-byte tile at W + offset + 512*tile + 16*lane. Word v of a tile is column
// 16*(n >> 1) + 8*(v >> 1) + g, word v & 1 of the k step. Tiles of one 16-column group are consecutive k steps.
// Per-column vectors: f16, 2 bytes per column; lane l reads columns 8n + 2t, 8n + 2t + 1 at W + offset + 16n + 4t.
#pragma once

#include "fragments.cuh"

namespace rr {

/// Per-lane base of the B fragments: W + 16*lane, in the global window.
__device__ __forceinline__ u64 fragment_base(const u8* w) {
    return static_cast<u64>(__cvta_generic_to_global(w)) + static_cast<u64>(lane_id()) * 16;
}

__device__ __forceinline__ uint4 load_words(u64 address) {
    uint4 v;
    asm volatile("ld.weak.global.ca.v4.u32 { %0, %1, %2, %3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
}

template <int NT, int KS>
__device__ __forceinline__ void load_b(BFragments<NT, KS>& b, const u8* w, int offset) {
    const u64 base = fragment_base(w);
#pragma unroll
    for (int i = 0; i < NT / 2 * KS; ++i) {
        const int tile = order(i, NT / 2 * KS);
        const int n = 2 * (tile / KS), s = tile % KS;
        const uint4 v = load_words(base + offset + 512 * tile);
        b.r[n][s][0] = v.x;
        b.r[n][s][1] = v.y;
        b.r[n + 1][s][0] = v.z;
        b.r[n + 1][s][1] = v.w;
    }
}

/// Per-lane base of the per-column vectors: W + 4t.
__device__ __forceinline__ const u8* column_base(const u8* w) { return w + ((lane_id() << 2) & 12); }

/// C seeds that are one value per column: the same word in both halves of every m-tile.
template <int MT, int NT>
__device__ __forceinline__ void load_column_seeds(Tile<MT, NT>& c, const u8* w, int offset) {
    const u8* base = column_base(w);
#pragma unroll
    for (int i = 0; i < NT; ++i) {
        const int n = order(i, NT);
        const u32 word = *reinterpret_cast<const u32*>(base + offset + 16 * n);
#pragma unroll
        for (int m = 0; m < MT; ++m) c.r[m][n][0] = c.r[m][n][1] = word;
    }
}

/// A table of NT*8 columns as pairs of f16.
template <int NT>
__device__ __forceinline__ void load_table(__half2 (&table)[NT], const u8* w, int offset) {
    const u8* base = column_base(w);
#pragma unroll
    for (int i = 0; i < NT; ++i) {
        const int n = order(i, NT);
        const ushort2 v = *reinterpret_cast<const ushort2*>(base + offset + 16 * n);
        table[n] = __half2(__ushort_as_half(v.x), __ushort_as_half(v.y));
    }
}

/// C = D of an earlier phase (rows of the first MT m-tiles) + a per-column table, scalar f16 adds.
template <int MT, int NT, int ML>
__device__ __forceinline__ void table_seeds(Tile<MT, NT>& c, const Tile<ML, NT>& d, const __half2 (&table)[NT]) {
#pragma unroll
    for (int i = 0; i < MT * NT * 2; ++i) {
        const int at = order(i, MT * NT * 2);
        const int m = at / (2 * NT), n = at / 2 % NT, half = at & 1;
        const __half2 x = as_half2(d.r[m][n][half]);
        const __half high = __hadd(table[n].y, x.y);
        const __half low = __hadd(table[n].x, x.x);
        c.r[m][n][half] = as_u32(__half2(low, high));
    }
}

}  // namespace rr
