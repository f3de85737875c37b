"""The approximation model: correctly rounded f32, checked with integers where the function is algebraic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zluda_rr.numerics import approx, f16

normals = st.floats(width=32, min_value=2.0**-100, max_value=2.0**100)


def midpoints(result: np.float32) -> tuple[Fraction, Fraction]:
    below = np.nextafter(result, np.float32(0))
    above = np.nextafter(result, np.float32(np.inf))
    return (Fraction(float(below)) + Fraction(float(result))) / 2, (
        Fraction(float(above)) + Fraction(float(result))
    ) / 2


@given(normals)
def test_rsqrt_rcp_and_sqrt_are_correctly_rounded(value: float) -> None:
    x = np.float32([value])
    exact = Fraction(value)
    low, high = midpoints(approx.approx_rsqrt(x)[0])
    assert low**2 <= 1 / exact <= high**2
    low, high = midpoints(approx.approx_rcp(x)[0])
    assert low <= 1 / exact <= high
    low, high = midpoints(approx.approx_sqrt(x)[0])
    assert low**2 <= exact <= high**2


@pytest.mark.soak
def test_rsqrt_is_correctly_rounded_for_every_mantissa() -> None:
    """Where f64 is so close to a tie that its own error could matter, exact arithmetic decides."""
    close = 0
    for exponent in (0x3F800000, 0x40000000):
        for start in range(0, 1 << 23, 1 << 20):
            bits = np.uint32(exponent) + np.arange(start, start + (1 << 20), dtype=np.uint32)
            values = bits.view(np.float32)
            dropped = (1.0 / np.sqrt(values.astype(np.float64))).view(np.int64) & ((1 << 29) - 1)
            for value in values[np.abs(dropped - (1 << 28)) <= 4]:
                close += 1
                low, high = midpoints(approx.approx_rsqrt(np.float32([value]))[0])
                assert low**2 <= 1 / Fraction(float(value)) <= high**2
    assert close == 1


def test_special_values() -> None:
    denormal = np.uint32([1]).view(np.float32)
    x = np.concatenate([np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0]), denormal])
    inf = np.inf
    expected = {
        approx.approx_rcp: [inf, -inf, 0.0, -0.0, np.nan, -1.0, inf],
        approx.approx_rsqrt: [inf, -inf, 0.0, np.nan, np.nan, np.nan, inf],
        approx.approx_sqrt: [0.0, -0.0, inf, np.nan, np.nan, np.nan, 0.0],
        approx.approx_ex2: [1.0, 1.0, inf, 0.0, np.nan, 0.5, 1.0],
        approx.approx_lg2: [-inf, -inf, inf, np.nan, np.nan, np.nan, -inf],
    }
    for function, values in expected.items():
        result = function(x)
        assert np.array_equal(result, np.float32(values), equal_nan=True), function
        number = ~np.isnan(result)
        assert np.array_equal(np.signbit(result)[number], np.signbit(np.float32(values))[number]), function
    assert approx.approx_lg2(denormal, ftz=False).tolist() == [-149.0]
    assert approx.approx_ex2(np.float32([-140]), ftz=False).view(np.uint32).tolist() == [1 << 9]
    assert approx.approx_ex2(np.float32([-140])).tolist() == [0.0]


def test_exact_powers_of_two() -> None:
    x = np.arange(-126, 128).astype(np.float32)
    assert np.array_equal(approx.approx_ex2(x), np.ldexp(np.float32(1), x.astype(int)))
    assert np.array_equal(approx.approx_lg2(approx.approx_ex2(x)), x)


@given(normals, normals)
def test_division_is_a_product_with_the_reciprocal(a: float, b: float) -> None:
    x, y = np.float32([a]), np.float32([b])
    result = approx.approx_div(x, y)
    with np.errstate(over="ignore"):
        assert result[0] == f16.flush(x * (np.float32(1) / y))[0]


def test_circular_and_hyperbolic_functions_round_once() -> None:
    x = np.linspace(-4, 4, 1001, dtype=np.float32)
    for function, exact in [
        (approx.approx_sin, np.sin),
        (approx.approx_cos, np.cos),
        (approx.approx_tanh, np.tanh),
    ]:
        wide = exact(x.astype(np.float64))
        assert np.all(np.abs(function(x) - wide) <= np.spacing(np.abs(wide).astype(np.float32)) / 2)
