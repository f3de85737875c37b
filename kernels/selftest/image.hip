// Image loads through a handle as HIP's texture and surface objects give it: descriptor, software words, sampler.
#include "zrr_base.h"

typedef float float4v __attribute__((ext_vector_type(4)));
typedef int int8v __attribute__((ext_vector_type(8)));
struct Object {
  int8v image;
};
typedef const __attribute__((address_space(4))) Object* Handle;

extern "C" __attribute__((device)) float4v image_load(int mask, int x, int y, int8v image, int, int)
    __asm("llvm.amdgcn.image.load.2d.v4f32.i32.v8i32");

extern "C" __attribute__((global)) void load(Handle surface, const int* places, float4v* out, uint32_t count) {
  uint32_t i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < count) out[i] = image_load(15, places[2 * i], places[2 * i + 1], surface->image, 0, 0);
}
