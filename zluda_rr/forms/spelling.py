"""The forms of the instruction table, one by one: opcode, modifiers and number of operands.

A line of the table with at most `FULL` combinations of modifiers gives all of them. A longer one (ld, st, atom, red,
mma) gives all combinations of its first-rank modifiers (`_RANK`), and for every two modifiers all their pairs of words
beside the line's plain form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import prod

from zluda_rr.ptx import isa

FULL = 12_000
_RANK = {"ld": "SVT", "st": "SVT", "atom": "SOT", "red": "SOT"}
# The plain form of a long line, where it is not the first word of every modifier.
_PLAIN = {
    "ld": "global u32",
    "st": "global u32",
    "atom": "global add u32",
    "red": "global add u32",
    "mma": "m16n8k32 row col f16 e4m3 e4m3 f16",
}


@dataclass(frozen=True, slots=True)
class Spelling:
    """One form. `words` has the word of each of the pattern's modifiers, "" where an optional one is absent."""

    pattern: isa.Pattern
    words: tuple[str, ...]
    operands: int

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers in the table's order."""
        return tuple(word for word in self.words if word)

    @property
    def name(self) -> str:
        """`add.rn.f16x2`."""
        return ".".join((self.pattern.opcode, *self.modifiers))

    @property
    def form(self) -> isa.Form:
        """The form with its types filled in."""
        form = self.pattern.match(self.modifiers, self.operands)
        assert form is not None
        return form


@cache
def spellings() -> tuple[Spelling, ...]:
    """All forms in the order of the table, each once: where two lines give the same name and number of operands, the
    parser takes the first, and so does this.
    """
    found: dict[tuple[str, int], Spelling] = {}
    for pattern in isa.patterns():
        for words in _combinations(pattern):
            for count in range(pattern.required, len(pattern.operands) + 1):
                spelling = Spelling(pattern, words, count)
                # A word may fit two modifiers of a line (`.row.col`): the pattern's own reading decides.
                if _sensible(spelling) and pattern.match(spelling.modifiers, count) is not None:
                    found.setdefault((spelling.name, count), spelling)
    return tuple(found.values())


def _choices(modifier: isa.ModifierPattern) -> tuple[str, ...]:
    return ("", *modifier.words) if modifier.optional else modifier.words


def _combinations(pattern: isa.Pattern) -> Iterator[tuple[str, ...]]:
    choices = [_choices(modifier) for modifier in pattern.modifiers]
    if prod(map(len, choices)) <= FULL:
        yield from product(*choices)
        return
    plain = _plain(pattern)
    rank = _RANK.get(pattern.opcode, "")
    first = [index for index, modifier in enumerate(pattern.modifiers) if modifier.name and modifier.name in rank]
    for chosen in (first, *combinations(range(len(choices)), 2)):
        for words in product(*(choices[index] for index in chosen)):
            yield _with(plain, chosen, words)


def _with(plain: Sequence[str], places: Sequence[int], words: Sequence[str]) -> tuple[str, ...]:
    changed = list(plain)
    for place, word in zip(places, words, strict=True):
        changed[place] = word
    return tuple(changed)


def _plain(pattern: isa.Pattern) -> list[str]:
    wanted = _PLAIN.get(pattern.opcode, "").split()
    plain = []
    for modifier in pattern.modifiers:
        word = "" if modifier.optional else modifier.words[0]
        if wanted and wanted[0] in modifier.words:
            word = wanted.pop(0)
        plain.append(word)
    return plain


def _sensible(spelling: Spelling) -> bool:
    """Optional operands belong to modifiers: a combining predicate to `.and`, a policy to `.L2::cache_hint`."""
    names = [operand.name for operand in spelling.pattern.operands[: spelling.operands]]
    opcode, words = spelling.pattern.opcode, spelling.words
    if opcode in ("set", "setp"):
        return ("c" in names) == (not {"and", "or", "xor"}.isdisjoint(words))
    if "policy" in names or "L2::cache_hint" in words:
        return ("policy" in names) == ("L2::cache_hint" in words)
    return opcode not in ("tex", "tld4", "call") or spelling.operands == spelling.pattern.required
