// zrr_swin_phase: one 48 x 32 x 32 phase with C = 0 on a staged image and prepared slots.
//
// Arguments: a0..a11 A fragments (register i of m-tile m is a[4m + i]), b0..b7 B fragments (word v of 16-column tile
// T is b[4T + v]), `scratch` the shared address of 3200 lent bytes, dead before and after the call:
//
//   0 .. 1535     image, 48 rows of 32 bytes            then  0 .. 3071  result
//   1536 .. 2559  slots, 64 rows of 16 bytes
//
// Returns the shared address of the result image: D register (m, row half, n-tile) of a lane, an f16 pair in NVIDIA's
// layout, is the word at 4 * lane + 128 * (8m + 4 * half + n).
#include "zrr_staged.h"

namespace zrr {

constexpr int kPhaseTokenTiles = 3;
constexpr uint32_t kPhaseSlots = 1536;
static_assert(kPhaseSlots + slots_bytes<32> <= 3200, "image and slots fit the lent bytes");
static_assert(kPhaseTokenTiles * 8 * 128 <= 3200, "the result fits the lent bytes");

// Hand one tile back: token 16m + r, pair p holds slots 8h + 2p and + 1 of weight tile u, that is NVIDIA's lane
// 4(r & 7) + 2h + (p >> 1), row half r >> 3 and n-tile u + 2(p & 1). Pairs p and p + 2 are neighbouring lanes.
ZRR_DEVICE void hand_back(uint32_t result, int m, int u, Pairs tile) {
    const uint32_t l = lane_id(), r = l & 15, h = l >> 4;
    const uint32_t at = result + 16 * (r & 7) + 8 * h + 512 * (r >> 3);
    for (int p = 0; p < 2; ++p)
        *lds_at<uint32x2>(at, 128 * (8 * m + u + 2 * p)) =
            uint32x2{as_bits(tile.pair[p]), as_bits(tile.pair[p + 2])};
}

ZRR_DEVICE void swin_phase_48(const uint32_t (&a)[12], const uint32_t (&b)[8], uint32_t scratch) {
    const uint32_t slots = scratch + kPhaseSlots;
    swin_stage_fragment<kPhaseTokenTiles, 32>(scratch, a);
    swin_slots_from_words<32>(slots, b);
    lds_order();

    Pairs result[kPhaseTokenTiles][2];
    for (int u = 0; u < 2; ++u) {
        const uint32_t column = tile_column<RowOrder::direct>(lane_id() & 15, u);
        const kop a0 = kop_image(slots, column), a1 = kop_image(slots, column + 32);
        for (int m = 0; m < kPhaseTokenTiles; ++m) {
            const kop b0 = swin_operand<32>(scratch, 16 * m, 0), b1 = swin_operand<32>(scratch, 16 * m, 1);
            result[m][u] = round_tile(k32_e4m3(float8{}, a0, b0, a1, b1));
        }
    }
    // The result overlays image and slots: every read of them comes first.
    lds_order();
    for (int m = 0; m < kPhaseTokenTiles; ++m)
        for (int u = 0; u < 2; ++u) hand_back(scratch, m, u, result[m][u]);
    lds_order();
}

}  // namespace zrr

ZRR_BODY uint32_t zrr_swin_phase(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5,
                                 uint32_t a6, uint32_t a7, uint32_t a8, uint32_t a9, uint32_t a10, uint32_t a11,
                                 uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3, uint32_t b4, uint32_t b5,
                                 uint32_t b6, uint32_t b7, uint32_t scratch) {
    // Whatever the lent bytes held before is read before they are written.
    zrr::lds_order();
    zrr::swin_phase_48({a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11}, {b0, b1, b2, b3, b4, b5, b6, b7}, scratch);
    return scratch;
}
