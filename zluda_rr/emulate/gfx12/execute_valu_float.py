"""Vector floating-point arithmetic: f16, f32 and f64.

Results round as MODE asks; see `floats` for the formulas. Transcendental instructions follow the project's
model (`numerics.approx_*`: the exact value rounded to f32, denormals flushed as LLVM's AMDGPU language
reference states for `v_exp_f32` and `v_log_f32`). Source of the operations: AMD "RDNA4" Instruction Set
Architecture, chapter 16, VOP1 to VOP3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import floats
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.table import Build, keyed, per_lane
from zluda_rr.numerics.approx import approx_ex2, approx_lg2, approx_rcp, approx_rsqrt, approx_sqrt
from zluda_rr.numerics.f16 import sum_to_odd

Array = NDArray[Any]


def _arithmetic(operation: np.ufunc, *, swapped: bool = False) -> dict[str, Build]:
    """add, sub or mul for the three widths."""

    def build(letter: str, b: Binder) -> None:
        x, y = b.vectors(letter * 2)
        if swapped:
            x, y = y, x
        mode = b.machine.mode
        if letter == "h" and mode.round_16_64:  # exact in f64, so that the one rounding is the right one
            b.emit(letter, partial(operation, dtype=np.float64), x, y)
        elif letter == "f" and mode.round_32:
            b.emit(letter, partial(_directed, operation, mode.round_32), x, y)
        else:
            b.emit(letter, operation, x, y)

    return {f"_{name}": partial(build, letter) for name, letter in (("f16", "h"), ("f32", "f"), ("f64", "d"))}


def _directed(operation: np.ufunc, mode: int, x: Array, y: Array) -> Array:
    if operation is np.multiply:
        exact = np.multiply(x, y, dtype=np.float64)
    else:
        wide = np.asarray(y, dtype=np.float64)
        exact = sum_to_odd(np.asarray(x, np.float64), wide if operation is np.add else -wide)
    return floats.round_f32(exact, mode)


def fused(b: Binder, letter: str, x: Array, y: Array, z: Array) -> None:
    """Emit x * y + z with one rounding."""
    mode = b.machine.mode
    if letter == "d":
        b.emit("d", floats.fma_f64, x, y, z)
    elif letter == "h":
        b.emit("h", b.guarded(floats.fma_to_odd), x, y, z)
    elif mode.round_32:
        directed = mode.round_32
        b.emit("f", lambda p, q, r: floats.round_f32(floats.fma_to_odd(p, q, r), directed), x, y, z)
    else:
        b.emit("f", b.guarded(floats.fma_f32), x, y, z)


def _fma(letter: str) -> Build:
    return lambda b: fused(b, letter, *b.vectors(letter * 3))


def _fmac(letter: str) -> Build:
    def build(b: Binder) -> None:
        x, y = b.vectors(letter * 2)
        fused(b, letter, x, y, b.operand(b.inst.dst[0], letter))

    return build


def _legacy_mul(x: Array, y: Array) -> Array:
    """v_mul_dx9_zero: zero times anything is +0."""
    return np.where((x == 0) | (y == 0), np.float32(0), x * y)


def _scale(x: Array, exponent: Array) -> Array:
    wide = np.asarray(x, dtype=np.float64)
    return np.ldexp(wide, np.clip(exponent, -400, 400).astype(np.int32))


def _ldexp_f32(x: Array, exponent: Array) -> Array:
    return _scale(x, exponent).astype(np.float32)


def _fract(x: Array) -> Array:
    """x - floor(x), held below one; an infinity gives NaN."""
    below = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.asarray(np.minimum(x - np.floor(x), below))


def _fract_h(x: Array) -> Array:
    return np.asarray(np.minimum(x - np.floor(x), np.float32(1 - 2.0**-11)))


def _mantissa(x: Array) -> Array:
    """In [0.5, 1) with x's sign; zeros, infinities and NaN unchanged."""
    return np.frexp(x)[0]


def _exponent(x: Array) -> Array:
    """Exponent that goes with `_mantissa`; 0 for infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def _turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """sin and cos take revolutions; NaN for infinities."""

    def evaluate(x: Array) -> Array:
        wide = np.asarray(x, dtype=np.float64)
        return function((wide - np.floor(wide)) * (2 * np.pi))

    return evaluate


def _single(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x).astype(np.float32)


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """An f16 function evaluated in f64, to be rounded once."""
    return lambda x: function(np.asarray(x, dtype=np.float64))


def _reciprocal(x: Array) -> Array:
    return np.asarray(np.divide(x.dtype.type(1), x))


def _inverse_root(x: Array) -> Array:
    return np.asarray(np.divide(x.dtype.type(1), np.sqrt(x)))


def _div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """Special cases of a division whose quotient has been refined: RDNA4 ISA, V_DIV_FIXUP."""
    sign = np.signbit(denominator) ^ np.signbit(numerator)
    kind = quotient.dtype.type
    # A refinement that overflowed is an infinity or a NaN; the manual asks for exponent 255 (of S1 by mistake).
    magnitude = np.where(np.isfinite(quotient), np.abs(quotient), kind(np.inf))
    signed = np.where(sign, -magnitude, magnitude)
    zero = np.where(sign, kind(-0.0), kind(0.0))
    infinite = np.where(sign, kind(-np.inf), kind(np.inf))
    result = np.where((numerator == 0) | np.isinf(denominator), zero, signed)
    result = np.where((denominator == 0) | np.isinf(numerator), infinite, result)
    both = (denominator == 0) & (numerator == 0) | np.isinf(denominator) & np.isinf(numerator)
    result = np.where(both, kind(np.nan), result)
    result = np.where(np.isnan(denominator), denominator, result)
    return np.where(np.isnan(numerator), numerator, result)


def _div_fmas(letter: str) -> Build:
    """fma, scaled back where v_div_scale set VCC, rounded once. The exponent of the third source, the quotient
    so far, says which way."""
    power = {"f": 64, "d": 128}[letter]
    plain = floats.fma_f32 if letter == "f" else floats.fma_f64
    scaled = floats.scaled_fma_f32 if letter == "f" else floats.scaled_fma_f64

    def build(b: Binder) -> None:
        flags = b.operand(Operand(Kind.SPECIAL, Special.VCC_LO), "b")

        def formula(x: Array, y: Array, z: Array, flag: Array) -> Array:
            result = plain(x, y, z)
            if not flag.any():
                return result
            exponent = np.where(np.abs(z) >= 2, power, -power)
            return np.where(flag, scaled(x, y, z, exponent), result)

        b.emit(letter, formula, *b.vectors(letter * 3), flags)

    return build


def _three(pick: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    return lambda x, y, z: pick(pick(x, y), z)


def _then(
    first: Callable[[Array, Array], Array], second: Callable[[Array, Array], Array]
) -> Callable[[Array, Array, Array], Array]:
    return lambda x, y, z: second(first(x, y), z)


_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "v_min_num": floats.minimum_number,
    "v_max_num": floats.maximum_number,
    "v_minimum": floats.minimum,
    "v_maximum": floats.maximum,
}
_THREE: dict[str, Callable[[Array, Array, Array], Array]] = {
    "v_min3_num": _three(floats.minimum_number),
    "v_max3_num": _three(floats.maximum_number),
    "v_minimum3": _three(floats.minimum),
    "v_maximum3": _three(floats.maximum),
    "v_med3_num": floats.median,
    "v_minmax_num": _then(floats.minimum_number, floats.maximum_number),
    "v_maxmin_num": _then(floats.maximum_number, floats.minimum_number),
    "v_minimummaximum": _then(floats.minimum, floats.maximum),
    "v_maximumminimum": _then(floats.maximum, floats.minimum),
}
_ROUNDINGS = {"v_trunc": np.trunc, "v_ceil": np.ceil, "v_rndne": np.rint, "v_floor": np.floor}
_WIDTHS = (("f16", "h"), ("f32", "f"), ("f64", "d"))


def _uniform() -> dict[str, Build]:
    """Instructions that exist alike for several widths."""
    table: dict[str, Build] = {}
    for name, letter in _WIDTHS:
        for stem, two in _TWO.items():
            table[f"{stem}_{name}"] = per_lane(letter * 2, letter, two)
        for stem, three in _THREE.items():
            table[f"{stem}_{name}"] = per_lane(letter * 3, letter, three)
        for stem, whole in _ROUNDINGS.items():
            table[f"{stem}_{name}"] = per_lane(letter, letter, whole)
        table[f"v_fma_{name}"] = _fma(letter)
        table[f"v_frexp_mant_{name}"] = per_lane(letter, letter, _mantissa)
        if letter != "d":
            table[f"v_fmac_{name}"] = _fmac(letter)
            table[f"v_fmamk_{name}"] = table[f"v_fmaak_{name}"] = _fma(letter)
        if letter != "h":
            table[f"v_frexp_exp_i32_{name}"] = per_lane(letter, "i", _exponent)
            table[f"v_fract_{name}"] = per_lane(letter, letter, _fract)
            table[f"v_div_fmas_{name}"] = _div_fmas(letter)
        table[f"v_div_fixup_{name}"] = per_lane(letter * 3, letter, _div_fixup)
    return table


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    return {
        **keyed(_arithmetic(np.add), "v_add"),
        **keyed(_arithmetic(np.subtract), "v_sub"),
        **keyed(_arithmetic(np.subtract, swapped=True), "v_subrev"),
        **keyed(_arithmetic(np.multiply), "v_mul"),
        **_uniform(),
        "v_mul_dx9_zero_f32": per_lane("ff", "f", _legacy_mul),
        "v_fract_f16": per_lane("h", "h", _fract_h),
        "v_frexp_exp_i16_f16": per_lane("h", "s", lambda x: _exponent(x).astype(np.int16)),
        "v_ldexp_f16": per_lane("hs", "h", _scale),
        "v_ldexp_f32": per_lane("fi", "f", _ldexp_f32),
        "v_ldexp_f64": per_lane("di", "d", lambda x, e: np.ldexp(x, np.clip(e, -4000, 4000))),
        **_transcendental(),
    }


def _transcendental() -> dict[str, Build]:
    single = {
        "exp": approx_ex2,
        "log": approx_lg2,
        "rcp": approx_rcp,
        "rcp_iflag": approx_rcp,
        "rsq": approx_rsqrt,
        "sqrt": approx_sqrt,
        "sin": _single(_turns(np.sin)),
        "cos": _single(_turns(np.cos)),
    }
    half = {
        "exp": _wide(np.exp2),
        "log": _wide(np.log2),
        "rcp": _wide(_reciprocal),
        "rsq": _wide(_inverse_root),
        "sqrt": _wide(np.sqrt),
        "sin": _turns(np.sin),
        "cos": _turns(np.cos),
    }
    table = {f"v_{name}_f32": per_lane("f", "f", formula) for name, formula in single.items()}
    table |= {f"v_{name}_f16": per_lane("h", "h", formula) for name, formula in half.items()}
    table["v_rcp_f64"] = per_lane("d", "d", _reciprocal)
    table["v_rsq_f64"] = per_lane("d", "d", _inverse_root)
    table["v_sqrt_f64"] = per_lane("d", "d", np.sqrt)
    return table
