// Transcendental instructions, and arithmetic under the denormal bits of MODE.
#include "zrr_f16.h"

#define KERNEL extern "C" __attribute__((global)) void
using namespace zrr;

ZRR_DEVICE uint32_t thread() { return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x(); }

KERNEL functions(const float* x, float* rcp, float* rsq, float* exp2) {
  uint32_t i = thread();
  rcp[i] = __builtin_amdgcn_rcpf(x[i]);
  rsq[i] = __builtin_amdgcn_rsqf(x[i]);
  exp2[i] = __builtin_amdgcn_exp2f(x[i]);
}

#define STEP(text, result, first, second) asm volatile(text : "=v"(result) : "v"(first), "v"(second))

// `mode` goes to bits 4 to 7 of MODE: f32 inputs, f32 outputs, f16 inputs, f16 outputs keep denormals. x and y are f32,
// p and q pairs of halves. Seven words a thread.
KERNEL denormals(uint32_t mode, const float* x, const float* y, const uint32_t* p, const uint32_t* q, uint32_t* out) {
  uint32_t i = thread(), a = p[i], b = q[i], r[7];
  float f = x[i], g = y[i];
  asm volatile("" : "+v"(a), "+v"(b), "+v"(f), "+v"(g));
  asm volatile("s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), %0" ::"s"(mode));
  STEP("v_mul_f32 %0, %1, %2", r[0], f, g);
  STEP("v_add_f32 %0, %1, %2", r[1], f, g);
  STEP("v_fma_f32 %0, %1, %2, neg(0)", r[2], f, g);
  STEP("v_pk_mul_f16 %0, %1, %2", r[3], a, b);
  STEP("v_pk_add_f16 %0, %1, %2", r[4], a, b);
  STEP("v_fma_mix_f32 %0, %1, %2, neg(0) op_sel_hi:[1,0,0]", r[5], a, g);
  asm volatile("v_fma_mixlo_f16 %0, %1, %2, neg(0)\n v_fma_mixhi_f16 %0, %2, %1, neg(0)" : "=&v"(r[6]) : "v"(f), "v"(g));
  asm volatile("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15");
  #pragma unroll
  for (int k = 0; k < 7; ++k) {
    asm volatile("" : "+v"(r[k]));
    out[7 * i + k] = r[k];
  }
}
