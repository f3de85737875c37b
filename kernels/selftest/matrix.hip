// One FP8 WMMA per wave, on operands as memory has them: word pairs and accumulators by wave, then lane.
#include "zrr_wmma.h"

extern "C" __attribute__((global)) void wmma(const zrr::kop* a, const zrr::kop* b, const zrr::float8* c, zrr::float8* d) {
  uint32_t i = __builtin_amdgcn_workgroup_id_x() * 32 + __builtin_amdgcn_workitem_id_x();
  d[i] = zrr::wmma(c[i], a[i], b[i]);
}
