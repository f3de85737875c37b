"""Moves and conversions."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower import floating
from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.modifiers import Modifiers
from zluda_rr.lower.scalar import BITS, INTEGERS, is_float, is_signed, llvm_type, width
from zluda_rr.ptx import Operand, Statement, Symbol, Vector

_INTEGER_ROUNDING = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_FLOATS = ("f16", "f32", "f64")
_WHOLE = ("u8", "s8", *INTEGERS)


def move(e: Emitter, s: Statement) -> None:
    """mov: copy, address of a variable, pack `{a, b}`, unpack into `{a, b}`."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, (*BITS, *INTEGERS, "f16", "f16x2", "f32", "f64", "pred"))
    e.finish(s, mods)
    target, source = s.operands
    bits = width(kind)
    if isinstance(target, Vector):
        _unpack(e, target.elements, e.integer(source, bits), bits)
    elif isinstance(source, Vector):
        e.set(target, _pack(e, source.elements, bits), f"b{bits}")
    elif isinstance(source, Symbol) and source.name != "WARP_SZ":
        e.set(target, e.address_of(s, source, bits), f"b{bits}")
    else:
        value = e.value(source, kind)
        e.set(target, value, kind)


def _unpack(e: Emitter, targets: tuple[Operand, ...], value: str, bits: int) -> None:
    part = bits // len(targets)
    for index, target in enumerate(targets):
        shifted = e.op(f"lshr i{bits} {value}, {index * part}") if index else value
        e.set(target, e.resize(shifted, bits, part), f"b{part}")


def _pack(e: Emitter, sources: tuple[Operand, ...], bits: int) -> str:
    part = bits // len(sources)
    total = ""
    for index, source in enumerate(sources):
        word = e.resize(e.integer(source, part), part, bits)
        moved = e.op(f"shl i{bits} {word}, {index * part}") if index else word
        total = e.op(f"or i{bits} {total}, {moved}") if total else moved
    return total


def convert(e: Emitter, s: Statement) -> None:
    """cvt between integers, f16, f32, f64, and f16x2 to and from e4m3x2."""
    mods = e.modifiers(s)
    kinds = tuple(mods.types())
    if "e4m3x2" in kinds:
        _convert_e4m3(e, s)
    elif kinds == ("f16x2", "f32"):
        _pack_halves(e, s, mods)
    elif len(kinds) != 2 or not set(kinds) <= {*_FLOATS, *_WHOLE}:
        raise e.refuse(s, " ".join(f".{kind}" for kind in kinds))
    elif not is_float(kinds[0]) and not is_float(kinds[1]):
        _between_integers(e, s, mods, kinds)
    elif not is_float(kinds[0]):
        _to_integer(e, s, mods, kinds)
    elif not is_float(kinds[1]):
        _from_integer(e, s, mods, kinds)
    else:
        _between_floats(e, s, mods, kinds)


def _between_integers(e: Emitter, s: Statement, mods: Modifiers, kinds: tuple[str, ...]) -> None:
    to, source = kinds
    sat = mods.flag("sat")
    e.finish(s, mods)
    target, operand = s.operands
    value, signed = e.value(operand, source), is_signed(source)
    bits = width(source)
    if sat:
        (low, high), (least, most) = _bounds(source), _bounds(to)
        for name, limit, needed in (("max", least, least > low), ("min", most, most < high)):
            if needed:
                call = f"llvm.{'s' if signed else 'u'}{name}.i{bits}"
                value = e.call(f"i{bits}", call, (f"i{bits}", value), (f"i{bits}", str(limit)))
    e.set(target, e.resize(value, bits, width(to), signed=signed), to)


def _bounds(kind: str) -> tuple[int, int]:
    bits = width(kind)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(kind) else (0, (1 << bits) - 1)


def _to_integer(e: Emitter, s: Statement, mods: Modifiers, kinds: tuple[str, ...]) -> None:
    """Always clamps to the result's range. NaN gives 0, or the top bit alone where f64 or 64 bits are involved."""
    to, source = kinds
    rounding, ftz = mods.take(*_INTEGER_ROUNDING), mods.flag("ftz")
    mods.flag("sat")
    e.finish(s, mods)
    if not rounding or (ftz and source != "f32"):
        raise e.refuse(s, "rounding" if not rounding else f".ftz of .{source}")
    target, operand = s.operands
    have, want, bits = llvm_type(source), llvm_type(to), width(to)
    value = floating.flushed(e, e.value(operand, source), source, ftz, always=True)
    rounded = e.call(have, f"llvm.{_INTEGER_ROUNDING[rounding]}.{source}", (have, value))
    name = f"llvm.fpto{'s' if is_signed(to) else 'u'}i.sat.{want}.{source}"
    result = e.call(want, name, (have, rounded))
    if source == "f64" or bits == 64:
        nan = e.op(f"fcmp uno {have} {value}, {value}")
        result = e.op(f"select i1 {nan}, {want} {-(1 << (bits - 1))}, {want} {result}")
    e.set(target, result, to)


def _from_integer(e: Emitter, s: Statement, mods: Modifiers, kinds: tuple[str, ...]) -> None:
    to, source = kinds
    mods.flag("rn")
    sat, ftz = mods.flag("sat"), mods.flag("ftz")
    e.finish(s, mods)
    if (ftz and to != "f32") or (sat and to == "f64"):
        raise e.refuse(s, f"flags of .{to}")
    target, operand = s.operands
    how = "sitofp" if is_signed(source) else "uitofp"
    value = e.op(f"{how} {llvm_type(source)} {e.value(operand, source)} to {llvm_type(to)}")
    e.set(target, floating.saturated(e, value, to, sat), to)


def _between_floats(e: Emitter, s: Statement, mods: Modifiers, kinds: tuple[str, ...]) -> None:
    to, source = kinds
    ftz, sat = mods.flag("ftz"), mods.flag("sat")
    narrowing = kinds == ("f16", "f32")
    relu, satfinite = narrowing and mods.flag("relu"), narrowing and mods.flag("satfinite")
    toward_zero = narrowing and mods.flag("rz")
    integral = mods.take(*_INTEGER_ROUNDING) if to == source else ""
    if to != source and not toward_zero:
        mods.flag("rn")
    e.finish(s, mods)
    if satfinite and (ftz or sat):
        raise e.refuse(s, ".satfinite with .ftz or .sat")
    if (ftz and "f32" not in kinds) or (sat and to == "f64"):
        raise e.refuse(s, f"flags of .{to}")
    target, operand = s.operands
    have, want = llvm_type(source), llvm_type(to)
    value = floating.flushed(e, e.value(operand, source), source, ftz and source == "f32", always=True)
    if integral:
        value = e.call(have, f"llvm.{_INTEGER_ROUNDING[integral]}.{source}", (have, value))
    if satfinite:
        value = _bounded(e, value)
    if toward_zero:
        value = e.op(f"extractelement <2 x half> {_toward_zero(e, value, '0.0')}, i32 0")
    elif have != want:
        value = e.op(f"{'fptrunc' if width(source) > width(to) else 'fpext'} {have} {value} to {want}")
        value = floating.flushed(e, value, to, ftz and kinds == ("f32", "f64"), always=True)
    e.set(target, floating.rectified(e, floating.saturated(e, value, to, sat), to, relu), to)


def _pack_halves(e: Emitter, s: Statement, mods: Modifiers) -> None:
    """cvt.{rn rz}{.relu}{.satfinite}.f16x2.f32: the first source is the high half."""
    rounding, relu, satfinite = mods.take("rn", "rz"), mods.flag("relu"), mods.flag("satfinite")
    e.finish(s, mods)
    if not rounding:
        raise e.refuse(s, "only .rn and .rz")
    target, *sources = s.operands
    high, low = (_bounded(e, value) if satfinite else value for value in (e.value(part, "f32") for part in sources))
    if rounding == "rz":
        pair = _toward_zero(e, low, high)
    else:
        halves = [e.op(f"fptrunc float {value} to half") for value in (low, high)]
        pair = e.op(f"insertelement <2 x half> poison, half {halves[0]}, i32 0")
        pair = e.op(f"insertelement <2 x half> {pair}, half {halves[1]}, i32 1")
    e.set(target, floating.rectified(e, pair, "f16x2", relu), "f16x2")


def _bounded(e: Emitter, value: str) -> str:
    """`.satfinite` of f16: an f32 kept within the finite halves, of which the greatest is 65504; NaN stays."""
    low = e.call("float", "llvm.minimum.f32", ("float", value), ("float", "65504.0"))
    return e.call("float", "llvm.maximum.f32", ("float", low), ("float", "-65504.0"))


def _toward_zero(e: Emitter, low: str, high: str) -> str:
    """Two f32 as halves, rounded toward zero: v_cvt_pkrtz_f16_f32."""
    return e.call("<2 x half>", "llvm.amdgcn.cvt.pkrtz", ("float", low), ("float", high))


def _convert_e4m3(e: Emitter, s: Statement) -> None:
    mods = e.modifiers(s)
    kinds = mods.types()
    rounding, saturating, relu = mods.flag("rn"), mods.flag("satfinite"), mods.flag("relu")
    e.finish(s, mods)
    target, *sources = s.operands
    if kinds == ["e4m3x2", "f16x2"] and rounding and saturating:
        name = f"zrt_cvt_{'relu_' if relu else ''}e4m3x2_f16x2"
        e.set(target, e.call("i16", name, ("i32", e.integer(sources[0], 32))), "b16")
    elif kinds == ["f16x2", "e4m3x2"] and rounding and not relu:
        e.set(target, e.call("i32", "zrt_cvt_f16x2_e4m3x2", ("i16", e.integer(sources[0], 16))), "b32")
    else:
        raise e.refuse(s, "this e4m3x2 form")


def address_conversion(e: Emitter, s: Statement) -> None:
    """cvta: generic and global addresses are the same here. Shared memory and parameters have no generic ones."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("u64",))
    mods.flag("to")
    space = mods.take("global", "const")
    e.finish(s, mods)
    if not space:
        raise e.refuse(s, "space")
    target, source = s.operands
    if isinstance(source, Symbol):
        e.set(target, e.address_of(s, source, width(kind)), kind)
    else:
        e.set(target, e.integer(source, width(kind)), kind)


HANDLERS: Mapping[str, Handler] = {
    "mov": move,
    "cvt": convert,
    "cvta": address_conversion,
}
