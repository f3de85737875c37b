"""A golden case as a launch of the PTX oracle: the same memory, parameter block and grid as on the GPU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import OracleStats, run_entry
from zluda_rr.ptx import Body

from .inputs import Case
from .layer import ENC0, Layer

U8 = npt.NDArray[np.uint8]


def _surface(memory: AddressSpace, name: str, pixels: U8) -> int:
    """Handle of a surface [height, width, 8]: the address of its 32-byte descriptor."""
    height, width = pixels.shape[:2]
    base = memory.allocate(name, pixels.size, data=pixels.reshape(-1))
    descriptor = np.zeros(32, np.uint8)
    descriptor[:8] = np.array([base], np.uint64).view(np.uint8)
    descriptor[8:24] = np.array([width, height, 8 * width, 8], np.uint32).view(np.uint8)
    return memory.allocate(f"{name}.descriptor", 32, data=descriptor)


def launch(
    body: Body, case: Case, model: str, capture: tuple[int, ...] = (), layer: Layer = ENC0
) -> tuple[dict[str, U8], OracleStats]:
    """Outputs by name, in the shapes of the golden files, and what the oracle counted and captured."""
    memory = AddressSpace()
    empty = layer.empty(case)
    words = {}
    for offset, make in layer.buffers.items():
        data = make(case).reshape(-1)
        words[offset] = memory.allocate(f"input{offset}", data.size, data=data)
    for offset, pixels in layer.texels(case).items():
        words[offset] = _surface(memory, f"input{offset}", pixels)
    for output in layer.outputs:
        data = empty[output.name]
        if output.surface:
            words[output.offset] = _surface(memory, output.name, data)
        else:
            words[output.offset] = memory.allocate(output.name, data.size, data=data.reshape(-1))
    params = layer.parameters(case, words)
    stats = run_entry(
        body, layer.entry, grid=case.grid, block=(32, 1, 1), params=params, memory=memory, model=model, capture=capture
    )
    return {name: memory.view(name).reshape(data.shape).copy() for name, data in empty.items()}, stats
