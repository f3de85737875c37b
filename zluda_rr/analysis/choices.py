"""Choices that are known in every lane, in one form.

Such a value is, lane by lane, some lane's value of a term. Exchanges and choices in any order (choose, then exchange;
exchange, then choose) that give the same rows are the same term: nested choices, one per term in the order of the first
lane that takes it, each of an exchange that stays in place in the lanes where it is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .lanes import LANES

if TYPE_CHECKING:
    from .terms import Lanes, Term, Terms

Rows = list[tuple["Term", int]]
"""By lane: a term, and the lane whose value of it is meant."""


def rows(terms: Terms, term: Term) -> Rows:
    """What a term is in each lane."""
    operation, *operands = terms.table[term]
    if operation == "gather":
        sources = operands[0]
        assert isinstance(sources, tuple)
        below = rows(terms, terms.children(term)[-1])
        return [below[source] for source in sources]
    if operation == "select":
        yes, no, condition = terms.children(term)
        lanes = terms.lanes(condition)
        if lanes is not None:
            return selected(terms, yes, no, lanes)
    return [(term, lane) for lane in range(LANES)]


def selected(terms: Terms, yes: Term, no: Term, lanes: Lanes) -> Rows:
    """`yes` in the lanes where the condition is 1, `no` in the others."""
    sides = rows(terms, no), rows(terms, yes)
    return [sides[condition][lane] for lane, condition in enumerate(lanes)]


def chosen(terms: Terms, wanted: Sequence[tuple[Term, int]]) -> Term:
    """The term that is `wanted` in each lane."""
    bases = list(dict.fromkeys(base for base, _ in wanted))
    if any(terms.operation(base) == "pair" for base in bases):
        halves = [{base: rows(terms, terms.half(base, i)) for base in bases} for i in (0, 1)]
        low, high = (chosen(terms, [half[base][source] for base, source in wanted]) for half in halves)
        return terms.pair(low, high)
    found: Term | None = None
    for base in reversed(bases):
        taken = tuple(int(other == base) for other, _ in wanted)
        moved = terms.gathered(_in_place(wanted, taken), base)
        found = moved if found is None else terms.make("select", moved, found, terms.known(taken, 1))
    assert found is not None
    return found


def _in_place(wanted: Sequence[tuple[Term, int]], taken: Lanes) -> Lanes:
    return tuple(source if taken[lane] else lane for lane, (_, source) in enumerate(wanted))
