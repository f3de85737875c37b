// Attention of one head on direct operands: scores, cubic-exponent softmax, P.V.
#pragma once

#include "zrr_capture.h"
#include "zrr_norm.h"

namespace zrr {

// Keys (also queries) and values of one head over kTiles token tiles.
//   keys.tile[T]           packed tokens: A operand as keys, B operand as queries
//   values.tile[s][c]      A operand of key step s (token tiles 2s, 2s+1), rows = channels direct_column(r, c)
template <int kTiles>
struct Head {
    static_assert(kTiles % 2 == 0, "a key step is two token tiles");
    Operand key[kTiles];
    Operand value[kTiles / 2][2];
};

template <int kTiles>
ZRR_DEVICE void hold(Head<kTiles>& head) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
        hold(head.key[i]);
        hold(head.value[i >> 1][i & 1]);
    }
}

// Keys: tokens x weights, requantised. Values with the roles swapped (tokens on A): lane = channel, VGPR = token slot.
template <Requantise kMode, int kTiles>
ZRR_DEVICE void project_head(Head<kTiles>& head, const Operand (&tokens)[kTiles], const WeightBlock& key_weights,
                             const WeightBlock& value_weights, const Capture& keys = {}, const Capture& values = {}) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const float8 key = multiply(float8{}, key_weights.tile[u], tokens[tile]);
            if constexpr (kCapturing) keys.rows<4>(tile_token(lane_id() & 15, tile), u, round_tile(key));
            head.key[tile].half[u] = requantise_tile<kMode>(key);
            const float8 value = multiply(float8{}, tokens[tile], value_weights.tile[u]);
            if constexpr (kCapturing) values.columns(tile, u, round_tile(value));
            head.value[tile >> 1][u].half[tile & 1] = requantise_tile<kMode>(value);
        }
}

// Minus the softmax numerator of a score pair: 2^(32 * frac(u) - 15) with a 5-bit mantissa, u = 1.375 + m * (0.927 -
// m^2), m = clamp(0.01718 * score). The shift moves u's mantissa into exponent and mantissa and u's lowest exponent
// bit, which is 1, into the sign; signs cancel in numerator * (1 / sum).
ZRR_DEVICE half2 negative_exponent(half2 score) {
    typedef unsigned short ushort2v __attribute__((ext_vector_type(2)));
    const half2 m = min_number(max_number(score * splat(0.017181396484375f), splat(-0.55615234375f)),
                               splat(0.55615234375f));
    const half2 inner = __builtin_elementwise_fma(m, -m, splat(0.92724609375f));
    const half2 u = __builtin_elementwise_fma(m, inner, splat(1.375f));
    return as_half2(__builtin_bit_cast(uint32_t, __builtin_bit_cast(ushort2v, u) << (ushort2v)5));
}

// Score bias of key step s and query pair `pair`: C seeds [u of the query tile][u of the key tile]. Four 16-byte
// loads; a 16-byte slot holds the queries q, q + 8 and the keys k, k + 8.
struct ScoreBias {
    float8 seed[2][2];
};

ZRR_DEVICE ScoreBias load_bias(gptr table, int pair, int step, const Lane& lane) {
    ScoreBias bias;
#pragma unroll
    for (int group = 0; group < 2; ++group)  // VGPR bit 1
#pragma unroll
        for (int load = 0; load < 2; ++load) {  // VGPR bit 2
            const uint32_t constant = 512 * (4 * (2 * step + group) + 2 * pair) + 16 * load;
            const uint32x4 slot = *global_at<const uint32x4>(table + constant, lane.row);
#pragma unroll
            for (int key = 0; key < 2; ++key)
#pragma unroll
                for (int query = 0; query < 2; ++query) {
                    const half2 both = as_half2(slot[2 * key + query]);
                    bias.seed[query][key][4 * load + 2 * group] = low_f32(both);
                    bias.seed[query][key][4 * load + 2 * group + 1] = high_f32(both);
                }
        }
    return bias;
}

template <Requantise kMode>
ZRR_DEVICE void requantise_attended(const float8 (&acc)[2][2], Operand (&out)[2]) {
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int c = 0; c < 2; ++c) out[u].half[c] = requantise_tile<kMode>(acc[u][c]);
}

// Attention of query tiles 2 * pair and 2 * pair + 1 over all keys; out[u] is the next projection's operand. `calm`
// (uniform): the values are bounded so that P.V needs no clamp.
template <bool kSaturating = false, int kTiles>
ZRR_DEVICE void attend_pair(const Head<kTiles>& head, gptr table, int pair, bool calm, const Lane& lane,
                            Operand (&out)[2], const Capture& scores = {}, const Capture& attended = {}) {
    constexpr int kSteps = kTiles / 2;
    Pairs weight[2][kTiles];  // minus the exponents, then the probabilities
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        const ScoreBias bias = load_bias(table, pair, s, lane);
#pragma unroll
        for (int u = 0; u < 2; ++u)
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const Pairs score = round_tile(multiply(bias.seed[u][k], head.key[2 * s + k], head.key[2 * pair + u]));
                if constexpr (kCapturing) scores.scores(tile_token(lane_id() & 15, 2 * pair + u), 2 * s + k, score);
#pragma unroll
                for (int p = 0; p < 4; ++p) weight[u][2 * s + k].pair[p] = negative_exponent(score.pair[p]);
            }
        // One key step at a time, or the seeds of all of them are widened at once and registers run out.
        __builtin_amdgcn_sched_barrier(0);
    }
    float8 acc[2][2] = {};
#pragma unroll
    for (int u = 0; u < 2; ++u) {
        half2 partial[2][2];
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                partial[k][q] = weight[u][k].pair[2 * q] + weight[u][k].pair[2 * q + 1];
#pragma unroll
                for (int s = 1; s < kSteps; ++s)
                    partial[k][q] = partial[k][q] +
                                    (weight[u][2 * s + k].pair[2 * q] + weight[u][2 * s + k].pair[2 * q + 1]);
            }
        const _Float16 inverse = (_Float16)__builtin_amdgcn_rcpf((float)row_sum(partial));
        // p <= 1.01 and finite: the conversion needs no clamp.
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            Operand p;
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                Pairs probability;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    probability.pair[i] = weight[u][2 * s + k].pair[i] * half2{inverse, inverse};
                p.half[k] = requantise_pairs<Requantise::in_range>(probability);
            }
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                acc[u][c] = multiply(acc[u][c], head.value[s][c], p);
                // |sum| < 96 * 1.01 * 448 < 65520: no f16 overflow between the steps.
                if (s + 1 < kSteps) acc[u][c] = round_in_f32(acc[u][c]);
            }
        }
    }
    if constexpr (kCapturing)
        for (int i = 0; i < 4; ++i)
            attended.rows<4>(tile_token(lane_id() & 15, 2 * pair + (i >> 1)), i & 1, round_tile(acc[i >> 1][i & 1]));
    if constexpr (kSaturating) {
        set_saturation<true>();
#pragma unroll
        for (int i = 0; i < 4; ++i) hold(acc[i >> 1][i & 1]);
        requantise_attended<Requantise::saturating>(acc, out);
        hold(out[0]);
        hold(out[1]);
        set_saturation<false>();
    } else if (calm) {
        requantise_attended<Requantise::in_range>(acc, out);
    } else {
        requantise_attended<Requantise::propagate>(acc, out);
    }
}

}  // namespace zrr
