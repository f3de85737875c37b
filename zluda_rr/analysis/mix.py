"""Static instruction mix of a kernel: statements by what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zluda_rr.ptx import Body, Statement

CLASSES = (
    "mma",
    "requantise",
    "f16 arithmetic",
    "f32 and transcendental",
    "conversion",
    "integer and address",
    "move and pack",
    "lane exchange",
    "load",
    "store and surface",
    "control",
)

_OPCODES = {
    "mma": "mma",
    "mov": "move and pack",
    "shfl": "lane exchange",
    "movmatrix": "lane exchange",
    "ld": "load",
    "ldu": "load",
    "tex": "load",
    "suld": "load",
    "st": "store and surface",
    "sust": "store and surface",
    "atom": "store and surface",
    "red": "store and surface",
    "bra": "control",
    "ret": "control",
    "exit": "control",
    "bar": "control",
    "barrier": "control",
    "call": "control",
}
_TRANSCENDENTAL = frozenset(("rcp", "rsqrt", "ex2", "div", "sqrt", "lg2", "sin", "cos", "tanh"))


def _class_of(statement: Statement) -> str:
    known = _OPCODES.get(statement.opcode)
    if known is not None:
        return known
    modifiers = statement.modifiers
    if statement.opcode == "cvt":
        return "requantise" if "e4m3x2" in modifiers else "conversion"
    if statement.opcode in _TRANSCENDENTAL or "f32" in modifiers or "f64" in modifiers:
        return "f32 and transcendental"
    if "f16" in modifiers or "f16x2" in modifiers:
        return "f16 arithmetic"
    return "integer and address"


def instruction_mix(body: Body) -> Mapping[str, int]:
    """Instructions of a body by class, in the order of `CLASSES`; labels do not count."""
    memo: dict[tuple[str, tuple[str, ...]], str] = {}
    counts: Counter[str] = Counter()
    for statement in body.statements:
        if statement.instruction is None:
            continue
        key = statement.opcode, statement.modifiers
        name = memo.get(key)
        if name is None:
            name = memo[key] = _class_of(statement)
        counts[name] += 1
    return {name: counts[name] for name in CLASSES if counts[name]}
