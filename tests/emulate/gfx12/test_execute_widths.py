"""Vector float instructions that exist for several widths, f16 and f64 besides f32, and the rest of VALU."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.gfx12.rounding import F16, Format
from tests.emulate.gfx12.snippet import bits, floats, lanes_of, run
from zluda_rr.emulate.gfx12.machine import Machine

F64 = Format(11, 52)
X = [-3.75, -1.0, -0.5, 0.0, 0.25, 0.5, 1.5, 2.5] * 4
Y = [float(v) for v in np.resize([2.0, -0.5, 8.0], 32)]
Z = [float(v) for v in np.resize([1.0, -4.0, 0.75, 0.0, -1.5], 32)]
WIDTHS = ("f16", "f32", "f64")


def load(kind: str, first: int, values: list[float]) -> dict[int, np.ndarray]:
    """Registers that hold the values; f16 in the high half, with rubbish below."""
    if kind == "f32":
        return {first: bits(values)}
    if kind == "f16":
        return {first: np.array(values, np.float16).view(np.uint16).astype(np.uint32) << 16 | 0x1234}
    words = np.array(values, np.float64).view(np.uint32).reshape(32, 2)
    return {first: words[:, 0], first + 1: words[:, 1]}


def name(kind: str, register: int, half: str = "h") -> str:
    return {"f16": f"v{register}.{half}", "f32": f"v{register}", "f64": f"v[{register}:{register + 1}]"}[kind]


def read(kind: str, done: Machine, register: int) -> list[float]:
    if kind == "f32":
        return floats(done.vgpr[register, 0]).astype(float).tolist()
    if kind == "f16":
        return (done.vgpr[register, 0] & 0xFFFF).astype(np.uint16).view(np.float16).astype(float).tolist()
    return np.ascontiguousarray(done.vgpr[register : register + 2, 0].T).view(np.float64)[:, 0].tolist()


def sources(kind: str) -> dict[int, np.ndarray]:
    return load(kind, 0, X) | load(kind, 2, Y) | load(kind, 4, Z)


ONE: dict[str, Callable[[float], float]] = {
    "trunc": math.trunc,
    "ceil": math.ceil,
    "floor": math.floor,
    "rndne": round,
    "fract": lambda x: x - math.floor(x),
    "frexp_mant": lambda x: math.frexp(x)[0],
}
TWO: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "min_num": min,
    "max_num": max,
    "minimum": min,
    "maximum": max,
}
TWO_NARROW: dict[str, Callable[[float, float], float]] = {
    "sub": lambda x, y: x - y,
    "subrev": lambda x, y: y - x,
}
THREE_NARROW: dict[str, Callable[[float, float, float], float]] = {
    "min3_num": min,
    "max3_num": max,
    "med3_num": lambda x, y, z: sorted((x, y, z))[1],
    "minmax_num": lambda x, y, z: max(min(x, y), z),
    "maxmin_num": lambda x, y, z: min(max(x, y), z),
    "minimum3": min,
    "maximum3": max,
    "minimummaximum": lambda x, y, z: max(min(x, y), z),
    "maximumminimum": lambda x, y, z: min(max(x, y), z),
}


@pytest.mark.parametrize("kind", WIDTHS)
def test_widths(kind: str) -> None:
    """All results are exact in every width; -0 and +0 compare equal here."""
    narrow = kind != "f64"
    two = TWO | TWO_NARROW if narrow else TWO
    three = (THREE_NARROW if narrow else {}) | {"fma": lambda x, y, z: x * y + z}
    tables = [(ONE, 1), (two, 2), (three, 3)]
    lines, checks, register = [], [], 10
    for table, count in tables:
        for stem, formula in table.items():
            operands = ", ".join(name(kind, r) for r in (0, 2, 4)[:count])
            lines.append(f"v_{stem}_{kind} {name(kind, register, 'l')}, {operands}")
            checks.append((stem, formula, count, register))
            register += 2
    done = run(*lines, v=sources(kind))
    for stem, formula, count, at in checks:
        expected = [float(formula(*lane)) for lane in zip(*(X, Y, Z)[:count], strict=True)]  # type: ignore[operator]
        assert read(kind, done, at) == expected, stem


@pytest.mark.parametrize("kind", WIDTHS)
def test_exponents(kind: str) -> None:
    integer, target, power = ("i16", "v10.l", "v12.l") if kind == "f16" else ("i32", "v10", "v12")
    done = run(
        f"v_frexp_exp_{integer}_{kind} {target}, {name(kind, 0)}",
        f"v_ldexp_{kind} {name(kind, 20, 'l')}, {name(kind, 0)}, {power}",
        v=sources(kind) | {10: [0] * 32, 12: [3] * 32},
    )
    exponents = done.vgpr[10, 0].astype(np.uint16).view(np.int16) if kind == "f16" else done.vgpr[10, 0].view(np.int32)
    assert exponents.tolist() == [math.frexp(x)[1] for x in X]
    assert read(kind, done, 20) == [x * 8 for x in X]


def test_ldexp_at_the_ends_of_the_range() -> None:
    x = np.resize([1.0, 1.5, 1.0, -1.0, 0.0, math.inf, 3.0], 32)
    powers = np.resize(np.array([-149, -149, 128, 500, 7, -9, -151], dtype=np.int32), 32)
    done = run("v_ldexp_f32 v2, v0, v1", v={0: bits(x), 1: powers.view(np.uint32)})
    assert lanes_of(done, 2)[:7] == [1, 2, 0x7F80_0000, 0xFF80_0000, 0, 0x7F80_0000, 1]


def test_f64_fma_rounds_once() -> None:
    a, b, c = 1 + 2.0**-30, 1 + 2.0**-30, -1 - 2.0**-29
    registers = load("f64", 0, [a] * 32) | load("f64", 2, [b] * 32) | load("f64", 4, [c] * 32)
    done = run("v_fma_f64 v[10:11], v[0:1], v[2:3], v[4:5]", v=registers)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert read("f64", done, 10) == [float(exact)] * 32
    assert float(exact) != a * b + c


def test_f64_functions_and_conversions() -> None:
    x = [0.25, 4.0, 1e300, 3.0] * 8
    done = run(
        "v_rcp_f64 v[10:11], v[0:1]",
        "v_rsq_f64 v[12:13], v[0:1]",
        "v_sqrt_f64 v[14:15], v[0:1]",
        "v_cvt_f32_f64 v16, v[0:1]",
        "v_cvt_f64_f32 v[18:19], v2",
        "v_cvt_f64_i32 v[20:21], v3",
        "v_cvt_f64_u32 v[22:23], v3",
        "v_cvt_i32_f64 v24, v[4:5]",
        "v_cvt_u32_f64 v25, v[4:5]",
        v=load("f64", 0, x) | {2: bits(X), 3: [0xFFFF_FFFE] * 32} | load("f64", 4, [-3e9, -2.9, 5e9, math.nan] * 8),
    )
    assert read("f64", done, 10)[:2] == [4.0, 0.25]
    assert read("f64", done, 12)[:2] == [2.0, 0.5]
    assert read("f64", done, 14)[:2] == [0.5, 2.0]
    assert floats(done.vgpr[16, 0, :4]).tolist() == [0.25, 4.0, math.inf, 3.0]
    assert read("f64", done, 18) == X
    assert (read("f64", done, 20)[0], read("f64", done, 22)[0]) == (-2.0, 4294967294.0)
    assert done.vgpr[24, 0, :4].view(np.int32).tolist() == [-(2**31), -2, 2**31 - 1, 0]
    assert lanes_of(done, 25)[:4] == [0, 0, 0xFFFF_FFFF, 0]


def test_f16_functions_are_correctly_rounded() -> None:
    x = np.geomspace(0.01, 100, 32).astype(np.float16)
    source = {0: x.view(np.uint16).astype(np.uint32)}
    functions = {
        "exp": np.exp2, "log": np.log2, "rcp": lambda v: 1 / v, "rsq": lambda v: 1 / np.sqrt(v), "sqrt": np.sqrt,
    }  # fmt: skip
    done = run(*(f"v_{stem}_f16 v{10 + i}.l, v0.l" for i, stem in enumerate(functions)), v=source)
    for i, exact in enumerate(functions.values()):
        with np.errstate(over="ignore"):
            expected = exact(x.astype(np.longdouble)).astype(np.float16)
        assert (done.vgpr[10 + i, 0].astype(np.uint16) == expected.view(np.uint16)).all()


def test_sine_and_cosine_take_revolutions() -> None:
    x = np.array([0.0, 0.25, 0.5, 0.75, 1.25, -0.25, 100.5, 0.125] * 4)
    done = run(
        "v_sin_f32 v1, v0",
        "v_cos_f32 v2, v0",
        "v_sin_f16 v3.l, v4.h",
        "v_cos_f16 v5.l, v4.h",
        v={0: bits(x)} | load("f16", 4, list(x)),
    )
    np.testing.assert_allclose(floats(done.vgpr[1, 0]), np.sin(2 * np.pi * x), atol=1e-6)
    np.testing.assert_allclose(floats(done.vgpr[2, 0]), np.cos(2 * np.pi * x), atol=1e-6)
    np.testing.assert_allclose(read("f16", done, 3), np.sin(2 * np.pi * x), atol=1e-3)
    np.testing.assert_allclose(read("f16", done, 5), np.cos(2 * np.pi * x), atol=1e-3)


def test_accumulating_and_constant_forms() -> None:
    done = run(
        "v_fmac_f16 v6.l, v0.h, v2.h",
        "v_fmaak_f16 v7.l, v0.h, v2.h, 0x4200",
        "v_fmamk_f16 v8.l, v0.h, 0x4200, v4.h",
        "v_fmamk_f32 v9, v10, 0x40400000, v11",
        "v_fmaak_f32 v12, v10, v11, 0x40400000",
        "v_subrev_f32 v13, v10, v11",
        "v_mul_dx9_zero_f32 v14, v15, v16",
        "v_pk_fmac_f16 v17, v18, v19",
        v=sources("f16")
        | {6: [0x3C00] * 32, 10: bits(X), 11: bits(Z)}
        | {15: [0] * 32, 16: [0x7F80_0000] * 32}
        | {17: [0x3C00_4000] * 32, 18: [0x4000_4200] * 32, 19: [0x4400_4000] * 32},
    )
    lanes = list(zip(X, Y, Z, strict=True))
    assert read("f16", done, 6) == [x * y + 1 for x, y, _ in lanes]
    assert read("f16", done, 7) == [x * y + 3 for x, y, _ in lanes]
    assert read("f16", done, 8) == [x * 3 + z for x, _, z in lanes]
    assert read("f32", done, 9) == [x * 3 + z for x, _, z in lanes]
    assert read("f32", done, 12) == [x * z + 3 for x, _, z in lanes]
    assert read("f32", done, 13) == [z - x for x, _, z in lanes]
    assert lanes_of(done, 14)[0] == 0
    # low: 3 * 2 + 2, high: 2 * 4 + 1
    assert done.vgpr[17, 0, :1].view(np.float16).tolist() == [8.0, 9.0]


def test_swaps() -> None:
    registers = {0: [1] * 32, 1: [2] * 32, 2: [0x1111_2222] * 32, 3: [0x3333_4444] * 32}
    done = run("v_swap_b32 v0, v1", "v_swap_b16 v2.l, v3.h", v=registers, execution=1)
    assert [lanes_of(done, r)[:2] for r in (0, 1)] == [[2, 1], [1, 2]]
    assert [lanes_of(done, r)[:2] for r in (2, 3)] == [[0x1111_3333, 0x1111_2222], [0x2222_4444, 0x3333_4444]]


def test_sixteen_bit_integers() -> None:
    a, b, c = 0x8003, 0x0005, 0xFFFE

    def signed(x: int) -> int:
        return x - 0x10000 if x & 0x8000 else x

    cases: dict[str, int] = {
        "v_add_nc_i16": a + b, "v_sub_nc_u16": a - b, "v_max_u16": max(a, b), "v_min_i16": signed(a), "v_or_b16": a | b,
    }  # fmt: skip
    triples: dict[str, int] = {
        "v_mad_u16": a * b + c, "v_mad_i16": a * b + c, "v_max3_i16": b, "v_min3_i16": a, "v_med3_i16": c,
        "v_max3_u16": c, "v_min3_u16": b, "v_med3_u16": a,
    }  # fmt: skip
    lines = [f"{op} v{10 + i}.l, v0.l, v1.l" for i, op in enumerate(cases)]
    lines += [f"{op} v{20 + i}.l, v0.l, v1.l, v2.l" for i, op in enumerate(triples)]
    lines += ["v_mov_b16 v30.h, v0.l", "v_not_b16 v31.l, v0.l"]
    lines += ["v_mad_u32_u16 v32, v0.l, v1.l, v3", "v_mad_i32_i16 v33, v0.l, v1.l, v3"]
    done = run(*lines, v={0: [a] * 32, 1: [b] * 32, 2: [c] * 32, 3: [1 << 20] * 32, 30: [7] * 32})
    for first, table in ((10, cases), (20, triples)):
        for i, (op, value) in enumerate(table.items()):
            assert lanes_of(done, first + i)[0] & 0xFFFF == value & 0xFFFF, op
    assert lanes_of(done, 30)[0] == a << 16 | 7
    assert lanes_of(done, 31)[0] & 0xFFFF == ~a & 0xFFFF
    assert lanes_of(done, 32)[0] == a * b + (1 << 20)
    assert lanes_of(done, 33)[0] == signed(a) * b + (1 << 20)


def test_packed_integers() -> None:
    x, y, z = (0x8001, 0x0002), (0x0003, 0xFFFF), (0x0004, 0x7FFF)  # (low, high)
    words = {r: [low | high << 16] * 32 for r, (low, high) in enumerate((x, y, z))}
    done = run(
        "v_pk_add_i16 v10, v0, v1",
        "v_pk_sub_u16 v11, v0, v1",
        "v_pk_min_u16 v12, v0, v1",
        "v_pk_max_i16 v13, v0, v1",
        "v_pk_mad_u16 v14, v0, v1, v2",
        "v_pk_mad_i16 v15, v0, v1, v2",
        "v_pk_lshrrev_b16 v16, v1, v0",
        "v_pk_add_u16 v17, v0, v1 clamp",
        "v_pk_sub_i16 v18, v0, v1 clamp",
        "v_pk_add_i16 v19, v0, 1 op_sel_hi:[1,0]",
        v=words,
    )

    def word(*halves: int) -> int:
        return halves[0] & 0xFFFF | (halves[1] & 0xFFFF) << 16

    expected = {
        10: word(x[0] + y[0], x[1] + y[1]),
        11: word(x[0] - y[0], x[1] - y[1]),
        12: word(y[0], x[1]),
        13: word(y[0], x[1]),
        14: word(x[0] * y[0] + z[0], x[1] * y[1] + z[1]),
        15: word(x[0] * y[0] + z[0], x[1] * y[1] + z[1]),
        16: word(x[0] >> 3, x[1] >> 15),
        17: word(x[0] + y[0], 0xFFFF),
        18: word(0x8000, 3),
        19: word(x[0] + 1, x[1] + 1),
    }
    for register, value in expected.items():
        assert lanes_of(done, register)[0] == value, register


def test_remaining_conversions() -> None:
    half = np.array([1.5, -2.5, 3e4, -3e4, 0.999, -0.999, np.nan, np.inf] * 4, np.float16)
    done = run(
        "v_cvt_i16_f16 v10.l, v0.l",
        "v_cvt_u16_f16 v11.l, v0.l",
        "v_cvt_f16_i16 v12.l, v1.l",
        "v_cvt_f16_u16 v13.l, v1.l",
        "v_cvt_norm_i16_f16 v14.l, v0.l",
        "v_cvt_norm_u16_f16 v15.l, v0.l",
        "v_cvt_f32_ubyte1 v16, v2",
        "v_cvt_f32_ubyte2 v17, v2",
        "v_cvt_pk_u8_f32 v18, v3, 2, v2",
        "v_sat_pk_u8_i16 v19.l, v4",
        "v_cvt_pk_i16_f32 v20, v3, v5",
        "v_cvt_pk_u16_f32 v21, v3, v5",
        "v_cvt_pk_norm_i16_f32 v22, v6, v6",
        "v_cvt_pk_norm_u16_f32 v23, v6, v6",
        "v_cvt_f32_bf8 v24, v7",
        "v_cvt_pk_bf8_f32 v25.l, v3, v6",
        v={
            0: half.view(np.uint16).astype(np.uint32),
            1: [0xFFFD] * 16 + [0x7001] * 16,
            2: [0x1122_3344] * 32,
            3: bits([200.6] * 32),
            4: [0xFFF0_0200] * 32,
            5: bits([-70000.0] * 32),
            6: bits([-0.5] * 32),
            7: [0x1234_5641] * 32,
            25: [0] * 32,
        },
    )
    low = {r: done.vgpr[r, 0].astype(np.uint16) for r in (10, 11, 12, 13, 14, 15, 19, 25)}
    assert low[10].view(np.int16)[:8].tolist() == [1, -2, 30000, -30000, 0, 0, 0, 32767]
    assert low[11][:8].tolist() == [1, 0, 30000, 0, 0, 0, 0, 65535]
    assert low[12].view(np.float16)[[0, 16]].tolist() == [-3.0, 28672.0]
    assert low[13].view(np.float16)[[0, 16]].tolist() == [math.inf, 28672.0]
    near = float(half[4]) * 32767
    assert low[14].view(np.int16)[:8].tolist() == [
        32767, -32767, 32767, -32767, round(near), -round(near), 0, 32767,
    ]  # fmt: skip
    assert low[15][:8].tolist() == [65535, 0, 65535, 0, round(float(half[4]) * 65535), 0, 0, 65535]
    assert (floats(done.vgpr[16, 0, 0]), floats(done.vgpr[17, 0, 0])) == (0x33, 0x22)
    assert lanes_of(done, 18)[0] == 0x11C9_3344
    assert low[19][0] == 0x00FF
    assert lanes_of(done, 20)[0] == 200 | 0x8000 << 16
    assert lanes_of(done, 21)[0] == 200
    assert lanes_of(done, 22)[0] == 0xC000_C000
    assert lanes_of(done, 23)[0] == 0
    assert floats(done.vgpr[24, 0, 0]) == np.uint8(0x41).view(ml_dtypes.float8_e5m2).astype(np.float32)
    codes = np.array([200.6, -0.5], np.float32).astype(ml_dtypes.float8_e5m2).view(np.uint8)
    assert low[25][0] == int(codes[0]) | int(codes[1]) << 8


def test_half_format_is_the_reference_one() -> None:
    assert F16.value(0x3C01) == Fraction(1025, 1024)
    assert F64.value(0x3FF0_0000_0000_0000) == 1
