// The layer enc0 once more, by another hand: written from docs/reference and rules/ alone, not from ../cuda. What it
// computes is the same to the bit up to the surfaces; how it is written differs wherever it can. Strips of 16 tokens go
// through attention and through the MLP one after the other, columns are the outer loop of a product, the prologue is a
// loop, helpers are plain C++ over cuda_fp16.h and cuda_fp8.h, and only instructions without an intrinsic are assembly.
//
// SECOND_UNSIGNED  bounds as unsigned comparisons, indices as size_t     (else signed: five tests, the index is an int)
// SECOND_STORE     0: u32, 1: v2.u16, 2: two u16
// SECOND_LANEID    the lane from %laneid                                 (else threadIdx.x)
// SECOND_SWAP      one exchange per merged pair, both directions at once (else one per direction)
// SECOND_HALVES    the merged origin from halved block and shift         (else the origin, divided by two)
// SECOND_TOGETHER  keys and values of a strip computed together          (else all keys, then all values)
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#ifndef SECOND_STORE
#define SECOND_STORE 0
#endif
#define INLINE __device__ __forceinline__

typedef unsigned int u32;
typedef unsigned short u16;

struct DldnEngineFusedSwinEnc0ParamsStruct {
    u32 width, height;
    unsigned char unused0[32];
    const unsigned char* weights;
    u32* arena;
    u32* merged;
    unsigned char unused1[16];
    u16 shift[2];
    unsigned char unused2[28];
    cudaSurfaceObject_t blend, gate, half_size;
    unsigned char unused3[168];
    cudaSurfaceObject_t color;
    unsigned char unused4[720];
};
static_assert(sizeof(DldnEngineFusedSwinEnc0ParamsStruct) == 1032, "parameter block");
typedef DldnEngineFusedSwinEnc0ParamsStruct Params;

// ---------------------------------------------------------------------------------------------------------- words

INLINE __half2 as_half2(u32 word) { return reinterpret_cast<const __half2&>(word); }
INLINE u32 as_word(__half2 pair) { return reinterpret_cast<const u32&>(pair); }
INLINE __half2 both(u16 bits) { return __half2half2(__ushort_as_half(bits)); }

// One 16x8 tile of a product: columns 2t, 2t + 1 of row g and of row g + 8.
struct Tile {
    u32 row[2];
    INLINE __half2 at(int half) const { return as_half2(row[half]); }
};

// One 16x32 operand.
struct Strip {
    u32 word[4];
};

struct Plain {
    static INLINE u32 bytes(u32 pair) {
        const __half2 value = as_half2(pair);
        return __nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(value), __NV_SATFINITE, __NV_E4M3);
    }
};

struct Rectified {
    static INLINE u32 bytes(u32 pair) {
        u16 two;
        asm("cvt.rn.satfinite.relu.e4m3x2.f16x2 %0, %1;" : "=h"(two) : "r"(pair));
        return two;
    }
};

template <class How> INLINE u32 pack(u32 first, u32 second) { return How::bytes(second) << 16 | How::bytes(first); }

INLINE u32 transposed(u32 word) {
    u32 result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
    return result;
}

INLINE void accumulate(Tile& tile, const Strip& a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(tile.row[0]), "+r"(tile.row[1])
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b0), "r"(b1));
}

// ---------------------------------------------------------------------------------------------------------- weights

struct Image {
    const unsigned char* base;
    u32 lane;

    INLINE uint4 slot(int at) const { return reinterpret_cast<const uint4*>(base + at)[lane]; }
    INLINE u32 column(int at, int tile) const { return reinterpret_cast<const u32*>(base + at)[4 * tile + (lane & 3)]; }

    template <int TILES> INLINE void seed(Tile (&tiles)[TILES], int at) const {
#pragma unroll
        for (int n = 0; n < TILES; ++n) tiles[n].row[0] = tiles[n].row[1] = column(at, n);
    }
};

template <int TILES> INLINE void clear(Tile (&tiles)[TILES]) {
#pragma unroll
    for (int n = 0; n < TILES; ++n) tiles[n].row[0] = tiles[n].row[1] = 0;
}

// Sixteen rows times a matrix of 32 * STEPS by 8 * TILES.
template <int TILES, int STEPS>
INLINE void multiply(Tile (&tiles)[TILES], const Strip (&a)[STEPS], const Image& image, int at) {
#pragma unroll
    for (int group = 0; group < TILES / 2; ++group) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const uint4 b = image.slot(at + 512 * (STEPS * group + step));
            accumulate(tiles[2 * group + 1], a[step], b.z, b.w);
            accumulate(tiles[2 * group], a[step], b.x, b.y);
        }
    }
}

template <int TILES> INLINE void multiply(Tile (&tiles)[TILES], const Strip& a, const Image& image, int at) {
    const Strip one[1] = {a};
    multiply<TILES, 1>(tiles, one, image, at);
}

// ---------------------------------------------------------------------------------------------------------- rows

template <class How> INLINE Strip packed(const Tile* tiles) {
    Strip strip;
#pragma unroll
    for (int i = 0; i < 4; ++i) strip.word[i] = pack<How>(tiles[i >> 1].row[i & 1], tiles[(i >> 1) + 2].row[i & 1]);
    return strip;
}

template <int TILES> INLINE __half2 every_other(const __half2 (&x)[TILES], int first) {
    __half2 total = x[first] + x[first + 2];
#pragma unroll
    for (int n = first + 4; n < TILES; n += 4) total = total + (x[n] + x[n + 2]);
    return total;
}

template <int TILES> INLINE __half row_sum(const __half2 (&x)[TILES]) {
    __half2 total = every_other(x, 0) + every_other(x, 1);
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) total = total + __shfl_xor_sync(0xffffffffu, total, distance);
    return __low2half(total) + __high2half(total);
}

INLINE void normalise(Tile (&out)[4], const Tile (&in)[4], const Image& image, int gain) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        __half2 squares[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) squares[n] = in[n].at(half) * in[n].at(half);
        const __half2 scale = __half2half2(hrsqrt(row_sum(squares) + __ushort_as_half(0x0800)));
#pragma unroll
        for (int n = 0; n < 4; ++n)
            out[n].row[half] = as_word(in[n].at(half) * (scale * as_half2(image.column(gain, n))));
    }
}

INLINE u32 exponent(u32 score) {
    const __half2 bound = both(0x3873);
    const __half2 m = __hmin2(__hmax2(as_half2(score) * both(0x2466), __hneg2(bound)), bound);
    const __half2 u = __hfma2(m, __hfma2(__hneg2(m), m, both(0x3b6b)), both(0x3d80));
    return (as_word(u) << 5) & 0x7fe07fe0u;
}

INLINE void softmax(Tile (&score)[12]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        __half2 e[12];
#pragma unroll
        for (int n = 0; n < 12; ++n) e[n] = as_half2(exponent(score[n].row[half]));
        const __half2 inverse = __half2half2(hrcp(row_sum(e)));
#pragma unroll
        for (int n = 0; n < 12; ++n) score[n].row[half] = as_word(inverse * e[n]);
    }
}

INLINE u32 activation(u32 word) {
    const __half2 x = as_half2(word), limit = both(0x4000);
    const __half2 y = __hmin2(limit, __hmax2(__hneg2(limit), x));
    const __half2 slope = both(0x3698) - __habs2(y) * both(0x2d30);
    return as_word((slope * y + both(0x3800)) * x);
}

template <int TILES> INLINE void activate(Tile (&tiles)[TILES]) {
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
        tiles[n].row[0] = activation(tiles[n].row[0]);
        tiles[n].row[1] = activation(tiles[n].row[1]);
    }
}

INLINE void add_table(Tile (&out)[4], const Tile (&in)[4], const Image& image, int table) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const __half2 t = as_half2(image.column(table, n));
        out[n].row[0] = as_word(t + in[n].at(0));
        out[n].row[1] = as_word(t + in[n].at(1));
    }
}

// ---------------------------------------------------------------------------------------------------------- attention

struct Head {
    u32 key[12][2];       // B operand of the scores, by tile of eight keys
    u32 value[3][4][2];   // B operand of the weighted sum, by step of 32 keys and tile of eight channels
    Strip query[4];

    INLINE void take_keys(const Tile (&tiles)[4], int m) {
        const Strip strip = packed<Plain>(tiles);
        key[2 * m][0] = strip.word[0];
        key[2 * m][1] = strip.word[2];
        key[2 * m + 1][0] = strip.word[1];
        key[2 * m + 1][1] = strip.word[3];
        if (m < 4) query[m] = strip;
    }

    INLINE void take_values(const Tile (&lower)[4], const Tile (&upper)[4], int step) {
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int w = 0; w < 2; ++w)
                value[step][n][w] = pack<Plain>(transposed(lower[n].row[w]), transposed(upper[n].row[w]));
    }
};

INLINE void project(Head& head, const Strip (&tokens)[6], const Image& image, int keys, int values) {
    Tile v[6][4];
#ifdef SECOND_TOGETHER
#pragma unroll
    for (int m = 0; m < 6; ++m) {
        Tile k[4];
        clear(k);
        clear(v[m]);
        multiply(k, tokens[m], image, keys);
        multiply(v[m], tokens[m], image, values);
        head.take_keys(k, m);
    }
#else
    Tile k[6][4];
#pragma unroll
    for (int m = 5; m >= 0; --m) {
        clear(k[m]);
        multiply(k[m], tokens[m], image, keys);
    }
#pragma unroll
    for (int m = 0; m < 6; ++m) head.take_keys(k[m], m);
#pragma unroll
    for (int m = 0; m < 6; ++m) {
        clear(v[m]);
        multiply(v[m], tokens[m], image, values);
    }
#endif
#pragma unroll
    for (int step = 0; step < 3; ++step) head.take_values(v[2 * step], v[2 * step + 1], step);
}

// What 16 queries of a head add to their residual.
INLINE void attend(Tile (&residual)[4], const Head& head, int m, const Image& image, int bias, int out) {
    Tile score[12], sum[4];
#pragma unroll
    for (int group = 0; group < 6; ++group) {
        const uint4 seed = image.slot(bias + 512 * (4 * group + m));
        score[2 * group] = Tile{{seed.x, seed.y}};
        score[2 * group + 1] = Tile{{seed.z, seed.w}};
    }
#pragma unroll
    for (int n = 0; n < 12; ++n) accumulate(score[n], head.query[m], head.key[n][0], head.key[n][1]);
    softmax(score);
    clear(sum);
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const Strip p = packed<Plain>(score + 4 * step);
#pragma unroll
        for (int n = 0; n < 4; ++n) accumulate(sum[n], p, head.value[step][n][0], head.value[step][n][1]);
    }
    multiply(residual, packed<Plain>(sum), image, out);
}

// ---------------------------------------------------------------------------------------------------------- stores

INLINE void put(u32* buffer, size_t index, u32 word) {
#if SECOND_STORE == 0
    buffer[index] = word;
#elif SECOND_STORE == 1
    reinterpret_cast<ushort2*>(buffer)[index] = make_ushort2(word & 0xffff, word >> 16);
#else
    volatile u16* halves = reinterpret_cast<u16*>(buffer) + 2 * index;
    halves[1] = static_cast<u16>(word >> 16);
    halves[0] = static_cast<u16>(word);
#endif
}

// Words of a token at (x, y) in planes of eight words per token.
template <int PLANES>
INLINE void put_token(u32* buffer, int x, int y, u32 width, u32 height, u32 t, const u32 (&words)[PLANES][2]) {
#ifdef SECOND_UNSIGNED
    if (static_cast<u32>(y) >= height || static_cast<u32>(x) >= width) return;
    const size_t token = static_cast<size_t>(static_cast<u32>(y)) * width + static_cast<u32>(x);
    const size_t plane = static_cast<size_t>(width) * height;
#pragma unroll
    for (int p = 0; p < PLANES; ++p) {
        put(buffer, 8 * (p * plane + token) + t, words[p][0]);
        put(buffer, 8 * (p * plane + token) + t + 4, words[p][1]);
    }
#else
    const bool inside = x >= 0 && y >= 0 && x < static_cast<int>(width) && y < static_cast<int>(height);
    const int index = inside ? (static_cast<int>(width) * y + x) * 8 + static_cast<int>(t) : -1;
    const int plane = 8 * static_cast<int>(width) * static_cast<int>(height);
    if (index >= 0) {
#pragma unroll
        for (int p = 0; p < PLANES; ++p) {
            put(buffer, index + plane * p, words[p][0]);
            put(buffer, index + plane * p + 4, words[p][1]);
        }
    }
#endif
}

// ---------------------------------------------------------------------------------------------------------- prologue

INLINE int mirrored(int v, int extent) {
    if (v < 0) v = -v;
    if (v >= extent) v = 2 * extent - 2 - v;
    return min(max(v, 0), extent - 1);
}

INLINE __half feature(const __half (&c)[4], int k, const unsigned char* weights) {
    const __half* w = reinterpret_cast<const __half*>(weights + 8 * k);
    const __half value = __hfma(c[k & 3], w[0], w[1]) + w[2] * __habs(c[(k + 1) & 3]);
    return __hmin(__hmax(value, __ushort_as_half(0xc800)), __ushort_as_half(0x4800));
}

INLINE void stage(u32 (*tokens)[8], ushort4* colors, const Params& params, int x0, int y0, int lane) {
#pragma unroll 1
    for (int cell = lane; cell < 100; cell += 32) {
        const int x = mirrored(x0 - 1 + cell % 10, params.width), y = mirrored(y0 - 1 + cell / 10, params.height);
        const ushort4 texel = surf2Dread<ushort4>(params.color, 8 * x, y, cudaBoundaryModeZero);
        const __half c[4] = {__ushort_as_half(texel.x), __ushort_as_half(texel.y), __ushort_as_half(texel.z),
                             __ushort_as_half(texel.w)};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int k = 2 * (i & 3) + 8 * (i >> 2);   // word 4w + t: slots 16w + 4t and on
            const __half2 first(feature(c, k, params.weights), feature(c, k + 1, params.weights));
            const __half2 second(feature(c, k + 16, params.weights), feature(c, k + 17, params.weights));
            tokens[cell][i] = pack<Plain>(as_word(first), as_word(second));
        }
        colors[cell] = make_ushort4(texel.x, texel.y, texel.z, 0);
    }
}

// The grid cell of a row: the patch by rows, then the ring, top, bottom, left, right.
INLINE u32 cell_of(int row, u32 g) {
    if (row < 64) return 10 * (row / 8 + 1) + g + 1;
    if (row < 72) return g + 1;
    if (row < 80) return 90 + g + 1;
    return 10 * (g + 1) + (row < 88 ? 0 : 9);
}

// ---------------------------------------------------------------------------------------------------------- epilogue

INLINE __half sigmoid(__half x) {
    return __float2half_rn(__fdividef(1.0f, 1.0f + __expf(-__half2float(x))));
}

struct Logits {
    __half value[12];

    // The sixteen columns of a lane's own token from the four lanes of its row.
    INLINE void gather(const Tile (&d)[4][2], int pass, u32 lane) {
#pragma unroll
        for (int pair = 0; pair < 6; ++pair) {
            const int n = pair >> 2, source = 4 * (lane & 7) + (pair & 3);
            u32 mine = 0;
#pragma unroll
            for (u32 block = 0; block < 4; ++block) {
                const u32 word = __shfl_sync(0xffffffffu, d[2 * pass + (block >> 1)][n].row[block & 1], source);
                mine = (lane >> 3) == block ? word : mine;
            }
            value[2 * pair] = __low2half(as_half2(mine));
            value[2 * pair + 1] = __high2half(as_half2(mine));
        }
    }

    INLINE void softmax(__half (&p)[9]) const {
        __half top = value[0];
#pragma unroll
        for (int k = 1; k < 9; ++k) top = __hmax(top, value[k]);
        float e[9], sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 9; ++k) e[k] = __expf(__half2float(value[k] - top));
        sum = e[0];
#pragma unroll
        for (int k = 1; k < 9; ++k) sum += e[k];
        const __half inverse = __float2half_rn(__fdividef(1.0f, sum));
#pragma unroll
        for (int k = 0; k < 9; ++k) p[k] = __float2half_rn(e[k]) * inverse;
    }
};

INLINE __half filtered(const ushort4* colors, u32 corner, int channel, const __half (&p)[9]) {
    __half taps[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        const ushort4 texel = colors[corner + 10 * (k / 3) + k % 3];
        taps[k] = __ushort_as_half(channel == 0 ? texel.x : channel == 1 ? texel.y : texel.z);
    }
    __half2 total = both(0);
#pragma unroll
    for (int i = 0; i < 8; i += 2) total = __hfma2(__half2(taps[i], taps[i + 1]), __half2(p[i], p[i + 1]), total);
    return __hfma(taps[8], p[8], __low2half(total) + __high2half(total));
}

INLINE void write(cudaSurfaceObject_t surface, int x, int y, const __half (&c)[4]) {
    const ushort4 texel = make_ushort4(__half_as_ushort(c[0]), __half_as_ushort(c[1]), __half_as_ushort(c[2]),
                                       __half_as_ushort(c[3]));
    surf2Dwrite(texel, surface, 8 * x, y, cudaBoundaryModeZero);
}

INLINE void finish(const Tile (&logits)[4][2], const ushort4* colors, const Params& params, int x0, int y0, u32 lane) {
#pragma unroll
    for (int pass = 0; pass < 2; ++pass) {
        const u32 column = lane & 7, row = 4 * pass + (lane >> 3);
        const int x = x0 + static_cast<int>(column), y = y0 + static_cast<int>(row);
        Logits own;
        own.gather(logits, pass, lane);
        __half p[9];
        own.softmax(p);
        const __half g = sigmoid(own.value[9]), h = sigmoid(own.value[10]);
        __half gated[4], blended[4], mean[4];
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
            const __half s = filtered(colors, 10 * row + column, channel, p);
            gated[channel] = g * s;
            blended[channel] = s - gated[channel];
            __half q = __ushort_as_half(0x3400) * blended[channel];
            q = q + __shfl_down_sync(0xffffffffu, q, 1);
            mean[channel] = q + __shfl_down_sync(0xffffffffu, q, 8);
        }
        gated[3] = h;
        blended[3] = g * h;
        mean[3] = __ushort_as_half(0);
        if (static_cast<u32>(x) < params.width && static_cast<u32>(y) < params.height) {
            write(params.gate, x, y, gated);
            write(params.blend, x, y, blended);
            if (((x | y) & 1) == 0) write(params.half_size, x >> 1, y >> 1, mean);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------- merge

// The words of the even and of the odd column of pairs, from rows y (upper) and y + 2 (lower).
INLINE void merge(u32& even, u32& odd, u32 upper, u32 lower, u32 lane) {
    const bool first = (lane & 4) == 0;
#ifdef SECOND_SWAP
    const u32 other = __shfl_xor_sync(0xffffffffu, first ? lower : upper, 4);
    even = first ? upper : other;
    odd = first ? other : lower;
#else
    const u32 from_left = __shfl_up_sync(0xffffffffu, lower, 4), from_right = __shfl_down_sync(0xffffffffu, upper, 4);
    even = first ? upper : from_left;
    odd = first ? from_right : lower;
#endif
}

__global__ void __launch_bounds__(32) cuda_dldn_engine_swin_enc0_kernel(Params params) {
    __shared__ __align__(16) u32 tokens[100][8];
    __shared__ __align__(16) ushort4 colors[100];
#ifdef SECOND_LANEID
    u32 lane;
    // volatile: nvcc 13.0 makes a branch with full-mask shuffles on both sides of its choices by a lane index that it could
    // compute again, which the PTX ISA leaves undefined.
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
#else
    const u32 lane = threadIdx.x;
#endif
    const u32 g = lane / 4, t = lane % 4;
    const int x0 = static_cast<int>(8 * blockIdx.x) - params.shift[0];
    const int y0 = static_cast<int>(8 * (blockIdx.y + threadIdx.y)) - params.shift[1];
    const Image image = {params.weights, lane};

    stage(tokens, colors, params, x0, y0, lane);
    __syncthreads();

    Strip input[6];
#pragma unroll
    for (int m = 0; m < 6; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            input[m].word[i] = tokens[cell_of(16 * m + 8 * (i & 1), g)][4 * (i >> 1) + t];

    // Embedding: two products, the second one is the residual.
    Tile channels[6][4];
    Strip normal[6];
#pragma unroll
    for (int m = 0; m < 6; ++m) {
        Tile hidden[4], scaled[4];
        image.seed(hidden, 5120);
        multiply(hidden, input[m], image, 4096);
        image.seed(channels[m], 6208);
        multiply(channels[m], packed<Rectified>(hidden), image, 5184);
        normalise(scaled, channels[m], image, 6272);
        normal[m] = packed<Plain>(scaled);
    }

    Tile residual[4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) add_table(residual[m], channels[m], image, 37056);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        Head head;
        const int at = 6336 + 15360 * h;
        project(head, normal, image, at, at + 1024);
#pragma unroll
        for (int m = 0; m < 4; ++m) attend(residual[m], head, m, image, at + 2048, at + 14336);
    }

    u32 bytes[8][2];   // by row of the patch
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        Tile scaled[4], sum[4];
        normalise(scaled, residual[m], image, 37120);
        const Strip a = packed<Plain>(scaled);
#pragma unroll
        for (int branch = 0; branch < 4; ++branch) {
            const int at = branch == 0 ? 37184 : 37248 + 2112 * branch;
            Tile hidden[4];
            image.seed(hidden, at + 1024);
            multiply(hidden, a, image, at);
            activate(hidden);
            if (branch == 0) add_table(sum, residual[m], image, 39296);
            multiply(sum, packed<Plain>(hidden), image, at + 1088);
        }
        const Strip out = packed<Plain>(sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) bytes[2 * m + (i & 1)][i >> 1] = out.word[i];
    }

#pragma unroll
    for (int row = 0; row < 8; ++row) {
        const u32 words[1][2] = {{bytes[row][0], bytes[row][1]}};
        put_token(params.arena, x0 + static_cast<int>(g), y0 + row, params.width, params.height, t, words);
    }

    // Four tokens become one row of 128 channels.
    Strip quads[4];
    Tile merged[8];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int dy = 0; dy < 2; ++dy) {
            const int y = dy + 4 * (i & 1);
            merge(quads[2 * dy].word[i], quads[2 * dy + 1].word[i], bytes[y][i >> 1], bytes[y + 2][i >> 1], lane);
        }
    image.seed(merged, 53888);
    multiply(merged, quads, image, 45696);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        u32 words[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int n = 4 * (i >> 1) + (i & 1);
            words[i >> 1][i & 1] = pack<Plain>(merged[n].row[half], merged[n + 2].row[half]);
        }
#ifdef SECOND_HALVES
        const int x = static_cast<int>(4 * blockIdx.x) - (params.shift[0] >> 1);
        const int y = static_cast<int>(4 * blockIdx.y) - (params.shift[1] >> 1);
#else
        const int x = x0 / 2, y = y0 / 2;
#endif
        put_token(params.merged, x + static_cast<int>(g / 2 % 4), y + static_cast<int>(2 * half + g % 2),
                  params.width / 2, params.height / 2, t, words);
    }

    Tile logits[4][2];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        const Strip a = {{bytes[2 * m][0], bytes[2 * m + 1][0], bytes[2 * m][1], bytes[2 * m + 1][1]}};
        image.seed(logits[m], 54528);
        multiply(logits[m], a, image, 54016);
    }
    finish(logits, colors, params, x0, y0, lane);
}
