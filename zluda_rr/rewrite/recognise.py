"""Recognises a layer by its terms: every mma is placed by what its operands are, word for word.

The expected terms of all operand words are built from the contract; a kernel's mma belongs to phase, n-tile and k step
whose B words are its own, to the m-tile whose A words are its own, and its C must be the seed, or the sum so far, of
that place. So a kernel that is recognised is proved: there is no word of an operand left that could be something else.
Where an instruction stands, and how its operands were spelled, plays no part.

Rows of tokens that the prologue made (staged words, decoded planes) have no term to compare with. Their m-tiles are
numbered as they appear, and renumbered by the score bias, the first operand that depends on the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zluda_rr.analysis import Bias, Canonical, InputNorm, Mma, Term, Terms, Value, Values
from zluda_rr.contract import (
    Arithmetic,
    Expected,
    LayerContract,
    PhaseRow,
    TermDifference,
    smallest_difference,
    term_text,
)
from zluda_rr.ptx import Body

from .input_rows import bind_input_rows

Fragment = tuple[Term, ...]
Place = tuple[int, int, int]
"""(m-tile, n-tile, k step)."""


@dataclass(slots=True)
class Recognition:
    """What was found: mma by phase and place; differences by phase, and mma of no phase."""

    canonical: Canonical
    expected: Expected
    placed: dict[int, dict[Place, Mma]] = field(default_factory=lambda: defaultdict(dict))
    differences: dict[int, list[tuple[str, TermDifference]]] = field(default_factory=lambda: defaultdict(list))
    stray: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Every mma has its place and every word its term."""
        return not self.differences and not self.stray


def recognise(body: Body, values: Values, mmas: Sequence[Mma], contract: LayerContract) -> Recognition:
    """Place every mma of a kernel."""
    found = _Recogniser(body, values, mmas, contract).run(None)
    order = found.order
    if order is not None:
        found = _Recogniser(body, values, mmas, contract).run(order)
    return found.result


class _Recogniser:
    """One pass over the mma in statement order, which is an order of dependence."""

    def __init__(self, body: Body, values: Values, mmas: Sequence[Mma], contract: LayerContract) -> None:
        self._contract = contract
        self._mmas = mmas
        terms = Terms()
        canonical = Canonical(body, values, terms, contract.weights_parameter, contract.launch.block)
        self._arithmetic = Arithmetic(terms, contract.arithmetic)
        self.result = Recognition(canonical, Expected(contract, self._arithmetic))
        self._labels: dict[Fragment, int] = {}
        self._votes: dict[int, set[int]] = defaultdict(set)
        self._order: Mapping[int, int] | None = None

    @property
    def order(self) -> dict[int, int] | None:
        """True numbers of the m-tiles by number of appearance, where the score bias shows others than assumed."""
        if self._order is not None or not self._votes or not all(len(v) == 1 for v in self._votes.values()):
            return None
        order = {label: next(iter(v)) for label, v in self._votes.items()}
        if sorted(order.values()) != sorted(order) or all(a == b for a, b in order.items()):
            return None
        return order

    def run(self, order: Mapping[int, int] | None) -> _Recogniser:
        """Place every mma; `order` renumbers the m-tiles of unknown rows."""
        self._order = order
        self._tables()
        for mma in self._mmas:
            self._place(mma)
        return self

    # ------------------------------------------------------------------------------------------------- tables

    def _tables(self) -> None:
        contract, expected = self._contract, self.result.expected
        self._b: dict[Fragment, list[tuple[PhaseRow, int, int]]] = defaultdict(list)
        for row in contract.phases:
            for (n, s), words in expected.b(row).items():
                self._b[words].append((row, n, s))
        planes = next((row.a for row in contract.phases if isinstance(row.a, InputNorm)), None)
        if planes is not None:
            order = self._order or {}
            rows = bind_input_rows(self.result.canonical, self._mmas, self._b, order, planes.parameter)
            expected = self.result.expected = Expected(contract, self._arithmetic, rows)
        self._a: dict[int, dict[Fragment, list[tuple[int, int]]]] = {}
        self._c: dict[int, dict[tuple[int, int], Fragment]] = {}

    def _a_of(self, row: PhaseRow) -> dict[Fragment, list[tuple[int, int]]] | None:
        if row.index not in self._a:
            found = self.result.expected.a(row)
            if found is None:
                return None
            table: dict[Fragment, list[tuple[int, int]]] = defaultdict(list)
            for place, words in found.items():
                table[words].append(place)
            self._a[row.index] = table
        return self._a[row.index]

    def _c_of(self, row: PhaseRow) -> dict[tuple[int, int], Fragment]:
        if row.index not in self._c:
            self._c[row.index] = self.result.expected.c(row) or {}
        return self._c[row.index]

    def _terms(self, values: Sequence[Value]) -> Fragment:
        return tuple(self.result.canonical.of(value) for value in values)

    # ------------------------------------------------------------------------------------------------- placing

    def _place(self, mma: Mma) -> None:
        if (len(mma.a), len(mma.b), len(mma.c), len(mma.d)) != (4, 2, 2, 2):
            self.result.stray.append(f"s{mma.statement}: not the registers of m16n8k32 with f16 accumulators")
            return
        a, b, c = self._terms(mma.a), self._terms(mma.b), self._terms(mma.c)
        choices = self._b.get(b) or self._by_a(a, b, mma)
        if not choices:
            self.result.stray.append(
                f"s{mma.statement}: mma of no phase: B is {term_text(self.result.canonical.terms, b[0])}"
            )
            return
        row, n, s = choices[0]
        if isinstance(row.c, Bias):
            self._vote(row, a, n, c)
        m = self._row_tile(row, a, s, mma, c, n)
        place = (m, n, s)
        if place in self.result.placed[row.index]:
            other = self.result.placed[row.index][place].statement
            self.result.stray.append(f"s{mma.statement} repeats the tile of s{other} in phase {row.index}")
            return
        self._seed(row, place, c, mma)
        self.result.placed[row.index][place] = mma
        self._name(row, place, mma)

    def _by_a(self, a: Fragment, b: Fragment, mma: Mma) -> list[tuple[PhaseRow, int, int]]:
        """A phase for an mma whose B is no phase's: the first that has its A and a tile left."""
        for row in self._contract.phases:
            table = self._a_of(row)
            place = table.get(a, []) if table is not None else [(m, 0) for m in [self._labels.get(a)] if m is not None]
            for m, s in place:
                for n in range(row.shape[1] // 8):
                    if (m, n, s) not in self.result.placed[row.index]:
                        wanted = self.result.expected.b(row)[n, s]
                        self._differs(row, f"B of n-tile {n}, k step {s}", wanted, b, mma)
                        return [(row, n, s)]
        return []

    def _row_tile(self, row: PhaseRow, a: Fragment, s: int, mma: Mma, c: Fragment, n: int) -> int:
        table = self._a_of(row)
        if table is None:
            label = self._labels.setdefault(a, len(self._labels))
            if isinstance(row.a, InputNorm):
                text = term_text(self.result.canonical.terms, a[0])
                odd = TermDifference(f"{row.a}, each word decoded once", text, mma.statement)
                self.result.differences[row.index].append((f"A of m-tile {label}", odd))
            return (self._order or {}).get(label, label)
        places = [m for m, step in table.get(a, ()) if step == s]
        if places:
            return places[0]
        used = {m for m, column, step in self.result.placed[row.index] if (column, step) == (n, s)}
        seeds = [m for (m, column), words in self._c_of(row).items() if column == n and words == c and m not in used]
        m = seeds[0] if seeds else next((m for m in range(row.shape[0] // 16) if m not in used), 0)
        wanted = next(words for words, at in table.items() if (m, s) in at)
        self._differs(row, f"A of m-tile {m}, k step {s}", wanted, a, mma)
        return m

    def _seed(self, row: PhaseRow, place: Place, c: Fragment, mma: Mma) -> None:
        m, n, s = place
        if not mma.supported:
            odd = TermDifference("mma.m16n8k32 of e4m3 with f16 accumulators", "another form", mma.statement)
            self.result.differences[row.index].append(("mma", odd))
        if s:
            wanted = tuple(self._arithmetic.partial(row.index, m, half, n, s - 1) for half in (0, 1))
        else:
            wanted = self._c_of(row).get((m, n), ())
        if not wanted:
            odd = TermDifference(str(row.c), term_text(self.result.canonical.terms, c[0]), mma.statement)
            self.result.differences[row.index].append((f"C of tile ({m}, {n})", odd))
        elif wanted != c:
            self._differs(row, f"C of tile ({m}, {n})" + (f", k step {s}" if s else ""), wanted, c, mma)

    def _vote(self, row: PhaseRow, a: Fragment, n: int, c: Fragment) -> None:
        """The seed says which query rows and which keys these are; unknown rows were numbered as they appeared. Queries
        are packed like keys: registers 0 and 2 of A are the B fragment of the same eight rows.
        """
        true = next((place for place, words in self._c_of(row).items() if words == c), None)
        queries = next((tile for other, tile, _ in self._b.get((a[0], a[2]), ()) if other is row), None)
        if true is not None and queries is not None:
            self._votes[queries >> 1].add(true[0])
            self._votes[n >> 1].add(true[1] >> 1 if not (true[1] ^ n) & 1 else -1)

    def _differs(self, row: PhaseRow, what: str, wanted: Fragment, found: Fragment, mma: Mma) -> None:
        terms, canonical = self.result.canonical.terms, self.result.canonical
        for word, (expected, actual) in enumerate(zip(wanted, found, strict=True)):
            if expected != actual:
                a, b = smallest_difference(terms, expected, actual)
                statement = canonical.origin.get(b) or canonical.origin.get(actual) or mma.statement
                text = TermDifference(term_text(terms, a), term_text(terms, b), statement)
                self.result.differences[row.index].append((f"{what}, word {word}", text))
                return

    def _name(self, row: PhaseRow, place: Place, mma: Mma) -> None:
        m, n, s = place
        last = s == row.shape[2] // 32 - 1
        for half, value in enumerate(mma.d):
            name = (
                self._arithmetic.cell(row.index, m, half, n)
                if last
                else self._arithmetic.partial(row.index, m, half, n, s)
            )
            self.result.canonical.cells[mma.statement, value.register] = name
