"""Values of one register in all lanes of a warp."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from .terms import LANES, Table, Terms

Items = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """For each lane: index of a term, and the lane that it is taken in. `own`: every lane takes its own."""

    slots: tuple[int, ...]
    lanes: tuple[int, ...]
    own: bool


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
"""A term stands for itself in its own lane. Rows may be the same without being equal; `Rows.same` decides."""


class Rows:
    """Operations on rows. In WMMA order whole registers share a pattern, so that one step does for 32 lanes."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._patterns: dict[bytes, Pattern] = {}
        numbers = tuple([terms.constant(lane) for lane in range(LANES)])
        self.lanes: Row = Mixed(self._pattern(list(range(LANES)), list(range(LANES))), numbers)
        self.lane = terms.atom("lane", uniform=False)

    def _pattern(self, slots: list[int], lanes: list[int]) -> Pattern:
        key = bytes(slots + lanes)
        found = self._patterns.get(key)
        if found is None:
            found = self._patterns[key] = Pattern(tuple(slots), tuple(lanes), lanes == list(range(LANES)))
        return found

    def items(self, row: Row) -> Items:
        """The values in lanes 0 to 31."""
        uniform = self._terms.uniform
        if isinstance(row, int):
            start = row * LANES
            return (start,) * LANES if uniform[row] else range(start, start + LANES)
        starts = [term * LANES for term in row.terms]
        pattern = row.pattern
        if True not in [uniform[term] for term in row.terms]:
            return [starts[slot] + lane for slot, lane in zip(pattern.slots, pattern.lanes, strict=True)]
        moving = [0 if uniform[term] else -1 for term in row.terms]
        return [starts[slot] + (lane & moving[slot]) for slot, lane in zip(pattern.slots, pattern.lanes, strict=True)]

    def of(self, items: Items) -> Row:
        """The row with these values."""
        terms = [item >> 5 for item in items]
        slots = dict(zip(dict.fromkeys(terms), range(LANES)))  # noqa: B905 - as many as there are
        lanes = [item & 31 for item in items]
        uniform = self._terms.uniform
        if True in [uniform[term] for term in slots]:
            if len(slots) == 1:
                return terms[0]
            lanes = [own if uniform[term] else lane for own, term, lane in zip(_OWN, terms, lanes, strict=True)]
        elif len(slots) == 1 and lanes == _OWN:
            return terms[0]
        return Mixed(self._pattern([slots[term] for term in terms], lanes), tuple(slots))

    def same(self, one: Row, other: Row) -> bool:
        """Are all lanes equal."""
        return one == other or list(self.items(one)) == list(self.items(other))

    def apply(self, table: Table, rows: Sequence[Row]) -> Row:
        """An operation in every lane."""
        if len(rows) == 1:
            row = rows[0]
            if isinstance(row, Mixed):
                return self._mixed(row.pattern, [table[term] for term in row.terms])
            return self._plain(table[row])
        mixed: Mixed | None = None
        one_pattern = True
        for row in rows:
            if type(row) is not int:
                if mixed is None:
                    mixed = row  # type: ignore[assignment]
                elif row.pattern is not mixed.pattern:  # type: ignore[union-attr]
                    one_pattern = False
        if mixed is None:
            return self._plain(table[tuple(rows)])  # type: ignore[arg-type]
        columns = []
        for row in rows:
            if isinstance(row, Mixed):
                columns.append(row.terms)
            elif mixed.pattern.own or self._terms.uniform[row]:
                columns.append((row,) * len(mixed.terms))
            else:
                one_pattern = False
        if not one_pattern:
            return self._combined(table, rows)
        return self._mixed(mixed.pattern, list(map(table.__getitem__, zip(*columns, strict=True))))

    def _plain(self, result: int) -> Row:
        return result if result not in self._terms.named else self.of([self._terms.named[result]] * LANES)

    def _combined(self, table: Table, rows: Sequence[Row]) -> Row:
        """Rows with different patterns: where all take the same lanes, once for each set of terms that meet."""
        uniform = self._terms.uniform
        lanes: set[tuple[int, ...]] = set()
        slots: list[tuple[int, ...]] = []
        for row in rows:
            if isinstance(row, int):
                slots.append((0,) * LANES)
                if not uniform[row]:
                    lanes.add(_OWN_LANES)
            else:
                slots.append(row.pattern.slots)
                if False in [uniform[term] for term in row.terms]:
                    lanes.add(row.pattern.lanes)
        if len(lanes) > 1:
            return self._by_lane(table, rows)
        chosen = list(zip(*slots, strict=True))
        numbers = dict(zip(dict.fromkeys(chosen), range(LANES)))  # noqa: B905 - as many as there are
        choices = [(row,) if isinstance(row, int) else row.terms for row in rows]
        keys = [tuple([terms[slot] for terms, slot in zip(choices, key, strict=True)]) for key in numbers]
        taken = list(lanes.pop()) if lanes else _OWN
        return self._mixed(self._pattern([numbers[key] for key in chosen], taken), [table[key] for key in keys])

    def _mixed(self, pattern: Pattern, terms: Sequence[int]) -> Row:
        """A result may be another name of an item (`Terms.named`)."""
        if self._terms.named.keys().isdisjoint(terms):
            return Mixed(pattern, tuple(terms))
        places = zip(pattern.slots, pattern.lanes, strict=True)
        return self.of([self._terms.item_of(terms[slot], lane) for slot, lane in places])

    # --------------------------------------------------------------------------------------------------- lane by lane

    def _by_lane(self, table: Table, rows: Sequence[Row]) -> Row:
        terms = self._terms
        before = len(terms.nodes)
        results, crossing = [], []
        for items in zip(*map(self.items, rows), strict=True):
            lanes = {item & 31 for item in items if not terms.uniform[item >> 5]}
            if len(lanes) < 2:
                # Of one lane: the term is that of the whole row.
                key = tuple([item >> 5 for item in items])
                results.append(terms.item_of(table[key if len(key) > 1 else key[0]], lanes.pop() if lanes else 0))
            else:
                crossing.append(table[tuple([terms.element(item) for item in items])])
                results.append(terms.item_of(crossing[-1], 0))
        # Rows of new values get a term, so that what follows is one step again. Words that are put together do not:
        # their halves must stay known.
        fresh = len(crossing) == len(set(crossing)) == LANES and min(crossing) >= before
        if fresh and table is not terms.join and terms.named.keys().isdisjoint(crossing):
            return terms.name_by_lane(crossing)
        return self.of(results)

    def named(self, known: dict[Hashable, int], keys: Sequence[Hashable], name: str) -> Row:
        """Values that are functions of `keys`, which hold items: equal keys are one value. New ones become one term."""
        found = list(map(known.get, keys))
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


_OWN = list(range(LANES))
_OWN_LANES = tuple(_OWN)
