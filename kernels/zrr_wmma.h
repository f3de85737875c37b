// The k32 step: one m16n8k32 e4m3 mma pair of NVIDIA's as two gfx12 FP8 WMMAs, lower slots first.
//
// Operand (A or B): lane l holds row (A) or column (B) r, k = 8h + i in byte i of two dwords.
// Accumulator: lane l holds column r, VGPR i = row 8h + i.
#pragma once

#include "zrr_f16.h"

namespace zrr {

// One WMMA operand of a lane: 8 e4m3 bytes.
struct kop {
    uint32_t word[2];
};

// 16 e4m3 bytes: one row of one WMMA operand, slots 0..15 of a step's half.
typedef uint32x4 kslot;

// This half-wave's operand bytes out of a row's 16: a selection, not a shuffle.
ZRR_DEVICE kop kop_from16(uint32x4 row, uint32_t h) {
    return h ? kop{{row.z, row.w}} : kop{{row.x, row.y}};
}

ZRR_DEVICE float8 wmma(float8 c, kop a, kop b) {
    typedef int int2v __attribute__((ext_vector_type(2)));
    int2v av = {(int)a.word[0], (int)a.word[1]}, bv = {(int)b.word[0], (int)b.word[1]};
    return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(av, bv, c);
}

// One k32 step on f32 accumulators: slots 0..15 (a0, b0), then 16..31 (a1, b1), no rounding in between. The
// caller rounds to f16 after every step (round_tile), as each mma of the PTX does.
ZRR_DEVICE float8 k32_e4m3(float8 c, kop a0, kop b0, kop a1, kop b1) {
    return wmma(wmma(c, a0, b0), a1, b1);
}

}  // namespace zrr
