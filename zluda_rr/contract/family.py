"""The phases of a layer, from its numbers.

A block is the same in every layer: tokens (embedded, or loaded from planes and normed) -> per head {keys and values,
scores with bias, softmax, product with the values, out-projection onto the residual} -> norm -> branches of the MLP
{32 hidden channels, activation, back onto the residual} -> stores -> merge -> logits. The weight image holds the
blocks' operands in nearly that order, without gaps: `_Image` walks it (docs/reference/engine.md and rr-details.md 14,
29; closed form: a head's slab is 12,288 + 3,072 bytes per slice of 32 channels).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zluda_rr.analysis import (
    Bias,
    Columns,
    Derived,
    InputNorm,
    InputResidual,
    Residual,
    Shared,
    Source,
    Weights,
    Zero,
)

from .model import ContractError, PhaseRow

SLICE = 32
"""Channels of one k step."""
HIDDEN = 32
"""Hidden channels of a branch of the MLP."""


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens of one block's attention: queries of a square, keys with a ring of `ring` tokens, corners left out."""

    tokens: tuple[int, int]
    ring: int

    @property
    def queries(self) -> int:
        """Query rows."""
        return self.tokens[0] * self.tokens[1]

    @property
    def keys(self) -> int:
        """Key rows."""
        return self.queries + 2 * self.ring * sum(self.tokens)


@dataclass(frozen=True, slots=True)
class LayerNumbers:
    """What is particular to a layer. `input_kind`: "embedding" (32-byte tokens staged in the shared array `array`) or
    "planes" (planes behind the pointer at `input_parameter`). `input_at`: image offset of the input's weights. `merge`,
    `logits`: output columns, 0 for none.
    """

    channels: int
    heads: int
    branches: int
    window: Window
    input_kind: str
    input_at: int
    input_parameter: int
    array: str
    merge: int
    logits: int

    @property
    def slices(self) -> int:
        """Slices of 32 channels, planes."""
        return self.channels // SLICE


@dataclass(slots=True)
class _Image:
    """The weight image, read from one end to the other."""

    at: int

    def matrix(self, columns: int, depth: int) -> Weights:
        """B of a product."""
        return Weights(self._take(columns * depth), columns * depth)

    def vector(self, columns: int) -> int:
        """Offset of one f16 per column."""
        return self._take(2 * columns)

    def seeds(self, columns: int) -> Columns:
        """The same as C of a product."""
        return Columns(self._take(2 * columns), 2 * columns)

    def scores(self, window: Window) -> Bias:
        """One f16 per query and key."""
        nbytes = 2 * window.queries * window.keys
        return Bias(self._take(nbytes), nbytes)

    def _take(self, nbytes: int) -> int:
        at = self.at
        self.at += nbytes
        return at


@dataclass(slots=True)
class _Phases:
    rows: list[PhaseRow] = field(default_factory=list)

    def add(self, m: int, n: int, k: int, a: Source, b: Source, c: Source) -> int:
        """Append a product; its number."""
        index = len(self.rows) + 1
        self.rows.append(PhaseRow(index, (m, n, k), (m // 16) * (n // 8) * (k // 32), a, b, c))
        return index


def expand(numbers: LayerNumbers) -> tuple[tuple[PhaseRow, ...], int]:
    """Phases in program order, and the end of the weight image. ContractError for numbers no layer can have."""
    _check(numbers)
    phases, image = _Phases(), _Image(numbers.input_at)
    tokens = _input(numbers, phases, image)
    last = _attention(numbers, phases, image, tokens)
    last = _branches(numbers, phases, image, last)
    queries, channels = numbers.window.queries, numbers.channels
    if numbers.merge:
        b = image.matrix(numbers.merge, 4 * channels)
        c = image.seeds(numbers.merge)
        phases.add(queries // 4, numbers.merge, 4 * channels, Derived("merge", last), b, c)
    if numbers.logits:
        b = image.matrix(numbers.logits, channels)
        phases.add(queries, numbers.logits, channels, Derived("pack", last), b, image.seeds(numbers.logits))
    return tuple(phases.rows), image.at


def _check(numbers: LayerNumbers) -> None:
    window = numbers.window
    if numbers.channels % SLICE or not 1 <= numbers.slices <= 8:
        raise ContractError(f"channels = {numbers.channels}: a multiple of {SLICE} is needed")
    if window.queries % 16 or window.keys % 32 or window.queries % 8:
        raise ContractError(f"window of {window.queries} queries and {window.keys} keys: no whole tiles")
    if numbers.input_kind == "embedding" and numbers.channels != SLICE:
        raise ContractError(f"channels = {numbers.channels}: an embedding gives {SLICE}")
    for name, columns, step in (("merge", numbers.merge, 32), ("logits", numbers.logits, 8)):
        if columns % step:
            raise ContractError(f"{name} = {columns}: a multiple of {step} is needed")
    if min(numbers.heads, numbers.branches) < 1:
        raise ContractError("heads and branches: at least one of each")


@dataclass(frozen=True, slots=True)
class _Tokens:
    """What the heads project: the normed rows, and the residual they return to."""

    phase: int  # 0: the input planes
    parameter: int
    gain: int

    def normed(self, plane: int) -> Source:
        return Derived("norm", self.phase, self.gain) if self.phase else InputNorm(self.parameter, plane, self.gain)

    def residual(self, table: int) -> Source:
        return Residual(self.phase, table) if self.phase else InputResidual(self.parameter, table)


def _input(numbers: LayerNumbers, phases: _Phases, image: _Image) -> _Tokens:
    channels, rows = numbers.channels, numbers.window.keys
    if numbers.input_kind == "planes":
        return _Tokens(0, numbers.input_parameter, image.vector(channels))
    source: Source = Shared(numbers.array, ())
    for _ in range(2):
        b, c = image.matrix(channels, channels), image.seeds(channels)
        source = Derived("relu-pack", phases.add(rows, channels, channels, source, b, c))
    return _Tokens(len(phases.rows), 0, image.vector(channels))


def _attention(numbers: LayerNumbers, phases: _Phases, image: _Image, tokens: _Tokens) -> int:
    window, channels = numbers.window, numbers.channels
    last = 0
    heads = []
    for _ in range(numbers.heads):
        slices = range(numbers.slices)
        keys = [image.matrix(SLICE, SLICE) for _ in slices]
        values = [image.matrix(SLICE, SLICE) for _ in slices]
        heads.append((keys, values, image.scores(window), image.matrix(channels, SLICE)))
    table = image.vector(channels)
    for keys, values, bias, out in heads:
        key, value = (0, 0)
        for plane, (k, v) in enumerate(zip(keys, values, strict=True)):
            a = tokens.normed(plane)
            key = phases.add(window.keys, SLICE, SLICE, a, k, Residual(key) if key else Zero())
            value = phases.add(window.keys, SLICE, SLICE, a, v, Residual(value) if value else Zero())
        packed = Derived("pack", key)
        scores = phases.add(window.queries, window.keys, SLICE, packed, packed, bias)
        softmax = Derived("softmax", scores)
        attended = phases.add(window.queries, SLICE, window.keys, softmax, Derived("transpose", value), Zero())
        c = Residual(last) if last else tokens.residual(table)
        last = phases.add(window.queries, channels, SLICE, Derived("pack", attended), out, c)
    return last


def _branches(numbers: LayerNumbers, phases: _Phases, image: _Image, last: int) -> int:
    channels, rows = numbers.channels, numbers.window.queries
    normed = Derived("norm", last, image.vector(channels))
    for b1, c1, b2, table in list(_branch_weights(numbers, image)):
        hidden = phases.add(rows, HIDDEN, channels, normed, b1, c1)
        last = phases.add(rows, channels, HIDDEN, Derived("activation", hidden), b2, Residual(last, table))
    return last


def _branch_weights(numbers: LayerNumbers, image: _Image) -> Iterator[tuple[Weights, Columns, Weights, int | None]]:
    """First matrix, seeds, second matrix, and the table that the first branch alone adds to the residual."""
    for branch in range(numbers.branches):
        first, seeds = image.matrix(HIDDEN, numbers.channels), image.seeds(HIDDEN)
        second = image.matrix(numbers.channels, HIDDEN)
        yield first, seeds, second, image.vector(numbers.channels) if branch == 0 else None
