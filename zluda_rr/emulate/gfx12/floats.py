"""Floating-point formulas with the rounding the hardware has, on numpy arrays.

A fused operation is formed in f64 and rounded to odd there, after which any rounding to f32 or f16 is a
single correct one: f64 has more than two spare bits over either (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.f16 import half_to_float, sum_to_odd

Array = NDArray[Any]

_HALF_MAX = np.float16(65504.0)


def half_table() -> NDArray[np.float32]:
    """f32 value of each of the 65,536 halves; NaN payloads are kept in the upper fraction bits."""
    return half_to_float(np.arange(65536, dtype=np.uint32).astype(np.uint16))


def fma_to_odd(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f32 (or f16 held in f32) arrays, in f64 rounded to odd."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    return sum_to_odd(product, np.asarray(c, dtype=np.float64))


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """Fused multiply-add, rounded to nearest even once."""
    product = np.asarray(np.multiply(a, b, dtype=np.float64))
    total = np.add(product, c, dtype=np.float64)
    bits = np.asarray(total).view(np.int64)
    # Rounding twice errs only where f64 landed on a midpoint of f32, or on an f32 subnormal.
    doubtful = (bits & 0x1FFF_FFFF) == 0x1000_0000
    doubtful |= np.abs(total) < 1.2e-38
    if doubtful.any():
        total = sum_to_odd(product, np.asarray(c, dtype=np.float64))
    return np.asarray(total).astype(np.float32)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Fused multiply-add of f64, rounded to nearest even once."""
    return scaled_fma_f64(a, b, c, np.array(0))


def scaled_fma_f32(a: Array, b: Array, c: Array, exponent: Array) -> Array:
    """`(a * b + c) * 2**exponent`, rounded once."""
    return np.ldexp(fma_to_odd(a, b, c), exponent).astype(np.float32)


def scaled_fma_f64(a: Array, b: Array, c: Array, exponent: Array) -> Array:
    """`(a * b + c) * 2**exponent`, rounded once, through exact rationals (only special values are not)."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c), np.shape(exponent))
    flat = [np.broadcast_to(x, shape).ravel() for x in (a, b, c)]
    powers = np.broadcast_to(exponent, shape).ravel()
    result = flat[0] * flat[1] + flat[2]
    finite = np.isfinite(flat[0]) & np.isfinite(flat[1]) & np.isfinite(flat[2])
    for index in np.flatnonzero(finite):
        x, y, z = (float(values[index]) for values in flat)
        result[index] = _fma_exact(x, y, z, int(powers[index]))
    return np.asarray(result.reshape(shape))


def _fma_exact(a: float, b: float, c: float, power: int = 0) -> float:
    from fractions import Fraction

    exact = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** power
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def round_f32(x: Array, mode: int) -> Array:
    """f64 (rounded to odd) to f32 in a MODE rounding: 0 nearest even, 1 up, 2 down, 3 to zero."""
    near = np.asarray(x).astype(np.float32)
    if mode == 0:
        return near
    wide = near.astype(np.float64)
    if mode == 1:
        return np.where(wide < x, np.nextafter(near, np.float32(np.inf)), near)
    if mode == 2:
        return np.where(wide > x, np.nextafter(near, np.float32(-np.inf)), near)
    return np.where(np.abs(wide) > np.abs(x), np.nextafter(near, np.float32(0)), near)


def round_f16(x: Array, mode: int, overflow_clamps: bool) -> Array:
    """f32 or f64 to f16 in a MODE rounding. `overflow_clamps` is MODE.FP16_OVFL: a finite value that would
    become infinite becomes the largest half instead; true infinities stay."""
    near = np.asarray(x).astype(np.float16)
    if mode:
        near = _direct_f16(near, np.asarray(x), mode)
    if overflow_clamps:
        over = np.isinf(near) & np.isfinite(x)
        near = np.where(over, np.copysign(_HALF_MAX, near), near)
    return near


def _direct_f16(near: Array, x: Array, mode: int) -> Array:
    wide = near.astype(x.dtype)
    up, down = np.float16(np.inf), np.float16(-np.inf)
    if mode == 1:
        return np.where(wide < x, np.nextafter(near, up), near)
    if mode == 2:
        return np.where(wide > x, np.nextafter(near, down), near)
    return np.where(np.abs(wide) > np.abs(x), np.nextafter(near, np.float16(0)), near)


def flush_f32(x: Array) -> Array:
    """Denormal f32 to zero of the same sign."""
    return _flush(x, 0x0080_0000)


def flush_f16(x: Array) -> Array:
    """f16 values held in f32: denormal halves to zero of the same sign."""
    return _flush(x, 0x3880_0000)


def _flush(x: Array, least: int) -> Array:
    """f32 whose magnitude, as bits, is below `least` to zero."""
    bits = np.asarray(x).view(np.uint32)
    small = (bits & np.uint32(0x7FFF_FFFF)) < np.uint32(least)
    return np.where(small, bits & np.uint32(0x8000_0000), bits).view(np.float32)


def default_nan(result: Array, *sources: Array) -> Array:
    """Give NaNs that no NaN operand explains the hardware's positive quiet NaN; x86 makes them negative."""
    made = np.isnan(result)
    for source in sources:
        made = made & ~np.isnan(source)
    return np.where(made, np.abs(result), result)


def clamp(x: Array) -> Array:
    """The output modifier: to [0, 1], NaN and -0 to +0."""
    one = x.dtype.type(1)
    return np.asarray(np.where(x > 0, np.minimum(x, one), x.dtype.type(0)))


def minimum_number(a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimumNumber: a NaN loses against a number, -0 is less than +0."""
    return _number(np.fmin(a, b), a, b, np.bitwise_or)


def maximum_number(a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximumNumber."""
    return _number(np.fmax(a, b), a, b, np.bitwise_and)


def _number(picked: Array, a: Array, b: Array, zeros: np.ufunc) -> Array:
    """Settle signed zeros (equal values differ in nothing but the sign of a zero) and quiet NaNs."""
    word = f"u{picked.dtype.itemsize}"
    tie = np.equal(a, b)
    if tie.any():
        both = zeros(np.asarray(a).view(word), np.asarray(b).view(word))
        picked = np.where(tie, both, picked.view(word)).view(picked.dtype)
    lost = np.isnan(picked)
    return np.where(lost, picked + picked, picked) if lost.any() else picked


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: NaN wins."""
    return _or_nan(minimum_number(a, b), a, b)


def maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: NaN wins."""
    return _or_nan(maximum_number(a, b), a, b)


def _or_nan(picked: Array, a: Array, b: Array) -> Array:
    unordered = np.isnan(a) | np.isnan(b)
    return np.where(unordered, a + b, picked) if unordered.any() else picked


def median(a: Array, b: Array, c: Array) -> Array:
    """v_med3_num: with a NaN operand min3, else the value that is neither the maximum nor the minimum."""
    low, high = minimum_number(a, b), maximum_number(a, b)
    middle = maximum_number(low, minimum_number(high, c))
    unordered = np.isnan(a) | np.isnan(b) | np.isnan(c)
    if unordered.any():
        return np.where(unordered, minimum_number(low, c), middle)
    return middle


def bf16_to_float(bits: Array) -> Array:
    """bf16 bits to f32."""
    return np.asarray(np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bf16(x: Array) -> Array:
    """f32 to bf16 bits, to nearest even; NaN becomes quiet."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)
