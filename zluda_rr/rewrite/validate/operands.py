"""Where an instruction's operands stand among its words: worked out once for each spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zluda_rr.ptx import (
    Address,
    Coordinates,
    Group,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Statement,
    Symbol,
    Vector,
    isa,
)

from .problem import NotShown

_MARK = 1 << 40


@dataclass(frozen=True, slots=True)
class Input:
    """A word that is read. `type` is the operand's type in the instruction table ("" where it has none)."""

    word: int
    negated: bool
    type: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Operands of one spelling, as word indices.

    `structure` spells vectors, addresses, negations and pairs; with `spelling` it is the identity of the operation.
    `address` is (base word, offset word or -1) of the operand that is an address.
    """

    spelling: str
    structure: str
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]
    address: tuple[int, int] | None
    groups: tuple[tuple[int, ...], ...]
    """Word indices of each operand, in order."""


def layout_of(statement: Statement) -> Layout:
    """The layout that all instructions with the statement's shape share."""
    assert statement.instruction is not None
    shape = statement.instruction.shape
    words = [f"%{i}" if not _is_integer(word) else str(_MARK + i) for i, word in enumerate(statement.words)]
    operands = shape.fill(words, ())
    forms = (
        isa.call_operands(["group" if isinstance(o, Group) else "" for o in operands])
        if shape.opcode == "call"
        else (() if shape.form is None else shape.form.operands)
    )
    written = set(shape.writes)
    inputs: list[Input] = []
    spelled: list[str] = []
    address: tuple[int, int] | None = None
    groups: list[tuple[int, ...]] = []
    for index, operand in enumerate(operands):
        kind = forms[index].type if index < len(forms) else ""
        text: list[str] = []
        found = tuple(_walk(operand, text, negated=False))
        spelled.append("".join(text))
        groups.append(tuple(word for word, _ in found))
        if isinstance(operand, Address) and address is None:
            address = found[0][0], found[1][0] if len(found) > 1 else -1
        inputs += [Input(word, neg, kind) for word, neg in found if word in shape.reads or word not in written]
    return Layout(shape.spelling, " ".join(spelled), tuple(inputs), tuple(shape.writes), address, tuple(groups))


def _is_integer(word: str) -> bool:
    return word[0] in "-0123456789" and "." not in word and word[:2].lower() not in ("0f", "0d")


def _walk(operand: Operand, text: list[str], *, negated: bool) -> Iterator[tuple[int, bool]]:
    match operand:
        case Register(name):
            text.append("r")
            yield int(name[1:]), negated
        case Immediate():
            text.append("r")
            yield operand.value - _MARK, negated
        case Symbol(name, offset):
            # Only a symbol with an offset is left a Symbol by the placeholders.
            text.append("s+")
            yield int(name[1:]), negated
            yield offset - _MARK, negated
        case Negated(inner):
            text.append("!")
            yield from _walk(inner, text, negated=not negated)
        case Address(base, offset):
            yield from _address(base, offset, text)
        case Pair(first, second):
            yield from _walk(first, text, negated=False)
            text.append("|")
            yield from _walk(second, text, negated=False)
        case Vector(elements) | Group(elements):
            text.append("{" if isinstance(operand, Vector) else "(")
            for element in elements:
                yield from _walk(element, text, negated=negated)
            text.append("}")
        case Coordinates():
            text.append("<")
            yield from _walk(operand.handle, text, negated=False)
            if operand.sampler is not None:
                text.append(",")
                yield from _walk(operand.sampler, text, negated=False)
            text.append(";")
            for element in operand.elements:
                yield from _walk(element, text, negated=False)
            text.append(">")
        case _:
            raise NotShown(f"an operand of a kind that is not understood: {type(operand).__name__}")


def _address(base: Register | Symbol | None, offset: int, text: list[str]) -> Iterator[tuple[int, bool]]:
    text.append("[")
    if isinstance(base, Register):
        yield int(base.name[1:]), False
        if offset:
            text.append("+")
            yield offset - _MARK, False
    else:
        yield offset - _MARK, False
    text.append("]")
