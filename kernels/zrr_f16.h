// f16 arithmetic and requantisation to e4m3, each step rounded where the PTX rounds it (no contraction).
#pragma once

#include "zrr_base.h"

namespace zrr {

typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef float float8 __attribute__((ext_vector_type(8)));

ZRR_DEVICE half2 as_half2(uint32_t bits) { return __builtin_bit_cast(half2, bits); }
ZRR_DEVICE uint32_t as_bits(half2 value) { return __builtin_bit_cast(uint32_t, value); }
ZRR_DEVICE half2 splat(float value) { return half2{(_Float16)value, (_Float16)value}; }
ZRR_DEVICE half2 swap_halves(half2 value) { return half2{value.y, value.x}; }

// PTX min/max.f16x2: of a NaN and a number, the number.
ZRR_DEVICE half2 min_number(half2 a, half2 b) { return __builtin_elementwise_minimumnum(a, b); }
ZRR_DEVICE half2 max_number(half2 a, half2 b) { return __builtin_elementwise_maximumnum(a, b); }

// Mixed-precision fma: f16 or f32 sources, result in one half of a register (no pack) or from one half (no shift).
// The scale is in a scalar register: how this instruction reads an inline float constant is not documented. Adding -0
// keeps the sign of zeros.

// f16(scale * low), f16(scale * high), rounded to nearest even; scale is a power of two.
ZRR_DEVICE half2 round_scaled(float low, float high, float scale) {
    uint32_t bits;
    asm("v_fma_mixlo_f16 %0, %1, %2, neg(0)" : "=v"(bits) : "v"(low), "s"(scale));
    asm("v_fma_mixhi_f16 %0, %1, %2, neg(0)" : "+v"(bits) : "v"(high), "s"(scale));
    return as_half2(bits);
}

ZRR_DEVICE half2 round_pair(float low, float high) { return round_scaled(low, high, 1.0f); }

template <int kHalf>
ZRR_DEVICE float scaled_half(half2 x, float scale) {
    float value;
    if constexpr (kHalf == 0)
        asm("v_fma_mix_f32 %0, %1, %2, neg(0) op_sel_hi:[1,0,0]" : "=v"(value) : "v"(as_bits(x)), "s"(scale));
    else
        asm("v_fma_mix_f32 %0, %1, %2, neg(0) op_sel:[1,0,0] op_sel_hi:[1,0,0]"
            : "=v"(value)
            : "v"(as_bits(x)), "s"(scale));
    return value;
}

ZRR_DEVICE float low_f32(half2 x) { return (float)x.x; }
ZRR_DEVICE float high_f32(half2 x) { return scaled_half<1>(x, 1.0f); }

// min(|x|, 1)
ZRR_DEVICE half2 magnitude_to_one(half2 x) {
    uint32_t bits;
    asm("v_pk_max_num_f16 %0, %1, %1 neg_lo:[0,1] neg_hi:[0,1] clamp" : "=v"(bits) : "v"(as_bits(x)));
    return as_half2(bits);
}

// min(max(0.5 + x, 0), 1), the sum rounded to f16
ZRR_DEVICE half2 half_plus_to_unit(half2 x) {
    uint32_t bits;
    asm("v_pk_add_f16 %0, %1, 0.5 op_sel_hi:[1,0] clamp" : "=v"(bits) : "v"(as_bits(x)));
    return as_half2(bits);
}

// Four f16 pairs: one accumulator tile of a lane, pair p = VGPRs 2p (low half) and 2p + 1.
struct Pairs {
    half2 pair[4];
};

ZRR_DEVICE Pairs round_tile(float8 acc) {
    return {round_pair(acc[0], acc[1]), round_pair(acc[2], acc[3]), round_pair(acc[4], acc[5]),
            round_pair(acc[6], acc[7])};
}

ZRR_DEVICE float8 widen(Pairs tile) {
    float8 acc;
    #pragma unroll
    for (int p = 0; p < 4; ++p) {
        acc[2 * p] = low_f32(tile.pair[p]);
        acc[2 * p + 1] = high_f32(tile.pair[p]);
    }
    return acc;
}

enum class Requantise {
    exact,       // cvt.rn.satfinite.e4m3x2.f16x2 for every input; a NaN keeps its sign
    propagate,   // the same, but every NaN gives 0xff: for values that only a WMMA reads
    in_range,    // |x| < 464, as proved by the caller: no clamp; a NaN gives 0xff
    saturating,  // like propagate, by MODE.FP16_OVFL, which the caller holds around the conversions
};

// MODE.FP16_OVFL: a conversion to FP8 (and any f16 result) that overflows gives the largest finite value. The mode
// orders nothing by itself: what must be converted under it is passed through hold() after it is set and before it is
// cleared, since volatile assembly keeps its order.
template <bool kOn>
ZRR_DEVICE void set_saturation() {
    asm volatile("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), %0" ::"n"(kOn ? 1 : 0));
}
ZRR_DEVICE void hold(uint32_t& word) { asm volatile("" : "+v"(word)); }

// Clamp of f16 pairs so that v_cvt_pk_fp8_f32 gives PTX's saturating result. The instruction encodes overflow
// and infinity as NaN with the sign, and any NaN as 0xff, so magnitudes are cut to 448 and, where the sign of a
// NaN matters, NaNs become infinities (integer minima: after the cut only NaNs lie beyond them).
template <Requantise kMode>
ZRR_DEVICE half2 clamp_e4m3(half2 x) {
    if constexpr (kMode == Requantise::in_range || kMode == Requantise::saturating) {
        return x;
    } else {
        x = __builtin_elementwise_maximum(x, splat(-448.0f));
        x = __builtin_elementwise_minimum(x, splat(448.0f));
        if constexpr (kMode == Requantise::exact) {
            typedef short short2v __attribute__((ext_vector_type(2)));
            typedef unsigned short ushort2v __attribute__((ext_vector_type(2)));
            auto bits = __builtin_elementwise_min(__builtin_bit_cast(ushort2v, x), (ushort2v)(0xfc00));
            auto sbits = __builtin_elementwise_min(__builtin_bit_cast(short2v, bits), (short2v)(0x7c00));
            x = __builtin_bit_cast(half2, sbits);
        }
        return x;
    }
}

// .relu variants: negatives and -0 become +0, a NaN stays.
ZRR_DEVICE half2 relu_keep_nan(half2 x) {
    return __builtin_elementwise_maximum(x, splat(0.0f));
}

// e4m3 bytes of four f32 that f16 can hold and that need not saturate.
ZRR_DEVICE uint32_t convert_e4m3(float a, float b, float c, float d) {
    uint32_t word;  // in assembly: the builtin would first clear the half that it does not write
    asm("v_cvt_pk_fp8_f32 %0, %1, %2" : "=v"(word) : "v"(a), "v"(b));
    asm("v_cvt_pk_fp8_f32 %0, %1, %2 op_sel:[0,0,1]" : "+v"(word) : "v"(c), "v"(d));
    return word;
}

// The same with every NaN as 0x7f: the conversion gives 0xff for any NaN, so it gets -x and its result the other sign.
// NaNs that arithmetic makes are positive on NVIDIA's side; what leaves a layer must show that.
ZRR_DEVICE uint32_t convert_e4m3_positive_nan(float a, float b, float c, float d) {
    uint32_t word;
    asm("v_cvt_pk_fp8_f32 %0, -%1, -%2" : "=v"(word) : "v"(a), "v"(b));
    asm("v_cvt_pk_fp8_f32 %0, -%1, -%2 op_sel:[0,0,1]" : "+v"(word) : "v"(c), "v"(d));
    return word ^ 0x80808080u;
}

// Four halves (low to high) to four e4m3 bytes.
template <Requantise kMode>
ZRR_DEVICE uint32_t requantise(half2 low, half2 high) {
    half2 a = clamp_e4m3<kMode>(low), b = clamp_e4m3<kMode>(high);
    return convert_e4m3(low_f32(a), high_f32(a), low_f32(b), high_f32(b));
}

// The layers' activation on f16 pairs: x * (0.5 + y * (0.412109375 - 0.0810546875 * |y|)), y = clamp(x, -2, 2).
ZRR_DEVICE half2 activation(half2 x) {
    half2 y = min_number(max_number(x, splat(-2.0f)), splat(2.0f));
    half2 slope = splat(0.412109375f) - splat(0.0810546875f) * __builtin_elementwise_abs(y);
    return x * (splat(0.5f) + y * slope);
}

}  // namespace zrr
