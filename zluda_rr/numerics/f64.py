"""f64 operations that numpy does not have."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from zluda_rr.numerics.f16 import F64


def fma_double(a: F64, b: F64, c: F64) -> F64:
    """`fma.rn.f64`: a*b + c rounded once, in exact rational arithmetic; one element at a time."""
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    x, y, z = (np.broadcast_to(values, shape).reshape(-1) for values in (a, b, c))
    with np.errstate(all="ignore"):
        result: F64 = x * y + z  # right wherever an operand is no number or infinite, and for exact zeros
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    for index in np.flatnonzero(finite):
        exact = Fraction(float(x[index])) * Fraction(float(y[index])) + Fraction(float(z[index]))
        if exact == 0:
            # The sign of an exact zero: that of equal addends, else plus. A product of two numbers is never rounded to
            # a zero here, its sign is the factors'.
            negative = np.signbit(x[index]) != np.signbit(y[index])
            result[index] = -0.0 if negative and np.signbit(z[index]) else 0.0
        else:
            result[index] = _nearest(exact)
    return result.reshape(shape)


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf
