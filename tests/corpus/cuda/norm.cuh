// RMS norm with gain over the NT*8 columns of a row, in f16 (seed 001 E14, rr-details.md 8, 9, 51).
//   v = f16(sum of squares + 2^-13), inv = f16(rsqrt(v)), out = f16(x * f16(inv * gain)).
// The four lanes with equal g hold a row; the sum's tree is n-tiles, then t bit 0, then t bit 1, then low + high.
#pragma once

#include "weights.cuh"

namespace rr {

/// In-lane sum of a row's pairs x[n] = columns 8n + 2t + {0, 1}: even and odd n-tiles apart, then both.
template <int NT>
__device__ __forceinline__ __half2 lane_sum(const __half2 (&x)[NT]) {
    static_assert(NT == 4 || NT == 8 || NT == 12, "trees of rr-details.md 51");
    __half2 part[2];
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) {
        part[parity] = __hadd2(x[parity], x[parity + 2]);
        if constexpr (NT >= 8) part[parity] = __hadd2(part[parity], __hadd2(x[parity + 4], x[parity + 6]));
        if constexpr (NT >= 12) part[parity] = __hadd2(part[parity], __hadd2(x[parity + 8], x[parity + 10]));
    }
    return __hadd2(part[0], part[1]);
}

/// Row sum from the four lanes' pairs, in both halves of the result.
__device__ __forceinline__ __half2 row_sum(__half2 s) {
    s = __hadd2(s, __shfl_xor_sync(0xffffffffu, s, 1));
    s = __hadd2(s, __shfl_xor_sync(0xffffffffu, s, 2));
    const __half sum = __hadd(s.x, s.y);
    return __half2(sum, sum);
}

/// In-lane sums of squares, one pair per row and lane.
template <int MT, int NT>
__device__ __forceinline__ void lane_squares(__half2 (&part)[MT][2], const Tile<MT, NT>& in) {
#pragma unroll
    for (int i = 0; i < 2 * MT; ++i) {
        const int m = order(i, 2 * MT) >> 1, half = order(i, 2 * MT) & 1;
        __half2 square[NT];
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            const __half2 x = as_half2(in.r[m][n][half]);
            const __half high = __hmul(x.y, x.y);
            const __half low = __hmul(x.x, x.x);
            square[n] = __half2(low, high);
        }
        part[m][half] = lane_sum(square);
    }
}

/// The whole norm; the gain of NT*8 columns stands at W + `gain_offset` and is loaded after the reciprocal roots.
template <int MT, int NT>
__device__ __forceinline__ void rms_norm(Tile<MT, NT>& out, const Tile<MT, NT>& in, const u8* w, int gain_offset) {
    __half2 sum[MT][2], inv[MT][NT][2], gain[NT];
    lane_squares(sum, in);
#pragma unroll
    for (int i = 0; i < 2 * MT; ++i) {
        const int m = order(i, 2 * MT) >> 1, half = order(i, 2 * MT) & 1;
        sum[m][half] = row_sum(sum[m][half]);
    }
    const __half eps = __double2half(0x1p-13);
#pragma unroll
    for (int i = 0; i < 2 * MT; ++i) {
        const int m = order(i, 2 * MT) >> 1, half = order(i, 2 * MT) & 1;
        sum[m][half] = __hadd2(sum[m][half], __half2(eps, eps));
    }
#pragma unroll
    for (int i = 0; i < 2 * MT * NT; ++i) {
        const int at = order(i, 2 * MT * NT);
        inv[at / (2 * NT)][at / 2 % NT][at & 1] = h2rsqrt(sum[at / (2 * NT)][at & 1]);
    }
    load_table(gain, w, gain_offset);
#pragma unroll
    for (int i = 0; i < 2 * MT * NT; ++i) {
        const int at = order(i, 2 * MT * NT);
        const int m = at / (2 * NT), n = at / 2 % NT, half = at & 1;
        const __half2 x = as_half2(in.r[m][n][half]);
        const __half gain_high = __hmul(inv[m][n][half].y, gain[n].y);
        const __half gain_low = __hmul(inv[m][n][half].x, gain[n].x);
        const __half high = __hmul(x.y, gain_high);
        const __half low = __hmul(x.x, gain_low);
        out.r[m][n][half] = as_u32(__half2(low, high));
    }
}

}  // namespace rr
