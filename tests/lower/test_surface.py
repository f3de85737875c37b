"""Surfaces and textures through the shared descriptor, inside, at the edges and outside."""

import numpy as np
import pytest

from tests.lower.harness import LANES, kernel
from zluda_rr import lower
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import Module

WIDTH, HEIGHT, PITCH = 5, 3, 64
DECLARATIONS = ".reg .b64 %x; .reg .b16 %h, %k, %l, %m;"


def space() -> tuple[AddressSpace, bytes, int]:
    """Memory with one surface; inputs are (handle low, handle high, x, y) for x, y from -2 to beyond the edges."""
    memory = AddressSpace(capacity=1 << 20)
    texels = np.random.default_rng(3).integers(0, 256, PITCH * HEIGHT, dtype=np.uint8)
    base = memory.allocate("texels", texels.nbytes, data=texels)
    descriptor = np.zeros(8, np.uint32)
    descriptor[:2] = np.array([base], np.uint64).view(np.uint32)
    descriptor[2:6] = WIDTH, HEIGHT, PITCH, 8
    handle = memory.allocate("descriptor", 32, data=descriptor.view(np.uint8))
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(-2, WIDTH + 3), np.arange(-2, HEIGHT + 2)))
    x, y = np.append(x, [-(2**28), 2**28 - 1]), np.append(y, [-(2**31), 2**31 - 1])
    rows = np.zeros((-(-len(x) // LANES) * LANES, 4), np.uint32)
    rows[:, :2] = np.array([handle], np.uint64).view(np.uint32)
    rows[: len(x), 2] = x.astype(np.uint32)
    rows[: len(x), 3] = y.astype(np.uint32)
    source = memory.allocate("in", rows.nbytes, data=rows.ravel().view(np.uint8))
    target = memory.allocate("out", 8 * len(rows))
    return memory, np.array([source, target], np.uint64).tobytes(), len(rows) // LANES


@pytest.mark.parametrize(
    "access",
    [
        "shl.b32 %a2, %a2, 3; suld.b.2d.v4.b16.zero {%h, %k, %l, %m}, [%x, {%a2, %a3}];",
        "tex.base.2d.v4.f16.s32 {%h, %k, %l, %m}, [%x, {%a2, %a3}];",
        (
            "mov.b32 {%h, %k}, %index; mov.b32 {%l, %m}, %index; shl.b32 %a2, %a2, 3; "
            "sust.b.2d.v4.b16.zero [%x, {%a2, %a3}], {%h, %l, %m, %h};"
        ),
    ],
    ids=["suld", "tex", "sust"],
)
def test_access(access: str) -> None:
    text = f"mov.b64 %x, {{%a0, %a1}}; {access} mov.b32 %d0, {{%h, %k}}; mov.b32 %d1, {{%l, %m}};"
    module: Module = kernel(text, inputs=4, outputs=2, declarations=DECLARATIONS)
    expected, params, blocks = space()
    run_entry(module, "probe", grid=(blocks, 1, 1), block=(LANES, 1, 1), params=params, memory=expected, model="exact")
    actual, params, blocks = space()
    code = load_code_object(lower.compile_module(module, "probe").code_object)
    run_kernel(code, "probe", (blocks, 1, 1), (LANES, 1, 1), params, actual, "exact")
    before, _, _ = space()
    assert any((before.view(name) != expected.view(name)).any() for name in ("out", "texels"))
    for name in expected.allocations:
        assert (actual.view(name) == expected.view(name)).all(), name
