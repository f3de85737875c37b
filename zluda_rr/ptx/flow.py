"""Basic blocks, edges and dominators."""

from __future__ import annotations

from dataclasses import dataclass

from .statements import Body


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Statements start..end, both included."""

    index: int
    start: int
    end: int


class ControlFlow:
    """The control-flow graph of a body; block 0 is the entry. Post-dominators are those of a virtual exit block."""

    __slots__ = ("blocks", "predecessors", "successors")

    blocks: tuple[BasicBlock, ...]
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]

    def __init__(self, body: Body) -> None:
        raise NotImplementedError

    def block_of(self, number: int) -> int:
        """Index of the block that holds a statement."""
        raise NotImplementedError

    def immediate_dominator(self, block: int) -> int | None:
        """None for the entry and for unreachable blocks."""
        raise NotImplementedError

    def immediate_post_dominator(self, block: int) -> int | None:
        """None where only the virtual exit post-dominates."""
        raise NotImplementedError

    def dominates(self, first: int, second: int) -> bool:
        """Does block `first` dominate block `second`."""
        raise NotImplementedError

    def statement_dominates(self, first: int, second: int) -> bool:
        """Is statement `first` executed before `second` on every path to `second`."""
        raise NotImplementedError

    def reaches(self, first: int, second: int) -> bool:
        """Is there a path of at least one step from statement `first` to statement `second`."""
        raise NotImplementedError
