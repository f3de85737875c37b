"""Values of one register in all lanes of a warp."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from .terms import LANES, Table, Terms

Pattern = tuple[tuple[int, int], ...]
"""For each lane: index of a term, and the lane that it is taken in."""
Items = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A register whose lanes hold values of several terms, or of other lanes. Patterns are interned."""

    pattern: Pattern
    terms: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mixed) and self.pattern is other.pattern and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((id(self.pattern), self.terms))


Row = int | Mixed
"""A term stands for itself in its own lane. Rows may be the same without being equal; `Rows.items` decides."""


class Rows:
    """Operations on rows. In WMMA order whole registers share a pattern, so that one step does for 32 lanes."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._patterns: dict[Pattern, Pattern] = {}
        self._own = tuple(range(LANES))
        spread: Pattern = tuple((lane, lane) for lane in range(LANES))
        numbers = tuple(terms.constant(lane) for lane in range(LANES))
        self.lanes: Row = Mixed(self._patterns.setdefault(spread, spread), numbers)
        self.lane = terms.atom("lane", uniform=False)

    def items(self, row: Row) -> Items:
        """The values in lanes 0 to 31."""
        uniform = self._terms.uniform
        if isinstance(row, int):
            start = row * LANES
            return (start,) * LANES if uniform[row] else range(start, start + LANES)
        terms = row.terms
        same = [uniform[t] for t in terms]
        return [terms[slot] * LANES + (0 if same[slot] else lane) for slot, lane in row.pattern]

    def of(self, items: Items) -> Row:
        """The row with these values."""
        uniform = self._terms.uniform
        first = items[0]
        if isinstance(items, range) or (
            first % LANES == 0 and not uniform[first // LANES] and list(items) == list(range(first, first + LANES))
        ):
            return first // LANES
        slots: dict[int, int] = {}
        places = []
        for own, item in enumerate(items):
            term = item >> 5
            places.append((slots.setdefault(term, len(slots)), own if uniform[term] else item & 31))
        if len(slots) == 1 and uniform[first >> 5]:
            return first >> 5
        pattern = tuple(places)
        return Mixed(self._patterns.setdefault(pattern, pattern), tuple(slots))

    def same(self, one: Row, other: Row) -> bool:
        """Are all lanes equal."""
        return one == other or list(self.items(one)) == list(self.items(other))

    def apply(self, table: Table, rows: Sequence[Row]) -> Row:
        """An operation in every lane."""
        mixed = None
        for row in rows:
            if type(row) is not int:
                if mixed is None:
                    mixed = row
                elif row.pattern is not mixed.pattern:  # type: ignore[union-attr]
                    return self._by_lane(table, rows)
        if mixed is None:
            result = table[rows[0] if len(rows) == 1 else tuple(rows)]  # type: ignore[index]
            if self._terms.nodes[result][0] == "element":
                return self.of([self._terms.item_of(result, 0)] * LANES)
            return result
        assert isinstance(mixed, Mixed)
        if len(rows) == 1:
            return self._mixed(mixed.pattern, [table[t] for t in mixed.terms])
        uniform, columns = self._terms.uniform, []
        for row in rows:
            if isinstance(row, Mixed):
                columns.append(row.terms)
            elif uniform[row]:
                columns.append((row,) * len(mixed.terms))
            else:
                return self._by_lane(table, rows)
        return self._mixed(mixed.pattern, [table[key] for key in zip(*columns, strict=True)])

    def _mixed(self, pattern: Pattern, terms: Sequence[int]) -> Row:
        """A uniform result may be the term of an element: its item is that of the lane it came from."""
        nodes = self._terms.nodes
        if any(nodes[term][0] == "element" for term in terms):
            return self.of([self._terms.item_of(terms[slot], lane) for slot, lane in pattern])
        return Mixed(pattern, tuple(terms))

    def _by_lane(self, table: Table, rows: Sequence[Row]) -> Row:
        return self.of([self._item(table, key) for key in zip(*map(self.items, rows), strict=True)])

    def _item(self, table: Table, items: tuple[int, ...]) -> int:
        """The operation on single values. Where they are of one lane, its term is that of the whole row."""
        terms = self._terms
        lanes = {item & 31 for item in items if not terms.uniform[item >> 5]}
        if len(lanes) < 2:
            key = tuple([item >> 5 for item in items])
            lane = lanes.pop() if lanes else 0
            return terms.item_of(table[key if len(key) > 1 else key[0]], lane)
        key = tuple([terms.element(item) for item in items])
        return terms.item_of(table[key], 0)

    def named(self, known: dict[Hashable, int], keys: Sequence[Hashable], name: str) -> Row:
        """Values that are functions of `keys`, which hold items: equal keys are one value. New ones become one term."""
        found = [known.get(key) for key in keys]
        if None not in found:
            return self.of(found)  # type: ignore[arg-type]
        if found.count(None) == LANES and len(set(keys)) == LANES:
            term = self._terms.new(f"items by lane: {name}", tuple(keys), uniform=False)
            known.update(zip(keys, range(term * LANES, term * LANES + LANES), strict=True))
            return term
        for key in keys:
            if key not in known:
                known[key] = self._terms.new(f"items: {name}", key, uniform=True) * LANES
        return self.of([known[key] for key in keys])
