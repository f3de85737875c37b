"""Live registers."""

from __future__ import annotations

from .flow import BasicBlock, ControlFlow
from .statements import Body, Statement

_STRIDE = 256  # statements between two remembered live sets of a block


class Liveness:
    """Registers whose value may still be read. A guarded definition does not end a live range."""

    __slots__ = ("_body", "_cfg", "_checkpoints", "_out")

    def __init__(self, body: Body, cfg: ControlFlow) -> None:
        self._body = body
        self._cfg = cfg
        self._out = _block_live_out(body, cfg)
        self._checkpoints: dict[int, dict[int, frozenset[str]]] = {}

    def live_in(self, number: int) -> frozenset[str]:
        """Live before the statement."""
        block = self._cfg.blocks[self._cfg.block_of(number)]
        return self._before(block, number)

    def live_out(self, number: int) -> frozenset[str]:
        """Live after the statement, on any path."""
        block = self._cfg.blocks[self._cfg.block_of(number)]
        return self._out[block.index] if number == block.end else self._before(block, number + 1)

    def _before(self, block: BasicBlock, number: int) -> frozenset[str]:
        """Walk back from the next remembered point of the block."""
        known = self._checkpoints.get(block.index)
        if known is None:
            known = self._checkpoints[block.index] = self._walk(block)
        point = min(-(-number // _STRIDE) * _STRIDE, block.end + 1)
        live = set(known[point])
        for current in range(point - 1, number - 1, -1):
            _step(self._body[current], live)
        return frozenset(live)

    def _walk(self, block: BasicBlock) -> dict[int, frozenset[str]]:
        live = set(self._out[block.index])
        known = {block.end + 1: self._out[block.index]}
        for number in range(block.end, block.start - 1, -1):
            _step(self._body[number], live)
            if number % _STRIDE == 0:
                known[number] = frozenset(live)
        return known


def _step(statement: Statement, live: set[str]) -> None:
    """From live after the statement to live before it."""
    if statement.guard is None:
        live.difference_update(statement.defs)
    live.update(statement.uses)


def _block_live_out(body: Body, cfg: ControlFlow) -> list[frozenset[str]]:
    """Backward data flow over blocks; only registers that cross a block border take part, one bit each."""
    reads, kills = _upward_exposed(body, cfg)
    crossing = sorted(set().union(*reads)) if reads else []
    bit = {register: 1 << index for index, register in enumerate(crossing)}
    gen = [sum(bit[r] for r in names) for names in reads]
    keep = [~sum(bit[r] for r in names if r in bit) for names in kills]
    live_in = list(gen)
    live_out = [0] * len(gen)
    pending = list(range(len(gen)))
    queued = set(pending)
    while pending:
        index = pending.pop()
        queued.discard(index)
        out = 0
        for target in cfg.successors[index]:
            out |= live_in[target]
        live_out[index] = out
        before = gen[index] | out & keep[index]
        if before != live_in[index]:
            live_in[index] = before
            fresh = [p for p in cfg.predecessors[index] if p not in queued]
            pending += fresh
            queued.update(fresh)
    return [_names(bits, crossing) for bits in live_out]


def _upward_exposed(body: Body, cfg: ControlFlow) -> tuple[list[set[str]], list[set[str]]]:
    """For each block: registers read before a certain definition, and registers certainly defined."""
    reads: list[set[str]] = []
    kills: list[set[str]] = []
    for block in cfg.blocks:
        read: set[str] = set()
        killed: set[str] = set()
        for statement in body.statements[block.start - 1 : block.end]:
            for register in statement.uses:
                if register not in killed:
                    read.add(register)
            if statement.guard is None:
                killed.update(statement.defs)
        reads.append(read)
        kills.append(killed)
    return reads, kills


def _names(bits: int, crossing: list[str]) -> frozenset[str]:
    found = []
    while bits:
        low = bits & -bits
        found.append(crossing[low.bit_length() - 1])
        bits ^= low
    return frozenset(found)
