// MLP branch and residual projections on direct operands.
#pragma once

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
ZRR_DEVICE void project_onto(Residual<kTiles>& residual, const WeightBlock& weights, const Operand (&tokens)[kTiles]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u)
            residual.tile[tile][u] =
                round_tile(multiply(widen(residual.tile[tile][u]), weights.tile[u], tokens[tile]));
}

// Requantised activation of one accumulator tile.
ZRR_DEVICE kop activate_tile(float8 acc) {
    Pairs x = round_tile(acc);
#pragma unroll
    for (int p = 0; p < 4; ++p) x.pair[p] = activation(x.pair[p]);
    return requantise_pairs<Requantise::propagate>(x);
}

// residual = round(activation(tokens * w1 + seeds) * w2 + residual), one token tile at a time.
template <int kTiles>
ZRR_DEVICE void mlp_branch(Residual<kTiles>& residual, const Operand (&tokens)[kTiles], const WeightBlock& w1,
                           const Columns& seeds, const WeightBlock& w2) {
    const float8 seed[2] = {widen(seeds.tile[0]), widen(seeds.tile[1])};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
        Operand hidden;
#pragma unroll
        for (int u = 0; u < 2; ++u) hidden.half[u] = activate_tile(multiply(seed[u], w1.tile[u], tokens[tile]));
#pragma unroll
        for (int u = 0; u < 2; ++u)
            residual.tile[tile][u] = round_tile(multiply(widen(residual.tile[tile][u]), w2.tile[u], hidden));
    }
}

}  // namespace zrr
