"""f16 and f32 arithmetic as PTX defines it, on numpy arrays of any shape.

Halves travel as their bits (uint16); everything rounds to nearest even once, denormals are kept, and the NaN
that an operation returns is PTX's canonical 0x7fff (PTX ISA, half precision instructions) unless stated
otherwise.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Half = NDArray[np.uint16]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

CANONICAL_NAN = 0x7FFF
_MAGNITUDE = np.uint16(0x7FFF)
_INFINITY = np.uint16(0x7C00)
_SIGN = np.uint16(0x8000)


@cache
def _float_of_half() -> F32:
    """f32 value of each of the 65,536 halves."""
    with np.errstate(all="ignore"):
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def half_to_float(bits: Half) -> F32:
    """Exact f32 values; NaN payloads move to the top of the f32 mantissa."""
    values: F32 = _float_of_half().take(bits)
    return values


def round_half(values: F32 | F64) -> Half:
    """Nearest half, ties to even, from f32 or f64 directly; NaNs keep their sign."""
    with np.errstate(all="ignore"):
        return values.astype(np.float16).view(np.uint16)


def round_half_toward_zero(values: F32) -> Half:
    """The half of the same sign with the greatest magnitude not above the value's; infinities stay."""
    nearest = round_half(values)
    with np.errstate(all="ignore"):
        over = np.abs(half_to_float(nearest)) > np.abs(values)
    return nearest - over.astype(np.uint16)


def is_nan_half(bits: Half) -> NDArray[np.bool_]:
    """Where the bits are a NaN."""
    return (bits & _MAGNITUDE) > _INFINITY


def canonical_half(bits: Half) -> Half:
    """The same halves with every NaN replaced by 0x7fff."""
    nan = is_nan_half(bits)
    return np.where(nan, np.uint16(CANONICAL_NAN), bits) if nan.any() else bits


def add_half(a: Half, b: Half) -> Half:
    """`add.rn.f16`. The f32 sum rounded to f16 is right: 24 >= 2*11 + 2 bits make double rounding
    innocuous."""
    with np.errstate(all="ignore"):
        return canonical_half(round_half(half_to_float(a) + half_to_float(b)))


def sub_half(a: Half, b: Half) -> Half:
    """`sub.rn.f16`."""
    with np.errstate(all="ignore"):
        return canonical_half(round_half(half_to_float(a) - half_to_float(b)))


def mul_half(a: Half, b: Half) -> Half:
    """`mul.rn.f16`; the product of two halves is exact in f32."""
    with np.errstate(all="ignore"):
        return canonical_half(round_half(half_to_float(a) * half_to_float(b)))


def fma_half(a: Half, b: Half, c: Half) -> Half:
    """`fma.rn.f16`: a*b + c rounded once."""
    with np.errstate(all="ignore"):
        product = half_to_float(a) * half_to_float(b)
    return canonical_half(round_half(sum_to_odd(product, half_to_float(c))))


def min_half(a: Half, b: Half) -> Half:
    """`min.f16`: -0 below +0; the other operand where one is NaN."""
    return _select_half(a, b, order_half(a) <= order_half(b))


def max_half(a: Half, b: Half) -> Half:
    """`max.f16`: +0 above -0; the other operand where one is NaN."""
    return _select_half(a, b, order_half(a) >= order_half(b))


def _select_half(a: Half, b: Half, first: NDArray[np.bool_]) -> Half:
    first = (first & ~is_nan_half(a)) | is_nan_half(b)
    return canonical_half(np.where(first, a, b))


def order_half(bits: Half) -> NDArray[np.int32]:
    """Integers in the order of the halves' values, -0 just below +0; meaningless for NaN."""
    magnitude = (bits & _MAGNITUDE).astype(np.int32)
    return np.where(bits & _SIGN, ~magnitude, magnitude)


def sum_to_odd(a: F32 | F64, b: F32 | F64) -> F64:
    """a + b in f64, rounded to odd: rounding the result once more, to f32 or f16, gives the correctly rounded
    sum.

    Round to odd keeps what a later, narrower rounding must know: an inexact sum never looks like a tie or an
    exact value (Boldo and Melquiond, 53 >= p + 2 bits).
    """
    x = a.astype(np.float64)
    y = b.astype(np.float64)
    with np.errstate(all="ignore"):
        total: F64 = x + y
        part = total - x
        error = (x - (total - part)) + (y - part)  # Knuth's two-sum: exact
        inexact = np.isfinite(total) & (error != 0)
    if not inexact.any():
        return total
    bits = total.view(np.int64)
    away = (error > 0) == (total > 0)
    step = np.where(away, np.int64(1), np.int64(-1))
    odd = np.where(inexact & ((bits & 1) == 0), bits + step, bits)
    return odd.view(np.float64)


def fma_float(a: F32, b: F32, c: F32) -> F32:
    """`fma.rn.f32`: the f64 product of two f32 is exact, so one rounding to odd and one to f32 are
    correct."""
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        return sum_to_odd(product, c).astype(np.float32)


def flush(values: F32) -> F32:
    """`.ftz`: f32 denormals become zeros of their sign."""
    bits = values.view(np.uint32)
    denormal = (bits & np.uint32(0x7F800000)) == 0
    return np.where(denormal, bits & np.uint32(0x80000000), bits).view(np.float32)
