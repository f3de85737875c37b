// Helpers that the lowering of PTX to gfx1201 calls: what one PTX instruction needs beyond a few LLVM instructions.
// Compiled to LLVM IR, linked into every lowered module and inlined. One wave32 is one warp; all lanes take part in the
// cross-lane operations, as `.sync.aligned` demands.
//
// Notation: l = lane, g = l>>2, t = l&3 (NVIDIA's fragments), r = l&15, h = l>>4 (WMMA operands).
// "Pair" = two f16 in one register, the lower column in the low half.

#define ZRT extern "C" __attribute__((device, always_inline))
#define LOCAL static __attribute__((device, always_inline))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef int i32x2 __attribute__((ext_vector_type(2)));
typedef u16 u16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16;
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x8 __attribute__((ext_vector_type(8)));

LOCAL u32 lane_id() { return __builtin_amdgcn_mbcnt_lo(~0u, 0u) & 31u; }

// Value of `word` in lane `source` (0..31).
LOCAL u32 gather(u32 source, u32 word) { return __builtin_amdgcn_ds_bpermute(source << 2, word); }

// ------------------------------------------------------------------------------------------------ mma m16n8k32 e4m3
//
// WMMA's A operand is formed from NVIDIA's B (16 columns of two n-tiles as rows) and its B operand from NVIDIA's A
// (16 tokens as columns), so D comes out transposed: lane = token, VGPR i = column i + 8h.

// One k16 operand: row r, slots 8h..8h+7. NVIDIA keeps row r in lanes 4*(r&7)..+3, four slots a lane, in `low` for
// rows 0..7 and in `high` for rows 8..15.
LOCAL i32x2 operand(u32 low, u32 high) {
  u32 l = lane_id(), source = 4 * (l & 7) + 2 * (l >> 4);
  i32x2 out;
#pragma unroll
  for (int d = 0; d < 2; ++d) {
    u32 upper = gather(source + d, high), lower = gather(source + d, low);
    out[d] = l & 8 ? upper : lower;
  }
  return out;
}

// NVIDIA's C registers {n-tile 0 rows g, g+8, n-tile 1 rows g, g+8} to the transposed accumulator. Pair q of lane (r, h)
// is register (n-tile h, row half r>>3) of lane 4*(r&7) + q. Each lane swaps its row halves by t bit 1 first, so that
// one gather serves both halves.
LOCAL f32x8 transposed_from_nv(u32x4 c) {
  u32 l = lane_id(), row = 4 * (l & 7);
  bool swap = l & 2, upper = l & 8, right = l & 16;
  u32 out[4];
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    u32 step[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      u32 source = row + 2 * (upper ? 1 - s : s) + b;
      u32 left_word = gather(source, swap ? c[1 - s] : c[s]);
      u32 right_word = gather(source, swap ? c[3 - s] : c[2 + s]);
      step[s] = right ? right_word : left_word;
    }
    out[b] = upper ? step[1] : step[0];
    out[2 + b] = upper ? step[0] : step[1];
  }
  f32x8 acc;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    f16x2 pair = __builtin_bit_cast(f16x2, out[q]);
    acc[2 * q] = pair.x;
    acc[2 * q + 1] = pair.y;
  }
  return acc;
}

// The inverse, after rounding every accumulator to f16: register (n-tile p, row half i) of lane (g, t) is pair t of lane
// g + 8i + 16p.
LOCAL u32x4 nv_from_transposed(f32x8 acc) {
  u32 l = lane_id(), g = l >> 2;
  bool upper = l & 8, odd = l & 1, swap = l & 2;
  u32 pair[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    f16x2 rounded = {(f16)acc[2 * q], (f16)acc[2 * q + 1]};
    pair[q] = __builtin_bit_cast(u32, rounded);
  }
  u32x4 out;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    u32 step[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      u32 source = g + 8 * (swap ? 1 - s : s) + 16 * p;
      u32 even_word = gather(source, upper ? pair[2 - 2 * s] : pair[2 * s]);
      u32 odd_word = gather(source, upper ? pair[3 - 2 * s] : pair[2 * s + 1]);
      step[s] = odd ? odd_word : even_word;
    }
    out[2 * p] = swap ? step[1] : step[0];
    out[2 * p + 1] = swap ? step[0] : step[1];
  }
  return out;
}

// Two WMMAs, slots 0..15 first, f32 in between.
LOCAL u32x4 mma_pair(u32x4 a, u32x4 b, f32x8 acc) {
  acc = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(operand(b.x, b.z), operand(a.x, a.y), acc);
  acc = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(operand(b.y, b.w), operand(a.z, a.w), acc);
  return nv_from_transposed(acc);
}

// Two mma.m16n8k32 that share A. a = A registers; b = {first B0, B1, second B0, B1}; c and the result likewise.
ZRT u32x4 zrt_mma_e4m3_pair(u32x4 a, u32x4 b, u32x4 c) { return mma_pair(a, b, transposed_from_nv(c)); }

// The same with C = 0.
ZRT u32x4 zrt_mma_e4m3_pair_zero(u32x4 a, u32x4 b) {
  f32x8 zero = {};
  return mma_pair(a, b, zero);
}

// ------------------------------------------------------------------------------------------------------ conversions

// v_cvt_pk_fp8_f32 encodes +infinity as 0x7f, -infinity and every NaN as 0xff, and overflow like infinity. PTX has
// overflow and infinity as +-448 and every NaN as 0x7f (an H200, all halves): clamp with the operations that keep NaN,
// then make NaN +infinity (min returns the operand that is a number).
LOCAL u16 e4m3x2_of_clamped(f16x2 x) {
  f16x2 infinity = {(f16)__builtin_inff(), (f16)__builtin_inff()};
  x = __builtin_elementwise_minnum(x, infinity);
  // The upper half of the result is not used; naming a register that dies here as its old value costs no move.
  float low = x.x;
  return __builtin_amdgcn_cvt_pk_fp8_f32(low, (float)x.y, __builtin_bit_cast(u32, low), false);
}

// cvt.rn.satfinite.e4m3x2.f16x2: low half in the low byte.
ZRT u16 zrt_cvt_e4m3x2_f16x2(u32 x) {
  f16x2 limit = {(f16)448.0f, (f16)448.0f};
  f16x2 value = __builtin_bit_cast(f16x2, x);
  return e4m3x2_of_clamped(__builtin_elementwise_maximum(__builtin_elementwise_minimum(value, limit), -limit));
}

// The .relu form: negative values and -0 become +0, NaN stays.
ZRT u16 zrt_cvt_relu_e4m3x2_f16x2(u32 x) {
  f16x2 limit = {(f16)448.0f, (f16)448.0f}, zero = {};
  f16x2 value = __builtin_bit_cast(f16x2, x);
  return e4m3x2_of_clamped(__builtin_elementwise_minimum(__builtin_elementwise_maximum(value, zero), limit));
}

// cvt.rn.f16x2.e4m3x2, exact. A NaN becomes 0x7fff.
ZRT u32 zrt_cvt_f16x2_e4m3x2(u16 x) {
  f32x2 wide = __builtin_amdgcn_cvt_pk_f32_fp8(x, false);
  f16x2 out = {(f16)wide.x, (f16)wide.y};
  return __builtin_bit_cast(u32, out);
}

// ------------------------------------------------------------------------------------------------------- cross lane

// shfl.sync: {value, predicate}. `b` and `c` as in the PTX manual: c = segment mask << 8 | clamp.
LOCAL u32x2 shuffle(u32 value, int source, bool inside) {
  u32x2 out = {gather(inside ? source : lane_id(), value), inside};
  return out;
}
LOCAL u32 segment_low(u32 c) { return lane_id() & (c >> 8) & 31; }
LOCAL int segment_limit(u32 c) { return segment_low(c) | (c & ~(c >> 8) & 31); }

ZRT u32x2 zrt_shfl_up(u32 value, u32 b, u32 c) {
  int source = (int)lane_id() - (int)(b & 31);
  return shuffle(value, source, source >= segment_limit(c));
}
ZRT u32x2 zrt_shfl_down(u32 value, u32 b, u32 c) {
  int source = lane_id() + (b & 31);
  return shuffle(value, source, source <= segment_limit(c));
}
ZRT u32x2 zrt_shfl_bfly(u32 value, u32 b, u32 c) {
  int source = lane_id() ^ (b & 31);
  return shuffle(value, source, source <= segment_limit(c));
}
ZRT u32x2 zrt_shfl_idx(u32 value, u32 b, u32 c) {
  int source = segment_low(c) | (b & ~(c >> 8) & 31);
  return shuffle(value, source, source <= segment_limit(c));
}

// movmatrix.trans.m8n8.b16: lane (g, t) receives elements (2t, g) and (2t+1, g); element (y, x) is half x&1 of lane
// 4y + (x>>1).
ZRT u32 zrt_movmatrix_trans(u32 value) {
  u32 l = lane_id(), g = l >> 2, source = 8 * (l & 3) + (g >> 1);
  u32 first = gather(source, value), second = gather(source + 4, value);
  return __builtin_amdgcn_perm(second, first, g & 1 ? 0x07060302u : 0x05040100u);
}

ZRT u32 zrt_lane_id() { return lane_id(); }
ZRT u32 zrt_lanemask_eq() { return 1u << lane_id(); }
ZRT u32 zrt_lanemask_lt() { return (1u << lane_id()) - 1; }
ZRT u32 zrt_lanemask_le() { return (2u << lane_id()) - 1; }
ZRT u32 zrt_lanemask_gt() { return ~((2u << lane_id()) - 1); }
ZRT u32 zrt_lanemask_ge() { return ~((1u << lane_id()) - 1); }

// Blocks of the grid and threads of a block per axis: three words, then three halves of the hidden kernel arguments
// (LLVM AMDGPUUsage, code object V5).
typedef const __attribute__((address_space(4))) u32* HiddenWords;
typedef const __attribute__((address_space(4))) u16* HiddenHalves;
ZRT u32 zrt_grid_size_x() { return ((HiddenWords)__builtin_amdgcn_implicitarg_ptr())[0]; }
ZRT u32 zrt_grid_size_y() { return ((HiddenWords)__builtin_amdgcn_implicitarg_ptr())[1]; }
ZRT u32 zrt_grid_size_z() { return ((HiddenWords)__builtin_amdgcn_implicitarg_ptr())[2]; }
ZRT u32 zrt_block_size_x() { return ((HiddenHalves)__builtin_amdgcn_implicitarg_ptr())[6]; }
ZRT u32 zrt_block_size_y() { return ((HiddenHalves)__builtin_amdgcn_implicitarg_ptr())[7]; }
ZRT u32 zrt_block_size_z() { return ((HiddenHalves)__builtin_amdgcn_implicitarg_ptr())[8]; }

// --------------------------------------------------------------------------------------------------------- surfaces

// The 32-byte descriptor behind a surface or texture handle.
struct Surface {
  u64 base;
  u32 width, height;  // texels
  u32 pitch, bytes_per_texel;
  u64 reserved;
};
typedef const Surface __attribute__((address_space(4))) * SurfacePointer;
typedef u16x4 __attribute__((address_space(1))) * TexelPointer;

LOCAL TexelPointer texel_at(SurfacePointer surface, u32 x_bytes, u32 y) {
  return (TexelPointer)(surface->base + (u64)y * surface->pitch + x_bytes);
}

// What to do outside: give zeros or drop (.zero), go to the edge (.clamp), end the program (.trap).
enum Outside { ZERO, CLAMP, TRAP };

// Whether `bytes` bytes at x (in bytes, a multiple of them) and y lie inside a 2D surface; CLAMP moves x and y there.
LOCAL bool inside(SurfacePointer surface, int& x, int& y, int bytes, u32 outside) {
  u32 row = surface->width * surface->bytes_per_texel;
  if (outside == CLAMP) {
    int right = (int)row - bytes, bottom = (int)surface->height - 1;
    x = x < 0 ? 0 : x > right ? right : x;
    y = y < 0 ? 0 : y > bottom ? bottom : y;
  }
  bool in = (u32)x < (row & -bytes) && (u32)y < surface->height;
  if (!in && outside == TRAP) __builtin_trap();
  return in;
}

// suld.b.2d and sust.b.2d of 1 to 16 bytes.
#define SURFACE(name, type)                                                                                      \
  LOCAL type __attribute__((address_space(1))) * at_##name(SurfacePointer surface, u32 x, u32 y) {               \
    return (type __attribute__((address_space(1)))*)(surface->base + (u64)y * surface->pitch + x);               \
  }                                                                                                              \
  ZRT type zrt_suld_2d_##name(u64 handle, int x, int y, u32 outside) {                                           \
    SurfacePointer surface = (SurfacePointer)handle;                                                             \
    type out = {};                                                                                               \
    if (inside(surface, x, y, sizeof(type), outside)) out = *at_##name(surface, x, y);                           \
    return out;                                                                                                  \
  }                                                                                                              \
  ZRT void zrt_sust_2d_##name(u64 handle, int x, int y, u32 outside, type texel) {                               \
    SurfacePointer surface = (SurfacePointer)handle;                                                             \
    if (inside(surface, x, y, sizeof(type), outside)) *at_##name(surface, x, y) = texel;                         \
  }
SURFACE(i8, u8)
SURFACE(i16, u16)
SURFACE(i32, u32)
SURFACE(v2i32, u32x2)
SURFACE(v4i32, u32x4)

// tex.base.2d.v4.f16.s32: integer texel coordinates, clamped to the edge.
ZRT u16x4 zrt_tex_2d_v4_f16_s32(u64 handle, int x, int y) {
  SurfacePointer surface = (SurfacePointer)handle;
  int right = (int)surface->width - 1, bottom = (int)surface->height - 1;
  x = x < 0 ? 0 : x > right ? right : x;
  y = y < 0 ? 0 : y > bottom ? bottom : y;
  return *texel_at(surface, x * surface->bytes_per_texel, y);
}

// ------------------------------------------------------------------------------------------------------------- bits

// bfe: `length` bits from `position` (low bytes of both); bits beyond the word are zeros or copies of the sign.
template <typename T>
LOCAL T low_bits(u32 count) { return count >= 8 * sizeof(T) ? ~(T)0 : ((T)1 << count) - 1; }
template <typename T>
LOCAL T extract_unsigned(T value, u32 position, u32 length) {
  position &= 255;
  return position >= 8 * sizeof(T) ? 0 : (value >> position) & low_bits<T>(length & 255);
}
template <typename T, typename S>
LOCAL T extract_signed(T value, u32 position, u32 length) {
  const u32 top = 8 * sizeof(T) - 1;
  position &= 255;
  length &= 255;
  if (length == 0) return 0;
  u32 shift = position > top ? top : position;
  S field = (S)value >> shift;
  u32 unused = length > top - shift ? 0 : top + 1 - length;
  return (T)((S)((T)field << unused) >> unused);
}
ZRT u32 zrt_bfe_u32(u32 value, u32 position, u32 length) { return extract_unsigned<u32>(value, position, length); }
ZRT u64 zrt_bfe_u64(u64 value, u32 position, u32 length) { return extract_unsigned<u64>(value, position, length); }
ZRT u32 zrt_bfe_s32(u32 value, u32 position, u32 length) { return extract_signed<u32, int>(value, position, length); }
ZRT u64 zrt_bfe_s64(u64 value, u32 position, u32 length) { return extract_signed<u64, long long>(value, position, length); }

// bfi: `length` bits of `field` into `value` at `position`.
template <typename T>
LOCAL T insert_field(T field, T value, u32 position, u32 length) {
  position &= 255;
  if (position >= 8 * sizeof(T)) return value;
  T mask = low_bits<T>(length & 255) << position;
  return (value & ~mask) | ((field << position) & mask);
}
ZRT u32 zrt_bfi_b32(u32 field, u32 value, u32 position, u32 length) { return insert_field<u32>(field, value, position, length); }
ZRT u64 zrt_bfi_b64(u64 field, u64 value, u32 position, u32 length) { return insert_field<u64>(field, value, position, length); }

// prmt.b32, default mode: nibble i of the selector picks byte i of the result from {b, a}; its bit 3 spreads the sign.
ZRT u32 zrt_prmt_b32(u32 a, u32 b, u32 selector) {
  u64 bytes = (u64)b << 32 | a;
  u32 out = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 nibble = selector >> (4 * i);
    u8 byte = bytes >> (8 * (nibble & 7));
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    out |= (u32)byte << (8 * i);
  }
  return out;
}
