"""cvt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from zluda_rr.emulate.ptx.compiler import Compiler, Op, lift
from zluda_rr.emulate.ptx.floating import canonical, saturate
from zluda_rr.emulate.ptx.half import flush_half, rectify_half, saturate_half
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import DTYPES, INTEGERS, Array, Spec
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.numerics import e4m3, f16
from zluda_rr.numerics.f16 import F32, Half, flush
from zluda_rr.ptx import Statement

_TO_INTEGER: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
)
_SCALAR_FLOATS = frozenset({"f16", "f32", "f64"})


def convert(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """cvt: the first type is the result's."""
    if len(spec.types) != 2:
        raise Unsupported("two types are expected")
    result, source = spec.types
    if "x2" in result or "x2" in source:
        return _packed(compiler, statement, spec)
    if "ftz" in spec.flags and "f32" not in spec.types:
        raise Unsupported(".ftz without .f32")
    if "sat" in spec.flags and result == "f64":
        raise Unsupported(".sat of .f64")
    if result in INTEGERS and source in INTEGERS:
        return _between_integers(compiler, statement, spec)
    if result in INTEGERS and source in _SCALAR_FLOATS:
        return _to_integer(compiler, statement, spec)
    if result in _SCALAR_FLOATS and source in INTEGERS:
        return _from_integer(compiler, statement, spec)
    if result in _SCALAR_FLOATS and source in _SCALAR_FLOATS:
        return _between_floats(compiler, statement, spec)
    raise Unsupported("types")


def _packed(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    relu = "relu" in spec.flags
    if spec.types == ("e4m3x2", "f16x2") and spec.flags - {"relu"} == {"rn", "satfinite"}:
        return lift(compiler, statement, lambda a: e4m3.encode_half_pairs(a, relu=relu), "e4m3x2", ("f16x2",))
    if spec.types == ("f16x2", "e4m3x2") and spec.flags == {"rn"}:
        return lift(compiler, statement, e4m3.decode_half_pairs, "f16x2", ("e4m3x2",))
    if spec.types == ("f16x2", "f32"):
        spec.allow(("rn", "rz", "relu", "ftz", "satfinite"))
        narrow = _narrowing(spec)

        def pack(high: F32, low: F32) -> Array:
            return narrow(low).astype(np.uint32) | (narrow(high).astype(np.uint32) << np.uint32(16))

        return lift(compiler, statement, pack, "f16x2", ("f32", "f32"))
    raise Unsupported("packed conversion")


def _narrowing(spec: Spec) -> Callable[[F32], Half]:
    """f32 to f16 bits with the instruction's rounding and clamps."""
    rounding = f16.round_half_toward_zero if "rz" in spec.flags else f16.round_half
    ftz, sat, relu = "ftz" in spec.flags, "sat" in spec.flags, "relu" in spec.flags
    satfinite = "satfinite" in spec.flags

    def run(values: F32) -> Half:
        # f32 denormals round to a half zero of their sign with and without ftz.
        result = f16.canonical_half(rounding(flush(values) if ftz else values))
        if satfinite:  # an infinity is the bits above those of the greatest finite half
            result = np.where((result & np.uint16(0x7FFF)) == 0x7C00, result - np.uint16(1), result)
        if sat:
            result = saturate_half(result)
        return rectify_half(result) if relu else result

    return run


def _between_integers(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    result, source = spec.types
    spec.allow(("sat",))
    dtype = DTYPES[result]
    if "sat" not in spec.flags:
        return lift(compiler, statement, lambda a: a.astype(dtype), result, (source,))
    (least, most), (origin_least, origin_most) = _bounds(result), _bounds(source)
    low, high = max(least, origin_least), min(most, origin_most)
    return lift(compiler, statement, lambda a: np.clip(a, low, high).astype(dtype), result, (source,))


def _bounds(name: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bits = 8 * DTYPES[name].itemsize
    return (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _to_integer(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """Float to integer always clamps to the result's range. NaN gives 0, or the top bit alone where f64 or a 64-bit
    result is involved (as the manual's note says and an H200 does)."""
    result, source = spec.types
    spec.allow((*_TO_INTEGER, "ftz", "sat"))
    rounding = next((_TO_INTEGER[flag] for flag in spec.flags if flag in _TO_INTEGER), None)
    if rounding is None:
        raise Unsupported("float to integer needs .rni, .rzi, .rmi or .rpi")
    dtype = DTYPES[result]
    least, most = _bounds(result)
    wide = source == "f64" or dtype.itemsize == 8
    nan = np.array(1 << (8 * dtype.itemsize - 1) if wide else 0, dtype=np.uint64).astype(dtype)
    top = float(most + (dtype.itemsize == 8))  # 2^63 - 1 is no f64, 2^63 is
    widen, ftz = _WIDEN[source], "ftz" in spec.flags

    def run(values: Array) -> Array:
        exact = rounding(widen(flush(values) if ftz and source == "f32" else values))
        inside = (exact > least) & (exact < top)
        clamped = np.where(exact >= top, dtype.type(most), dtype.type(least))
        integers = np.where(inside, np.where(inside, exact, 0.0).astype(dtype), clamped)
        return np.where(np.isnan(exact), nan, integers)

    return lift(compiler, statement, run, result, (source,))


def _from_integer(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    result, source = spec.types
    spec.allow(("rn", "ftz", "sat"))
    sat = "sat" in spec.flags
    if result == "f16":
        # Exact in f64 as far as f16 reaches; beyond 2^53 every f16 is infinite anyway.
        after = saturate_half if sat else f16.canonical_half
        return lift(compiler, statement, lambda a: after(f16.round_half(a.astype(np.float64))), result, (source,))
    dtype = DTYPES[result]
    return lift(
        compiler,
        statement,
        lambda a: saturate(a.astype(dtype)) if sat else a.astype(dtype),
        result,
        (source,),
    )


def _between_floats(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    result, source = spec.types
    integral = next((_TO_INTEGER[flag] for flag in spec.flags if flag in _TO_INTEGER), None)
    if result == source:
        spec.allow((*_TO_INTEGER, "ftz", "sat"))
        return lift(compiler, statement, _same_float(spec, integral), result, (source,))
    if (result, source) == ("f16", "f32"):
        spec.allow(("rn", "rz", "ftz", "sat", "relu", "satfinite"))
        if "satfinite" in spec.flags and spec.flags & {"ftz", "sat"}:
            raise Unsupported(".satfinite with .ftz or .sat")
        return lift(compiler, statement, _narrowing(spec), result, (source,))
    spec.allow(("rn", "ftz", "sat"))
    sat, ftz = "sat" in spec.flags, "ftz" in spec.flags
    if result == "f16":
        after = saturate_half if sat else f16.canonical_half
        return lift(compiler, statement, lambda a: after(f16.round_half(a)), result, (source,))
    widen, dtype = _WIDEN[source], DTYPES[result]

    def run(values: Array) -> Array:
        exact = widen(flush(values) if ftz and source == "f32" else values)
        converted = exact.astype(dtype)
        if dtype == np.float32:
            converted = canonical(flush(converted) if ftz else converted)
        return saturate(converted) if sat else converted

    return lift(compiler, statement, run, result, (source,))


def _same_float(spec: Spec, integral: Callable[[Array], Array] | None) -> Callable[[Array], Array]:
    """cvt.rni.f32.f32 and the like, cvt.sat.f32.f32, cvt.ftz.f32.f32."""
    name, sat, ftz = spec.types[0], "sat" in spec.flags, "ftz" in spec.flags

    def halves(bits: Half) -> Half:
        bits = flush_half(bits) if ftz else bits
        if integral is not None:
            bits = f16.round_half(integral(f16.half_to_float(bits)))
        return saturate_half(bits) if sat else f16.canonical_half(bits)

    def floats(values: Array) -> Array:
        values = flush(values) if ftz else values
        values = values if integral is None else integral(values)
        if sat:
            return saturate(values)
        return canonical(values) if name == "f32" else values

    return halves if name == "f16" else floats


_WIDEN: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "f16": lambda a: f16.half_to_float(a).astype(np.float64),
        "f32": lambda a: a.astype(np.float64),
        "f64": lambda a: a,
    }
)

HANDLERS: Mapping[str, Handler] = MappingProxyType({"cvt": convert})
