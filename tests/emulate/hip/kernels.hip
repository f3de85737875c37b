// Kernels of the tests of the emulated HIP, compiled for gfx1201 as the project's own are.
#define KERNEL extern "C" __attribute__((global))
typedef unsigned int u32;
typedef unsigned char u8;
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x8 __attribute__((ext_vector_type(8)));
#define CONSTANT __attribute__((address_space(4)))
#define SHARED __attribute__((shared))

// What HIP's handles point at: an image descriptor, four dwords for software, a sampler.
struct Object {
  i32x8 image;
  i32x4 software, sampler;
};
typedef const CONSTANT Object *Handle;

#define INTRINSIC(name) __asm("llvm.amdgcn.image." name)
extern "C" __attribute__((device)) f32x4 image_load(int mask, int x, int y, i32x8 image, int, int)
    INTRINSIC("load.2d.v4f32.i32.v8i32");
extern "C" __attribute__((device)) void image_store(f32x4 texel, int mask, int x, int y, i32x8 image, int, int)
    INTRINSIC("store.2d.v4f32.i32.v8i32");
extern "C" __attribute__((device)) f32x4 image_sample(int mask, float x, float y, i32x8 image, i32x4 sampler, bool, int,
                                                      int) INTRINSIC("sample.lz.2d.v4f32.f32.v8i32.v4i32");

static __attribute__((device)) u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
static __attribute__((device)) u32 global_id() {
  return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + thread();
}

KERNEL void vector_add(const float *a, const float *b, float *c, u32 count) {
  u32 i = global_id();
  if (i < count) c[i] = a[i] + b[i];
}

// One sum a block of 256: eight waves, a tree in LDS with a barrier after each step.
KERNEL void block_sums(const u32 *values, u32 *sums) {
  SHARED static u32 part[256];
  u32 t = thread();
  part[t] = values[global_id()];
  for (u32 step = 128; step; step /= 2) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    if (t < step) part[t] += part[t + step];
  }
  if (!t) sums[__builtin_amdgcn_workgroup_id_x()] = part[0];
}

KERNEL void histogram(const u8 *values, u32 *bins, u32 count) {
  u32 i = global_id();
  if (i < count) __atomic_fetch_add(&bins[values[i]], 1u, __ATOMIC_RELAXED);
}

__attribute__((device)) u32 launches = 40;
__attribute__((device)) u32 *last_place;
__attribute__((constant, device)) u32 table[4] = {3, 1, 4, 1};
__attribute__((device)) const u32 *pointer_to_table[1] = {table};

KERNEL void count_launches(u32 *out) {
  if (!thread()) {
    launches += 1;
    last_place = out;
    out[0] = launches;
    out[1] = pointer_to_table[0][2];
  }
}

// Dynamic LDS: the block's values backwards.
extern SHARED u32 dynamic[];
KERNEL void reversed(u32 *values, u32 *sizes) {
  u32 t = thread(), n = __builtin_amdgcn_workgroup_size_x();
  dynamic[t] = values[global_id()];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  values[global_id()] = dynamic[n - 1 - t];
  if (!global_id()) sizes[0] = __builtin_amdgcn_grid_size_x();
}

// A texel a thread, sampled at (x, y) of a list; 4 x f32 out.
KERNEL void sample(Handle texture, const float *places, f32x4 *out, u32 count) {
  u32 i = global_id();
  if (i < count)
    out[i] = image_sample(15, places[2 * i], places[2 * i + 1], texture->image, texture->sampler, false, 0, 0);
}

// Surface to surface: each texel with one added to every channel.
KERNEL void bump(Handle from, Handle to, u32 width, u32 height) {
  u32 i = global_id(), x = i % width, y = i / width;
  if (y >= height) return;
  f32x4 texel = image_load(15, x, y, from->image, 0, 0);
  image_store(texel + 1.0f, 15, x, y, to->image, 0, 0);
}

KERNEL void fill(u32 *out, u32 value, u32 count) {
  u32 i = global_id();
  if (i < count) out[i] = value + i;
}

// out = a * factor + b, wrapping: for checks of order.
KERNEL void scale_add(u32 *out, const u32 *a, const u32 *b, u32 factor, u32 count) {
  u32 i = global_id();
  if (i < count) out[i] = a[i] * factor + b[i];
}

KERNEL void endless(u32 *out) {
  while (__atomic_load_n(out, __ATOMIC_RELAXED) == 0) {}
}

struct Mixed {
  u8 small;
  double wide;
  unsigned short odd[3];
};
KERNEL void mixed_arguments(u8 a, double b, unsigned short c, Mixed d, u32 *out) {
  out[0] = a, out[1] = (u32)b, out[2] = c, out[3] = d.small, out[4] = (u32)d.wide, out[5] = d.odd[2];
}
