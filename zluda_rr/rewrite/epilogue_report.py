"""The epilogue table: what happens between the matrix products, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.analysis import Epilogue

from .entry_report import EntryReport
from .report import WIDTH, Json

_RANGES = 6
"""Uncharacterised ranges printed per epilogue; JSON has all of them."""


def epilogue_lines(entry: EntryReport) -> list[str]:
    """The epilogue table, at most WIDTH columns wide; E0 is the prologue."""
    places = [f"s{e.first}-s{e.last}" if e.statements else "-" for e in entry.epilogues]
    width = max(map(len, places), default=0)
    lines = [" E  " + "statements".ljust(width) + "  count  operations"]
    for epilogue, place in zip(entry.epilogues, places, strict=True):
        head = f"{epilogue.index:>2}  {place:<{width}}  {epilogue.statements:>5}  "
        lines += _wrapped(head, _cells(epilogue))
    return lines


def _cells(epilogue: Epilogue) -> list[str]:
    cells = list(map(str, epilogue.operations))
    loose = epilogue.uncharacterised
    if loose:
        count = sum(last - first + 1 for first, last in loose)
        shown = ", ".join(f"s{first}-s{last}" for first, last in loose[:_RANGES])
        more = f" and {len(loose) - _RANGES} more ranges" if len(loose) > _RANGES else ""
        cells.append(f"uncharacterised: {count} statements in {shown}{more}")
    return cells or ["-"]


def _wrapped(head: str, cells: Sequence[str]) -> list[str]:
    """Cells joined by `; `, broken between words; continuations stand below the first."""
    indent, lines, line = " " * len(head), [], head
    words = "; ".join(cells).split(" ")
    for word in words:
        if len(line) + len(word) > WIDTH and line.strip() and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += word + " "
    return [*lines, line.rstrip()]


def epilogue_json(entry: EntryReport) -> Json:
    """Keys `epilogues`, `uncharacterised_statements` and `instruction_mix` of an entry."""
    loose = [last - first + 1 for e in entry.epilogues for first, last in e.uncharacterised]
    return {
        "epilogues": [_epilogue(epilogue) for epilogue in entry.epilogues],
        "uncharacterised_statements": sum(loose),
        "instruction_mix": dict(entry.mix),
    }


def _epilogue(epilogue: Epilogue) -> Json:
    return {
        "index": epilogue.index,
        "statements": [epilogue.first, epilogue.last],
        "count": epilogue.statements,
        "operations": [
            {
                "kind": operation.kind,
                "detail": operation.detail,
                "results": [operation.first, operation.last],
                "statements": operation.statements,
            }
            for operation in epilogue.operations
        ],
        "uncharacterised": [list(span) for span in epilogue.uncharacterised],
    }
