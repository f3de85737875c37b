"""What a phase's operands are made of: the descriptors that reports print and contracts state.

All offsets are bytes in the weight image. `weights`: 512-byte tiles of 16 columns x 32 k, a lane reads 16 bytes at
`at + 512*tile + 16*lane`, word v holds n-tile `2*T + (v >> 1)`, register `v & 1`; with order "k-inner" tile =
k_steps*T + step, with "n-inner" tile = n_pairs*step + T (T = 16-column group). `columns`: one f16 per column at `at
+ 2*column`. `bias`: a 64 x 96 score table, `at + 512*(m_tiles*(n >> 1) + m) + 16*lane + 8*(n & 1) + 4*half` (seed
001 E4).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """B words from the weight image."""

    at: int
    nbytes: int
    order: str = "k-inner"

    def __str__(self) -> str:
        return f"weights {self.at}..{self.at + self.nbytes}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Per-column seeds from the weight image."""

    at: int
    nbytes: int

    def __str__(self) -> str:
        return f"columns {self.at}..{self.at + self.nbytes}"


@dataclass(frozen=True, slots=True)
class Bias:
    """Score-bias seeds from the weight image."""

    at: int
    nbytes: int

    def __str__(self) -> str:
        return f"bias {self.at}..{self.at + self.nbytes}"


@dataclass(frozen=True, slots=True)
class Zero:
    """C = 0."""

    def __str__(self) -> str:
        return "0"


@dataclass(frozen=True, slots=True)
class Shared:
    """A words from a shared array of 32-byte tokens in slot order.

    `rows` has one (byte of the first token, bytes between tokens) per eight rows: lane l reads its word i & 1 = half,
    `first + step*(l >> 2) + 16*(i >> 1) + 4*(l & 3)`.
    """

    array: str
    rows: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"shared {self.array}"


@dataclass(frozen=True, slots=True)
class Derived:
    """Requantised words computed from an earlier phase's accumulators.

    `kind`: "pack", "relu-pack", "activation" (elementwise before the pack), "norm" (`gain` = its table), "softmax",
    "transpose" (movmatrix before the pack), "merge" (words exchanged between lanes).
    """

    kind: str
    phase: int
    gain: int | None = None

    def __str__(self) -> str:
        gain = f", gain {self.gain}" if self.gain is not None else ""
        return f"{self.kind}(D{self.phase}{gain})"


@dataclass(frozen=True, slots=True)
class Residual:
    """C = an earlier phase's D cell for cell, plus a per-column table where `table` is its offset."""

    phase: int
    table: int | None = None

    def __str__(self) -> str:
        return f"D{self.phase}" + (f" + table {self.table}" if self.table is not None else "")


@dataclass(frozen=True, slots=True)
class InputNorm:
    """A: rows of the input planes behind the pointer at `parameter`, decoded from e4m3, normed over all their channels
    with the gain table at `gain` and packed; the first k step takes plane `plane` (32 channels).
    """

    parameter: int
    plane: int
    gain: int

    def __str__(self) -> str:
        return f"norm(input {self.parameter} plane {self.plane}, gain {self.gain})"


@dataclass(frozen=True, slots=True)
class InputResidual:
    """C: the decoded rows of the input planes cell for cell, plus the per-column table at `table`."""

    parameter: int
    table: int

    def __str__(self) -> str:
        return f"input {self.parameter} + table {self.table}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not one of the forms above; `reason` says what was seen."""

    reason: str

    def __str__(self) -> str:
        return f"unknown: {self.reason}"


Source = Weights | Columns | Bias | Zero | Shared | Derived | Residual | InputNorm | InputResidual | Unknown
