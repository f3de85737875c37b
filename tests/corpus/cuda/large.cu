// A module of any size for the front-end benchmark: RR_BRANCHES bottleneck branches (two unrolled products and an activation
// each) over one 64-token patch of 64 channels.
#include "merge.cuh"
#include "mlp.cuh"
#include "norm.cuh"

struct DldnEngineLargeParamsStruct {
    const unsigned char* weights;  // gain 128 bytes, then 4160 bytes per branch
    const unsigned int* input;     // f16x2 words, 64 per lane
    unsigned int* output;          // e4m3 words, 32 per lane
};

namespace rr {

/// Branches 0 .. N - 1 in order; a loop of this size would not be unrolled.
template <int N>
__device__ __forceinline__ void branches(Tile<4, 8>& running, const Tile<4, 8>& normed, const u8* w) {
    if constexpr (N > 0) {
        branches<N - 1>(running, normed, w);
        constexpr int at = 128 + 4160 * (N - 1);
        Tile<4, 8> next;
        mlp_branch<kNoTable>(next, normed, running, w, at, at + 2112);
        running = next;
    }
}

}  // namespace rr

__global__ void cuda_dldn_engine_large_kernel(const DldnEngineLargeParamsStruct params) {
    using namespace rr;
    Tile<4, 8> input, normed, running;
#pragma unroll
    for (int i = 0; i < 64; ++i) input.r[i / 16][i / 2 % 8][i & 1] = params.input[32 * i + lane_id()];
    rms_norm(normed, input, params.weights, 0);
    running = input;
    branches<RR_BRANCHES>(running, normed, params.weights);
    Words<4, 4> q;
    requantise_rows(q, running);
#pragma unroll
    for (int i = 0; i < 32; ++i) params.output[32 * i + lane_id()] = q.r[i / 8][i & 1][i / 2 % 4];
}
