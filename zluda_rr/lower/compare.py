"""Comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower import floating
from zluda_rr.lower.emitter import Emitter, pair_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.modifiers import Modifiers
from zluda_rr.lower.scalar import BITS, INTEGERS, is_signed, width
from zluda_rr.ptx import Operand, Statement

_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNSIGNED_NAMES = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_FLOATS = ("f16", "f16x2", "f32", "f64")
_SELECTABLE = (*BITS, *INTEGERS, "f16", "f32", "f64")


def _compared(e: Emitter, s: Statement, mods: Modifiers, kind: str, combine: str) -> tuple[list[str], str]:
    """The relation of operands 1 and 2, an i1 for each half of f16x2; and the combining predicate's value."""
    ftz = mods.flag("ftz")
    relation = mods.left.removeprefix(".")
    _, left, right, *third = s.operands
    if bool(combine) != bool(third):
        raise e.refuse(s, "number of operands")
    if kind in _FLOATS and floating.is_relation(relation) and not (ftz and kind == "f64"):
        result = floating.compare(e, left, right, relation, kind, ftz)
        halves = [e.op(f"extractelement <2 x i1> {result}, i32 {i}") for i in range(2)] if kind == "f16x2" else [result]
    elif kind in (*INTEGERS, *BITS) and not ftz and _fits(relation, kind):
        prefix = "" if relation in ("eq", "ne") else "s" if is_signed(kind) else "u"
        condition = _UNSIGNED_NAMES.get(relation, prefix + relation)
        halves = [e.op(f"icmp {condition} i{width(kind)} {e.value(left, kind)}, {e.value(right, kind)}")]
    else:
        raise e.refuse(s, f".{relation}.{kind}")
    return halves, e.integer(third[0], 1) if third else ""


def _fits(relation: str, kind: str) -> bool:
    """Whether integers of the kind have the relation: bits only equality, lo and the like only unsigned ones."""
    if kind in BITS:
        return relation in ("eq", "ne")
    return relation in _RELATIONS or (relation in _UNSIGNED_NAMES and not is_signed(kind))


def _joined(e: Emitter, value: str, combine: str, third: str) -> str:
    return e.op(f"{combine} i1 {value}, {third}") if combine else value


def set_predicate(e: Emitter, s: Statement) -> None:
    """setp: p|q are the result and its complement, or the results of the halves of f16x2, each combined with c."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, (*BITS, *INTEGERS, *_FLOATS))
    combine = mods.take("and", "or", "xor")
    results, third = _compared(e, s, mods, kind, combine)
    first, second = pair_elements(s.operands[0])
    if len(results) == 1 and second is not None:
        results.append(e.op(f"xor i1 {results[0]}, true"))
    for target, value in zip((first, second), results, strict=False):
        if target is not None:
            e.set(target, _joined(e, value, combine, third), "pred")


def set_value(e: Emitter, s: Statement) -> None:
    """set: the result as all ones (integers) or 1.0 (floats)."""
    mods = e.modifiers(s)
    kinds = mods.types()
    if len(kinds) != 2 or kinds[1] not in (*BITS, *INTEGERS, *_FLOATS):
        raise e.refuse(s, " ".join(f".{kind}" for kind in kinds))
    to, kind = kinds
    if to not in ("u16", "s16", "u32", "s32", "f16", "f16x2", "f32") or (to == "f16x2") != (kind == "f16x2"):
        raise e.refuse(s, f".{to}.{kind}")
    combine = mods.take("and", "or", "xor")
    results, third = _compared(e, s, mods, kind, combine)
    joined = [_joined(e, value, combine, third) for value in results]
    bits = 16 if to == "f16x2" else width(to)
    true = {"f16": 0x3C00, "f16x2": 0x3C00, "f32": 0x3F800000}.get(to, -1)
    words = [e.op(f"select i1 {value}, i{bits} {true}, i{bits} 0") for value in joined]
    e.set(s.operands[0], words[0] if len(words) == 1 else _pair(e, words), f"b{width(to)}")


def _pair(e: Emitter, words: list[str]) -> str:
    low, high = (e.resize(word, 16, 32) for word in words)
    return e.op(f"or i32 {low}, {e.op(f'shl i32 {high}, 16')}")


def select(e: Emitter, s: Statement) -> None:
    """selp."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, _SELECTABLE)
    e.finish(s, mods)
    target, yes, no, predicate = s.operands
    _choose(e, target, e.integer(predicate, 1), yes, no, kind)


def _choose(e: Emitter, target: Operand, condition: str, yes: Operand, no: Operand, kind: str) -> None:
    bits = width(kind)
    values = [e.integer_of(operand, kind) for operand in (yes, no)]
    chosen = e.op(f"select i1 {condition}, i{bits} {values[0]}, i{bits} {values[1]}")
    e.set(target, chosen, f"b{bits}")


def select_by_sign(e: Emitter, s: Statement) -> None:
    """slct: a where c >= 0 (-0 included, NaN not), else b."""
    mods = e.modifiers(s)
    kinds = mods.types()
    ftz = mods.flag("ftz")
    e.finish(s, mods)
    if len(kinds) != 2 or kinds[0] not in _SELECTABLE or kinds[1] not in ("s32", "f32") or (ftz and kinds[1] == "s32"):
        raise e.refuse(s, " ".join(f".{kind}" for kind in kinds))
    target, yes, no, test = s.operands
    if kinds[1] == "s32":
        condition = e.op(f"icmp sge i32 {e.value(test, 's32')}, 0")
    else:
        value = floating.flushed(e, e.value(test, "f32"), "f32", ftz)
        condition = e.op(f"fcmp oge float {value}, 0.0")
    _choose(e, target, condition, yes, no, kinds[0])


HANDLERS: Mapping[str, Handler] = {
    "setp": set_predicate,
    "set": set_value,
    "selp": select,
    "slct": select_by_sign,
}
