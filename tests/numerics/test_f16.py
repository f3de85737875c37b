"""f16 and f32 arithmetic against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.numerics.exact import HALF, SINGLE, bits_of, evaluate, round_exact, value_of
from zluda_rr.numerics import f16

HALVES = np.arange(1 << 16, dtype=np.uint16)
NAN = (HALVES & 0x7FFF) > 0x7C00
halves = st.integers(0, 0xFFFF)
words = st.integers(0, 0xFFFFFFFF)


def value_of_half(bits: int) -> float:
    return value_of(bits, HALF)


def half_bits(value: float) -> int:
    return bits_of(value, HALF)


def one(bits: int) -> np.ndarray:
    return np.array([bits], dtype=np.uint16)


def assert_half(result: np.ndarray, expected: float) -> None:
    bits = int(result[0])
    assert bits == (0x7FFF if np.isnan(expected) else half_bits(expected)), (hex(bits), expected)


@given(halves, halves)
@example(0x0001, 0x8001)
@example(0x7C00, 0xFC00)
@example(0x7BFF, 0x4C00)
def test_binary_operations_round_once(a: int, b: int) -> None:
    x, y = value_of_half(a), value_of_half(b)
    for ours, exact in [
        (f16.add_half, lambda p, q: p + q),
        (f16.sub_half, lambda p, q: p - q),
        (f16.mul_half, lambda p, q: p * q),
    ]:
        assert_half(ours(one(a), one(b)), evaluate(exact, HALF, x, y))


@given(halves, halves, halves)
@example(0x3C01, 0x3C01, 0x0001)
@example(0x3801, 0x1000, 0x3C00)
@example(0x7BFF, 0x7BFF, 0xFC00)
@example(0x0001, 0x0001, 0x3C00)
@example(0x1001, 0x3C00, 0x4400)
def test_fma_rounds_once(a: int, b: int, c: int) -> None:
    values = [value_of_half(bits) for bits in (a, b, c)]
    assert_half(f16.fma_half(one(a), one(b), one(c)), evaluate(lambda p, q, r: p * q + r, HALF, *values))


def test_fma_keeps_what_a_rounding_to_f64_would_lose() -> None:
    # 1 + 2^-11 is a tie; 2^-48 more (far below f64's last bit of the sum) must break it upward.
    tie = f16.fma_half(np.uint16([0x3C00]), np.uint16([0x1000]), np.uint16([0x3C00]))
    assert tie.tolist() == [0x3C00]
    total = f16.sum_to_odd(np.float64([1 + 2**-11]), np.float64([2**-80]))
    assert f16.round_half(total).tolist() == [0x3C01]
    total = f16.sum_to_odd(np.float64([-1 - 3 * 2**-11]), np.float64([2**-80]))
    assert f16.round_half(total).tolist() == [0xBC01]


@given(words, words, words)
@example(0x3F800001, 0x3F800001, 0x33800000)
@example(0x00800000, 0x3F000000, 0x00000001)
@example(0x3F800000, 0x33800000, 0x3F800000)
def test_fma_of_floats_rounds_once(a: int, b: int, c: int) -> None:
    values = [value_of(bits, SINGLE) for bits in (a, b, c)]
    result = f16.fma_float(*(np.array([bits], dtype=np.uint32).view(np.float32) for bits in (a, b, c)))
    expected = evaluate(lambda p, q, r: p * q + r, SINGLE, *values)
    if np.isnan(expected):
        assert np.isnan(result[0])
    else:
        assert result[0] == expected
        assert np.signbit(result[0]) == np.signbit(expected)


@given(words)
@example(0x477FEFFF)
@example(0x477FF000)
@example(0x33000000)
@example(0x33000001)
def test_rounding_from_f32(bits: int) -> None:
    value = value_of(bits, SINGLE)
    single = np.array([bits], dtype=np.uint32).view(np.float32)
    if np.isnan(value):
        assert f16.is_nan_half(f16.round_half(single)).all()
        return
    expected = value if np.isinf(value) else round_exact(Fraction(value), HALF, negative_zero=np.signbit(value))
    assert f16.round_half(single).tolist() == [half_bits(expected)]
    truncated = value_of_half(int(f16.round_half_toward_zero(single)[0]))
    if np.isfinite(value):
        assert abs(truncated) <= abs(value)
        step = Fraction(2) ** max(int(np.frexp(truncated)[1]) - 11, -24)
        assert abs(Fraction(truncated)) + step > abs(Fraction(value)) or abs(truncated) == 65504
        assert np.signbit(truncated) == np.signbit(value)
    else:
        assert truncated == value


@given(st.floats(allow_nan=False, width=64))
@example(1 + 2**-11 + 2**-40)  # a detour through f32 rounds this down
@example(2**-25 + 2**-60)
def test_rounding_from_f64_is_direct(value: float) -> None:
    expected = value if np.isinf(value) else round_exact(Fraction(value), HALF, negative_zero=np.signbit(value))
    assert f16.round_half(np.float64([value])).tolist() == [half_bits(expected)]


def test_minimum_and_maximum_of_special_values() -> None:
    a = np.uint16([0x0000, 0x8000, 0x7E01, 0x3C00, 0xFE01, 0xBC00, 0xFC00])
    b = np.uint16([0x8000, 0x0000, 0x3C00, 0x7E01, 0x7E02, 0xBC01, 0x7C00])
    assert f16.min_half(a, b).tolist() == [0x8000, 0x8000, 0x3C00, 0x3C00, 0x7FFF, 0xBC01, 0xFC00]
    assert f16.max_half(a, b).tolist() == [0x0000, 0x0000, 0x3C00, 0x3C00, 0x7FFF, 0xBC00, 0x7C00]


@given(halves, halves)
def test_minimum_and_maximum_agree_with_python(a: int, b: int) -> None:
    x, y = value_of_half(a), value_of_half(b)
    if np.isnan(x) or np.isnan(y) or x == y:
        return
    assert f16.min_half(one(a), one(b))[0] == (a if x < y else b)
    assert f16.max_half(one(a), one(b))[0] == (a if x > y else b)


def test_flush_removes_denormals_only() -> None:
    bits = np.uint32([1, 0x807FFFFF, 0x00800000, 0x7F800000, 0x7FC00000, 0x80000000])
    flushed = f16.flush(bits.view(np.float32)).view(np.uint32)
    assert flushed.tolist() == [0, 0x80000000, 0x00800000, 0x7F800000, 0x7FC00000, 0x80000000]


def test_every_half_survives_f32() -> None:
    back = f16.round_half(f16.half_to_float(HALVES))
    assert np.array_equal(back[~NAN], HALVES[~NAN])
    assert np.array_equal(f16.canonical_half(HALVES), np.where(NAN, 0x7FFF, HALVES))
    assert f16.is_nan_half(back[NAN]).all()


@pytest.mark.parametrize("value", [np.float32, np.float64])
def test_rounding_keeps_the_sign_of_nan(value: type[np.floating]) -> None:
    signed = np.array([np.nan, -np.nan], dtype=value)
    assert (f16.round_half(signed) >> 15).tolist() == [0, 1]
