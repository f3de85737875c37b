"""Image objects of a launch, and the backend's complaints; no compiler is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.zluda_compiler import needs_zoc, zoc
from zluda_rr.contract import load_contract
from zluda_rr.emulate.gfx12.image_resource import read_images, read_samplers
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.errors import UserError
from zluda_rr.ptx import parse
from zluda_rr.runtime import Launch, Program, Shape, Surface, ZludaDevice, build_launch, compile_with_zoc, zoc_path
from zluda_rr.runtime.images import image_objects

SHAPE = Shape(ex=18, ey=10, shift_x=2, shift_y=4)


def handles(launch: Launch) -> dict[str, int]:
    """Handle of each surface among the parameters."""
    words = {s.name: launch.params[s.parameter : s.parameter + 8] for s in launch.surfaces}
    return {name: int.from_bytes(word, "little") for name, word in words.items()}


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
def test_every_surface_gets_an_object_with_its_texels(layer: str) -> None:
    contract = load_contract(layer)
    original = build_launch(contract, SHAPE)
    assert {surface.name for surface in original.surfaces} == {surface.name for surface in contract.surfaces}
    launch = replace(original, memory=original.memory.copy())
    with image_objects(launch) as attached:
        for surface in attached.surfaces:
            handle = handles(attached)[surface.name]
            words = launch.memory.load(np.array([handle], np.uint64), 64).view(np.uint32)[0]
            image = read_images(words[:8, None])
            read_samplers(words[12:16, None])
            assert (int(image.width[0]), int(image.height[0])) == (surface.width, surface.height)
            row = surface.width * 8
            for y in range(surface.height):
                line = np.uint64(int(image.base[0]) + y * int(image.pitch[0]) * 8)
                expected = original.memory.view(surface.name)[y * row : (y + 1) * row]
                got = launch.memory.load(line + np.arange(row, dtype=np.uint64), 1)[:, 0]
                assert (got == expected).all()
    differing = {n for n, h in handles(original).items() if h != handles(attached)[n]}
    assert differing == {surface.name for surface in original.surfaces}
    assert len(attached.params) == len(original.params)


def test_what_was_written_is_in_the_surface_afterwards() -> None:
    launch = build_launch(load_contract("enc0"), SHAPE)
    surface = next(s for s in launch.surfaces if s.name in launch.outputs)
    with image_objects(replace(launch, memory=launch.memory.copy())) as attached:
        image = attached.memory.view(f"{surface.name}.image")
        pitch = image.size // surface.height
        image[pitch + 8] = 0x5A  # texel (1, 1)
        image[surface.width * 8] = 0xA5  # padding
    after = attached.memory.view(surface.name)
    assert after[surface.width * 8 + 8] == 0x5A
    before = launch.memory.view(surface.name)
    assert np.flatnonzero(after != before).tolist() == [surface.width * 8 + 8]


def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no ZLUDA compiler named: give --zoc a file or set ZLUDA_RR_ZOC"):
        zoc_path(None, {})
    with pytest.raises(UserError, match="no such file"):
        zoc_path(str(tmp_path / "zoc"), {})
    with pytest.raises(UserError, match="no such file"):
        zoc_path("", {"ZLUDA_RR_ZOC": str(tmp_path / "zoc")})


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "zoc"
    program.write_text("#!/bin/sh\necho 'Pass x took 1s'\necho 'LLVM ERROR: no such thing' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="LLVM ERROR: no such thing"):
        compile_with_zoc(program, ".version 8.1", "k")


SAMPLES = """.version 8.1
.target sm_89
.address_size 64
.visible .entry samples(.param .u64 image, .param .u64 outputs)
{
\t.reg .b64 %rd<8>;
\t.reg .b32 %r<8>;
\t.reg .f32 %f<8>;
\tld.param.u64 %rd1, [image];
\tld.param.u64 %rd2, [outputs];
\tmov.u32 %r1, %tid.x;
\tsub.s32 %r2, %r1, 3;
\tshr.s32 %r3, %r1, 2;
\ttex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r2, %r3}];
\tmul.wide.u32 %rd3, %r1, 16;
\tadd.s64 %rd4, %rd2, %rd3;
\tst.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};
\tret;
}
"""


@needs_zoc
def test_zluda_samples_through_the_object() -> None:
    """A texture form that unpatched ZLUDA has: coordinates outside are clamped, values are the texels'."""
    texels = np.random.default_rng(0).normal(0, 1, (5, 22, 4)).astype(np.float16)
    memory = AddressSpace(1 << 20)
    memory.allocate("image", texels.nbytes, data=texels.view(np.uint8), writable=False)
    target = memory.allocate("outputs", 512)
    params = np.array([0, target], np.uint64).tobytes()
    surfaces = (Surface("image", 0, 22, 5),)
    launch = Launch("samples", (1, 1, 1), (32, 1, 1), params, memory, ("outputs",), surfaces=surfaces)
    compiled = compile_with_zoc(zoc(), SAMPLES, "samples")
    assert "image_sample" in compiled.assembly
    after = ZludaDevice().run(Program("zluda", parse(SAMPLES), "samples", compiled), launch, "exact").memory
    lane = np.arange(32)
    expected = texels[np.clip(lane >> 2, 0, 4), np.clip(lane - 3, 0, 21)].astype(np.float32)
    assert (after.view("outputs").view(np.float32).reshape(32, 4) == expected).all()
