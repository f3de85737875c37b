// NVIDIA side of the portability layer, in place of ../zrr_wmma.h: the k32 step as two m16n8k32 mma.sync on operands and
// accumulators in the gfx12 view.
//
// Operand (A or B): lane l holds row (A) or column (B) r, k = 8h + i in byte i of two dwords.
// Accumulator: lane l holds column r, VGPR i = row 8h + i; every value is one that f16 holds, or 2^20 for infinity.
//
// mma.sync multiplies the transposed problem: its A is the B of the WMMA. On an H200 the result has the same bits
// either way, and the order of addition goes by slots, which are where they were.
#pragma once

#include "zrr_f16.h"

namespace zrr {

// One WMMA operand of a lane: 8 e4m3 bytes.
struct kop {
    uint32_t word[2];
};

typedef uint32x4 kslot;

ZRR_DEVICE kop kop_from16(uint32x4 row, uint32_t h) {
    return h ? kop{{row.z, row.w}} : kop{{row.x, row.y}};
}

// Slots 4t..4t+3 of row `row`, lane l = 4g + t.
ZRR_DEVICE uint32_t fragment_word(kop operand, uint32_t row, uint32_t t) {
    const uint32_t from = row + 16 * (t >> 1);
    const uint32_t even = shuffle(operand.word[0], from), odd = shuffle(operand.word[1], from);
    return t & 1 ? odd : even;
}

// Fragment word [n][half] of the f16 accumulator: rows g + 8 * half, columns 8n + 2t and + 1 of the transposed product.
ZRR_DEVICE void to_fragment(const Pairs& tile, uint32_t (&word)[2][2], uint32_t g, uint32_t t) {
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t chosen = 0;
#pragma unroll
            for (uint32_t p = 0; p < 4; ++p) {
                const uint32_t pair = shuffle(as_bits(tile.pair[p]), g + 8 * half + 16 * n);
                chosen = t == p ? pair : chosen;
            }
            word[n][half] = chosen;
        }
}

ZRR_DEVICE Pairs from_fragment(const uint32_t (&word)[2][2], uint32_t l) {
    const uint32_t r = l & 15, h = l >> 4;
    Pairs tile;
#pragma unroll
    for (uint32_t p = 0; p < 4; ++p) {
        const uint32_t from = 4 * (r & 7) + p;
        uint32_t chosen = 0;
#pragma unroll
        for (uint32_t n = 0; n < 2; ++n)
#pragma unroll
            for (uint32_t half = 0; half < 2; ++half) {
                const uint32_t pair = shuffle(word[n][half], from);
                chosen = h == n && (r >> 3) == half ? pair : chosen;
            }
        tile.pair[p] = as_half2(chosen);
    }
    return tile;
}

// One k32 step: slots 0..15 (a0, b0) and 16..31 (a1, b1). The sum is rounded to f16, as the mma of the PTX does it.
ZRR_DEVICE float8 k32_e4m3(float8 c, kop a0, kop b0, kop a1, kop b1) {
    const uint32_t l = lane_id(), g = l >> 2, t = l & 3;
    const uint32_t tokens[4] = {fragment_word(b0, g, t), fragment_word(b0, g + 8, t), fragment_word(b1, g, t),
                                fragment_word(b1, g + 8, t)};
    uint32_t acc[2][2];
    to_fragment(round_tile(c), acc, g, t);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const uint32_t low = fragment_word(a0, 8 * n + g, t), high = fragment_word(a1, 8 * n + g, t);
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
            : "+r"(acc[n][0]), "+r"(acc[n][1])
            : "r"(tokens[0]), "r"(tokens[1]), "r"(tokens[2]), "r"(tokens[3]), "r"(low), "r"(high));
    }
    float8 sum = widen(from_fragment(acc, l));
    // gfx12 accumulators hold what overflows f16, and the code after this may count on a finite number.
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (__builtin_fabsf(sum[i]) == __builtin_inff()) sum[i] = __builtin_copysignf(0x1p20f, sum[i]);
    return sum;
}

}  // namespace zrr
