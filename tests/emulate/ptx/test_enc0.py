"""enc0 in the oracle equals the numpy model byte for byte when texels are NaN, infinite and denormal.

Ordinary inputs, every accumulation model and every phase: test_golden_h200.py.
"""

import lzma
import struct

import ml_dtypes
import numpy as np
import pytest

from tests.corpus import model_enc0, model_formats
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import Module, parse
from zluda_rr.resources import resource_dir

EX, EY, SHIFT = 44, 36, (4, 2)
# f16 vectors inside the weight image (rr-module.md): offset, bytes.
VECTORS = [(0, 256), (5120, 64), (6208, 128), (8384, 12288), (23744, 12288), (37056, 128), (38208, 64), (39296, 64)]
VECTORS += [(40384, 64), (42496, 64), (44608, 64), (53888, 128), (54528, 32)]


@pytest.fixture(scope="module")
def enc0() -> Module:
    path = resource_dir("modules") / "enc0.ptx.xz"
    return parse(lzma.decompress(path.read_bytes()).decode(), filename=path.name)


def weights(rng: np.random.Generator) -> np.ndarray:
    image = rng.normal(0, 0.2, 54560).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    for offset, nbytes in VECTORS:
        image[offset : offset + nbytes] = rng.normal(0, 1, nbytes // 2).astype(np.float16).view(np.uint8)
    return image


def surface(space: AddressSpace, name: str, width: int, height: int, data: bytes = b"") -> int:
    base = space.allocate(name, 8 * width * height, data=data)
    descriptor = struct.pack("<QIIIIQ", base, width, height, 8 * width, 8, 0)
    return space.allocate(f"{name}.descriptor", 32, data=descriptor, writable=False)


def prepared(image: np.ndarray, texels: np.ndarray) -> tuple[AddressSpace, bytes]:
    """Memory and parameter block of one launch."""
    space = AddressSpace(1 << 24)
    block = bytearray(1032)
    struct.pack_into("<II", block, 0, EX, EY)
    struct.pack_into("<Q", block, 40, space.allocate("weights", len(image), data=image.tobytes(), writable=False))
    struct.pack_into("<Q", block, 48, space.allocate("arena", 32 * EX * EY))
    struct.pack_into("<Q", block, 56, space.allocate("merged", 16 * EX * EY))
    struct.pack_into("<HH", block, 80, *SHIFT)
    for offset, name in ((112, "blend"), (120, "gate")):
        struct.pack_into("<Q", block, offset, surface(space, name, EX, EY))
    struct.pack_into("<Q", block, 128, surface(space, "half", EX // 2, EY // 2))
    struct.pack_into("<Q", block, 304, surface(space, "texels", EX, EY, texels.tobytes()))
    return space, bytes(block)


def test_special_texels_give_what_the_model_gives(enc0: Module) -> None:
    rng = np.random.default_rng(5)
    image = weights(rng)
    texels = rng.normal(0, 1, (EY, EX, 4)).astype(np.float16)
    texels[3, 5:9] = [np.nan, np.inf, 0.0, 6e-8]
    space, block = prepared(image, texels)
    inputs = model_enc0.Inputs(EX, EY, *SHIFT, image, texels)
    stats = run_entry(
        enc0,
        "cuda_dldn_engine_swin_enc0_kernel",
        grid=(*inputs.grid, 1),
        block=(32, 1, 1),
        params=block,
        memory=space,
        model="exact",
    )
    assert stats.executed["mma"] == 536 * stats.warps
    expected = model_enc0.run(inputs, model_formats.accumulate_exact)
    for name in ("arena", "merged"):
        assert space.view(name).tobytes() == getattr(expected, name).tobytes(), name
    for name in ("blend", "gate", "half"):
        ours, theirs = space.view(name).view(np.float16), getattr(expected, name).ravel()
        assert np.array_equal(ours, theirs, equal_nan=True), name
        assert np.count_nonzero(ours) > len(ours) // 8
