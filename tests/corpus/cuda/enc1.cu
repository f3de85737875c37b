// Reference module of layer enc1: 8x8 token patch per warp, 64 channels, 32 mma phases (seed 001, rr-details.md B).
// Loads for a phase stand in the epilogue before it, where seed 001 shows them.
#include "enc1_params.cuh"
#include "head.cuh"
#include "merge.cuh"
#include "mlp.cuh"
#include "planes.cuh"
#include "stencil.cuh"

namespace rr {

/// Keys and values of one head: the two 32-channel slices of the normed input, slice 0 of both first. B blocks lie at
/// `keys_at` and `keys_at` + 1024 (slices of the keys), then those of the values; keys' slice 0 is loaded by the caller.
__device__ __forceinline__ void project_head(Tile<6, 4>& keys, Tile<6, 4>& values, const AFragments<6, 2>& a,
                                             BFragments<4, 1>& b, const u8* w, int keys_at) {
    const AFragments<6, 1> low = k_slice(a, 0), high = k_slice(a, 1);
    Tile<6, 4> zero, first;
    zero_seeds(zero);
    gemm(keys, low, b, zero);
    load_b(b, w, keys_at + 2048);
    gemm(values, low, b, zero);
    load_b(b, w, keys_at + 1024);
    first = keys;
    gemm(keys, high, b, first);
    load_b(b, w, keys_at + 3072);
    first = values;
    gemm(values, high, b, first);
}

}  // namespace rr

__global__ void cuda_dldn_engine_swin_enc1_kernel(const DldnEngineFusedSwinEnc1ParamsStruct params) {
    using namespace rr;
    const Enc1Params p(params);
    const ushort2 shift = p.shift();
    const int x0 = static_cast<int>(blockIdx.x << 3) - shift.x;
    const int y0 = static_cast<int>((blockIdx.y + threadIdx.y) << 3) - shift.y;
    const u8* w = p.weights();

    // The input rows, decoded: P7's residual as they are, P1 .. P4 and P8 .. P11 on their norm.
    Tile<6, 8> input, normed96;
    load_planes<2>(input, p.input(), x0, y0, p.extents());
    rms_norm(normed96, input, w, 0);
    AFragments<6, 2> a96;
    pack_a<false>(a96, normed96);

    // First head: P1 .. P4, P5, P6, then P7 on top of the input + table.
    Tile<6, 4> keys, values;
    BFragments<4, 1> b;
    load_b(b, w, 128);
    project_head(keys, values, a96, b, w, 128);
    Tile<4, 4> head;
    attend(head, keys, values, w, 4224);
    BFragments<8, 1> b_out;
    AFragments<4, 1> a_out;
    Tile<4, 8> c64, d7, d14;
    __half2 table[8];
    load_b(b_out, w, 16512);
    load_table(table, w, 36992);
    table_seeds(c64, input, table);
    pack_a<false>(a_out, head);
    gemm(d7, a_out, b_out, c64);

    // Second head: P8 .. P13, then P14 on top of D7.
    load_b(b, w, 18560);
    project_head(keys, values, a96, b, w, 18560);
    attend(head, keys, values, w, 22656);
    load_b(b_out, w, 34944);
    pack_a<false>(a_out, head);
    gemm(d14, a_out, b_out, d7);

    // E14: norm of 64 rows; P15 .. P30 are eight bottleneck branches on it.
    Tile<4, 8> normed, even, odd;
    rms_norm(normed, d14, w, 37120);
    mlp_branch<41408>(odd, normed, d14, w, 37248, 39360);
    mlp_branch<kNoTable>(even, normed, odd, w, 41536, 43648);
    mlp_branch<kNoTable>(odd, normed, even, w, 45696, 47808);
    mlp_branch<kNoTable>(even, normed, odd, w, 49856, 51968);
    mlp_branch<kNoTable>(odd, normed, even, w, 54016, 56128);
    mlp_branch<kNoTable>(even, normed, odd, w, 58176, 60288);
    mlp_branch<kNoTable>(odd, normed, even, w, 62336, 64448);
    mlp_branch<kNoTable>(even, normed, odd, w, 66496, 68608);

    // E30: plane arena, merge, P31. The weight pointer is read again after each group of guarded stores.
    Words<4, 4> q;
    requantise_rows(q, even);
    scatter_patch(p.arena(), q, x0, y0, p.extents());
    AFragments<1, 8> merged;
    merge_rows(merged, q);
    BFragments<12, 8> b_merge;
    Tile<1, 12> c_merge, d31;
    load_b(b_merge, p.weights(), 70656);
    load_column_seeds(c_merge, p.weights(), 95232);
    gemm(d31, merged, b_merge, c_merge);

    // E31: merged planes; the extents and the thread index read here serve E32 as well. P32 takes the requantised rows.
    const uint2 bounds = p.extents();
    scatter_merged<3>(p.merged(), d31, x0, y0, bounds);
    const int thread = static_cast<int>(threadIdx.x);
    BFragments<2, 2> b_logit;
    AFragments<4, 2> a_logit;
    Tile<4, 2> c_logit, d32;
    load_b(b_logit, p.weights(), 95424);
    load_column_seeds(c_logit, p.weights(), 96448);
    rows_as_a(a_logit, q);
    gemm(d32, a_logit, b_logit, c_logit);

    // E32.
    const auto taps = [&](int lx, int ly, int dy, int dx) {
        return fetch(p.texture(), mirror(x0 + lx + dx - 1, static_cast<int>(bounds.x)),
                     mirror(y0 + ly + dy - 1, static_cast<int>(bounds.y)));
    };
    const Surfaces out = {p.remainder(), p.gated(), p.half_size()};
    stencil_pass(d32, taps, 0, thread, x0, y0, bounds, out);
    stencil_pass(d32, taps, 1, thread, x0, y0, bounds, out);
}
