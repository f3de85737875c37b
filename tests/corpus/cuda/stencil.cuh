// The last epilogue: softmax-weighted 3x3 stencil with two sigmoid gates and three surface stores
// (seed 001 E32, rr-details.md 1-7).
#pragma once

#include "fragments.cuh"

namespace rr {

/// Sixteen logits of one token per lane, from the tiles of 64 rows: lane l of pass p gets token 32p + l.
/// pair[k] holds columns 2k, 2k + 1 for k < 4; pair[4], pair[5] columns 8..11 (12..15 are not needed).
__device__ __forceinline__ void gather_logits(u32 (&pair)[6], const Tile<4, 2>& d, int pass) {
    const u32 lane = lane_id();
    const u32 column = lane & 7, block = lane >> 3, t = lane & 3;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        // Row block b of the pass is row half b & 1 of m-tile 2*pass + (b >> 1).
        const u32 d0 = d.r[2 * pass][n][0], d1 = d.r[2 * pass][n][1];
        const u32 d2 = d.r[2 * pass + 1][n][0], d3 = d.r[2 * pass + 1][n][1];
        u32 got[4];
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const u32 want = (t - step) & 3;
            const u32 offered = want == 0 ? d0 : want == 1 ? d1 : want == 2 ? d2 : d3;
            const u32 source = (column << 2) | ((block + step) & 3);
            got[step] = __shfl_sync(0xffffffffu, offered, source);
        }
#pragma unroll
        for (int k = 0; k < (n == 0 ? 4 : 2); ++k) {
            const u32 step = (k - block) & 3;
            pair[4 * n + k] = step == 0 ? got[0] : step == 1 ? got[1] : step == 2 ? got[2] : got[3];
        }
    }
}

__device__ __forceinline__ __half sigmoid(__half x) {
    return __float2half(__fdividef(1.0f, 1.0f + __expf(-__half2float(x))));
}

/// Weights of the nine taps in five registers: f32 softmax of the f16 differences to the maximum, each rounded to f16.
__device__ __forceinline__ void tap_weights(__half2 (&p)[5], const u32 (&pair)[6]) {
    const __half2 top2 = __hmax2(__hmax2(__hmax2(as_half2(pair[0]), as_half2(pair[1])), as_half2(pair[2])),
                                 as_half2(pair[3]));
    const __half top = __hmax(__hmax(top2.x, top2.y), as_half2(pair[4]).x);
    float e[9];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        const __half2 d = __hsub2(as_half2(pair[i]), __half2(top, top));
        e[2 * i] = __expf(__half2float(d.x));
        if (i < 4) e[2 * i + 1] = __expf(__half2float(d.y));
    }
    sum = e[0];
#pragma unroll
    for (int i = 1; i < 9; ++i) sum += e[i];
    const __half inv = __float2half(__fdividef(1.0f, sum));
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        // The ninth weight has no partner: nobody reads the high half of the fifth register.
        const __half2 pair_e = __half2(__float2half(e[2 * i]), __float2half(e[i < 4 ? 2 * i + 1 : 8]));
        p[i] = __hmul2(pair_e, __half2(inv, inv));
    }
}

struct Colour {
    __half c[3];
};

/// Nine taps in raster order, dy slow: pairs of taps in f16x2, then low + high, then the ninth.
template <class Taps>
__device__ __forceinline__ Colour stencil(const Taps& taps, const __half2 (&p)[5]) {
    ushort4 v[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) v[k] = taps(k / 3, k % 3);
    Colour out;
#pragma unroll
    for (int ch = 0; ch < 3; ++ch) {
        const auto value = [&](int k) {
            return __ushort_as_half(ch == 0 ? v[k].x : ch == 1 ? v[k].y : v[k].z);
        };
        __half2 acc = __half2(__ushort_as_half(0), __ushort_as_half(0));
#pragma unroll
        for (int i = 0; i < 4; ++i) acc = __hfma2(__half2(value(2 * i), value(2 * i + 1)), p[i], acc);
        out.c[ch] = __hfma(value(8), p[4].x, __hadd(acc.x, acc.y));
    }
    return out;
}

struct Surfaces {
    cudaSurfaceObject_t remainder;  // s - G*s, fourth channel G*H
    cudaSurfaceObject_t gated;      // G*s, fourth channel H
    cudaSurfaceObject_t half_size;  // mean of the remainder over 2x2 tokens, fourth channel 0
};

__device__ __forceinline__ ushort4 texel(__half a, __half b, __half c, __half d) {
    return make_ushort4(__half_as_ushort(a), __half_as_ushort(b), __half_as_ushort(c), __half_as_ushort(d));
}

/// One pass: 32 tokens, thread l is token 32*pass + l of the patch. Shuffles run in all lanes, stores only inside the extents.
template <class Taps>
__device__ __forceinline__ void stencil_pass(const Tile<4, 2>& d, const Taps& taps_of, int pass, int thread, int x0,
                                             int y0, uint2 extents, const Surfaces& out) {
    u32 pair[6];
    gather_logits(pair, d, pass);
    const int token = thread + 32 * pass;
    const int lx = token % 8, ly = token / 8;
    const int x = x0 + lx, y = y0 + ly;
    __half2 p[5];
    const __half gate = sigmoid(as_half2(pair[4]).y);
    tap_weights(p, pair);
    const Colour s = stencil([&](int dy, int dx) { return taps_of(lx, ly, dy, dx); }, p);
    const __half opacity = sigmoid(as_half2(pair[5]).x);
    Colour gated, rest;
#pragma unroll
    for (int ch = 0; ch < 3; ++ch) gated.c[ch] = __hmul(gate, s.c[ch]);
#pragma unroll
    for (int ch = 0; ch < 3; ++ch) rest.c[ch] = __hsub(s.c[ch], gated.c[ch]);
    const __half quarter = __float2half(0.25f);
    __half2 mean2 = __hmul2(__half2(quarter, quarter), __half2(rest.c[0], rest.c[1]));
    __half mean = __hmul(quarter, rest.c[2]);
    mean2 = __hadd2(mean2, __shfl_down_sync(0xffffffffu, mean2, 1));
    mean2 = __hadd2(mean2, __shfl_down_sync(0xffffffffu, mean2, 8));
    mean = __hadd(mean, __shfl_down_sync(0xffffffffu, mean, 1));
    mean = __hadd(mean, __shfl_down_sync(0xffffffffu, mean, 8));
    const __half both = __hmul(gate, opacity);
    if (static_cast<u32>(x) >= extents.x || static_cast<u32>(y) >= extents.y) return;
    surf2Dwrite(texel(rest.c[0], rest.c[1], rest.c[2], both), out.remainder, 8 * x, y, cudaBoundaryModeZero);
    surf2Dwrite(texel(gated.c[0], gated.c[1], gated.c[2], opacity), out.gated, 8 * x, y, cudaBoundaryModeZero);
    if (((x | y) & 1) == 0) {
        surf2Dwrite(texel(mean2.x, mean2.y, mean, __ushort_as_half(0)), out.half_size, 8 * (x >> 1), y >> 1,
                    cudaBoundaryModeZero);
    }
}

}  // namespace rr
