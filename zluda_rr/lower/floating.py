"""Floating-point instructions. Nothing is contracted or reassociated; every result is rounded where PTX rounds it.

f16 instructions keep denormals. f32 `.ftz` instructions either run in a kernel whose mode flushes f32 denormals
(every f32 instruction of it has .ftz) or flush their arguments and results explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import is_float, llvm_type
from zluda_rr.ptx import Operand, Statement

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_INTRINSIC_SUFFIX = {"f16": "f16", "f16x2": "v2f16", "f32": "f32", "f64": "f64"}

# gfx12 instructions for the .approx functions: v_rcp_f32, v_rsq_f32, v_exp_f32, v_log_f32, v_sqrt_f32.
_APPROX = {
    "rcp": "llvm.amdgcn.rcp.f32",
    "rsqrt": "llvm.amdgcn.rsq.f32",
    "ex2": "llvm.amdgcn.exp2.f32",
    "lg2": "llvm.amdgcn.log.f32",
    "sqrt": "llvm.amdgcn.sqrt.f32",
}

# Comparisons: ordered forms are false for NaN, the ...u forms true.
_COMPARE = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip


def flushed(e: Emitter, value: str, kind: str, ftz: bool) -> str:
    """`value` of type `kind` with f32 denormals replaced by zeros of their sign, where the mode does not do it."""
    if not ftz or kind != "f32" or e.settings.flush:
        return value
    bits = e.op(f"bitcast float {value} to i32")
    exponent = e.op(f"and i32 {bits}, {0x7F800000}")
    sign = e.op(f"and i32 {bits}, {0x80000000}")
    tiny = e.op(f"icmp eq i32 {exponent}, 0")
    return e.op(f"bitcast i32 {e.op(f'select i1 {tiny}, i32 {sign}, i32 {bits}')} to float")


def _sources(e: Emitter, operands: tuple[Operand, ...], kind: str, ftz: bool) -> list[str]:
    return [flushed(e, e.value(operand, kind), kind, ftz) for operand in operands]


def _start(e: Emitter, s: Statement) -> tuple[str, bool]:
    """Type and .ftz of a rounding instruction; refuses rounding modes other than to nearest even."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    ftz = mods.flag("ftz")
    mods.take("rn")
    mods.take("approx")
    mods.take("full")
    e.finish(s, mods)
    if not is_float(kind):
        raise e.refuse(s, f".{kind}")
    return kind, ftz


def binary(e: Emitter, s: Statement) -> None:
    """add, sub, mul."""
    kind, ftz = _start(e, s)
    target, *sources = s.operands
    a, b = _sources(e, tuple(sources), kind, ftz)
    result = e.op(f"{_BINARY[s.opcode]} {llvm_type(kind)} {a}, {b}")
    e.set(target, flushed(e, result, kind, ftz), kind)


def fused(e: Emitter, s: Statement) -> None:
    """fma; mad of f32 is the same operation."""
    kind, ftz = _start(e, s)
    target, *sources = s.operands
    kinds = llvm_type(kind)
    arguments = [(kinds, value) for value in _sources(e, tuple(sources), kind, ftz)]
    result = e.call(kinds, f"llvm.fma.{_INTRINSIC_SUFFIX[kind]}", *arguments)
    e.set(target, flushed(e, result, kind, ftz), kind)


def minmax(e: Emitter, s: Statement) -> None:
    """min, max: the other argument where one is NaN."""
    kind, ftz = _start(e, s)
    target, *sources = s.operands
    kinds = llvm_type(kind)
    arguments = [(kinds, value) for value in _sources(e, tuple(sources), kind, ftz)]
    e.set(target, e.call(kinds, f"llvm.{s.opcode}num.{_INTRINSIC_SUFFIX[kind]}", *arguments), kind)


def sign(e: Emitter, s: Statement) -> None:
    """neg, abs."""
    kind, ftz = _start(e, s)
    target, source = s.operands
    kinds = llvm_type(kind)
    (value,) = _sources(e, (source,), kind, ftz)
    if s.opcode == "neg":
        e.set(target, e.op(f"fneg {kinds} {value}"), kind)
    else:
        e.set(target, e.call(kinds, f"llvm.fabs.{_INTRINSIC_SUFFIX[kind]}", (kinds, value)), kind)


def approximate(e: Emitter, s: Statement) -> None:
    """rcp, rsqrt, ex2, lg2, sqrt with .approx, in f32."""
    if "approx" not in s.modifiers:
        raise e.refuse(s, "only .approx")
    kind, ftz = _start(e, s)
    if kind != "f32":
        raise e.refuse(s, f".{kind}")
    target, source = s.operands
    (value,) = _sources(e, (source,), kind, ftz)
    result = e.call("float", _APPROX[s.opcode], ("float", value))
    e.set(target, flushed(e, result, kind, ftz), kind)


def divide(e: Emitter, s: Statement) -> None:
    """div.approx: the dividend times the rounded reciprocal."""
    if "approx" not in s.modifiers:
        raise e.refuse(s, "only .approx")
    kind, ftz = _start(e, s)
    if kind != "f32":
        raise e.refuse(s, f".{kind}")
    target, *sources = s.operands
    a, b = _sources(e, tuple(sources), kind, ftz)
    reciprocal = flushed(e, e.call("float", _APPROX["rcp"], ("float", b)), kind, ftz)
    e.set(target, flushed(e, e.op(f"fmul float {a}, {reciprocal}"), kind, ftz), kind)


def compare(e: Emitter, left: Operand, right: Operand, relation: str, kind: str, ftz: bool) -> str:
    """An i1: the relation of two floating-point operands."""
    a, b = _sources(e, (left, right), kind, ftz)
    return e.op(f"fcmp {_COMPARE[relation]} {llvm_type(kind)} {a}, {b}")


def is_relation(name: str) -> bool:
    """Whether a comparison's name exists for floating-point types."""
    return name in _COMPARE


HANDLERS: Mapping[str, Handler] = {
    "fma": fused,
    "rcp": approximate,
    "rsqrt": approximate,
    "ex2": approximate,
    "lg2": approximate,
    "sqrt": approximate,
}
FLOAT_HANDLERS: Mapping[str, Handler] = {
    "add": binary,
    "sub": binary,
    "mul": binary,
    "mad": fused,
    "min": minmax,
    "max": minmax,
    "neg": sign,
    "abs": sign,
    "div": divide,
}
