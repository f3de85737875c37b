"""Floating-point instructions. Nothing is contracted or reassociated; every result is rounded where PTX rounds it.

f32 `.ftz` instructions either run in a kernel whose mode flushes f32 denormals (every f32 instruction of it has .ftz)
or flush their arguments and results explicitly; f16 ones, whose denormals no mode flushes, always do.
"""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import FLOATS, llvm_type
from zluda_rr.ptx import Operand, Statement

_HALVES = ("f16", "f16x2")
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
SUFFIX = {"f16": "f16", "f16x2": "v2f16", "f32": "f32", "f64": "f64"}

# gfx12 instructions for the .approx functions: v_rcp_f32, v_rsq_f32, v_exp_f32, v_log_f32, v_sqrt_f32. All take and
# give zeros for denormals, whatever the mode.
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


def flushed(e: Emitter, value: str, kind: str, ftz: bool, *, always: bool = False) -> str:
    """`value` of type `kind` with f32 or f16 denormals replaced by zeros of their sign.

    Where the kernel's mode flushes what an f32 instruction reads and writes, nothing is emitted; `always` is for
    operations that do not look at the mode.
    """
    if not ftz or kind == "f64" or (kind == "f32" and e.settings.flush and not always):
        return value
    bits, exponent, sign = {
        "f32": ("i32", 0x7F800000, 0x80000000), "f16": ("i16", 0x7C00, 0x8000), "f16x2": ("<2 x i16>", 0x7C00, 0x8000)
    }[kind]  # fmt: skip

    def constant(number: int) -> str:
        return f"<i16 {number}, i16 {number}>" if kind == "f16x2" else str(number)

    word = e.op(f"bitcast {llvm_type(kind)} {value} to {bits}")
    tiny = e.op(f"icmp eq {bits} {e.op(f'and {bits} {word}, {constant(exponent)}')}, {constant(0)}")
    zero = e.op(f"and {bits} {word}, {constant(sign)}")
    flags = "<2 x i1>" if kind == "f16x2" else "i1"
    chosen = e.op(f"select {flags} {tiny}, {bits} {zero}, {bits} {word}")
    return e.op(f"bitcast {bits} {chosen} to {llvm_type(kind)}")


def rounded(e: Emitter, value: str, kind: str, ftz: bool) -> str:
    """The result of an instruction with `.ftz`, flushed.

    Where the mode does it, LLVM may still have taken the instruction out (x - 0, x * 1); canonicalising what is left
    flushes it, and costs nothing behind an instruction that does. The same for what gfx12's functions read, which LLVM
    computes itself for constants.
    """
    if ftz and kind == "f32" and e.settings.flush:
        return e.call("float", "llvm.canonicalize.f32", ("float", value))
    return flushed(e, value, kind, ftz)


def constant_of(kind: str, value: str) -> str:
    """A floating-point constant of `kind`, in both halves of a pair."""
    return f"<half {value}, half {value}>" if kind == "f16x2" else value


def saturated(e: Emitter, value: str, kind: str, sat: bool) -> str:
    """`.sat`: clamp to [+0, 1]; NaN gives +0."""
    if not sat:
        return value
    above = _pick(e, "maximumnum", kind, value, constant_of(kind, "0.0"))
    return _pick(e, "minimumnum", kind, above, constant_of(kind, "1.0"))


def rectified(e: Emitter, value: str, kind: str, relu: bool) -> str:
    """`.relu`: negatives and -0 become +0; NaN stays."""
    return _pick(e, "maximum", kind, value, constant_of(kind, "0.0")) if relu else value


def _pick(e: Emitter, name: str, kind: str, a: str, b: str) -> str:
    return e.call(llvm_type(kind), f"llvm.{name}.{SUFFIX[kind]}", (llvm_type(kind), a), (llvm_type(kind), b))


def _sources(e: Emitter, operands: tuple[Operand, ...], kind: str, ftz: bool) -> list[str]:
    return [flushed(e, e.value(operand, kind), kind, ftz) for operand in operands]


def _start(
    e: Emitter, s: Statement, flags: tuple[str, ...], kinds: tuple[str, ...] = tuple(FLOATS)
) -> tuple[str, frozenset[str]]:
    """Type and flags of an instruction; refuses flags other than `flags`, and .ftz and .sat of f64."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, kinds)
    taken = frozenset(flag for flag in flags if mods.flag(flag))
    e.finish(s, mods)
    if kind == "f64" and taken & {"ftz", "sat"}:
        raise e.refuse(s, "flags of .f64")
    return kind, taken


def binary(e: Emitter, s: Statement) -> None:
    """add, sub, mul."""
    kind, flags = _start(e, s, ("rn", "ftz", "sat"))
    target, *sources = s.operands
    a, b = _sources(e, tuple(sources), kind, "ftz" in flags)
    result = e.op(f"{_BINARY[s.opcode]} {llvm_type(kind)} {a}, {b}")
    e.set(target, saturated(e, rounded(e, result, kind, "ftz" in flags), kind, "sat" in flags), kind)


def fused(e: Emitter, s: Statement) -> None:
    """fma; mad of f32 and f64 is the same operation."""
    allowed = ("rn", "ftz", "sat", "relu") if s.opcode == "fma" else ("rn", "ftz", "sat")
    kind, flags = _start(e, s, allowed)
    if "relu" in flags and kind not in _HALVES:
        raise e.refuse(s, f".relu of .{kind}")
    target, *sources = s.operands
    kinds = llvm_type(kind)
    values = [rounded(e, e.value(part, kind), kind, "ftz" in flags) for part in sources]
    arguments = [(kinds, value) for value in values]
    result = rounded(e, e.call(kinds, f"llvm.fma.{SUFFIX[kind]}", *arguments), kind, "ftz" in flags)
    e.set(target, rectified(e, saturated(e, result, kind, "sat" in flags), kind, "relu" in flags), kind)


def minmax(e: Emitter, s: Statement) -> None:
    """min, max of two or three: the other argument where one is NaN, or NaN with .NaN; -0 is less than +0."""
    kind, flags = _start(e, s, ("ftz", "NaN"))
    if kind == "f64" and flags:
        raise e.refuse(s, "flags of .f64")
    target, *sources = s.operands
    # v_minimum and v_maximum are not said to look at the mode.
    ftz, always = "ftz" in flags, "NaN" in flags
    result, *others = (flushed(e, e.value(source, kind), kind, ftz, always=always) for source in sources)
    name = f"{s.opcode}imum{'' if 'NaN' in flags else 'num'}"
    for other in others:
        result = _pick(e, name, kind, result, other)
    e.set(target, rounded(e, result, kind, ftz), kind)


def sign(e: Emitter, s: Statement) -> None:
    """neg, abs: operations on bits, which no mode flushes."""
    kind, flags = _start(e, s, ("ftz",))
    target, source = s.operands
    kinds = llvm_type(kind)
    value = flushed(e, e.value(source, kind), kind, "ftz" in flags, always=True)
    if s.opcode == "neg":
        e.set(target, e.op(f"fneg {kinds} {value}"), kind)
    else:
        e.set(target, e.call(kinds, f"llvm.fabs.{SUFFIX[kind]}", (kinds, value)), kind)


def copy_sign(e: Emitter, s: Statement) -> None:
    """copysign: the magnitude of b with the sign of a."""
    kind, _ = _start(e, s, (), ("f32", "f64"))
    target, a, b = s.operands
    e.set(target, _pick(e, "copysign", kind, e.value(b, kind), e.value(a, kind)), kind)


def function(e: Emitter, s: Statement) -> None:
    """rcp, sqrt with .rn; rcp, rsqrt, ex2, lg2, sqrt with .approx of f32; ex2.approx of f16."""
    if "approx" not in s.modifiers:
        _rounded(e, s)
        return
    kind, flags = _start(e, s, ("approx", "ftz"), ("f32", *(_HALVES if s.opcode == "ex2" else ())))
    target, source = s.operands
    (value,) = _sources(e, (source,), kind, "ftz" in flags)
    if kind != "f32":
        result = flushed(e, _halves_exp2(e, value, kind), kind, "ftz" in flags)
    elif "ftz" in flags:
        result = e.call("float", _APPROX[s.opcode], ("float", rounded(e, value, kind, True)))
    else:
        result = _keeping_denormals(e, s.opcode, value)
    e.set(target, result, kind)


def _halves_exp2(e: Emitter, value: str, kind: str) -> str:
    """v_exp_f32 rounded to f16, for each half."""
    if kind == "f16":
        wide = e.op(f"fpext half {value} to float")
        return e.op(f"fptrunc float {e.call('float', _APPROX['ex2'], ('float', wide))} to half")
    result = "poison"
    for index in range(2):
        half = e.op(f"extractelement <2 x half> {value}, i32 {index}")
        result = e.op(f"insertelement <2 x half> {result}, half {_halves_exp2(e, half, 'f16')}, i32 {index}")
    return result


def _keeping_denormals(e: Emitter, opcode: str, value: str) -> str:
    """The function of an f32 that may be a denormal or give one, from instructions that know none."""
    if opcode == "rcp":
        return e.op(f"fdiv float 1.0, {value}")
    if opcode != "rsqrt":
        name = {"ex2": "exp2", "lg2": "log2", "sqrt": "sqrt"}[opcode]
        return e.call("float", f"llvm.{name}.f32", ("float", value))
    small = e.op(f"fcmp olt float {e.call('float', 'llvm.fabs.f32', ('float', value))}, 0x3810000000000000")
    scaled = e.op(f"select i1 {small}, float {e.op(f'fmul float {value}, 0x4170000000000000')}, float {value}")  # 2^24
    root = e.call("float", _APPROX["rsqrt"], ("float", scaled))
    return e.op(f"select i1 {small}, float {e.op(f'fmul float {root}, 0x40B0000000000000')}, float {root}")  # 2^12


def _rounded(e: Emitter, s: Statement) -> None:
    if s.opcode not in ("rcp", "sqrt"):
        raise e.refuse(s, "only .approx")
    kind, flags = _start(e, s, ("rn", "ftz"), ("f32", "f64"))
    target, source = s.operands
    value = flushed(e, e.value(source, kind), kind, "ftz" in flags, always=True)
    kinds = llvm_type(kind)
    if s.opcode == "sqrt":
        result = e.call(kinds, f"llvm.sqrt.{kind}", (kinds, value))
    else:
        result = e.op(f"fdiv {kinds} 1.0, {value}")
    e.set(target, flushed(e, result, kind, "ftz" in flags, always=True), kind)


def divide(e: Emitter, s: Statement) -> None:
    """div.approx: the dividend times the rounded reciprocal. div.rn; div.full as the same."""
    kind, flags = _start(e, s, ("approx", "full", "rn", "ftz"), ("f32", "f64"))
    approx, ftz = "approx" in flags, "ftz" in flags
    if kind == "f64" and "rn" not in flags:
        raise e.refuse(s, "only .rn of .f64")
    target, *sources = s.operands
    a, b = (flushed(e, e.value(part, kind), kind, ftz, always=not approx) for part in sources)
    if not approx:
        result = e.op(f"fdiv {llvm_type(kind)} {a}, {b}")
        e.set(target, flushed(e, result, kind, ftz, always=True), kind)
        return
    if not ftz:
        raise e.refuse(s, "only with .ftz")
    reciprocal = e.call("float", _APPROX["rcp"], ("float", rounded(e, b, kind, ftz)))
    e.set(target, rounded(e, e.op(f"fmul float {a}, {reciprocal}"), kind, ftz), kind)


def compare(e: Emitter, left: Operand, right: Operand, relation: str, kind: str, ftz: bool) -> str:
    """The relation of two floating-point operands: an i1, or <2 x i1> for f16x2."""
    a, b = _sources(e, (left, right), kind, ftz)
    return e.op(f"fcmp {_COMPARE[relation]} {llvm_type(kind)} {a}, {b}")


def is_relation(name: str) -> bool:
    """Whether a comparison's name exists for floating-point types."""
    return name in _COMPARE


HANDLERS: Mapping[str, Handler] = {
    "fma": fused,
    "copysign": copy_sign,
    "rcp": function,
    "rsqrt": function,
    "ex2": function,
    "lg2": function,
    "sqrt": function,
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
