// Small kernels with the features that the layers do not use. Rebuild kernels.ptx with
//   .venv/bin/python -m tests.emulate.ptx.test_kernels
#include <cuda_fp16.h>

// Sum of a block through shared memory, then one atomic per block.
extern "C" __global__ void block_sum(const int *values, int n, int *total) {
    __shared__ int partial[128];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += values[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, partial[0]);
}

// Insertion sort of eight values in a local array: dynamic indexing, divergent loops.
extern "C" __global__ void sort8(unsigned *values) {
    unsigned own[8];
    unsigned *row = values + 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = 0; i < 8; i++) own[i] = row[i];
#pragma unroll 1
    for (int i = 1; i < 8; i++) {
        unsigned key = own[i];
        int j = i - 1;
        while (j >= 0 && own[j] > key) { own[j + 1] = own[j]; j--; }
        own[j + 1] = key;
    }
    for (int i = 0; i < 8; i++) row[i] = own[i];
}

// Softmax of a row of 32 halves, one warp per row.
extern "C" __global__ void softmax(const __half *in, __half *out) {
    int at = blockIdx.x * 32 + threadIdx.x;
    float x = __half2float(in[at]);
    float most = x;
    for (int mask = 16; mask; mask /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, mask));
    float e = exp2f((x - most) * 1.44269504f);
    float sum = e;
    for (int mask = 16; mask; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    out[at] = __float2half_rn(__fdividef(e, sum));
}

// Horner scheme in packed halves; a switch over the row.
extern "C" __global__ void polynomial(const __half2 *x, __half2 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 v = x[i], r = __float2half2_rn(0.25f);
    switch (i % 4) {
    case 0: r = __hfma2(r, v, __float2half2_rn(-1.5f)); break;
    case 1: r = __hadd2(__hmul2(r, v), v); break;
    case 2: r = __hmax2(r, __hneg2(v)); break;
    default: r = __hsub2(__habs2(v), r);
    }
    y[i] = r;
}

// 64-bit division and remainder, narrow loads and stores.
extern "C" __global__ void narrow(const unsigned char *in, long long divisor, short *quotient, signed char *rest) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long value = (long long)in[i] * 1000003 - 100000000;
    quotient[i] = (short)(value / divisor);
    rest[i] = (signed char)(value % divisor);
}
