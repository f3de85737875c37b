"""What stands between the matrix products: the operations of every epilogue, and what is not recognised.

An operation is recognised by the expression of the value it makes (`formulas`), a load by the operand it feeds, a
store by the buffer it goes to and the value it stores. Everything an operation is computed from belongs to it.
Statements that belong to none are listed as uncharacterised; control flow belongs to what it guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zluda_rr.ptx import Body

from .markers import CONTROL, OPERANDS, Key, Markers
from .operands import Row
from .origins import Origins
from .values import Values

_RANK = (
    "shared tile loads",
    "input norm",
    "score-bias loads",
    "cubic-exponent softmax",
    "V transpose",
    "RMS norm with gain",
    "clamped-cubic activation",
    "residual add",
    "per-column table add",
    "relu-pack",
    "pack",
    "plane scatter",
    "lane merge",
    "weight loads",
    "pack of the norm",
    "row gather",
    "true softmax",
    "shared stencil",
    "texture stencil",
    "global stencil",
    "mixed stencil",
    "surface store",
)
"""The order in which an epilogue's operations are listed: that of seed 001 §2.4. Compilers move independent statements;
this order stays.
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """`kind` as the layers' documents name it, `detail` what it acts on.

    `statements` counts what belongs to it; `first` and `last` span the statements that make its results.
    """

    kind: str
    detail: str
    first: int
    last: int
    statements: int

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The statements from the last mma of phase `index` to the first of the next one; index 0 is the prologue.

    `uncharacterised` are ranges of statements that belong to no recognised operation.
    """

    index: int
    first: int
    last: int
    operations: tuple[Operation, ...]
    uncharacterised: tuple[tuple[int, int], ...]

    @property
    def statements(self) -> int:
        """Statements in it, mma not counted."""
        return max(0, self.last - self.first + 1)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of its operations in listing order, each once."""
        return tuple(dict.fromkeys(operation.kind for operation in self.operations))


@dataclass(slots=True)
class _Found:
    keyed: list[int] = field(default_factory=list)
    count: int = 0


def find_epilogues(body: Body, values: Values, origins: Origins, rows: Sequence[Row]) -> tuple[Epilogue, ...]:
    """Prologue and epilogues of a kernel whose phases are `rows`, in program order."""
    placed = sorted((row for row in rows if row.phase.mmas), key=lambda row: row.phase.first)
    keys = Markers(body, values, origins, placed).keys()
    owners = _owners(body, values, keys, placed)
    regions = _regions(body, placed)
    return tuple(_epilogue(body, index, first, last, keys, owners) for index, first, last in regions)


def _regions(body: Body, rows: Sequence[Row]) -> list[tuple[int, int, int]]:
    """(index, first, last): statements before the first mma, then after each phase up to the next."""
    starts = [(0, 1)]
    ends = []
    for row in rows:
        ends.append(row.phase.first - 1)
        starts.append((row.phase.index, row.phase.last + 1))
    ends.append(len(body.statements))
    return [(index, first, max(last, first - 1)) for (index, first), last in zip(starts, ends, strict=True)]


def _owners(body: Body, values: Values, keys: dict[int, Key], rows: Sequence[Row]) -> dict[int, Key]:
    """The operation of every statement: its own, else that of the earliest statement that needs it."""
    owners = dict(keys)
    known = {mma.statement for row in rows if row.phase.problem is None for mma in row.phase.mmas}
    for statement in reversed(body.statements):
        number = statement.number
        owner = OPERANDS if number in known or statement.opcode in CONTROL else owners.get(number)
        if owner is None or statement.instruction is None:
            continue
        for register in statement.uses:
            for definition in values.reaching(number, register):
                source = body[definition]
                # Of an mma's operands only constants: whatever else makes them must be an operation of its own.
                if definition not in keys and source.opcode != "mma" and not (number in known and source.uses):
                    owners[definition] = owner
    return owners


def _epilogue(body: Body, index: int, first: int, last: int, keys: dict[int, Key], owners: dict[int, Key]) -> Epilogue:
    found: dict[Key, _Found] = {}
    loose: list[int] = []
    for number in range(first, last + 1):
        statement = body[number]
        key, owner = keys.get(number), owners.get(number)
        if key is not None and key.kind:
            found.setdefault(key, _Found()).keyed.append(number)
        if owner is not None:
            if owner.kind:
                found.setdefault(owner, _Found()).count += 1
        elif statement.instruction is not None and statement.opcode not in (*CONTROL, "mma"):
            loose.append(number)
    operations = [
        Operation(key.kind, key.detail, min(hit.keyed), max(hit.keyed), hit.count)
        for key, hit in found.items()
        if hit.keyed
    ]
    operations.sort(key=lambda o: (_RANK.index(o.kind) if o.kind in _RANK else len(_RANK), o.first))
    return Epilogue(index, first, last, tuple(operations), _ranges(loose))


def _ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)
