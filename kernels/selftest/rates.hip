// Micro-benchmarks: `loops` times 32 instructions of one kind. Independent ones rotate over eight registers; a chain
// depends on the one before. Nothing depends on memory, and what comes out is of no interest.
#include "zrr_wmma.h"

#define KERNEL(name) extern "C" __attribute__((global)) void name(uint32_t loops, uint32_t* out)
using namespace zrr;

#define FOUR(x) x x x x
#define EIGHT(f) f("%0") f("%1") f("%2") f("%3") f("%4") f("%5") f("%6") f("%7")
#define REGISTERS "+v"(r[0]), "+v"(r[1]), "+v"(r[2]), "+v"(r[3]), "+v"(r[4]), "+v"(r[5]), "+v"(r[6]), "+v"(r[7])

ZRR_DEVICE void begin(float* r, float& x, float& y) {
  for (int k = 0; k < 8; ++k) r[k] = 1.0f + 0.125f * k;
  x = 1.0f + __builtin_amdgcn_workitem_id_x() * 1e-6f;
  y = 1e-7f;
  asm volatile("" : "+v"(x), "+v"(y));
}
ZRR_DEVICE void end(const float* r, uint32_t* out) {
  float total = 0;
  for (int k = 0; k < 8; ++k) total += r[k];
  if (total == 12345.0f) out[0] = 1;  // never, and the compiler cannot know
}

#define RATE(name, instruction)                                                                           \
  KERNEL(name) {                                                                                          \
    float r[8], x, y;                                                                                     \
    begin(r, x, y);                                                                                       \
    for (uint32_t i = 0; i < loops; ++i) asm volatile(FOUR(EIGHT(instruction)) : REGISTERS : "v"(x), "v"(y)); \
    end(r, out);                                                                                          \
  }

#define FMA(r) "v_fma_f32 " r ", " r ", %8, %9\n"
#define FMA_MIX(r) "v_fma_mix_f32 " r ", " r ", %8, %9\n"
#define FMA_MIXLO(r) "v_fma_mixlo_f16 " r ", %8, %8, %9\n"
#define PK_FMA(r) "v_pk_fma_f16 " r ", " r ", %8, %9\n"
#define CVT_FP8(r) "v_cvt_pk_fp8_f32 " r ", %8, %9\n"
#define CVT_F16(r) "v_cvt_f32_f16 " r ", %8\n"
#define RCP(r) "v_rcp_f32 " r ", %8\n"
#define EXP(r) "v_exp_f32 " r ", %8\n"
RATE(fma_f32, FMA)
RATE(fma_mix_f32, FMA_MIX)
RATE(fma_mixlo_f16, FMA_MIXLO)
RATE(pk_fma_f16, PK_FMA)
RATE(cvt_pk_fp8_f32, CVT_FP8)
RATE(cvt_f32_f16, CVT_F16)
RATE(rcp_f32, RCP)
RATE(exp_f32, EXP)

// 32 instructions, each of which needs the one before; with the hint that names that.
#define CHAIN FMA("%0")
#define HINTED "s_delay_alu instid0(VALU_DEP_1)\n" FMA("%0")
#define DEPENDENT(name, step)                                                                                  \
  KERNEL(name) {                                                                                               \
    float r[8], x, y;                                                                                          \
    begin(r, x, y);                                                                                            \
    for (uint32_t i = 0; i < loops; ++i) asm volatile(FOUR(FOUR(step step)) : REGISTERS : "v"(x), "v"(y));     \
    end(r, out);                                                                                               \
  }
DEPENDENT(chain, CHAIN)
DEPENDENT(chain_hinted, HINTED)

// VOPD pairs two instructions whose registers lie in different banks, so these are named.
#define PAIR(a, b) "v_dual_fmac_f32 v" #a ", v32, v33 :: v_dual_fmac_f32 v" #b ", v34, v35\n"
KERNEL(dual_fmac_f32) {
  float r[8], x, y;
  begin(r, x, y);
  asm volatile("v_mov_b32 v32, %0\n v_mov_b32 v33, %1\n v_mov_b32 v34, %0\n v_mov_b32 v35, %1\n"
               "v_mov_b32 v36, 0\n v_mov_b32 v37, 0\n v_mov_b32 v38, 0\n v_mov_b32 v39, 0\n"
               "v_mov_b32 v40, 0\n v_mov_b32 v41, 0\n v_mov_b32 v42, 0\n v_mov_b32 v43, 0"
               ::"v"(x), "v"(y) : "v32", "v33", "v34", "v35", "v36", "v37", "v38", "v39", "v40", "v41", "v42", "v43");
  for (uint32_t i = 0; i < loops; ++i)
    asm volatile(FOUR(FOUR(PAIR(36, 37) PAIR(38, 39)))
                 ::: "v32", "v33", "v34", "v35", "v36", "v37", "v38", "v39", "v40", "v41", "v42", "v43");
  end(r, out);
}

#define MATRIX(n) "v_wmma_f32_16x16x16_fp8_fp8 %" #n ", %4, %5, %" #n "\n"
#define ALL_MATRICES MATRIX(0) MATRIX(1) MATRIX(2) MATRIX(3)
typedef int int2v __attribute__((ext_vector_type(2)));
ZRR_DEVICE void end8(const float8* c, uint32_t* out) { float r[8]; for (int k = 0; k < 8; ++k) r[k] = c[k & 3][k]; end(r, out); }

KERNEL(wmma_fp8) {
  float8 c[4] = {};
  int2v a = {0x38383838, 0x38383838}, b = {0, (int)(__builtin_amdgcn_workitem_id_x() >> 10)};
  for (uint32_t i = 0; i < loops; ++i)
    asm volatile(FOUR(ALL_MATRICES ALL_MATRICES) : "+v"(c[0]), "+v"(c[1]), "+v"(c[2]), "+v"(c[3]) : "v"(a), "v"(b));
  end8(c, out);
}

// Each matrix instruction with eight independent vector ones behind it: do they run together?
#define EIGHT_FMA \
  "v_fma_f32 %6, %6, %8, %8\n v_fma_f32 %7, %7, %8, %8\n v_fma_f32 %6, %8, %8, %8\n v_fma_f32 %7, %8, %8, %8\n" \
  "v_fma_f32 %6, %8, %8, %8\n v_fma_f32 %7, %8, %8, %8\n v_fma_f32 %6, %8, %8, %8\n v_fma_f32 %7, %8, %8, %8\n"
KERNEL(wmma_and_fma) {
  float8 c[4] = {};
  float r[8], x, y;
  begin(r, x, y);
  int2v a = {0x38383838, 0x38383838}, b = {0, (int)(__builtin_amdgcn_workitem_id_x() >> 10)};
#define BOTH(n) "v_wmma_f32_16x16x16_fp8_fp8 %" #n ", %9, %10, %" #n "\n" EIGHT_FMA
  for (uint32_t i = 0; i < loops; ++i)
    asm volatile(FOUR(BOTH(0) BOTH(1) BOTH(2) BOTH(3) BOTH(0) BOTH(1) BOTH(2) BOTH(3))
                 : "+v"(c[0]), "+v"(c[1]), "+v"(c[2]), "+v"(c[3]), "+v"(r[0]), "+v"(r[1]), "+v"(r[2]), "+v"(r[3])
                 : "v"(x), "v"(a), "v"(b));
  end8(c, out);
  end(r, out);
}

KERNEL(ds_load_b128) {
  __attribute__((shared)) static uint32x4 rows[256];
  uint32_t t = __builtin_amdgcn_workitem_id_x() & 255;
  rows[t] = uint32x4{t, t, t, t};
  uint32_t place = (uint32_t)(ZRR_LDS uint32x4*)&rows[t];
  uint32x4 r[4];
#define LOADS "ds_load_b128 %0, %4\n ds_load_b128 %1, %4\n ds_load_b128 %2, %4\n ds_load_b128 %3, %4\n"
  r[0] = r[1] = r[2] = r[3] = uint32x4{};
  for (uint32_t i = 0; i < loops; ++i)
    asm volatile(FOUR(LOADS LOADS) "s_wait_dscnt 0x0\n"
                 : "=&v"(r[0]), "=&v"(r[1]), "=&v"(r[2]), "=&v"(r[3]) : "v"(place) : "memory");
  if (r[0].x + r[1].x + r[2].x + r[3].x == 0x12345678u) out[0] = 1;
}
