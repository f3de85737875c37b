// Three 64-channel layers with the clamped cubic between them; not a layer of the family. One warp takes 32 tokens.
//
// in:  32 rows of 64 e4m3 bytes per block, each 32-byte half row in slot order (fragments.cuh).
// w:   three 64x64 weight blocks of 4096 bytes at 0, 4096, 8192, then three column vectors of 128 bytes at 12288.
// out: f16[32][64] per block.
#include "mlp.cuh"

namespace rr {

constexpr int kTokenTiles = 2, kColumnTiles = 8, kSteps = 2;

__device__ __forceinline__ void load_tokens(AFragments<kTokenTiles, kSteps>& a, const u8* in) {
    const u32 g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int i = 0; i < kTokenTiles * kSteps * 4; ++i) {
        const int m = i / 8, s = i / 4 % kSteps, reg = i % 4;
        const u32 row = 16 * m + 8 * (reg & 1) + g;
        a.r[m][s][reg] = *reinterpret_cast<const u32*>(in + 64 * row + 32 * s + 16 * (reg >> 1) + 4 * t);
    }
}

using Tokens = Tile<kTokenTiles, kColumnTiles>;

__device__ __forceinline__ void layer(Tokens& out, const AFragments<kTokenTiles, kSteps>& a, const u8* w, int index) {
    BFragments<kColumnTiles, kSteps> b;
    Tokens bias;
    load_b(b, w, 4096 * index);
    load_column_seeds(bias, w, 12288 + 128 * index);
    gemm(out, a, b, bias);
}

}  // namespace rr

extern "C" __global__ void mlp3(const unsigned char* w, const unsigned char* in, unsigned int* out) {
    using namespace rr;
    AFragments<kTokenTiles, kSteps> a;
    Tokens hidden, active;
    load_tokens(a, in + 2048 * blockIdx.x);
#pragma unroll
    for (int index = 0; index < 2; ++index) {
        layer(hidden, a, w, index);
        activate(active, hidden);
        pack_a<false>(a, active);
    }
    layer(hidden, a, w, 2);
    const u32 g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int i = 0; i < kTokenTiles * kColumnTiles * 2; ++i) {
        const int m = i / (2 * kColumnTiles), n = i / 2 % kColumnTiles, half = i & 1;
        out[1024 * blockIdx.x + 32 * (16 * m + 8 * half + g) + 4 * n + t] = hidden.r[m][n][half];
    }
}
