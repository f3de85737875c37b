// Conversions as translated PTX makes them.
#include "ptx_runtime.hip"

#define KERNEL extern "C" __attribute__((global)) void

KERNEL translated(const u16 *x, u16 *plain, u16 *swapped, u16 *relu, u32 *decoded) {
  u32 i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  u32 low = x[i], high = x[65535 - i];
  plain[i] = zrt_cvt_e4m3x2_f16x2(low | high << 16);
  swapped[i] = zrt_cvt_e4m3x2_f16x2(high | low << 16);
  relu[i] = zrt_cvt_relu_e4m3x2_f16x2(low | high << 16);
  decoded[i] = zrt_cvt_f16x2_e4m3x2(low);
}
