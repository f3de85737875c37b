"""Recovers the sources of a phase's operands, and with them what each tile of the phase is called.

A phase's grid numbers its tiles in the order in which they appear, which another compiler may change. Their true
numbers follow from what the fragments hold: n-tiles from weight addresses, m-tiles from the rows of the
accumulators or shared bytes that A was made of. Phases must be added in program order, because later ones refer to
the cells of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zluda_rr.ptx import Body, Register, Vector

from . import origins as op
from .inputs import InputRows, Part, parameter_of, part_of
from .kinds import kind_of
from .lanes import LANES, Atom
from .origins import Leaf, Origins, Summary
from .phases import Phase
from .sources import Bias, Columns, Derived, Residual, Shared, Source, Unknown, Weights, Zero
from .values import Access, Value, Values, element_bytes

_BY_LANE = tuple(range(LANES))
_BY_COLUMN = tuple(lane & 3 for lane in range(LANES))


class Cell(NamedTuple):
    """One accumulator register: half 0 is row g of the m-tile, half 1 row g + 8."""

    phase: int
    m: int
    half: int
    n: int


@dataclass(frozen=True, slots=True)
class Row:
    """A phase with its tiles named and its sources recovered."""

    phase: Phase
    a: Source
    b: Source
    c: Source


class Operands:
    """Source recovery over one body.

    `weights` is the parameter offset of the weight image's pointer, None to accept any pointer parameter.
    """

    def __init__(self, body: Body, values: Values, origins: Origins, weights: int | None = None) -> None:
        self._body = body
        self._values = values
        self._origins = origins
        self._weights = weights
        self._cells: dict[Leaf, Cell] = {}
        self._accesses: dict[int, Access | None] = {}
        self._offsets: dict[Leaf, tuple[tuple[int, ...], int] | None] = {}
        self._inputs = InputRows()

    # --------------------------------------------------------------------------------------------- phases

    def add(self, phase: Phase, rows: Shared | None = None) -> Row:
        """Recover one phase; `rows` is a contract's order of m-tiles for an A that comes from shared memory."""
        if phase.problem is not None:
            unknown = Unknown("no grid")
            return Row(phase, unknown, unknown, unknown)
        a, m_labels = self._a(phase, rows)
        b, n_labels = self._b(phase)
        named = phase.relabelled(m_labels or range(phase.m_tiles), n_labels or range(phase.n_tiles))
        c = self._c(named)
        for (m, n), chain in named.chains.items():
            for half, value in enumerate(chain[-1].d):
                self._cells[self._accumulator(value)] = Cell(phase.index, m, half, n)
        return Row(named, a, b, c)

    def _accumulator(self, value: Value) -> Leaf:
        return next(self._origins.expand(self._origins.of(value).full))

    def cells(self, bits: int) -> list[Cell | Leaf]:
        """Accumulator leaves of a set as cells; as leaves where they belong to no finished phase."""
        found = [leaf for leaf in self._origins.expand(bits) if leaf.kind == "accumulator"]
        return [self._cells.get(leaf, leaf) for leaf in found]

    def loads(self, bits: int) -> list[Leaf]:
        """Loaded words of a set."""
        return [leaf for leaf in self._origins.expand(bits) if leaf.kind == "load"]

    # --------------------------------------------------------------------------------------------- addresses

    def access(self, leaf: Leaf) -> Access | None:
        """The memory access behind a loaded word."""
        if leaf.statement not in self._accesses:
            self._accesses[leaf.statement] = self._values.access(self._body[leaf.statement])
        return self._accesses[leaf.statement]

    def image_offsets(self, leaf: Leaf) -> tuple[tuple[int, ...], int] | None:
        """Byte offsets per lane in the weight image and the width of a loaded word, None for another address."""
        if leaf not in self._offsets:
            self._offsets[leaf] = self._image_offsets(leaf)
        return self._offsets[leaf]

    def _image_offsets(self, leaf: Leaf) -> tuple[tuple[int, ...], int] | None:
        access = self.access(leaf)
        if access is None or not access.exact or not self._is_weights(access.root):
            return None
        width = element_bytes(self._body[leaf.statement])
        return tuple(o + width * leaf.word for o in access.offset.signed()), width

    def _is_weights(self, root: Atom | None) -> bool:
        if root is None or root.kind != "parameter":
            return False
        return self._weights is None or root.number == self._weights

    def strided(self, leaves: Iterable[Leaf], pattern: Sequence[int], stride: int) -> frozenset[int] | None:
        """Bytes that lane 0 reads through words whose addresses all move by stride*pattern[lane], else None."""
        found: set[int] = set()
        for leaf in leaves:
            placed = self.image_offsets(leaf)
            if placed is None:
                return None
            offsets, width = placed
            if any(o != offsets[0] + stride * p for o, p in zip(offsets, pattern, strict=True)):
                return None
            found.update(range(offsets[0], offsets[0] + width))
        return frozenset(found)

    # --------------------------------------------------------------------------------------------- A

    def _a(self, phase: Phase, rows: Shared | None) -> tuple[Source, list[int] | None]:
        words = {
            (m, step, i): value
            for m in range(phase.m_tiles)
            for step in range(phase.k_steps)
            for i, value in enumerate(phase.a(m, step))
        }
        infos = {key: self._origins.of(value) for key, value in words.items()}
        if all(self.cells(info.full) == [] and self.loads(info.direct) for info in infos.values()):
            if all(info.ops & op.RSQRT for info in infos.values()):
                return self._a_input(phase, words)
            return self._shared_rows(phase, infos, rows)
        kind, of = self._derived_from(infos.values())
        if isinstance(of, str):
            return Unknown(of), None
        if kind == "merge":
            return Derived(kind, of), None
        return self._a_packed(phase, kind, of, words, infos)

    def _derived_from(self, infos: Iterable[Summary]) -> tuple[str, int | str]:
        """(kind, producing phase), or ("", reason)."""
        kinds: set[str] = set()
        phases: set[int] = set()
        for info in infos:
            cells = self.cells(info.direct)
            if not cells or any(isinstance(cell, Leaf) for cell in cells):
                return "", "an operand word depends on no finished phase"
            phases.update(cell.phase for cell in cells if isinstance(cell, Cell))
            kinds.add(kind_of(info))
        if len(kinds) != 1 or len(phases) != 1:
            return "", f"mixed: {', '.join(sorted(kinds))} of D{', D'.join(map(str, sorted(phases)))}"
        return kinds.pop(), phases.pop()

    def _a_packed(
        self,
        phase: Phase,
        kind: str,
        of: int,
        words: dict[tuple[int, int, int], Value],
        infos: dict[tuple[int, int, int], Summary],
    ) -> tuple[Source, list[int] | None]:
        labels = []
        for m in range(phase.m_tiles):
            rows = {
                cell.m
                for key, info in infos.items()
                if key[0] == m
                for cell in self.cells(info.direct)
                if isinstance(cell, Cell)
            }
            if len(rows) != 1:
                return Unknown(f"{kind}(D{of}) with rows of several m-tiles in one fragment"), None
            labels.append(rows.pop())
        if sorted(labels) != list(range(phase.m_tiles)):
            return Unknown(f"{kind}(D{of}) of m-tiles {labels}"), None
        gains: set[int] = set()
        for (m, step, i), value in words.items():
            tiles = (4 * step + (i >> 1), 4 * step + (i >> 1) + 2)
            wanted = [Cell(of, labels[m], i & 1, n) for n in tiles]
            if self._halves(value) != wanted:
                return Unknown(f"{kind}(D{of}) with other cells than n-tiles {tiles[0]}, {tiles[1]} in word {i}"), None
            if kind == "norm":
                gains.add(self._table(self.loads(infos[m, step, i].direct), tiles))
        if len(gains) > 1 or -1 in gains:
            return Unknown(f"norm(D{of}) with a gain that is not one per-column table"), None
        return Derived(kind, of, gains.pop() if gains else None), labels

    def _a_input(self, phase: Phase, words: Mapping[tuple[int, int, int], Value]) -> tuple[Source, list[int] | None]:
        halves: dict[tuple[int, int, int], tuple[Part, Part]] = {}
        gains = set()
        for key, value in words.items():
            low_high = self._half_summaries(value)
            if low_high is None:
                return Unknown(f"A word {value.register} is not two halves"), None
            parts = [self._part(info) for info in low_high]
            halves[key] = parts[0], parts[1]
            tiles = (4 * key[1] + (key[2] >> 1), 4 * key[1] + (key[2] >> 1) + 2)
            gains.add(self._table([leaf for part in parts for leaf in part.image], tiles))
        parameter = self._input_parameter(part for pair in halves.values() for part in pair)
        if parameter is None or len(gains) != 1 or -1 in gains:
            return Unknown("norm of loaded words that are no input with one gain"), None
        return self._inputs.norm(phase, halves, parameter, gains.pop())

    def _part(self, info: Summary) -> Part:
        every = self.loads(info.full)
        return part_of(info, self.loads(info.direct), every, lambda leaf: self.image_offsets(leaf) is not None)

    def _input_parameter(self, parts: Iterable[Part]) -> int | None:
        return parameter_of(self.access(leaf) for part in parts for leaf in part.data)

    def _table(self, loads: Sequence[Leaf], tiles: Sequence[int]) -> int:
        """Offset of the per-column table of which `loads` are the words of these n-tiles, -1 where they are not."""
        read = self.strided(loads, _BY_COLUMN, 4)
        if not read:
            return -1
        at = min(read) - 16 * min(tiles)
        return at if read == {at + 16 * n + j for n in tiles for j in range(4)} else -1

    def _halves(self, value: Value) -> list[Cell | Leaf] | None:
        """The accumulator cells behind the low and the high 16 bits of a packed word."""
        parts = self._half_summaries(value)
        found = [cell for part in parts or () for cell in self.cells(part.direct)]
        return found if len(found) == 2 else None

    def _half_summaries(self, value: Value) -> tuple[Summary, Summary] | None:
        """What the low and the high 16 bits of a packed word are made of."""
        if len(value.defs) != 1:
            return None
        statement = self._body[value.defs[0]]
        source = statement.operands[-1] if statement.opcode == "mov" else None
        if not isinstance(source, Vector) or len(source.elements) != 2:
            return None
        low, high = source.elements
        if not isinstance(low, Register) or not isinstance(high, Register):
            return None
        of = self._origins.of
        number = statement.number
        return of(self._values.value(number, low.name)), of(self._values.value(number, high.name))

    def _shared_rows(
        self, phase: Phase, infos: dict[tuple[int, int, int], Summary], rows: Shared | None
    ) -> tuple[Source, list[int] | None]:
        found: dict[tuple[int, int], tuple[int, int]] = {}
        arrays = set()
        for (m, _, i), info in infos.items():
            leaves = self.loads(info.direct)
            access = self.access(leaves[0])
            if (
                len(leaves) != 1
                or access is None
                or not access.exact
                or access.root is None
                or access.root.kind != "shared"
            ):
                return Unknown(f"A word from s{leaves[0].statement}, not one word of a shared array"), None
            offsets = [o + 4 * leaves[0].word - 16 * (i >> 1) for o in access.offset.signed()]
            first, step = offsets[0], offsets[4] - offsets[0]
            if any(o != first + step * (lane >> 2) + 4 * (lane & 3) for lane, o in enumerate(offsets)):
                return Unknown(f"A word of s{leaves[0].statement} is not in slot order"), None
            if found.setdefault((m, i & 1), (first, step)) != (first, step):
                return Unknown(f"A fragment of s{leaves[0].statement} mixes rows"), None
            arrays.add(access.root.name)
        if len(arrays) != 1 or phase.k_steps != 1:
            return Unknown("A from several shared arrays"), None
        pairs = [(found[m, 0], found[m, 1]) for m in range(phase.m_tiles)]
        labels = _matching(pairs, rows)
        ordered = [pairs[labels.index(m)] for m in range(phase.m_tiles)]
        return Shared(arrays.pop(), tuple(row for pair in ordered for row in pair)), labels

    # --------------------------------------------------------------------------------------------- B

    def _b(self, phase: Phase) -> tuple[Source, list[int] | None]:
        words = {
            (n, step, w): value
            for n in range(phase.n_tiles)
            for step in range(phase.k_steps)
            for w, value in enumerate(phase.b(n, step))
        }
        infos = {key: self._origins.of(value) for key, value in words.items()}
        if all(self.cells(info.full) == [] and self.loads(info.direct) for info in infos.values()):
            return self._b_weights(phase, infos)
        kind, of = self._derived_from(infos.values())
        if isinstance(of, str):
            return Unknown(of), None
        return self._b_derived(phase, kind, of, words)

    def _b_weights(self, phase: Phase, infos: dict[tuple[int, int, int], Summary]) -> tuple[Source, list[int] | None]:
        at_word: dict[tuple[int, int, int], int] = {}
        for key, info in infos.items():
            leaves = self.loads(info.direct)
            read = self.strided(leaves, _BY_LANE, 16)
            if read is None or len(read) != 4:
                return Unknown(f"B word from s{leaves[0].statement}, not a lane's word of the weight image"), None
            at_word[key] = min(read)
        base = min(at_word.values())
        pairs, steps = (phase.n_tiles + 1) // 2, phase.k_steps
        for order in ("k-inner", "n-inner"):
            labels = []
            for n in range(phase.n_tiles):
                tile, inside = divmod(at_word[n, 0, 0] - base, 512)
                labels.append(2 * (tile // steps if order == "k-inner" else tile % pairs) + inside // 8)
            wanted = {
                (n, s, w): base
                + 512 * (steps * (label >> 1) + s if order == "k-inner" else pairs * s + (label >> 1))
                + 8 * (label & 1)
                + 4 * w
                for n, label in enumerate(labels)
                for s in range(steps)
                for w in (0, 1)
            }
            if wanted == at_word and sorted(labels) == list(range(phase.n_tiles)):
                return Weights(base, 256 * phase.n_tiles * steps, order), labels
        return Unknown(f"B words at {base} and after in no known tile order"), None

    def _b_derived(
        self, phase: Phase, kind: str, of: int, words: dict[tuple[int, int, int], Value]
    ) -> tuple[Source, list[int] | None]:
        labels: list[int] = [-1] * phase.n_tiles
        for (n, step, w), value in words.items():
            halves = self._halves(value)
            if halves is None or not all(isinstance(cell, Cell) for cell in halves):
                return Unknown(f"{kind}(D{of}) in words that are not two halves"), None
            low, high = (cell for cell in halves if isinstance(cell, Cell))
            if kind == "transpose":
                label, right = low.n, low == Cell(of, 2 * step, w, low.n) and high == Cell(of, 2 * step + 1, w, low.n)
            else:
                label = 2 * low.m + low.half
                right = low == Cell(of, low.m, low.half, 4 * step + w) and high == Cell(
                    of, low.m, low.half, 4 * step + w + 2
                )
            if not right or labels[n] not in (-1, label):
                return Unknown(f"{kind}(D{of}) with other cells than the layer's order"), None
            labels[n] = label
        if sorted(labels) != list(range(phase.n_tiles)):
            return Unknown(f"{kind}(D{of}) of n-tiles {labels}"), None
        return Derived(kind, of), labels

    # --------------------------------------------------------------------------------------------- C

    def _c(self, phase: Phase) -> Source:
        seeds = {(m, n, half): phase.c(m, n, half) for m, n in phase.chains for half in (0, 1)}
        if all(self._values.of(value).is_zero for value in seeds.values()):
            return Zero()
        infos = {key: self._origins.of(value) for key, value in seeds.items()}
        if all(not self.cells(info.full) for info in infos.values()):
            return self._c_weights(phase, infos)
        return self._c_residual(infos)

    def _c_weights(self, phase: Phase, infos: dict[tuple[int, int, int], Summary]) -> Source:
        words = {key: self.loads(info.direct) for key, info in infos.items()}
        tables = {self._table(loads, (key[1],)) for key, loads in words.items()}
        if len(tables) == 1 and -1 not in tables:
            return Columns(tables.pop(), 16 * phase.n_tiles)
        if all(info.ops & op.DECODE for info in infos.values()):
            return self._c_input(infos)
        bases = set()
        for (m, n, half), loads in words.items():
            read = self.strided(loads, _BY_LANE, 16)
            if not read or len(read) != 4:
                place = f"s{loads[0].statement}" if loads else "no load"
                return Unknown(f"C word from {place}, neither columns nor a bias table")
            bases.add(min(read) - 512 * (phase.m_tiles * (n >> 1) + m) - 8 * (n & 1) - 4 * half)
        if len(bases) != 1:
            return Unknown("C words of a bias table in another order")
        return Bias(bases.pop(), 128 * phase.m_tiles * 2 * phase.n_tiles)

    def _c_input(self, infos: Mapping[tuple[int, int, int], Summary]) -> Source:
        parts = {key: self._part(info) for key, info in infos.items()}
        tables = {self._table(part.image, (key[1],)) for key, part in parts.items()}
        parameter = self._input_parameter(parts.values())
        if parameter is None or len(tables) != 1 or -1 in tables:
            return Unknown("C of decoded words that are no input with one table")
        return self._inputs.residual(parts, parameter, tables.pop())

    def _c_residual(self, infos: dict[tuple[int, int, int], Summary]) -> Source:
        phases, tables = set(), set()
        for (m, n, half), info in infos.items():
            cells = self.cells(info.direct)
            cell = cells[0] if len(cells) == 1 else None
            if not isinstance(cell, Cell) or (cell.m, cell.half, cell.n) != (m, half, n) or info.full != info.direct:
                return Unknown(f"C of tile ({m}, {n}) is not one earlier accumulator of the same place")
            if info.ops & ~op.ADD:
                return Unknown(f"C of tile ({m}, {n}) is changed by more than an addition")
            loads = self.loads(info.direct)
            if bool(loads) != bool(info.ops & op.ADD):
                return Unknown(f"C of tile ({m}, {n}) is added to something else than a table")
            phases.add(cell.phase)
            tables.add(self._table(loads, (n,)) if loads else None)
        if len(phases) != 1 or len(tables) != 1 or -1 in tables:
            return Unknown("C of several phases or tables")
        return Residual(phases.pop(), tables.pop())


def _matching(pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]], rows: Shared | None) -> list[int]:
    """Labels that put the row pairs into a contract's order; the order of appearance where they do not fit it."""
    if rows is not None:
        wanted = [(rows.rows[2 * m], rows.rows[2 * m + 1]) for m in range(len(rows.rows) // 2)]
        if sorted(wanted) == sorted(pairs):
            return [wanted.index(pair) for pair in pairs]
    return list(range(len(pairs)))
