"""Bundles, images and memory of the helper, without a process."""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.emulate.hip.conftest import HERE
from tests.emulate.hip.test_program import bundle
from zluda_rr.emulate.gfx12 import Addressing, ImageFormat
from zluda_rr.emulate.hip import library_folder
from zluda_rr.emulate.hip.bundle import device_code
from zluda_rr.emulate.hip.images import image_format, sampling
from zluda_rr.emulate.hip.memory import DeviceMemory
from zluda_rr.emulate.hip.modules import Modules
from zluda_rr.emulate.hip.protocol import Refusal, Status
from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.errors import UserError
from zluda_rr.toolchain import compile_hip_kernel

CODE = b"\x7fELF and the rest of it"
BASE = 0x7ABC_0000_0000
GRANULES = 64


def compressed(data: bytes, version: int, method: int) -> bytes:
    body = zlib.compress(data) if method == 0 else zstandard.ZstdCompressor().compress(data)
    layout = "<4sHHIIQ" if version == 2 else "<4sHHQQQ"
    size = struct.calcsize(layout) + len(body)
    return struct.pack(layout, b"CCOB", version, method, size, len(data), 0) + body


@pytest.mark.parametrize(
    "data",
    [
        CODE,
        bundle(CODE),
        bundle(CODE, b"hip-amdgcn-amd-amdhsa--gfx1201:xnack-"),
        *(compressed(bundle(CODE), version, method) for version in (2, 3) for method in (0, 1)),
    ],
)
def test_code_is_found_in_every_wrapping(data: bytes) -> None:
    assert device_code(data) == CODE


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"", Status.INVALID_IMAGE, "neither an ELF file nor"),
        (b"//PTX", Status.INVALID_IMAGE, "neither an ELF file nor"),
        (bundle(CODE, b"hipv4-amdgcn-amd-amdhsa--gfx1100"), Status.NO_BINARY_FOR_GPU, "gfx1100"),
        (bundle(CODE)[:40], Status.INVALID_IMAGE, "damaged offload bundle"),
        (compressed(bundle(CODE), 3, 1)[:60], Status.INVALID_IMAGE, "module"),
        (compressed(bundle(CODE), 2, 0)[:20], Status.INVALID_IMAGE, "damaged compressed bundle"),
    ],
)
def test_other_modules_are_refused(data: bytes, status: Status, text: str) -> None:
    with pytest.raises(Refusal, match=text) as refusal:
        device_code(data)
    assert refusal.value.status is status


@given(st.binary(max_size=200), st.sampled_from([b"", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"]))
def test_any_bytes_are_code_or_refused(data: bytes, head: bytes) -> None:
    with suppress(Refusal):
        device_code(head + data)


@pytest.mark.parametrize(
    ("form", "channels", "as_float", "expected"),
    [
        (0x10, 4, False, ImageFormat.RGBA16_FLOAT),
        (0x10, 1, True, ImageFormat.R16_FLOAT),
        (0x20, 1, False, ImageFormat.R32_FLOAT),
        (0x01, 4, True, ImageFormat.RGBA8_UNORM),
        (0x08, 4, True, ImageFormat.RGBA8_SNORM),
        (0x01, 4, False, ImageFormat.RGBA8_UINT),
        (0x03, 2, True, ImageFormat.RG32_UINT),
    ],
)
def test_formats(form: int, channels: int, as_float: bool, expected: ImageFormat) -> None:
    assert image_format(form, channels, normalized_float=as_float) is expected


@pytest.mark.parametrize(("form", "channels"), [(0x04, 4), (0x10, 3), (0x30, 1)])
def test_other_formats_are_refused(form: int, channels: int) -> None:
    with pytest.raises(Refusal, match="image of format"):
        image_format(form, channels)


def test_texel_coordinates_know_no_wrapping() -> None:
    assert sampling(0, 2, normalized=True, linear=False).x is Addressing.WRAP
    assert sampling(0, 3, normalized=False, linear=False).x is Addressing.CLAMP
    assert sampling(0, 3, normalized=False, linear=False).y is Addressing.BORDER


def test_nothing_of_a_module_is_left_when_it_is_unloaded() -> None:
    code = compile_hip_kernel(HERE / "kernels.hip").code_object
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, (1 << 20) + (1 << 24))
    os.pwrite(descriptor, np.full(1 << 16, 256, np.uint16).tobytes(), 0)
    modules = Modules(DeviceMemory(descriptor, BASE, 1 << 24, 1 << 20), BASE)
    for _ in range(3):
        number, size = modules.load(code)
        modules.place(number, BASE + (1 << 20))
        assert size < 1 << 20
        address, nbytes = modules.variable(number, "launches")
        assert (address > BASE + (1 << 20), nbytes) == (True, 4)
        function = struct.unpack_from("<I", modules.function(number, "fill"))[0]
        modules.unload(number)
        with pytest.raises(Refusal) as refusal:
            modules.launch(function, (1, 1, 1), (32, 1, 1), 0, b"", "exact")
        assert refusal.value.status is Status.INVALID_HANDLE
    assert (len(modules._modules), len(modules._functions)) == (0, 0)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="Not a directory; choose another folder with ZLUDA_RR_CACHE_DIR"):
        library_folder()


def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UserError, match=r"no C compiler for the emulated HIP library; install one with: pip install"):
        library_folder()


@pytest.fixture
def memory() -> DeviceMemory:
    """64 granules, with a block of 600 bytes in granules 2 to 4."""
    table = np.zeros(GRANULES, np.uint16)
    table[2:5] = 256 | 1 << 14, 256, 600 - 512
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, 4096 + GRANULES * 256)
    os.pwrite(descriptor, table.tobytes(), 0)
    return DeviceMemory(descriptor, BASE, GRANULES * 256, 4096)


def at(*offsets: int) -> np.ndarray:
    return np.array([BASE + 512 + offset for offset in offsets], np.uint64)


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 16])
def test_bytes_come_back(memory: DeviceMemory, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, (3, nbytes), dtype=np.uint8)
    places = at(0, 300, 600 - nbytes)
    memory.store(places, data)
    assert (memory.load(places, nbytes) == data).all()


@pytest.mark.parametrize(
    ("offset", "nbytes", "text"),
    [
        (600, 1, "0 bytes past the end of the 600 bytes"),
        (597, 4, "597 bytes into the 600 bytes"),
        (-1, 1, "1 bytes before the 600 bytes"),
        (-4, 8, "4 bytes before"),
        (-BASE - 512, 4, "at 0x0: not in the device's memory"),
        (GRANULES * 256, 4, "not in the device's memory"),
    ],
)
def test_other_places_are_faults(memory: DeviceMemory, offset: int, nbytes: int, text: str) -> None:
    place = at(0).copy()
    place[0] = BASE + 512 + offset
    with pytest.raises(MemoryFault, match=text):
        memory.load(place, nbytes)
    with pytest.raises(MemoryFault, match=text):
        memory.store(place, np.zeros((1, nbytes), np.uint8))


def test_what_is_protected_can_be_read_only(memory: DeviceMemory) -> None:
    memory.write(BASE + 512, b"constant")
    memory.protect(BASE + 512, 8)
    assert memory.load(at(0), 8).tobytes() == b"constant"
    with pytest.raises(MemoryFault, match="which kernels may only read"):
        memory.store(at(4), np.zeros((1, 4), np.uint8))
    memory.store(at(256), np.zeros((1, 4), np.uint8))
