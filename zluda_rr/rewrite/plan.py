"""What a cut replaces: the region, the values that cross its border, and the calls that take its place.

A cut of one phase removes exactly the mma of that phase. Everything between the first and the last of them (the
*gap*) stays where it is, except statements that read an accumulator there; those are moved behind the calls when
that is proved harmless. The calls stand where the last mma stood, so every operand exists by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zluda_rr.analysis import Phase
from zluda_rr.contract import CutRule
from zluda_rr.ptx import Register, Statement, Vector

from .match import Kernel

OBLIGATIONS = (
    "single entry, single exit, no branch into or out of the cut",
    "every value defined inside and used after it is returned by the body, and nothing else is",
    "every value the body needs is defined before the cut on every path",
    "every load inside the cut reads what the contract names",
    "every store inside the cut is one the contract says the body performs",
    "the shared bytes lent to the body are dead over the cut",
    "the phases recovered from the PTX equal the contract's, row by row",
)


@dataclass(frozen=True, slots=True)
class Obligation:
    """One proof obligation: holds, fails, or None where an earlier failure left nothing to examine.

    `evidence` are statement numbers; `detail` says in one line what they show.
    """

    number: int
    holds: bool | None
    detail: str
    evidence: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What has to hold."""
        return OBLIGATIONS[self.number - 1]


@dataclass(frozen=True, slots=True)
class Output:
    """An accumulator the body returns: register, word (m, half, n) of its call, byte offset in that call's image."""

    register: str
    m: int
    half: int
    n: int
    offset: int
    live: bool  # read after the cut


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the body: argument registers in order ("" stands for the scratch address), and what it returns."""

    arguments: tuple[str, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class CutPlan:
    """A cut that may be applied. Statement numbers are the original's."""

    rule: CutRule
    phase: Phase
    region: tuple[int, ...]
    moved: tuple[int, ...]
    scratch: str
    calls: tuple[Call, ...]

    @property
    def first(self) -> int:
        """First statement of the region."""
        return self.region[0]

    @property
    def last(self) -> int:
        """Last statement of the region; the calls take its place."""
        return self.region[-1]


@dataclass(frozen=True, slots=True)
class Region:
    """A cut before its obligations are examined: `gap` are the other statements between first and last."""

    rule: CutRule
    phase: Phase
    members: tuple[int, ...]
    gap: tuple[int, ...]
    moved: tuple[int, ...]

    @property
    def first(self) -> int:
        """First statement of the region."""
        return self.members[0]

    @property
    def last(self) -> int:
        """Last statement of the region."""
        return self.members[-1]


def find_region(kernel: Kernel, rule: CutRule, phase: Phase) -> Region:
    """The mma of a phase, the gap between them, and the gap statements that depend on their results."""
    members = tuple(mma.statement for mma in phase.mmas)
    inside = set(members)
    gap = tuple(n for n in range(members[0], members[-1]) if n not in inside)
    tainted = set(inside)
    moved: list[int] = []
    for unit in _units(kernel, gap):
        statements = [kernel.body[n] for n in unit]
        if any(tainted.intersection(kernel.values.reaching(s.number, r)) for s in statements for r in s.uses):
            tainted.update(unit)
            moved += unit
    return Region(rule, phase, members, gap, tuple(moved))


def scopes_of(statement: Statement) -> set[str]:
    """The inner scopes whose registers a statement uses (`3` of `low@3`)."""
    return {name.partition("@")[2] for name in (*statement.defs, *statement.uses) if "@" in name}


def scope_of(statement: Statement) -> str | None:
    """The scope whose registers a statement uses (`3` of `low@3`): such statements can only move together."""
    names = (*statement.defs, *statement.uses)
    return next((name.partition("@")[2] for name in names if "@" in name), None)


def _units(kernel: Kernel, gap: Sequence[int]) -> list[list[int]]:
    """Gap statements, those of one scope taken together."""
    units: list[list[int]] = []
    previous: str | None = None
    for number in gap:
        scope = scope_of(kernel.body[number])
        if scope is not None and scope == previous:
            units[-1].append(number)
        else:
            units.append([number])
        previous = scope
    return units


def fragment_register(kernel: Kernel, number: int, operand: int, word: int) -> str:
    """Register of a fragment word as an mma writes it: operand 0 is D, 1 is A, 2 is B, 3 is C."""
    vector = kernel.body[number].operands[operand]
    element = vector.elements[word] if isinstance(vector, Vector) else vector
    assert isinstance(element, Register)
    return element.name


def same_value(kernel: Kernel, register: str, number: int, point: int) -> bool:
    """Does `register` hold at `point` what statement `number` read from it."""
    return kernel.values.reaching(number, register) == kernel.values.reaching(point, register)


def operand_registers(kernel: Kernel, region: Region) -> dict[tuple[str, int, int, int], str | None]:
    """Register that holds each fragment word at the calls; key (operand, tile, k step, word), None where none does."""
    found: dict[tuple[str, int, int, int], str | None] = {}
    for (m, n), chain in region.phase.chains.items():
        for step, mma in enumerate(chain):
            for operand, position, tile, words in (("a", 1, m, 4), ("b", 2, n, 2)):
                for word in range(words):
                    key = (operand, tile, step, word)
                    if found.get(key) is None:
                        name = fragment_register(kernel, mma.statement, position, word)
                        usable = "@" not in name and same_value(kernel, name, mma.statement, region.last)
                        found[key] = name if usable else None
    return found


def build_calls(kernel: Kernel, region: Region) -> tuple[Call, ...]:
    """The calls in row order. Arguments as the contract numbers them (rules: cut.argument)."""
    rule, phase = region.rule, region.phase
    registers = operand_registers(kernel, region)
    tiles = rule.rows // 16
    calls = []
    for first in range(0, phase.m_tiles, tiles):
        arguments: list[str] = []
        for argument in rule.arguments:
            arguments += _argument(argument.role, registers, range(first, first + tiles), phase)
        calls.append(Call(tuple(arguments), _outputs(kernel, region, range(first, first + tiles))))
    return tuple(calls)


def _argument(
    role: str, registers: dict[tuple[str, int, int, int], str | None], tiles: range, phase: Phase
) -> list[str]:
    if role == "a":
        return [registers["a", m, 0, i] or "" for m in tiles for i in range(4)]
    if role == "b":
        return [registers["b", n, 0, w] or "" for n in range(phase.n_tiles) for w in range(2)]
    return [""]


def _outputs(kernel: Kernel, region: Region, tiles: range) -> tuple[Output, ...]:
    image, phase = region.rule.result, region.phase
    outputs = []
    for m in tiles:
        for half in (0, 1):
            for n in range(phase.n_tiles):
                register = fragment_register(kernel, phase.chains[m, n][-1].statement, 0, half)
                live = bool(outside_readers(kernel, region, phase.chains[m, n][-1].statement, register))
                offset = image.m * (m - tiles[0]) + image.half * half + image.n * n
                outputs.append(Output(register, m, half, n, offset, live))
    return tuple(outputs)


def outside_readers(kernel: Kernel, region: Region, number: int, register: str) -> tuple[int, ...]:
    """Statements outside the region that may read the value an mma of the region gave a register."""
    inside = set(region.members)
    return tuple(n for n in kernel.uses.readers(number, register) if n not in inside)


def is_consumer(statement: Statement, kinds: Sequence[str]) -> bool:
    """May this gap statement read an accumulator: for "pack", conversions to e4m3."""
    return "pack" in kinds and statement.opcode == "cvt" and "e4m3x2" in statement.modifiers


_PURE = frozenset(
    (
        "mov",
        "cvt",
        "mma",
        "movmatrix",
        "shfl",
        "prmt",
        "selp",
        "setp",
        "slct",
        "add",
        "sub",
        "mul",
        "mad",
        "fma",
        "neg",
        "abs",
        "min",
        "max",
        "rcp",
        "rsqrt",
        "sqrt",
        "ex2",
        "lg2",
        "div",
        "tanh",
        "and",
        "or",
        "xor",
        "not",
        "shl",
        "shr",
        "bfe",
        "bfi",
        "lop3",
        "shf",
        "popc",
        "clz",
        "brev",
        "cvta",
    )
)


def is_pure(statement: Statement) -> bool:
    """A known, unconditional instruction that only computes registers from registers."""
    return statement.guard is None and only_computes(statement)


def only_computes(statement: Statement) -> bool:
    """A known instruction that computes registers from registers, where its predicate lets it."""
    return statement.known and statement.opcode in _PURE
