"""The contract of a layer, read from `rules/<layer>.toml`.

A contract states structure only: sizes, offsets, shapes, sources and cut points; no register name and no line
number. Numbers are bytes unless said otherwise. Keys:

- `schema`, `layer`, `entry` (kernel name); `parameters.bytes`; `weights.parameter` and `.bytes`;
- `launch`: `block`, `tile` (tokens per block), `extents` and `shift` (parameter offset and type), `grid` and `even`
  (expressions over ex, ey, sx, sy), `shift_range`;
- `buffer`, `surface`: name, `parameter` offset of the pointer or handle, size expressions, `role` input | output |
  weights;
- `shared`: arrays found by what they `feed`; `phase`: rows of the phases table; `cut`: what may be replaced, and by
  what;
- operand kinds of a phase: the classes of `zluda_rr.analysis` in lower case (weights, columns, bias, zero, shared,
  residual, input-norm, input-residual, and the kinds of Derived).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zluda_rr.analysis import Source
from zluda_rr.errors import UserError

from .expressions import evaluate


class ContractError(UserError):
    """A rule file that cannot be used; the message names file and key."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How the kernel is launched. Expressions use ex, ey (extents in tokens) and sx, sy (origin shift)."""

    block: tuple[int, int, int]
    tile: tuple[int, int]
    extents_offset: int  # u32 x 2 in the parameter block
    shift_offset: int  # u16 x 2 in the parameter block
    grid: tuple[str, str, str]
    even: tuple[str, ...]
    shift_range: tuple[int, int]

    def grid_size(self, ex: int, ey: int, sx: int, sy: int) -> tuple[int, int, int]:
        """Blocks per axis."""
        names = {"ex": ex, "ey": ey, "sx": sx, "sy": sy}
        x, y, z = (evaluate(text, names) for text in self.grid)
        return x, y, z


@dataclass(frozen=True, slots=True)
class Buffer:
    """Linear memory behind a pointer parameter."""

    name: str
    offset: int  # of the pointer in the parameter block
    expression: str
    role: str

    def size(self, ex: int, ey: int) -> int:
        """Bytes for these extents."""
        return evaluate(self.expression, {"ex": ex, "ey": ey})


@dataclass(frozen=True, slots=True)
class Surface:
    """A 2D surface or texture behind a 64-bit handle parameter; width and height in texels."""

    name: str
    offset: int  # of the handle in the parameter block
    width: str
    height: str
    channels: int
    channel_type: str
    role: str

    def extent(self, ex: int, ey: int) -> tuple[int, int]:
        """Width and height for these extents."""
        names = {"ex": ex, "ey": ey}
        return evaluate(self.width, names), evaluate(self.height, names)


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A shared array; `feeds` is the phase whose A it is loaded for, None where the contract only names its size."""

    name: str
    nbytes: int
    feeds: int | None


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One row of the contract's phases table."""

    index: int
    shape: tuple[int, int, int]
    mma: int
    a: Source
    b: Source
    c: Source
    epilogue: str
    source: str
    form: tuple[str, str, str] | None = None  # digests of A's, B's and C's arithmetic (`forms.py`)


@dataclass(frozen=True, slots=True)
class Argument:
    """A run of equal arguments of the body.

    Roles: "a", "b", "c" (fragment words), "scratch", "buffer" (pointer of `buffer`), "extents" (x, y), "origin" (x, y
    of the block's first token).
    """

    role: str
    count: int
    type: str
    buffer: str = ""


@dataclass(frozen=True, slots=True)
class ResultImage:
    """Where the body leaves word (m, half, n) of one call: `result + lane*l + m*m_tile + half*half + n*n_tile`
    (bytes).
    """

    type: str
    lane: int
    m: int
    half: int
    n: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class CutRule:
    """A cut of one whole phase by calls of `rows` rows each."""

    name: str
    reason: str
    source: str
    phase: int
    consumers: tuple[str, ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    lend_array: str
    lend_bytes: int
    symbol: str
    body_file: str
    rows: int
    arguments: tuple[Argument, ...]
    result: ResultImage

    @property
    def phases(self) -> range:
        """Phases that the body computes."""
        return range(self.phase, self.phase + 1)

    @property
    def replaces(self) -> str:
        """The same for reports."""
        return f"phase {self.phase}"


@dataclass(frozen=True, slots=True)
class TokenImage:
    """Where a layer's body leaves word (m, half, n) of the last phase, in bytes: `result + row*(l >> 2) + column*(l
    & 3) + m*m_tile + half*half + n*n_tile`.
    """

    type: str
    row: int
    column: int
    m: int
    half: int
    n: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class StoreForm:
    """The stores to one buffer that the body performs: their number, and the digest of guards, addresses and values."""

    buffer: str
    count: int
    form: str
    phase: int = 0  # whose results they store


@dataclass(frozen=True, slots=True)
class BodyChoice:
    """A body that can take a cut's place; the first of a rule is the default."""

    name: str
    symbol: str
    file: str


@dataclass(frozen=True, slots=True)
class LayerCutRule:
    """A cut of several phases with everything between them: entered before the first product of phase `first`, left
    after the last one of phase `last`.
    """

    name: str
    reason: str
    source: str
    first: int
    last: int
    loads: tuple[str, ...]
    stores: tuple[StoreForm, ...]
    lend_array: str
    lend_bytes: int
    bodies: tuple[BodyChoice, ...]
    arguments: tuple[Argument, ...]
    result: TokenImage
    body: str = ""

    @property
    def phases(self) -> range:
        """Phases that the body computes."""
        return range(self.first, self.last + 1)

    @property
    def replaces(self) -> str:
        """The same for reports."""
        return f"phases {self.first}-{self.last}"

    @property
    def choice(self) -> BodyChoice:
        """The body in use."""
        return next((b for b in self.bodies if b.name == self.body), self.bodies[0])

    @property
    def symbol(self) -> str:
        """Name of the body in use."""
        return self.choice.symbol

    @property
    def body_file(self) -> str:
        """Kernel source of the body in use."""
        return self.choice.file

    def using(self, body: str) -> LayerCutRule:
        """The same cut with another of its bodies. ContractError for an unknown one."""
        if body not in {b.name for b in self.bodies}:
            known = ", ".join(b.name for b in self.bodies)
            raise ContractError(f"cut {self.name} has no body named {body!r}; it has: {known}")
        return replace(self, body=body)


AnyCutRule = CutRule | LayerCutRule


@dataclass(frozen=True, slots=True)
class WeightRegion:
    """A part of the weight image. Kinds: matrix, column, score_bias, table, gain, features, reserved.

    `bounded`: its values reach the sum of squares of a norm, which is an f16.
    """

    name: str
    offset: int
    nbytes: int
    kind: str
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class LayerContract:
    """Everything a rule file says about one layer."""

    layer: str
    entry: str
    parameter_bytes: int
    weights_parameter: int
    weights_bytes: int
    weights: tuple[WeightRegion, ...]
    launch: Launch
    buffers: tuple[Buffer, ...]
    surfaces: tuple[Surface, ...]
    shared: tuple[SharedArray, ...]
    phases: tuple[PhaseRow, ...]
    cuts: tuple[AnyCutRule, ...]

    @property
    def mma(self) -> int:
        """mma instructions of all phases."""
        return sum(row.mma for row in self.phases)

    @property
    def default_cuts(self) -> tuple[str, ...]:
        """What is applied where no cut is named: the layer cut where the rule has one, else every cut."""
        whole = tuple(rule.name for rule in self.cuts if isinstance(rule, LayerCutRule))
        return whole[:1] or tuple(rule.name for rule in self.cuts)

    def cut(self, name: str) -> AnyCutRule:
        """A cut by name, with or without the layer in front (`enc0.phase8`)."""
        short = name.removeprefix(f"{self.layer}.")
        for rule in self.cuts:
            if rule.name == short:
                return rule
        known = ", ".join(rule.name for rule in self.cuts)
        raise ContractError(f"layer {self.layer} has no cut named {name!r}; it has: {known}")

    def buffer(self, name: str) -> Buffer:
        """A buffer by name."""
        return next(buffer for buffer in self.buffers if buffer.name == name)
