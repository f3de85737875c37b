"""Image formats of gfx12: how a texel's channels lie in memory, and what they are as 32-bit values.

Sources: ROCR-Runtime, image/resource_gfx12.h (enum FORMAT) for the codes; the Direct3D 11.3 functional specification,
3.2.3, for normalised channels: c / (2**n - 1) of n unsigned bits, max(c / (2**(n - 1) - 1), -1) of n signed ones, and
round to nearest on the way back. Names give the lowest bits of a texel first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.machine import EmulationError
from zluda_rr.numerics.f16 import half_to_float, is_nan_half, round_half

__all__ = ["FORMATS", "ImageFormat", "Numbers", "Texel", "decode_texels", "encode_texels"]

Array = NDArray[Any]


class ImageFormat(IntEnum):
    """Codes of the descriptor's format field."""

    R8_UNORM, R8_SNORM, R8_UINT, R8_SINT = 1, 2, 5, 6
    R16_UNORM, R16_SNORM, R16_UINT, R16_SINT, R16_FLOAT = 7, 8, 11, 12, 13
    RG8_UNORM, RG8_SNORM, RG8_UINT, RG8_SINT = 14, 15, 18, 19
    R32_UINT, R32_SINT, R32_FLOAT = 20, 21, 22
    RG16_UNORM, RG16_SNORM, RG16_UINT, RG16_SINT, RG16_FLOAT = 23, 24, 27, 28, 29
    RGB10A2_UNORM, RGB10A2_SNORM, RGB10A2_UINT, RGB10A2_SINT = 36, 37, 40, 41
    RGBA8_UNORM, RGBA8_SNORM, RGBA8_UINT, RGBA8_SINT = 42, 43, 46, 47
    RG32_UINT, RG32_SINT, RG32_FLOAT = 48, 49, 50
    RGBA16_UNORM, RGBA16_SNORM, RGBA16_UINT, RGBA16_SINT, RGBA16_FLOAT = 51, 52, 55, 56, 57
    RGBA32_UINT, RGBA32_SINT, RGBA32_FLOAT = 61, 62, 63


class Numbers(StrEnum):
    """What a channel's bits mean."""

    UNORM = "UNORM"
    SNORM = "SNORM"
    UINT = "UINT"
    SINT = "SINT"
    FLOAT = "FLOAT"


@dataclass(frozen=True, slots=True)
class Texel:
    """Bits of each channel, lowest first, and their meaning."""

    bits: tuple[int, ...]
    numbers: Numbers

    @property
    def nbytes(self) -> int:
        return sum(self.bits) // 8

    @property
    def is_integer(self) -> bool:
        return self.numbers in (Numbers.UINT, Numbers.SINT)

    @property
    def is_normalized(self) -> bool:
        return self.numbers in (Numbers.UNORM, Numbers.SNORM)

    @property
    def half_one(self) -> int:
        """`one` in 16 bits."""
        return 1 if self.is_integer else 0x3C00

    @property
    def one(self) -> int:
        """What a channel that the format lacks reads as where it is one: the integer, or the bits of 1.0."""
        return 1 if self.is_integer else 0x3F80_0000


def _texel(name: str) -> Texel:
    """RGBA16_FLOAT: four channels of 16 bits; RGB10A2: three of 10 and one of 2."""
    layout, numbers = name.split("_")
    if layout == "RGB10A2":
        return Texel((10, 10, 10, 2), Numbers(numbers))
    channels = layout.rstrip("0123456789")
    return Texel((int(layout[len(channels) :]),) * len(channels), Numbers(numbers))


FORMATS: Mapping[ImageFormat, Texel] = {code: _texel(code.name) for code in ImageFormat}


def decode_texels(texel: Texel, data: Array) -> Array:
    """`uint32[N, channels]` of texels `uint8[N, nbytes]`: floats as their bits, signed integers sign-extended."""
    raw = _raw(texel, data)
    columns = [_decode(texel.numbers, bits, raw[:, index]) for index, bits in enumerate(texel.bits)]
    return np.stack(columns, axis=1)


def encode_texels(texel: Texel, words: Array) -> Array:
    """Texels `uint8[N, nbytes]` of `uint32[N, channels]`.

    EmulationError for a value whose result the documents leave open: a half that is not exact, an integer out of range,
    a normalised value half way between two steps.
    """
    columns = [_encode(texel.numbers, bits, words[:, index]) for index, bits in enumerate(texel.bits)]
    if len(set(texel.bits)) == 1:
        dtype = np.dtype(f"<u{texel.bits[0] // 8}")
        return np.ascontiguousarray(np.stack(columns, axis=1).astype(dtype)).view(np.uint8)
    packed = np.zeros(len(words), np.uint32)
    for column, low in zip(columns, _places(texel), strict=True):
        packed |= (column << low).astype(np.uint32)
    return packed.reshape(-1, 1).view(np.uint8)


def _places(texel: Texel) -> list[int]:
    return [sum(texel.bits[:index]) for index in range(len(texel.bits))]


def _raw(texel: Texel, data: Array) -> Array:
    """`uint32[N, channels]` bit fields."""
    data = np.ascontiguousarray(data)
    if len(set(texel.bits)) == 1:
        return data.view(f"<u{texel.bits[0] // 8}").reshape(len(data), -1).astype(np.uint32)
    words = data.view(np.uint32)[:, 0]
    fields = zip(_places(texel), texel.bits, strict=True)
    return np.stack([words >> np.uint32(low) & np.uint32((1 << bits) - 1) for low, bits in fields], axis=1)


def _signed(bits: int, raw: Array) -> Array:
    shift = np.int32(32 - bits)
    return raw.view(np.int32) << shift >> shift


def _decode(numbers: Numbers, bits: int, raw: Array) -> Array:
    raw = np.ascontiguousarray(raw)
    if numbers is Numbers.FLOAT:
        return raw if bits == 32 else half_to_float(raw.astype(np.uint16)).view(np.uint32)
    if numbers is Numbers.UINT:
        return raw
    if numbers is Numbers.SINT:
        return _signed(bits, raw).view(np.uint32)
    if numbers is Numbers.UNORM:
        value = raw / np.float64((1 << bits) - 1)
    else:
        value = np.maximum(_signed(bits, raw) / np.float64((1 << (bits - 1)) - 1), -1.0)
    return value.astype(np.float32).view(np.uint32)


def _encode(numbers: Numbers, bits: int, words: Array) -> Array:
    words = np.ascontiguousarray(words)
    if numbers is Numbers.FLOAT:
        return words if bits == 32 else _half(words)
    if numbers is Numbers.UINT:
        return _demand(words, words >> np.uint32(bits) == 0 if bits < 32 else True, words, bits)
    if numbers is Numbers.SINT:
        return _demand(words, _signed(bits, words) == words.view(np.int32), words & np.uint32((1 << bits) - 1), bits)
    low, steps = (0.0, (1 << bits) - 1) if numbers is Numbers.UNORM else (-1.0, (1 << (bits - 1)) - 1)
    floats = words.view(np.float32).astype(np.float64)
    scaled = np.clip(np.where(np.isnan(floats), 0.0, floats), low, 1.0) * steps
    code = np.rint(scaled).astype(np.int64) & ((1 << bits) - 1)
    return _demand(words, np.abs(scaled - np.trunc(scaled)) != 0.5, code.astype(np.uint32), bits)


def _half(words: Array) -> Array:
    floats = words.view(np.float32)
    halves = round_half(floats)
    exact = (half_to_float(halves).view(np.uint32) == words) | (np.isnan(floats) & is_nan_half(halves))
    return _demand(words, exact, halves.astype(np.uint32), 16)


def _demand(words: Array, good: Any, result: Array, bits: int) -> Array:
    wrong = ~np.broadcast_to(good, words.shape)
    if wrong.any():
        raise EmulationError(f"image store of {int(words[wrong][0]):#x} to {bits} bits: not representable")
    return result
