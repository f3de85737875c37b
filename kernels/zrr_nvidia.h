// Epilogues in NVIDIA's view of an accumulator, as the staged body needs them after a dcell exchange.
//
// View of kMTiles 16-row tiles x 32 columns: word [m][half][n] is the f16x2 of row 16m + 8*half + g, columns
// 8n + 2t, 8n + 2t + 1.
#pragma once

#include "zrr_staged.h"

namespace zrr {

template <int kMTiles>
struct View {
    uint32_t word[kMTiles][2][4];
};

template <int kMTiles>
struct Fragments {
    uint32_t word[4 * kMTiles];  // register i of m-tile m: [4m + i]
};

// A fragments from a view: word w of a row packs n-tiles w and w + 2; register i is row half i & 1, word i >> 1.
template <int kMTiles>
ZRR_DEVICE Fragments<kMTiles> pack_view(const View<kMTiles>& view) {
    Fragments<kMTiles> packed;
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t(&row)[4] = view.word[m][i & 1];
            packed.word[4 * m + i] =
                requantise<Requantise::exact>(as_half2(row[i >> 1]), as_half2(row[(i >> 1) + 2]));
        }
    return packed;
}

// Value of lane l ^ 1, l ^ 2 (within a quad) and l ^ 4 (within a row of 16 lanes).
template <int kControl>
ZRR_DEVICE uint32_t lane_exchange(uint32_t value) {
    return (uint32_t)__builtin_amdgcn_update_dpp((int)value, (int)value, kControl, 0xf, 0xf, true);
}
constexpr int kLaneXor1 = 0xB1, kLaneXor2 = 0x4E, kLaneXor4 = 0x164;  // quad_perm 1,0,3,2 / 2,3,0,1; row_xmask:4

// RMS norm of every row, `gain` pointing at 32 f16: see norm_tile. The four lanes of a row add by butterfly.
template <int kMTiles>
ZRR_DEVICE void norm_view(View<kMTiles>& view, gptr gain) {
    half2 columns[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) columns[n] = as_half2(*global_at<const uint32_t>(gain + 16 * n, 4 * (lane_id() & 3)));
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            half2 x[4], square[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                x[n] = as_half2(view.word[m][half][n]);
                square[n] = x[n] * x[n];
            }
            half2 sum = (square[0] + square[2]) + (square[1] + square[3]);
            sum = sum + as_half2(lane_exchange<kLaneXor1>(as_bits(sum)));
            sum = sum + as_half2(lane_exchange<kLaneXor2>(as_bits(sum)));
            const _Float16 shifted = (_Float16)(sum.x + sum.y) + (_Float16)0x1p-13f;
            const _Float16 inverse = (_Float16)__builtin_amdgcn_rsqf((float)shifted);
#pragma unroll
            for (int n = 0; n < 4; ++n)
                view.word[m][half][n] = as_bits(x[n] * (half2{inverse, inverse} * columns[n]));
        }
}

// Accumulator tiles (natural token tiles, both weight tiles) to NVIDIA's view through `exchange`, 2048 bytes: four
// tiles, that is two token tiles, at a time. The bytes must be dead; they are again afterwards.
template <int kMTiles>
ZRR_DEVICE View<kMTiles> view_of(uint32_t exchange, const Pairs (&tiles)[kMTiles][2]) {
    static_assert(kMTiles % 2 == 0, "a chunk of the exchange is two token tiles");
    View<kMTiles> view;
#pragma unroll
    for (int first = 0; first < kMTiles; first += 2) {
        lds_order();
#pragma unroll
        for (int u = 0; u < 2; ++u)
#pragma unroll
            for (int m = 0; m < 2; ++m) swin_dcell_write(exchange, 2 * u + m, tiles[first + m][u]);
        lds_order();
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    view.word[first + m][half][n] = swin_dcell_read<RowOrder::direct>(exchange, m, 2, half, n);
    }
    lds_order();
    return view;
}

// 2 x 2 merge of an 8 x 8 patch. packed: A fragments of the 64 tokens, patch row y = 2m + half. step[k]: A fragments of
// 16 merged rows, k = 2 dy + dx. Each pair of words (patch rows y and y + 2) changes places with lane l ^ 4.
ZRR_DEVICE void merge_fragments(const Fragments<4>& packed, Fragments<1> (&step)[4]) {
    const bool upper = (lane_id() & 4) != 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int y = (i & 1) | ((i & 2) << 1), w = i >> 2;
        const uint32_t first = packed.word[4 * (y >> 1) + (y & 1) + 2 * w];
        const uint32_t second = packed.word[4 * ((y + 2) >> 1) + (y & 1) + 2 * w];
        // Both exchanges run in all lanes; only then is one selected.
        const uint32_t other_first = lane_exchange<kLaneXor4>(first), other_second = lane_exchange<kLaneXor4>(second);
        step[2 * (y & 1)].word[(y >> 2) + 2 * w] = upper ? other_second : first;
        step[2 * (y & 1) + 1].word[(y >> 2) + 2 * w] = upper ? second : other_first;
    }
}

}  // namespace zrr
