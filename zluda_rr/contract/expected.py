"""The term that every operand word and every store of a layer must have, built from the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zluda_rr.analysis import (
    Bias,
    Columns,
    Derived,
    InputNorm,
    InputResidual,
    Residual,
    Shared,
    Source,
    Term,
    Weights,
    Zero,
)

from .arithmetic import Arithmetic
from .model import LayerContract, PhaseRow, StoreRule

Rows = Mapping[tuple[int, int], Sequence[Term]]
"""Words of all n-tiles by (m-tile, half)."""


@dataclass(frozen=True, slots=True)
class ExpectedStore:
    """One stored word: `place` names it, `guard` is when it is stored, `index` the word's signed 32-bit number in the
    buffer behind the pointer at `parameter`; the lemma `guard` => 0 <= index holds by the extents' range.
    """

    place: str
    parameter: int
    guard: Term
    index: Term
    address: Term
    value: Term


class Expected:
    """Operand words by place. `inputs` are the words of the decoded input rows, where the layer reads planes."""

    def __init__(self, contract: LayerContract, arithmetic: Arithmetic, inputs: Rows | None = None) -> None:
        self.contract = contract
        self.arithmetic = arithmetic
        self._inputs = inputs
        self._rows: dict[Source, list[list[Sequence[Term]]]] = {}

    # ------------------------------------------------------------------------------------------------- operands

    def a(self, row: PhaseRow) -> dict[tuple[int, int], tuple[Term, ...]] | None:
        """Fragments of A by (m-tile, k step); None where any words will do (tokens that the prologue staged), and
        where the input rows are not known yet.
        """
        if isinstance(row.a, Shared) or (isinstance(row.a, InputNorm) and self._inputs is None):
            return None
        if isinstance(row.a, Derived) and row.a.kind == "merge":
            return self._merged(row, row.a.phase)
        first = 4 * row.a.plane if isinstance(row.a, InputNorm) else 0
        relu = isinstance(row.a, Derived) and row.a.kind == "relu-pack"
        rows = self._row_words(row.a, row.shape[0] // 16)
        packed = self.arithmetic.packed
        return {
            (m, s): tuple(
                packed(rows[m][i & 1][first + 4 * s + (i >> 1)], rows[m][i & 1][first + 4 * s + (i >> 1) + 2], relu)
                for i in range(4)
            )
            for m in range(row.shape[0] // 16)
            for s in range(row.shape[2] // 32)
        }

    def b(self, row: PhaseRow) -> dict[tuple[int, int], tuple[Term, ...]]:
        """Fragments of B by (n-tile, k step)."""
        steps, tiles = row.shape[2] // 32, row.shape[1] // 8
        places = [(n, s) for n in range(tiles) for s in range(steps)]
        make = self.arithmetic
        if isinstance(row.b, Weights):
            at = row.b.at
            return {(n, s): tuple(make.weight(at, steps, n, s, w) for w in (0, 1)) for n, s in places}
        assert isinstance(row.b, Derived)
        phase = row.b.phase
        if row.b.kind == "transpose":
            return {(n, s): tuple(make.packed(*self._transposed(phase, n, s, w)) for w in (0, 1)) for n, s in places}
        rows = self._row_words(row.b, tiles // 2)
        return {
            (n, s): tuple(
                make.packed(rows[n >> 1][n & 1][4 * s + w], rows[n >> 1][n & 1][4 * s + w + 2]) for w in (0, 1)
            )
            for n, s in places
        }

    def _transposed(self, phase: int, n: int, s: int, w: int) -> tuple[Term, Term]:
        first, second = (self.arithmetic.transposed(self.arithmetic.cell(phase, 2 * s + j, w, n)) for j in (0, 1))
        return first, second

    def c(self, row: PhaseRow) -> dict[tuple[int, int], tuple[Term, ...]] | None:
        """Seeds by (m-tile, n-tile); None where they are input rows that are not known yet."""
        if isinstance(row.c, InputResidual) and self._inputs is None:
            return None
        m_tiles, n_tiles = row.shape[0] // 16, row.shape[1] // 8
        return {
            (m, n): tuple(self._seed(row.c, m_tiles, m, half, n) for half in (0, 1))
            for m in range(m_tiles)
            for n in range(n_tiles)
        }

    def _seed(self, source: Source, m_tiles: int, m: int, half: int, n: int) -> Term:
        make = self.arithmetic
        match source:
            case Zero():
                return make.terms.constant(0, 32)
            case Columns(at, _):
                return make.columns(at, n)
            case Bias(at, _):
                return make.score_bias(at, m_tiles, m, half, n)
            case Residual(phase, table):
                return make.residual(make.cell(phase, m, half, n), None if table is None else make.columns(table, n))
            case InputResidual(_, table):
                assert self._inputs is not None
                return make.residual(self._inputs[m, half][n], make.columns(table, n))
        raise AssertionError(source)

    def _row_words(self, source: Source, m_tiles: int) -> list[list[Sequence[Term]]]:
        """Words before the pack, by m-tile, half and n-tile."""
        if source not in self._rows or len(self._rows[source]) < m_tiles:
            self._rows[source] = [[self._row(source, m, half) for half in (0, 1)] for m in range(m_tiles)]
        return self._rows[source]

    def _row(self, source: Source, m: int, half: int) -> Sequence[Term]:
        make = self.arithmetic
        if isinstance(source, InputNorm):
            assert self._inputs is not None
            words = self._inputs[m, half]
            return make.norm(words, [make.columns(source.gain, n) for n in range(len(words))])
        assert isinstance(source, Derived)
        columns = self.contract.phases[source.phase - 1].shape[1]
        cells = [make.cell(source.phase, m, half, n) for n in range(columns // 8)]
        match source.kind:
            case "norm":
                assert source.gain is not None
                return make.norm(cells, [make.columns(source.gain, n) for n in range(len(cells))])
            case "softmax":
                return make.softmax(cells)
            case "activation":
                return [make.activation(word) for word in cells]
        return cells

    def _merged(self, row: PhaseRow, phase: int) -> dict[tuple[int, int], tuple[Term, ...]]:
        """The 2x2 merge: k step = slices*(2dy + dx) + slice, register (y >> 2) + 2*word of token row y = dy, 4 + dy
        [D 11, 36].
        """
        make = self.arithmetic
        slices = self.contract.phases[phase - 1].shape[1] // 32

        def word(y: int, plane: int, w: int) -> Term:
            cells = [make.cell(phase, y >> 1, y & 1, 4 * plane + n) for n in (w, w + 2)]
            return make.packed(cells[0], cells[1])

        found: dict[tuple[int, int], tuple[Term, ...]] = {}
        for m in range(row.shape[0] // 16):
            for dy in (0, 1):
                for dx in (0, 1):
                    for plane in range(slices):
                        found[m, slices * (2 * dy + dx) + plane] = tuple(
                            make.merged(word(y, plane, w), word(y + 2, plane, w), dx)
                            for w in (0, 1)
                            for y in (8 * m + dy, 8 * m + dy + 4)
                        )
        return found

    # ------------------------------------------------------------------------------------------------- stores

    def stores(self, rule: StoreRule) -> list[ExpectedStore]:
        """Every word that the stores of a rule write."""
        merged = rule.layout == "merged planes"
        row = self.contract.phases[rule.phase - 1]
        offset = self.contract.buffer(rule.buffer).offset
        make, terms = self.arithmetic, self.arithmetic.terms
        ex, ey, x0, y0 = self._geometry(merged)
        columns = terms.constant(8, 32)
        plane_words = terms.multiply(terms.multiply(columns, ex, 32), ey, 32)
        found = []
        for m in range(row.shape[0] // 16):
            for half in (0, 1):
                places = zip((x0, y0), _token(m, half, merged), strict=True)
                x, y = (terms.add(origin, terms.known(step, 32), 32) for origin, step in places)
                guard = terms.conjunction(self._inside(v, e, merged) for v, e in ((x, ex), (y, ey)))
                at = terms.multiply(columns, terms.add(terms.multiply(ex, y, 32), x, 32), 32)
                for plane in range(rule.planes):
                    for w in (0, 1):
                        lane = terms.known(((i & 3) + 4 * w for i in range(32)), 32)
                        base = terms.multiply(plane_words, terms.constant(plane, 32), 32)
                        index = terms.add(terms.add(at, lane, 32), base, 32)
                        cells = [make.cell(rule.phase, m, half, 4 * plane + n) for n in (w, w + 2)]
                        place = f"{rule.buffer}: plane {plane}, m-tile {m}, half {half}, word {w}"
                        found.append(self._store(place, offset, guard, index, make.packed(cells[0], cells[1])))
        return found

    def _store(self, place: str, parameter: int, guard: Term, index: Term, value: Term) -> ExpectedStore:
        terms = self.arithmetic.terms
        wide = terms.multiply(terms.resized(index, 32, 64, True), terms.constant(4, 64), 64)
        address = terms.add(wide, terms.make("param", parameter, 8), 64)
        return ExpectedStore(place, parameter, guard, index, address, value)

    def _inside(self, value: Term, extent: Term, halved: bool) -> Term:
        """0 <= value < extent; halved extents stay below 2^31, so that one unsigned comparison says it."""
        terms = self.arithmetic.terms
        if halved:
            return terms.compare("lt", "u32", value, extent, 32)
        low = terms.compare("ge", "s32", value, terms.constant(0, 32), 32)
        return terms.conjunction((low, terms.compare("lt", "s32", value, extent, 32)))

    def _geometry(self, halved: bool) -> tuple[Term, Term, Term, Term]:
        """Extents and the block's first token; halved: of the merged tokens."""
        terms, launch = self.arithmetic.terms, self.contract.launch
        found = []
        for axis in (0, 1):
            extent = terms.make("param", launch.extents_offset + 4 * axis, 4)
            shift = terms.resized(terms.make("param", launch.shift_offset + 2 * axis, 2), 16, 32, False)
            block = terms.make("special", f"%ctaid.{'xy'[axis]}")
            origin = terms.multiply(terms.constant(launch.tile[axis], 32), block, 32)
            found.append((extent, terms.add(origin, shift, 32, -1)))
        (ex, x0), (ey, y0) = found
        if not halved:
            return ex, ey, x0, y0
        one = terms.constant(1, 32)
        ex, ey = (terms.shifted("shr", e, one, 32, False) for e in (ex, ey))
        x0, y0 = (terms.shifted("shr", o, one, 32, True) for o in (x0, y0))
        return ex, ey, x0, y0


def _token(m: int, half: int, merged: bool) -> tuple[list[int], list[int]]:
    """x and y in the block of each lane's row 16m + 8half + g: row = 8y + x; merged rows [D 12]."""
    rows = [16 * m + 8 * half + (lane >> 2) for lane in range(32)]
    if not merged:
        return [r & 7 for r in rows], [r >> 3 for r in rows]
    return [(r >> 1) & 3 for r in rows], [2 * (r >> 3) + (r & 1) for r in rows]
