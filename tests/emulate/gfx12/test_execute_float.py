"""f32, f16 and packed f16 arithmetic against exact rational arithmetic, in every rounding mode."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulate.gfx12.rounding import F16, F32, NEAREST, Format, fused
from tests.emulate.gfx12.snippet import MODE, bits, floats, lanes_of, run

ONE = {F32: 0x3F80_0000, F16: 0x3C00}
SPECIAL_32 = [0, 1, 0x7F_FFFF, 0x80_0000, 0x3F80_0000, 0x3F80_0001, 0x3F7F_FFFF, 0x7F7F_FFFF, 0x7F80_0000, 0x4B80_0000]
SPECIAL_16 = [0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x3BFF, 0x7BFF, 0x7C00, 0x6400]


def words(format_: Format) -> st.SearchStrategy[list[int]]:
    """32 words: special values, numbers near one, and any bits. Hypothesis draws the seed only: it is fast."""
    special = SPECIAL_32 if format_ is F32 else SPECIAL_16

    def draw(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        kinds = rng.integers(0, 3, 32)
        signs = rng.integers(0, 2, 32) * format_.sign
        near = ONE[format_] + rng.integers(0, 4 << format_.fraction_bits, 32)
        anything = rng.integers(0, format_.sign, 32)
        picked = rng.choice(special, 32)
        return [int(x) for x in np.choose(kinds, [picked, near, anything]) | signs]

    return st.integers(0, 2**32).map(draw)


def check(format_: Format, got: Sequence[int], *sources: Sequence[int], mode: int = NEAREST) -> None:
    for lane, triple in enumerate(zip(*sources, strict=True)):
        expected = fused(format_, *triple, mode)
        if expected is not None:
            assert got[lane] == expected, (lane, [hex(w) for w in triple], hex(got[lane]), hex(expected))
        elif any(format_.is_nan(w) for w in triple):
            assert format_.is_nan(got[lane])


@pytest.mark.parametrize("mode", range(4))
@settings(max_examples=40, deadline=None)
@given(a=words(F32), b=words(F32), c=words(F32))
def test_fma_f32(mode: int, a: list[int], b: list[int], c: list[int]) -> None:
    done = run("v_fma_f32 v3, v0, v1, v2", v={0: a, 1: b, 2: c}, mode=MODE | mode)
    check(F32, lanes_of(done, 3), a, b, c, mode=mode)


@pytest.mark.parametrize("mode", range(4))
@settings(max_examples=25, deadline=None)
@given(a=words(F32), b=words(F32))
def test_add_and_mul_f32(mode: int, a: list[int], b: list[int]) -> None:
    done = run("v_add_f32 v3, v0, v1", "v_mul_f32 v4, v0, v1", "v_sub_f32 v5, v0, v1", v={0: a, 1: b}, mode=MODE | mode)
    ones, zeros = [ONE[F32]] * 32, [0] * 32
    check(F32, lanes_of(done, 3), a, ones, b, mode=mode)
    check(F32, lanes_of(done, 5), a, ones, [w ^ F32.sign for w in b], mode=mode)
    # a * b + 0 has the wrong sign of zero; leave zeros to another test
    product = lanes_of(done, 4)
    keep = [i for i in range(32) if product[i] & ~F32.sign and a[i] & ~F32.sign and b[i] & ~F32.sign]
    check(F32, [product[i] for i in keep], *([x[i] for i in keep] for x in (a, b, zeros)), mode=mode)


@pytest.mark.parametrize("mode", range(4))
@settings(max_examples=25, deadline=None)
@given(a=words(F16), b=words(F16), c=words(F16))
def test_f16_and_packed_f16(mode: int, a: list[int], b: list[int], c: list[int]) -> None:
    """The high halves hold the operands in reverse, so that both halves of a packed result are checked."""
    pack = [[w | x << 16 for w, x in zip(values, reversed(values), strict=True)] for values in (a, b, c)]
    done = run(
        "v_fma_f16 v3.l, v0.l, v1.l, v2.l",
        "v_pk_fma_f16 v4, v0, v1, v2",
        "v_pk_add_f16 v5, v0, v2",
        v=dict(enumerate(pack)),
        mode=MODE | mode << 2,
    )
    check(F16, [w & 0xFFFF for w in lanes_of(done, 3)], a, b, c, mode=mode)
    ones = [ONE[F16]] * 32
    for shift, order in ((0, 1), (16, -1)):
        halves = [x[::order] for x in (a, b, c)]
        check(F16, [w >> shift & 0xFFFF for w in lanes_of(done, 4)], *halves, mode=mode)
        check(F16, [w >> shift & 0xFFFF for w in lanes_of(done, 5)], halves[0], ones, halves[2], mode=mode)


def test_fused_operations_round_once() -> None:
    """(1 + 2^-12)^2 - 1 - 2^-11 is 2^-24 exactly, and 0 where the product is rounded first."""
    x = np.float32(1 + 2**-12)
    done = run(
        "v_fma_f32 v3, v0, v0, v1",
        "v_mul_f32 v4, v0, v0",
        "v_add_f32 v4, v4, v1",
        "v_mov_b32 v5, v1",
        "v_fmac_f32 v5, v0, v0",
        v={0: [bits(x)] * 32, 1: [bits(-1 - 2**-11)] * 32},
    )
    assert floats(done.vgpr[3, 0, 0]) == floats(done.vgpr[5, 0, 0]) == 2.0**-24
    assert floats(done.vgpr[4, 0, 0]) == 0


def test_double_rounding_trap_of_fma() -> None:
    """A sum that f64 rounds onto a midpoint of f32: 2^53 + 2^29 + 2^-1 as parts."""
    a, b, c = bits(2.0**24 + 2), bits(2.0**29), bits(2.0**-30)
    exact = Fraction(2**24 + 2) * 2**29 + Fraction(1, 2**30)
    # One more unit in the last place of f64 would be lost: the f32 result must round up from the midpoint.
    half_way = bits(2.0**24 + 1)
    done = run(
        "v_fma_f32 v3, v0, v1, v2",
        "v_fma_f32 v4, 1.0, v5, v2",
        v={0: [a] * 32, 1: [b] * 32, 2: [c] * 32, 5: [half_way] * 32},
    )
    assert lanes_of(done, 3)[0] == F32.round(exact)
    assert lanes_of(done, 4)[0] == fused(F32, ONE[F32], int(half_way), int(c))


def test_invalid_operations_make_the_positive_quiet_nan_and_nans_pass() -> None:
    inf, nan = 0x7F80_0000, 0xFFC1_2345
    lanes = [inf, nan, 0x7F80_0001] + [0] * 29
    done = run(
        "v_sub_f32 v1, v0, v0",
        "v_mul_f32 v2, v0, 0",
        "v_pk_add_f16 v4, v3, v3 neg_lo:[0,1] neg_hi:[0,1]",
        v={0: lanes, 3: [0x7C00_FC00] * 32},
    )
    assert lanes_of(done, 1)[:2] == [0x7FC0_0000, nan]
    assert lanes_of(done, 2)[:2] == [0x7FC0_0000, nan]
    assert lanes_of(done, 1)[2] == 0x7FC0_0001  # a signalling NaN becomes quiet
    assert lanes_of(done, 4)[0] == 0x7E00_7E00


@pytest.mark.parametrize("mode", [0x00, 0x10, 0x20, 0x30])
def test_f32_denormals_follow_mode(mode: int) -> None:
    """Bit 4 of MODE keeps denormal sources, bit 5 denormal results."""
    keep_in, keep_out = mode >> 4 & 1, mode >> 5 & 1
    sources = {0: [0x8040_0000] * 32, 3: [0x80_0000] * 32}
    done = run("v_mul_f32 v1, v0, 2.0", "v_mul_f32 v2, 0.5, v3", v=sources, mode=mode)
    assert lanes_of(done, 1)[0] == (0x8080_0000 if keep_in else 0x8000_0000)
    assert lanes_of(done, 2)[0] == (0x40_0000 if keep_out else 0)


def test_f16_denormals_follow_their_own_bits() -> None:
    source = {0: [0x0200_0200] * 32}
    kept = run("v_pk_add_f16 v1, v0, v0", "v_add_f16 v2.l, v0.l, v0.l", v=source, mode=0xC0)
    flushed = run("v_pk_add_f16 v1, v0, v0", "v_add_f16 v2.l, v0.l, v0.l", v=source, mode=0x30)
    assert lanes_of(kept, 1)[0] == 0x0400_0400
    assert lanes_of(kept, 2)[0] & 0xFFFF == 0x0400
    assert lanes_of(flushed, 1)[0] == 0
    assert lanes_of(flushed, 2)[0] & 0xFFFF == 0


NUMBERS = [0xBF80_0000, 0x8000_0000, 0, 0x3F80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001]


def order(word: int) -> tuple[int, int]:
    """Sort key: value, with -0 before +0."""
    return (-(word & 0x7FFF_FFFF), -1) if word >> 31 else (word, 0)


@pytest.mark.parametrize("first", NUMBERS)
def test_minimum_number_and_minimum(first: int) -> None:
    second = (NUMBERS * 4)[:32]
    done = run(
        "v_min_num_f32 v2, v0, v1",
        "v_max_num_f32 v3, v0, v1",
        "v_minimum_f32 v4, v0, v1",
        "v_maximum_f32 v5, v0, v1",
        v={0: [first] * 32, 1: second},
    )
    for lane, other in enumerate(second):
        real = [w for w in (first, other) if not F32.is_nan(w)]
        for register, pick in ((2, min), (3, max)):
            got = lanes_of(done, register)[lane]
            assert got == (pick(real, key=order) if real else got)
            assert F32.is_nan(got) == (not real)
        for register, pick in ((4, min), (5, max)):
            got = lanes_of(done, register)[lane]
            if len(real) < 2:
                assert F32.is_nan(got)
                assert got & 0x40_0000, "the NaN must be quiet"
            else:
                assert got == pick(real, key=order)


def test_packed_min_max_have_the_minimum_number_treatment_of_nan() -> None:
    done = run(
        "v_pk_min_num_f16 v2, v0, v1",
        "v_pk_max_num_f16 v3, v0, v1",
        "v_pk_minimum_f16 v4, v0, v1",
        "v_pk_maximum_f16 v5, v0, v1",
        v={0: [0x7E00_8000] * 32, 1: [0x3C00_0000] * 32},
    )
    assert [lanes_of(done, r)[0] for r in (2, 3)] == [0x3C00_8000, 0x3C00_0000]
    assert [lanes_of(done, r)[0] for r in (4, 5)] == [0x7E00_8000, 0x7E00_0000]


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(width=32, allow_nan=False), min_size=96, max_size=96))
def test_median_and_minmax(values: list[float]) -> None:
    a, b, c = (bits(values[i : i + 32]) for i in (0, 32, 64))
    done = run(
        "v_med3_num_f32 v3, v0, v1, v2",
        "v_minmax_num_f32 v4, v0, v1, v2",
        "v_maxmin_num_f32 v5, v0, v1, v2",
        v={0: a, 1: b, 2: c},
    )
    for lane in range(32):
        x, y, z = (int(w[lane]) for w in (a, b, c))
        assert lanes_of(done, 3)[lane] == sorted((x, y, z), key=order)[1]
        assert lanes_of(done, 4)[lane] == max(min(x, y, key=order), z, key=order)
        assert lanes_of(done, 5)[lane] == min(max(x, y, key=order), z, key=order)


def test_source_and_output_modifiers() -> None:
    x = bits([-3.0, 0.25, np.nan, -0.0] + [2.0] * 28)
    done = run(
        "v_add_f32_e64 v1, |v0|, -1.0",
        "v_add_f32_e64 v2, -|v0|, 0",
        "v_mul_f32_e64 v3, v0, 1.0 clamp",
        v={0: x},
    )
    assert floats(done.vgpr[1, 0, :2]).tolist() == [2.0, -0.75]
    assert floats(done.vgpr[2, 0, :2]).tolist() == [-3.0, -0.25]
    assert lanes_of(done, 3)[:5] == [0, 0x3E80_0000, 0, 0, 0x3F80_0000]


def test_output_multiplier_needs_flushed_denormals() -> None:
    flushed = run("v_add_f32_e64 v1, v0, v0 mul:4", v={0: [bits(1.5)] * 32}, mode=0xC0)
    kept = run("v_add_f32_e64 v1, v0, v0 mul:4", v={0: [bits(1.5)] * 32})
    assert floats(flushed.vgpr[1, 0, 0]) == 12.0
    assert floats(kept.vgpr[1, 0, 0]) == 3.0


def test_rounding_instructions_keep_the_sign_of_zero() -> None:
    done = run(
        "v_rndne_f32 v1, v0",
        "v_trunc_f32 v2, v0",
        "v_floor_f32 v3, v0",
        "v_ceil_f32 v4, v0",
        v={0: bits([-0.5, 0.5, 1.5, 2.5, -1.5] + [-0.25] * 27)},
    )
    assert lanes_of(done, 1)[0] == 0x8000_0000
    assert floats(done.vgpr[1, 0, :5]).tolist() == [0, 0, 2, 2, -2]
    assert lanes_of(done, 2)[0] == 0x8000_0000
    assert floats(done.vgpr[3, 0, :5]).tolist() == [-1, 0, 1, 2, -2]
    assert lanes_of(done, 4)[0] == 0x8000_0000


def test_transcendental_functions_are_correctly_rounded() -> None:
    x = np.concatenate([np.linspace(0.01, 40, 16), np.geomspace(1e-20, 1e20, 16)]).astype(np.float32)
    done = run("v_rcp_f32 v1, v0", "v_rsq_f32 v2, v0", "v_sqrt_f32 v3, v0", "v_log_f32 v4, v0", v={0: bits(x)})
    wide = x.astype(np.longdouble)
    for register, exact in ((1, 1 / wide), (2, 1 / np.sqrt(wide)), (3, np.sqrt(wide)), (4, np.log2(wide))):
        assert (floats(done.vgpr[register, 0]) == exact.astype(np.float32)).all()
    x = np.linspace(-30, 30, 32).astype(np.float32)
    powers = run("v_exp_f32 v1, v0", v={0: bits(x)})
    assert (floats(powers.vgpr[1, 0]) == np.exp2(x.astype(np.longdouble)).astype(np.float32)).all()


def test_half_functions_write_one_half() -> None:
    done = run(
        "v_rcp_f16 v1.h, v0.l",
        "v_sqrt_f16 v2.l, v0.h",
        v={0: [0x4400_4000] * 32, 1: [0xAAAA_BBBB] * 32, 2: [0xAAAA_BBBB] * 32},
    )
    assert lanes_of(done, 1)[0] == 0x3800_BBBB
    assert lanes_of(done, 2)[0] == 0xAAAA_4000


def test_f16_overflow_clamps_on_request() -> None:
    """MODE.FP16_OVFL: finite values stop at 65504, true infinities stay."""
    source = {0: [0x7BFF_7C00] * 32, 1: [0x7BFF_3C00] * 32}
    plain = run("v_pk_add_f16 v2, v0, v1", v=source)
    clamped = run("v_pk_add_f16 v2, v0, v1", v=source, mode=MODE | 1 << 23)
    assert lanes_of(plain, 2)[0] == 0x7C00_7C00
    assert lanes_of(clamped, 2)[0] == 0x7BFF_7C00


def test_fma_mix_reads_halves_and_words() -> None:
    half = 0x4000_4200  # 2.0, 3.0
    done = run(
        "v_fma_mix_f32 v3, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
        "v_fma_mix_f32 v4, -v0, |v1|, 1.0 op_sel_hi:[1,0,0]",
        "v_fma_mixlo_f16 v5, v0, v1, v2 op_sel_hi:[1,0,0]",
        "v_fma_mixhi_f16 v5, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
        v={0: [half] * 32, 1: [bits(-1.5)] * 32, 2: [bits(0.25)] * 32},
    )
    assert floats(done.vgpr[3, 0, 0]) == 2.0 * -1.5 + 0.25
    assert floats(done.vgpr[4, 0, 0]) == -3.0 * 1.5 + 1.0
    low, high = np.uint32(done.vgpr[5, 0, 0]).reshape(1).view(np.float16)
    assert (low, high) == (3.0 * -1.5 + 0.25, 2.0 * -1.5 + 0.25)


def test_packed_selectors_and_signs() -> None:
    """Each of op_sel, op_sel_hi, neg_lo and neg_hi on one source, against the values by hand."""
    done = run(
        "v_pk_add_f16 v2, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]",
        "v_pk_add_f16 v3, v0, v1 neg_lo:[1,0] neg_hi:[0,1]",
        "v_pk_mul_f16 v4, v0, 2.0 op_sel_hi:[1,0]",
        v={0: [0x4000_3C00] * 32, 1: [0x4800_4400] * 32},  # (1, 2) and (4, 8)
    )
    halves = {r: done.vgpr[r, 0, :1].view(np.float16).tolist() for r in (2, 3, 4)}
    assert halves == {2: [2 + 4, 1 + 8], 3: [-1 + 4, 2 - 8], 4: [2, 4]}
