"""Symbolic execution of one kernel, block by block, for all lanes of a warp at once.

Blocks are taken in the order of the dominator tree: a register that a block reads has the term that its one definition
gave it, or a fresh unknown where definitions meet (SSA form). Memory is not modelled: everything that changes it, or is
seen outside, is an *effect* in order; a load is a function of its address and of the number of effects before it in its
block. Both kernels get the same unknowns for the same place, so that equal terms mean equal values if the effects, the
branches and the values that flow into meeting points are equal too (`compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from zluda_rr.ptx import Body, ControlFlow, Group, Immediate, Negated, Operand, Statement, Vector

from .joins import FLAG, phi_places
from .operands import Layout, layout_of
from .rows import Row, Rows
from .terms import LANES, Terms

Handler = Callable[[Statement], None]

_LEAVES = frozenset({"bra", "brx", "ret", "exit", "trap"})
_PER_LANE = ("%tid", "%lanemask")
_UNIFORM = (
    *("%ntid", "%ctaid", "%nctaid", "%gridid", "%clusterid", "%nclusterid", "%cluster_", "%is_explicit_cluster"),
    *("%nwarpid", "%nsmid", "%envreg", "%total_smem_size", "%dynamic_smem_size", "%aggr_smem_size", "%reserved_smem_"),
)


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that is seen outside the warp's registers, or a branch: what it is, and the values it takes."""

    statement: int
    name: tuple[object, ...]
    rows: tuple[Row, ...]


@dataclass(slots=True)
class BlockTrace:
    """What one block does. `values` are the registers at its end that flow into meeting points, by successor.

    `loads` are the terms of everything it reads from memory, `constant_loads` those by `.nc`.
    """

    effects: list[Effect] = field(default_factory=list)
    leaves: list[Effect] = field(default_factory=list)
    values: dict[int, dict[str, Row]] = field(default_factory=dict)
    loads: set[Hashable] = field(default_factory=set)
    constant_loads: set[Hashable] = field(default_factory=set)


class Machine:
    """One kernel. `together` tells for each block whether all lanes execute it at the same time.

    `functions` are the functions that the module defines. `helpers` says whether this kernel may call the helpers.
    """

    def __init__(
        self,
        terms: Terms,
        rows: Rows,
        loaded: dict[str, dict[Hashable, int]],
        body: Body,
        flow: ControlFlow,
        together: Sequence[bool],
        functions: frozenset[str],
    ) -> None:
        self.terms = terms
        self.rows = rows
        self.loaded = loaded
        self.body = body
        self.flow = flow
        self.together = together
        self.functions = functions
        self.phis = phi_places(body, flow)
        self.env: dict[str, Row] = {}
        self.parameters: dict[str, dict[tuple[int, int], Row]] = {}
        """Call parameters that the block has set: values by (offset in bytes, bits)."""
        self.returned: dict[str, Row] = {}
        self.block = 0
        self.trace = BlockTrace()
        self.version = 0
        self.traces: dict[int, BlockTrace] = {}
        self._places: dict[Row, Sequence[tuple[int, int]]] = {}
        self._log: list[tuple[str, Row | None]] = []
        self._handlers: dict[object, Handler] = {}
        self._words: dict[tuple[str, str], Row] = {}

    def release(self) -> None:
        """Let go of the handlers, which know the machine."""
        self._handlers.clear()
        self.env.clear()

    # ------------------------------------------------------------------------------------------------------ the walk

    def run(self, handler_for: Callable[[Machine, Statement, Layout], Handler]) -> None:
        """Execute every reachable block."""
        children: dict[int, list[int]] = {}
        for block in range(len(self.flow.blocks)):
            parent = self.flow.immediate_dominator(block)
            if parent is not None:
                children.setdefault(parent, []).append(block)
        stack: list[tuple[int, int]] = [(0, -1)] if self.flow.blocks else []
        while stack:
            block, mark = stack.pop()
            if mark >= 0:
                self._undo(mark)
                continue
            stack.append((block, len(self._log)))
            self._execute(block, handler_for)
            stack += [(child, -1) for child in children.get(block, ())]

    def _undo(self, mark: int) -> None:
        while len(self._log) > mark:
            register, row = self._log.pop()
            if row is None:
                self.env.pop(register, None)
            else:
                self.env[register] = row

    def _execute(self, index: int, handler_for: Callable[[Machine, Statement, Layout], Handler]) -> None:
        self.block, self.trace = index, BlockTrace()
        self.traces[index] = self.trace
        self.parameters.clear()
        self.returned.clear()
        self._new_version()
        for register in self.phis.get(index, ()):
            self.set(register, self.terms.atom("joined", index, register, uniform=False))
        block, handlers = self.flow.blocks[index], self._handlers
        for statement in self.body.statements[block.start - 1 : block.end]:
            instruction = statement.instruction
            if instruction is None:
                continue
            handler = handlers.get(instruction.shape)
            if handler is None:
                handler = self._leave if instruction.shape.opcode in _LEAVES else None
                handler = handler or handler_for(self, statement, layout_of(statement))
                handlers[instruction.shape] = handler
            handler(statement)
        for successor in self.flow.successors[index]:
            names = self.phis.get(successor, ())
            self.trace.values[successor] = {name: self.row(name) for name in names}

    def _leave(self, statement: Statement) -> None:
        """A branch or an end: compared like an effect, targets by the block they lead to."""
        name: tuple[object, ...] = (statement.spelling, self.flow.successors[self.block])
        rows: list[Row] = []
        if statement.guard is not None:
            rows.append(self.guard(statement))
        if statement.opcode == "brx":
            targets = self.body.branch_targets.get(statement.words[-1], ())
            name += (tuple(self.flow.block_of(self.body.labels[t]) for t in targets if t in self.body.labels),)
            rows.append(self.row(statement.words[0], "u32", statement))
        self.trace.leaves.append(Effect(statement.number, name, tuple(rows)))

    # ------------------------------------------------------------------------------------------------------ registers

    def set(self, register: str, row: Row) -> None:
        """Give a register a value until the walk leaves the block's part of the dominator tree."""
        self._log.append((register, self.env.get(register)))
        self.env[register] = row

    def assign(self, statement: Statement, register: str, row: Row) -> None:
        """Result of a statement; where its guard is false the old value stays. The sink `_` takes nothing."""
        if statement.guard is not None:
            if register == "_":
                return
            row = self.rows.apply(self.terms.choice, (self.guard(statement), row, self.row(register)))
        self._log.append((register, self.env.get(register)))
        self.env[register] = row

    def assign_all(self, statement: Statement, results: Sequence[tuple[str, Row]]) -> None:
        """Results of one statement, all under the guard that it was executed with."""
        if statement.guard is not None:
            guard, choice = self.guard(statement), self.terms.choice
            results = [
                (register, self.rows.apply(choice, (guard, row, self.row(register))))
                for register, row in results
                if register != "_"
            ]
        for register, row in results:
            self.set(register, row)

    def guard(self, statement: Statement) -> Row:
        """Where a guarded statement is executed."""
        assert statement.guard is not None
        row = self.row(statement.guard.register)
        return self.inverse(row) if statement.guard.negated else row

    def inverse(self, row: Row) -> Row:
        """The negation of a predicate."""
        return self.rows.apply(self.terms.inverse, (row,))

    def row(self, word: str, kind: str = "", statement: Statement | None = None) -> Row:
        """Value of a register, constant or name. `kind` is the operand's type, `statement` where it stands."""
        row = self.env.get(word)
        if row is not None:
            return row
        row = self._words.get((word, kind))
        if row is None:
            if self._changes(word):
                assert statement is not None
                return self.effect(statement, ("read", word), (), 1)[0]
            row = self._words[word, kind] = self._other(word, kind, statement)
        return row

    def _changes(self, word: str) -> bool:
        """Is the word a special register that may have another value at each read: %clock, %smid and what is new."""
        special = word[0] == "%" and word not in self.body.registers and word not in ("%laneid", FLAG)
        return special and not word.startswith((*_PER_LANE, *_UNIFORM))

    def _other(self, word: str, kind: str, statement: Statement | None) -> Row:
        if word in self.body.registers or word == FLAG:
            return self.terms.atom("undefined", word, uniform=False)
        if word == "%laneid":
            return self.rows.lanes
        if word.startswith(_PER_LANE):
            return self.terms.atom("special", word, uniform=False)
        if word == "WARP_SZ":
            return self.terms.constant(LANES)
        if word[0] in "-0123456789":
            return self._constant(word, kind, statement)
        return self.terms.atom("name", word, uniform=True)

    def _constant(self, word: str, kind: str, statement: Statement | None) -> int:
        found = next((i for i in _immediates(statement.operands) if i.text == word), None) if statement else None
        bits = type_bits(kind)
        if kind == "pred" and found is not None and found.kind == "int":
            return self.terms.constant(int(found.value != 0))
        if found is None or bits is None:
            return self.terms.atom("text", word, kind, uniform=True)
        if found.kind == "int" and kind[0] in "bsu" and kind[1:].isdigit():
            return self.terms.constant(found.value & (1 << bits) - 1)
        if found.kind == f"f{bits}":
            return self.terms.constant(found.value)
        return self.terms.atom("text", word, kind, uniform=True)

    def places(self, row: Row) -> Sequence[tuple[int, int]]:
        """Addresses in all lanes, as (item of the base or -1, constant)."""
        found = self._places.get(row)
        if found is None:
            found = self._places[row] = [self.terms.place(item, 64) for item in self.rows.items(row)]
        return found

    # --------------------------------------------------------------------------------------------------------- effects

    def effect(
        self, statement: Statement, name: tuple[object, ...], rows: Sequence[Row], results: int = 0
    ) -> list[Row]:
        """Enter an effect; `results` unknown values that it gives, by its place in the block."""
        place = len(self.trace.effects)
        taken = tuple(rows)
        if statement.guard is not None:
            name, taken = (*name, "guarded"), (*taken, self.guard(statement))
        self.trace.effects.append(Effect(statement.number, name, taken))
        self._new_version()
        return [self.terms.atom("result", self.block, place, i, uniform=False) for i in range(results)]

    def _new_version(self) -> None:
        self.version = self.terms.atom("memory", self.block, len(self.trace.effects), uniform=True)


def type_bits(kind: str) -> int | None:
    """Bits of a fundamental type; None for a role of an operand."""
    if kind in ("f16x2", "bf16x2", "u16x2", "s16x2", "tf32"):
        return 32
    digits = kind.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdigit() else None


def _immediates(operands: Sequence[Operand]) -> list[Immediate]:
    found: list[Immediate] = []
    for operand in operands:
        match operand:
            case Immediate():
                found.append(operand)
            case Negated(inner):
                found += _immediates([inner])
            case Vector(elements) | Group(elements):
                found += _immediates(elements)
            case _:
                pass
    return found
