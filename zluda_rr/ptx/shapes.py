"""Instruction shapes: what all instructions of one spelling share, parsed by the grammar once.

The shape of `add.s32 %r1, %r2, 5;` is `add.s32 _, _, _`; its words are `%r1`, `%r2`, `5`. A shape knows how to build
the operands from words and, through the instruction table, which words are registers read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

from lark import Token, Tree

from . import isa
from .constants import NUMBER_START, immediate, integer
from .grammar import ChunkTree, parse_chunk
from .nodes import (
    Address,
    Coordinates,
    Group,
    Immediate,
    Negated,
    Negative,
    Operand,
    Pair,
    Register,
    Selected,
    Symbol,
    Vector,
)

Words = Sequence[str]
Names = Container[str]
Builder = Callable[[Words, Names], Operand]


@dataclass(frozen=True, slots=True, eq=False)
class InstructionShape:
    """`reads` and `writes` are word indices that may name registers; `numeric` those that must be integers, `bases`
    those that must be if they are numbers, `names` those that must not be numbers.

    `form` is None when the instruction table has no such instruction. `spelling` is opcode and modifiers, as written.
    """

    spelling: str
    opcode: str
    modifiers: tuple[str, ...]
    form: isa.Form | None
    builders: tuple[Builder, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    numeric: tuple[int, ...]
    bases: tuple[int, ...]
    names: tuple[int, ...]
    exacting: bool
    """Any of the three has something."""

    def fill(self, words: Words, registers: Names = ()) -> tuple[Operand, ...]:
        """The operands; a plain name that is in `registers` becomes a Register."""
        return tuple([build(words, registers) for build in self.builders])


def parse_shape(chunk: str) -> InstructionShape:
    """Run the grammar on one instruction. Raises ChunkError."""
    tree = parse_chunk("instruction", chunk)
    parts = [child for child in tree.children if not (isinstance(child, Tree) and child.data == "guard")]
    spelling = str(parts[0])
    opcode, *modifiers = spelling.split(".")
    slots = [_Slot.of(part) for part in parts[1:]]
    counter = iter(range(1_000_000))
    builders = tuple(_builder(slot, counter) for slot in slots)
    odd = any(slot.kind in ("selected", "negative") for part in slots for slot in part.walk())
    form = None if odd else isa.lookup(opcode, tuple(modifiers), len(slots))
    reads, writes = _directions(opcode, slots, form)
    numeric = tuple(slot.words[-1] for slot in slots for slot in slot.walk() if slot.kind in _OFFSET_KINDS)
    bases = tuple(slot.children[0].words[0] for slot in slots for slot in slot.walk() if slot.kind == "address")
    names = tuple(index for slot in slots for slot in slot.walk() for index in slot.named_words())
    exacting = bool(numeric or bases or names)
    return InstructionShape(
        spelling, opcode, tuple(modifiers), form, builders, reads, writes, numeric, bases, names, exacting
    )


_OFFSET_KINDS = ("address_offset", "symbol_offset")


@dataclass(slots=True, eq=False)
class _Slot:
    """One operand's structure; `words` are filled in textual order while the builders are made."""

    kind: str
    children: tuple[_Slot, ...]
    words: list[int]
    n_words: int
    selector: str = ""

    @staticmethod
    def of(part: Token | ChunkTree) -> _Slot:
        if isinstance(part, Token):
            return _Slot("atom", (), [], 1)
        children = tuple(_Slot.of(child) for child in part.children if isinstance(child, Tree))
        own = sum(
            isinstance(child, Token) and child.type not in ("NOT", "MINUS", "SELECTOR") for child in part.children
        )
        selector = next((str(t)[1:] for t in part.children if isinstance(t, Token) and t.type == "SELECTOR"), "")
        return _Slot(str(part.data), children, [], own, selector)

    def walk(self) -> Iterator[_Slot]:
        yield self
        for child in self.children:
            yield from child.walk()

    def named_words(self) -> list[int]:
        """Words that must be names or registers: with a number there the text means something else, or nothing."""
        if self.kind in ("negated", "negative", "selected"):
            return self.all_words()
        if self.kind == "symbol_offset":
            return self.words[:1]
        named = {"address_offset": 1, "coordinates": 1, "sampled_coordinates": 2}.get(self.kind, 0)
        return [index for child in self.children[:named] for index in child.all_words()]

    def all_words(self) -> list[int]:
        return [index for slot in self.walk() for index in slot.words]


def atom(word: str, registers: Names) -> Register | Immediate | Symbol:
    """A single word as operand."""
    first = word[0]
    if first == "%" or word in registers:
        return Register(word)
    return immediate(word) if first in NUMBER_START else Symbol(word)


def _base(word: str, registers: Names) -> Register | Symbol:
    return Register(word) if word[0] == "%" or word in registers else Symbol(word)


def _builder(slot: _Slot, counter: Iterator[int]) -> Builder:
    children = [_builder(child, counter) for child in slot.children]
    slot.words = [next(counter) for _ in range(slot.n_words)]
    return _MAKERS[slot.kind](slot, children)


def _make_atom(slot: _Slot, children: list[Builder]) -> Builder:
    (index,) = slot.words
    return lambda words, registers: atom(words[index], registers)


def _make_symbol_offset(slot: _Slot, children: list[Builder]) -> Builder:
    name, offset = slot.words
    return lambda words, registers: Symbol(words[name], integer(words[offset]))


def _make_pair(slot: _Slot, children: list[Builder]) -> Builder:
    first, second = children
    return lambda words, registers: Pair(first(words, registers), second(words, registers))


def _make_negated(slot: _Slot, children: list[Builder]) -> Builder:
    (inner,) = children
    return lambda words, registers: Negated(inner(words, registers))


def _make_negative(slot: _Slot, children: list[Builder]) -> Builder:
    (inner,) = children
    return lambda words, registers: Negative(inner(words, registers))


def _make_selected(slot: _Slot, children: list[Builder]) -> Builder:
    (index,) = slot.words
    return lambda words, registers: Selected(_base(words[index], registers), slot.selector)


def _make_vector(slot: _Slot, children: list[Builder]) -> Builder:
    return lambda words, registers: Vector(tuple([c(words, registers) for c in children]))


def _make_group(slot: _Slot, children: list[Builder]) -> Builder:
    return lambda words, registers: Group(tuple([c(words, registers) for c in children]))


def _make_address(slot: _Slot, children: list[Builder]) -> Builder:
    (index,) = slot.children[0].words

    def build(words: Words, registers: Names) -> Operand:
        word = words[index]
        if word[0] in NUMBER_START:
            return Address(None, integer(word))
        return Address(_base(word, registers), 0)

    return build


def _make_address_offset(slot: _Slot, children: list[Builder]) -> Builder:
    (base,) = slot.children[0].words
    (offset,) = slot.words
    return lambda words, registers: Address(_base(words[base], registers), integer(words[offset]))


def _make_coordinates(slot: _Slot, children: list[Builder]) -> Builder:
    (handle,) = slot.children[0].words
    elements = children[1:]
    return lambda words, registers: Coordinates(
        _base(words[handle], registers), tuple([e(words, registers) for e in elements])
    )


def _make_sampled_coordinates(slot: _Slot, children: list[Builder]) -> Builder:
    (handle,), (sampler,) = slot.children[0].words, slot.children[1].words
    elements = children[2:]
    return lambda words, registers: Coordinates(
        _base(words[handle], registers),
        tuple([e(words, registers) for e in elements]),
        _base(words[sampler], registers),
    )


_MAKERS: dict[str, Callable[[_Slot, list[Builder]], Builder]] = {
    "atom": _make_atom,
    "symbol_offset": _make_symbol_offset,
    "pair": _make_pair,
    "negated": _make_negated,
    "negative": _make_negative,
    "selected": _make_selected,
    "vector": _make_vector,
    "group": _make_group,
    "address": _make_address,
    "address_offset": _make_address_offset,
    "coordinates": _make_coordinates,
    "sampled_coordinates": _make_sampled_coordinates,
}


def _directions(opcode: str, slots: list[_Slot], form: isa.Form | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Word indices read and written. Without a form everything counts as read."""
    reads: list[int] = []
    writes: list[int] = []
    operands = form.operands if form else ()
    if opcode == "call":
        operands = isa.call_operands([slot.kind for slot in slots])
    for index, slot in enumerate(slots):
        operand = operands[index] if index < len(operands) else isa.READ_ANY
        written = operand.written and slot.kind in _VALUE_KINDS
        if written:
            writes += slot.all_words()
        if operand.read or not written:
            reads += slot.all_words()
    return tuple(reads), tuple(writes)


_VALUE_KINDS = ("atom", "pair", "vector", "group")
