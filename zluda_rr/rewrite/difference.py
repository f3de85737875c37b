"""`diff`: what changed between two modules of the same layers, in terms of phases and contracts.

Both sides are recovered without a rule, so that a module no rule knows can be compared. Phases are aligned by shape
and kinds of operands; numbers of earlier phases (D3, P15) are translated before comparing, so that one inserted phase
is one change and not fifty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from zluda_rr.analysis import Atom, Epilogue, Row, Shared, Source

from .entry_report import EntryReport, ModuleReport
from .match import Kernel
from .report import Json, clip, weight_spans

SCHEMA = "zluda-rr.diff/1"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    `place` is "phase", "epilogue" or a part of the entry's outside ("parameters", "weight image", …); `first` and
    `second` are the phase's numbers in both modules, None where it exists in one only. `a` and `b` are the values of
    `field`.
    """

    place: str
    first: int | None
    second: int | None
    field: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """Changes of one entry; `only_in` is "a" or "b" where the other module does not have it."""

    entry: str
    only_in: str | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes between two modules."""

    a: str
    b: str
    entries: tuple[EntryDifference, ...]

    @property
    def equal(self) -> bool:
        """No change in phases and contracts."""
        return not any(entry.only_in or entry.changes for entry in self.entries)


def compare_modules(a: ModuleReport, b: ModuleReport) -> Difference:
    """Compare entry by entry; where each module has one entry, names may differ. PtxError: one is not understood."""
    for refused in (*a.refused, *b.refused):
        raise refused.error
    first = {entry.function.name: entry for entry in a.entries}
    second = {entry.function.name: entry for entry in b.entries}
    if len(first) == len(second) == 1 and first.keys() != second.keys():
        (one,), (other,) = first.values(), second.values()
        renamed = Change("entry", None, None, "name", one.function.name, other.function.name)
        return Difference(a.filename, b.filename, (_compared(one, other, (renamed,)),))
    entries = [
        _compared(entry, second[name], ()) if name in second else EntryDifference(name, "a", ())
        for name, entry in first.items()
    ]
    entries += [EntryDifference(name, "b", ()) for name in second if name not in first]
    return Difference(a.filename, b.filename, tuple(entries))


def _compared(a: EntryReport, b: EntryReport, before: tuple[Change, ...]) -> EntryDifference:
    changes = [*before, *_outside(a, b), *_phases(a, b)]
    return EntryDifference(a.function.name, None, tuple(changes))


# ---------------------------------------------------------------------------------------------------------- the outside


def _outside(a: EntryReport, b: EntryReport) -> Iterator[Change]:
    sides = [_facts(a), _facts(b)]
    for place, field in sides[0]:
        first, second = (side[place, field] for side in sides)
        if first != second:
            yield Change(place, None, None, field, first, second)


def _facts(entry: EntryReport) -> Mapping[tuple[str, str], str]:
    shared = sorted(v.nbytes or 0 for v in entry.kernel.body.variables.values() if v.space == "shared")
    return {
        ("parameters", "bytes"): str(sum(parameter.nbytes for parameter in entry.function.params)),
        ("parameters", "read at"): ", ".join(f"+{at}" for at in sorted(_parameters(entry.kernel))),
        ("shared memory", "arrays"): ", ".join(f"{size} bytes" for size in shared) or "none",
        ("phases", "mma"): str(len(entry.kernel.mmas)),
        ("weight image", "read"): _extents(entry.found),
    }


def _parameters(kernel: Kernel) -> set[int]:
    """Offsets of the parameter block that are read, in units of what is loaded."""
    found: set[int] = set()
    for statement in kernel.body.statements:
        if statement.opcode != "ld" or "param" not in statement.modifiers:
            continue
        access = kernel.values.access(statement)
        if access is not None and access.root == Atom("block", "param") and access.exact:
            found.add(access.offset.signed()[0])
    return found


def _extents(rows: Iterable[Row]) -> str:
    spans = [(span.first, span.end) for row in rows for span in weight_spans(row)]
    return f"{min(s for s, _ in spans)}..{max(e for _, e in spans)} by phases" if spans else "nothing"


# --------------------------------------------------------------------------------------------------------------- phases


def _phases(a: EntryReport, b: EntryReport) -> Iterator[Change]:
    pairs = list(_aligned(a.found, b.found))
    renumbered = {one.phase.index: other.phase.index for one, other in pairs if one is not None and other is not None}
    epilogues = [{e.index: e for e in side.epilogues} for side in (a, b)]
    yield from _epilogue_changes(0, 0, epilogues[0][0], epilogues[1][0], renumbered)
    for one, other in pairs:
        if one is None or other is None:
            yield _lone(one, other)
            continue
        first, second = one.phase.index, other.phase.index
        for field, was, now in _fields(one, other, renumbered):
            if was != now:
                yield Change("phase", first, second, field, was, now)
        yield from _epilogue_changes(first, second, epilogues[0][first], epilogues[1][second], renumbered)


def _aligned(a: list[Row], b: list[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    matcher = SequenceMatcher(None, [_signature(row) for row in a], [_signature(row) for row in b], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        one, other = a[i:j], b[k:m]
        both = min(len(one), len(other)) if tag in ("equal", "replace") else 0
        yield from zip(one[:both], other[:both], strict=True)
        yield from ((row, None) for row in one[both:])
        yield from ((None, row) for row in other[both:])


def _signature(row: Row) -> tuple[object, ...]:
    return row.phase.shape, *(type(s).__name__ + str(getattr(s, "kind", "")) for s in (row.a, row.b, row.c))


def _lone(one: Row | None, other: Row | None) -> Change:
    def text(row: Row | None) -> str:
        if row is None:
            return "absent"
        return f"{_shape(row)}, A {_source(row.a)}, B {_source(row.b)}, C {_source(row.c)}"

    first, second = (row.phase.index if row is not None else None for row in (one, other))
    return Change("phase", first, second, "phase", text(one), text(other))


def _fields(one: Row, other: Row, renumbered: Mapping[int, int]) -> Iterator[tuple[str, str, str]]:
    yield "shape", _shape(one), _shape(other)
    for name in ("a", "b", "c"):
        yield name.upper(), _translated(_source(getattr(one, name)), renumbered), _source(getattr(other, name))


def _shape(row: Row) -> str:
    if row.phase.problem is not None:
        return f"no product: {row.phase.problem}"
    return "x".join(map(str, row.phase.shape)) + f" in {len(row.phase.mmas)} mma"


def _source(source: Source) -> str:
    """Text of a source without the names a compiler chooses."""
    if isinstance(source, Shared):
        return "shared rows " + " ".join(f"{first}+{step}" for first, step in sorted(source.rows))
    return str(source)


def _translated(text: str, renumbered: Mapping[int, int]) -> str:
    """Phase numbers of the first module as those of the second."""
    return re.sub(r"\b([DP])(\d+)\b", lambda m: f"{m[1]}{renumbered.get(int(m[2]), f'{m[2]}(a)')}", text)


def _epilogue_changes(
    first: int, second: int, a: Epilogue, b: Epilogue, renumbered: Mapping[int, int]
) -> Iterator[Change]:
    was = Counter(_translated(str(operation), renumbered) for operation in a.operations)
    now = Counter(str(operation) for operation in b.operations)
    if was != now:
        gone, new = "; ".join((was - now).elements()) or "-", "; ".join((now - was).elements()) or "-"
        yield Change("epilogue", first, second, "operations", gone, new)
    loose = [sum(last - begin + 1 for begin, last in e.uncharacterised) for e in (a, b)]
    if bool(loose[0]) != bool(loose[1]):
        yield Change("epilogue", first, second, "uncharacterised statements", str(loose[0]), str(loose[1]))


# --------------------------------------------------------------------------------------------------------------- output


def difference_text(difference: Difference) -> str:
    """For people, at most 100 columns wide."""
    lines = [*clip(f"a  {difference.a}"), *clip(f"b  {difference.b}")]
    if difference.equal:
        return "\n".join([*lines, "no change in phases and contracts"]) + "\n"
    for entry in difference.entries:
        lines += ["", *clip(f"entry {entry.entry}")]
        if entry.only_in is not None:
            lines.append(f"  only in {entry.only_in}")
        for change in entry.changes:
            lines += clip(f"  {_place(change)}: {change.field}")
            lines += [line for side in ("a", "b") for line in clip(f"      {side}  {getattr(change, side)}")]
    return "\n".join(lines) + "\n"


def _place(change: Change) -> str:
    numbers = (change.first, change.second)
    if numbers == (None, None):
        return change.place
    if None in numbers:
        side = "a" if change.second is None else "b"
        return f"phase {change.first if side == 'a' else change.second} of {side}"
    number = str(change.first) if change.first == change.second else f"{change.first} (b: {change.second})"
    return f"{change.place} {number}"


def difference_json(difference: Difference) -> Json:
    """For programs."""
    return {
        "schema": SCHEMA,
        "a": difference.a,
        "b": difference.b,
        "equal": difference.equal,
        "entries": [
            {
                "entry": entry.entry,
                "only_in": entry.only_in,
                "changes": [
                    {
                        "place": change.place,
                        "phase_a": change.first,
                        "phase_b": change.second,
                        "field": change.field,
                        "a": change.a,
                        "b": change.b,
                    }
                    for change in entry.changes
                ],
            }
            for entry in difference.entries
        ],
    }
