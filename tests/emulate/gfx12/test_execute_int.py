"""Vector and scalar integer instructions against Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulate.gfx12.snippet import lanes_of, run
from zluda_rr.emulate.gfx12.execute_valu_int import permute_bytes
from zluda_rr.emulate.gfx12.machine import SCC_ROW

M32, M64 = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
EDGES = [0, 1, 2, 31, 32, 0x7FFF_FFFF, 0x8000_0000, M32, M32 - 1, 0xFFFF, 0x8000, 0x7F_FFFF, 0x80_0000]


def draw(seed: int) -> list[int]:
    """32 words, a third of them edge values."""
    rng = np.random.default_rng(seed)
    edges = rng.choice(EDGES, 32)
    anything = rng.integers(0, 1 << 32, 32)
    small = rng.integers(0, 64, 32)
    return [int(x) for x in np.choose(rng.integers(0, 3, 32), [edges, anything, small])]


words = st.integers(0, 2**32).map(draw)


def signed(x: int, width: int = 32) -> int:
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def bfe_i(x: int, at: int, n: int) -> int:
    n &= 31
    return signed(signed(x) >> (at & 31), n) if n else 0


def perm(x: int, y: int, selector: int) -> int:
    data = (x << 32 | y).to_bytes(8, "little")
    result = []
    for choice in selector.to_bytes(4, "little"):
        if choice < 8:
            result.append(data[choice])
        elif choice < 12:
            result.append(0xFF if data[2 * (choice - 8) + 1] & 0x80 else 0)
        else:
            result.append(0 if choice == 12 else 0xFF)
    return int.from_bytes(bytes(result), "little")


def clz(x: int) -> int:
    return -1 if x == 0 else 32 - x.bit_length()


def ctz(x: int) -> int:
    return -1 if x == 0 else (x & -x).bit_length() - 1


def cls(x: int) -> int:
    run_length = clz(x ^ M32 if x >> 31 else x)
    return -1 if run_length == -1 else run_length


THREE: dict[str, Callable[[int, int, int], int]] = {
    "v_bfe_u32": lambda x, y, z: (x >> (y & 31)) & ((1 << (z & 31)) - 1),
    "v_bfe_i32": bfe_i,
    "v_bfi_b32": lambda x, y, z: (x & y) | (~x & z),
    "v_perm_b32": perm,
    "v_alignbit_b32": lambda x, y, z: (x << 32 | y) >> (z & 31),
    "v_alignbyte_b32": lambda x, y, z: (x << 32 | y) >> 8 * (z & 3),
    "v_lshl_add_u32": lambda x, y, z: (x << (y & 31)) + z,
    "v_add_lshl_u32": lambda x, y, z: (x + y) << (z & 31),
    "v_lshl_or_b32": lambda x, y, z: (x << (y & 31)) | z,
    "v_and_or_b32": lambda x, y, z: (x & y) | z,
    "v_or3_b32": lambda x, y, z: x | y | z,
    "v_xor3_b32": lambda x, y, z: x ^ y ^ z,
    "v_xad_u32": lambda x, y, z: (x ^ y) + z,
    "v_add3_u32": lambda x, y, z: x + y + z,
    "v_mad_u32_u24": lambda x, y, z: (x & 0xFF_FFFF) * (y & 0xFF_FFFF) + z,
    "v_mad_i32_i24": lambda x, y, z: signed(x, 24) * signed(y, 24) + z,
    "v_min3_i32": lambda x, y, z: min(map(signed, (x, y, z))),
    "v_max3_u32": lambda x, y, z: max(x, y, z),
    "v_med3_i32": lambda x, y, z: sorted(map(signed, (x, y, z)))[1],
    "v_med3_u32": lambda x, y, z: sorted((x, y, z))[1],
    "v_minmax_i32": lambda x, y, z: max(min(signed(x), signed(y)), signed(z)),
    "v_maxmin_u32": lambda x, y, z: min(max(x, y), z),
    "v_sad_u32": lambda x, y, z: abs(x - y) + z,
    "v_sad_u8": lambda x, y, z: sum(abs(a - b) for a, b in zip(x.to_bytes(4), y.to_bytes(4), strict=True)) + z,
}
TWO: dict[str, Callable[[int, int], int]] = {
    "v_add_nc_u32": lambda x, y: x + y,
    "v_sub_nc_u32": lambda x, y: x - y,
    "v_subrev_nc_u32": lambda x, y: y - x,
    "v_mul_lo_u32": lambda x, y: x * y,
    "v_mul_hi_u32": lambda x, y: x * y >> 32,
    "v_mul_hi_i32": lambda x, y: signed(x) * signed(y) >> 32,
    "v_mul_i32_i24": lambda x, y: signed(x, 24) * signed(y, 24),
    "v_mul_hi_i32_i24": lambda x, y: signed(x, 24) * signed(y, 24) >> 32,
    "v_mul_u32_u24": lambda x, y: (x & 0xFF_FFFF) * (y & 0xFF_FFFF),
    "v_mul_hi_u32_u24": lambda x, y: (x & 0xFF_FFFF) * (y & 0xFF_FFFF) >> 32,
    "v_lshlrev_b32": lambda x, y: y << (x & 31),
    "v_lshrrev_b32": lambda x, y: y >> (x & 31),
    "v_ashrrev_i32": lambda x, y: signed(y) >> (x & 31),
    "v_and_b32": lambda x, y: x & y,
    "v_or_b32": lambda x, y: x | y,
    "v_xor_b32": lambda x, y: x ^ y,
    "v_xnor_b32": lambda x, y: ~(x ^ y),
    "v_min_i32": lambda x, y: min(signed(x), signed(y)),
    "v_max_u32": lambda x, y: max(x, y),
    "v_bfm_b32": lambda x, y: ((1 << (x & 31)) - 1) << (y & 31),
    "v_bcnt_u32_b32": lambda x, y: x.bit_count() + y,
    "v_cvt_pk_u16_u32": lambda x, y: min(x, 0xFFFF) | min(y, 0xFFFF) << 16,
    "v_cvt_pk_i16_i32": lambda x, y: (
        (max(-32768, min(32767, signed(x))) & 0xFFFF) | (max(-32768, min(32767, signed(y))) & 0xFFFF) << 16
    ),
}
ONE: dict[str, Callable[[int], int]] = {
    "v_not_b32": lambda x: ~x,
    "v_bfrev_b32": lambda x: int(f"{x:032b}"[::-1], 2),
    "v_clz_i32_u32": clz,
    "v_ctz_i32_b32": ctz,
    "v_cls_i32": cls,
    "v_mov_b32": lambda x: x,
    "v_cvt_i32_i16": lambda x: signed(x, 16),
    "v_cvt_u32_u16": lambda x: x & 0xFFFF,
}
HALF: dict[str, Callable[[int, int], int]] = {
    "v_add_nc_u16": lambda x, y: x + y,
    "v_sub_nc_i16": lambda x, y: x - y,
    "v_mul_lo_u16": lambda x, y: x * y,
    "v_max_i16": lambda x, y: max(signed(x, 16), signed(y, 16)),
    "v_min_u16": min,
    "v_lshlrev_b16": lambda x, y: y << (x & 15),
    "v_lshrrev_b16": lambda x, y: y >> (x & 15),
    "v_ashrrev_i16": lambda x, y: signed(y, 16) >> (x & 15),
    "v_and_b16": lambda x, y: x & y,
    "v_xor_b16": lambda x, y: x ^ y,
}
PACKED: dict[str, Callable[[int, int], int]] = {
    "v_pk_add_u16": lambda x, y: x + y,
    "v_pk_sub_i16": lambda x, y: x - y,
    "v_pk_mul_lo_u16": lambda x, y: x * y,
    "v_pk_min_i16": lambda x, y: min(signed(x, 16), signed(y, 16)),
    "v_pk_max_u16": max,
    "v_pk_lshlrev_b16": lambda x, y: y << (x & 15),
    "v_pk_ashrrev_i16": lambda x, y: signed(y, 16) >> (x & 15),
}


@settings(max_examples=30, deadline=None)
@given(a=words, b=words, c=words)
def test_words(a: list[int], b: list[int], c: list[int]) -> None:
    lines = [f"{name} v{10 + i}, v0, v1, v2" for i, name in enumerate(THREE)]
    lines += [f"{name} v{50 + i}, v0, v1" for i, name in enumerate(TWO)]
    lines += [f"{name} v{90 + i}, v0" for i, name in enumerate(ONE) if "16" not in name]
    done = run(*lines, v={0: a, 1: b, 2: c})
    for first, table, sources in ((10, THREE, (a, b, c)), (50, TWO, (a, b)), (90, ONE, (a,))):
        for i, (name, formula) in enumerate(table.items()):
            if first == 90 and "16" in name:
                continue
            expected = [formula(*lane) & M32 for lane in zip(*sources, strict=True)]
            assert lanes_of(done, first + i) == expected, name


@settings(max_examples=30, deadline=None)
@given(a=words, b=words, old=words)
def test_halves_leave_the_other_half_alone(a: list[int], b: list[int], old: list[int]) -> None:
    lines = [f"{name} v{10 + i}.h, v0.l, v1.h" for i, name in enumerate(HALF)]
    lines += [f"{name} v{40 + i}, v0, v1" for i, name in enumerate(PACKED)]
    done = run(*lines, v={0: a, 1: b} | {10 + i: old for i in range(len(HALF))})
    for i, (name, formula) in enumerate(HALF.items()):
        expected = [
            (formula(x & 0xFFFF, y >> 16) & 0xFFFF) << 16 | z & 0xFFFF for x, y, z in zip(a, b, old, strict=True)
        ]
        assert lanes_of(done, 10 + i) == expected, name
    for i, (name, formula) in enumerate(PACKED.items()):
        both = [
            formula(x & 0xFFFF, y & 0xFFFF) & 0xFFFF | (formula(x >> 16, y >> 16) & 0xFFFF) << 16
            for x, y in zip(a, b, strict=True)
        ]
        assert lanes_of(done, 40 + i) == both, name


@settings(max_examples=30, deadline=None)
@given(a=words, b=words, c=words, d=words)
def test_carries_and_64_bits(a: list[int], b: list[int], c: list[int], d: list[int]) -> None:
    done = run(
        "v_add_co_u32 v10, vcc_lo, v0, v2",
        "v_add_co_ci_u32 v11, vcc_lo, v1, v3, vcc_lo",
        "v_sub_co_u32 v12, s4, v0, v2",
        "v_sub_co_ci_u32 v13, s5, v1, v3, s4",
        "v_mad_co_u64_u32 v[14:15], s6, v0, v1, v[2:3]",
        "v_mad_co_i64_i32 v[16:17], s7, v0, v1, v[2:3]",
        "v_lshlrev_b64 v[18:19], v0, v[2:3]",
        "v_lshrrev_b64 v[20:21], v0, v[2:3]",
        "v_ashrrev_i64 v[22:23], v0, v[2:3]",
        "v_cmp_lt_i64 s8, v[0:1], v[2:3]",
        "v_cmp_lt_u64 s9, v[0:1], v[2:3]",
        v={0: a, 1: b, 2: c, 3: d},
    )

    def pair(register: int) -> list[int]:
        low, high = lanes_of(done, register), lanes_of(done, register + 1)
        return [x | y << 32 for x, y in zip(low, high, strict=True)]

    x = [low | high << 32 for low, high in zip(a, b, strict=True)]
    y = [low | high << 32 for low, high in zip(c, d, strict=True)]
    assert pair(10) == [(p + q) & M64 for p, q in zip(x, y, strict=True)]
    assert pair(12) == [(p - q) & M64 for p, q in zip(x, y, strict=True)]
    products = [p * q + r for p, q, r in zip(a, b, y, strict=True)]
    assert pair(14) == [p & M64 for p in products]
    assert pair(16) == [(signed(p) * signed(q) + signed(r, 64)) & M64 for p, q, r in zip(a, b, y, strict=True)]
    assert pair(18) == [q << (p & 63) & M64 for p, q in zip(a, y, strict=True)]
    assert pair(20) == [q >> (p & 63) for p, q in zip(a, y, strict=True)]
    assert pair(22) == [signed(q, 64) >> (p & 63) & M64 for p, q in zip(a, y, strict=True)]
    flags = {
        5: [p < q for p, q in zip(x, y, strict=True)],
        6: [p > M64 for p in products],
        8: [signed(p, 64) < signed(q, 64) for p, q in zip(x, y, strict=True)],
        9: [p < q for p, q in zip(x, y, strict=True)],
    }
    for register, lanes in flags.items():
        assert int(done.sgpr[register, 0]) == sum(flag << lane for lane, flag in enumerate(lanes)), register


@settings(max_examples=60, deadline=None)
@given(a=words, b=words, selector=st.lists(st.integers(0, 15), min_size=4, max_size=4))
def test_byte_permutation_by_a_constant(a: list[int], b: list[int], selector: list[int]) -> None:
    word = int.from_bytes(bytes(selector), "little")
    done = run("v_perm_b32 v2, v0, v1, s0", "v_perm_b32 v3, v0, v1, v4", v={0: a, 1: b, 4: [word] * 32}, s={0: word})
    fixed = permute_bytes(np.array(a, np.uint32), np.array(b, np.uint32), np.array(word, np.uint32))
    expected = [perm(x, y, word) for x, y in zip(a, b, strict=True)]
    assert lanes_of(done, 2) == lanes_of(done, 3) == expected
    assert np.broadcast_to(fixed, 32).tolist() == expected


def test_clamp_saturates_integer_sums() -> None:
    done = run(
        "v_add_nc_u32_e64 v2, v0, v1 clamp",
        "v_sub_nc_u32_e64 v3, v1, v0 clamp",
        "v_add_nc_i32 v4, v5, v5 clamp",
        v={0: [M32] * 32, 1: [7] * 32, 5: [0x7FFF_0000] * 32},
    )
    assert [lanes_of(done, r)[0] for r in (2, 3, 4)] == [M32, 0, 0x7FFF_FFFF]


def scc(done: object) -> int:
    return int(done.sgpr[SCC_ROW, 0])  # type: ignore[attr-defined]


SCALAR: dict[str, Callable[[int, int], tuple[int, bool | None]]] = {
    "s_add_co_u32": lambda x, y: (x + y, x + y > M32),
    "s_sub_co_u32": lambda x, y: (x - y, x < y),
    "s_add_co_i32": lambda x, y: (x + y, not -(2**31) <= signed(x) + signed(y) < 2**31),
    "s_sub_co_i32": lambda x, y: (x - y, not -(2**31) <= signed(x) - signed(y) < 2**31),
    "s_and_b32": lambda x, y: (x & y, x & y != 0),
    "s_or_b32": lambda x, y: (x | y, x | y != 0),
    "s_xor_b32": lambda x, y: (x ^ y, x ^ y != 0),
    "s_nand_b32": lambda x, y: (~(x & y), x & y != M32),
    "s_and_not1_b32": lambda x, y: (x & ~y, x & ~y & M32 != 0),
    "s_or_not1_b32": lambda x, y: (x | ~y, (x | ~y) & M32 != 0),
    "s_lshl_b32": lambda x, y: (x << (y & 31), x << (y & 31) & M32 != 0),
    "s_lshr_b32": lambda x, y: (x >> (y & 31), x >> (y & 31) != 0),
    "s_ashr_i32": lambda x, y: (signed(x) >> (y & 31), signed(x) >> (y & 31) != 0),
    "s_min_i32": lambda x, y: (min(signed(x), signed(y)), signed(x) < signed(y)),
    "s_max_u32": lambda x, y: (max(x, y), x >= y),
    "s_mul_i32": lambda x, y: (x * y, None),
    "s_mul_hi_u32": lambda x, y: (x * y >> 32, None),
    "s_mul_hi_i32": lambda x, y: (signed(x) * signed(y) >> 32, None),
    "s_lshl2_add_u32": lambda x, y: ((x << 2) + y, (x << 2) + y > M32),
    "s_bfm_b32": lambda x, y: (((1 << (x & 31)) - 1) << (y & 31), None),
    "s_pack_lh_b32_b16": lambda x, y: (x & 0xFFFF | y & 0xFFFF_0000, None),
    "s_pack_hl_b32_b16": lambda x, y: (x >> 16 | (y & 0xFFFF) << 16, None),
    "s_absdiff_i32": lambda x, y: (abs(signed((signed(x) - signed(y)) & M32)), (x - y) & M32 != 0),
}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name: str) -> None:
    """One wave per pair of edge values."""
    pairs = [(x, y) for x in EDGES for y in EDGES]
    first, second = [x for x, _ in pairs], [y for _, y in pairs]
    done = run(f"{name} s2, s0, s1", s={0: first, 1: second}, waves=len(pairs))
    for wave, (x, y) in enumerate(pairs):
        value, flag = SCALAR[name](x, y)
        assert int(done.sgpr[2, wave]) == value & M32, (hex(x), hex(y))
        if flag is not None:
            assert bool(done.sgpr[SCC_ROW, wave]) == flag, (hex(x), hex(y))


@settings(max_examples=30, deadline=None)
@given(x=st.integers(0, M64), y=st.integers(0, M64), at=st.integers(0, 63), n=st.integers(0, 64))
def test_scalar_pairs(x: int, y: int, at: int, n: int) -> None:
    done = run(
        "s_add_nc_u64 s[10:11], s[0:1], s[2:3]",
        "s_mul_u64 s[12:13], s[0:1], s[2:3]",
        "s_bfe_u64 s[14:15], s[0:1], s4",
        "s_bfe_i64 s[16:17], s[0:1], s4",
        "s_lshl_b64 s[18:19], s[0:1], s5",
        "s_and_b64 s[20:21], s[0:1], s[2:3]",
        "s_brev_b64 s[22:23], s[0:1]",
        "s_clz_i32_u64 s24, s[0:1]",
        s={0: x & M32, 1: x >> 32, 2: y & M32, 3: y >> 32, 4: at | n << 16, 5: at},
    )

    def pair(register: int) -> int:
        return int(done.sgpr[register, 0]) | int(done.sgpr[register + 1, 0]) << 32

    assert pair(10) == (x + y) & M64
    assert pair(12) == x * y & M64
    if at + n <= 64:
        field = (x >> at) & ((1 << n) - 1)
        assert pair(14) == field
        assert pair(16) == (signed(field, n) & M64 if n else 0)
    assert pair(18) == x << at & M64
    assert pair(20) == x & y
    assert pair(22) == int(f"{x:064b}"[::-1], 2)
    assert int(done.sgpr[24, 0]) == ((64 - x.bit_length()) if x else M32)


def test_scalar_select_and_immediates() -> None:
    done = run(
        "s_cmp_lt_i32 s0, s1",
        "s_cselect_b32 s2, s0, s1",
        "s_cselect_b64 s[4:5], s[0:1], -1",
        "s_movk_i32 s6, 0x8000",
        "s_addk_co_i32 s0, -3",
        "s_cmp_eq_u64 s[4:5], s[4:5]",
        "s_bitset1_b32 s7, 5",
        "s_bitcmp1_b32 s7, 5",
        s={0: [2, 5], 1: [M32, 9], 7: 0},
        waves=2,
    )
    assert done.sgpr[2].tolist() == [M32, 5]
    assert done.sgpr[4].tolist() == [M32, 5]
    assert done.sgpr[5].tolist() == [M32, 9]
    assert done.sgpr[6].tolist() == [0xFFFF_8000] * 2
    assert done.sgpr[0].tolist() == [M32, 2]
    assert done.sgpr[7].tolist() == [32, 32]
    assert scc(done) == 1
