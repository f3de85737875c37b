// Device code that makes the compiler use many instruction formats; decoded, never run.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
typedef int v2i __attribute__((ext_vector_type(2)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef _Float16 half;
typedef half h2 __attribute__((ext_vector_type(2)));

__device__ inline int lane() { return __builtin_amdgcn_workitem_id_x(); }

extern "C" __global__ void matrix(const v2i* a, const v2i* b, float* d, int n) {
  __shared__ float tile[256];
  const int t = lane();
  const int block = __builtin_amdgcn_workgroup_id_x() + 7 * __builtin_amdgcn_workgroup_id_y();
  v8f acc = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < n; i++)
    acc = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a[t + i * 32], b[t + i * 32 + block], acc);
  for (int i = 0; i < 8; i++) tile[i * 32 + t] = acc[i];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  for (int i = 0; i < 8; i++) d[block * 256 + t * 8 + i] = tile[t * 8 + i] * (float)(half)acc[i];
}

extern "C" __global__ void scalars(half* x, double* y, unsigned long long* z, short* s, unsigned char* c, int n) {
  const int t = lane();
  half a = x[t], b = x[t + 1];
  for (int i = 0; i < n; ++i) {
    a = a * b + (half)0.3f;
    if (a > b) {
      b = __builtin_elementwise_max(a, (half)i);
    } else {
      a = -b;
      s[i] += 3;
    }
  }
  x[t] = a;
  y[t] = y[t + 1] / y[t + 2] + __builtin_sqrt(y[t + 5]);
  z[t] = z[t + 1] / (z[t + 2] | 1) + (z[t + 3] >> (t & 63));
  c[t] = c[t + 1] ^ c[t + 5];
  s[t] = (short)(s[t + 1] * s[t + 2] + s[t + 3]);
  __atomic_fetch_add((unsigned*)z, 3u, __ATOMIC_RELAXED);
  ((float*)y)[t * 9] = __builtin_sinf((float)t) / (float)c[t];
  h2* p = (h2*)x;
  h2 q = p[t + 9];
  p[t] = q * p[t + 10] + p[t + 11];
}

__device__ __attribute__((noinline)) int callee(int* p, int n) {
  int big[64];
  for (int i = 0; i < 64; i++) big[i] = p[i];
  for (int i = 0; i < n; i++) big[(i * 7) & 63] += big[i & 63];
  return big[n & 63];
}

extern "C" __global__ void lanes(int* p, unsigned* q, float* f, int n) {
  p[lane()] = callee(p, n);
  switch (n) {
    case 0: p[0] = __builtin_amdgcn_readlane(p[1], n); break;
    case 1: p[1] = __builtin_amdgcn_mov_dpp8(p[3], 0x1234); break;
    case 2: p[2] = __builtin_amdgcn_readfirstlane(p[5]); break;
    case 3: p[9] = __builtin_amdgcn_ds_bpermute(p[3], p[4]); break;
    case 4: p[4] = __builtin_amdgcn_permlanex16(p[1], p[2], 0x76543210, 0xfedcba98, 0, 0); break;
    case 5: p[9] = __builtin_amdgcn_update_dpp(p[1], p[2], 0x111, 0xf, 0xf, 0); break;
    case 6: p[0] = __builtin_amdgcn_ds_swizzle(p[1], 0x1f); break;
    case 7: q[0] = __builtin_amdgcn_cvt_pk_fp8_f32(f[0], f[1], q[2], 1); break;
    case 8: f[0] = __builtin_amdgcn_cvt_f32_fp8(q[1], 3); break;
    case 9: f[1] = __builtin_amdgcn_fmed3f(f[2], f[3], 448.0f); break;
  }
}
