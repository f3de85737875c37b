// Layer enc0 as data: shapes, and byte offsets in its weight image. B blocks are 1024 bytes (32 x 32) where nothing
// else is said; per-column vectors hold one f16 per column.
#pragma once

#include "zrr_capture.h"

namespace zrr {

struct Enc0 {
    static constexpr int kTiles = 6;         // 96 rows: patch and halo
    static constexpr int kPatchTiles = 4;    // 64 rows: the patch
    static constexpr int kHeads = 2, kBranches = 4;
    // Phases 1 and 2, norm of phase 2.
    static constexpr uint32_t kW1 = 4096, kSeeds1 = 5120, kW2 = 5184, kSeeds2 = 6208, kGain2 = 6272;
    // Head i: everything lies i * kHeadStride further. Phases 3, 4, 5 (bias), 7 and 8, 9, 10, 12.
    static constexpr uint32_t kKeyWeights = 6336, kValueWeights = 7360, kBias = 8384, kOutWeights = 20672;
    static constexpr uint32_t kHeadStride = 15360;
    static constexpr uint32_t kTable6 = 37056, kGain12 = 37120;
    // MLP branch i: {W1 1024, seeds 64, W2 1024}; behind the first one stands the residual's table.
    static constexpr uint32_t kMlp = 37184, kMlpSeeds = 1024, kMlpOut = 1088, kMlpStride = 2112, kTable13 = 39296;
    // Phase 21: 64 columns x 4 k steps, k steps innermost. Phase 22: 16 columns.
    static constexpr uint32_t kMergeWeights = 45696, kMergeSeeds = 53888, kLastWeights = 54016, kLastSeeds = 54528;
    // Captured phases: 96 and 64 rows of 32 columns, scores. A head is phases 3 to 7, a branch two of 64 rows.
    static constexpr uint32_t kAllRows = capture_bytes(6, 4), kPatchRows = capture_bytes(4, 4), kScores = capture_bytes(4, 12);
    static constexpr uint32_t kCaptureHead = 2 * kAllRows, kCaptureHeadStride = 2 * kAllRows + kScores + 2 * kPatchRows;
    static constexpr uint32_t kCaptureMlp = kCaptureHead + 2 * kCaptureHeadStride, kCaptureMlpStride = 2 * kPatchRows;
    static constexpr uint32_t kCaptureMerge = kCaptureMlp + 4 * kCaptureMlpStride;
    static constexpr uint32_t kCaptureLast = kCaptureMerge + capture_bytes(1, 8);
};

}  // namespace zrr
