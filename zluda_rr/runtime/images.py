"""Image objects for code that reads surfaces and textures through the hardware, as ZLUDA's does.

The oracle and the project's own lowering take a handle for the address of a small descriptor of their own
(kernels/ptx_runtime.hip). On AMD a handle points at hardware descriptors instead; the same launch gets those here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from zluda_rr.emulate.gfx12 import PITCH_ALIGNMENT, image_object
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.runtime.workload import POISON, TEXEL_BYTES, Launch, Surface


@dataclass(frozen=True, slots=True)
class _Image:
    """A surface's texels in rows of an aligned pitch, in the allocation `name`."""

    surface: Surface
    name: str
    pitch: int

    def rows(self, memory: AddressSpace) -> npt.NDArray[np.uint8]:
        """[y, byte of the row] without the padding."""
        whole = memory.view(self.name).reshape(self.surface.height, self.pitch)
        return whole[:, : self.surface.width * TEXEL_BYTES]


@contextmanager
def image_objects(launch: Launch) -> Iterator[Launch]:
    """The launch with image objects behind its handles; afterwards the texels are back in the surfaces' allocations.

    The given launch's memory changes: it is a copy of the caller's own.
    """
    memory, params = launch.memory, bytearray(launch.params)
    images = [_attach(memory, surface, params) for surface in launch.surfaces]
    yield replace(launch, params=bytes(params))
    for image in images:
        memory.view(image.surface.name)[:] = image.rows(memory).reshape(-1)


def _attach(memory: AddressSpace, surface: Surface, params: bytearray) -> _Image:
    pitch = -(-surface.width * TEXEL_BYTES // PITCH_ALIGNMENT) * PITCH_ALIGNMENT
    image = _Image(surface, f"{surface.name}.image", pitch)
    writable = memory.allocations[surface.name].writable
    poison = np.full(pitch * surface.height, POISON, np.uint8)
    base = memory.allocate(image.name, poison.size, data=poison, writable=writable)
    image.rows(memory)[:] = memory.view(surface.name).reshape(surface.height, -1)
    words = image_object(base, surface.width, surface.height, pitch)
    handle = memory.allocate(f"{surface.name}.object", len(words), data=words, writable=False)
    params[surface.parameter : surface.parameter + 8] = handle.to_bytes(8, "little")
    return image
