// Helpers of rules/fragment-consumer.rule: products on values kept in WMMA order, and the exchange into and out of it.
//
// A pair of 32-bit values (v0, v1) of NVIDIA's fragments is in WMMA order when value x (0 or 1) of lane b4 b3 b2 b1 b0
// (bits of the lane number) is what NVIDIA's layout has in v[b1] of lane b3 b2 b0 b4 x: t bit 0 changes places with the
// pair index, t bit 1 is the half-wave, g is lane bits 3, 2 and 0. Pairs are the two row halves of an accumulator or of an
// A fragment's word, and the two n-tiles (columns g and 8 + g) of a B fragment's word. In this order a word is an operand
// dword of v_wmma_f32_16x16x16_fp8_fp8 (row or column r holds pair index r bit 1), and an accumulator pair is two of its VGPRs.
//
// Every function is pure: calls with equal arguments merge after inlining, which is how one product returns four words.
#include "zrr_wmma.h"

namespace zrr {

typedef uint32_t word;

// One k32 step. rows, columns: {WMMA 0 dword 0, 1, WMMA 1 dword 0, 1}; pair q = VGPRs 2q, 2q + 1, rounded to f16.
template <int kPair>
ZRR_DEVICE uint32_t product(kop r0, kop r1, kop c0, kop c1, float8 seed) {
    const float8 sum = k32_e4m3(seed, r0, c0, r1, c1);
    return as_bits(round_pair(sum[2 * kPair], sum[2 * kPair + 1]));
}

ZRR_DEVICE float8 seeds(word s0, word s1, word s2, word s3) {
    return widen({as_half2(s0), as_half2(s1), as_half2(s2), as_half2(s3)});
}

// Lane with the bits of l as a base-2 numeral: NVIDIA's lane that holds value x of lane l in WMMA order, and back.
ZRR_DEVICE uint32_t nvidia_lane(uint32_t l, uint32_t x) {
    return (l & 8) << 1 | (l & 4) << 1 | (l & 1) << 2 | (l & 16) >> 3 | x;
}
ZRR_DEVICE uint32_t wmma_lane(uint32_t l, uint32_t pair) {
    return (l & 2) << 3 | (l & 16) >> 1 | (l & 8) >> 1 | pair << 1 | (l & 4) >> 2;
}

ZRR_DEVICE uint32_t gather(uint32_t source, uint32_t value) {
    return __builtin_amdgcn_ds_bpermute(source << 2, value);
}

// Two gathers exchange a pair: in step s a lane reads the value of index s ^ (its own pair bit), and so finds the value it
// wants offered by a lane that chose by its own bit.
ZRR_DEVICE uint32_t to_wmma(uint32_t v0, uint32_t v1, uint32_t x) {
    const uint32_t l = lane_id();
    const bool odd = l & 1, second = l & 2;
    const uint32_t step0 = gather(nvidia_lane(l, second), odd ? v1 : v0);
    const uint32_t step1 = gather(nvidia_lane(l, !second), odd ? v0 : v1);
    return x ? (second ? step0 : step1) : (second ? step1 : step0);
}
ZRR_DEVICE uint32_t to_nvidia(uint32_t x0, uint32_t x1, uint32_t pair) {
    const uint32_t l = lane_id();
    const bool second = l & 2, odd = l & 1;
    const uint32_t step0 = gather(wmma_lane(l, odd), second ? x1 : x0);
    const uint32_t step1 = gather(wmma_lane(l, !odd), second ? x0 : x1);
    return pair ? (odd ? step0 : step1) : (odd ? step1 : step0);
}

}  // namespace zrr

using zrr::kop;
using zrr::word;

// D pair of two m16n8k32 that share A. r: B words of both n-tiles {word 0: first, second; word 1}, c: A words,
// s: C {row half 0: first, second n-tile; row half 1}. The result is numbered like s.
ZRR_BODY uint32_t zrr_fc_product0(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3, word s0,
                                  word s1, word s2, word s3) {
    return zrr::product<0>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::seeds(s0, s1, s2, s3));
}
ZRR_BODY uint32_t zrr_fc_product1(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3, word s0,
                                  word s1, word s2, word s3) {
    return zrr::product<1>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::seeds(s0, s1, s2, s3));
}
ZRR_BODY uint32_t zrr_fc_product2(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3, word s0,
                                  word s1, word s2, word s3) {
    return zrr::product<2>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::seeds(s0, s1, s2, s3));
}
ZRR_BODY uint32_t zrr_fc_product3(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3, word s0,
                                  word s1, word s2, word s3) {
    return zrr::product<3>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::seeds(s0, s1, s2, s3));
}

// The same with C = 0. With A and B exchanged it is the transposed product: movmatrix of D, numbered {row half 0: first
// n-tile; row half 1; second n-tile: row half 0; 1}.
ZRR_BODY uint32_t zrr_fc_product_zero0(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3) {
    return zrr::product<0>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::float8{});
}
ZRR_BODY uint32_t zrr_fc_product_zero1(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3) {
    return zrr::product<1>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::float8{});
}
ZRR_BODY uint32_t zrr_fc_product_zero2(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3) {
    return zrr::product<2>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::float8{});
}
ZRR_BODY uint32_t zrr_fc_product_zero3(word r0, word r1, word r2, word r3, word c0, word c1, word c2, word c3) {
    return zrr::product<3>({{r0, r1}}, {{r2, r3}}, {{c0, c1}}, {{c2, c3}}, zrr::float8{});
}

// Into WMMA order and out of it.
ZRR_BODY uint32_t zrr_fc_lift0(word v0, word v1) { return zrr::to_wmma(v0, v1, 0); }
ZRR_BODY uint32_t zrr_fc_lift1(word v0, word v1) { return zrr::to_wmma(v0, v1, 1); }
ZRR_BODY uint32_t zrr_fc_lower0(word x0, word x1) { return zrr::to_nvidia(x0, x1, 0); }
ZRR_BODY uint32_t zrr_fc_lower1(word x0, word x1) { return zrr::to_nvidia(x0, x1, 1); }

// Value of the other half-wave: NVIDIA's butterfly over t bit 1.
ZRR_BODY uint32_t zrr_fc_half(word value) { return zrr::other_half(value); }

// Two cvt.rn.satfinite{.relu}.e4m3x2.f16x2 and the pack of their results. As in ptx_runtime.hip every NaN becomes 0x7f, by
// way of +infinity.
namespace zrr {
ZRR_DEVICE uint32_t pack_clamped(half2 low, half2 high) {
    const half2 infinity = splat(__builtin_inff());
    low = __builtin_elementwise_minnum(low, infinity);
    high = __builtin_elementwise_minnum(high, infinity);
    return convert_e4m3(low_f32(low), high_f32(low), low_f32(high), high_f32(high));
}
ZRR_DEVICE half2 clamp_from(half2 x, float lowest) {
    return __builtin_elementwise_minimum(__builtin_elementwise_maximum(x, splat(lowest)), splat(448.0f));
}
}  // namespace zrr

ZRR_BODY uint32_t zrr_fc_pack(word low, word high) {
    return zrr::pack_clamped(zrr::clamp_from(zrr::as_half2(low), -448.0f), zrr::clamp_from(zrr::as_half2(high), -448.0f));
}
ZRR_BODY uint32_t zrr_fc_pack_relu(word low, word high) {
    return zrr::pack_clamped(zrr::clamp_from(zrr::as_half2(low), 0.0f), zrr::clamp_from(zrr::as_half2(high), 0.0f));
}
