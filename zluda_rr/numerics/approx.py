"""The model of PTX's `.approx` functions and of gfx12's transcendental instructions.

Both emulators use it: the exact value rounded to f32. `rcp` and `sqrt` are IEEE f32 operations and so
correctly rounded; the others are evaluated in f64 and rounded once, which differs from correct rounding only
where the exact value lies within about 2^-52 of a tie. An H200 is within one ulp of the correctly rounded rcp
and rsqrt, and never differs from it after rounding to f16. With `ftz`, denormal arguments and results are
zeros of their sign.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zluda_rr.numerics.f16 import F32, F64, flush


def _evaluate(function: Callable[[F64], F64], x: F32, ftz: bool) -> F32:
    argument = flush(x) if ftz else x
    with np.errstate(all="ignore"):
        result: F32 = function(argument.astype(np.float64)).astype(np.float32)
    return flush(result) if ftz else result


def approx_rcp(x: F32, *, ftz: bool = True) -> F32:
    """1/x; infinity for zeros."""
    with np.errstate(all="ignore"):
        result: F32 = np.float32(1) / (flush(x) if ftz else x)
    return flush(result) if ftz else result


def approx_sqrt(x: F32, *, ftz: bool = True) -> F32:
    """Square root; NaN below -0, -0 for -0."""
    with np.errstate(all="ignore"):
        result: F32 = np.sqrt(flush(x) if ftz else x)
    return result


def approx_rsqrt(x: F32, *, ftz: bool = True) -> F32:
    """1/sqrt(x); an infinity of the sign for zeros, NaN below."""
    return _evaluate(lambda value: 1.0 / np.sqrt(value), x, ftz)


def approx_ex2(x: F32, *, ftz: bool = True) -> F32:
    """2**x."""
    return _evaluate(np.exp2, x, ftz)


def approx_lg2(x: F32, *, ftz: bool = True) -> F32:
    """Logarithm to base 2; -infinity for zeros, NaN below."""
    return _evaluate(np.log2, x, ftz)


def approx_sin(x: F32, *, ftz: bool = True) -> F32:
    """Sine of radians."""
    return _evaluate(np.sin, x, ftz)


def approx_cos(x: F32, *, ftz: bool = True) -> F32:
    """Cosine of radians."""
    return _evaluate(np.cos, x, ftz)


def approx_tanh(x: F32, *, ftz: bool = False) -> F32:
    """Hyperbolic tangent."""
    return _evaluate(np.tanh, x, ftz)


def approx_div(a: F32, b: F32, *, ftz: bool = True) -> F32:
    """a/b as the lowering computes it: a times the rounded reciprocal of b."""
    left = flush(a) if ftz else a
    with np.errstate(all="ignore"):
        result: F32 = left * approx_rcp(b, ftz=ftz)
    return flush(result) if ftz else result
