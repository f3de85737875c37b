"""Conversions: saturation, NaN, truncation, fp8 codes; and comparisons."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.gfx12.rounding import F16, F32
from tests.emulate.gfx12.snippet import FULL, MODE, bits, floats, lanes_of, run

HALVES = np.arange(65536, dtype=np.uint32)


def by_waves(values: np.ndarray) -> np.ndarray:
    """Values padded and shaped to `[waves, 32]` words."""
    words = np.asarray(values).view(np.uint32) if values.dtype != np.uint32 else values
    return np.resize(words, (-(-len(words) // 32), 32))


def test_float_to_int_saturates_and_sends_nan_to_zero() -> None:
    x = [3.99, -3.99, 2.5, 3e9, -3e9, 5e9, math.inf, -math.inf, math.nan, -0.0, 2147483520.0, -0.9]
    done = run(
        "v_cvt_i32_f32 v1, v0",
        "v_cvt_u32_f32 v2, v0",
        "v_cvt_nearest_i32_f32 v3, v0",
        "v_cvt_floor_i32_f32 v4, v0",
        v={0: np.resize(bits(x), 32)},
    )
    low, high = 0x8000_0000, 0x7FFF_FFFF
    signed = [int(v) for v in done.vgpr[1, 0, : len(x)].view(np.int32)]
    assert signed == [3, -3, 2, high, low - 2**32, high, high, low - 2**32, 0, 0, 2147483520, 0]
    unsigned = [3, 0, 2, 3_000_000_000, 0, 2**32 - 1, 2**32 - 1, 0, 0, 0, 2147483520, 0]
    assert lanes_of(done, 2)[: len(x)] == unsigned
    assert done.vgpr[3, 0, :3].view(np.int32).tolist() == [4, -4, 3]
    assert done.vgpr[4, 0, :3].view(np.int32).tolist() == [3, -4, 2]


def test_int_to_float_rounds_to_nearest_even() -> None:
    x = np.array([0, 1, 0x0100_0001, 0x0100_0003, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0xFFFF_FF80], dtype=np.uint32)
    done = run("v_cvt_f32_i32 v1, v0", "v_cvt_f32_u32 v2, v0", v={0: np.resize(x, 32)})
    for lane, word in enumerate(int(w) for w in x):
        signed = word - 2**32 if word >> 31 else word
        for register, value in ((1, signed), (2, word)):
            expected = F32.round(value) if value else 0  # type: ignore[arg-type]
            assert lanes_of(done, register)[lane] == expected


def test_every_half_to_f32_and_back() -> None:
    words = by_waves(HALVES)
    registers = {0: words, 2: np.zeros_like(words)}
    done = run("v_cvt_f32_f16 v1, v0.l", "v_cvt_f16_f32 v2.l, v1", v=registers, waves=len(words))
    for half in range(0, 65536, 7):
        wave, lane = divmod(half, 32)
        word = int(done.vgpr[1, wave, lane])
        if F16.is_nan(half):
            assert F32.is_nan(word)
        elif half & 0x7C00 != 0x7C00:
            assert F32.value(word) == F16.value(half)
    numbers = (HALVES & 0x7FFF) <= 0x7C00
    assert (done.vgpr[2].reshape(-1)[numbers] == HALVES[numbers]).all()


@pytest.mark.parametrize("mode", range(4))
def test_f32_to_f16_in_every_rounding_mode(mode: int) -> None:
    rng = np.random.default_rng(5)
    edges = [65519.9, 65520.0, 65504.1, 3e-8, 2.9e-8, -1e-9]
    x = np.concatenate([rng.normal(0, 1, 64), 2.0 ** rng.uniform(-26, 17, 64), edges * 4])
    words = by_waves(x.astype(np.float32))
    done = run("v_cvt_f16_f32 v1.l, v0", v={0: words, 1: np.zeros_like(words)}, mode=MODE | mode << 2, waves=len(words))
    for word, got in zip(words.reshape(-1), done.vgpr[1].reshape(-1), strict=True):
        assert int(got) == F16.round(F32.value(int(word)), mode)


def test_packed_truncating_conversion() -> None:
    x = [1.9999999, -1.9999999, 65519.0, 1e9, math.inf, 3e-8, -3e-8, 1e-9]
    done = run("v_cvt_pk_rtz_f16_f32 v1, v0, 1.0", v={0: np.resize(bits(x), 32)})
    expected = [0x3FFF, 0xBFFF, 0x7BFF, 0x7BFF, 0x7C00, 0, 0x8000, 0]
    assert [w & 0xFFFF for w in lanes_of(done, 1)[: len(x)]] == expected
    assert {w >> 16 for w in lanes_of(done, 1)} == {0x3C00}


def fp8_code(x: float) -> int:
    """OCP e4m3 by ml_dtypes, with gfx12's treatment of what lies outside: NaN code with the sign."""
    if math.isnan(x):
        return 0xFF
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    if abs(x) > 464:
        return sign | 0x7F
    return int(np.float32(x).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


def test_fp8_conversion_of_every_half_value() -> None:
    with np.errstate(all="ignore"):
        x = HALVES.astype(np.uint16).view(np.float16).astype(np.float32)
    words = by_waves(x.view(np.uint32))
    done = run(
        "v_cvt_pk_fp8_f32 v1.l, v0, v0",
        "v_cvt_pk_fp8_f32 v2.h, v0, 1.0",
        v={0: words, 1: np.full_like(words, 0xAAAA_BBBB), 2: np.full_like(words, 0xAAAA_BBBB)},
        waves=len(words),
    )
    codes = np.array([fp8_code(float(v)) for v in x], dtype=np.uint32)
    assert (done.vgpr[1].reshape(-1) == (0xAAAA_0000 | codes << 8 | codes)).all()
    assert (done.vgpr[2].reshape(-1) == (0x3800_BBBB | codes << 16)).all()


def test_fp8_overflow_is_decided_after_rounding() -> None:
    x = [448.0, 463.9, 464.0, 464.1, 1e9, math.inf, -464.1, -math.inf, math.nan, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10]
    source = {0: np.resize(bits(x), 32), 1: [0] * 32, 2: [0] * 32}
    plain = run("v_cvt_pk_fp8_f32 v1.l, v0, 0", v=source)
    clamped = run("v_cvt_pk_fp8_f32 v1.l, v0, 0", v=source, mode=MODE | 1 << 23)
    subnormal = [1, 0, 1]
    assert lanes_of(plain, 1)[: len(x)] == [0x7E, 0x7E, 0x7E, 0x7F, 0x7F, 0x7F, 0xFF, 0xFF, 0xFF, *subnormal]
    assert lanes_of(clamped, 1)[: len(x)] == [0x7E] * 6 + [0xFE, 0xFE, 0xFF, *subnormal]


def test_fp8_rounding_next_to_every_midpoint() -> None:
    """Each pair of neighbouring codes: the midpoint and the f32 on both sides of it, both signs."""
    numbers = np.arange(0x7F, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    middle = np.append((numbers[1:] + numbers[:-1]) / 2, np.float32(464))
    near = [middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))]
    x = np.concatenate([*near, *(-v for v in near)]).astype(np.float32)
    words = by_waves(x.view(np.uint32))
    done = run("v_cvt_pk_fp8_f32 v1.l, v0, 0", v={0: words, 1: np.zeros_like(words)}, waves=len(words))
    for lane, value in enumerate(x):
        assert int(done.vgpr[1].reshape(-1)[lane]) == fp8_code(float(value)), value


def test_fp8_to_f32_selects_bytes() -> None:
    words = np.array([0x7F38_B001 + 0x0101_0101 * i for i in range(32)], dtype=np.uint32)
    done = run(
        "v_cvt_f32_fp8 v1, v0",
        "v_cvt_f32_fp8_e64 v2, v0 byte_sel:1",
        "v_cvt_f32_fp8_e64 v3, v0 byte_sel:2",
        "v_cvt_f32_fp8_e64 v4, v0 byte_sel:3",
        "v_cvt_pk_f32_fp8 v[6:7], v0.h",
        v={0: words},
    )
    decoded = words.view(np.uint8).reshape(32, 4).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    for register, byte in ((1, 0), (2, 1), (3, 2), (4, 3), (6, 2), (7, 3)):
        np.testing.assert_array_equal(floats(done.vgpr[register, 0]), decoded[:, byte])


def test_bytes_and_packs() -> None:
    done = run(
        "v_cvt_f32_ubyte0 v1, v0",
        "v_cvt_f32_ubyte3 v2, v0",
        "v_pack_b32_f16 v3, v0.l, v0.h",
        "v_pack_b32_f16 v4, -v0.h, |v0.l|",
        v={0: [0x8144_C003] * 32},
    )
    assert (floats(done.vgpr[1, 0, 0]), floats(done.vgpr[2, 0, 0])) == (3.0, 129.0)
    assert lanes_of(done, 3)[0] == 0x8144_C003
    assert lanes_of(done, 4)[0] == 0x4003_0144


RELATIONS = {
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "lg": lambda x, y: x < y or x > y,
    "ge": lambda x, y: x >= y,
    "o": lambda x, y: not (math.isnan(x) or math.isnan(y)),
    "u": lambda x, y: math.isnan(x) or math.isnan(y),
    "nge": lambda x, y: not x >= y,
    "nlg": lambda x, y: not (x < y or x > y),
    "ngt": lambda x, y: not x > y,
    "nle": lambda x, y: not x <= y,
    "neq": lambda x, y: x != y,
    "nlt": lambda x, y: not x < y,
}


@pytest.mark.parametrize("execution", [FULL, 0x00FF_F00F])
def test_float_comparisons(execution: int) -> None:
    x = [-1.0, 0.0, -0.0, 1.0, math.nan, math.inf, 1.0, 2.0] * 4
    y = [x[(lane + lane // 8) % 8] for lane in range(32)]
    names = list(RELATIONS)
    lines = [f"v_cmp_{name}_f32 s{i}, v0, v1" for i, name in enumerate(names)]
    lines += [f"v_cmp_{name}_f16 s{20 + i}, v2.l, v2.h" for i, name in enumerate(names)]
    halves = np.array([x, y], dtype=np.float16).view(np.uint16).astype(np.uint32)
    done = run(*lines, v={0: bits(x), 1: bits(y), 2: halves[0] | halves[1] << 16}, execution=execution)
    for i, name in enumerate(names):
        expected = sum(RELATIONS[name](a, b) << lane for lane, (a, b) in enumerate(zip(x, y, strict=True)))
        assert int(done.sgpr[i, 0]) == expected & execution, name
        assert int(done.sgpr[20 + i, 0]) == expected & execution, name


def test_compare_into_exec_masks_what_follows() -> None:
    done = run(
        "v_cmpx_gt_u32 v0, 15",
        "v_mov_b32 v1, 7",
        "v_cmpx_lt_u32 v0, v2",
        "v_mov_b32 v1, 9",
        v={0: list(range(32)), 1: [0] * 32, 2: [20] * 32},
    )
    # The assembler moves the constant to source 0 where it must; 15 > v0 or v0 > 15 shows in the lanes.
    assert lanes_of(done, 1) == [0] * 16 + [9] * 4 + [7] * 12


CLASSES = [0x7F80_0001, 0x7FC0_0000, 0xFF80_0000, 0xBF80_0000, 0x8000_0001, 0x8000_0000, 0, 1, 0x3F80_0000, 0x7F80_0000]


def test_class_of_every_kind() -> None:
    done = run(
        *(f"v_cmp_class_f32 s{bit}, v0, {1 << bit:#x}" for bit in range(10)),
        "v_cmp_class_f32 s20, v0, 0x3ff",
        "v_cmp_class_f32_e64 s21, |v0|, 0x200",
        v={0: (CLASSES + [0] * 32)[:32]},
    )
    for bit in range(10):
        assert int(done.sgpr[bit, 0]) & 0x3FF == 1 << bit
    assert int(done.sgpr[20, 0]) == FULL
    assert int(done.sgpr[21, 0]) & 0x3FF == 0b10_0000_0100


def test_select_by_mask_and_half_select() -> None:
    done = run(
        "v_cndmask_b32 v2, v0, v1, s0",
        "v_cndmask_b32_e64 v3, -v0, |v1|, s0",
        "v_cndmask_b16 v4.h, v0.l, v1.h, s0",
        v={0: [0x4000_1111] * 32, 1: [0xC000_2222] * 32, 4: [5] * 32},
        s={0: 2},
    )
    assert lanes_of(done, 2)[:2] == [0x4000_1111, 0xC000_2222]
    assert lanes_of(done, 3)[:2] == [0xC000_1111, 0x4000_2222]
    assert lanes_of(done, 4)[:2] == [0x1111_0005, 0xC000_0005]
