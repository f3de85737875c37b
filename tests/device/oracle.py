"""A golden case as a launch of the PTX oracle: the same memory, parameter block and grid as on the GPU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import OracleStats, run_entry
from zluda_rr.ptx import Body

from .golden import SURFACES
from .inputs import Case, texels, weight_image
from .run_enc0 import ENTRY, PARAMETER_BYTES, POISON

U8 = npt.NDArray[np.uint8]


def _surface(memory: AddressSpace, name: str, pixels: U8) -> int:
    """Handle of a surface [height, width, 8]: the address of its 32-byte descriptor."""
    height, width = pixels.shape[:2]
    base = memory.allocate(name, pixels.size, data=pixels.reshape(-1))
    descriptor = np.zeros(32, np.uint8)
    descriptor[:8] = np.array([base], np.uint64).view(np.uint8)
    descriptor[8:24] = np.array([width, height, 8 * width, 8], np.uint32).view(np.uint8)
    return memory.allocate(f"{name}.descriptor", 32, data=descriptor)


def launch(body: Body, case: Case, model: str, capture: tuple[int, ...] = ()) -> tuple[dict[str, U8], OracleStats]:
    """Outputs by name, in the shapes of the golden files, and what the oracle counted and captured."""
    memory = AddressSpace()
    shapes = {"arena": (case.ey, case.ex, 32), "merged": (2, case.ey // 2, case.ex // 2, 32)}
    for name in SURFACES:
        shapes[name] = (case.ey // 2, case.ex // 2, 8) if name == "half" else (case.ey, case.ex, 8)
    empty = {name: np.full(shape, POISON, np.uint8) for name, shape in shapes.items()}
    words = {40: memory.allocate("weights", weight_image(case).size, data=weight_image(case))}
    words[48] = memory.allocate("arena", empty["arena"].size, data=empty["arena"].reshape(-1))
    words[56] = memory.allocate("merged", empty["merged"].size, data=empty["merged"].reshape(-1))
    words |= {offset: _surface(memory, name, empty[name]) for name, offset in SURFACES.items()}
    words[304] = _surface(memory, "input", texels(case).view(np.uint8).reshape(case.ey, case.ex, 8))
    params = _parameters(case, words)
    stats = run_entry(
        body, ENTRY, grid=case.grid, block=(32, 1, 1), params=params, memory=memory, model=model, capture=capture
    )
    return {name: memory.view(name).reshape(shape).copy() for name, shape in shapes.items()}, stats


def _parameters(case: Case, words: Mapping[int, int]) -> bytes:
    params = np.zeros(PARAMETER_BYTES, np.uint8)
    params[0:8] = np.array([case.ex, case.ey], np.uint32).view(np.uint8)
    params[80:84] = np.array([case.shift_x, case.shift_y], np.uint16).view(np.uint8)
    for offset, value in words.items():
        params[offset : offset + 8] = np.array([value], np.uint64).view(np.uint8)
    return params.tobytes()
