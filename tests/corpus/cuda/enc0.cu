// Reference module of layer enc0: 8x8 token patch per warp, 22 mma phases (rr-module.md, rr-details.md).
// Loads for a phase stand at the end of the epilogue before it, where seed 000 and seed 001 show them.
#include "head.cuh"
#include "merge.cuh"
#include "mlp.cuh"
#include "prologue.cuh"
#include "stencil.cuh"

/// Parameter block, 1032 bytes; unnamed bytes belong to the original's other uses.
struct DldnEngineFusedSwinEnc0ParamsStruct {
    uint32_t ex, ey;                                      // +0 extents in tokens
    uint8_t reserved_8[32];                               //
    const uint8_t* weights;                               // +40 prepared weight image, 54,560 bytes
    uint32_t* arena;                                      // +48 32*ex*ey bytes
    uint32_t* merged;                                     // +56 two planes of 32*(ex/2)*(ey/2) bytes
    uint8_t reserved_64[16];                              //
    uint16_t shift_x, shift_y;                            // +80 block origin shift
    uint8_t reserved_84[28];                              //
    cudaSurfaceObject_t remainder, gated, half_size;      // +112, +120, +128 outputs
    uint8_t reserved_136[168];                            //
    cudaSurfaceObject_t input;                            // +304 four f16 per token
    uint8_t reserved_312[720];                            //
};
static_assert(sizeof(DldnEngineFusedSwinEnc0ParamsStruct) == 1032, "parameter block");

namespace rr {

using Rows96 = Tile<6, 4>;
using Rows64 = Tile<4, 4>;
using Block = BFragments<4, 1>;

/// Scores, softmax and P*V of one head; `keys` = D3 or D8, `values` = D4 or D9. Returns P*V.
__device__ __forceinline__ void attend(Rows64& out, const Rows96& keys, const Rows96& values, const uint8_t* w,
                                       int bias) {
    Scores c, scores, p;
    load_score_bias(c, w, bias);
    BFragments<12, 1> k;
    AFragments<4, 1> q;
    pack_b(k, keys);
    pack_a<false>(q, keys);
    gemm(scores, q, k, c);
    softmax(p, scores);
    BFragments<4, 3> v;
    AFragments<4, 3> a;
    pack_values(v, values);
    pack_a<false>(a, p);
    Rows64 zero;
    zero_seeds(zero);
    gemm(out, a, v, zero);
}

/// One bottleneck branch: expand the normed tile, activate, project back on top of `residual`. The table of the first
/// branch (offset >= 0) is added to the residual. B and C of the expansion are loaded by the caller.
template <int Table>
__device__ __forceinline__ void branch(Rows64& out, const Rows64& normed, const Rows64& residual, const uint8_t* w,
                                       const Block& b_up, const Rows64& c_up, int down) {
    AFragments<4, 1> a;
    pack_a<false>(a, normed);
    Rows64 hidden, active, c;
    gemm(hidden, a, b_up, c_up);
    activate(active, hidden);
    Block b;
    load_b(b, w, down);
    if constexpr (Table >= 0) {
        __half2 table[4];
        load_table(table, w, Table);
        table_seeds(c, residual, table);
    } else {
        c = residual;
    }
    pack_a<false>(a, active);
    gemm(out, a, b, c);
}

}  // namespace rr

__global__ void cuda_dldn_engine_swin_enc0_kernel(const DldnEngineFusedSwinEnc0ParamsStruct p) {
    using namespace rr;
    __shared__ __align__(16) uint8_t input_tensor[kCells * kCellBytes];
    __shared__ __align__(16) uint8_t input_noise[kCells * kNoiseBytes];

    const int x0 = static_cast<int>(blockIdx.x << 3) - p.shift_x;
    const int y0 = static_cast<int>((blockIdx.y + threadIdx.y) << 3) - p.shift_y;
    stage_features(input_tensor, input_noise, p.input, p.weights, x0, y0, static_cast<int>(p.ex),
                   static_cast<int>(p.ey));
    __syncthreads();

    // P1, E1 (relu-pack), P2.
    AFragments<6, 1> a;
    load_rows(a, input_tensor);
    Rows96 c96, d1, d2, normed96, keys, values;
    Block b;
    load_column_seeds(c96, p.weights, 5120);
    load_b(b, p.weights, 4096);
    gemm(d1, a, b, c96);
    load_b(b, p.weights, 5184);
    load_column_seeds(c96, p.weights, 6208);
    pack_a<true>(a, d1);
    gemm(d2, a, b, c96);

    // E2: norm of 96 rows, shared by P3, P4, P8 and P9.
    __half2 gain[4];
    load_table(gain, p.weights, 6272);
    rms_norm(normed96, d2, gain);
    load_b(b, p.weights, 6336);
    pack_a<false>(a, normed96);
    Rows96 zero96;
    zero_seeds(zero96);
    gemm(keys, a, b, zero96);  // P3
    load_b(b, p.weights, 7360);
    gemm(values, a, b, zero96);  // P4

    // First head: P5, P6, then P7 on top of D2 + table.
    Rows64 head, d7, d12, c64;
    attend(head, keys, values, p.weights, 8384);
    AFragments<4, 1> a64;
    load_b(b, p.weights, 20672);
    __half2 table[4];
    load_table(table, p.weights, 37056);
    table_seeds(c64, d2, table);
    pack_a<false>(a64, head);
    gemm(d7, a64, b, c64);

    // Second head: P8 .. P11, then P12 on top of D7.
    load_b(b, p.weights, 21696);
    gemm(keys, a, b, zero96);  // P8
    load_b(b, p.weights, 22720);
    gemm(values, a, b, zero96);  // P9
    attend(head, keys, values, p.weights, 23744);
    load_b(b, p.weights, 36032);
    pack_a<false>(a64, head);
    gemm(d12, a64, b, d7);

    // E12: norm of 64 rows; P13 .. P20 are four bottleneck branches on it.
    Rows64 normed, even, odd;
    load_table(gain, p.weights, 37120);
    rms_norm(normed, d12, gain);
    load_b(b, p.weights, 37184);
    load_column_seeds(c64, p.weights, 38208);
    branch<39296>(odd, normed, d12, p.weights, b, c64, 38272);
    load_b(b, p.weights, 39360);
    load_column_seeds(c64, p.weights, 40384);
    branch<-1>(even, normed, odd, p.weights, b, c64, 40448);
    load_b(b, p.weights, 41472);
    load_column_seeds(c64, p.weights, 42496);
    branch<-1>(odd, normed, even, p.weights, b, c64, 42560);
    load_b(b, p.weights, 43584);
    load_column_seeds(c64, p.weights, 44608);
    branch<-1>(even, normed, odd, p.weights, b, c64, 44672);

    // E20: plane arena, merge, P21.
    Words<4, 2> q;
    requantise_rows(q, even);
    scatter_patch(p.arena, q, x0, y0, static_cast<int>(p.ex), static_cast<int>(p.ey));
    AFragments<1, 4> merged;
    merge_rows(merged, q);
    BFragments<8, 4> b_merge;
    Tile<1, 8> c_merge, d21;
    load_b(b_merge, p.weights, 45696);
    load_column_seeds(c_merge, p.weights, 53888);
    gemm(d21, merged, b_merge, c_merge);

    // E21: merged planes; P22 takes the requantised rows as they are.
    scatter_merged<2>(p.merged, d21, x0, y0, static_cast<int>(p.ex), static_cast<int>(p.ey));
    BFragments<2, 1> b_logit;
    Tile<4, 2> c_logit, d22;
    load_b(b_logit, p.weights, 54016);
    load_column_seeds(c_logit, p.weights, 54528);
#pragma unroll
    for (int i = 0; i < 16; ++i) a64.r[i / 4][0][i % 4] = q.r[i / 4][i & 1][i >> 1 & 1];
    gemm(d22, a64, b_logit, c_logit);

    // E22.
    const auto taps = [&](int lx, int ly, int dy, int dx) {
        return *reinterpret_cast<const ushort4*>(input_noise + 80 * ly + 8 * lx + 80 * dy + 8 * dx);
    };
    const Surfaces out = {p.remainder, p.gated, p.half_size};
    stencil_pass(d22, taps, 0, x0, y0, p.ex, p.ey, out);
    stencil_pass(d22, taps, 1, x0, y0, p.ex, p.ey, out);
}
