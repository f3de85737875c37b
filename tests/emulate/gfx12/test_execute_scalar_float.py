"""Scalar floats of gfx12, pseudo-scalar functions, one-operand scalar integers, EXEC logic and branches."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import FULL, bits, execute, floats, machine, run
from zluda_rr.emulate.gfx12.machine import PRIVATE_APERTURE, SCC_ROW, SHARED_APERTURE

NUMBERS = [-2.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.0, 100.0]
PAIRS = [(x, y) for x in NUMBERS for y in NUMBERS]
TWO: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "min_num": min,
    "max_num": max,
    "minimum": min,
    "maximum": max,
}
ONE: dict[str, Callable[[float], float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "rndne": round,
}


def half_bits(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float16).view(np.uint16).astype(np.uint32)


def half_values(words: np.ndarray) -> list[float]:
    return words.astype(np.uint16).view(np.float16).astype(float).tolist()


def test_scalar_float_arithmetic() -> None:
    first, second = [x for x, _ in PAIRS], [y for _, y in PAIRS]
    names = [*TWO, *ONE]
    lines = []
    for i, name in enumerate(names):
        sources = ("s0, s1", "s2, s3") if name in TWO else ("s0", "s2")
        lines += [f"s_{name}_f32 s{10 + i}, {sources[0]}", f"s_{name}_f16 s{30 + i}, {sources[1]}"]
    done = run(
        *lines,
        s={0: bits(first), 1: bits(second), 2: half_bits(first), 3: half_bits(second)},
        waves=len(PAIRS),
    )
    for i, name in enumerate(names):
        expected = [TWO[name](x, y) if name in TWO else ONE[name](x) for x, y in PAIRS]
        assert floats(done.sgpr[10 + i]).tolist() == expected, name
        assert half_values(done.sgpr[30 + i]) == expected, name


def test_scalar_fused_operations() -> None:
    x, y, z = (float(np.float32(v)) for v in (1 + 2**-12, 1 + 2**-12, -1 - 2**-11))
    done = run(
        "s_fmac_f32 s2, s0, s1",
        "s_fmaak_f32 s3, s0, s1, 0xbf801000",
        "s_fmamk_f32 s4, s0, 0x3f800800, s5",
        "s_fmac_f16 s8, s6, s7",
        s=dict(zip((0, 1, 2, 5), (bits(v) for v in (x, y, z, z)), strict=True))
        | dict(zip((6, 7, 8), (half_bits([v]) for v in (1.5, 2.0, 0.25)), strict=True)),
    )
    assert [float(floats(done.sgpr[r])[0]) for r in (2, 4)] == [2.0**-24] * 2
    assert float(floats(done.sgpr[3])[0]) == x * y + float(np.uint32(0xBF80_1000).view(np.float32))
    assert half_values(done.sgpr[8]) == [3.25]


def test_scalar_conversions() -> None:
    x = [3.99, -3.99, 3e9, -1.0, math.nan, math.inf, 65519.0, 1e6]
    done = run(
        "s_cvt_i32_f32 s1, s0",
        "s_cvt_u32_f32 s2, s0",
        "s_cvt_f16_f32 s3, s0",
        "s_cvt_f32_f16 s4, s3",
        "s_cvt_pk_rtz_f16_f32 s5, s0, 1.0",
        "s_cvt_hi_f32_f16 s6, s5",
        "s_cvt_f32_i32 s7, s1",
        "s_cvt_f32_u32 s8, s1",
        s={0: bits(x)},
        waves=len(x),
    )
    integers = [3, -3, 2**31 - 1, -1, 0, 2**31 - 1, 65519, 1000000]
    assert done.sgpr[1].view(np.int32).tolist() == integers
    assert done.sgpr[2].tolist() == [3, 0, 3_000_000_000, 0, 0, FULL, 65519, 1000000]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(floats(done.sgpr[4]), np.float32(np.float16(x)))
    assert half_values(done.sgpr[5] & 0xFFFF)[6:] == [65504.0, 65504.0]
    assert floats(done.sgpr[6]).tolist() == [1.0] * 8
    assert floats(done.sgpr[7]).tolist() == [float(np.float32(i)) for i in integers]
    assert floats(done.sgpr[8]).tolist() == [float(np.float32(i & FULL)) for i in integers]


def test_pseudo_scalar_functions() -> None:
    x = [0.25, 1.0, 2.0, 9.0]
    names = ("exp", "log", "rcp", "rsq", "sqrt")
    lines = [f"v_s_{name}_f32 s{10 + i}, s0" for i, name in enumerate(names)]
    lines += [f"v_s_{name}_f16 s{20 + i}, s1" for i, name in enumerate(names)]
    done = run(*lines, s={0: bits(x), 1: half_bits(x)}, waves=4)
    wide = np.array(x, dtype=np.longdouble)
    exact = [np.exp2(wide), np.log2(wide), 1 / wide, 1 / np.sqrt(wide), np.sqrt(wide)]
    for i, values in enumerate(exact):
        assert floats(done.sgpr[10 + i]).tolist() == values.astype(np.float32).tolist()
        assert half_values(done.sgpr[20 + i]) == values.astype(np.float16).tolist()


WORDS = [0, 1, 0x80, 0x8000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x00F0_0100]


def signed(x: int, width: int) -> int:
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


UNARY: dict[str, tuple[Callable[[int], int], bool]] = {
    "s_abs_i32": (lambda x: abs(signed(x, 32)), True),
    "s_not_b32": (lambda x: ~x, True),
    "s_bcnt0_i32_b32": (lambda x: 32 - x.bit_count(), True),
    "s_bcnt1_i32_b32": (lambda x: x.bit_count(), True),
    "s_brev_b32": (lambda x: int(f"{x:032b}"[::-1], 2), False),
    "s_ctz_i32_b32": (lambda x: (x & -x).bit_length() - 1, False),
    "s_clz_i32_u32": (lambda x: 32 - x.bit_length() if x else -1, False),
    "s_cls_i32": (lambda x: 32 - y.bit_length() if (y := x ^ (FULL if x >> 31 else 0)) else -1, False),
    "s_sext_i32_i8": (lambda x: signed(x, 8), False),
    "s_sext_i32_i16": (lambda x: signed(x, 16), False),
    "s_mov_b32": (lambda x: x, False),
}


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    formula, sets_scc = UNARY[name]
    done = run("s_cmp_eq_u32 s0, s0", f"{name} s1, s0", s={0: WORDS}, waves=len(WORDS))
    assert done.sgpr[1].tolist() == [formula(x) & FULL for x in WORDS]
    expected = [formula(x) & FULL != 0 if sets_scc else True for x in WORDS]
    assert [bool(x) for x in done.sgpr[SCC_ROW]] == expected


def test_pairs_of_scalars() -> None:
    x, y = 0x8000_0001_0000_00F0, 0x0F00_0000_0000_0011
    done = run(
        "s_not_b64 s[10:11], s[0:1]",
        "s_bcnt1_i32_b64 s12, s[0:1]",
        "s_bcnt0_i32_b64 s13, s[0:1]",
        "s_ctz_i32_b64 s14, s[0:1]",
        "s_cls_i32_i64 s15, s[2:3]",
        "s_or_b64 s[16:17], s[0:1], s[2:3]",
        "s_xor_b64 s[18:19], s[0:1], s[2:3]",
        "s_nand_b64 s[20:21], s[0:1], s[2:3]",
        "s_nor_b64 s[22:23], s[0:1], s[2:3]",
        "s_xnor_b64 s[24:25], s[0:1], s[2:3]",
        "s_and_not1_b64 s[26:27], s[0:1], s[2:3]",
        "s_or_not1_b64 s[28:29], s[0:1], s[2:3]",
        "s_lshr_b64 s[30:31], s[0:1], 4",
        "s_ashr_i64 s[32:33], s[0:1], 4",
        "s_bfm_b64 s[34:35], 40, 3",
        "s_sub_nc_u64 s[36:37], s[2:3], s[0:1]",
        "s_mov_b64 s[38:39], s[0:1]",
        s={0: x & FULL, 1: x >> 32, 2: y & FULL, 3: y >> 32},
    )
    mask = (1 << 64) - 1
    pairs = {
        10: ~x, 16: x | y, 18: x ^ y, 20: ~(x & y), 22: ~(x | y), 24: ~(x ^ y), 26: x & ~y, 28: x | ~y,
        30: x >> 4, 32: signed(x, 64) >> 4, 34: ((1 << 40) - 1) << 3, 36: y - x, 38: x,
    }  # fmt: skip
    for register, value in pairs.items():
        got = int(done.sgpr[register, 0]) | int(done.sgpr[register + 1, 0]) << 32
        assert got == value & mask, register
    assert done.sgpr[12:16, 0].tolist() == [x.bit_count(), 64 - x.bit_count(), 4, 64 - y.bit_length()]


def test_carry_chain_and_conditional_moves() -> None:
    done = run(
        "s_add_co_u32 s4, s0, s2",
        "s_add_co_ci_u32 s5, s1, s3",
        "s_sub_co_u32 s6, s0, s2",
        "s_sub_co_ci_u32 s7, s1, s3",
        "s_cmp_eq_u32 s8, 0",
        "s_cmov_b32 s9, 5",
        "s_cmov_b64 s[10:11], 6",
        "s_cmovk_i32 s12, 0x8001",
        "s_mulk_i32 s13, -3",
        "s_lshl1_add_u32 s14, s0, s2",
        "s_lshl3_add_u32 s15, s0, s2",
        "s_lshl4_add_u32 s16, s0, s2",
        "s_pack_ll_b32_b16 s17, s0, s2",
        "s_pack_hh_b32_b16 s18, s0, s2",
        "s_bitset0_b32 s19, 31",
        s={0: 0xFFFF_FFF0, 1: 5, 2: 0x23, 3: 7, 8: [0, 1], 9: 1, 10: 2, 11: 3, 12: 4, 13: 9, 19: FULL},
        waves=2,
    )
    total, difference = (5 << 32 | 0xFFFF_FFF0) + (7 << 32 | 0x23), (5 << 32 | 0xFFFF_FFF0) - (7 << 32 | 0x23)
    assert done.sgpr[4:8, 0].tolist() == [total & FULL, total >> 32, difference & FULL, difference >> 32 & FULL]
    assert done.sgpr[9].tolist() == [5, 1]
    assert done.sgpr[10].tolist() == [6, 2]
    assert done.sgpr[11].tolist() == [0, 3]
    assert done.sgpr[12].tolist() == [0xFFFF_8001, 4]
    a, b = 0xFFFF_FFF0, 0x23
    expected = [-27, 2 * a + b, 8 * a + b, 16 * a + b, a & 0xFFFF | b << 16, a >> 16, 0x7FFF_FFFF]
    assert done.sgpr[13:20, 0].tolist() == [v & FULL for v in expected]


SAVES: dict[str, Callable[[int, int], int]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "and_not0": lambda s, e: ~s & e,
    "and_not1": lambda s, e: s & ~e,
    "or_not0": lambda s, e: ~s | e,
    "or_not1": lambda s, e: s | ~e,
}


@pytest.mark.parametrize("name", SAVES)
def test_save_exec(name: str) -> None:
    sources, masks = [0xFF, 0, FULL, 0xF0F0_F0F0], [0x0F0F_0F0F, FULL, 0, 0x00FF_FF00]
    target = machine(4)
    target.sgpr[0], target.sgpr[126] = sources, masks
    target.vgpr[0] = 0
    execute(target, [f"s_{name}_saveexec_b32 s1, s0", "v_mov_b32 v0, 1"])
    expected = [SAVES[name](s, e) & FULL for s, e in zip(sources, masks, strict=True)]
    assert target.sgpr[1].tolist() == masks
    assert target.sgpr[126].tolist() == expected
    assert [bool(x) for x in target.sgpr[SCC_ROW]] == [x != 0 for x in expected]
    written = [sum(int(x) << lane for lane, x in enumerate(target.vgpr[0, wave])) for wave in range(4)]
    assert written == expected


@pytest.mark.parametrize(
    ("branch", "taken"),
    [
        ("s_cbranch_scc0", [0, 1]),
        ("s_cbranch_scc1", [1, 0]),
        ("s_cbranch_vccz", [0, 1]),
        ("s_cbranch_vccnz", [1, 0]),
        ("s_cbranch_execz", [0, 1]),
        ("s_cbranch_execnz", [1, 0]),
    ],
)
def test_branches(branch: str, taken: list[int]) -> None:
    """Wave 0 has SCC, VCC and EXEC set, wave 1 has them zero."""
    target = machine(2)
    target.sgpr[0] = [1, 0]
    execute(
        target,
        [
            "s_mov_b32 vcc_lo, s0",
            "s_mov_b32 exec_lo, s0",
            "s_mov_b32 s1, 1",
            "s_cmp_lg_u32 s0, 0",
            f"{branch} 1",
            "s_mov_b32 s1, 0",
        ],
    )
    assert target.sgpr[1].tolist() == taken


def test_scc_and_apertures_as_operands() -> None:
    target = machine(2)
    target.sgpr[SCC_ROW] = [0, 1]
    execute(
        target,
        [
            "v_mov_b32 v0, src_scc",
            "s_mov_b64 s[0:1], src_shared_base",
            "s_mov_b64 s[2:3], src_private_base",
            "s_mov_b64 s[4:5], src_shared_limit",
            "s_mov_b32 s6, src_private_base",
            "s_mov_b32 null, s0",
            "s_mov_b32 s7, null",
        ],
    )
    assert target.vgpr[0, :, 0].tolist() == [0, 1]
    assert target.sgpr[0:6, 0].tolist() == [0, SHARED_APERTURE, 0, PRIVATE_APERTURE, FULL, SHARED_APERTURE]
    assert target.sgpr[6:8, 0].tolist() == [PRIVATE_APERTURE, 0]


def test_denormal_mode_instruction() -> None:
    lines = ("s_denorm_mode 0x0", "v_mul_f32 v1, 0.5, v0", "s_denorm_mode 0xf", "v_mul_f32 v2, 0.5, v0")
    done = run(*lines, v={0: [0x80_0000] * 32})
    assert (int(done.vgpr[1, 0, 0]), int(done.vgpr[2, 0, 0])) == (0, 0x40_0000)
