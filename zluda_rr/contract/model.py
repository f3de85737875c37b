"""The contract of a layer: the family's rule and the layer's own numbers, expanded.

`rules/<family>.toml` says what the layers of a family have in common, `rules/<layer>.toml` what is particular. A
contract states structure only: sizes, offsets, shapes, sources and cut points; no register name and no line number.
Numbers are bytes unless said otherwise. The keys of both files: `reader.py`.
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
    """How the kernel is launched: one block per tile of tokens, the origin shifted.

    `even` names what is even in every launch (ex, ey: extents in tokens; sx, sy: the shift); extents and shift lie in
    their ranges, both ends included. Proofs assume no more than this.
    """

    waves: int
    tile: tuple[int, int]
    extents_offset: int  # u32 x 2 in the parameter block
    shift_offset: int  # u16 x 2 in the parameter block
    even: tuple[str, ...]
    extents_range: tuple[int, int]
    shift_range: tuple[int, int]

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads per axis: 32 lanes, one z per wave."""
        return 32, 1, self.waves

    def check(self, ex: int, ey: int, sx: int, sy: int) -> None:
        """UserError for a launch that the contract does not allow, since nothing is proved of it."""
        for name, value in (("ex", ex), ("ey", ey), ("sx", sx), ("sy", sy)):
            low, high = self.extents_range if name in ("ex", "ey") else self.shift_range
            if not low <= value <= high:
                raise UserError(f"{name} = {value}: the layer's rule allows {low}..{high}")
            if name in self.even and value % 2:
                raise UserError(f"{name} = {value}: the layer's rule allows even values only")

    def grid_size(self, ex: int, ey: int, sx: int, sy: int) -> tuple[int, int, int]:
        """Blocks per axis: every token of the extents lies in one [D 26]."""
        width, height = self.tile
        return -(-(ex + sx) // width), -(-(ey + sy) // height), 1


@dataclass(frozen=True, slots=True)
class ArithmeticRule:
    """Constants of the family's arithmetic, f16 bits unless said otherwise; what they do: `arithmetic.py`."""

    norm_epsilon: int
    activation_limit: int
    activation_slope: int
    activation_curve: int
    activation_offset: int
    exponent_scale: int
    exponent_bound: int
    exponent_linear: int
    exponent_offset: int
    exponent_shift: int  # bits
    exponent_mask: int  # of a 32-bit word


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
    """A shared array, known by its size: the kernel's only one of `nbytes` bytes."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One row of the contract's phases table."""

    index: int
    shape: tuple[int, int, int]
    mma: int
    a: Source
    b: Source
    c: Source


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
class StoreRule:
    """Stores of a phase's results to a buffer that the body performs.

    `layout`: "planes" (a token's bytes, 32 per plane, at its place [1 E30]) or "merged planes" (one merged token per
    2x2 group, halved extents [D 12]). `planes` of 32 channels each.
    """

    buffer: str
    phase: int
    layout: str
    planes: int


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
    stores: tuple[StoreRule, ...]
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
    """Everything the rules say about one layer."""

    layer: str
    family: str
    arithmetic: ArithmeticRule
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
