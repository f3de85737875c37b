// FP8 conversions as the bodies use them. Every value stands in all four bytes of a word once: (x, y, y, x).
#include "zrr_f16.h"

#define KERNEL extern "C" __attribute__((global)) void
using namespace zrr;

ZRR_DEVICE uint32_t thread() { return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x(); }
ZRR_DEVICE half2 pair(const uint16_t* x, uint32_t i, uint32_t j) { return as_half2(x[i] | (uint32_t)x[j] << 16); }

KERNEL encode(const float* x, const float* y, uint32_t* codes) {
  uint32_t i = thread();
  codes[i] = convert_e4m3(x[i], y[i], y[i], x[i]);
}

// The same under MODE.FP16_OVFL, which is cleared again: the second word is converted after it.
KERNEL encode_saturating(const float* x, const float* y, uint32_t* codes, uint32_t* after) {
  uint32_t i = thread(), a = __builtin_bit_cast(uint32_t, x[i]), b = __builtin_bit_cast(uint32_t, y[i]);
  set_saturation<true>();
  hold(a);
  hold(b);
  float p = __builtin_bit_cast(float, a), q = __builtin_bit_cast(float, b);
  uint32_t word = convert_e4m3(p, q, q, p);
  hold(word);
  hold(a);
  hold(b);
  set_saturation<false>();
  hold(a);
  hold(b);
  p = __builtin_bit_cast(float, a), q = __builtin_bit_cast(float, b);
  codes[i] = word;
  after[i] = convert_e4m3(p, q, q, p);
}

KERNEL encode_positive_nan(const float* x, const float* y, uint32_t* codes) {
  uint32_t i = thread();
  codes[i] = convert_e4m3_positive_nan(x[i], y[i], y[i], x[i]);
}

// Halves through requantise: exact and propagate, and the first behind relu.
KERNEL requantise_halves(const uint16_t* x, uint32_t* exact, uint32_t* propagate, uint32_t* relu) {
  uint32_t i = thread();
  half2 low = pair(x, i, 65535 - i), high = swap_halves(low);
  exact[i] = requantise<Requantise::exact>(low, high);
  propagate[i] = requantise<Requantise::propagate>(low, high);
  relu[i] = requantise<Requantise::exact>(relu_keep_nan(low), relu_keep_nan(high));
}

// Every byte of a word by byte_sel, then both halves by the packed form.
KERNEL decode(const uint32_t* words, float* out) {
  uint32_t i = thread(), x = words[i];
  typedef float float2v __attribute__((ext_vector_type(2)));
  float2v low = __builtin_amdgcn_cvt_pk_f32_fp8(x, false), high = __builtin_amdgcn_cvt_pk_f32_fp8(x, true);
  float* to = out + 8 * i;
  to[0] = __builtin_amdgcn_cvt_f32_fp8(x, 0);
  to[1] = __builtin_amdgcn_cvt_f32_fp8(x, 1);
  to[2] = __builtin_amdgcn_cvt_f32_fp8(x, 2);
  to[3] = __builtin_amdgcn_cvt_f32_fp8(x, 3);
  to[4] = low.x;
  to[5] = low.y;
  to[6] = high.x;
  to[7] = high.y;
}
