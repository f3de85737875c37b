// Packed, mixed and lane-exchange forms that the bodies use, one word of output per form.
#include "zrr_f16.h"

#define KERNEL extern "C" __attribute__((global)) void
using namespace zrr;

ZRR_DEVICE uint32_t thread() { return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x(); }

#define TWO(index, text) asm(text : "=v"(to[index]) : "v"(x), "v"(y))
#define THREE(index, text) asm(text : "=v"(to[index]) : "v"(x), "v"(y), "v"(z))

KERNEL packed(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out) {
  uint32_t i = thread(), x = a[i], y = b[i], z = c[i], to[12];
  TWO(0, "v_pk_add_f16 %0, %1, %2");
  TWO(1, "v_pk_mul_f16 %0, %1, %2");
  THREE(2, "v_pk_fma_f16 %0, %1, %2, %3");
  TWO(3, "v_pk_min_num_f16 %0, %1, %2");
  TWO(4, "v_pk_max_num_f16 %0, %1, %2");
  TWO(5, "v_pk_minimum_f16 %0, %1, %2");
  TWO(6, "v_pk_maximum_f16 %0, %1, %2");
  to[7] = as_bits(magnitude_to_one(as_half2(x)));
  to[8] = as_bits(half_plus_to_unit(as_half2(x)));
  TWO(9, "v_pk_min_u16 %0, %1, %2");
  TWO(10, "v_pk_min_i16 %0, %1, %2");
  TWO(11, "v_pk_add_f16 %0, %1, %2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1] neg_hi:[1,0]");
  #pragma unroll
  for (int k = 0; k < 12; ++k) out[12 * i + k] = to[k];
}

KERNEL mixed(const uint32_t* a, const float* b, const float* c, uint32_t* out) {
  uint32_t i = thread(), x = a[i], to[6];
  float y = b[i], z = c[i];
  THREE(0, "v_fma_mix_f32 %0, %1, %2, %3 op_sel_hi:[1,0,0]");
  THREE(1, "v_fma_mix_f32 %0, %1, %2, %3 op_sel:[1,0,0] op_sel_hi:[1,0,0]");
  THREE(2, "v_fma_mix_f32 %0, -%1, %2, %3 op_sel_hi:[1,0,0]");
  to[3] = as_bits(round_scaled(y, z, 0.25f));
  asm("v_fma_mixlo_f16 %0, %1, %2, %3\n v_fma_mixhi_f16 %0, %2, %3, %2" : "=&v"(to[4]) : "v"(y), "v"(z), "v"(y));
  to[5] = __builtin_bit_cast(uint32_t, scaled_half<1>(as_half2(x), 0.5f));
  #pragma unroll
  for (int k = 0; k < 6; ++k) out[6 * i + k] = to[k];
}

#define DPP(control) __builtin_amdgcn_update_dpp(0, x, control, 15, 15, true)

KERNEL lanes(const uint32_t* a, uint32_t* out) {
  uint32_t i = thread(), lane = lane_id(), x = a[i], to[12];
  to[0] = DPP(0x161);  // row_xmask:1
  to[1] = DPP(0x162);
  to[2] = DPP(0x164);
  to[3] = DPP(0x168);
  to[4] = DPP(0x155);  // row_share:5
  to[5] = DPP(0x1b);   // quad_perm:[3,2,1,0]
  to[6] = DPP(0x140);  // row_mirror
  to[7] = DPP(0x111);  // row_shr:1
  to[8] = __builtin_amdgcn_mov_dpp8(x, 0x123456);
  to[9] = other_half(x);
  to[10] = __builtin_amdgcn_ds_bpermute(4 * ((7 * lane + 3) & 31), x);
  to[11] = __builtin_amdgcn_ballot_w32(x & 1);
  #pragma unroll
  for (int k = 0; k < 12; ++k) out[12 * i + k] = to[k];
}
