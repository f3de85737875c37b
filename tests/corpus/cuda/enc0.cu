// Reference module of layer enc0: 8x8 token patch per warp, 22 mma phases (rr-module.md, rr-details.md).
// Loads for a phase stand in the epilogue before it, where seed 000 and seed 001 show them.
#include "enc0_params.cuh"
#include "head.cuh"
#include "merge.cuh"
#include "mlp.cuh"
#include "prologue.cuh"
#include "stencil.cuh"

namespace rr {

using Rows96 = Tile<6, 4>;
using Rows64 = Tile<4, 4>;
using Block = BFragments<4, 1>;

}  // namespace rr

__global__ void cuda_dldn_engine_swin_enc0_kernel(const DldnEngineFusedSwinEnc0ParamsStruct params) {
    using namespace rr;
    __shared__ __align__(16) unsigned char input_tensor[kCells * kCellBytes];
    __shared__ __align__(16) unsigned char input_noise[kCells * kNoiseBytes];

    const Enc0Params p(params);
    const ushort2 shift = p.shift();
    const int x0 = static_cast<int>(blockIdx.x << 3) - shift.x;
    const int y0 = static_cast<int>((blockIdx.y + threadIdx.y) << 3) - shift.y;
    const uint2 extents = p.extents();
    stage_features(input_tensor, input_noise, p.input(), p.weights(), x0, y0, extents);
    __syncthreads();

    // P1, E1 (relu-pack), P2.
    const u8* w = p.weights();
    AFragments<6, 1> a;
    load_rows(a, input_tensor);
    Rows96 c96, d1, d2, normed96, keys, values;
    Block b;
    load_column_seeds(c96, w, 5120);
    load_b(b, w, 4096);
    gemm(d1, a, b, c96);
    load_b(b, w, 5184);
    load_column_seeds(c96, w, 6208);
    pack_a<true>(a, d1);
    gemm(d2, a, b, c96);

    // E2: norm of 96 rows, its pack shared by P3, P4, P8 and P9.
    rms_norm(normed96, d2, w, 6272);
    load_b(b, w, 6336);
    pack_a<false>(a, normed96);
    Rows96 zero96;
    zero_seeds(zero96);
    gemm(keys, a, b, zero96);  // P3
    load_b(b, w, 7360);
    gemm(values, a, b, zero96);  // P4

    // First head: P5, P6, then P7 on top of D2 + table.
    Rows64 head, d7, d12, c64;
    AFragments<4, 1> a64;
    attend(head, keys, values, w, 8384);
    load_b(b, w, 20672);
    __half2 table[4];
    load_table(table, w, 37056);
    table_seeds(c64, d2, table);
    pack_a<false>(a64, head);
    gemm(d7, a64, b, c64);

    // Second head: P8 .. P11, then P12 on top of D7.
    load_b(b, w, 21696);
    gemm(keys, a, b, zero96);  // P8
    load_b(b, w, 22720);
    gemm(values, a, b, zero96);  // P9
    attend(head, keys, values, w, 23744);
    load_b(b, w, 36032);
    pack_a<false>(a64, head);
    gemm(d12, a64, b, d7);

    // E12: norm of 64 rows; P13 .. P20 are four bottleneck branches on it.
    Rows64 normed, even, odd;
    rms_norm(normed, d12, w, 37120);
    mlp_branch<39296>(odd, normed, d12, w, 37184, 38272);
    mlp_branch<kNoTable>(even, normed, odd, w, 39360, 40448);
    mlp_branch<kNoTable>(odd, normed, even, w, 41472, 42560);
    mlp_branch<kNoTable>(even, normed, odd, w, 43584, 44672);

    // E20: plane arena, merge, P21. The weight pointer is read again after each group of guarded stores.
    Words<4, 2> q;
    requantise_rows(q, even);
    scatter_patch(p.arena(), q, x0, y0, p.extents());
    AFragments<1, 4> merged;
    merge_rows(merged, q);
    BFragments<8, 4> b_merge;
    Tile<1, 8> c_merge, d21;
    load_b(b_merge, p.weights(), 45696);
    load_column_seeds(c_merge, p.weights(), 53888);
    gemm(d21, merged, b_merge, c_merge);

    // E21: merged planes; the extents and the thread index read here serve E22 as well. P22 takes the requantised rows.
    const uint2 bounds = p.extents();
    scatter_merged<2>(p.merged(), d21, x0, y0, bounds);
    const int thread = static_cast<int>(threadIdx.x);
    BFragments<2, 1> b_logit;
    Tile<4, 2> c_logit, d22;
    load_b(b_logit, p.weights(), 54016);
    load_column_seeds(c_logit, p.weights(), 54528);
    rows_as_a(a64, q);
    gemm(d22, a64, b_logit, c_logit);

    // E22.
    const auto taps = [&](int lx, int ly, int dy, int dx) {
        return *reinterpret_cast<const ushort4*>(input_noise + 80 * ly + 8 * lx + 80 * dy + 8 * dx);
    };
    const Surfaces out = {p.remainder(), p.gated(), p.half_size()};
    stencil_pass(d22, taps, 0, thread, x0, y0, bounds, out);
    stencil_pass(d22, taps, 1, thread, x0, y0, bounds, out);
}
