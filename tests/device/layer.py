"""What a golden run has to know of a layer: parameter block, inputs and outputs of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import inputs, inputs_enc1
from .inputs import Case

U8 = npt.NDArray[np.uint8]
POISON = 0xCD  # what outputs hold before the launch


@dataclass(frozen=True, slots=True)
class Output:
    """A buffer of `planes` planes of 32 bytes per token (0: one, without a plane axis), or a surface of four f16.

    `scale` 2 means halved extents; `offset` is that of the pointer or handle in the parameter block.
    """

    name: str
    offset: int
    scale: int
    planes: int = 0
    surface: bool = False

    def shape(self, case: Case) -> tuple[int, ...]:
        """Bytes, the last axis one token."""
        extents = case.ey // self.scale, case.ex // self.scale
        if self.surface:
            return (*extents, 8)
        return (self.planes, *extents, 32) if self.planes else (*extents, 32)


@dataclass(frozen=True, slots=True)
class Layer:
    """`buffers` and `images` make a case's inputs by parameter offset: bytes, and texels f16 [ey, ex, 4], which are
    read as textures where `textures` says so.
    """

    name: str
    parameter_bytes: int
    outputs: tuple[Output, ...]
    buffers: Mapping[int, Callable[[Case], U8]]
    images: Mapping[int, Callable[[Case], npt.NDArray[np.float16]]]
    textures: bool

    @property
    def entry(self) -> str:
        """Name of the kernel."""
        return f"cuda_dldn_engine_swin_{self.name}_kernel"

    @property
    def exact(self) -> tuple[str, ...]:
        """Outputs compared byte for byte; the surfaces contain ex2 and div.approx (rr-details.md 55)."""
        return tuple(output.name for output in self.outputs if not output.surface)

    @property
    def surfaces(self) -> tuple[str, ...]:
        """The other outputs."""
        return tuple(output.name for output in self.outputs if output.surface)

    def empty(self, case: Case) -> dict[str, U8]:
        """All outputs before the launch."""
        return {output.name: np.full(output.shape(case), POISON, np.uint8) for output in self.outputs}

    def texels(self, case: Case) -> dict[int, U8]:
        """`images` as bytes [ey, ex, 8]."""
        return {at: make(case).view(np.uint8).reshape(case.ey, case.ex, 8) for at, make in self.images.items()}

    def parameters(self, case: Case, words: Mapping[int, int]) -> bytes:
        """The parameter block: extents, shift, and `words` at their offsets."""
        params = np.zeros(self.parameter_bytes, np.uint8)
        params[0:8] = np.array([case.ex, case.ey], np.uint32).view(np.uint8)
        params[80:84] = np.array([case.shift_x, case.shift_y], np.uint16).view(np.uint8)
        for offset, value in words.items():
            params[offset : offset + 8] = np.array([value], np.uint64).view(np.uint8)
        return params.tobytes()


_SURFACES = (
    Output("blend", 112, 1, surface=True),
    Output("gate", 120, 1, surface=True),
    Output("half", 128, 2, surface=True),
)
ENC0 = Layer(
    name="enc0",
    parameter_bytes=1032,
    outputs=(Output("arena", 48, 1), Output("merged", 56, 2, planes=2), *_SURFACES),
    buffers={40: inputs.weight_image},
    images={304: inputs.texels},
    textures=False,
)
ENC1 = Layer(
    name="enc1",
    parameter_bytes=144,
    outputs=(Output("arena", 48, 1, planes=2), Output("merged", 56, 2, planes=3), *_SURFACES),
    buffers={8: inputs_enc1.planes, 40: inputs_enc1.weight_image},
    images={88: inputs.texels},
    textures=True,
)
LAYERS = {layer.name: layer for layer in (ENC0, ENC1)}
