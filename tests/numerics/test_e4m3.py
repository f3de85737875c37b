"""e4m3 codecs: exhaustive over all halves and codes, against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from zluda_rr.numerics import e4m3

HALVES = np.arange(1 << 16, dtype=np.uint16)
VALUES = HALVES.view(np.float16).astype(np.float64)
CODES = np.arange(256, dtype=np.uint8)
NAN = np.isnan(VALUES)
SIGN = ((HALVES >> 8) & 0x80).astype(np.uint8)


def expected_ptx(relu: bool) -> np.ndarray:
    """Clamp to +-448, ml_dtypes' rounding, every NaN to 0x7f (measured on an H200)."""
    clamped = np.clip(np.where(NAN, 0, VALUES), -448, 448)
    codes = clamped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    codes = np.where((SIGN != 0) & relu, 0, codes)
    return np.where(NAN, 0x7F, codes)


@pytest.mark.parametrize("relu", [False, True])
def test_every_half_encodes_as_ptx_says(relu: bool) -> None:
    assert np.array_equal(e4m3.encode_half(HALVES, relu=relu), expected_ptx(relu))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("position", [0, 16])
def test_both_packed_positions_encode_every_half(relu: bool, position: int) -> None:
    other = np.uint32(0xC200 << (16 - position))  # -3.0 in the position not under test
    packed = e4m3.encode_half_pairs((HALVES.astype(np.uint32) << np.uint32(position)) | other, relu=relu)
    expected = expected_ptx(relu)
    assert np.array_equal((packed >> (position // 2)) & 0xFF, expected)
    assert np.all((packed >> (8 - position // 2)) & 0xFF == expected[0xC200])


def test_every_code_decodes() -> None:
    expected = CODES.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(e4m3.decode_to_float(CODES), expected, equal_nan=True)
    assert np.array_equal(np.signbit(e4m3.decode_to_float(CODES)), CODES >= 0x80)
    halves = e4m3.decode_to_half(CODES)
    number = ~np.isnan(expected)
    assert np.array_equal(halves[number], expected[number].astype(np.float16).view(np.uint16))
    assert halves[~number].tolist() == [0x7FFF, 0x7FFF]


def test_pairs_decode_in_place() -> None:
    packed = HALVES  # every pair of bytes
    low = e4m3.decode_to_half(CODES)[packed & 0xFF].astype(np.uint32)
    high = e4m3.decode_to_half(CODES)[packed >> 8].astype(np.uint32)
    assert np.array_equal(e4m3.decode_half_pairs(packed), high << 16 | low)


def test_codes_survive_a_round_trip() -> None:
    number = (CODES & 0x7F) != 0x7F
    assert np.array_equal(e4m3.encode_half(e4m3.decode_to_half(CODES))[number], CODES[number])
    assert np.array_equal(e4m3.encode_float_gfx12(e4m3.decode_to_float(CODES))[number], CODES[number])


def floats() -> np.ndarray:
    """Every half, and f32 neighbours of every e4m3 value and of every midpoint."""
    values = np.unique(np.abs(e4m3.decode_to_float(CODES)[(CODES & 0x7F) != 0x7F]))
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, np.float32([464, 480, 1e30, np.inf])])
    below, above = np.nextafter(points, np.float32(-1)), np.nextafter(points, np.float32(np.inf))
    near = np.concatenate([points, below, above])
    with np.errstate(invalid="ignore"):  # signalling NaNs among the halves
        return np.concatenate([near, -near, VALUES.astype(np.float32)]).astype(np.float32)


@pytest.mark.parametrize("saturate", [False, True])
def test_gfx12_encodes_floats(saturate: bool) -> None:
    values = floats()
    codes = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)  # ml_dtypes: overflow is NaN of the sign
    overflow = ((codes & 0x7F) == 0x7F) & ~np.isnan(values)
    codes = np.where(overflow & saturate, codes - 1, codes)
    codes = np.where(np.isnan(values), 0xFF, codes)
    assert np.array_equal(e4m3.encode_float_gfx12(values, saturate=saturate), codes)
    assert e4m3.encode_float_gfx12(np.float32([464, -464]), saturate=saturate).tolist() == [0x7E, 0xFE]


@pytest.mark.parametrize("saturate", [False, True])
def test_gfx12_encodes_e5m2(saturate: bool) -> None:
    with np.errstate(over="ignore"):
        values = floats() * np.float32(128)
    codes = values.astype(ml_dtypes.float8_e5m2).view(np.uint8)
    overflow = (codes & 0x7F) == 0x7C
    codes = np.where(overflow & saturate, codes - 1, codes)
    codes = np.where(np.isnan(values), 0xFF, codes)
    assert np.array_equal(e4m3.encode_e5m2_float_gfx12(values, saturate=saturate), codes)


def test_e5m2_decodes() -> None:
    expected = CODES.view(ml_dtypes.float8_e5m2).astype(np.float32)
    assert np.array_equal(e4m3.decode_e5m2_to_float(CODES), expected, equal_nan=True)


def test_relu_keeps_nan() -> None:
    assert e4m3.encode_half(np.uint16([0x7E00, 0xFE00, 0x8000]), relu=True).tolist() == [0x7F, 0x7F, 0]
