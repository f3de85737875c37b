"""Finds the statements that make an operation's results: packs, activations, reciprocals of row sums, stores, loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zluda_rr.ptx import Body, Coordinates, Register, Statement, Vector

from .expressions import Expressions, Parts
from .formulas import Formulas, Meaning
from .operands import Cell, Row
from .origins import Origins
from .sources import Bias, Columns, Derived, InputResidual, Residual, Shared, Weights
from .values import Value, Values

CONTROL = frozenset(("", "bra", "brx", "ret", "exit", "bar", "barrier", "call"))


class Key(NamedTuple):
    """An operation as a statement's mark: its kind and what it acts on."""

    kind: str
    detail: str = ""


OPERANDS = Key("")
"""Belongs to a recognised operand without being an operation of its own (a zero seed, an address)."""

_PACKS = {
    "accumulator": "D{}",
    "activation": "activation of D{}",
    "softmax": "softmax of D{}",
    "transpose": "transpose of D{}",
}
_DEEPEST = 12  # selects, shuffles and packs behind one another; a merge has two
_SURFACE = frozenset(("stencil", "gated", "remainder", "gate", "gate product", "mean", "constant"))


class Markers:
    """Marks of one body whose phases are known."""

    def __init__(self, body: Body, values: Values, origins: Origins, rows: Sequence[Row]) -> None:
        self._body = body
        self._values = values
        self._origins = origins
        self._rows = rows
        self._expressions = Expressions(body, values)
        self._cells = dict(self._accumulators())
        tiles = {row.phase.index: row.phase.n_tiles for row in rows}
        self._formulas = Formulas(self._expressions, self._cells, tiles, self._joined_phase)
        self._insides: dict[int, tuple[int | None, bool, str]] = {}
        self._operand_loads = self._loads_of_operands()
        self._tables = {row.c.table: row for row in rows if isinstance(row.c, Residual | InputResidual)}

    def _accumulators(self) -> Iterator[tuple[tuple[int, int], Cell]]:
        for row in self._rows:
            for (m, n), chain in row.phase.chains.items():
                for half in (0, 1):
                    yield (chain[-1].statement, half), Cell(row.phase.index, m, half, n)

    def _joined_phase(self, register: str, definitions: tuple[int, ...]) -> int:
        summary = self._origins.of(Value(register, definitions))
        phases = set()
        for leaf in self._origins.expand(summary.full):
            if leaf.kind == "accumulator":
                cell = self._cells.get((leaf.statement, leaf.word))
                phases.add(cell.phase if cell is not None else 0)
        return phases.pop() if len(phases) == 1 else 0

    def _loads_of_operands(self) -> dict[int, Key]:
        """Loads of B words and C seeds by the phase they feed."""
        feeds: dict[int, dict[int, set[str]]] = {}
        for row in self._rows:
            phase = row.phase
            if isinstance(row.b, Weights):
                for chain in phase.chains.values():
                    for mma in chain:
                        for value in mma.b:
                            self._feed(feeds, value, phase.index, "B")
            if isinstance(row.a, Shared):
                for mma in phase.mmas:
                    for value in mma.a:
                        self._feed(feeds, value, phase.index, "A")
            if isinstance(row.c, Columns | Bias):
                for chain in phase.chains.values():
                    for value in chain[0].c:
                        self._feed(feeds, value, phase.index, "bias" if isinstance(row.c, Bias) else "C")
        return {statement: _load_key(targets) for statement, targets in feeds.items()}

    def _feed(self, feeds: dict[int, dict[int, set[str]]], value: Value, phase: int, operand: str) -> None:
        for definition in value.defs:
            if self._body[definition].opcode == "ld":
                feeds.setdefault(definition, {}).setdefault(phase, set()).add(operand)

    # --------------------------------------------------------------------------------------------- marks

    def keys(self) -> dict[int, Key]:
        """Statement number -> its operation, for the statements that make the operations' results."""
        keys: dict[int, Key] = {}
        for statement in self._body.statements:
            if statement.instruction is None:
                continue
            key = self._key(statement)
            if key is not None:
                keys[statement.number] = key
        return keys

    def _key(self, statement: Statement) -> Key | None:
        opcode = statement.opcode
        if opcode == "ld":
            return self._operand_loads.get(statement.number)
        if opcode == "st":
            return self._store(statement)
        if opcode == "sust":
            return self._surface_store(statement)
        if opcode not in _RESULTS or not statement.defs:
            return None
        parts = self._expressions.defined(statement.number, statement.defs[0])
        if opcode == "selp" or opcode == "shfl":
            return self._exchange(parts)
        return self._value(opcode, parts)

    def _value(self, opcode: str, parts: Parts) -> Key | None:
        node = self._expressions.nodes[parts[0]]
        if opcode in ("cvt", "mov"):
            word = self._expressions.nodes[parts[0]] if len(parts) == 1 else ()
            if len(parts) == 2 or (word and word[0] in ("e4m3", "relu.e4m3")):
                packed = self._pack(parts)
                return packed if packed is not None or opcode == "cvt" else self._residual(parts)
            return None
        if opcode == "movmatrix":
            meaning = self._formulas.of(self._expressions.halves(parts)[0])
            return Key("V transpose", f"of D{meaning.phase}") if meaning.kind == "transpose" else None
        if node[0] not in ("mul", "add", "sub", "fma"):
            return None
        meanings = [self._formulas.of(part) for part in parts]
        if len({(m.kind, m.phase) for m in meanings}) != 1:
            return None
        return self._named(meanings[0])

    def _named(self, meaning: Meaning) -> Key | None:
        of = f"of D{meaning.phase}"
        if meaning.kind == "activation":
            return Key("clamped-cubic activation", of)
        if meaning.kind == "softmax":
            return Key("cubic-exponent softmax", f"{of}, {meaning.terms} columns")
        if meaning.kind == "norm":
            return Key("RMS norm with gain", f"{of}, {meaning.terms} columns")
        if meaning.kind == "input norm":
            return Key("input norm", f"of the input, {meaning.terms} columns")
        if meaning.kind == "weight":
            return Key("true softmax", f"{of}, {meaning.terms} logits with their maximum")
        if meaning.kind == "stencil":
            return Key(*self._stencil(meaning))
        return self._table_add(meaning)

    def _table_add(self, meaning: Meaning) -> Key | None:
        if meaning.kind not in ("accumulator plus table", "input plus table"):
            return None
        table = self._table_offset(meaning.words)
        seeds = self._tables.get(table)
        if seeds is None:
            return None
        return Key("per-column table add", f"{table} to {_source(meaning)}, C of P{seeds.phase.index}")

    def _residual(self, parts: Parts) -> Key | None:
        """C words of an out-projection. In the MLP the residual rides in the accumulators, and the documents name the
        table alone.
        """
        meanings = [self._formulas.of(part) for part in parts]
        added = {self._table_add(meaning) for meaning in meanings}
        key = added.pop() if len(added) == 1 else None
        if key is None:
            return None
        seeds = self._tables[self._table_offset(meanings[0].words)]
        if isinstance(seeds.a, Derived) and seeds.a.kind == "activation":
            return key
        return Key("residual add", f"of {_source(meanings[0])}, C of P{seeds.phase.index}")

    def _table_offset(self, words: Sequence[int]) -> int | None:
        """Image offset of n-tile 0 of the table that a loaded word belongs to."""
        access = self._values.access(self._body[int(self._expressions.nodes[words[0]][1])])
        if access is None or not access.exact:
            return None
        at = min(access.offset.signed())
        return max((table for table in self._tables if table is not None and table <= at), default=None)

    def _stencil(self, meaning: Meaning) -> tuple[str, str]:
        loads = {int(self._expressions.nodes[word][1]) for word in meaning.words}
        sources = {self._tap_source(self._body[load]) for load in loads}
        kind = f"{sources.pop()} stencil" if len(sources) == 1 else "mixed stencil"
        return kind, f"of {meaning.terms} taps, weights of D{meaning.phase}"

    def _tap_source(self, load: Statement) -> str:
        if load.opcode == "tex":
            return "texture"
        access = self._values.access(load)
        shared = access is not None and access.root is not None and access.root.kind == "shared"
        return "shared" if shared else "global"

    def _packed(self, parts: Parts) -> tuple[bool, Meaning] | None:
        """(relu, meaning) of e4m3 words that all hold the same kind of value."""
        found = set()
        for part in parts:
            operator, *halves = self._expressions.nodes[part]
            if operator == "pack":
                inner = self._packed((int(halves[0]), int(halves[1])))
                if inner is None:
                    return None
                found.add((inner[0], inner[1].kind, inner[1].phase))
                continue
            if operator not in ("e4m3", "relu.e4m3"):
                return None
            for half in halves:
                meaning = self._formulas.of(int(half))
                found.add((operator == "relu.e4m3", meaning.kind, meaning.phase))
        if len(found) != 1:
            return None
        relu, kind, phase = found.pop()
        return relu, Meaning(kind, phase)

    def _pack(self, parts: Parts) -> Key | None:
        packed = self._packed(parts)
        if packed is None:
            return None
        relu, meaning = packed
        if relu:
            return Key("relu-pack", f"of D{meaning.phase}") if meaning.kind == "accumulator" else None
        if meaning.kind == "norm":
            return Key("pack of the norm", f"of D{meaning.phase}")
        if meaning.kind == "input norm":
            return Key("pack of the norm", "of the input")
        template = _PACKS.get(meaning.kind)
        return Key("pack", "of " + template.format(meaning.phase)) if template is not None else None

    def _exchange(self, parts: Parts) -> Key | None:
        """Packed words exchanged between lanes, or accumulators gathered for the lane that owns their row."""
        whole = self._expressions.whole(parts)
        inner, moved, mode = self._inside(whole)
        packed = self._packed((inner,)) if inner is not None else None
        if moved and packed is not None and packed[1].kind == "accumulator" and mode in ("up 4", "down 4"):
            return Key("lane merge", f"of D{packed[1].phase}")
        meaning = self._formulas.of(self._expressions.halves(parts)[0]) if moved else None
        if meaning is not None and meaning.kind == "gathered" and mode == "idx":
            return Key("row gather", f"of D{meaning.phase}")
        return None

    def _inside(self, node: int, depth: int = 0) -> tuple[int | None, bool, str]:
        """(a word behind selects and shuffles, whether a shuffle was among them, its mode and distance)."""
        if node not in self._insides:
            self._insides[node] = self._inside_anew(node, depth) if depth <= _DEEPEST else (None, False, "")
        return self._insides[node]

    def _inside_anew(self, node: int, depth: int) -> tuple[int | None, bool, str]:
        operator, *rest = self._expressions.nodes[node]
        if operator == "shfl":
            inner, _, _ = self._inside(int(rest[-1]), depth + 1)
            return inner, True, str(rest[0]) if rest[0] == "idx" else f"{rest[0]} {rest[1]}"
        if operator == "select":
            sides = [self._inside(int(side), depth + 1) for side in rest[:2]]
            return next((side for side in sides if side[1]), sides[0])
        if operator == "pack":
            low, high = (self._inside(int(part), depth + 1) for part in rest)
            if low[1] and high[1] and low[0] is not None and high[0] is not None:
                return self._expressions.whole((low[0], high[0])), True, low[2]
        return node, False, ""

    # --------------------------------------------------------------------------------------------- stores

    def _store(self, statement: Statement) -> Key | None:
        access = self._values.access(statement)
        if access is None or access.root is None or access.root.kind != "parameter":
            return None
        source = statement.operands[1]
        registers = source.elements if isinstance(source, Vector) else (source,)
        phases = set()
        for register in registers:
            if not isinstance(register, Register):
                return None
            packed = self._packed(self._expressions.parts(statement.number, register.name))
            if packed is None or packed[0] or packed[1].kind != "accumulator":
                return None
            phases.add(packed[1].phase)
        return Key("plane scatter", f"of D{phases.pop()} to +{access.root.number}") if len(phases) == 1 else None

    def _surface_store(self, statement: Statement) -> Key | None:
        place = next((o for o in statement.operands if isinstance(o, Coordinates)), None)
        data = next((o for o in statement.operands if isinstance(o, Vector)), None)
        if place is None or data is None or not isinstance(place.handle, Register):
            return None
        for element in data.elements:
            if not isinstance(element, Register):
                return None
            parts = self._expressions.parts(statement.number, element.name)
            node = self._expressions.nodes[parts[0]]
            if node[0] != "bits" and self._formulas.of(parts[0]).kind not in _SURFACE:
                return None
        handle = self._values.form(statement.number, place.handle)
        names = [atom for atom, _ in handle.terms if atom.kind == "parameter"]
        return Key("surface store", f"to +{names[0].number}") if len(names) == 1 else None


_RESULTS = frozenset(("cvt", "mov", "movmatrix", "mul", "add", "sub", "fma", "shfl", "selp"))


def _source(meaning: Meaning) -> str:
    return f"D{meaning.phase}" if meaning.phase else "the input"


def _load_key(targets: dict[int, set[str]]) -> Key:
    phases = sorted(targets)
    if any("bias" in operands for operands in targets.values()):
        return Key("score-bias loads", f"for P{phases[0]}")
    if any("A" in operands for operands in targets.values()):
        return Key("shared tile loads", f"for P{phases[0]}")
    return Key("weight loads", " ".join(f"for P{phase}" for phase in phases))
