"""Image loads, stores and samples against plain indexing of the texels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import execute, machine
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.gfx12.image_formats import ImageFormat
from zluda_rr.emulate.gfx12.image_resource import image_object
from zluda_rr.emulate.gfx12.machine import UNSET, EmulationError, Machine
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_ir

WIDTH, HEIGHT, PITCH = 11, 5, 256
LANE = np.arange(32)
IMAGE, SAMPLER = 8, 0
LOAD = "image_load v[4:5], [v0, v1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D d16"
COMPILED = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare <4 x half> @llvm.amdgcn.image.load.2d.v4f16.i32.v8i32(i32, i32, i32, <8 x i32>, i32, i32)
declare void @llvm.amdgcn.image.store.2d.v4f16.i32.v8i32(<4 x half>, i32, i32, i32, <8 x i32>, i32, i32)
declare <4 x float> @llvm.amdgcn.image.sample.lz.2d.v4f32.f32.v8i32.v4i32(
  i32, float, float, <8 x i32>, <4 x i32>, i1, i32, i32)
define amdgpu_kernel void @images(i64 %source, i64 %target, ptr addrspace(1) %output) {
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %from = inttoptr i64 %source to ptr addrspace(4)
  %to = inttoptr i64 %target to ptr addrspace(4)
  %image = load <8 x i32>, ptr addrspace(4) %from
  %other = load <8 x i32>, ptr addrspace(4) %to
  %behind = getelementptr i32, ptr addrspace(4) %from, i32 12
  %sampler = load <4 x i32>, ptr addrspace(4) %behind
  %texel = call <4 x half> @llvm.amdgcn.image.load.2d.v4f16.i32.v8i32(
    i32 15, i32 %x, i32 2, <8 x i32> %image, i32 0, i32 0)
  call void @llvm.amdgcn.image.store.2d.v4f16.i32.v8i32(
    <4 x half> %texel, i32 15, i32 %x, i32 1, <8 x i32> %other, i32 0, i32 0)
  %column = uitofp i32 %x to float
  %sample = call <4 x float> @llvm.amdgcn.image.sample.lz.2d.v4f32.f32.v8i32.v4i32(
    i32 15, float %column, float 3.0, <8 x i32> %image, <4 x i32> %sampler, i1 false, i32 0, i32 0)
  %place = getelementptr <4 x float>, ptr addrspace(1) %output, i32 %x
  store <4 x float> %sample, ptr addrspace(1) %place
  ret void
}
"""
STORE = "image_store v[4:5], [v0, v1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D d16"
SAMPLE = "image_sample_lz v[4:5], [v0, v1], s[8:15], s[0:3] dmask:0xf dim:SQ_RSRC_IMG_2D d16"


def with_images(waves: int = 1, kind: ImageFormat = ImageFormat.RGBA16_FLOAT) -> tuple[Machine, AddressSpace]:
    """One image per wave, all different; its descriptor and sampler in scalar registers."""
    space = AddressSpace(1 << 16)
    target = machine(waves, memory=space)
    for wave in range(waves):
        data = np.random.default_rng(wave).integers(0, 256, HEIGHT * PITCH, dtype=np.uint8)
        base = space.allocate(f"image{wave}", HEIGHT * PITCH, data=data)
        words = np.frombuffer(image_object(base, WIDTH, HEIGHT, PITCH, kind), np.uint32)
        target.sgpr[IMAGE : IMAGE + 8, wave] = words[:8]
        target.sgpr[SAMPLER : SAMPLER + 4, wave] = words[12:16]
    return target, space


def texels(space: AddressSpace, wave: int = 0) -> np.ndarray:
    """[y, x, channel] halves, the row padding included."""
    return space.view(f"image{wave}").view(np.uint16).reshape(HEIGHT, -1, 4)


def at(target: Machine, x: np.ndarray, y: np.ndarray) -> None:
    target.vgpr[0] = x.astype(np.int32).view(np.uint32)
    target.vgpr[1] = y.astype(np.int32).view(np.uint32)


def halves(target: Machine, register: int, count: int, wave: int = 0) -> np.ndarray:
    """[lane, half] of `count` registers."""
    return np.ascontiguousarray(target.vgpr[register : register + count, wave].T).view(np.uint16)


def test_loads_of_every_texel_and_beyond() -> None:
    """Each wave reads its own image; outside in any direction is 0, the row padding too."""
    target, space = with_images(2)
    points = [(x, y) for y in range(-2, HEIGHT + 2) for x in range(-2, WIDTH + 4)]
    for first in range(0, len(points), 32):
        part = np.array((points[first:] + points[:32])[:32])
        at(target, part[:, 0], part[:, 1])
        execute(target, [LOAD])
        for wave in range(2):
            image = texels(space, wave)
            got = halves(target, 4, 2, wave)
            for lane, (x, y) in enumerate(part):
                inside = 0 <= x < WIDTH and 0 <= y < HEIGHT
                want = image[y, x].tolist() if inside else [0] * 4
                assert got[lane].tolist() == want, (wave, x, y)


@pytest.mark.parametrize("mask", range(1, 16))
@pytest.mark.parametrize("kind", [ImageFormat.RGBA16_FLOAT, ImageFormat.RGBA16_UINT])
def test_channels_and_widths(mask: int, kind: ImageFormat) -> None:
    target, space = with_images(kind=kind)
    texels(space)[...] &= 0x7BFF  # no NaN: its bits are not what is tested
    target.vgpr[4:12] = UNSET
    at(target, LANE % WIDTH, LANE % HEIGHT)
    channels = [c for c in range(4) if mask >> c & 1]
    wide, packed = len(channels), (len(channels) + 1) // 2
    registers = lambda first, n: f"v{first}" if n == 1 else f"v[{first}:{first + n - 1}]"  # noqa: E731
    tail = f"[v0, v1], s[8:15] dmask:{mask:#x} dim:SQ_RSRC_IMG_2D"
    target.vgpr[20:28] = UNSET
    execute(target, [f"image_load {registers(4, wide)}, {tail}", f"image_load {registers(20, packed)}, {tail} d16"])
    expected = texels(space)[LANE % HEIGHT, LANE % WIDTH][:, channels]
    words = target.vgpr[4 : 4 + wide, 0].T
    if kind is ImageFormat.RGBA16_FLOAT:
        assert (np.ascontiguousarray(words).view(np.float32) == expected.view(np.float16).astype(np.float32)).all()
    else:
        assert (words == expected).all()
    assert (halves(target, 20, packed)[:, :wide] == expected).all()
    assert (target.vgpr[4 + wide : 12] == UNSET).all()
    assert (target.vgpr[20 + packed : 28] == UNSET).all()


@pytest.mark.parametrize("execution", [0xFFFF_FFFF, 0x8001_7FF0])
def test_stores_inside_only(execution: int) -> None:
    target, space = with_images()
    before = texels(space).copy()
    x, y = (LANE * 7) % 15 - 2, (LANE * 5) % 8 - 1
    at(target, x, y)
    data = np.random.default_rng(5).integers(0, 1 << 32, (2, 32), dtype=np.uint32)
    target.vgpr[4:6, 0] = data
    target.sgpr[126] = execution
    execute(target, [STORE])
    expected = before
    written = 0
    for lane in range(32):
        if execution >> lane & 1 and 0 <= x[lane] < WIDTH and 0 <= y[lane] < HEIGHT:
            expected[y[lane], x[lane]] = np.ascontiguousarray(data[:, lane]).view(np.uint16)
            written += 1
    assert (texels(space) == expected).all()
    assert written > 3


@pytest.mark.parametrize("kind", [ImageFormat.RGBA16_FLOAT, ImageFormat.RGBA16_UINT])
def test_wide_stores_of_exact_values(kind: ImageFormat) -> None:
    target, space = with_images(kind=kind)
    values = np.random.default_rng(6).integers(0, 0x7C00, (32, 4), dtype=np.uint16)
    words = values.view(np.float16).astype(np.float32).view(np.uint32) if kind is ImageFormat.RGBA16_FLOAT else values
    target.vgpr[4:8, 0] = words.T
    at(target, LANE % WIDTH, LANE // WIDTH)
    line = "image_store v[4:7], [v0, v1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D"
    execute(target, [line])
    assert (texels(space)[LANE // WIDTH, LANE % WIDTH] == values).all()
    target.vgpr[5, 0, 9] = np.float32(0.1).view(np.uint32)
    with pytest.raises(EmulationError, match="not representable"):
        execute(target, [line])


def test_samples_are_nearest_and_clamped() -> None:
    target, space = with_images()
    x = np.linspace(-3.0, WIDTH + 2.0, 32).astype(np.float32)
    y = np.linspace(HEIGHT + 1.25, -2.0, 32).astype(np.float32)
    x[:4] = -np.inf, np.inf, 3.0, 2.5
    target.vgpr[0], target.vgpr[1] = x.view(np.uint32), y.view(np.uint32)
    execute(target, [SAMPLE])
    column = np.clip(np.floor(x), 0, WIDTH - 1).astype(int)
    row = np.clip(np.floor(y), 0, HEIGHT - 1).astype(int)
    assert (halves(target, 4, 2) == texels(space)[row, column]).all()
    assert len(set(column)) == WIDTH


@pytest.mark.parametrize("x", [np.nan, 2.9999, 0.999])
def test_doubtful_coordinates_are_refused(x: float) -> None:
    target, _ = with_images()
    target.vgpr[0], target.vgpr[1] = np.float32(x).view(np.uint32), 0
    with pytest.raises(EmulationError, match="image sample at"):
        execute(target, [SAMPLE])


def test_disabled_lanes_take_no_part() -> None:
    target, space = with_images()
    target.vgpr[0], target.vgpr[1] = np.float32(np.nan).view(np.uint32), 0
    target.vgpr[0, 0, 3] = np.float32(4.0).view(np.uint32)
    target.vgpr[4:6] = UNSET
    target.sgpr[126] = 1 << 3
    execute(target, [SAMPLE])
    assert halves(target, 4, 2)[3].tolist() == texels(space)[0, 4].tolist()
    assert (target.vgpr[4:6, 0, :3] == UNSET).all()


@pytest.mark.parametrize(
    ("dword", "mask", "value", "match"),
    [
        (1, 0xFF << 17, 30 << 17, "image format 30"),
        (1, 31 << 12, 1 << 12, "max_mip 1"),
        (3, 31 << 20, 4 << 20, "swizzle_mode 4"),
        (3, 15 << 28, 10 << 28, "type 10"),
        (3, 0xFFF, 0xFAC | 5, "channels"),
        (4, 0xFFFF, 20, "pitch of 21"),
        (4, 0xFFFF, 0, "pitch of 1"),
        (6, 3 << 21, 1 << 21, "compression 1"),
    ],
)
def test_other_images_are_refused(dword: int, mask: int, value: int, match: str) -> None:
    target, _ = with_images()
    at(target, LANE, LANE)
    row = target.sgpr[IMAGE + dword]
    row[:] = row & ~np.uint32(mask) | np.uint32(value)
    with pytest.raises(EmulationError, match=match):
        execute(target, [LOAD])


@pytest.mark.parametrize(
    ("dword", "bits", "match"),
    [(0, 1 << 29, "filter_mode 1"), (0, 1, "clamp_x 3"), (2, 1 << 20, "mag_filter 1"), (2, 1 << 26, "mip_filter 1")],
)
def test_other_samplers_are_refused(dword: int, bits: int, match: str) -> None:
    target, _ = with_images()
    target.vgpr[0:2] = 0
    target.sgpr[SAMPLER + dword] ^= np.uint32(bits)
    with pytest.raises(EmulationError, match=match):
        execute(target, [SAMPLE])


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("image_load v[4:7], v0, s[8:15] dmask:0xf dim:SQ_RSRC_IMG_1D", "dimension 1D"),
        ("image_load v[4:7], v0, s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D a16", "with a16"),
        ("image_load v[4:8], [v0, v1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D tfe", "with tfe"),
        ("image_sample v[4:8], [v0, v1], s[8:15], s[0:3] dmask:0xf dim:SQ_RSRC_IMG_2D tfe lwe", "with tfe"),
        ("image_load v4, [v0, v1], s[8:15] dim:SQ_RSRC_IMG_2D", "without a channel"),
        ("image_store v[4:6], [v0, v1], s[8:15] dmask:0xe dim:SQ_RSRC_IMG_2D", "without the first channel"),
    ],
)
def test_other_forms_are_refused(line: str, match: str) -> None:
    target, _ = with_images()
    with pytest.raises(EmulationError, match=match):
        execute(target, [line])


@pytest.mark.parametrize(("base", "pitch"), [(128, 256), (0, 200), (0, 64)])
def test_objects_must_be_aligned_and_wide_enough(base: int, pitch: int) -> None:
    with pytest.raises(ValueError, match="not aligned, or narrower"):
        image_object((1 << 40) + base, WIDTH, HEIGHT, pitch)


def test_code_that_llvm_made_from_the_intrinsics() -> None:
    """Handles as HIP has them: both descriptors read from memory, the sampler at dword 12."""
    space = AddressSpace(1 << 20)
    texels = np.random.default_rng(8).normal(0, 1, (HEIGHT, PITCH // 8, 4)).astype(np.float16)
    handles = []
    for name, data in (("from", texels), ("to", np.zeros_like(texels))):
        base = space.allocate(name, data.nbytes, data=data.view(np.uint8))
        handles.append(space.allocate(f"{name}.object", 64, data=image_object(base, WIDTH, HEIGHT, PITCH)))
    output = space.allocate("output", 512)
    kernarg = np.array([*handles, output], np.uint64).tobytes()
    code = load_code_object(compile_ir([COMPILED]).code_object)
    run_kernel(code, "images", (1, 1, 1), (32, 1, 1), kernarg, space, "exact")
    copied = space.view("to").view(np.uint16).reshape(texels.shape)
    expected = np.zeros_like(copied)
    expected[1, :WIDTH] = texels[2, :WIDTH].view(np.uint16)
    assert (copied == expected).all()
    sampled = space.view("output").view(np.float32).reshape(32, 4)
    assert (sampled == texels[3, np.minimum(LANE, WIDTH - 1)].astype(np.float32)).all()
