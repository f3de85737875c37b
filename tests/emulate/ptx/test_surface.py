"""Textures and surfaces by descriptor, against plain indexing of a numpy image."""

import struct

import numpy as np
import pytest

from tests.emulate.ptx.harness import Snippet, run
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import ExecutionFault

WIDTH, HEIGHT, PITCH = 6, 5, 64


def image_space() -> tuple[AddressSpace, int, np.ndarray]:
    """A 6x5 image of four halves with a pitch of 64 bytes: the space, its descriptor's address, texels [y, x, 4]."""
    space = AddressSpace(1 << 22)
    texels = np.random.default_rng(4).integers(0, 1 << 16, (HEIGHT, WIDTH, 4), dtype=np.uint16)
    rows = np.full((HEIGHT, PITCH // 2), 0xDEAD, dtype=np.uint16)
    rows[:, : 4 * WIDTH] = texels.reshape(HEIGHT, -1)
    base = space.allocate("image", rows.nbytes, data=rows.tobytes())
    descriptor = struct.pack("<QIIIIQ", base, WIDTH, HEIGHT, PITCH, 8, 0)
    return space, space.allocate("descriptor", 32, data=descriptor), texels


def grid(handle: int) -> np.ndarray:
    """64 lanes: handle, x and y of an 8x8 grid that reaches one texel beyond each side."""
    y, x = np.divmod(np.arange(64), 8)
    return np.stack([np.full(64, handle), x - 1, y - 1], axis=1).astype(np.int64).view(np.uint64) & np.uint64(2**64 - 1)


@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_surface_loads(mode: str) -> None:
    space, handle, texels = image_space()
    text = f"shl.b32 %a1, %a1, 3; suld.b.2d.v4.b16.{mode} {{%d0, %d1, %d2, %d3}}, [%a0, {{%a1, %a2}}];"
    slots = run(Snippet(text, ("b64", "b32", "b32"), ("b16",) * 4), grid(handle), memory=space).slots
    for lane, row in enumerate(slots.tolist()):
        x, y = lane % 8 - 1, lane // 8 - 1
        inside = 0 <= x < WIDTH and 0 <= y < HEIGHT
        clamped = texels[min(max(y, 0), HEIGHT - 1), min(max(x, 0), WIDTH - 1)].tolist()
        assert row == (clamped if inside or mode == "clamp" else [0] * 4)


def test_surface_stores_drop_what_lies_outside() -> None:
    space, handle, texels = image_space()
    text = """mov.b32 %d0, %laneid; cvt.u16.u32 %s, %d0; shl.b32 %a1, %a1, 3;
    sust.b.2d.v4.b16.zero [%a0, {%a1, %a2}], {%s, 7, %s, 9};"""
    snippet = Snippet(text, ("b64", "b32", "b32"), ("b32",), declare=".reg .b16 %s;\n")
    outcome = run(snippet, grid(handle), memory=space)
    rows = outcome.memory.view("image").view(np.uint16).reshape(HEIGHT, PITCH // 2)
    assert np.all(rows[:, 4 * WIDTH :] == 0xDEAD)
    for y in range(HEIGHT):
        for x in range(WIDTH):
            lane = (8 * (y + 1) + x + 1) % 32
            assert rows[y, 4 * x : 4 * x + 4].tolist() == [lane, 7, lane, 9]
    assert texels.any()


def test_masked_lanes_do_not_touch_the_surface() -> None:
    space, _, _ = image_space()
    text = "setp.ne.u64 %p, %a0, 0; mov.b16 %d0, 1; @%p suld.b.2d.b16.trap %d0, [%a0, {%a1, %a2}];"
    snippet = Snippet(text, ("b64", "b32", "b32"), ("b16",), declare=".reg .pred %p;\n")
    slots = run(snippet, np.zeros((32, 3), dtype=np.uint64), memory=space).slots
    assert np.all(slots == 1)


@pytest.mark.parametrize(
    ("x", "y", "message"), [(48, 0, "outside at x 48 bytes, y 0"), (0, 5, "outside"), (4, 0, "no multiple of 8 bytes")]
)
def test_trapping_and_misaligned_accesses_are_faults(x: int, y: int, message: str) -> None:
    space, handle, _ = image_space()
    text = "suld.b.2d.v4.b16.trap {%d0, %d0, %d0, %d0}, [%a0, {%a1, %a2}];"
    with pytest.raises(ExecutionFault, match=rf"line \d+, s\d+: suld.*{message}"):
        run(
            Snippet(text, ("b64", "b32", "b32"), ("b16",)),
            np.tile(np.uint64([handle, x, y]), (32, 1)),
            memory=space,
        )


@pytest.mark.parametrize("result", ["f16", "f32"])
def test_textures_clamp_to_the_edge(result: str) -> None:
    space, handle, texels = image_space()
    register = "b16" if result == "f16" else "f32"
    text = f"tex.base.2d.v4.{result}.s32 {{%d0, %d1, %d2, %d3}}, [%a0, {{%a1, %a2}}];"
    slots = run(Snippet(text, ("b64", "b32", "b32"), (register,) * 4), grid(handle), memory=space).slots
    for lane, row in enumerate(slots):
        x, y = min(max(lane % 8 - 1, 0), WIDTH - 1), min(max(lane // 8 - 1, 0), HEIGHT - 1)
        expected = texels[y, x]
        if result == "f32":
            values = row.astype(np.uint32).view(np.float32)
            assert np.array_equal(values, expected.view(np.float16).astype(np.float32), equal_nan=True)
        else:
            assert row.tolist() == expected.tolist()
