// Capture of accumulators for verification: with ZRR_CAPTURE every product's rounded result is stored to a buffer, in
// NVIDIA's D layout and the order that instrumented PTX uses. Without it all of this is empty and costs nothing.
//
// A phase of N/8 = kN n-tiles: word (m-tile, row half, n-tile) of lane 4g + t at 4 * (32 * ((2m + half) * kN + n) + 4g + t)
// bytes, phases one behind the other (zluda_rr/rewrite/capture.py).
#pragma once

#include "zrr_direct.h"

namespace zrr {

#ifdef ZRR_CAPTURE
constexpr bool kCapturing = true;
// A body's last parameter, and the Capture made of it.
#define ZRR_CAPTURE_PARAMETER , uint64_t capture
#define ZRR_CAPTURE_ARGUMENT {zrr::global_pointer(capture)}
#else
constexpr bool kCapturing = false;
#define ZRR_CAPTURE_PARAMETER
#define ZRR_CAPTURE_ARGUMENT {}
#endif

// Bytes of a phase.
constexpr uint32_t capture_bytes(uint32_t m_tiles, uint32_t n_tiles) { return 256 * m_tiles * n_tiles; }

// Where one phase goes; `base` is unused without ZRR_CAPTURE.
struct Capture {
    gptr base;

    __attribute__((device, always_inline)) Capture at(uint32_t bytes) const {
        if constexpr (kCapturing) return {base + bytes};
        return *this;
    }

    // Lane r holds row `row`, VGPR i column direct_column(8h + i, u) of block `block` (32 columns).
    template <int kN>
    __attribute__((device, always_inline)) void rows(uint32_t row, int u, const Pairs& d, int block = 0) const {
        if constexpr (kCapturing) {
            const uint32_t h = lane_id() >> 4;
#pragma unroll
            for (int p = 0; p < 4; ++p) word<kN>(row, 4 * block + 2 * (p & 1) + u, (p >> 1) + 2 * h, as_bits(d.pair[p]));
        }
    }

    // Lane r holds row `row`, VGPR i column 8h + i.
    __attribute__((device, always_inline)) void narrow(uint32_t row, const Pairs& d) const {
        if constexpr (kCapturing) {
#pragma unroll
            for (int p = 0; p < 4; ++p) word<2>(row, lane_id() >> 4, p, as_bits(d.pair[p]));
        }
    }

    // Scores: lane r holds query `row`, VGPR i the key of slot 8h + i in key tile `tile`.
    __attribute__((device, always_inline)) void scores(uint32_t row, int tile, const Pairs& d) const {
        if constexpr (kCapturing) {
#pragma unroll
            for (int p = 0; p < 4; ++p) {
                const uint32_t key = tile_token(8 * (lane_id() >> 4) + 2 * p, tile);
                word<12>(row, key >> 3, (key & 7) >> 1, as_bits(d.pair[p]));
            }
        }
    }

    // Values: lane r holds column direct_column(r, u), VGPR i the token of slot 8h + i in token tile `tile`.
    __attribute__((device, always_inline)) void columns(int tile, int u, const Pairs& d) const {
        if constexpr (kCapturing) {
            const uint32_t column = tile_token(lane_id() & 15, u);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const uint32_t row = tile_token(8 * (lane_id() >> 4) + i, tile), bits = as_bits(d.pair[i >> 1]);
                *global_at<uint16_t>(base, place<4>(row, column >> 3, (column & 7) >> 1) + 2 * (column & 1)) =
                    (uint16_t)(i & 1 ? bits >> 16 : bits);
            }
        }
    }

private:
    template <int kN>
    __attribute__((device, always_inline)) static uint32_t place(uint32_t row, uint32_t n, uint32_t t) {
        return 4 * (32 * ((2 * (row >> 4) + ((row >> 3) & 1)) * kN + n) + 4 * (row & 7) + t);
    }
    template <int kN>
    __attribute__((device, always_inline)) void word(uint32_t row, uint32_t n, uint32_t t, uint32_t bits) const {
        *global_at<uint32_t>(base, place<kN>(row, n, t)) = bits;
    }
};

}  // namespace zrr
