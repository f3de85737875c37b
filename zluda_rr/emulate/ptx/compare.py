"""setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from zluda_rr.emulate.ptx.compiler import Compiler, Op, Reader, Writer
from zluda_rr.emulate.ptx.half import flush_half
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import BITS, DTYPES, FLOATS, INTEGERS, Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.numerics import f16
from zluda_rr.numerics.f16 import flush
from zluda_rr.ptx import Negated, Operand, Pair, Statement

Comparison = Callable[[Array, Array], Mask]

_ORDERED: Mapping[str, Comparison] = MappingProxyType(
    {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
)
_UNSIGNED = MappingProxyType({"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"})
_BOOLEAN: Mapping[str, Callable[[Mask, Mask], Mask]] = MappingProxyType(
    {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
)


def _unordered(a: Array, b: Array) -> Mask:
    return np.isnan(a) | np.isnan(b)


def comparison(spec: Spec, name: str) -> Comparison:
    """The comparison that the flags name, on arrays of `DTYPES[name]`; f16x2 compares 64 halves a row."""
    operators = [flag for flag in spec.flags if _is_operator(flag)]
    if len(operators) != 1:
        raise Unsupported("one comparison operator is expected")
    (operator,) = operators
    if name not in FLOATS:
        if "ftz" in spec.flags:
            raise Unsupported(f".ftz comparison of .{name}")
        if operator in _UNSIGNED and name[0] == "s":
            raise Unsupported(f".{operator} of .{name}")
        plain = _UNSIGNED.get(operator, operator)
        if plain not in _ORDERED or (name in BITS | {"pred"} and plain not in ("eq", "ne")):
            raise Unsupported(f".{operator} of .{name}")
        return _ORDERED[plain]
    floats = _float_comparison(operator)
    if name in ("f16", "f16x2"):
        before = flush_half if "ftz" in spec.flags else _same
        return lambda a, b: floats(
            f16.half_to_float(before(a.view(np.uint16))), f16.half_to_float(before(b.view(np.uint16)))
        )
    if "ftz" in spec.flags:
        if name != "f32":
            raise Unsupported(f".ftz comparison of .{name}")
        return lambda a, b: floats(flush(a), flush(b))
    return floats


def _same(a: Array) -> Array:
    return a


def _is_operator(flag: str) -> bool:
    return flag in _ORDERED or flag in _UNSIGNED or flag in ("num", "nan") or flag.removesuffix("u") in _ORDERED


def _float_comparison(operator: str) -> Comparison:
    if operator == "nan":
        return _unordered
    if operator == "num":
        return lambda a, b: ~_unordered(a, b)
    if operator.endswith("u"):
        ordered = _ORDERED[operator[:-1]]
        return lambda a, b: ordered(a, b) | _unordered(a, b)
    if operator == "ne":  # ordered, unlike numpy's
        return lambda a, b: (a != b) & ~_unordered(a, b)
    if operator not in _ORDERED:
        raise Unsupported(f".{operator} of floats")
    return _ORDERED[operator]


def _predicate(compiler: Compiler, operand: Operand) -> Reader:
    if isinstance(operand, Negated):
        inner = compiler.reader(operand.operand, "pred")
        return lambda r: ~inner(r)
    return compiler.reader(operand, "pred")


def _allowed(spec: Spec) -> None:
    for flag in spec.flags:
        if not (_is_operator(flag) or flag in _BOOLEAN or flag == "ftz"):
            raise Unsupported(f".{flag} has no semantics here")


def set_predicate(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """setp: p = cmp [op c], q = !cmp [op c]; for f16x2, p is the low half's result and q the high one's."""
    _allowed(spec)
    name = spec.type
    destination, left, right, *rest = statement.operands
    first, second = (destination.first, destination.second) if isinstance(destination, Pair) else (destination, None)
    write_p = compiler.writer(first, "pred")
    write_q = compiler.writer(second, "pred") if second is not None else None
    combine = next((_BOOLEAN[flag] for flag in spec.flags if flag in _BOOLEAN), None)
    if (combine is None) != (not rest):
        raise Unsupported("operand count")
    extra = _predicate(compiler, rest[0]) if rest else None
    a, b = compiler.reader(left, name), compiler.reader(right, name)
    return _set_predicate_op(comparison(spec, name), (a, b, extra), combine, (write_p, write_q), name == "f16x2")


def _set_predicate_op(
    compare: Comparison,
    reads: tuple[Reader, Reader, Reader | None],
    combine: Callable[[Mask, Mask], Mask] | None,
    writes: tuple[Writer, Writer | None],
    halves: bool,
) -> Op:
    a, b, extra = reads
    write_p, write_q = writes

    def execute(machine: Machine, mask: Mask | None) -> None:
        result = compare(a(machine.r), b(machine.r))
        p, q = (result[:, 0::2], result[:, 1::2]) if halves else (result, ~result)
        if combine is not None and extra is not None:
            third = extra(machine.r)
            p, q = combine(p, third), combine(q, third)
        write_p(machine, p, mask)
        if write_q is not None:
            write_q(machine, q, mask)

    return execute


def set_value(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """set: the comparison as all ones (integers) or 1.0 (floats)."""
    _allowed(spec)
    result, source = spec.types
    destination, left, right, *rest = statement.operands
    combine = next((_BOOLEAN[flag] for flag in spec.flags if flag in _BOOLEAN), None)
    if (combine is None) != (not rest) or (source == "f16x2") != (result == "f16x2"):
        raise Unsupported("this form of set")
    write = compiler.writer(destination, result)
    a, b = compiler.reader(left, source), compiler.reader(right, source)
    extra = _predicate(compiler, rest[0]) if rest else None
    compare = comparison(spec, source)
    dtype = np.dtype(np.uint16) if result in ("f16", "f16x2") else DTYPES[result]
    true = np.array(0x3C00 if dtype == np.uint16 and result in FLOATS else 1 if result in FLOATS else -1).astype(dtype)

    def execute(machine: Machine, mask: Mask | None) -> None:
        outcome = compare(a(machine.r), b(machine.r))
        if combine is not None and extra is not None:
            third = extra(machine.r)
            outcome = combine(outcome, np.repeat(third, 2, axis=1) if result == "f16x2" else third)
        write(machine, np.where(outcome, true, dtype.type(0)).view(DTYPES[result]), mask)

    return execute


def select(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """selp: a where the predicate holds, else b."""
    spec.allow((), INTEGERS | BITS | FLOATS)
    destination, left, right, condition = statement.operands
    name = spec.type
    write = compiler.writer(destination, name)
    a, b, c = compiler.reader(left, name), compiler.reader(right, name), _predicate(compiler, condition)

    def execute(machine: Machine, mask: Mask | None) -> None:
        r = machine.r
        write(machine, np.where(c(r), a(r), b(r)), mask)

    return execute


def select_by_sign(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """slct: a where c >= 0 (-0 included), else b."""
    spec.allow(("ftz",))
    name, test = spec.types
    destination, left, right, condition = statement.operands
    write = compiler.writer(destination, name)
    a, b, c = (compiler.reader(left, name), compiler.reader(right, name), compiler.reader(condition, test))
    ftz = "ftz" in spec.flags
    if ftz and test != "f32":
        raise Unsupported(f".ftz with .{test}")

    def execute(machine: Machine, mask: Mask | None) -> None:
        r = machine.r
        chosen = flush(c(r)) if ftz else c(r)
        write(machine, np.where(chosen >= 0, a(r), b(r)), mask)

    return execute


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {"setp": set_predicate, "set": set_value, "selp": select, "slct": select_by_sign}
)
