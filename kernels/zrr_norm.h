// RMS norm on direct operands.
#pragma once

#include "zrr_direct.h"

namespace zrr {

// Row sum of packed halves in NVIDIA's f16 addition tree, given per (tile parity u, VGPR bit 2) partial sums:
// parities, VGPR bit 2 (t bit 0 of NVIDIA's lane), the other half-wave (t bit 1), low + high last.
ZRR_DEVICE _Float16 row_sum(const half2 (&partial)[2][2]) {
    half2 sum = (partial[0][0] + partial[1][0]) + (partial[0][1] + partial[1][1]);
    sum = sum + as_half2(other_half(as_bits(sum)));
    return sum.x + sum.y;
}

// out = x * (rsqrt(sum of the 32 squares + 2^-13) * gain[column]), every step rounded to f16; no mean and no 1/N.
// x: one token tile, both column tiles. `energy` is the argument of the root: infinite or NaN where x is, or too large.
template <Requantise kMode>
ZRR_DEVICE Operand norm_tile(const Pairs (&x)[2], const Columns& gain, _Float16& energy) {
    half2 partial[2][2];
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            const half2 a = x[u].pair[2 * q], b = x[u].pair[2 * q + 1];
            partial[u][q] = a * a + b * b;
        }
    energy = row_sum(partial) + (_Float16)0x1p-13f;
    const _Float16 inverse = (_Float16)__builtin_amdgcn_rsqf((float)energy);
    Operand out;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
        Pairs normed;
#pragma unroll
        for (int p = 0; p < 4; ++p)
            normed.pair[p] = x[u].pair[p] * (half2{inverse, inverse} * gain.tile[u].pair[p]);
        out.half[u] = requantise_pairs<kMode>(normed);
    }
    return out;
}

// Norm of kTiles token tiles; `calm` (uniform) says that the gain bounds the results. Returns the sum of the energies
// of this lane's tokens: finite only if every value of them is below 257.
template <int kTiles>
ZRR_DEVICE _Float16 norm_tokens(const Pairs (&x)[kTiles][2], const Columns& gain, bool calm, Operand (&out)[kTiles]) {
    _Float16 energy[kTiles];
    if (calm) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
            out[tile] = norm_tile<Requantise::in_range>(x[tile], gain, energy[tile]);
    } else {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
            out[tile] = norm_tile<Requantise::propagate>(x[tile], gain, energy[tile]);
    }
    _Float16 sum = energy[0];
#pragma unroll
    for (int tile = 1; tile < kTiles; ++tile) sum = sum + energy[tile];
    return sum;
}

}  // namespace zrr
