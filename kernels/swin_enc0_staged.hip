// zrr_swin_enc0_staged: phases 1 to 22 of enc0 on staged images and prepared slots, the fallback of zrr_swin_enc0 with
// the same arguments and result (see swin_enc0.hip).
//
// Every plain product stages its tokens as an image and its weights as slots; NVIDIA's view comes back through the
// dcell exchange. Scores, softmax and P.V work on operands read from the image. All in the 3200 lent bytes:
//
//   0 .. 1535   image of 48 rows (a 96-row phase runs in two halves)      slots at 1536 .. 2559
//   0 .. 2047   image of 64 rows x 32, or of 16 merged rows x 128         slots at 2048 .. 3071
//   0 .. 2047   dcell exchange, four tiles at a time; at the end the result, f16[64][16]
//   0 .. 3071   image of 96 keys between phases 3 and 4 (8 and 9), no slots
#include "enc0_layer.h"
#include "zrr_attention.h"
#include "zrr_mlp.h"
#include "zrr_nvidia.h"

namespace zrr {

constexpr uint32_t kLentBytes = 3200, kHalfSlots = 1536, kPatchSlots = 2048;
static_assert(kPatchSlots + slots_bytes<32> <= kLentBytes, "64 rows and 32 columns fit");
static_assert(32 * 16 * Enc0::kTiles <= kLentBytes, "96 rows fit without slots");

// out = round(tokens * weights + seed) for natural token tiles (rows 16m + r) of the image, captured as tiles `first`...
template <int kMTiles, typename Seed>
ZRR_DEVICE void staged_product(uint32_t image, uint32_t slots, Seed seed, Pairs (*out)[2], const Capture& capture,
                               int first = 0) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
        const uint32_t column = tile_column<RowOrder::direct>(lane_id() & 15, u);
        const kop a0 = kop_image(slots, column), a1 = kop_image(slots, column + 32);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
            out[m][u] = round_tile(k32_e4m3(seed(m, u), a0, swin_operand<32>(image, 16 * m, 0), a1,
                                            swin_operand<32>(image, 16 * m, 1)));
            if constexpr (kCapturing) capture.rows<4>(16 * (first + m) + (lane_id() & 15), u, out[m][u]);
        }
    }
}

// A 96-row phase in two halves of 48 rows; `stage(first)` stages token tiles first .. first + 2 as rows 0 .. 47.
template <typename Stage, typename Seed>
ZRR_DEVICE void split_phase(uint32_t scratch, gptr w, uint32_t weights, Stage stage, Seed seed,
                            Pairs (&out)[Enc0::kTiles][2], const Capture& capture) {
    lds_order();
    swin_slots_from_wimg<32>(scratch + kHalfSlots, w, weights);
#pragma unroll
    for (int first = 0; first < Enc0::kTiles; first += 3) {
        lds_order();
        stage(first);
        lds_order();
        staged_product<3>(scratch, scratch + kHalfSlots, seed, out + first, capture, first);
    }
}

// A 64-row phase whose image already stands at `scratch`.
template <typename Seed>
ZRR_DEVICE void patch_phase(uint32_t scratch, gptr w, uint32_t weights, Seed seed,
                            Pairs (&out)[Enc0::kPatchTiles][2], const Capture& capture) {
    swin_slots_from_wimg<32>(scratch + kPatchSlots, w, weights);
    lds_order();
    staged_product<Enc0::kPatchTiles>(scratch, scratch + kPatchSlots, seed, out, capture);
    lds_order();
}

ZRR_DEVICE float8 no_seed(int, int) { return float8{}; }

// Phases 1 and 2: D2 of all tokens, from the cut's fragments.
ZRR_DEVICE void embed_staged(uint32_t scratch, gptr w, const Lane& lane, const uint32_t (&a)[24],
                             Pairs (&d2)[Enc0::kTiles][2], const Capture& capture) {
    Pairs d1[Enc0::kTiles][2];
    const Columns seeds1 = load_columns(w + Enc0::kSeeds1, lane), seeds2 = load_columns(w + Enc0::kSeeds2, lane);
    split_phase(
        scratch, w, Enc0::kW1, [&](int first) { swin_stage_fragment<3, 32>(scratch, a + 4 * first); },
        [&](int, int u) { return widen(seeds1.tile[u]); }, d1, capture);
    split_phase(
        scratch, w, Enc0::kW2,
        [&](int first) {
#pragma unroll
            for (int m = 0; m < 3; ++m)
#pragma unroll
                for (int u = 0; u < 2; ++u)
                    swin_stage_operand_p<StageMode::relu, 32>(scratch, 16 * m, u, d1[first + m][u]);
        },
        [&](int, int u) { return widen(seeds2.tile[u]); }, d2, capture.at(Enc0::kAllRows));
}

// Keys of a head: phase 3 (8), requantised, and read back as operands in the order of direct token tiles.
ZRR_DEVICE void stage_keys(uint32_t scratch, gptr w, const Lane& lane, const Fragments<Enc0::kTiles>& normed,
                           Head<Enc0::kTiles>& head, const Capture& capture) {
    Pairs d3[Enc0::kTiles][2];
    split_phase(
        scratch, w, Enc0::kKeyWeights,
        [&](int first) { swin_stage_fragment<3, 32>(scratch, normed.word + 4 * first); }, no_seed, d3, capture);
    lds_order();
#pragma unroll
    for (int m = 0; m < Enc0::kTiles; ++m)
#pragma unroll
        for (int u = 0; u < 2; ++u) swin_stage_operand_p<StageMode::plain, 32>(scratch, 16 * m, u, d3[m][u]);
    lds_order();
#pragma unroll
    for (int tile = 0; tile < Enc0::kTiles; ++tile)
#pragma unroll
        for (int k = 0; k < 2; ++k)
            head.key[tile].half[k] = swin_row_operand<32>(scratch, tile_token(lane.r, tile), k);
    lds_order();
}

// Values of a head: phase 4 (9) with the roles of image and slots exchanged, so that a lane holds one channel and the
// tokens of a tile: requantised, the A operand of P.V. 64 rows, then 32.
template <int kMTiles>
ZRR_DEVICE void stage_values(uint32_t scratch, gptr w, const Lane& lane, const uint32_t* normed, int step,
                             Head<Enc0::kTiles>& head, const Capture& capture) {
    swin_stage_fragment<kMTiles, 32>(scratch, normed);
    swin_slots_from_wimg<32>(scratch + kPatchSlots, w, Enc0::kValueWeights);
    lds_order();
#pragma unroll
    for (int c = 0; c < 2; ++c) {
        const uint32_t column = tile_column<RowOrder::direct>(lane.r, c);
        const kop b0 = kop_image(scratch + kPatchSlots, column), b1 = kop_image(scratch + kPatchSlots, column + 32);
#pragma unroll
        for (int tile = 0; tile < kMTiles; ++tile) {
            const uint32_t row = tile_token(lane.r, tile);
            const Pairs d = round_tile(k32_e4m3(float8{}, swin_row_operand<32>(scratch, row, 0), b0,
                                                swin_row_operand<32>(scratch, row, 1), b1));
            if constexpr (kCapturing) capture.columns(2 * step + tile, c, d);
            head.value[step + (tile >> 1)][c].half[tile & 1] = requantise_pairs<Requantise::propagate>(d);
        }
    }
    lds_order();
}

// One attention head: residual = round(attention * out weights + residual).
ZRR_DEVICE void head_staged(uint32_t scratch, gptr w, const Lane& lane, const Fragments<Enc0::kTiles>& normed,
                            Pairs (&residual)[Enc0::kPatchTiles][2], const Capture& phase3) {
    const Capture phase4 = phase3.at(Enc0::kAllRows), phase5 = phase4.at(Enc0::kAllRows);
    const Capture phase6 = phase5.at(Enc0::kScores), phase7 = phase6.at(Enc0::kPatchRows);
    Head<Enc0::kTiles> head;
    stage_keys(scratch, w, lane, normed, head, phase3);
    stage_values<4>(scratch, w, lane, normed.word, 0, head, phase4);
    stage_values<2>(scratch, w, lane, normed.word + 16, 2, head, phase4);
#pragma unroll
    for (int pair = 0; pair < Enc0::kPatchTiles / 2; ++pair) {
        Operand out[2];
        attend_pair(head, w + Enc0::kBias, pair, false, lane, out, phase5, phase6);
#pragma unroll
        for (int u = 0; u < 2; ++u)
#pragma unroll
            for (int c = 0; c < 2; ++c)
                swin_stage_bytes<32>(scratch, tile_token(lane.r, 2 * pair + u), c, out[u].half[c]);
    }
    Pairs sum[Enc0::kPatchTiles][2];
    patch_phase(scratch, w, Enc0::kOutWeights, [&](int m, int u) { return widen(residual[m][u]); }, sum, phase7);
#pragma unroll
    for (int m = 0; m < Enc0::kPatchTiles; ++m)
#pragma unroll
        for (int u = 0; u < 2; ++u) residual[m][u] = sum[m][u];
}

// One MLP branch on the normed patch: residual = round(activation(normed * W1 + seeds) * W2 + residual).
ZRR_DEVICE void branch_staged(uint32_t scratch, gptr w, const Lane& lane, const Fragments<Enc0::kPatchTiles>& normed,
                              Pairs (&residual)[Enc0::kPatchTiles][2], const Capture& capture) {
    const Columns seeds = load_columns(w + Enc0::kMlpSeeds, lane);
    Pairs hidden[Enc0::kPatchTiles][2], sum[Enc0::kPatchTiles][2];
    swin_stage_fragment<Enc0::kPatchTiles, 32>(scratch, normed.word);
    patch_phase(scratch, w, 0, [&](int, int u) { return widen(seeds.tile[u]); }, hidden, capture);
#pragma unroll
    for (int m = 0; m < Enc0::kPatchTiles; ++m)
#pragma unroll
        for (int u = 0; u < 2; ++u)
            swin_stage_operand_p<StageMode::activate, 32>(scratch, 16 * m, u, hidden[m][u]);
    patch_phase(scratch, w, Enc0::kMlpOut, [&](int m, int u) { return widen(residual[m][u]); }, sum,
                capture.at(Enc0::kPatchRows));
#pragma unroll
    for (int m = 0; m < Enc0::kPatchTiles; ++m)
#pragma unroll
        for (int u = 0; u < 2; ++u) residual[m][u] = sum[m][u];
}

// E20's scatter: word w of a token is plane word t + 4w.
ZRR_DEVICE void scatter_arena(gptr arena, uint32_t ex, uint32_t ey, uint32_t x0, uint32_t y0,
                              const Lane& lane, const Fragments<Enc0::kPatchTiles>& packed) {
    const uint32_t l = lane.r + 16 * lane.h, g = l >> 2, t = l & 3;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const uint32_t x = x0 + g, y = y0 + 2 * (i >> 2) + (i & 1), w = (i >> 1) & 1;
        if (x < ex && y < ey) *global_at<uint32_t>(arena, 4 * (8 * ex * y + 8 * x + t + 4 * w)) = packed.word[i];
    }
}

// Phase 21 and E21: image of 16 merged rows x 4 k steps; slots of one step and one plane of 32 columns at a time.
ZRR_DEVICE void merge_staged(uint32_t scratch, gptr w, gptr planes, uint32_t ex, uint32_t ey, uint32_t x0,
                             uint32_t y0, const Lane& lane, const Fragments<1> (&step)[4], const Capture& capture) {
#pragma unroll
    for (int k = 0; k < 4; ++k) swin_stage_fragment<1, 128>(scratch + 32 * k, step[k].word);
    const uint32_t width = ex >> 1, height = ey >> 1;
    const uint32_t x = (uint32_t)((int32_t)x0 >> 1) + ((lane.r & 7) >> 1);
    const uint32_t y = (uint32_t)((int32_t)y0 >> 1) + 2 * (lane.r >> 3) + (lane.r & 1);
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
        const Columns seeds = load_columns(w + Enc0::kMergeSeeds + 64 * plane, lane);
        Pairs acc[2] = {seeds.tile[0], seeds.tile[1]};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            swin_slots_from_wimg<32, 4>(scratch + kPatchSlots, w, Enc0::kMergeWeights + 4096 * plane + 512 * k);
            lds_order();
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                const uint32_t column = tile_column<RowOrder::direct>(lane.r, u);
                acc[u] = round_tile(k32_e4m3(widen(acc[u]), kop_image(scratch + kPatchSlots, column),
                                             swin_operand<128>(scratch + 32 * k, 0, 0),
                                             kop_image(scratch + kPatchSlots, column + 32),
                                             swin_operand<128>(scratch + 32 * k, 0, 1)));
            }
            lds_order();
        }
        if constexpr (kCapturing)
            for (int u = 0; u < 2; ++u) capture.rows<8>(lane.r, u, acc[u], plane);
        const uint32_t token = plane * width * height + width * y + x;
        if (x < width && y < height)
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                const kop bytes = requantise_pairs<Requantise::exact>(acc[u]);
                *global_at<uint32x2>(planes + 16 * u, 32 * token + lane.columns) =
                    uint32x2{bytes.word[0], bytes.word[1]};
            }
    }
}

// Phase 22 and the cut exit; the result overlays the image.
ZRR_DEVICE void last_staged(uint32_t scratch, gptr w, const Lane& lane, const Fragments<Enc0::kPatchTiles>& packed,
                            const Capture& capture) {
    swin_stage_fragment<Enc0::kPatchTiles, 32>(scratch, packed.word);
    swin_slots_from_wimg<16>(scratch + kPatchSlots, w, Enc0::kLastWeights);
    lds_order();
    const uint32x4 seeds = *global_at<const uint32x4>(w + Enc0::kLastSeeds, 2 * lane.columns);
    const Pairs c = {as_half2(seeds.x), as_half2(seeds.y), as_half2(seeds.z), as_half2(seeds.w)};
    const kop a0 = kop_image(scratch + kPatchSlots, lane.r), a1 = kop_image(scratch + kPatchSlots, lane.r + 16);
    Pairs d[Enc0::kPatchTiles];
#pragma unroll
    for (int m = 0; m < Enc0::kPatchTiles; ++m) {
        d[m] = round_tile(k32_e4m3(widen(c), a0, swin_operand<32>(scratch, 16 * m, 0), a1,
                                   swin_operand<32>(scratch, 16 * m, 1)));
        if constexpr (kCapturing) capture.narrow(16 * m + lane.r, d[m]);
    }
    lds_order();
#pragma unroll
    for (int m = 0; m < Enc0::kPatchTiles; ++m)
        *lds_at<uint32x4>(scratch + 32 * lane.r + 16 * lane.h, 512 * m) =
            uint32x4{as_bits(d[m].pair[0]), as_bits(d[m].pair[1]), as_bits(d[m].pair[2]), as_bits(d[m].pair[3])};
    lds_order();
}

ZRR_DEVICE void swin_enc0_staged(const uint32_t (&a)[24], gptr w, gptr arena, gptr planes, uint32_t ex, uint32_t ey,
                                 uint32_t x0, uint32_t y0, uint32_t scratch, const Capture& capture) {
    const Lane lane = lane_offsets(lane_id());
    Residual<Enc0::kPatchTiles> residual;
    Fragments<Enc0::kTiles> normed;
    {
        Pairs d2[Enc0::kTiles][2];
        embed_staged(scratch, w, lane, a, d2, capture);
        View<Enc0::kTiles> view = view_of(scratch, d2);
        norm_view(view, w + Enc0::kGain2);
        normed = pack_view(view);
#pragma unroll
        for (int m = 0; m < Enc0::kPatchTiles; ++m)
#pragma unroll
            for (int u = 0; u < 2; ++u) residual.tile[m][u] = d2[m][u];
    }
    add_columns(residual, load_columns(w + Enc0::kTable6, local_offsets(lane)));
    gptr base = w;
#pragma clang loop unroll(disable)
    for (int i = 0; i < Enc0::kHeads; ++i) {
        head_staged(scratch, base, local_offsets(lane), normed, residual.tile,
                    capture.at(Enc0::kCaptureHead + i * Enc0::kCaptureHeadStride));
        base += Enc0::kHeadStride;
    }

    View<Enc0::kPatchTiles> view = view_of(scratch, residual.tile);
    norm_view(view, w + Enc0::kGain12);
    const Fragments<Enc0::kPatchTiles> patch = pack_view(view);
    add_columns(residual, load_columns(w + Enc0::kTable13, local_offsets(lane)));
    base = w + Enc0::kMlp;
#pragma clang loop unroll(disable)
    for (int i = 0; i < Enc0::kBranches; ++i) {
        branch_staged(scratch, base, local_offsets(lane), patch, residual.tile,
                      capture.at(Enc0::kCaptureMlp + i * Enc0::kCaptureMlpStride));
        base += i ? Enc0::kMlpStride : Enc0::kMlpStride + 64;  // the residual's table follows the first branch
    }

    const Fragments<Enc0::kPatchTiles> packed = pack_view(view_of(scratch, residual.tile));
    const Lane last = lane_offsets(fresh_lane_id());
    scatter_arena(arena, ex, ey, x0, y0, last, packed);
    Fragments<1> step[4];
    merge_fragments(packed, step);
    merge_staged(scratch, w, planes, ex, ey, x0, y0, last, step, capture.at(Enc0::kCaptureMerge));
    last_staged(scratch, w, last, packed, capture.at(Enc0::kCaptureLast));
}

}  // namespace zrr

ZRR_BODY uint32_t zrr_swin_enc0_staged(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5,
                                       uint32_t a6, uint32_t a7, uint32_t a8, uint32_t a9, uint32_t a10, uint32_t a11,
                                       uint32_t a12, uint32_t a13, uint32_t a14, uint32_t a15, uint32_t a16,
                                       uint32_t a17, uint32_t a18, uint32_t a19, uint32_t a20, uint32_t a21,
                                       uint32_t a22, uint32_t a23, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t w,
                                       uint64_t arena, uint64_t planes, uint32_t ex, uint32_t ey, uint32_t x0,
                                       uint32_t y0, uint32_t scratch ZRR_CAPTURE_PARAMETER) {
    zrr::swin_enc0_staged({a0,  a1,  a2,  a3,  a4,  a5,  a6,  a7,  a8,  a9,  a10, a11,
                           a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23},
                          zrr::global_pointer(w), zrr::global_pointer(arena), zrr::global_pointer(planes), ex, ey, x0,
                          y0, scratch, ZRR_CAPTURE_ARGUMENT);
    return scratch;
}
