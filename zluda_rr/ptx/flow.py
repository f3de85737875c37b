"""Basic blocks, edges and dominators."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .dominators import DominatorTree
from .statements import Body, Statement

_ENDS = frozenset({"ret", "exit", "trap"})
_LEAVES = _ENDS | {"bra", "brx"}


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Statements start..end, both included."""

    index: int
    start: int
    end: int


class ControlFlow:
    """The control-flow graph of a body; block 0 is the entry.

    A branch to a label that the body does not have leaves the function. Post-dominators are those of a graph with one
    virtual exit that every leaving block leads to; `exits` holds those blocks.
    """

    __slots__ = ("_dominators", "_post", "_reach", "_starts", "blocks", "exits", "predecessors", "successors")

    blocks: tuple[BasicBlock, ...]
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    exits: frozenset[int]

    def __init__(self, body: Body) -> None:
        starts = _leaders(body)
        ends = [*(start - 1 for start in starts[1:]), len(body.statements)][: len(starts)]
        self._starts = starts
        self.blocks = tuple([BasicBlock(i, s, e) for i, (s, e) in enumerate(zip(starts, ends, strict=True))])
        block_at = {start: index for index, start in enumerate(starts)}
        targets = [_targets(body, block, block_at) for block in self.blocks]
        self.exits = frozenset(i for i, to in enumerate(targets) if _EXIT in to)
        self.successors = tuple([tuple([t for t in to if t != _EXIT]) for to in targets])
        self.predecessors = _reverse(self.successors)
        self._dominators = DominatorTree(self.successors, self.predecessors, 0)
        self._post = self._post_dominators()
        self._reach: list[int] | None = None

    def _post_dominators(self) -> DominatorTree:
        """Dominators of the reversed graph from the virtual exit, whose index is the number of blocks."""
        exit_block = len(self.blocks)
        backward = (*self.predecessors, tuple(sorted(self.exits)))
        forward = [(*to, exit_block) if i in self.exits else to for i, to in enumerate(self.successors)]
        return DominatorTree(backward, (*forward, ()), exit_block)

    def block_of(self, number: int) -> int:
        """Index of the block that holds a statement."""
        return bisect_right(self._starts, number) - 1

    def immediate_dominator(self, block: int) -> int | None:
        """None for the entry and for unreachable blocks."""
        return self._dominators.parent(block)

    def immediate_post_dominator(self, block: int) -> int | None:
        """None where only the virtual exit post-dominates, and where no path leaves the function."""
        parent = self._post.parent(block)
        return None if parent == len(self.blocks) else parent

    def dominates(self, first: int, second: int) -> bool:
        """Does block `first` dominate block `second` (a block dominates itself; False when `second` is unreachable)."""
        return self._dominators.dominates(first, second)

    def post_dominates(self, first: int, second: int) -> bool:
        """Is block `first` on every path from block `second` to the exit."""
        return self._post.dominates(first, second)

    def statement_dominates(self, first: int, second: int) -> bool:
        """Is statement `first` executed before `second` on every path to `second`."""
        a, b = self.block_of(first), self.block_of(second)
        return first < second if a == b else self.dominates(a, b)

    def reaches(self, first: int, second: int) -> bool:
        """Is there a path of at least one step from statement `first` to statement `second`."""
        a, b = self.block_of(first), self.block_of(second)
        return (a == b and first < second) or self.block_reaches(a, b)

    def block_reaches(self, first: int, second: int) -> bool:
        """Is there a path of at least one edge from block `first` to block `second`."""
        if self._reach is None:
            self._reach = _reachability(self.successors)
        return bool(self._reach[first] >> second & 1)

    def is_reachable(self, block: int) -> bool:
        """Can the block be reached from the entry."""
        return self._dominators.dominates(0, block)


_EXIT = -1


def _leaders(body: Body) -> list[int]:
    """First statements of the blocks: s1, every label, everything after a branch or an end."""
    starts = {1} if body.statements else set()
    starts.update(body.labels.values())
    last = len(body.statements)
    for statement in body.statements:
        if statement.opcode in _LEAVES and statement.number < last:
            starts.add(statement.number + 1)
    return sorted(starts)


def _targets(body: Body, block: BasicBlock, block_at: dict[int, int]) -> list[int]:
    """Successors of a block, each once, fall-through first; _EXIT for leaving the function."""
    statement = body[block.end]
    found: list[int] = []
    if statement.opcode not in _LEAVES or statement.guard is not None:
        found.append(_EXIT if block.end == len(body.statements) else block.index + 1)
    if statement.opcode in _ENDS:
        found.append(_EXIT)
    elif statement.opcode in _LEAVES:
        found += [block_at[body.labels[n]] if n in body.labels else _EXIT for n in _branch_labels(body, statement)]
    return list(dict.fromkeys(found))


def _branch_labels(body: Body, statement: Statement) -> tuple[str, ...]:
    name = statement.words[-1] if statement.words else ""
    return (name,) if statement.opcode == "bra" else body.branch_targets.get(name, ("",))


def _reverse(successors: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in successors]
    for index, targets in enumerate(successors):
        for target in targets:
            found[target].append(index)
    return tuple([tuple(sources) for sources in found])


def _reachability(successors: Sequence[Sequence[int]]) -> list[int]:
    """Bit b of element a: block b can be reached from block a by at least one edge."""
    reach = [sum(1 << target for target in targets) for targets in successors]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(reach))):
            bits = reach[index]
            for target in successors[index]:
                bits |= reach[target]
            if bits != reach[index]:
                reach[index] = bits
                changed = True
    return reach
