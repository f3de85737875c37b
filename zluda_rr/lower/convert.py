"""Moves, comparisons, selections and conversions."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower import floating
from zluda_rr.lower.emitter import Emitter, pair_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import is_float, is_signed, llvm_type, width
from zluda_rr.ptx import Operand, Statement, Symbol, Vector

_INTEGER_ROUNDING = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_SUFFIX = {"f16": "f16", "f32": "f32", "f64": "f64"}
_UNSIGNED_NAMES = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


def move(e: Emitter, s: Statement) -> None:
    """mov: copy, address of a variable, pack `{a, b}`, unpack into `{a, b}`."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    target, source = s.operands
    bits = width(kind)
    if isinstance(target, Vector):
        _unpack(e, target.elements, e.integer(source, bits), bits)
    elif isinstance(source, Vector):
        e.set(target, _pack(e, source.elements, bits), f"b{bits}")
    elif isinstance(source, Symbol) and source.name != "WARP_SZ":
        e.set(target, address_of(e, s, source, bits), f"b{bits}")
    else:
        e.set(target, e.integer(source, bits), "pred" if bits == 1 else f"b{bits}")


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


def address_of(e: Emitter, s: Statement, symbol: Symbol, bits: int) -> str:
    """Address of a shared variable (LDS offset) or a kernel parameter, plus the symbol's offset."""
    name = symbol.name
    if name in e.body.variables and e.body.variables[name].space == "shared":
        base = e.op(f'ptrtoint ptr addrspace(3) @"{name}" to i32')
        value = e.resize(base, 32, bits)
    elif any(param.name == name for param in e.body.function.params):
        value = e.resize(e.op(f'ptrtoint ptr addrspace(4) %"{name}" to i64'), 64, bits)
    else:
        raise e.refuse(s, f"address of {name}")
    return e.op(f"add i{bits} {value}, {symbol.offset}") if symbol.offset else value


def set_predicate(e: Emitter, s: Statement) -> None:
    """setp, with a second result (the complement) and a combining predicate where written."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    ftz = mods.flag("ftz")
    combine = mods.take("and", "or", "xor")
    relation = mods.left.removeprefix(".")
    target, left, right, *third = s.operands
    if is_float(kind) and kind != "f16x2" and floating.is_relation(relation):
        result = floating.compare(e, left, right, relation, kind, ftz)
    elif not is_float(kind) and relation in ("eq", "ne", "lt", "le", "gt", "ge", *_UNSIGNED_NAMES):
        prefix = "" if relation in ("eq", "ne") else "s" if is_signed(kind) else "u"
        condition = _UNSIGNED_NAMES.get(relation, prefix + relation)
        result = e.op(f"icmp {condition} i{width(kind)} {e.value(left, kind)}, {e.value(right, kind)}")
    else:
        raise e.refuse(s, f".{relation}.{kind}")
    first, second = pair_elements(target)
    complement = e.op(f"xor i1 {result}, true") if second is not None else ""
    if combine:
        result = e.op(f"{combine} i1 {result}, {e.integer(third[0], 1)}")
        complement = e.op(f"{combine} i1 {complement}, {e.integer(third[0], 1)}") if second is not None else ""
    e.set(first, result, "pred")
    if second is not None:
        e.set(second, complement, "pred")


def select(e: Emitter, s: Statement) -> None:
    """selp."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    target, yes, no, predicate = s.operands
    bits = width(kind)
    condition = e.integer(predicate, 1)
    chosen = e.op(f"select i1 {condition}, i{bits} {e.integer(yes, bits)}, i{bits} {e.integer(no, bits)}")
    e.set(target, chosen, f"b{bits}")


def convert(e: Emitter, s: Statement) -> None:
    """cvt between integers, f16, f32, f64, and f16x2 to and from e4m3x2."""
    mods = e.modifiers(s)
    kinds = mods.types()
    target, *sources = s.operands
    if "e4m3x2" in kinds:
        _convert_e4m3(e, s)
        return
    ftz, rounding = mods.flag("ftz"), mods.take("rn", *_INTEGER_ROUNDING)
    e.finish(s, mods)
    to, source = kinds
    if to == "f16x2" and source == "f32":
        high, low = (e.op(f"fptrunc float {e.value(part, 'f32')} to half") for part in sources)
        pair = e.op(f"insertelement <2 x half> poison, half {low}, i32 0")
        e.set(target, e.op(f"insertelement <2 x half> {pair}, half {high}, i32 1"), "f16x2")
        return
    for kind in kinds:
        if is_float(kind) and kind not in _SUFFIX:
            raise e.refuse(s, f".{kind}")
    value = floating.flushed(e, e.value(sources[0], source), source, ftz)
    e.set(target, floating.flushed(e, _converted(e, value, source, to, rounding), to, ftz), to)


def _converted(e: Emitter, value: str, source: str, to: str, rounding: str) -> str:
    have, want = llvm_type(source), llvm_type(to)
    if is_float(source) and rounding in _INTEGER_ROUNDING:
        value = e.call(have, f"llvm.{_INTEGER_ROUNDING[rounding]}.{_SUFFIX[source]}", (have, value))
    if is_float(source) and is_float(to):
        if have == want:
            return value
        return e.op(f"{'fptrunc' if width(source) > width(to) else 'fpext'} {have} {value} to {want}")
    if is_float(source):
        name = f"llvm.fpto{'s' if is_signed(to) else 'u'}i.sat.{want}.{_SUFFIX[source]}"
        return e.call(want, name, (have, value))
    if is_float(to):
        return e.op(f"{'sitofp' if is_signed(source) else 'uitofp'} {have} {value} to {want}")
    return e.resize(value, width(source), width(to), signed=is_signed(source))


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
    """cvta: generic and global addresses are the same here, and shared ones are LDS offsets."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    back = mods.flag("to")
    space = mods.take("global", "param", "const", "shared", "shared::cta")
    e.finish(s, mods)
    if not space:
        raise e.refuse(s, "space")
    if space.startswith("shared") and not back:
        raise e.refuse(s, "generic addresses of shared memory")
    target, source = s.operands
    if isinstance(source, Symbol):
        e.set(target, address_of(e, s, source, width(kind)), kind)
    else:
        e.set(target, e.integer(source, width(kind)), kind)


HANDLERS: Mapping[str, Handler] = {
    "mov": move,
    "setp": set_predicate,
    "selp": select,
    "cvt": convert,
    "cvta": address_conversion,
}
