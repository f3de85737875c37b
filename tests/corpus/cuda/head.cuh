// One attention head over a 64-token patch with 32 halo tokens: scores, cubic-exponent softmax, P*V operands.
//
// Scores are Q*K^T of one projection with itself: its 96 rows are the keys, the first 64 the queries. The softmax has no row
// maximum; its exponent is a cubic whose mantissa bits become the exponent field (seed 001 E5).
#pragma once

#include "norm.cuh"
#include "weights.cuh"

namespace rr {

constexpr int kQueryTiles = 4;  // 64 rows
constexpr int kKeyTiles = 6;    // 96 rows
constexpr int kScoreTiles = 12; // 96 columns

using Scores = Tile<kQueryTiles, kScoreTiles>;

/// C seeds of the scores: tile 4*(n >> 1) + m of 512 bytes, 16 bytes per lane, word 2*(n & 1) + half.
__device__ __forceinline__ void load_score_bias(Scores& c, const u8* w, int offset) {
    const u64 base = fragment_base(w);
    constexpr int tiles = kQueryTiles * kScoreTiles / 2;
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
        const int tile = order(i, tiles);
        const int m = tile % kQueryTiles, n = 2 * (tile / kQueryTiles);
        const uint4 v = load_words(base + offset + 512 * tile);
        c.r[m][n][0] = v.x;
        c.r[m][n][1] = v.y;
        c.r[m][n + 1][0] = v.z;
        c.r[m][n + 1][1] = v.w;
    }
}

/// exp of a pair of scores: bits of u = 1.375 + m*(0.927 - m*m), m = clamp(0.0172*x), moved up by five.
__device__ __forceinline__ __half2 cubic_exponent(u32 score) {
    const __half scale = __float2half(0.017186790704727173f);
    const __half2 scaled = __hmul2(as_half2(score), __half2(scale, scale));
    const __half2 low = __half2(__double2half(-0.55615234375), __double2half(-0.55615234375));
    const __half2 raised = __hmax2(scaled, low);
    const __half2 high = __half2(__double2half(0.55615234375), __double2half(0.55615234375));
    const __half2 m = __hmin2(raised, high);
    const __half2 inner = __half2(__float2half(0.92724609375f), __float2half(0.92724609375f));
    const __half2 slope = __hfma2(m, __hneg2(m), inner);
    const __half2 outer = __half2(__float2half(1.375f), __float2half(1.375f));
    const __half2 u = __hfma2(m, slope, outer);
    return as_half2((as_u32(u) << 5) & 0x7fe07fe0u);
}

/// Probabilities p = e * f16(1/row sum), the reciprocal taken once per register as the original does.
__device__ __forceinline__ void softmax(Scores& p, const Scores& scores) {
    constexpr int rows = 2 * kQueryTiles;
    __half2 e[rows][kScoreTiles];
#pragma unroll
    for (int i = 0; i < rows * kScoreTiles; ++i) {
        const int at = order(i, rows * kScoreTiles);
        const int row = at / (2 * kScoreTiles) * 2 + (at & 1), n = at / 2 % kScoreTiles;
        e[row][n] = cubic_exponent(scores.r[row >> 1][n][row & 1]);
    }
    __half2 sum[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) sum[order(i, rows)] = lane_sum(e[order(i, rows)]);
#pragma unroll
    for (int i = 0; i < rows; ++i) sum[order(i, rows)] = row_sum(sum[order(i, rows)]);
    __half2 inv[rows][kScoreTiles];
#pragma unroll
    for (int i = 0; i < rows * kScoreTiles; ++i) {
        const int at = order(i, rows * kScoreTiles);
        inv[at / kScoreTiles][at % kScoreTiles] = h2rcp(sum[at / kScoreTiles]);
    }
#pragma unroll
    for (int i = 0; i < rows * kScoreTiles; ++i) {
        const int row = order(i, rows * kScoreTiles) / kScoreTiles, n = order(i, rows * kScoreTiles) % kScoreTiles;
        const __half high = __hmul(e[row][n].y, inv[row][n].y);
        const __half low = __hmul(e[row][n].x, inv[row][n].x);
        p.r[row >> 1][n][row & 1] = as_u32(__half2(low, high));
    }
}

/// V as B operand of P*V: word w of k step s packs the transposes of row half w of m-tiles 2s and 2s + 1.
template <int NT>
__device__ __forceinline__ void pack_values(BFragments<NT, kKeyTiles / 2>& b, const Tile<kKeyTiles, NT>& v) {
    u32 turned[kKeyTiles][NT][2];
#pragma unroll
    for (int i = 0; i < kKeyTiles * NT * 2; ++i) {
        const int at = order(i, kKeyTiles * NT * 2);
        const int m = at / (2 * NT), n = at / 2 % NT, half = at & 1;
        turned[m][n][half] = transpose(v.r[m][n][half]);
    }
#pragma unroll
    for (int i = 0; i < kKeyTiles * NT; ++i) {
        const int at = order(i, kKeyTiles * NT);
        const int s = at / (2 * NT), n = at / 2 % NT, w = at & 1;
        b.r[n][s][w] = pack_word(turned[2 * s][n][w], turned[2 * s + 1][n][w]);
    }
}

/// The whole head: scores of the first 64 rows of `keys` with all 96, softmax, and its product with `values`.
template <int NT>
__device__ __forceinline__ void attend(Tile<kQueryTiles, NT>& out, const Tile<kKeyTiles, 4>& keys,
                                       const Tile<kKeyTiles, NT>& values, const u8* w, int bias) {
    Scores c, scores, p;
    load_score_bias(c, w, bias);
    BFragments<kScoreTiles, 1> k;
    AFragments<kQueryTiles, 1> q;
    pack_b(k, keys);
    pack_a<false>(q, keys);
    gemm(scores, q, k, c);
    softmax(p, scores);
    BFragments<NT, kKeyTiles / 2> v;
    AFragments<kQueryTiles, kKeyTiles / 2> a;
    pack_values(v, values);
    pack_a<false>(a, p);
    Tile<kQueryTiles, NT> zero;
    zero_seeds(zero);
    gemm(out, a, v, zero);
}

}  // namespace rr
