// zrr_swin_enc0: phases 1 to 22 of enc0 for one 8 x 8 patch (one wave), on direct operands.
//
// Arguments
//   a0..a23  A fragments of phase 1: register i of m-tile m is a[4m + i]; 96 rows = 64 patch tokens, 32 halo tokens
//   b0..b3   C seeds of phase 1 in NVIDIA's order; unused, the body reads them from the image in its own order
//   w        weight image, arena and planes: global addresses of the outputs of E20 and E21
//   ex, ey   extents in tokens; x0, y0 the patch's origin (may be negative); all even
//   scratch  shared address of 3200 lent bytes
// Returns the shared address (scratch) of D22: f16[64 tokens][16 columns], 2048 bytes.
//
// ZRR_SATURATING=1 compiles the variant that lets MODE.FP16_OVFL saturate conversions instead of clamping; what the
// mode does to FP8 conversions has to be seen on a card before it can be the default.
//
// With ZRR_CAPTURE the body takes one more argument, the capture buffer of its block (zrr_capture.h), and stores every
// phase's accumulators there.
//
// Shared memory: 0..3071 the cut entry's image (96 rows of 32 bytes), then 0..2047 the result. Nothing else.
#include "enc0_layer.h"
#include "zrr_attention.h"
#include "zrr_merge.h"
#include "zrr_mlp.h"
#include "zrr_staged.h"

#ifndef ZRR_SATURATING
#define ZRR_SATURATING 0
#endif

namespace zrr {

constexpr bool kSaturating = ZRR_SATURATING;
constexpr Requantise kSafe = kSaturating ? Requantise::saturating : Requantise::propagate;

template <typename... T>
ZRR_DEVICE void begin_saturation(T&... inputs) {
    if constexpr (kSaturating) {
        set_saturation<true>();
        (hold(inputs), ...);
    }
}

template <typename... T>
ZRR_DEVICE void end_saturation(T&... results) {
    if constexpr (kSaturating) {
        (hold(results), ...);
        set_saturation<false>();
    }
}

// Cut entry: fragments to operands through the image.
ZRR_DEVICE void load_tokens(uint32_t scratch, const uint32_t (&a)[24], const Lane& lane,
                            Operand (&tokens)[Enc0::kTiles]) {
    lds_order();
    swin_stage_fragment<Enc0::kTiles, 32>(scratch, a);
    lds_order();
    const uint32_t own = scratch + 32 * tile_token(lane.r, 0) + 8 * lane.h;
#pragma unroll
    for (int tile = 0; tile < Enc0::kTiles; ++tile)
#pragma unroll
        for (int w = 0; w < 2; ++w) {
            const uint32x2 bytes = *lds_at<const uint32x2>(own, 1024 * (tile >> 1) + 256 * (tile & 1) + 16 * w);
            tokens[tile].half[w] = {{bytes.x, bytes.y}};
        }
}

// Phases 1 and 2 with E1 and E2: tokens become the normed tokens, residual D2 of the patch rows. Returns whether the
// gain bounds the normed tokens.
ZRR_DEVICE bool embed(gptr w, const Lane& lane, Operand (&tokens)[Enc0::kTiles],
                      Residual<Enc0::kPatchTiles>& residual, const Capture& capture) {
    WeightBlock w1 = load_weights(w + Enc0::kW1, lane);
    const WeightBlock w2 = load_weights(w + Enc0::kW2, lane);
    const Columns seeds1 = load_columns(w + Enc0::kSeeds1, lane), seeds2 = load_columns(w + Enc0::kSeeds2, lane);
    const Columns gain = load_columns(w + Enc0::kGain2, lane);
    const float8 c1[2] = {widen(seeds1.tile[0]), widen(seeds1.tile[1])};
    const float8 c2[2] = {widen(seeds2.tile[0]), widen(seeds2.tile[1])};
    begin_saturation(w1);
#pragma unroll
    for (int tile = 0; tile < Enc0::kTiles; ++tile) {
        Operand hidden;
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const float8 acc = multiply(c1[u], w1.tile[u], tokens[tile]);
            if constexpr (kCapturing) capture.rows<4>(tile_token(lane.r, tile), u, round_tile(acc));
            hidden.half[u] = requantise_tile<kSafe, true>(acc);
        }
        tokens[tile] = hidden;
    }
    end_saturation(tokens[0], tokens[1], tokens[2], tokens[3], tokens[4], tokens[5]);
    Pairs d2[Enc0::kTiles][2];
#pragma unroll
    for (int tile = 0; tile < Enc0::kTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            d2[tile][u] = round_tile(multiply(c2[u], w2.tile[u], tokens[tile]));
            if constexpr (kCapturing)
                capture.at(Enc0::kAllRows).rows<4>(tile_token(lane.r, tile), u, d2[tile][u]);
        }
    const bool calm = none(beyond(gain, 32.0f));
    norm_tokens(d2, gain, calm, tokens);
#pragma unroll
    for (int tile = 0; tile < Enc0::kPatchTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) residual.tile[tile][u] = d2[tile][u];
    return calm;
}

// Phase 21 and E21: 16 merged tokens x 64 columns, two planes of 32.
ZRR_DEVICE void merge_and_store(gptr w, gptr planes, uint32_t ex, uint32_t ey, uint32_t x0, uint32_t y0,
                                const Operand (&token)[Enc0::kPatchTiles], const Lane& lane, const Capture& capture) {
    Operand step[4];
    merge_patch(token, lane, step);
    const uint32_t width = ex >> 1, height = ey >> 1;
    const int32_t x = ((int32_t)x0 >> 1) + (int32_t)merged_x(lane.r), y = ((int32_t)y0 >> 1) + (int32_t)merged_y(lane.r);
    const bool inside = (uint32_t)x < width && (uint32_t)y < height;
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
        const Columns seeds = load_columns(w + Enc0::kMergeSeeds + 64 * plane, lane);
        Pairs acc[2] = {seeds.tile[0], seeds.tile[1]};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const WeightBlock weights = load_weights<4>(w + Enc0::kMergeWeights + 4096 * plane + 512 * k, lane);
#pragma unroll
            for (int u = 0; u < 2; ++u) acc[u] = round_tile(multiply(widen(acc[u]), weights.tile[u], step[k]));
        }
        if constexpr (kCapturing)
            for (int u = 0; u < 2; ++u) {
                const uint32_t y = merged_y(lane.r);
                capture.rows<8>(8 * (y >> 1) + 2 * merged_x(lane.r) + (y & 1), u, acc[u], plane);
            }
        float8 wide[2] = {widen(acc[0]), widen(acc[1])};
        begin_saturation(wide[0], wide[1]);
        Operand bytes = {{requantise_stored<kSafe>(wide[0]), requantise_stored<kSafe>(wide[1])}};
        end_saturation(bytes);
        if (inside) store_token(planes, plane * width * height + width * (uint32_t)y + (uint32_t)x, bytes, lane);
    }
}

// Phase 22 and the cut exit: 16 columns per token to the result image.
ZRR_DEVICE void last_projection(gptr w, uint32_t scratch, const Operand (&token)[Enc0::kPatchTiles],
                                const Lane& lane, const Capture& capture) {
    const Operand weights = load_narrow_weights(w + Enc0::kLastWeights, lane);
    const uint32x4 seeds = *global_at<const uint32x4>(w + Enc0::kLastSeeds, 2 * lane.columns);
    const float8 c = widen({as_half2(seeds.x), as_half2(seeds.y), as_half2(seeds.z), as_half2(seeds.w)});
    const uint32_t own = scratch + 32 * tile_token(lane.r, 0) + 16 * lane.h;
#pragma unroll
    for (int tile = 0; tile < Enc0::kPatchTiles; ++tile) {
        const Pairs d = round_tile(multiply(c, weights, token[tile]));
        if constexpr (kCapturing) capture.narrow(tile_token(lane.r, tile), d);
        *lds_at<uint32x4>(own, 1024 * (tile >> 1) + 256 * (tile & 1)) =
            uint32x4{as_bits(d.pair[0]), as_bits(d.pair[1]), as_bits(d.pair[2]), as_bits(d.pair[3])};
    }
    lds_order();
}

// After the last MLP branch: E20 (requantised D20 to the arena, each token guarded by the extents), phases 21 and 22.
ZRR_DEVICE void finish(gptr w, gptr arena, gptr planes, uint32_t ex, uint32_t ey, uint32_t x0, uint32_t y0,
                       uint32_t scratch, WideResidual<Enc0::kPatchTiles>& residual, const Capture& capture) {
    const Lane lane = lane_offsets(fresh_lane_id());
    Operand patch[Enc0::kPatchTiles];
    begin_saturation(residual.tile[0][0], residual.tile[0][1], residual.tile[1][0], residual.tile[1][1],
                     residual.tile[2][0], residual.tile[2][1], residual.tile[3][0], residual.tile[3][1]);
#pragma unroll
    for (int tile = 0; tile < Enc0::kPatchTiles; ++tile)
#pragma unroll
        for (int u = 0; u < 2; ++u) patch[tile].half[u] = requantise_stored<kSafe>(residual.tile[tile][u]);
    end_saturation(patch[0], patch[1], patch[2], patch[3]);
#pragma unroll
    for (int tile = 0; tile < Enc0::kPatchTiles; ++tile) {
        const uint32_t token = tile_token(lane.r, tile);
        const int32_t x = (int32_t)x0 + (int32_t)(token & 7), y = (int32_t)y0 + (int32_t)(token >> 3);
        if ((uint32_t)x < ex && (uint32_t)y < ey) store_token(arena, ex * (uint32_t)y + (uint32_t)x, patch[tile], lane);
    }
    merge_and_store(w, planes, ex, ey, x0, y0, patch, lane, capture.at(Enc0::kCaptureMerge));
    last_projection(w, scratch, patch, lane, capture.at(Enc0::kCaptureLast));
}

struct MlpWeights {
    WeightBlock w1, w2;
    Columns seeds;
};

ZRR_DEVICE MlpWeights load_branch(gptr branch, const Lane& lane) {
    return {load_weights(branch, lane), load_weights(branch + Enc0::kMlpOut, lane),
            load_columns(branch + Enc0::kMlpSeeds, lane)};
}

// The residual's table follows the first branch.
ZRR_DEVICE uint32_t branch_stride(int i) { return i ? Enc0::kMlpStride : Enc0::kMlpStride + 64; }

ZRR_DEVICE void swin_enc0(const uint32_t (&a)[24], gptr w, gptr arena, gptr planes, uint32_t ex, uint32_t ey,
                          uint32_t x0, uint32_t y0, uint32_t scratch, const Capture& capture) {
    const Lane start = lane_offsets(lane_id());
    Operand tokens[Enc0::kTiles];
    load_tokens(scratch, a, start, tokens);
    Residual<Enc0::kPatchTiles> residual;
    const bool calm_tokens = embed(w, start, tokens, residual, capture);

    add_columns(residual, load_columns(w + Enc0::kTable6, local_offsets(start)));
    gptr base = w;
#pragma clang loop unroll(disable)
    for (int i = 0; i < Enc0::kHeads; ++i) {
        const Lane lane = local_offsets(start);
        WeightBlock keys = load_weights(base + Enc0::kKeyWeights, lane);
        WeightBlock values = load_weights(base + Enc0::kValueWeights, lane);
        const bool calm = !kSaturating && calm_tokens && none(two_or_more(keys, values));
        const Capture phase3 = capture.at(Enc0::kCaptureHead + i * Enc0::kCaptureHeadStride);
        const Capture phase4 = phase3.at(Enc0::kAllRows), phase5 = phase4.at(Enc0::kAllRows);
        const Capture phase6 = phase5.at(Enc0::kScores), phase7 = phase6.at(Enc0::kPatchRows);
        Head<Enc0::kTiles> head;
        if (calm) {
            project_head<Requantise::in_range>(head, tokens, keys, values, phase3, phase4);
        } else {
            begin_saturation(keys, values);
            project_head<kSafe>(head, tokens, keys, values, phase3, phase4);
            end_saturation(head);
        }
        Operand attended[Enc0::kPatchTiles];
#pragma unroll
        for (int pair = 0; pair < Enc0::kPatchTiles / 2; ++pair) {
            Operand out[2];
            attend_pair<kSaturating>(head, base + Enc0::kBias, pair, calm, local_offsets(start), out, phase5,
                                      phase6);
            attended[2 * pair] = out[0];
            attended[2 * pair + 1] = out[1];
        }
        project_onto(residual, load_weights(base + Enc0::kOutWeights, local_offsets(start)), attended, phase7);
        base += Enc0::kHeadStride;
    }

    const Lane middle = local_offsets(start);
    Operand patch[Enc0::kPatchTiles];
    const Columns gain = load_columns(w + Enc0::kGain12, middle);
    const Columns table = load_columns(w + Enc0::kTable13, middle);
    const bool bounded_gain = none(beyond(gain, 16.0f));
    const _Float16 energy = norm_tokens(residual.tile, gain, bounded_gain, patch);
    const bool large_values = !(energy <= (_Float16)65504.0f), large_table = long_columns(table);
    bool calm = bounded_gain && none(large_values | large_table);
    add_columns(residual, table);
    WideResidual<Enc0::kPatchTiles> stream = widen(residual);
    // While the weights prove the ranges, without clamps; from the first branch on where they do not, with them.
    int i = 0;
    base = w + Enc0::kMlp;
#pragma clang loop unroll(disable)
    for (; calm && i < Enc0::kBranches; ++i) {
        const MlpWeights branch = load_branch(base, local_offsets(start));
        const bool large_weights = two_or_more(branch.w1, branch.w2), large_seeds = long_columns(branch.seeds);
        calm = none(large_weights | large_seeds);
        if (!calm) break;
        const Capture up = capture.at(Enc0::kCaptureMlp + i * Enc0::kCaptureMlpStride);
        mlp_branch<true>(stream, patch, branch.w1, branch.seeds, branch.w2, up, up.at(Enc0::kPatchRows));
        base += branch_stride(i);
    }
#pragma clang loop unroll(disable)
    for (; i < Enc0::kBranches; ++i) {
        const MlpWeights branch = load_branch(base, local_offsets(start));
        const Capture up = capture.at(Enc0::kCaptureMlp + i * Enc0::kCaptureMlpStride);
        mlp_branch<false>(stream, patch, branch.w1, branch.seeds, branch.w2, up, up.at(Enc0::kPatchRows));
        base += branch_stride(i);
    }

    finish(w, arena, planes, ex, ey, x0, y0, scratch, stream, capture);
}

}  // namespace zrr

ZRR_BODY uint32_t zrr_swin_enc0(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5,
                                uint32_t a6, uint32_t a7, uint32_t a8, uint32_t a9, uint32_t a10, uint32_t a11,
                                uint32_t a12, uint32_t a13, uint32_t a14, uint32_t a15, uint32_t a16, uint32_t a17,
                                uint32_t a18, uint32_t a19, uint32_t a20, uint32_t a21, uint32_t a22, uint32_t a23,
                                uint32_t, uint32_t, uint32_t, uint32_t, uint64_t w, uint64_t arena, uint64_t planes,
                                uint32_t ex, uint32_t ey, uint32_t x0, uint32_t y0,
                                uint32_t scratch ZRR_CAPTURE_PARAMETER) {
    zrr::swin_enc0({a0,  a1,  a2,  a3,  a4,  a5,  a6,  a7,  a8,  a9,  a10, a11,
                    a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23},
                   zrr::global_pointer(w), zrr::global_pointer(arena), zrr::global_pointer(planes), ex, ey, x0, y0,
                   scratch, ZRR_CAPTURE_ARGUMENT);
    return scratch;
}
