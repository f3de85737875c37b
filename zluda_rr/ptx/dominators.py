"""Dominator trees."""

from __future__ import annotations

from collections.abc import Sequence

Edges = Sequence[Sequence[int]]


class DominatorTree:
    """Immediate dominators of a graph from one root (Cooper, Harvey and Kennedy 2001), with O(1) queries."""

    __slots__ = ("_enter", "_idom", "_leave", "_root")

    def __init__(self, successors: Edges, predecessors: Edges, root: int) -> None:
        self._root = root
        order = _reverse_post_order(successors, root) if successors and root < len(successors) else []
        self._idom = _immediate_dominators(order, predecessors)
        self._enter, self._leave = self._intervals(order)

    def parent(self, node: int) -> int | None:
        """The immediate dominator; None for the root and for unreachable nodes."""
        return None if node == self._root else self._idom.get(node)

    def dominates(self, first: int, second: int) -> bool:
        """Reflexive; False when either is unreachable."""
        if first not in self._enter or second not in self._enter:
            return False
        return self._enter[first] <= self._enter[second] and self._leave[second] <= self._leave[first]

    def _intervals(self, order: list[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Times of entering and leaving each node in a walk over the tree."""
        children: dict[int, list[int]] = {node: [] for node in order}
        for node in order[1:]:
            children[self._idom[node]].append(node)
        enter: dict[int, int] = {}
        leave: dict[int, int] = {}
        stack = [(order[0], False)] if order else []
        while stack:
            node, done = stack.pop()
            if done:
                leave[node] = len(enter)
            else:
                enter[node] = len(enter)
                stack.append((node, True))
                stack += [(child, False) for child in children[node]]
        return enter, leave


def _reverse_post_order(successors: Edges, root: int) -> list[int]:
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(successors[root]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order[::-1]


def _immediate_dominators(order: list[int], predecessors: Edges) -> dict[int, int]:
    rank = {node: index for index, node in enumerate(order)}
    idom = {order[0]: order[0]} if order else {}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [p for p in predecessors[node] if p in idom]
            best = known[0]
            for other in known[1:]:
                best = _common(best, other, idom, rank)
            if idom.get(node) != best:
                idom[node] = best
                changed = True
    return idom


def _common(a: int, b: int, idom: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = idom[a]
        while rank[b] > rank[a]:
            b = idom[b]
    return a
