"""Kernels as clang compiles them, against numpy: whole idioms instead of single instructions."""

from __future__ import annotations

import struct
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from zluda_rr.emulate.gfx12 import CodeObject, load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_hip_kernel

PRELUDE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef _Float16 half2 __attribute__((ext_vector_type(2)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
#define KERNEL extern "C" __attribute__((global))
#define I (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

"""
HALVES = r"""
KERNEL void halves(const half2* a, const half2* b, half2* o) {
  half2 x = a[I], y = b[I];
  half2 r = x * y + y;
  r = __builtin_elementwise_max(r, (half2)(-2)) - x.yx;
  o[I] = __builtin_elementwise_min(r, (half2)4) * (half2)(0.5f16);
}
"""
REST = r"""
KERNEL void floats(const float* a, const float* b, float* o) {
  float x = a[I], y = b[I];
  float r = x * y + x / y - __builtin_sqrtf(x < 0 ? -x : x);
  o[I] = r > 1.0f ? r - __builtin_floorf(r) : __builtin_fmaf(x, y, r);
}

KERNEL void hashes(const u64* a, u64* o) {
  u64 x = a[I];
  x ^= x >> 33; x *= 0xff51afd7ed558ccdull; x ^= x >> 29; x *= 0xc4ceb9fe1a85ec53ull;
  o[I] = (x << 13 | x >> 51) + (x % 1000003ull) + __builtin_popcountll(x);
}

KERNEL void quantise(const float* a, u32* o) {
  float x = a[I];
  x = __builtin_fminf(__builtin_fmaxf(x, -448.0f), 448.0f);
  u32 packed = __builtin_amdgcn_cvt_pk_fp8_f32(x, 2 * x, 0, false);
  o[I] = __builtin_amdgcn_cvt_pk_fp8_f32(-x, 0.5f * x, packed, true);
}

KERNEL void shuffles(const u32* a, u32* o) {
  u32 lane = __builtin_amdgcn_mbcnt_lo(~0u, 0), x = a[I], r = x;
  r += __builtin_amdgcn_ds_bpermute(4 * (31 - lane), x);
  r ^= __builtin_amdgcn_update_dpp(0, x, 0x161, 15, 15, true);   // row_xmask:1
  r += __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, false, false);
  r += __builtin_amdgcn_readlane(x, 5);
  r ^= __builtin_amdgcn_ballot_w32(x & 1);
  if (x & 2) r += __builtin_amdgcn_readfirstlane(x);
  o[I] = r;
}

KERNEL void matrix(const u32x2* a, const u32x2* b, const f32x8* c, f32x8* d) {
  d[I] = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a[I], b[I], c[I]);
}

KERNEL void bytes(const unsigned char* a, const signed char* b, short* o) {
  o[I] = (short)(a[I] * b[I]) + (short)a[I + 1];
}

KERNEL void saturating(const float* a, u32* o) {
  __builtin_amdgcn_s_setreg(23 << 6 | 1, 1);  // MODE.FP16_OVFL, one bit from bit 23 on
  float x = a[I];
  __asm__ volatile("" : "+v"(x));  // s_setreg orders nothing by itself
  u32 code = __builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false);
  __asm__ volatile("" : "+v"(code), "+v"(x));
  __builtin_amdgcn_s_setreg(23 << 6 | 1, 0);
  __asm__ volatile("" : "+v"(x));
  o[I] = code | __builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false) << 16;
}

KERNEL void squares(const float* a, float* o) { o[I] = a[I] * a[I]; }

KERNEL void increments(u32* sum, u32* order) {
  order[I] = __hip_atomic_fetch_add(sum, I, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
"""
RNG = np.random.default_rng(77)
N = 256


@cache
def code_object(source: str, *flags: str) -> CodeObject:
    compiled = compile_hip_kernel(PRELUDE + source, flags=["-ffp-contract=off", *flags])
    return load_code_object(compiled.code_object)


def launch(name: str, *arrays: np.ndarray, flags: tuple[str, ...] = ()) -> list[np.ndarray]:
    """Run over N work items in groups of 64; the arrays' contents afterwards."""
    space = AddressSpace(1 << 20)
    pointers = [space.allocate(f"b{i}", a.nbytes, data=np.ascontiguousarray(a).tobytes()) for i, a in enumerate(arrays)]
    arguments = struct.pack(f"<{len(pointers)}Q", *pointers)
    code = code_object(HALVES if name == "halves" else REST, *flags)
    run_kernel(code, name, (N // 64, 1, 1), (64, 1, 1), arguments, space, "exact")
    return [space.view(f"b{i}").view(a.dtype).reshape(a.shape) for i, a in enumerate(arrays)]


def test_f32_with_division_and_root() -> None:
    a, b = (RNG.normal(0, 3, N).astype(np.float32) for _ in range(2))
    a[:4], b[:4] = [0, -1e-20, 1e30, 3], [1, 1e-20, 1e-30, 0.1]
    *_, out = launch("floats", a, b, np.zeros(N, np.float32))
    with np.errstate(all="ignore"):
        r = a * b + a / b - np.sqrt(np.abs(a))
        fused = (a.astype(np.longdouble) * b.astype(np.longdouble) + r.astype(np.longdouble)).astype(np.float32)
        expected = np.where(r > 1, r - np.floor(r), fused)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("flags", [(), ("-Xclang", "-target-feature", "-Xclang", "+real-true16")])
def test_packed_halves(flags: tuple[str, ...]) -> None:
    a, b = (RNG.normal(0, 2, (N, 2)).astype(np.float16) for _ in range(2))
    *_, out = launch("halves", a, b, np.zeros((N, 2), np.float16), flags=flags)
    r = (a * b).astype(np.float16) + b
    r = np.maximum(r, np.float16(-2)) - a[:, ::-1]
    np.testing.assert_array_equal(out, np.minimum(r, np.float16(4)) * np.float16(0.5))


def test_64_bit_integers() -> None:
    a = RNG.integers(0, 1 << 64, N, dtype=np.uint64)
    _, out = launch("hashes", a, np.zeros(N, np.uint64))
    mask = (1 << 64) - 1
    for value, got in zip(a, out, strict=True):
        x = int(value)
        x ^= x >> 33
        x = x * 0xFF51AFD7ED558CCD & mask
        x ^= x >> 29
        x = x * 0xC4CEB9FE1A85EC53 & mask
        assert int(got) == ((x << 13 | x >> 51) + x % 1000003 + x.bit_count()) & mask


def test_fp8_quantisation() -> None:
    a = np.concatenate([RNG.normal(0, 100, N // 2), RNG.normal(0, 0.01, N // 2)]).astype(np.float32)
    _, out = launch("quantise", a, np.zeros(N, np.uint32))
    x = np.clip(a, -448, 448)
    parts = np.stack([x, np.where(np.abs(2 * x) > 464, np.nan, 2 * x), -x, x * np.float32(0.5)], axis=-1)
    codes = parts.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    over = np.abs(2 * x) > 464
    codes[over, 1] = np.where(x[over] < 0, 0xFF, 0x7F)
    np.testing.assert_array_equal(out.view(np.uint8).reshape(N, 4), codes)


def test_shuffles_and_votes() -> None:
    a = RNG.integers(0, 1 << 32, N, dtype=np.uint32)
    _, out = launch("shuffles", a, np.zeros(N, np.uint32))
    for wave in range(N // 32):
        x = [int(v) for v in a[32 * wave : 32 * wave + 32]]
        ballot = sum((v & 1) << lane for lane, v in enumerate(x))
        first = next((v for v in x if v & 2), None)
        for lane in range(32):
            r = x[lane] + x[31 - lane]
            r ^= x[lane ^ 1]
            r += x[lane ^ 16] + x[5]
            r = (r & 0xFFFF_FFFF) ^ ballot
            if x[lane] & 2:
                assert first is not None
                r += first
            assert int(out[32 * wave + lane]) == r & 0xFFFF_FFFF


def test_matrix_builtin() -> None:
    """Operands laid out in memory as the lanes hold them: lane = 16 * half + row, eight bytes of k each."""
    waves = N // 32
    values = RNG.choice([-2.0, -0.5, 0.25, 1.0, 3.0], (2, waves, 16, 16))
    codes = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    # [wave, row, k half, byte] -> [wave, half, row, byte]
    a, b = (c.reshape(waves, 16, 2, 8).transpose(0, 2, 1, 3).copy().view(np.uint32) for c in codes)
    c = RNG.integers(-100, 100, (waves, 16, 16)).astype(np.float32)
    # accumulators: lane = 16 * half + column holds rows 8 * half + i
    seed = c.reshape(waves, 2, 8, 16).transpose(0, 1, 3, 2).copy()
    *_, d = launch("matrix", a, b, seed, np.zeros_like(seed))
    result = d.transpose(0, 1, 3, 2).reshape(waves, 16, 16)
    np.testing.assert_array_equal(result, values[0] @ values[1].transpose(0, 2, 1) + c)


def test_bytes_and_shorts() -> None:
    a, b = RNG.integers(0, 256, N + 1, dtype=np.uint8), RNG.integers(-128, 128, N, dtype=np.int8)
    *_, out = launch("bytes", a, b, np.zeros(N, np.int16))
    expected = a[:-1].astype(np.int32) * b + a[1:]
    np.testing.assert_array_equal(out, expected.astype(np.int16))


def test_mode_set_inside_a_kernel() -> None:
    a = np.resize(np.float32([500, -500, 448, 463, 1, np.inf, -np.inf, 465]), N)
    _, out = launch("saturating", a, np.zeros(N, np.uint32))
    saturated = np.resize([0x7E, 0xFE, 0x7E, 0x7E, 0x38, 0x7E, 0xFE, 0x7E], N)
    plain = np.resize([0x7F, 0xFF, 0x7E, 0x7E, 0x38, 0x7F, 0xFF, 0x7F], N)
    assert out.view(np.uint8).reshape(N, 4)[:, 0].tolist() == saturated.tolist()
    assert out.view(np.uint8).reshape(N, 4)[:, 2].tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ((), True),
        (
            (
                "-Xclang",
                "-fdenormal-fp-math-f32=preserve-sign",
            ),
            False,
        ),
    ],
)
def test_denormals_follow_the_kernel_descriptor(flags: tuple[str, ...], kept: bool) -> None:
    a = np.full(N, 2.0**-70, dtype=np.float32)
    _, out = launch("squares", a, np.ones(N, np.float32), flags=flags)
    assert (out == (np.float32(2.0**-140) if kept else 0)).all()


def test_atomics_of_all_waves() -> None:
    total, order = launch("increments", np.zeros(1, np.uint32), np.zeros(N, np.uint32))
    assert int(total[0]) == N * (N - 1) // 2
    # Some order of the additions explains what each saw: sorted by it, each saw the sum of those before.
    running = 0
    for item in np.argsort(order, kind="stable"):
        assert int(order[item]) == running
        running += int(item)
