// Staged images and prepared slots in shared memory: the engine's way across lanes.
//
//   image    row = token, `kStride` bytes per row, e4m3 bytes in slot order (zrr/layout: staged_offset)
//   slots    (n_rows * (s >> 4) + n) * 16 + (s & 15) for column n, slot s: one 16-byte row per WMMA half
//   exchange 128 words per accumulator tile, lane-major: word 4 * lane + pair
//
// K is always counted in slots: the order of NVIDIA's fragments, which is also the order in which the two WMMAs
// of a step add. Weight tiles have their rows in `direct` order (row r of tile u is the column whose logical k
// stands in slot 16u + r), so that accumulators are staged in order; `narrow` order (row = column) serves blocks
// of 16 columns. No function here synchronises: order accesses with lds_order() between writers and readers.
#pragma once

#include "zrr_wmma.h"

namespace zrr {

enum class RowOrder { direct, narrow };

// Column of row r of weight tile `tile` within its block.
template <RowOrder kOrder>
ZRR_DEVICE uint32_t tile_column(uint32_t r, uint32_t tile) {
    if constexpr (kOrder == RowOrder::narrow) return r + 16 * tile;
    return 2 * (r >> 2) + (r & 1) + 16 * ((r >> 1) & 1) + 8 * (tile & 1) + 32 * (tile >> 1);
}

// Bytes of the slots of a 32-deep block of kRows columns.
template <int kRows>
constexpr uint32_t slots_bytes = 32 * kRows;

// Scatter B words that a lane holds (NVIDIA's fragments: word v of 16-column tile T is column 16T + g + 8(v>>1),
// slots 4t + 16(v&1) ..+3) into slots. words[4T + v].
template <int kRows>
ZRR_DEVICE void swin_slots_from_words(uint32_t slots, const uint32_t (&words)[kRows / 4]) {
    static_assert(kRows % 16 == 0, "a weight block has whole 16-column tiles");
    const uint32_t l = lane_id(), g = l >> 2, t = l & 3;
#pragma unroll
    for (int tile = 0; tile < kRows / 16; ++tile)
#pragma unroll
        for (int v = 0; v < 4; ++v)
            *lds_at<uint32_t>(slots + 16 * g + 4 * t,
                              (kRows * (v & 1) + 16 * tile + 8 * (v >> 1)) * 16) = words[4 * tile + v];
}

// Slots of the block at w + base of the weight image: one 16-byte load per lane and 16-column tile. Where a layer has
// more than one k step, the steps of a 16-column group are consecutive tiles: kSteps tiles lie between the groups.
template <int kRows, int kSteps = 1>
ZRR_DEVICE void swin_slots_from_wimg(uint32_t slots, gptr w, uint32_t base) {
    uint32_t words[kRows / 4];
#pragma unroll
    for (int tile = 0; tile < kRows / 16; ++tile) {
        const uint32x4 row = *global_at<const uint32x4>(w + base + 512 * kSteps * tile, 16 * lane_id());
        for (int v = 0; v < 4; ++v) words[4 * tile + v] = row[v];
    }
    swin_slots_from_words<kRows>(slots, words);
}

// WMMA operand from prepared slots: row `index` = column (+ kRows for the second WMMA), this half-wave's bytes.
ZRR_DEVICE kop kop_image(uint32_t slots, uint32_t index) {
    const uint32x2 bytes = *lds_at<const uint32x2>(slots + 16 * index + 8 * (lane_id() >> 4));
    return {{bytes.x, bytes.y}};
}

// WMMA operand from a staged image: this lane's token `row`, slots 16w + 8h ..+7.
template <int kStride>
ZRR_DEVICE kop swin_row_operand(uint32_t image, uint32_t row, uint32_t w) {
    static_assert(kStride % 8 == 0, "an operand is one aligned 8-byte read");
    const uint32x2 bytes = *lds_at<const uint32x2>(image + kStride * row + 8 * (lane_id() >> 4), 16 * w);
    return {{bytes.x, bytes.y}};
}

// The same with lane r's token = row_base + r.
template <int kStride>
ZRR_DEVICE kop swin_operand(uint32_t image, uint32_t row_base, uint32_t w) {
    return swin_row_operand<kStride>(image + kStride * row_base, lane_id() & 15, w);
}

// Stage A fragments: register i of m-tile m (frag[4m + i]) is row 16m + g + 8(i&1), slots 4t + 16(i>>1) ..+3.
template <int kMTiles, int kStride>
ZRR_DEVICE void swin_stage_fragment(uint32_t image, const uint32_t* frag) {
    static_assert(kStride % 4 == 0, "fragment words are aligned");
    const uint32_t l = lane_id(), g = l >> 2, t = l & 3;
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            *lds_at<uint32_t>(image + kStride * g + 4 * t,
                              kStride * (16 * m + 8 * (i & 1)) + 16 * (i >> 1)) = frag[4 * m + i];
}

enum class StageMode { plain = 0, relu = 1, activate = 2 };

// Stage eight operand bytes of this lane's token `row` as slots 16*chunk + 8h ..+7.
template <int kStride>
ZRR_DEVICE void swin_stage_bytes(uint32_t image, uint32_t row, uint32_t chunk, kop bytes) {
    static_assert(kStride % 8 == 0, "eight bytes are stored at once");
    *lds_at<uint32x2>(image + kStride * row + 8 * (lane_id() >> 4), 16 * chunk) =
        uint32x2{bytes.word[0], bytes.word[1]};
}

// Stage one accumulator tile as the next operand of this lane's token `row`: bytes 16*chunk + 8h + i are e4m3 of the
// transformed half i. `chunk` is the weight tile (direct row order).
template <StageMode kMode, int kStride>
ZRR_DEVICE void swin_stage_row_p(uint32_t image, uint32_t row, uint32_t chunk, Pairs tile) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        if constexpr (kMode == StageMode::relu) tile.pair[p] = relu_keep_nan(tile.pair[p]);
        if constexpr (kMode == StageMode::activate) tile.pair[p] = activation(tile.pair[p]);
    }
    swin_stage_bytes<kStride>(image, row, chunk,
                              {{requantise<Requantise::exact>(tile.pair[0], tile.pair[1]),
                                requantise<Requantise::exact>(tile.pair[2], tile.pair[3])}});
}

// The same with lane r's token = row_base + r.
template <StageMode kMode, int kStride>
ZRR_DEVICE void swin_stage_operand_p(uint32_t image, uint32_t row_base, uint32_t chunk, Pairs tile) {
    swin_stage_row_p<kMode, kStride>(image + kStride * row_base, lane_id() & 15, chunk, tile);
}

// Exchange of accumulator tiles into NVIDIA's D view, writer: this lane's four pairs of tile `tile`.
ZRR_DEVICE void swin_dcell_write(uint32_t exchange, uint32_t tile, Pairs pairs) {
    const uint32x4 words = {as_bits(pairs.pair[0]), as_bits(pairs.pair[1]), as_bits(pairs.pair[2]),
                            as_bits(pairs.pair[3])};
    *lds_at<uint32x4>(exchange + 16 * lane_id(), 512 * tile) = words;
}

// Reader: D register (row_half, n_tile) of the 16-token tile whose weight tile 0 stands at `tile` and whose
// following weight tiles stand kTileStep tiles apart. Columns 8 * n_tile + 2t + {0, 1}, row 8 * row_half + g.
template <RowOrder kOrder>
ZRR_DEVICE uint32_t swin_dcell_read(uint32_t exchange, uint32_t tile, uint32_t tile_step, uint32_t row_half,
                                    uint32_t n_tile) {
    const uint32_t l = lane_id(), g = l >> 2, t = l & 3;
    if constexpr (kOrder == RowOrder::narrow)
        return *lds_at<const uint32_t>(exchange + 16 * g + 4 * t,
                                       512 * (tile + (n_tile >> 1) * tile_step) + 128 * row_half + 256 * (n_tile & 1));
    return *lds_at<const uint32_t>(exchange + 16 * g + 256 * (t >> 1) + 8 * (t & 1),
                                   512 * (tile + (n_tile & 1) * tile_step) + 128 * row_half + 4 * (n_tile >> 1));
}

}  // namespace zrr
