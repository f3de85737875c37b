"""Complete launches of a layer: memory, parameter block and grid, from the layer's contract and a seed."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from zluda_rr.contract import LayerContract
from zluda_rr.emulate.memory import GUARD, AddressSpace
from zluda_rr.errors import UserError
from zluda_rr.runtime.edges import EdgeImage, edge_images
from zluda_rr.runtime.planes import plane_codes
from zluda_rr.runtime.weights import Region, RegionKind, WorkloadKind, weight_image

POISON = 0xCD  # bytes no kernel wrote stay recognisable, and equal in every run
TEXEL_BYTES = 8  # four f16 channels
DESCRIPTOR = np.dtype(
    [
        ("base", "<u8"),
        ("width", "<u4"),
        ("height", "<u4"),
        ("pitch", "<u4"),
        ("texel", "<u4"),
        ("zero", "<u8"),
    ]
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Image of one launch in tokens. Extents are even; shifts are even and 0..7 (rr-details.md 26)."""

    ex: int
    ey: int
    shift_x: int
    shift_y: int

    def __post_init__(self) -> None:
        if self.ex % 2 or self.ey % 2 or min(self.ex, self.ey) < 2:
            raise UserError(f"extents {self.ex}x{self.ey}: both must be even and at least 2")
        if self.shift_x % 2 or self.shift_y % 2 or not (0 <= self.shift_x < 8 and 0 <= self.shift_y < 8):
            raise UserError(f"shift {self.shift_x},{self.shift_y}: both must be even and in 0..7")

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks of 8 x 8 tokens that cover the shifted extents."""
        return (-(-(self.ex + self.shift_x) // 8), -(-(self.ey + self.shift_y) // 8), 1)

    @property
    def blocks(self) -> int:
        """Thread blocks of the launch."""
        return self.grid[0] * self.grid[1]


EDGE_SHAPE = Shape(ex=10, ey=6, shift_x=4, shift_y=2)
"""Two blocks: of data at an edge there are many launches."""


@dataclass(frozen=True, slots=True)
class Surface:
    """A surface or texture of a launch: its allocation, the byte of its handle among the parameters, its texels."""

    name: str
    parameter: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. `memory` is the state before it; `outputs` names the allocations a kernel may write.

    `halves` are the outputs that hold f16 values. `pointers` are the bytes of `params` at which addresses of `memory`
    stand, for devices whose memory lies elsewhere; a surface's descriptor begins with one as well.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: bytes
    memory: AddressSpace
    outputs: tuple[str, ...]
    halves: frozenset[str] = frozenset()
    surfaces: tuple[Surface, ...] = ()
    pointers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a launch is made of, so that it can be made again with its buffers elsewhere.

    `edge` is the weight image of data at an edge (runtime/edges.py).
    """

    contract: LayerContract
    shape: Shape
    kind: WorkloadKind
    seed: int
    edge: EdgeImage | None = None

    def launch(self, guard: int = GUARD) -> Launch:
        """The launch, with so many unmapped bytes around every buffer."""
        image = None if self.edge is None else self.edge.image
        built = build_launch(
            self.contract, self.shape, self.kind, self.seed, memory=lambda: AddressSpace(guard=guard), image=image
        )
        return built if self.edge is None else replace(built, name=f"{built.name} ({self.edge.name})")


def recipes(contract: LayerContract, shape: Shape, kind: WorkloadKind, seed: int) -> tuple[Recipe, ...]:
    """All launches of a kind of data: one over `shape`, or where the data stands at an edge many over `EDGE_SHAPE`."""
    if not kind.at_an_edge:
        return (Recipe(contract, shape, kind, seed),)
    nbytes = next(b.size(shape.ex, shape.ey) for b in contract.buffers if b.role == "weights")
    images = edge_images(regions_of(contract), nbytes, kind, seed, every=5)
    return tuple(Recipe(contract, EDGE_SHAPE, kind, seed, image) for image in images)


def build_launch(
    contract: LayerContract,
    shape: Shape,
    kind: WorkloadKind = WorkloadKind.RANDOM,
    seed: int = 1,
    *,
    memory: Callable[[], AddressSpace] = AddressSpace,
    image: npt.NDArray[np.uint8] | None = None,
) -> Launch:
    """A launch of the layer over `shape`: every buffer and surface of the contract, inputs from `seed`.

    `image` takes the place of the generated weight image.
    """
    space = memory()
    params = bytearray(contract.parameter_bytes)
    spec = contract.launch
    spec.check(shape.ex, shape.ey, shape.shift_x, shape.shift_y)
    _put(params, spec.extents_offset, np.array([shape.ex, shape.ey], "<u4"))
    _put(params, spec.shift_offset, np.array([shape.shift_x, shape.shift_y], "<u2"))
    outputs, surfaces = [], []
    for buffer in contract.buffers:
        nbytes = buffer.size(shape.ex, shape.ey)
        given = image if buffer.role == "weights" else None
        data = _buffer_data(contract, buffer.role, nbytes, kind, seed) if given is None else given
        address = space.allocate(buffer.name, nbytes, data=data, writable=buffer.role == "output")
        _put(params, buffer.offset, np.array([address], "<u8"))
        if buffer.role == "output":
            outputs.append(buffer.name)
    for surface in contract.surfaces:
        width, height = surface.extent(shape.ex, shape.ey)
        output = surface.role == "output"
        data = np.full(width * height * TEXEL_BYTES, POISON, np.uint8)
        if not output:
            data = _image(width, height, kind, seed)
        address = space.allocate(surface.name, data.size, data=data, writable=output)
        handle = _descriptor(space, surface.name, address, width, height)
        _put(params, surface.offset, np.array([handle], "<u8"))
        surfaces.append(Surface(surface.name, surface.offset, width, height))
        if output:
            outputs.append(surface.name)
    name = f"{contract.layer}-{kind}-{shape.ex}x{shape.ey}+{shape.shift_x}+{shape.shift_y}-s{seed}"
    halves = frozenset(s.name for s in contract.surfaces if s.channel_type == "f16")
    grid = spec.grid_size(shape.ex, shape.ey, shape.shift_x, shape.shift_y)
    pointers = (*(buffer.offset for buffer in contract.buffers), *(surface.offset for surface in contract.surfaces))
    return Launch(name, grid, spec.block, bytes(params), space, tuple(outputs), halves, tuple(surfaces), pointers)


def _put(params: bytearray, offset: int, value: npt.NDArray[np.generic]) -> None:
    raw = value.tobytes()
    params[offset : offset + len(raw)] = raw


def descriptor_name(surface: str) -> str:
    """The allocation of a surface's descriptor."""
    return f"{surface}.descriptor"


def _descriptor(space: AddressSpace, name: str, base: int, width: int, height: int) -> int:
    """The 32-byte descriptor a surface or texture handle points at (kernels/ptx_runtime.hip reads it)."""
    record = np.zeros(1, DESCRIPTOR)
    record[0] = (base, width, height, width * TEXEL_BYTES, TEXEL_BYTES, 0)
    return space.allocate(descriptor_name(name), 32, data=record.view(np.uint8), writable=False)


def _buffer_data(
    contract: LayerContract, role: str, nbytes: int, kind: WorkloadKind, seed: int
) -> npt.NDArray[np.uint8]:
    if role == "output":
        return np.full(nbytes, POISON, np.uint8)
    if role == "weights":
        return weight_image(regions_of(contract), nbytes, kind, seed)
    return plane_codes(nbytes, kind, seed)


def regions_of(contract: LayerContract) -> tuple[Region, ...]:
    """The contract's map of the weight image."""
    return tuple(Region(w.name, w.offset, w.nbytes, RegionKind(w.kind), bounded=w.bounded) for w in contract.weights)


def _image(width: int, height: int, kind: WorkloadKind, seed: int) -> npt.NDArray[np.uint8]:
    """Input texels, f16 x 4: a smooth ramp with noise, so that neighbouring tokens are alike but never equal."""
    rng = np.random.default_rng([seed, 0x1A9E])
    y, x = np.mgrid[0:height, 0:width]
    ramp = np.sin(x / 9.0)[..., None] + np.cos(y / 7.0)[..., None]
    texels = (ramp + rng.normal(0.0, 0.7, (height, width, 4))).astype(np.float16)
    texels[rng.random(texels.shape) < 0.02] = np.float16(-0.0)
    texels[rng.random(texels.shape) < 0.02] = np.float16(6e-8)  # the smallest denormal
    if kind is WorkloadKind.SPECIAL:
        special = np.array([0x0001, 0x83FF, 0x8000, 0x0000, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00], np.uint16)
        where = rng.random(texels.shape) < 0.08
        texels.view(np.uint16)[where] = rng.choice(special, int(where.sum()))
    elif kind is WorkloadKind.SATURATING:
        texels *= np.float16(6.0)
    image: npt.NDArray[np.uint8] = texels.reshape(-1).view(np.uint8)
    return image
