// MLP branch and residual projections on direct operands.
#pragma once

#include "zrr_capture.h"
#include "zrr_direct.h"

namespace zrr {

// Residual stream of kTiles token tiles: f16 pairs, [token tile][column tile].
template <int kTiles>
struct Residual {
    Pairs tile[kTiles][2];
};

template <int kTiles>
ZRR_DEVICE void add_columns(Residual<kTiles>& residual, const Columns& table) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) residual.tile[tile][u] = add(residual.tile[tile][u], table.tile[u]);
}

// residual = round(tokens * weights + residual)
template <int kTiles>
ZRR_DEVICE void project_onto(Residual<kTiles>& residual, const WeightBlock& weights, const Operand (&tokens)[kTiles],
                             const Capture& capture = {}) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            residual.tile[tile][u] =
                round_tile(multiply(widen(residual.tile[tile][u]), weights.tile[u], tokens[tile]));
            if constexpr (kCapturing)
                capture.rows<4>(tile_token(lane_id() & 15, tile), u, residual.tile[tile][u]);
        }
}

// The same in f32, each value one that f16 can hold: the form in which it is the C operand of a product.
template <int kTiles>
struct WideResidual {
    float8 tile[kTiles][2];
};

template <int kTiles>
ZRR_DEVICE WideResidual<kTiles> widen(const Residual<kTiles>& residual) {
    WideResidual<kTiles> wide;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) wide.tile[tile][u] = widen(residual.tile[tile][u]);
    return wide;
}

// Requantised activation of one accumulator tile: byte for byte what activation() and saturating conversion give for
// every finite half, in half the operations. All of it is done on z = x / 2 (exact but where x is below 2^-13 and the
// byte is a zero anyway): clamp(|z|) to 1 and clamp(gate) to [0, 1] are output modifiers, and beyond |x| = 2, where the
// slope is constant, 0.5 + x * slope leaves [0, 1] as it should. Only the upper end can saturate, since x * gate > -0.2;
// kBounded: |x| < 464 is proved.
template <bool kBounded>
ZRR_DEVICE kop activate_tile(float8 acc) {
    kop bytes;
#pragma unroll
    for (int d = 0; d < 2; ++d) {
        float out[4];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            half2 z = round_scaled(acc[4 * d + 2 * p], acc[4 * d + 2 * p + 1], 0.5f);
            if constexpr (!kBounded) z = __builtin_elementwise_minimum(z, splat(224.0f));
            const half2 slope = splat(2 * 0.412109375f) + magnitude_to_one(z) * splat(-4 * 0.0810546875f);
            const half2 product = z * half_plus_to_unit(z * slope);
            out[2 * p] = scaled_half<0>(product, 2.0f);
            out[2 * p + 1] = scaled_half<1>(product, 2.0f);
        }
        bytes.word[d] = convert_e4m3(out[0], out[1], out[2], out[3]);
    }
    return bytes;
}

// residual = round(activation(tokens * w1 + seeds) * w2 + residual), one token tile at a time. kBounded: neither the
// hidden values nor the residual can leave their ranges (zrr_direct.h, range proofs).
template <bool kBounded, int kTiles>
ZRR_DEVICE void mlp_branch(WideResidual<kTiles>& residual, const Operand (&tokens)[kTiles], const WeightBlock& w1,
                           const Columns& seeds, const WeightBlock& w2, const Capture& up = {}, const Capture& down = {}) {
    const float8 seed[2] = {widen(seeds.tile[0]), widen(seeds.tile[1])};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
        Operand hidden;
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const float8 acc = multiply(seed[u], w1.tile[u], tokens[tile]);
            if constexpr (kCapturing) up.rows<4>(tile_token(lane_id() & 15, tile), u, round_tile(acc));
            hidden.half[u] = activate_tile<kBounded>(acc);
        }
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const float8 acc = multiply(residual.tile[tile][u], w2.tile[u], hidden);
            if constexpr (kCapturing) down.rows<4>(tile_token(lane_id() & 15, tile), u, round_tile(acc));
            residual.tile[tile][u] = round_wide<kBounded>(acc);
        }
    }
}

}  // namespace zrr
