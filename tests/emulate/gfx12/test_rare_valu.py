"""Dot products, byte arithmetic and other seldom vector instructions against plain Python."""

from __future__ import annotations

import struct
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.gfx12.snippet import bits, floats, lanes_of, run

M32 = 0xFFFF_FFFF


def words(seed: int) -> list[int]:
    return [int(x) for x in np.random.default_rng(seed).integers(0, 1 << 32, 32)]


def split(word: int, size: int, *, signed: bool = False) -> list[int]:
    parts = [word >> at & ((1 << size) - 1) for at in range(0, 32, size)]
    return [p - (p >> (size - 1) << size) for p in parts] if signed else parts


def distance(x: int, y: int, size: int = 8) -> int:
    return sum(abs(a - c) for a, c in zip(split(x, size), split(y, size), strict=True))


def masked_distance(x: int, y: int) -> int:
    return sum(abs(a - c) for a, c in zip(split(x, 8), split(y, 8), strict=True) if c)


def lerp(x: int, y: int, z: int) -> int:
    parts = zip(split(x, 8), split(y, 8), split(z, 8), strict=True)
    return sum((a + c + (r & 1)) // 2 << 8 * i for i, (a, c, r) in enumerate(parts))


def dot(size: int, sx: bool, sy: bool) -> Callable[[int, int, int], int]:
    def value(x: int, y: int, z: int) -> int:
        pairs = zip(split(x, size, signed=sx), split(y, size, signed=sy), strict=True)
        return z + sum(a * c for a, c in pairs)

    return value


INTEGER: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("v_sad_u8 v3, v0, v1, v2", lambda x, y, z: distance(x, y) + z),
    ("v_sad_hi_u8 v3, v0, v1, v2", lambda x, y, z: (distance(x, y) << 16) + z),
    ("v_sad_u16 v3, v0, v1, v2", lambda x, y, z: distance(x, y, 16) + z),
    ("v_msad_u8 v3, v0, v1, v2", lambda x, y, z: masked_distance(x, y) + z),
    ("v_lerp_u8 v3, v0, v1, v2", lerp),
    ("v_dot4_u32_u8 v3, v0, v1, v2", dot(8, False, False)),
    ("v_dot8_u32_u4 v3, v0, v1, v2", dot(4, False, False)),
    ("v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,0,0]", dot(8, True, False)),
    ("v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]", dot(8, True, True)),
    ("v_dot8_i32_iu4 v3, v0, v1, v2 neg_lo:[0,1,0]", dot(4, False, True)),
    ("v_dot8_i32_iu4 v3, v0, v1, v2 neg_lo:[1,1,0]", dot(4, True, True)),
]


@pytest.mark.parametrize(("line", "model"), INTEGER, ids=[line for line, _ in INTEGER])
def test_byte_and_nibble_arithmetic(line: str, model: Callable[[int, int, int], int]) -> None:
    x, y, z = words(1), words(2), words(3)
    y[:4] = [0, 0x00FF_0001, x[2], M32]
    got = lanes_of(run(line, v={0: x, 1: y, 2: z}), 3)
    assert got == [model(*triple) & M32 for triple in zip(x, y, z, strict=True)]


def test_dot8_clamps() -> None:
    line = "v_dot8_i32_iu4 v3, v0, v1, v2 neg_lo:[1,1,0] clamp"
    done = run(line, v={0: [0x77777777] * 32, 1: [0x77777777] * 32, 2: [0x7FFFFFFF] * 32})
    assert set(lanes_of(done, 3)) == {0x7FFF_FFFF}


def test_quad_sad() -> None:
    low, high, y, start_low, start_high = (words(seed) for seed in range(10, 15))
    done = run("v_qsad_pk_u16_u8 v[6:7], v[0:1], v2, v[4:5]", v={0: low, 1: high, 2: y, 4: start_low, 5: start_high})
    for lane in range(32):
        whole = high[lane] << 32 | low[lane]
        start = start_high[lane] << 32 | start_low[lane]
        expected = 0
        for part in range(4):
            total = distance(whole >> 8 * part & M32, y[lane]) + (start >> 16 * part & 0xFFFF)
            expected |= min(total, 0xFFFF) << 16 * part
        assert lanes_of(done, 7)[lane] << 32 | lanes_of(done, 6)[lane] == expected


def test_offset_conversion() -> None:
    got = floats(lanes_of(run("v_cvt_off_f32_i4 v1, v0", v={0: list(range(32))}), 1))
    assert got.tolist() == [((n & 7) - (n & 8)) / 16 for n in range(32)]


def small_bf16(seed: int) -> tuple[list[int], list[tuple[float, float]]]:
    values = np.random.default_rng(seed).integers(-64, 64, (32, 2)) / 8.0
    codes = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)
    packed = [int(w) for w in codes[:, 0] | codes[:, 1] << np.uint32(16)]
    return packed, [(float(a), float(c)) for a, c in values]


def small_f16(seed: int) -> tuple[list[int], list[tuple[float, float]]]:
    values = np.random.default_rng(seed).integers(-64, 64, (32, 2)) / 8.0
    codes = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return [int(w) for w in codes[:, 0] | codes[:, 1] << np.uint32(16)], [(float(a), float(c)) for a, c in values]


def dots(x: list[tuple[float, float]], y: list[tuple[float, float]]) -> list[float]:
    return [a * c + b * d for (a, b), (c, d) in zip(x, y, strict=True)]


def test_dot2_of_16_bit_floats() -> None:
    """Operands small enough that every order of adding is exact."""
    seeds = [float(n) / 4 for n in range(32)]
    for small, name in ((small_bf16, "bf16"), (small_f16, "f16")):
        (x, xs), (y, ys) = small(1), small(2)
        expected = [value + seed for value, seed in zip(dots(xs, ys), seeds, strict=True)]
        done = run(f"v_dot2_f32_{name} v3, v0, v1, v2", v={0: x, 1: y, 2: bits(seeds)})
        assert floats(lanes_of(done, 3)).tolist() == expected
        if name == "f16":
            line = "v_dual_dot2acc_f32_f16 v3, v0, v1 :: v_dual_mov_b32 v4, v3"
            done = run(line, v={0: x, 1: y, 3: bits(seeds)})
            assert floats(lanes_of(done, 3)).tolist() == expected
            assert floats(lanes_of(done, 4)).tolist() == seeds


def test_dot2_rounds_16_bit_results() -> None:
    (x, xs), (y, ys) = small_f16(3), small_f16(4)
    got = lanes_of(run("v_dot2_f16_f16 v3.h, v0, v1, v2.l", v={0: x, 1: y, 2: [0x3C00] * 32, 3: [7] * 32}), 3)
    expected = (np.array(dots(xs, ys)) + 1.0).astype(np.float16).view(np.uint16)
    assert got == [int(code) << 16 | 7 for code in expected]
    (x, xs), (y, ys) = small_bf16(5), small_bf16(6)
    got = lanes_of(run("v_dot2_bf16_bf16 v3.l, v0, v1, v2.h", v={0: x, 1: y, 2: [0x3F800000] * 32, 3: [0] * 32}), 3)
    expected = (np.array(dots(xs, ys)) + 1.0).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert got == [int(code) for code in expected]


@pytest.mark.parametrize("first", ["fp8", "bf8"])
@pytest.mark.parametrize("second", ["fp8", "bf8"])
def test_dot4_of_fp8(first: str, second: str) -> None:
    kinds = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
    rng = np.random.default_rng(5)
    x, y = (rng.choice([-2.0, -0.5, 0.0, 0.25, 1.0, 1.5, 8.0], (32, 4)).astype(kinds[k]) for k in (first, second))
    seeds = [float(n) for n in range(32)]
    packed = [v.view(np.uint32)[:, 0] for v in (x, y)]
    line = f"v_dot4_f32_{first}_{second} v3, v0, v1, v2 neg_lo:[0,0,1]"
    done = run(line, v={0: packed[0], 1: packed[1], 2: bits(seeds)})
    expected = (x.astype(np.float64) * y.astype(np.float64)).sum(axis=1) - np.array(seeds)
    assert floats(lanes_of(done, 3)).tolist() == expected.tolist()


def test_legacy_fma_treats_zero_times_anything_as_zero() -> None:
    x, y, z = [0.0, np.inf, 2.0, np.nan], [np.inf, 0.0, 3.0, 0.0], [1.0, 2.0, 4.0, 5.0]
    done = run("v_fma_dx9_zero_f32 v3, v0, v1, v2", v={i: np.tile(bits(v), 8) for i, v in enumerate((x, y, z))})
    assert floats(lanes_of(done, 3))[:4].tolist() == [1.0, 2.0, 10.0, 5.0]


def test_relative_moves() -> None:
    """Each wave by its own M0; lanes that EXEC disables keep their value."""
    lines = ["s_mov_b32 m0, s0", "v_movrels_b32 v9, v1", "v_movreld_b32 v10, v4", "v_movrelsd_b32 v20, v1"]
    values = {1: [7] * 32, 4: list(range(32)), **{r: [0] * 32 for r in (9, 10, 13, 20, 23)}}
    done = run(*lines, v=values, s={0: [3, 0]}, execution=0xFFFF, waves=2)
    low = [*range(16), *[0] * 16]
    assert [lanes_of(done, r) for r in (9, 13, 23)] == [low] * 3
    assert lanes_of(done, 9, 1) == lanes_of(done, 20, 1) == [*[7] * 16, *[0] * 16]
    assert lanes_of(done, 10, 1) == low
    assert lanes_of(done, 10) == lanes_of(done, 20) == lanes_of(done, 13, 1) == [0] * 32
    done = run("s_mov_b32 m0, 0x20001", "v_movrelsd_2_b32 v10, v3", v={4: [5] * 32, 12: [0] * 32})
    assert lanes_of(done, 12) == [5] * 32


def test_bf16_rounding_matches_ml_dtypes() -> None:
    """Every f32 upper half with the bits below at and around the midpoint."""
    from zluda_rr.emulate.gfx12.floats import bf16_to_float, round_bf16

    upper = np.arange(65536, dtype=np.uint32) << np.uint32(16)
    for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (upper | np.uint32(low)).view(np.float32)
        with np.errstate(invalid="ignore"):
            expected = x.astype(ml_dtypes.bfloat16).view(np.uint16)
        got = round_bf16(x)
        nan = np.isnan(x)
        assert (got[~nan] == expected[~nan]).all()
        assert np.isnan(bf16_to_float(got[nan])).all()
    assert struct.unpack("<f", struct.pack("<I", 0x3F80_0000))[0] == bf16_to_float(np.array(0x3F80, np.uint16))
