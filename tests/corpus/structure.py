"""What a module's text shows without the project's own parser: statements of an entry, mma runs, epilogues."""

from __future__ import annotations

import re
from collections.abc import Sequence


def entry_text(ptx: str, entry: str = "") -> str:
    """Text of one entry (the first where none is named), from its parameter list to its closing brace, no comments."""
    code = re.sub(r"//[^\n]*", "", ptx)
    start = code.index(f".entry {entry}")
    following = code.find(".entry ", start + 1)
    return code[start : following if following > 0 else len(code)]


def statements(ptx: str, entry: str = "") -> list[str]:
    """Instructions of one entry in order; labels, directives and braces are left out."""
    text = entry_text(ptx, entry)
    pieces = re.split(r";|\$\w+:", text[text.index("{") :])
    bare = (re.sub(r"^(\{\s*|\}\s*|\.\w+[^;]*)+", "", piece.strip()).strip() for piece in pieces)
    return [" ".join(piece.split()) for piece in bare if piece]


def epilogues(ptx: str, entry: str = "") -> list[list[str]]:
    """Statements before the first mma run, between neighbouring runs, and after the last."""
    parts: list[list[str]] = [[]]
    inside = False
    for statement in statements(ptx, entry):
        if statement.startswith("mma.sync"):
            if not inside:
                parts.append([])
            inside = True
        else:
            inside = False
            parts[-1].append(statement)
    return parts


def mma_runs(ptx: str, entry: str = "") -> list[int]:
    """Lengths of the maximal runs of adjacent mma.sync statements."""
    runs = [0]
    for statement in statements(ptx, entry):
        if statement.startswith("mma.sync"):
            runs[-1] += 1
        elif runs[-1]:
            runs.append(0)
    return [run for run in runs if run]


def count(part: Sequence[str], pattern: str) -> int:
    """Statements whose opcode (after a guard) matches `pattern` from its start."""
    return sum(re.match(rf"(@!?%p\d+ )?{pattern}", statement) is not None for statement in part)
