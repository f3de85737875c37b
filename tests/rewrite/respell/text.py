"""Tools of a respelling: fresh registers and labels, templates over matched statements, the parts of a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

_KINDS = {"r": "b32", "p": "pred", "rs": "b16", "rd": "b64", "f": "f32"}
_DECLARATION = r"\.reg \.\w+\s+%{kind}<(\d+)>;"

Change = Callable[[re.Match[str]], str]


class Draft:
    """A module being respelled. Registers that it asks for are numbered behind the kernel's own, as a compiler's copies
    are. The kernel is the entry with mma; nothing else of the module is changed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._counts: dict[str, int] = {}
        self._labels = 0
        for kind in _KINDS:
            declared = re.search(_DECLARATION.format(kind=kind), text)
            assert declared is not None, kind
            self._counts[kind] = int(declared[1])

    def fresh(self, kind: str) -> str:
        """A register of a class (r, p, rs, rd, f) that nothing uses yet, or a label (L)."""
        if kind == "L":
            self._labels += 1
            return f"$L__BB9_{self._labels}"
        self._counts[kind] += 1
        return f"%{kind}{self._counts[kind] - 1}"

    def finished(self) -> str:
        """The text with the registers declared."""
        text = self.text
        for kind, count in self._counts.items():
            pattern = _DECLARATION.format(kind=kind)
            text = re.sub(pattern, f".reg .{_KINDS[kind]} \t%{kind}<{count}>;", text, count=1)
        return text

    def filled(self, template: str, match: re.Match[str]) -> str:
        """`\\1` are groups of the match, `<r0>` fresh registers; one statement a line."""
        names: dict[str, str] = {}

        def name(found: re.Match[str]) -> str:
            return names.setdefault(found[0], self.fresh(found[1]))

        return re.sub(r"<(rs|rd|r|p|f|L)\d>", name, match.expand(template)).replace("; ", ";\n\t")

    def sub(self, pattern: str, change: str | Change, within: tuple[int, int] | None = None) -> int:
        """Replace every match in a part of the text; how many there were."""

        def replaced(match: re.Match[str]) -> str:
            return self.filled(change, match) if isinstance(change, str) else change(match)

        first, end = within or (0, len(self.text))
        part, count = re.subn(pattern, replaced, self.text[first:end], flags=re.DOTALL)
        self.text = self.text[:first] + part + self.text[end:]
        return count

    # ---------------------------------------------------------------------------------------------------- its parts

    def mma(self) -> list[int]:
        """Where every mma begins."""
        return [m.start() for m in re.finditer(r"mma\.sync", self.text)]

    def prologue(self) -> tuple[int, int]:
        """From the body's begin to the first mma."""
        return self.text.rindex(".entry", 0, self.mma()[0]), self.mma()[0]

    def merged(self) -> tuple[int, int]:
        """Between the two mma around the last store of words: the stores of E21 of enc0, E31 of enc1."""
        return self._around(self.text.rindex("st.global"))

    def tokens(self) -> tuple[int, int]:
        """Between the two mma around the first store of words: E20 of enc0, E30 of enc1."""
        return self._around(self.text.index("st.global", self.prologue()[0]))

    def _around(self, place: int) -> tuple[int, int]:
        return max(at for at in self.mma() if at < place), min(at for at in self.mma() if at > place)

    def last(self) -> tuple[int, int]:
        """The last epilogue."""
        return self.mma()[-1], self.text.index("\n}", self.mma()[-1])


Respelling = Callable[[Draft], object]


def respelled(text: str, names: Iterable[str], *tables: Mapping[str, Respelling]) -> str:
    """The module with respellings by name carried out in this order; a name that changes nothing is an error."""
    draft = Draft(text)
    for name in names:
        before = draft.text
        next(table[name] for table in tables if name in table)(draft)
        if draft.text == before:
            raise ValueError(f"{name} changes nothing")
    return draft.finished()
