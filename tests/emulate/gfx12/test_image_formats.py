"""Image formats against plain arithmetic, and samplers against plain indexing; what a card leaves open is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emulate.gfx12.snippet import execute, machine
from zluda_rr.emulate.gfx12.execute_image import addressed
from zluda_rr.emulate.gfx12.image_formats import FORMATS, ImageFormat, Numbers, Texel, decode_texels, encode_texels
from zluda_rr.emulate.gfx12.image_resource import Addressing, Sampling, image_object
from zluda_rr.emulate.gfx12.machine import EmulationError, Machine
from zluda_rr.emulate.memory import AddressSpace

WIDTH, HEIGHT, PITCH = 6, 4, 128
PACKED = ImageFormat.RGB10A2_UNORM


def channel_codes(texel: Texel, raw: bytes) -> list[int]:
    """Bit fields, by integer arithmetic over the whole texel."""
    value, codes = int.from_bytes(raw, "little"), []
    for bits in texel.bits:
        codes.append(value & ((1 << bits) - 1))
        value >>= bits
    return codes


def meaning(texel: Texel, index: int, code: int) -> int:
    """The 32-bit value of a channel, by exact fractions."""
    bits = texel.bits[index]
    signed = code - (1 << bits) if code >> (bits - 1) else code
    if texel.numbers is Numbers.UINT:
        return code
    if texel.numbers is Numbers.SINT:
        return signed & 0xFFFF_FFFF
    if texel.numbers is Numbers.FLOAT:
        dtype, word = (np.float32, np.uint32) if bits == 32 else (np.float16, np.uint16)
        return int(word(code).view(dtype).astype(np.float32).view(np.uint32))
    exact = Fraction(code, (1 << bits) - 1)
    if texel.numbers is Numbers.SNORM:
        exact = max(Fraction(signed, (1 << (bits - 1)) - 1), Fraction(-1))
    return int(np.float32(float(exact)).view(np.uint32))


@pytest.mark.parametrize("kind", list(ImageFormat))
def test_texels_mean_what_their_bits_say(kind: ImageFormat) -> None:
    texel = FORMATS[kind]
    data = np.random.default_rng(kind).integers(0, 256, (200, texel.nbytes), dtype=np.uint8)
    data[0], data[1], data[2] = 0, 255, 0x80
    words = decode_texels(texel, data)
    for row, raw in zip(words, data, strict=True):
        want = [meaning(texel, i, code) for i, code in enumerate(channel_codes(texel, raw.tobytes()))]
        if texel.numbers is Numbers.FLOAT:
            nan = np.isnan(np.array(want, np.uint32).view(np.float32))
            assert (np.isnan(row.view(np.float32)) == nan).all()
            assert (row[~nan] == np.array(want, np.uint32)[~nan]).all()
        else:
            assert row.tolist() == want


@pytest.mark.parametrize("kind", list(ImageFormat))
def test_texels_come_back(kind: ImageFormat) -> None:
    """Every 8-, 10- and 2-bit code, random wider ones; the most negative normalised code is -1 like its neighbour."""
    texel = FORMATS[kind]
    data = np.random.default_rng(kind).integers(0, 256, (4096, texel.nbytes), dtype=np.uint8)
    words = decode_texels(texel, data)
    if texel.numbers is Numbers.FLOAT:
        good = ~np.isnan(words.view(np.float32)).any(axis=1)
        data, words = data[good], words[good]
    back = encode_texels(texel, words)
    if texel.numbers is Numbers.SNORM:
        assert (decode_texels(texel, back) == words).all()
    else:
        assert (back == data).all()


@given(st.floats(width=32, allow_nan=False), st.sampled_from(list(ImageFormat)))
def test_normalised_stores_round_to_the_nearest_step(value: float, kind: ImageFormat) -> None:
    texel = FORMATS[kind]
    if not texel.is_normalized:
        return
    words = np.full((1, len(texel.bits)), np.float32(value).view(np.uint32))
    low = 0 if texel.numbers is Numbers.UNORM else -1
    exact = Fraction(min(max(value, low), 1)) if abs(value) != float("inf") else Fraction(1 if value > 0 else low)
    steps = [(1 << bits) - 1 if low == 0 else (1 << (bits - 1)) - 1 for bits in texel.bits]
    try:
        stored = encode_texels(texel, words)
    except EmulationError:
        assert any((exact * n * 2).denominator == 1 and (exact * n * 2) % 2 for n in steps)  # half way
        return
    for n, code, bits in zip(steps, channel_codes(texel, stored.tobytes()), texel.bits, strict=True):
        signed = code - (1 << bits) if low and code >> (bits - 1) else code
        assert abs(exact * n - signed) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (ImageFormat.R16_FLOAT, np.float32(0.1).view(np.uint32)),
        (ImageFormat.R8_UINT, 256),
        (ImageFormat.R8_SINT, 128),
        (ImageFormat.R16_SINT, 0xFFFF_7FFF),
        (ImageFormat.R8_UNORM, np.float32(0.5).view(np.uint32)),
    ],
)
def test_stores_that_are_left_open_are_refused(kind: ImageFormat, word: int) -> None:
    with pytest.raises(EmulationError, match="not representable"):
        encode_texels(FORMATS[kind], np.array([[word]], np.uint32))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_addressing(size: int) -> None:
    row = list(range(size))
    texel = np.arange(-3 * size, 4 * size)
    there_and_back = row + row[::-1]
    expected = {
        Addressing.WRAP: [row[t % size] for t in texel],
        Addressing.MIRROR: [there_and_back[t % (2 * size)] for t in texel],
        Addressing.CLAMP: [min(max(t, 0), size - 1) for t in texel],
        Addressing.BORDER: [t if 0 <= t < size else -1 for t in texel],
    }
    for mode, want in expected.items():
        assert addressed(mode, texel, np.full(len(texel), size)).tolist() == want


def sampler_machine(kind: ImageFormat, sampling: Sampling) -> tuple[Machine, np.ndarray]:
    """A machine with an image in s[8:15], its sampler in s[0:3]; and the texels `uint8[HEIGHT, WIDTH, nbytes]`."""
    space = AddressSpace(1 << 16)
    target, nbytes = machine(1, memory=space), FORMATS[kind].nbytes
    data = np.random.default_rng(kind).integers(0, 256, (HEIGHT, PITCH), dtype=np.uint8)
    base = space.allocate("image", HEIGHT * PITCH, data=data)
    words = np.frombuffer(image_object(base, WIDTH, HEIGHT, PITCH, kind, sampling), np.uint32)
    target.sgpr[8:16, 0], target.sgpr[0:4, 0] = words[:8], words[12:16]
    return target, data[:, : WIDTH * nbytes].reshape(HEIGHT, WIDTH, nbytes)


def sampled(target: Machine, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[lane, channel] f32."""
    target.vgpr[0, 0], target.vgpr[1, 0] = x.astype(np.float32).view(np.uint32), y.astype(np.float32).view(np.uint32)
    execute(target, ["image_sample_lz v[4:7], [v0, v1], s[8:15], s[0:3] dmask:0xf dim:SQ_RSRC_IMG_2D"])
    return np.ascontiguousarray(target.vgpr[4:8, 0].T).view(np.float32)


@pytest.mark.parametrize("kind", [PACKED, ImageFormat.RGBA8_SNORM, ImageFormat.R8_UNORM, ImageFormat.RG16_UNORM])
@pytest.mark.parametrize(("x_mode", "y_mode"), [("WRAP", "MIRROR"), ("BORDER", "CLAMP"), ("MIRROR", "BORDER")])
def test_nearest_texels_at_normalised_coordinates(kind: ImageFormat, x_mode: str, y_mode: str) -> None:
    sampling = Sampling(Addressing[x_mode], Addressing[y_mode], normalized=True)
    target, texels = sampler_machine(kind, sampling)
    column, row = np.arange(32) % 17 - 6, np.arange(32) % 11 - 4
    got = sampled(target, (column + 0.5) / WIDTH, (row + 0.5) / HEIGHT)
    values = decode_texels(FORMATS[kind], texels.reshape(-1, texels.shape[2])).view(np.float32)
    values = values.reshape(HEIGHT, WIDTH, -1)
    for lane in range(32):
        x = addressed(sampling.x, column[lane : lane + 1], np.array([WIDTH]))[0]
        y = addressed(sampling.y, row[lane : lane + 1], np.array([HEIGHT]))[0]
        want = np.zeros(4, np.float32)
        if x >= 0 and y >= 0:
            want[: values.shape[2]] = values[y, x]
            want[3] = values[y, x, 3] if values.shape[2] == 4 else 1.0
        assert got[lane].tolist() == want.tolist()


def test_bilinear_is_the_mean_by_distance() -> None:
    target, texels = sampler_machine(ImageFormat.RGBA8_UNORM, Sampling(linear=True))
    rng = np.random.default_rng(4)
    x, y = rng.integers(-256, (WIDTH + 1) * 256, 32) / 256, rng.integers(-256, (HEIGHT + 1) * 256, 32) / 256
    got = sampled(target, x, y)
    values = texels.astype(np.float64) / 255
    for lane in range(32):
        u, v = x[lane] - 0.5, y[lane] - 0.5
        want = np.zeros(4)
        for dy in (0, 1):
            for dx in (0, 1):
                i, j = int(np.floor(u)) + dx, int(np.floor(v)) + dy
                weight = (1 - abs(u - i)) * (1 - abs(v - j))
                want += weight * values[min(max(j, 0), HEIGHT - 1), min(max(i, 0), WIDTH - 1)]
        assert np.abs(got[lane] - want).max() < 1e-6


def test_texel_centres_are_exact_also_where_bilinear() -> None:
    target, texels = sampler_machine(ImageFormat.RGBA8_SNORM, Sampling(linear=True))
    x, y = np.arange(32) % WIDTH, np.arange(32) // WIDTH % HEIGHT
    values = decode_texels(FORMATS[ImageFormat.RGBA8_SNORM], texels.reshape(-1, 4)).view(np.float32)
    assert (sampled(target, x + 0.5, y + 0.5) == values.reshape(HEIGHT, WIDTH, 4)[y, x]).all()


def test_bilinear_integers_are_refused() -> None:
    target, _ = sampler_machine(ImageFormat.RGBA8_UINT, Sampling(linear=True))
    with pytest.raises(EmulationError, match="bilinear sample of an integer image"):
        sampled(target, np.zeros(32), np.zeros(32))


def test_reads_of_half_precision_are_exact_or_refused() -> None:
    target, _ = sampler_machine(ImageFormat.R32_FLOAT, Sampling())
    target.vgpr[0:2] = 0
    line = "image_load v4, [v0, v1], s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_2D d16"
    target.bus.memory.store(np.array([0], np.uint64) + image_base(target), np.float32([[1.5]]).view(np.uint8))
    execute(target, [line])
    assert target.vgpr[4, 0, 0] & 0xFFFF == 0x3E00
    target.bus.memory.store(np.array([0], np.uint64) + image_base(target), np.float32([[0.1]]).view(np.uint8))
    with pytest.raises(EmulationError, match="d16: not representable"):
        execute(target, [line])


def image_base(target: Machine) -> np.uint64:
    low, high = (int(target.sgpr[8 + i, 0]) for i in range(2))
    return np.uint64((low | (high & 0xFF) << 32) << 8)


@pytest.mark.parametrize("mask", [1, 3, 5, 7, 9, 13, 15])
@pytest.mark.parametrize("packed", [False, True])
def test_channels_that_a_store_leaves_out_are_the_first(mask: int, packed: bool) -> None:
    target, _ = sampler_machine(ImageFormat.RGBA16_UINT, Sampling())
    channels = [c for c in range(4) if mask >> c & 1]
    target.vgpr[0:2] = 0
    data = np.array([7, 11, 13, 17][: len(channels)], np.uint32)
    if packed:
        data = np.append(data, 99)[: len(data) + len(data) % 2].astype(np.uint16).view(np.uint32)
    for index, word in enumerate(data):
        target.vgpr[4 + index] = word
    registers = "v4" if len(data) == 1 else f"v[4:{3 + len(data)}]"
    tail = " d16" if packed else ""
    execute(target, [f"image_store {registers}, [v0, v1], s[8:15] dmask:{mask:#x} dim:SQ_RSRC_IMG_2D{tail}"])
    want = [7] * 4
    for channel, value in zip(channels, (7, 11, 13, 17), strict=False):
        want[channel] = value
    stored = target.bus.memory.load(np.array([image_base(target)], np.uint64), 8).view(np.uint16)
    assert stored[0].tolist() == want


@pytest.mark.parametrize("kind", [ImageFormat.RGBA8_SINT, ImageFormat.RG16_SINT, ImageFormat.R32_UINT])
def test_packed_stores_of_integers_are_extended(kind: ImageFormat) -> None:
    """16-bit data to channels of any width: sign-extended where the format is signed."""
    target, _ = sampler_machine(kind, Sampling())
    target.vgpr[0:2] = 0
    values = np.array([-5, 6, -7, 8], np.int16)
    target.vgpr[4], target.vgpr[5] = values.view(np.uint32)
    execute(target, ["image_store v[4:5], [v0, v1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D d16"])
    texel = FORMATS[kind]
    data = target.bus.memory.load(np.array([image_base(target)], np.uint64), texel.nbytes)
    stored = decode_texels(texel, data)[0]
    want = values.astype(np.int32).view(np.uint32) if texel.numbers is Numbers.SINT else values.view(np.uint16)
    assert stored.tolist() == want[: len(stored)].tolist()
