// Direct operands: weights on the A side, tokens on the B side, no shared memory and no permutes.
//
// A lane holds one token per token tile (token r of the tile, both half-waves) and half of its channels: weight tile u
// has its rows in direct order (row r = the column whose logical k is that of slot 16u + r), so VGPR i of accumulator
// tile u is slot 8h + i of WMMA u of the next k step. Rounding to f16, an elementwise epilogue and requantisation turn
// an accumulator into the next operand in place. Token tile 2s + u holds token 32s + direct_column(r, u), so that
// scores over keys are operands of P.V as well.
#pragma once

#include "zrr_wmma.h"

namespace zrr {

// One k32 step's operand of a lane: [w] is the operand of WMMA w. Tokens (B), keys (A) or weights (A).
struct Operand {
    kop half[2];
};

// Per-lane byte offsets that every address of a body is built from; all other parts are constants or uniform.
struct Lane {
    uint32_t r, h;
    uint32_t row;      // row r of a weight block with 512-byte 16-column groups; also the lane's slot of score bias
    uint32_t columns;  // 8h: per-column vectors
};

ZRR_DEVICE Lane lane_offsets(uint32_t l) {
    const uint32_t r = l & 15, h = l >> 4;
    return {r, h, 64 * (2 * (r >> 2) + (r & 1)) + 32 * h + 512 * ((r >> 1) & 1), 8 * h};
}

// The same offsets as values that the compiler takes for new. Where a loop body or a later part of a body uses them,
// addresses are then formed on the spot (scalar base + lane offset in the load itself) instead of being kept, or
// advanced, as 64-bit vector registers.
ZRR_DEVICE Lane local_offsets(Lane lane) {
    asm volatile("" : "+v"(lane.row));
    lane.columns = (lane.row & 32) >> 2;  // 8h; one register less to keep
    return lane;
}

// A lane number of this place, for values that would otherwise be kept in registers from the start of a body.
ZRR_DEVICE uint32_t fresh_lane_id() {
    uint32_t l;
    asm volatile("v_mbcnt_lo_u32_b32 %0, -1, 0" : "=v"(l));
    return l;
}

// Token of lane r in token tile T, counted over the layer's rows.
ZRR_DEVICE uint32_t tile_token(uint32_t r, uint32_t tile) {
    return 32 * (tile >> 1) + 2 * (r >> 2) + (r & 1) + 16 * ((r >> 1) & 1) + 8 * (tile & 1);
}

// ---- weights ---------------------------------------------------------------------------------------------

// Operands of one 32 x 32 block: tile[u] for output columns direct_column(r, u).
struct WeightBlock {
    Operand tile[2];
};

// Two 16-byte loads per lane from the module's own image. kSteps > 1: the k steps of a 16-column group are
// consecutive 512-byte tiles, `block` then points at this step's tile of the first group.
template <int kSteps = 1>
ZRR_DEVICE WeightBlock load_weights(gptr block, const Lane& lane) {
    static_assert(kSteps >= 1, "a block has at least one k step");
    const uint32_t offset = lane.row + 512 * (kSteps - 1) * ((lane.r >> 1) & 1);
    const uint32x4 first = *global_at<const uint32x4>(block, offset);
    const uint32x4 second = *global_at<const uint32x4>(block + 16, offset);
    WeightBlock weights;
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int w = 0; w < 2; ++w) weights.tile[u].half[w] = {{first[2 * u + w], second[2 * u + w]}};
    return weights;
}

// A block of 16 columns: one tile, row r = column r, two 8-byte loads.
ZRR_DEVICE Operand load_narrow_weights(gptr block, const Lane& lane) {
    const uint32_t offset = 64 * (lane.r & 7) + 8 * (lane.r >> 3) + 32 * lane.h;
    const uint32x2 first = *global_at<const uint32x2>(block, offset);
    const uint32x2 second = *global_at<const uint32x2>(block + 16, offset);
    return {{{{first.x, second.x}}, {{first.y, second.y}}}};
}

// ---- per-column vectors ----------------------------------------------------------------------------------

// f16 of a lane's 16 columns of a 32-column block, in accumulator order: tile[u].pair[p] = VGPRs 2p, 2p + 1.
struct Columns {
    Pairs tile[2];
};

// Pairs p and p + 2 of tile u are columns 8(u + 2(p & 1)) + 4h ..+3: four 8-byte loads.
ZRR_DEVICE Columns load_columns(gptr vector, const Lane& lane) {
    Columns columns;
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const uint32x2 both = *global_at<const uint32x2>(vector + 16 * u + 32 * p, lane.columns);
            columns.tile[u].pair[p] = as_half2(both.x);
            columns.tile[u].pair[p + 2] = as_half2(both.y);
        }
    return columns;
}

ZRR_DEVICE Pairs add(Pairs a, Pairs b) {
#pragma unroll
    for (int p = 0; p < 4; ++p) a.pair[p] = a.pair[p] + b.pair[p];
    return a;
}

// ---- products --------------------------------------------------------------------------------------------

ZRR_DEVICE float8 multiply(float8 c, const Operand& a, const Operand& b) {
    return k32_e4m3(c, a.half[0], b.half[0], a.half[1], b.half[1]);
}

// Rounding to f16 of mma results that stay in f32: Veltkamp's splitting with 2^13, exact for every value a k32 step
// can give (a multiple of 2^-24) below f16 overflow, which it does not turn into infinity. The caller has proved the
// range, or clamps to 448 next, where an infinity and a large value give the same byte.
ZRR_DEVICE float8 round_loop_carried(float8 acc) {
    float8 scaled = acc * -8191.0f;
    asm("" : "+v"(scaled));  // one block of registers: neighbours pair into dual-issue instructions
    float8 rounded;
#pragma unroll
    for (int i = 0; i < 8; ++i) rounded[i] = __builtin_fmaf(acc[i], 8192.0f, scaled[i]);
    return rounded;
}

// The same where the result is used up in place: one block as well, which over a loop's back edge would be copied.
ZRR_DEVICE float8 round_in_f32(float8 acc) {
    float8 rounded = round_loop_carried(acc);
    asm("" : "+v"(rounded));
    return rounded;
}

// Rounding to f16 in f32, with infinity on overflow unless the range is proved.
template <bool kBounded>
ZRR_DEVICE float8 round_wide(float8 acc) {
    if constexpr (kBounded) return round_loop_carried(acc);
    return widen(round_tile(acc));
}

// ---- requantisation --------------------------------------------------------------------------------------

// Accumulator tile straight to operand bytes; relu as in cvt.rn.satfinite.relu (a NaN stays one).
template <Requantise kMode, bool kRelu = false>
ZRR_DEVICE kop requantise_tile(float8 acc) {
    static_assert(kMode != Requantise::exact, "from f32 every NaN gives 0xff");
    float8 x = round_in_f32(acc);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if constexpr (kRelu) x[i] = __builtin_elementwise_maximum(x[i], 0.0f);
        if constexpr (!kRelu && kMode == Requantise::propagate) x[i] = __builtin_elementwise_maximum(x[i], -448.0f);
        if constexpr (kMode == Requantise::propagate) x[i] = __builtin_elementwise_minimum(x[i], 448.0f);
    }
    return {{convert_e4m3(x[0], x[1], x[2], x[3]), convert_e4m3(x[4], x[5], x[6], x[7])}};
}

template <Requantise kMode>
ZRR_DEVICE kop requantise_pairs(const Pairs& tile) {
    return {{requantise<kMode>(tile.pair[0], tile.pair[1]), requantise<kMode>(tile.pair[2], tile.pair[3])}};
}

// Operand bytes that are also stored: x holds f16 values, any of them.
template <Requantise kMode>
ZRR_DEVICE kop requantise_stored(float8 x) {
    static_assert(kMode == Requantise::propagate || kMode == Requantise::saturating, "the range is not proved");
    if constexpr (kMode == Requantise::propagate) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            x[i] = __builtin_elementwise_minimum(__builtin_elementwise_maximum(x[i], -448.0f), 448.0f);
    }
    return {{convert_e4m3_positive_nan(x[0], x[1], x[2], x[3]), convert_e4m3_positive_nan(x[4], x[5], x[6], x[7])}};
}

// hold() for saturation scopes.
ZRR_DEVICE void hold(float8& acc) { asm volatile("" : "+v"(acc)); }
ZRR_DEVICE void hold(WeightBlock& weights) {  // every product takes part of it
    hold(weights.tile[0].half[0].word[0]);
    hold(weights.tile[1].half[0].word[0]);
}
ZRR_DEVICE void hold(Operand& operand) {
#pragma unroll
    for (int w = 0; w < 2; ++w)
#pragma unroll
        for (int d = 0; d < 2; ++d) hold(operand.half[w].word[d]);
}

// ---- range proofs ----------------------------------------------------------------------------------------
//
// A clamp before a conversion, and a rounding that gives infinity on overflow, cost one operation per value. They are
// not needed where the weights bound the values, and a look at the weights, which every lane holds anyway, answers for
// all their products. The answers are uniform over the wave; where one is no, the clamping copy of the code runs, so
// results never depend on a bound. A NaN fails the f16 tests; in codes it propagates as in the other copy.
//
//   gain^2 <= G^2        a normed token has length below 1.02 G (the norm makes its squares sum to 1 before the gain,
//                        f16 rounding included) and, requantised (2^-4 relative or 2^-10), below 1.09 G
//   |weight| <= 1.875    a column of 32 has length at most 10.61, a block of 32 columns at most 60
//
//   G = 32   |token| < 33; |token * column| < 368, requantised < 384; probabilities, requantised, sum to less than
//            1.17, so |P.V| < 450: all below 464, from where on the conversion overflows
//   G = 16   with seeds of a lane (half the columns) having squares that sum to at most 1024:
//            |hidden| < 185 + 32; the hidden vector, activated and requantised, has length below 1.07 (17.4 * 60 + 46)
//            < 1170, so a branch adds less than 12,420 to the residual. A row whose f16 sum of squares is finite has
//            |x| < 257; with a table bounded like the seeds and four branches the residual stays below 49,970 < 65,520

// True if `fails` is false in every lane. All lanes must be active.
ZRR_DEVICE bool none(bool fails) { return __builtin_amdgcn_ballot_w32(fails) == 0; }

ZRR_DEVICE uint32_t union_of_codes(const WeightBlock& weights) {
    uint32_t codes = 0;
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int w = 0; w < 2; ++w) codes |= weights.tile[u].half[w].word[0] | weights.tile[u].half[w].word[1];
    return codes;
}

// This lane's part of both blocks holds a |weight| >= 2: bit 6 of an e4m3 code is set.
ZRR_DEVICE bool two_or_more(const WeightBlock& a, const WeightBlock& b) {
    return ((union_of_codes(a) | union_of_codes(b)) & 0x40404040u) != 0;
}

// This lane's columns do not all have x^2 <= limit^2.
ZRR_DEVICE bool beyond(const Columns& columns, float limit) {
    half2 most = columns.tile[0].pair[0] * columns.tile[0].pair[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) {
        const half2 x = columns.tile[i >> 2].pair[i & 3];
        most = __builtin_elementwise_maximum(most, x * x);
    }
    const _Float16 square = (_Float16)(limit * limit);
    return !(most.x <= square && most.y <= square);
}

// The squares of this lane's columns do not sum to at most 1024.
ZRR_DEVICE bool long_columns(const Columns& columns) {
    half2 sum = columns.tile[0].pair[0] * columns.tile[0].pair[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) {
        const half2 x = columns.tile[i >> 2].pair[i & 3];
        sum = __builtin_elementwise_fma(x, x, sum);
    }
    return !(sum.x + sum.y <= (_Float16)1024.0f);
}

}  // namespace zrr
