"""Definitions and uses of registers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from .collection import no_collection
from .flow import ControlFlow
from .statements import Body, Statement


class DefUse:
    """Statement numbers that define and read each register.

    A guarded definition may define, and so may an instruction that is not in the table, each of its operand
    registers: such a definition reaches later uses, and earlier definitions reach past it. nvcc's registers are
    nearly all defined once, so reaching definitions are answered on demand, without a global data-flow solution.
    """

    __slots__ = ("_at_entry", "_certain", "_cfg", "_defs", "_uses")

    def __init__(self, body: Body, cfg: ControlFlow) -> None:
        self._cfg = cfg
        with no_collection():
            self._defs, self._certain, self._uses = _collect(body)
        self._at_entry: dict[str, dict[int, frozenset[int]]] = {}

    def defs(self, register: str) -> tuple[int, ...]:
        """Statements that (may) write the register, ascending."""
        return tuple(self._defs.get(register, ()))

    def uses(self, register: str) -> tuple[int, ...]:
        """Statements that read the register, ascending."""
        return tuple(self._uses.get(register, ()))

    def is_single_def(self, register: str) -> bool:
        """Exactly one definition, unguarded."""
        return len(self._defs.get(register, ())) == 1 and self._defs[register][0] in self._certain[register]

    def reaching(self, number: int, register: str) -> frozenset[int]:
        """Definitions of the register that reach the point before statement `number`."""
        defs = self._defs.get(register)
        if not defs:
            return _NONE
        if len(defs) == 1:
            return frozenset(defs) if self._cfg.reaches(defs[0], number) else _NONE
        block = self._cfg.blocks[self._cfg.block_of(number)]
        found, complete = self._backwards(register, block.start, number)
        return found if complete else found | self._entry(register, block.index)

    def readers(self, number: int, register: str) -> tuple[int, ...]:
        """Statements that may read the value that statement `number` gave the register, ascending."""
        defs = self._defs.get(register, ())
        uses = self._uses.get(register, ())
        if len(defs) == 1:
            return tuple([use for use in uses if defs[0] == number and self._cfg.reaches(number, use)])
        return tuple([use for use in uses if number in self.reaching(use, register)])

    def is_defined_before(self, number: int, register: str) -> bool:
        """Does every path to statement `number` pass an unguarded definition of the register."""
        certain = self._certain.get(register, _NONE)
        if any(self._cfg.statement_dominates(definition, number) for definition in certain):
            return True
        return bool(certain) and not self._undefined_path(number, register)

    # -------------------------------------------------------------------------------------------------------- searching

    def _backwards(self, register: str, start: int, stop: int) -> tuple[frozenset[int], bool]:
        """Definitions in start..stop-1 that reach `stop`; True when nothing earlier gets past them."""
        defs, certain = self._defs[register], self._certain[register]
        found = []
        for index in range(bisect_left(defs, stop) - 1, -1, -1):
            if defs[index] < start:
                break
            found.append(defs[index])
            if defs[index] in certain:
                return frozenset(found), True
        return frozenset(found), False

    def _entry(self, register: str, block: int) -> frozenset[int]:
        """Definitions that reach the start of a block; remembered."""
        known = self._at_entry.setdefault(register, {})
        if block not in known:
            known[block] = self._search(register, block)
        return known[block]

    def _search(self, register: str, block: int) -> frozenset[int]:
        found: frozenset[int] = _NONE
        seen: set[int] = set()
        pending = list(self._cfg.predecessors[block])
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            here = self._cfg.blocks[index]
            inside, complete = self._backwards(register, here.start, here.end + 1)
            found |= inside
            if not complete:
                pending += self._cfg.predecessors[index]
        return found

    def _undefined_path(self, number: int, register: str) -> bool:
        """Is there a path from the entry to the statement without an unguarded definition."""
        seen: set[int] = set()
        first = self._cfg.blocks[self._cfg.block_of(number)]
        pending = [(first.index, first.start, number)]
        while pending:
            index, start, stop = pending.pop()
            if self._backwards(register, start, stop)[1]:
                continue
            if index == 0:
                return True
            for before in self._cfg.predecessors[index]:
                if before not in seen and self._cfg.is_reachable(before):
                    seen.add(before)
                    block = self._cfg.blocks[before]
                    pending.append((before, block.start, block.end + 1))
        return False


_NONE: frozenset[int] = frozenset()
_Numbers = dict[str, list[int]]


def _collect(body: Body) -> tuple[_Numbers, Mapping[str, frozenset[int]], _Numbers]:
    """Definitions, those of them that certainly happen, and uses of every register, ascending."""
    defs: _Numbers = {}
    uses: _Numbers = {}
    uncertain: set[int] = set()
    for statement in body.statements:
        number = statement.number
        for register in statement.uses:
            uses.setdefault(register, []).append(number)
        written = statement.defs if statement.known else may_define(statement)
        if statement.guard is not None or not statement.known:
            uncertain.add(number)
        for register in dict.fromkeys(written):
            defs.setdefault(register, []).append(number)
    certain = {register: frozenset(numbers) - uncertain for register, numbers in defs.items()}
    return defs, certain, uses


def may_define(statement: Statement) -> tuple[str, ...]:
    """Registers that a statement may write: its `defs`, or every operand register of an unknown instruction."""
    if statement.known:
        return statement.defs
    guard = None if statement.guard is None else statement.guard.register
    return tuple([register for register in statement.uses if register != guard])
