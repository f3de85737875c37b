// Fragments of mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 and the moves between them.
//
// Notation: lane l, g = l >> 2, t = l & 3. "Slot" is the position along K inside one k step.
//   A register i, byte j : row g + 8*(i & 1), slot 4t + j + 16*(i >> 1)
//   B register i, byte j : slot 4t + j + 16i, column g
//   C/D register i, half c : row g + 8i, column 2t + c
// All layers fill the slots so that slot 16w + 4t + j holds channel 2t + (j & 1) + 16*(j >> 1) + 8w: word w of a row
// packs the accumulators of n-tiles w (low 16 bits) and w + 2 (high 16 bits) of the producing phase.
#pragma once

#include <cuda_fp16.h>

namespace rr {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// The second source order (rr-module.md): independent statements run backwards and mma runs start from the n-tiles.
#ifdef RR_REORDERED
constexpr bool kReordered = true;
#else
constexpr bool kReordered = false;
#endif

/// Position of step `i` among `n` independent statements.
__device__ __forceinline__ constexpr int order(int i, int n) { return kReordered ? n - 1 - i : i; }

/// Accumulators: register half of tile (m, n) is row 16m + 8*half + g, columns 8n + 2t + {0, 1}.
template <int MT, int NT>
struct Tile {
    u32 r[MT][NT][2];
};

/// A operand: register i of k step s and m-tile m is row 16m + 8*(i & 1) + g, word i >> 1 of the step.
template <int MT, int KS>
struct AFragments {
    u32 r[MT][KS][4];
};

/// B operand: register w of k step s and n-tile n is column 8n + g, word w of the step.
template <int NT, int KS>
struct BFragments {
    u32 r[NT][KS][2];
};

/// Requantised rows: word w of row 16m + 8*half + g, in slot order.
template <int MT, int NW>
struct Words {
    u32 r[MT][2][NW];
};

__device__ __forceinline__ u32 lane_id() {
    u32 lane;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
    return lane;
}

__device__ __forceinline__ __half2 as_half2(u32 bits) { return reinterpret_cast<__half2&>(bits); }
__device__ __forceinline__ u32 as_u32(__half2 value) { return reinterpret_cast<u32&>(value); }
__device__ __forceinline__ u32 pair_of(u16 low, u16 high) {
    u32 word;
    asm volatile("mov.b32 %0, {%1, %2};" : "=r"(word) : "h"(low), "h"(high));
    return word;
}

/// Two halves to two e4m3 codes, low half in the low byte.
__device__ __forceinline__ u16 requantise(u32 halves) {
    u16 codes;
    asm volatile("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(halves));
    return codes;
}

/// The same with negatives and -0 turned into +0.
__device__ __forceinline__ u16 requantise_relu(u32 halves) {
    u16 codes;
    asm volatile("cvt.rn.satfinite.relu.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(halves));
    return codes;
}

/// Word w of a row: n-tile w in the low half, n-tile w + 2 in the high half.
template <bool Relu = false>
__device__ __forceinline__ u32 pack_word(u32 low_tile, u32 high_tile) {
    const u16 high = Relu ? requantise_relu(high_tile) : requantise(high_tile);
    const u16 low = Relu ? requantise_relu(low_tile) : requantise(low_tile);
    return pair_of(low, high);
}

/// The 8x8 b16 tile of a warp transposed: lane (g, t) gets row g, columns 2t and 2t + 1 of the transpose.
__device__ __forceinline__ u32 transpose(u32 value) {
    u32 result;
    asm volatile("movmatrix.sync.trans.aligned.m8n8.b16 %0, %1;" : "=r"(result) : "r"(value));
    return result;
}

__device__ __forceinline__ void mma(u32 (&d)[2], const u32 (&a)[4], const u32 (&b)[2], const u32 (&c)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16\n\t"
        "{%0, %1},\n\t"
        "{%2, %3, %4, %5}, {%6, %7},\n\t"
        "{%8, %9};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
}

/// One phase: m-tile, 16-column tile, k step, n-tile parity innermost (rr-details.md 39).
template <int MT, int NT, int KS>
__device__ __forceinline__ void gemm(Tile<MT, NT>& d, const AFragments<MT, KS>& a, const BFragments<NT, KS>& b,
                                     const Tile<MT, NT>& c) {
#pragma unroll
    for (int outer = 0; outer < MT * NT / 2; ++outer) {
        const int m = kReordered ? outer % MT : outer / (NT / 2);
        const int group = kReordered ? outer / MT : outer % (NT / 2);
#pragma unroll
        for (int s = 0; s < KS; ++s) {
#pragma unroll
            for (int parity = 0; parity < 2; ++parity) {
                const int n = 2 * group + parity;
                const u32 seed[2] = {s == 0 ? c.r[m][n][0] : d.r[m][n][0], s == 0 ? c.r[m][n][1] : d.r[m][n][1]};
                mma(d.r[m][n], a.r[m][s], b.r[n][s], seed);
            }
        }
    }
}

/// C = 0.
template <int MT, int NT>
__device__ __forceinline__ void zero_seeds(Tile<MT, NT>& c) {
#pragma unroll
    for (int i = 0; i < MT * NT; ++i) c.r[i / NT][i % NT][0] = c.r[i / NT][i % NT][1] = 0;
}

/// Producer columns to A words: k step s takes n-tiles 4s .. 4s + 3.
template <bool Relu, int MT, int NT, int ML>
__device__ __forceinline__ void pack_a(AFragments<MT, NT / 4>& a, const Tile<ML, NT>& d) {
    static_assert(MT <= ML, "fewer producer rows than consumer rows");
#pragma unroll
    for (int i = 0; i < MT * NT; ++i) {
        const int at = order(i, MT * NT);
        const int m = at / NT, s = at % NT / 4, reg = at % 4;
        const int half = reg & 1, w = reg >> 1;
        a.r[m][s][reg] = pack_word<Relu>(d.r[m][4 * s + w][half], d.r[m][4 * s + w + 2][half]);
    }
}

/// Rows as B columns: n-tile j is row half j & 1 of m-tile j >> 1.
template <int MT>
__device__ __forceinline__ void pack_b(BFragments<2 * MT, 1>& b, const Tile<MT, 4>& d) {
#pragma unroll
    for (int i = 0; i < 4 * MT; ++i) {
        const int at = order(i, 4 * MT);
        const int n = at >> 1, w = at & 1;
        b.r[n][0][w] = pack_word(d.r[n >> 1][w][n & 1], d.r[n >> 1][w + 2][n & 1]);
    }
}

}  // namespace rr
