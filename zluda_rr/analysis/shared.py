"""Who touches a shared array, and which of its bytes are alive at a point.

An access counts for every array whose bytes it might touch: one with a known root for that root only, one through
an address that could not be resolved for all arrays. Bytes are bits of an integer, bit i = byte i of the array.
"""

from __future__ import annotations

from dataclasses import dataclass

from zluda_rr.ptx import Body, ControlFlow, Statement

from .values import Access, Values

_OTHER_MEMORY = frozenset(("ldmatrix", "stmatrix", "cp", "call", "wmma", "mbarrier"))
_BARRIERS = frozenset(("bar", "barrier"))


@dataclass(frozen=True, slots=True)
class Touch:
    """An access that may concern one array. `exact`: all lanes access just `nbytes`; `known`: the array is certain."""

    statement: int
    reads: bool
    writes: bool
    bits: int
    exact: bool
    known: bool


class SharedArrayUse:
    """All accesses to one array of a body."""

    def __init__(self, body: Body, flow: ControlFlow, values: Values, name: str) -> None:
        self._body = body
        self._flow = flow
        self.name = name
        size = body.variables[name].nbytes
        self.nbytes = 0 if size is None else size
        self.everything = (1 << self.nbytes) - 1
        touches = (self._touch(statement, values) for statement in body.statements if statement.instruction is not None)
        self.touches = {touch.statement: touch for touch in touches if touch is not None}

    def _touch(self, statement: Statement, values: Values) -> Touch | None:
        if statement.opcode in _OTHER_MEMORY or not statement.known:
            return Touch(statement.number, True, True, self.everything, False, False)
        access = values.access(statement)
        if access is None or access.space in ("global", "param", "const", "local"):
            return None
        reads, writes = access.kind != "store", access.kind != "load"
        if access.root is None:
            return Touch(statement.number, reads, writes, self.everything, False, False)
        if access.root.kind != "shared":
            # A generic address from a parameter is global; a shared access from one may be anywhere in shared memory.
            far = access.space == "shared"
            return Touch(statement.number, reads, writes, self.everything, False, False) if far else None
        if access.root.name != self.name:
            return self._touch_from(access, statement.number, reads, writes)
        extent = access.extent()
        if extent is None or extent[0] < 0 or extent[1] > self.nbytes:
            return Touch(statement.number, reads, writes, self.everything, False, True)
        bits = 0
        for offset in access.offset.signed():
            bits |= ((1 << access.nbytes) - 1) << offset
        return Touch(statement.number, reads, writes, bits, True, True)

    def _touch_from(self, access: Access, number: int, reads: bool, writes: bool) -> Touch | None:
        """An access based on another array: none, unless it is known to leave that array."""
        other = self._body.variables.get(access.root.name) if access.root is not None else None
        size, extent = (None if other is None else other.nbytes), access.extent()
        if size is not None and extent is not None and (extent[0] < 0 or extent[1] > size):
            return Touch(number, reads, writes, self.everything, False, False)
        return None

    def live_after(self, point: int) -> tuple[int, tuple[int, ...]]:
        """Bytes that may still be read after statement `point`, and the statements that read them.

        A store ends the life of its bytes only where every lane that passed `point` executes it: in a block that
        post-dominates the block of `point`.
        """
        flow = self._flow
        home = flow.block_of(point)
        ends = self._post_dominators(home)
        live = dict.fromkeys(range(len(flow.blocks)), 0)
        work = list(live)
        while work:
            block = work.pop()
            bits = self._back(block, self._after(block, live), None, block in ends)
            if bits != live[block]:
                live[block] = bits
                work.extend(flow.predecessors[block])
        alive = self._back(home, self._after(home, live), point, True)
        readers = tuple(
            n for n, t in sorted(self.touches.items()) if t.reads and t.bits & alive and self._follows(point, n)
        )
        return alive, readers

    def _after(self, block: int, live: dict[int, int]) -> int:
        bits = 0
        for following in self._flow.successors[block]:
            bits |= live[following]
        return bits

    def _back(self, block: int, bits: int, until: int | None, kills: bool) -> int:
        """Live bytes before a block (after statement `until`) from those after it."""
        extent = self._flow.blocks[block]
        start = extent.start if until is None else until + 1
        for number in range(extent.end, start - 1, -1):
            touch = self.touches.get(number)
            if touch is None:
                continue
            if touch.writes and kills and touch.exact and touch.known and self._body[number].guard is None:
                bits &= ~touch.bits
            if touch.reads:
                bits |= touch.bits
        return bits

    def _post_dominators(self, block: int) -> frozenset[int]:
        found = {block}
        following = self._flow.immediate_post_dominator(block)
        while following is not None and following not in found:
            found.add(following)
            following = self._flow.immediate_post_dominator(following)
        return frozenset(found)

    def _follows(self, point: int, number: int) -> bool:
        return self._flow.reaches(point, number)

    def unordered_before(self, point: int) -> list[Touch]:
        """Accesses from which `point` is reached without a barrier in between."""
        return [self.touches[n] for n in self._walk(point, forward=False) if n in self.touches]

    def unordered_after(self, point: int) -> list[Touch]:
        """Accesses that are reached from `point` without a barrier in between."""
        return [self.touches[n] for n in self._walk(point, forward=True) if n in self.touches]

    def _walk(self, point: int, forward: bool) -> list[int]:
        """Statements on a barrier-free path to (from) `point`, the point itself excluded."""
        flow, found, seen = self._flow, [], set()
        step = 1 if forward else -1
        work = [point + step]
        home = flow.block_of(point)
        first = True
        while work:
            number = work.pop()
            block = home if first else flow.block_of(number)
            first = False
            extent = flow.blocks[block]
            stopped = False
            while extent.start <= number <= extent.end and not stopped:
                if number in seen:
                    stopped = True
                    break
                seen.add(number)
                if self._body[number].opcode in _BARRIERS and self._body[number].guard is None:
                    stopped = True
                    break
                found.append(number)
                number += step
            if not stopped:
                near = flow.successors[block] if forward else flow.predecessors[block]
                work.extend(flow.blocks[b].start if forward else flow.blocks[b].end for b in near)
        return sorted(found)
