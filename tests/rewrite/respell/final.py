"""The last epilogue's branch: lanes outside the extents leave out softmax and shuffles, not stores alone."""

from __future__ import annotations

import re

from .text import Draft

_DEFINES = re.compile(r"\t(?:mov|add|sub|shl|shr|and|or|setp|mul|neg|cvt|bfi|ld\.param|mad)\S*\s+(%\w+), ([^;]*);$")


def final_branch(draft: Draft) -> None:
    """Move the branch over the surface stores to the begin of its straight line. What it depends on goes with it, and
    so do constants that the skipped statements define for others.
    """
    first, _ = draft.last()
    text = draft.text[first:]
    while True:
        found = re.search(
            r"\n(\tsetp\.ge\.u32[^\n]*\n\tsetp\.ge\.u32[^\n]*\n\tor\.pred\s+(%p\d+)[^\n]*\n\t@\2 bra\s+(\$\w+);\n)",
            text,
        )
        if found is None:
            break
        lines = text[: found.start() + 1].split("\n")
        begin = max(i for i, line in enumerate(lines) if line.endswith(":")) + 1
        label = text.index(f"{found[3]}:")
        hoisted = _needed(lines, begin, found[1], text[label:])
        kept = [line for i, line in enumerate(lines[begin:], begin) if i not in hoisted]
        # The marker keeps the search from finding the moved branch again.
        guard = found[1].replace("setp.ge.u32", "setp.ge@.u32")
        moved = [lines[i] for i in sorted(hoisted)]
        text = "\n".join([*lines[:begin], *moved, guard, *kept]) + text[found.end() :]
    draft.text = draft.text[:first] + text.replace("setp.ge@", "setp.ge")


def _needed(lines: list[str], begin: int, guard: str, after: str) -> set[int]:
    """Lines of the straight line on which the guard, or anything behind the branch, depends."""
    defined = {}
    for i in range(begin, len(lines)):
        match = _DEFINES.match(lines[i])
        if match is not None:
            defined[match[1]] = (i, match[2])
    work = re.findall(r"%\w+", guard) + [name for name in set(re.findall(r"%\w+", after)) if name in defined]
    found: set[int] = set()
    while work:
        place = defined.get(work.pop())
        if place is not None and place[0] not in found:
            found.add(place[0])
            work.extend(re.findall(r"%\w+", place[1]))
    return found
