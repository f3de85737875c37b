// One attention head of 48 tokens, 32 channels; not a layer of the family. The second k step of P*V is half empty.
//
// in:  48 rows of 32 e4m3 bytes per block in slot order (fragments.cuh).
// w:   keys 0, values 1024, projection 2048 (32x32 blocks of 1024 bytes), column vector 3072 (64 bytes),
//      score bias 3136: 9 tiles of 512 bytes, tile 3*(n >> 1) + m as in load_score_bias.
// out: f16[48][32] per block.
#include "head.cuh"

namespace rr {

constexpr int kTiles = 3, kScoreColumns = 6;

__device__ __forceinline__ void load_tokens(AFragments<kTiles, 1>& a, const u8* in) {
    const u32 g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) {
        const int m = i / 4, reg = i % 4;
        const u32 row = 16 * m + 8 * (reg & 1) + g;
        a.r[m][0][reg] = *reinterpret_cast<const u32*>(in + 32 * row + 16 * (reg >> 1) + 4 * t);
    }
}

using Scores48 = Tile<kTiles, kScoreColumns>;
using Rows48 = Tile<kTiles, 4>;

__device__ __forceinline__ void load_bias(Scores48& c, const u8* w) {
    const u64 base = fragment_base(w);
#pragma unroll
    for (int tile = 0; tile < kTiles * kScoreColumns / 2; ++tile) {
        const int m = tile % kTiles, n = 2 * (tile / kTiles);
        const uint4 v = load_words(base + 3136 + 512 * tile);
        c.r[m][n][0] = v.x;
        c.r[m][n][1] = v.y;
        c.r[m][n + 1][0] = v.z;
        c.r[m][n + 1][1] = v.w;
    }
}

__device__ __forceinline__ void softmax48(Scores48& p, const Scores48& scores) {
    __half2 e[2 * kTiles][kScoreColumns], sum[2 * kTiles];
#pragma unroll
    for (int row = 0; row < 2 * kTiles; ++row) {
#pragma unroll
        for (int n = 0; n < kScoreColumns; ++n) e[row][n] = cubic_exponent(scores.r[row >> 1][n][row & 1]);
        const __half2(&x)[kScoreColumns] = e[row];
        sum[row] = __hadd2(__hadd2(__hadd2(x[0], x[2]), x[4]), __hadd2(__hadd2(x[1], x[3]), x[5]));
    }
#pragma unroll
    for (int row = 0; row < 2 * kTiles; ++row) {
        const __half2 inverse = h2rcp(row_sum(sum[row]));
#pragma unroll
        for (int n = 0; n < kScoreColumns; ++n) p.r[row >> 1][n][row & 1] = as_u32(__hmul2(e[row][n], inverse));
    }
}

__device__ __forceinline__ void pack_probabilities(AFragments<kTiles, 2>& a, const Scores48& p) {
#pragma unroll
    for (int i = 0; i < kTiles * 8; ++i) {
        const int m = i / 8, s = i / 4 % 2, reg = i % 4, n = 4 * s + (reg >> 1);
        a.r[m][s][reg] = pack_word(p.r[m][n][reg & 1], n + 2 < kScoreColumns ? p.r[m][n + 2][reg & 1] : 0);
    }
}

__device__ __forceinline__ void pack_values48(BFragments<4, 2>& b, const Rows48& v) {
    u32 turned[kTiles][4][2];
#pragma unroll
    for (int i = 0; i < kTiles * 8; ++i) turned[i / 8][i / 2 % 4][i & 1] = transpose(v.r[i / 8][i / 2 % 4][i & 1]);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int s = i / 8, n = i / 2 % 4, w = i & 1;
        b.r[n][s][w] = pack_word(turned[2 * s][n][w], s == 0 ? turned[1][n][w] : 0);
    }
}

}  // namespace rr

extern "C" __global__ void attention48(const unsigned char* w, const unsigned char* in, unsigned int* out) {
    using namespace rr;
    AFragments<kTiles, 1> a;
    Rows48 zero, keys, values, head, table, result;
    BFragments<4, 1> b;
    load_tokens(a, in + 1536 * blockIdx.x);
    zero_seeds(zero);
    load_b(b, w, 0);
    gemm(keys, a, b, zero);
    load_b(b, w, 1024);
    gemm(values, a, b, zero);

    Scores48 bias, scores, p;
    BFragments<kScoreColumns, 1> k;
    load_bias(bias, w);
    pack_b(k, keys);
    pack_a<false>(a, keys);
    gemm(scores, a, k, bias);
    softmax48(p, scores);
    AFragments<kTiles, 2> probabilities;
    BFragments<4, 2> v;
    pack_probabilities(probabilities, p);
    pack_values48(v, values);
    gemm(head, probabilities, v, zero);

    load_b(b, w, 2048);
    load_column_seeds(table, w, 3072);
    pack_a<false>(a, head);
    gemm(result, a, b, table);
    const u32 g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int i = 0; i < kTiles * 8; ++i) {
        const int m = i / 8, n = i / 2 % 4, half = i & 1;
        out[768 * blockIdx.x + 16 * (16 * m + 8 * half + g) + 4 * n + t] = result.r[m][n][half];
    }
}
