"""Instructions and helpers that move values between lanes.

They take terms from lane to lane by the tables of `layouts`; a product's element is the term of its row, its column
and its C element. Row and column may change places: each pair of factors commutes, their order is that of k, and WMMA's
transposition is bit exact (docs/reference/facts.md), so the element is the same. An exchange is only understood in a
block that all lanes execute together; anywhere else the instruction is an effect, and a helper is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import itemgetter

from zluda_rr.ptx import Statement

from .arithmetic import convert_table, gather
from .layouts import (
    into_order,
    nvidia_accumulator,
    nvidia_column,
    nvidia_row,
    out_of_order,
    transposed,
    wmma_line,
    wmma_result,
)
from .machine import Handler, Machine
from .memory import Helper, effect_handler
from .operands import Layout
from .problem import NotShown
from .rows import Items, Row, Rows
from .terms import LANES, Terms

_PRODUCT = ("sync", "aligned", "m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16")
_FULL = 0xFFFF_FFFF
_Pick = Callable[[Items], tuple[int, ...]]


def _picker(places: Sequence[tuple[int, int]]) -> _Pick:
    """Picks (word, lane) places out of the concatenated rows of an operand."""
    return itemgetter(*[word * LANES + lane for word, lane in places])


class Warp:
    """The lane tables, made once for a validation, and the helpers' meaning."""

    def __init__(self, terms: Terms, rows: Rows) -> None:
        self._terms = terms
        self._on = rows
        self._line: dict[Hashable, int] = {}
        self._element: dict[Hashable, int] = {}
        lanes, sides = range(LANES), (0, 1)
        self._rows = [_picker(nvidia_row(i)) for i in range(16)]
        self._columns = [_picker(nvidia_column(i)) for i in range(8)]
        self._lines = [_picker(wmma_line(i)) for i in range(16)]
        own = [[[nvidia_accumulator(h, lane, s) for lane in lanes] for s in sides] for h in sides]
        self._own = [[_pair(places) for places in half] for half in own]
        result = [[[wmma_result(q, lane, s) for lane in lanes] for s in sides] for q in range(4)]
        self._result = [[_pair(places) for places in pair] for pair in result]
        sources = [[transposed(lane, side) for lane in lanes] for side in sides]
        self._transpose = [_picker([(half, lane) for lane, half in places]) for places in sources]
        self._into = [_picker([into_order(x, lane) for lane in lanes]) for x in sides]
        self._out = [_picker([out_of_order(x, lane) for lane in lanes]) for x in sides]
        self._other_half = itemgetter(*[lane ^ 16 for lane in lanes])
        self._known: dict[Hashable, list[int]] = {}
        self._products: dict[Hashable, list[Row]] = {}
        self.helpers = self._helpers()

    # -------------------------------------------------------------------------------------------------------- products

    def _line_terms(self, kind: str, picks: Sequence[_Pick], rows: Sequence[Row]) -> list[int]:
        """Terms of the rows (or columns) of an operand, remembered by the operand."""
        key = (kind, *rows)
        found = self._known.get(key)
        if found is None:
            whole = self._flat(rows)
            found = self._known[key] = [self._line_of(pick(whole)) for pick in picks]
        return found

    def _line_of(self, items: tuple[int, ...]) -> int:
        line = self._line.get(items)
        if line is None:
            line = self._line[items] = self._terms.new("items: line of k32", items, uniform=True) * LANES
        return line

    def _flat(self, rows: Sequence[Row]) -> list[int]:
        return [item for row in rows for item in self._on.items(row)]

    def product(self, rows: Sequence[Row]) -> list[Row]:
        """mma of {a0, a1, a2, a3}, {b0, b1}, {c0, c1}: both accumulator words."""
        lines = self._line_terms("row", self._rows, rows[:4])
        columns = self._line_terms("column", self._columns, rows[4:6])
        return [self._words(self._own[half], lines, columns, rows[6 + half]) for half in (0, 1)]

    def _words(self, pairs: Sequence[tuple[_Pick, _Pick]], lines: list[int], columns: list[int], seeds: Row) -> Row:
        on, halves = self._on, []
        for (row, column), part in zip(pairs, (self._terms.low, self._terms.high), strict=True):
            values = on.items(on.apply(part, (seeds,)))
            ends = zip(row(lines), column(columns), values, strict=True)
            keys = [(a, b, c) if a <= b else (b, a, c) for a, b, c in ends]
            halves.append(on.named(self._element, keys, "k32 product of e4m3 with f16 sum"))
        return on.apply(self._terms.join, halves)

    def wmma(self, rows: Sequence[Row]) -> list[Row]:
        """Two k16 steps of WMMA on {r0, r1}, {r2, r3} by {c0, c1}, {c2, c3}, and four words of C: four pairs."""
        key = tuple(rows)
        found = self._products.get(key)
        if found is None:
            lines = self._line_terms("line", self._lines, rows[:4])
            columns = self._line_terms("line", self._lines, rows[4:8])
            words = [self._words(self._result[q], lines, columns, rows[8 + q]) for q in range(4)]
            found = self._products[key] = words
        return found

    def transpose(self, row: Row) -> Row:
        """movmatrix.sync.aligned.m8n8.trans.b16."""
        on, terms = self._on, self._terms
        whole = self._flat([on.apply(part, (row,)) for part in (terms.low, terms.high)])
        return on.apply(terms.join, [on.of(pick(whole)) for pick in self._transpose])

    # --------------------------------------------------------------------------------------------------------- helpers

    def _helpers(self) -> dict[str, tuple[int, Helper]]:
        """Functions of kernels/fragment_consumer.hip: (number of words, meaning)."""
        found: dict[str, tuple[int, Helper]] = {}
        for pair in range(4):
            found[f"zrr_fc_product{pair}"] = 12, _exchange(partial(self._pair_of, pair))
            found[f"zrr_fc_product_zero{pair}"] = 8, _exchange(partial(self._pair_of, pair))
        for member in (0, 1):
            found[f"zrr_fc_lift{member}"] = 2, _exchange(partial(self._moved, self._into[member]))
            found[f"zrr_fc_lower{member}"] = 2, _exchange(partial(self._moved, self._out[member]))
        found["zrr_fc_half"] = 1, _exchange(partial(self._moved, self._other_half))
        found["zrr_fc_pack"] = 2, self._pack("rn", "satfinite", "e4m3x2", "f16x2")
        found["zrr_fc_pack_relu"] = 2, self._pack("rn", "satfinite", "relu", "e4m3x2", "f16x2")
        return found

    def _pair_of(self, pair: int, rows: Sequence[Row]) -> Row:
        """A pair of result VGPRs; C is 0 where it is not given."""
        zeros = (self._terms.constant(0),) * (12 - len(rows))
        return self.wmma((*rows, *zeros))[pair]

    def _moved(self, pick: _Pick, rows: Sequence[Row]) -> Row:
        return self._on.of(pick(self._flat(rows)))

    def _pack(self, *modifiers: str) -> Helper:
        """A conversion of both words, the first's result in the low half."""
        convert, join = convert_table(self._terms, modifiers), self._terms.join

        def run(machine: Machine, statement: Statement, rows: Sequence[Row]) -> Row:
            return machine.rows.apply(join, [machine.rows.apply(convert, (row,)) for row in rows])

        return run

    # ---------------------------------------------------------------------------------------------------- instructions

    def handler(self, machine: Machine, statement: Statement, layout: Layout) -> Handler | None:
        """Handler of mma, movmatrix and shfl where they are understood."""
        if (
            statement.opcode == "mma"
            and statement.modifiers == _PRODUCT
            and layout.structure == "{rr} {rrrr} {rr} {rr}"
        ):
            return self._moving(machine, statement, layout, self.product)
        movmatrix = {"sync", "aligned", "m8n8", "trans", "b16"}
        if statement.opcode == "movmatrix" and set(statement.modifiers) == movmatrix:
            return self._moving(machine, statement, layout, lambda rows: [self.transpose(rows[0])])
        if statement.opcode == "shfl" and "sync" in statement.modifiers and len(layout.inputs) == 4:
            return self._shuffle(machine, statement, layout)
        return None

    def _moving(
        self, machine: Machine, statement: Statement, layout: Layout, compute: Callable[[list[Row]], list[Row]]
    ) -> Handler:
        rows, other = gather(machine, layout), effect_handler(machine, statement, layout)

        def run(statement: Statement) -> None:
            if statement.guard is not None:
                other(statement)
                return
            for word, row in zip(layout.outputs, compute(rows(statement)), strict=True):
                machine.assign(statement, statement.words[word], row)

        return run

    def _shuffle(self, machine: Machine, statement: Statement, layout: Layout) -> Handler:
        """shfl.sync by constants, of all lanes (PTX ISA 9.7.9.6)."""
        rows, other = gather(machine, layout), effect_handler(machine, statement, layout)
        mode, value, on = statement.modifiers[1], self._terms.value, self._on
        answers = self._terms.constant(0) * LANES, self._terms.constant(1) * LANES

        def run(statement: Statement) -> None:
            data, *control = rows(statement)
            known = [[value(item // LANES) for item in on.items(row)] for row in control]
            if statement.guard is not None or not machine.together[machine.block] or known[2] != [_FULL] * LANES:
                other(statement)
                return
            sources = [_source(mode, lane, known[0][lane], known[1][lane]) for lane in range(LANES)]
            if None in sources:
                other(statement)
                return
            found = [source for source in sources if source is not None]
            values = on.items(data)
            moved, inside = [values[lane] for lane, _ in found], [answers[ok] for _, ok in found]
            results = [on.of(moved), on.of(inside)]
            for word, row in zip(layout.outputs, results, strict=False):
                machine.assign(statement, statement.words[word], row)

        return run


def _pair(places: Sequence[tuple[int, int]]) -> tuple[_Pick, _Pick]:
    return itemgetter(*[row for row, _ in places]), itemgetter(*[column for _, column in places])


def _exchange(compute: Callable[[Sequence[Row]], Row]) -> Helper:
    """A helper that looks at other lanes: all must be there."""

    def run(machine: Machine, statement: Statement, rows: Sequence[Row]) -> Row:
        if statement.guard is not None or not machine.together[machine.block]:
            raise NotShown(f"s{statement.number}: an exchange where not every lane of the warp is sure to be")
        return compute(rows)

    return run


def _source(mode: str, lane: int, by: int | None, clamp: int | None) -> tuple[int, bool] | None:
    """(lane that a lane reads, whether it is in range); None where the operands are not known."""
    if by is None or clamp is None:
        return None
    by, segment, limit = by & 31, clamp >> 8 & 31, clamp & 31
    first = lane & segment
    last = first | limit & ~segment & 31
    match mode:
        case "up":
            source, inside = lane - by, lane - by >= last
        case "down":
            source, inside = lane + by, lane + by <= last
        case "bfly":
            source, inside = lane ^ by, lane ^ by <= last
        case "idx":
            source = first | by & ~segment & 31
            inside = source <= last
        case _:
            return None
    return (source if inside else lane), inside
