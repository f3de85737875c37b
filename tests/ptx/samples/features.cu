// Everything the PTX front end must read and that the RR modules do not all have: switch tables, indirect calls, varargs,
// local arrays, textures and surfaces, atomics, warp votes and matches, asynchronous copies, scoped inline assembly with
// labels, initialised variables. Built by tests/ptx/samples/README.md.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdio.h>

struct Params {
    int a, b;
    half *p;
    float *q;
    cudaSurfaceObject_t s;
    cudaTextureObject_t t;
    unsigned long long *u;
    double *d;
};

__constant__ float tab[5] = {1.f, 2.f, 3.f, 4.f, 5.f};
__device__ int counter;
__device__ const unsigned char bytes[4] = {1, 2, 3, 4};
__device__ const double half_pi = 1.5707963267948966;
__device__ int *where = &counter;

__device__ __noinline__ float foo(float x, int k) { return x * k + __expf(x); }
__device__ __noinline__ float bar(float x, int k) { return x / k - __logf(x) + tanhf(x); }
typedef float (*fn)(float, int);
__device__ fn table[2] = {foo, bar};

__device__ __noinline__ float4 quad(float4 v, half2 h) {
    v.x += __low2float(h);
    v.w *= __high2float(h);
    return v;
}

template <int N> __device__ int wait(int x) {
    int r;
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b32 n;\n\tmov.b32 n, %1;\nLOOP:\n\tsub.s32 n, n, 1;\n\tsetp.gt.s32 p, n, 0;\n\t"
                 "@p bra LOOP;\n\tmov.b32 %0, n;\n}\n" : "=r"(r) : "r"(x + N));
    return r;
}

extern "C" __global__ void __launch_bounds__(128, 2) features(const __grid_constant__ Params p) {
    __shared__ __align__(16) unsigned char sh[3200];
    __shared__ half2 tile[32][9];
    extern __shared__ float dyn[];
    int l = threadIdx.x;
    half2 h = __hadd2(*(half2 *)(p.p + l * 2), __float2half2_rn(1.5f));
    h = __hfma2(h, h, h);
    h = __hmul2(h, h);
    h = __hmax2(h, __hneg2(__habs2(h)));
    h = h2rcp(h);
    h = h2exp2(h);
    h = __hsub2(h, h2rsqrt(h));
    unsigned x;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(x) : "r"(*(unsigned *)&h));
    unsigned short c;
    asm("cvt.rn.satfinite.relu.e4m3x2.f16x2 %0, %1;" : "=h"(c) : "r"(x));
    unsigned a[4] = {x, x, x, x}, d[2];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16\n\t\t{%0,%1},\n\t\t{%2,%3,%4,%5},\n\t\t{%6,%7},\n\t\t{%8,%9};"
                 : "=r"(d[0]), "=r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(x), "r"(x), "r"(x), "r"(x));
    sh[l] = c;
    tile[l & 31][3] = h;
    __syncthreads();
    float f = foo(dyn[l], p.a) + tab[l % 5] + bytes[l & 3] + table[p.a & 1](dyn[0], p.b) + *where;
    float4 v = quad(make_float4(f, f, 1.f, 2.f), h);
    f += v.x * v.w;
    ushort4 u = surf2Dread<ushort4>(p.s, l * 8, p.b, cudaBoundaryModeZero);
    surf2Dwrite(u, p.s, l * 8, p.a, cudaBoundaryModeZero);
    f += __shfl_down_sync(~0u, f, 4) + __shfl_xor_sync(~0u, f, 1) + __shfl_sync(~0u, f, 3) + __shfl_up_sync(~0u, f, 2);
    float4 t = tex2D<float4>(p.t, l, l + 1);
    f += t.x + tex2D<float>(p.t, l + .5f, 1) + tex1Dfetch<float>(p.t, l) + t.w;
    atomicAdd(&counter, 1);
    atomicAdd(p.q, f);
    atomicCAS(p.u, 3ull, 4ull);
    atomicMax((int *)p.u, l);
    if (f > 3) f = rsqrtf(f) / 3.f;
    for (int i = 0; i < p.b; i++) f += sh[i] * sqrtf(f) * tab[i];
    switch (p.b) {
    case 0: f += __sinf(f); break;
    case 1: f *= __cosf(f); break;
    case 2: f -= fminf(f, 2.f); break;
    case 3: f = fmaf(f, f, 3.f); break;
    case 4: f = __frcp_rn(f); break;
    case 5: f += __popc(l) + __clz(l) + __ffs(l) + __brev(l); break;
    case 6: f = __int_as_float(__byte_perm(l, p.a, 0x5410)); break;
    case 7: f += __funnelshift_l(l, p.a, p.b); break;
    default: f += wait<1>(l) + wait<2>(l);
    }
    unsigned m = __activemask() ^ __ballot_sync(~0u, f > 1) ^ __match_any_sync(~0u, l) ^ __reduce_add_sync(~0u, l);
    if (__all_sync(~0u, f > 2) | __any_sync(~0u, f < 0)) m |= __syncthreads_or(l > 3) + __syncthreads_count(l > 1);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;"
                 :: "r"((unsigned)__cvta_generic_to_shared(sh)), "l"(p.q));
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(tile)));
    __threadfence();
    float local[16];
    for (int i = 0; i < 16; i++) local[i] = f * i;
    p.d[l] = (double)local[p.a & 15] * half_pi + __longlong_as_double(__ldg(p.u)) + (l >> 3) % 7 + r[0] + r[3];
    p.q[l] = f + d[0] + d[1] + m + __half2float(__low2half(h)) + __half2float(hexp2(h.x)) + __ldcg(p.q + 8);
    __stcs((float4 *)p.q, v);
    printf("x %d %f\n", l, (double)f);
}
