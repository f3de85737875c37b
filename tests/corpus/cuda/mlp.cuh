// The MLP's bottleneck branches: NT*8 channels -> 32 -> NT*8, each on the normed tile and on top of a running residual.
#pragma once

#include "weights.cuh"

namespace rr {

/// x * (0.5 + y*(0.4121 - 0.0811*|y|)), y = clamp(x, -2, 2) (seed 001 E15).
__device__ __forceinline__ __half2 clamped_cubic(__half2 x) {
    const __half2 linear = __float2half2_rn(0.4121621549129486f);
    const __half2 square = __float2half2_rn(0.0810810774564743f);
    const __half2 half = __float2half2_rn(0.5f);
    const __half2 bound = __float2half2_rn(2.0f);
    const __half2 y = __hmin2(__hmax2(x, __hneg2(bound)), bound);
    const __half2 slope = __hsub2(linear, __hmul2(square, __habs2(y)));
    return __hmul2(x, __hadd2(half, __hmul2(y, slope)));
}

template <int MT, int NT>
__device__ __forceinline__ void activate(Tile<MT, NT>& out, const Tile<MT, NT>& in) {
#pragma unroll
    for (int i = 0; i < MT * NT * 2; ++i) {
        const int at = order(i, MT * NT * 2);
        const int m = at / (2 * NT), n = at / 2 % NT, half = at & 1;
        out.r[m][n][half] = as_u32(clamped_cubic(as_half2(in.r[m][n][half])));
    }
}

enum : int { kNoTable = -1 };

/// One branch: expand (B at `up`, bias after it), activate, project back (B at `down`) on top of `residual`, to which the first
/// branch adds the per-column table at offset Table.
template <int Table, int MT, int NT>
__device__ __forceinline__ void mlp_branch(Tile<MT, NT>& out, const Tile<MT, NT>& normed, const Tile<MT, NT>& residual,
                                           const u8* w, int up, int down) {
    constexpr int block_bytes = 32 * 8 * NT;
    Tile<MT, 4> hidden, active, bias;
    AFragments<MT, NT / 4> a_up;
    BFragments<4, NT / 4> b_up;
    load_b(b_up, w, up);
    load_column_seeds(bias, w, up + block_bytes);
    pack_a<false>(a_up, normed);
    gemm(hidden, a_up, b_up, bias);
    activate(active, hidden);
    Tile<MT, NT> c;
    AFragments<MT, 1> a_down;
    BFragments<NT, 1> b_down;
    load_b(b_down, w, down);
    if constexpr (Table != kNoTable) {
        __half2 table[NT];
        load_table(table, w, Table);
        table_seeds(c, residual, table);
    } else {
        c = residual;
    }
    pack_a<false>(a_down, active);
    gemm(out, a_down, b_down, c);
}

}  // namespace rr
