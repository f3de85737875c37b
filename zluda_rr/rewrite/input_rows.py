"""The decoded rows of a layer's input planes, found in what the first products take.

A's word is pack(x * (inverse * gain), …); the gain's bytes say which columns the two halves x are, the inverse which
row. What x is, the prologue decides; that the row's norm is made of just these values is compared like any other term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zluda_rr.analysis import Canonical, InputNorm, Mma, Term, Terms
from zluda_rr.contract import PhaseRow

Fragment = tuple[Term, ...]
Weights = Mapping[Fragment, Sequence[tuple[PhaseRow, int, int]]]


class _Scaled(NamedTuple):
    """x * (inverse * gain)."""

    value: Term
    inverse: Term
    gain: Term


def bind_input_rows(
    canonical: Canonical, mmas: Sequence[Mma], weights: Weights, order: Mapping[int, int], parameter: int
) -> dict[tuple[int, int], list[Term]] | None:
    """Words by (m-tile, half) and n-tile over all planes; None where the products take something else.

    `weights`: places of B fragments. m-tiles are numbered by first appearance and renumbered by `order`. Every word
    must be another one, decoded from what the pointer at `parameter` leads to.
    """
    terms, canonical = canonical.terms, canonical.fresh()  # no accumulator has its name yet
    tiles: dict[tuple[Term, ...], int] = {}
    words: dict[tuple[int, int], dict[int, Term]] = {}
    for mma in mmas:
        if len(mma.b) != 2 or len(mma.a) != 4:
            continue
        row, _, step = next(iter(weights.get(tuple(map(canonical.of, mma.b)), ())), (None, 0, 0))
        if row is None or not isinstance(row.a, InputNorm):
            continue
        found = [_peeled(terms, canonical.of(value)) for value in mma.a]
        if any(word is None for word in found):
            return None
        halves = [word for word in found if word is not None]
        label = tiles.setdefault(tuple(halves[i][0].inverse for i in (0, 1)), len(tiles))
        m = order.get(label, label)
        for i, parts in enumerate(halves):
            first = 4 * (row.a.plane + step) + (i >> 1)
            columns = words.setdefault((m, i & 1), {})
            columns[first] = terms.pair(parts[0].value, parts[1].value)
            columns[first + 2] = terms.pair(parts[2].value, parts[3].value)
    planes = max((len(columns) for columns in words.values()), default=0)
    if not planes or any(sorted(columns) != list(range(planes)) for columns in words.values()):
        return None
    every = [word for columns in words.values() for word in columns.values()]
    if len(set(every)) != len(every) or not all(_is_decoded(terms, word, parameter) for word in every):
        return None
    return {key: [columns[n] for n in range(planes)] for key, columns in words.items()}


def _is_decoded(terms: Terms, word: Term, parameter: int) -> bool:
    """A pair of codes of the buffer, as f16."""
    if terms.operation(word) != "cvt.f16x2.e4m3x2":
        return False
    source = terms.table[terms.children(word)[0]]
    if source[0] == "half":
        source = terms.table[Term(int(str(source[2])))]
    return source[:2] == ("load", parameter)


def _peeled(terms: Terms, word: Term) -> list[_Scaled] | None:
    """The four values behind an operand word of normed rows."""
    content = terms.table[word]
    packs = terms.children(word) if content[0] == "pair" else []
    halves = [half for pack in packs if terms.operation(pack) == "e4m3x2" for half in terms.children(pack)]
    found = [_scaled(terms, half) for half in halves]
    complete = [part for part in found if part is not None]
    return complete if len(complete) == 4 else None


def _scaled(terms: Terms, half: Term) -> _Scaled | None:
    if terms.operation(half) != "mul.f16":
        return None
    a, b = terms.children(half)
    for value, factor in ((a, b), (b, a)):
        if terms.operation(factor) != "mul.f16":
            continue
        u, v = terms.children(factor)
        for inverse, gain in ((u, v), (v, u)):
            if terms.operation(gain) == "W" and terms.operation(inverse) == "cvt.f16.f32":
                return _Scaled(value, inverse, gain)
    return None
