// NVIDIA side of the portability layer, in place of ../zrr_f16.h. Compiled with -ffp-contract=off, so that add, sub and
// mul carry an explicit rounding (.rn) and are never fused.
#pragma once

#include "zrr_base.h"

namespace zrr {

typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef float float8 __attribute__((ext_vector_type(8)));

ZRR_DEVICE half2 as_half2(uint32_t bits) { return __builtin_bit_cast(half2, bits); }
ZRR_DEVICE uint32_t as_bits(half2 value) { return __builtin_bit_cast(uint32_t, value); }
ZRR_DEVICE half2 splat(float value) { return half2{(_Float16)value, (_Float16)value}; }
ZRR_DEVICE half2 swap_halves(half2 value) { return half2{value.y, value.x}; }

#define ZRR_PAIR_OPERATION(name, instruction)                                                             \
    ZRR_DEVICE half2 name(half2 a, half2 b) {                                                             \
        uint32_t bits;                                                                                    \
        asm(instruction " %0, %1, %2;" : "=r"(bits) : "r"(as_bits(a)), "r"(as_bits(b)));                  \
        return as_half2(bits);                                                                            \
    }
ZRR_PAIR_OPERATION(min_number, "min.f16x2")  // of a NaN and a number, the number
ZRR_PAIR_OPERATION(max_number, "max.f16x2")
ZRR_PAIR_OPERATION(max_keep_nan, "max.NaN.f16x2")
#undef ZRR_PAIR_OPERATION

// scale is a power of two
ZRR_DEVICE half2 round_scaled(float low, float high, float scale) {
    return half2{(_Float16)(low * scale), (_Float16)(high * scale)};
}
ZRR_DEVICE half2 round_pair(float low, float high) { return half2{(_Float16)low, (_Float16)high}; }
template <int kHalf>
ZRR_DEVICE float scaled_half(half2 x, float scale) {
    return (float)(kHalf == 0 ? x.x : x.y) * scale;
}
ZRR_DEVICE float low_f32(half2 x) { return (float)x.x; }
ZRR_DEVICE float high_f32(half2 x) { return (float)x.y; }

// min(|x|, 1)
ZRR_DEVICE half2 magnitude_to_one(half2 x) { return min_number(__builtin_elementwise_abs(x), splat(1.0f)); }

// min(max(0.5 + x, 0), 1), the sum rounded to f16
ZRR_DEVICE half2 half_plus_to_unit(half2 x) {
    return min_number(max_number(splat(0.5f) + x, splat(0.0f)), splat(1.0f));
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

// One instruction does all four: it saturates, and a NaN keeps its sign.
enum class Requantise { exact, propagate, in_range, saturating };

template <bool kOn>
ZRR_DEVICE void set_saturation() {}
ZRR_DEVICE void hold(uint32_t&) {}

ZRR_DEVICE half2 relu_keep_nan(half2 x) { return max_keep_nan(x, splat(0.0f)); }

// Four halves (low to high) to four e4m3 bytes.
template <Requantise kMode>
ZRR_DEVICE uint32_t requantise(half2 low, half2 high) {
    uint16_t first, second;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(first) : "r"(as_bits(low)));
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(second) : "r"(as_bits(high)));
    return first | (uint32_t)second << 16;
}

// e4m3 bytes of four f32 that f16 can hold.
ZRR_DEVICE uint32_t convert_e4m3(float a, float b, float c, float d) {
    return requantise<Requantise::exact>(round_pair(a, b), round_pair(c, d));
}
// NaNs that arithmetic makes are positive here.
ZRR_DEVICE uint32_t convert_e4m3_positive_nan(float a, float b, float c, float d) { return convert_e4m3(a, b, c, d); }

// The layers' activation on f16 pairs: x * (0.5 + y * (0.412109375 - 0.0810546875 * |y|)), y = clamp(x, -2, 2).
ZRR_DEVICE half2 activation(half2 x) {
    half2 y = min_number(max_number(x, splat(-2.0f)), splat(2.0f));
    half2 slope = splat(0.412109375f) - splat(0.0810546875f) * __builtin_elementwise_abs(y);
    return x * (splat(0.5f) + y * slope);
}

}  // namespace zrr
