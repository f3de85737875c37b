// A HIP program as hipcc compiles it: <<<>>>, a device variable, its own registration.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
extern "C" int printf(const char *, ...);
typedef unsigned long size_t;
struct dim3 { unsigned x, y, z; __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
typedef struct ihipStream *hipStream_t;
extern "C" {
int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
int __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = nullptr);
int __hipPopCallConfiguration(dim3 *, dim3 *, size_t *, hipStream_t *);
int hipMalloc(void **, size_t); int hipFree(void *); int hipMemcpy(void *, const void *, size_t, int);
int hipMemcpyToSymbol(const void *, const void *, size_t, size_t, int); int hipMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int hipDeviceSynchronize(void); int hipGetLastError(void);
}
__device__ int offset = 5;
__device__ int calls;
__global__ void add(int *out, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
  if (i < n) out[i] = i + offset;
  if (!i) calls += 1;
}
int main() {
  int *p, h[100], seven = 7, times = 0;
  if (hipMalloc((void **)&p, sizeof h)) return 1;
  add<<<4, 32>>>(p, 100);
  if (hipGetLastError() || hipDeviceSynchronize() || hipMemcpy(h, p, sizeof h, 2)) return 2;
  for (int i = 0; i < 100; i++) if (h[i] != i + 5) return 3;
  if (hipMemcpyToSymbol(&offset, &seven, 4, 0, 1)) return 4;
  add<<<dim3(2, 1), dim3(64, 1)>>>(p, 100);
  if (hipMemcpy(h, p, sizeof h, 2)) return 5;
  for (int i = 0; i < 100; i++) if (h[i] != i + 7) return 6;
  if (hipMemcpyFromSymbol(&times, &calls, 4, 0, 2) || times != 2) return 7;
  hipFree(p);
  printf("ok\n");
  return 0;
}
