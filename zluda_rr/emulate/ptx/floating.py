"""f32 and f64 arithmetic, and the dispatch of the arithmetic opcodes by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from zluda_rr.emulate.ptx import half, integer
from zluda_rr.emulate.ptx.compiler import Compiler, Op, lift
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Array, Spec
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.numerics import approx
from zluda_rr.numerics.f16 import F32, flush, fma_float
from zluda_rr.numerics.f64 import fma_double
from zluda_rr.ptx import Statement

CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
_ROUNDED = frozenset({"rn", "ftz", "sat"})


def canonical(values: F32) -> F32:
    """The same floats with every NaN replaced by PTX's canonical 0x7fffffff."""
    nan = np.isnan(values)
    return np.where(nan, CANONICAL_NAN, values) if nan.any() else values


def saturate(values: Array) -> Array:
    """`.sat`: clamp to [+0, 1]; NaN gives +0."""
    one, zero = values.dtype.type(1), values.dtype.type(0)
    clamped: Array = np.where(values > 0, np.minimum(values, one), zero)
    return clamped


def minimum(a: Array, b: Array) -> Array:
    """-0 below +0; the other operand where one is NaN."""
    return _select(a, b, a < b, np.bitwise_or)


def maximum(a: Array, b: Array) -> Array:
    """+0 above -0; the other operand where one is NaN."""
    return _select(a, b, a > b, np.bitwise_and)


def _select(a: Array, b: Array, first: Array, on_equal: np.ufunc) -> Array:
    bits = np.dtype(f"u{a.dtype.itemsize}")
    equal = on_equal(a.view(bits), b.view(bits)).view(a.dtype)  # only the sign of zeros can differ
    result = np.where(a == b, equal, np.where(first, a, b))
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))


def modified(function: Callable[..., Array], spec: Spec) -> Callable[..., Array]:
    """A function of f32 arrays with the instruction's `.ftz` and `.sat` around it and canonical NaN."""
    ftz, sat = "ftz" in spec.flags, "sat" in spec.flags

    def run(*values: F32) -> F32:
        result: F32 = canonical(function(*[flush(value) for value in values] if ftz else values))
        if ftz:
            result = flush(result)
        return saturate(result) if sat else result

    return run


def binary(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """add, sub, mul, div, min, max of any type."""
    name = spec.type
    if name in ("f16", "f16x2"):
        return half.binary(compiler, statement, spec)
    if name not in ("f32", "f64"):
        return integer.binary(compiler, statement, spec)
    if spec.opcode == "div":
        return _divide(compiler, statement, spec)
    if spec.opcode in ("min", "max"):
        spec.allow(("ftz", "NaN"))
        pick = minimum if spec.opcode == "min" else maximum
        function: Callable[..., Array] = pick
        if "NaN" in spec.flags:

            def function(a: Array, b: Array) -> Array:
                return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), pick(a, b))

        if len(statement.operands) == 4:  # min and max of three, from sm_100 on
            two = function
            three: Callable[..., Array] = lambda a, b, c: two(two(a, b), c)  # noqa: E731
            return lift(compiler, statement, _typed(three, spec), name, (name,) * 3)
    else:
        spec.allow(_ROUNDED)
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[spec.opcode]
    return lift(compiler, statement, _typed(function, spec), name, (name, name))


def _typed(function: Callable[..., Array], spec: Spec) -> Callable[..., Array]:
    if spec.type == "f32":
        return modified(function, spec)
    spec.allow(("rn", "approx"))
    return function


def _divide(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    name = spec.type
    if "full" in spec.flags:
        # Two ulp over the whole range (PTX ISA, div): the exact quotient is a model of it.
        spec.allow(("full", "ftz"), {"f32"})
        return lift(compiler, statement, modified(np.divide, spec), name, (name, name))
    if "approx" in spec.flags:
        spec.allow(("approx", "ftz"), {"f32"})
        ftz = "ftz" in spec.flags
        return lift(compiler, statement, lambda a, b: canonical(approx.approx_div(a, b, ftz=ftz)), name, (name, name))
    spec.allow(("rn", "ftz"))
    return lift(compiler, statement, _typed(np.divide, spec), name, (name, name))


def fused(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """fma and mad of any type."""
    name = spec.type
    if name in ("f16", "f16x2"):
        return half.fused(compiler, statement, spec)
    if name == "f32":
        spec.allow(_ROUNDED)
        return lift(compiler, statement, modified(fma_float, spec), name, (name, name, name))
    if name == "f64":
        spec.allow(("rn",))
        return lift(compiler, statement, fma_double, name, (name, name, name))
    return integer.multiply_add(compiler, statement, spec)


def sign(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """abs and neg of any type; NVIDIA's GPUs do them as additions, so an f32 NaN comes out canonical."""
    name = spec.type
    if name in ("f16", "f16x2"):
        return half.sign(compiler, statement, spec)
    if name not in ("f32", "f64"):
        return integer.unary(compiler, statement, spec)
    spec.allow(("ftz",))
    function = np.absolute if spec.opcode == "abs" else np.negative
    return lift(compiler, statement, modified(function, spec) if name == "f32" else function, name, (name,))


def copy_sign(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """copysign: the magnitude of b with the sign of a."""
    spec.allow((), {"f32", "f64"})
    return lift(compiler, statement, lambda a, b: np.copysign(b, a), spec.type, (spec.type, spec.type))


def transcendental(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh."""
    if spec.type in ("f16", "f16x2"):
        return half.transcendental(compiler, statement, spec)
    if spec.type == "f64" or "rn" in spec.flags:
        spec.allow(("rn", "ftz"), {"f32", "f64"})
        exact: Mapping[str, Callable[[Array], Array]] = {"rcp": np.reciprocal, "sqrt": np.sqrt}
        if spec.opcode not in exact:
            raise Unsupported("no correctly rounded form")
        return lift(compiler, statement, _typed(exact[spec.opcode], spec), spec.type, (spec.type,))
    spec.allow(("approx", "ftz"), {"f32"})
    function, ftz = APPROXIMATIONS[spec.opcode], "ftz" in spec.flags
    return lift(compiler, statement, lambda x: canonical(function(x, ftz=ftz)), "f32", ("f32",))


APPROXIMATIONS: Mapping[str, Callable[..., F32]] = MappingProxyType(
    {
        "rcp": approx.approx_rcp,
        "sqrt": approx.approx_sqrt,
        "rsqrt": approx.approx_rsqrt,
        "ex2": approx.approx_ex2,
        "lg2": approx.approx_lg2,
        "sin": approx.approx_sin,
        "cos": approx.approx_cos,
        "tanh": approx.approx_tanh,
    }
)

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **dict.fromkeys(("add", "sub", "mul", "div", "min", "max"), binary),
        **dict.fromkeys(("fma", "mad"), fused),
        **dict.fromkeys(("abs", "neg"), sign),
        "copysign": copy_sign,
        **dict.fromkeys(APPROXIMATIONS, transcendental),
    }
)
