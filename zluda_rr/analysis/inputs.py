"""Operands made of an input buffer's rows: e4m3 codes loaded word by word, decoded, then normed and packed (A of the
first products) or added to a per-column table (C of the out-projection).

Addresses of such rows are mirrored at the image's borders, so rows are told apart by the words that a norm adds up,
and columns by the gain that meets them. Both are recorded where a word is first read and must be the same wherever it
is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from . import origins as op
from .origins import Leaf, Summary
from .phases import Phase
from .sources import InputNorm, InputResidual, Unknown
from .values import Access

_NORM_OPS = op.DECODE | op.MULTIPLY | op.E4M3
_SUM_OPS = op.DECODE | op.ADD


class Part(NamedTuple):
    """What an operand word is made of: words of the input, words of the weight image, operations."""

    data: tuple[Leaf, ...]
    image: tuple[Leaf, ...]
    row: frozenset[Leaf]  # input words behind it on any path: the whole row behind a norm
    direct_ops: int
    ops: int


class InputRows:
    """The input words seen so far: row blocks (m, half) by their words, n-tile by word."""

    def __init__(self) -> None:
        self._rows: dict[frozenset[Leaf], tuple[int, int]] = {}
        self._tile: dict[Leaf, tuple[int, int, int]] = {}
        self._gain: int | None = None

    def norm(
        self, phase: Phase, halves: Mapping[tuple[int, int, int], tuple[Part, Part]], parameter: int, gain: int
    ) -> tuple[InputNorm | Unknown, list[int] | None]:
        """A from `halves[m, step, register]` = parts of the low and the high 16 bits; `gain` is the offset of the table
        for n-tile 0 of the phase's first step.
        """
        first = self._gain if self._gain is not None else gain
        plane, inside = divmod(gain - first, 64)
        if inside or plane < 0:
            return Unknown(f"norm of the input with gain {gain}, another phase has {first}"), None
        labels: dict[int, int] = {}
        for (m, step, i), parts in halves.items():
            for part, n in zip(parts, (4 * (plane + step) + (i >> 1), 4 * (plane + step) + (i >> 1) + 2), strict=True):
                if len(part.data) != 1 or part.direct_ops != _NORM_OPS or not part.ops & op.RSQRT:
                    return Unknown("an input word that is not decoded, normed and packed"), None
                label = self._rows.setdefault(part.row, (m, i & 1))
                labels.setdefault(m, label[0])
                place = (labels[m], i & 1, n)
                if label != place[:2] or self._tile.setdefault(part.data[0], place) != place:
                    return Unknown(f"norm of the input with the word of s{part.data[0].statement} in two places"), None
        if sorted(labels.values()) != list(range(phase.m_tiles)):
            return Unknown("norm of the input with rows of several m-tiles in one fragment"), None
        self._gain = first
        return InputNorm(parameter, plane, first), [labels[m] for m in range(phase.m_tiles)]

    def residual(
        self, seeds: Mapping[tuple[int, int, int], Part], parameter: int, table: int
    ) -> InputResidual | Unknown:
        """C from `seeds[m, n, half]`, `table` = offset of the per-column table added to them."""
        for (m, n, half), part in seeds.items():
            if part.ops != _SUM_OPS or len(part.data) != 1:
                return Unknown(f"C of tile ({m}, {n}) is not one input word plus a table")
            if self._tile.get(part.data[0]) != (m, half, n):
                return Unknown(f"C of tile ({m}, {n}) is an input word of another place")
        return InputResidual(parameter, table)


def parameter_of(accesses: Iterable[Access | None]) -> int | None:
    """The one pointer parameter behind these accesses, None where there are several or another address."""
    roots = {access.root if access is not None else None for access in accesses}
    root = roots.pop() if len(roots) == 1 else None
    return root.number if root is not None and root.kind == "parameter" else None


def part_of(info: Summary, loads: Iterable[Leaf], every: Iterable[Leaf], is_image: Callable[[Leaf], bool]) -> Part:
    """The part behind a summary; `loads` on direct paths, `every` on all."""
    data: list[Leaf] = []
    image: list[Leaf] = []
    for leaf in loads:
        (image if is_image(leaf) else data).append(leaf)
    row = frozenset(leaf for leaf in every if not is_image(leaf))
    return Part(tuple(data), tuple(image), row, info.direct_ops, info.ops)
