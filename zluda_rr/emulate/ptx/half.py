"""f16 and f16x2 arithmetic. One set of functions serves both: an f16x2 array [warps, 32] of u32 is an array
[warps, 64] of halves, the low half of a lane before its high half."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from zluda_rr.emulate.ptx.compiler import Compiler, Op, lift
from zluda_rr.emulate.ptx.kinds import Array, Spec
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.numerics import approx, f16
from zluda_rr.numerics.f16 import Half
from zluda_rr.ptx import Statement

_ONE = 0x3C00


def flush_half(bits: Half) -> Half:
    """`.ftz`: denormal halves become zeros of their sign."""
    return np.where((bits & np.uint16(0x7C00)) == 0, bits & np.uint16(0x8000), bits)


def saturate_half(bits: Half) -> Half:
    """`.sat`: clamp to [+0, 1]; NaN gives +0."""
    positive = (bits < 0x8000) & ~f16.is_nan_half(bits)
    return np.where(positive, np.minimum(bits, np.uint16(_ONE)), np.uint16(0))


def rectify_half(bits: Half) -> Half:
    """`.relu`: negatives and -0 become +0; NaN stays (canonical)."""
    return np.where((bits >= 0x8000) & ~f16.is_nan_half(bits), np.uint16(0), bits)


def _nan_if_any(pick: Callable[..., Half]) -> Callable[..., Half]:
    """The `.NaN` forms of min and max."""

    def run(a: Half, b: Half) -> Half:
        nan = f16.is_nan_half(a) | f16.is_nan_half(b)
        return np.where(nan, np.uint16(f16.CANONICAL_NAN), pick(a, b))

    return run


def _modified(function: Callable[..., Half], spec: Spec) -> Callable[..., Array]:
    """The function with `.ftz`, `.sat` and `.relu` around it, on f16 or f16x2 arrays as the type says."""
    ftz = "ftz" in spec.flags
    after = [flush_half] if ftz else []
    after += [saturate_half] if "sat" in spec.flags else []
    after += [rectify_half] if "relu" in spec.flags else []

    def run(*values: Half) -> Half:
        result = function(*[flush_half(value) for value in values] if ftz else values)
        for step in after:
            result = step(result)
        return result

    if spec.type == "f16":
        return run if ftz or after else function

    def packed(*values: Array) -> Array:
        return run(*[value.view(np.uint16) for value in values]).view(np.uint32)

    return packed


def binary(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """add, sub, mul, min, max."""
    name = spec.type
    if spec.opcode in ("min", "max"):
        spec.allow(("ftz", "NaN"))
        function = f16.min_half if spec.opcode == "min" else f16.max_half
        if "NaN" in spec.flags:
            function = _nan_if_any(function)
    elif spec.opcode in _ARITHMETIC:
        spec.allow(("rn", "ftz", "sat"))
        function = _ARITHMETIC[spec.opcode]
    else:
        raise Unsupported(f"{spec.opcode} of .{name}")
    return lift(compiler, statement, _modified(function, spec), name, (name, name))


def fused(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """fma."""
    if spec.opcode != "fma":
        raise Unsupported(f"{spec.opcode} of .{spec.type}")
    spec.allow(("rn", "ftz", "sat", "relu"))
    return lift(compiler, statement, _modified(f16.fma_half, spec), spec.type, (spec.type,) * 3)


def sign(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """abs and neg; NVIDIA's GPUs do them as additions, so a NaN comes out canonical."""
    spec.allow(("ftz",))
    if spec.opcode == "abs":
        return lift(
            compiler,
            statement,
            _modified(lambda a: f16.canonical_half(a & np.uint16(0x7FFF)), spec),
            spec.type,
            (spec.type,),
        )
    return lift(
        compiler,
        statement,
        _modified(lambda a: f16.canonical_half(a ^ np.uint16(0x8000)), spec),
        spec.type,
        (spec.type,),
    )


def transcendental(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """ex2.approx and tanh.approx: the f32 model rounded once more to f16."""
    spec.allow(("approx", "ftz"))
    functions = {"ex2": approx.approx_ex2, "tanh": approx.approx_tanh}
    if spec.opcode not in functions:
        raise Unsupported(f"{spec.opcode} of .{spec.type}")
    function = functions[spec.opcode]

    def run(a: Half) -> Half:
        return f16.canonical_half(f16.round_half(function(f16.half_to_float(a), ftz=False)))

    return lift(compiler, statement, _modified(run, spec), spec.type, (spec.type,))


_ARITHMETIC: Mapping[str, Callable[..., Half]] = MappingProxyType(
    {"add": f16.add_half, "sub": f16.sub_half, "mul": f16.mul_half}
)
