"""Image and sampler descriptors of gfx12, and the objects that HIP's texture and surface handles point at.

Sources: ROCR-Runtime, image/resource_gfx12.h (bit fields, format and swizzle codes) and image_manager_gfx12.cpp
(how the driver fills them); HIP puts a texture object's sampler at dword 12, behind the image descriptor's 8 dwords
and four more for software. Only linear 2D images of four 16-bit channels exist here; all else is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.machine import EmulationError

__all__ = ["IMAGE_OBJECT_BYTES", "PITCH_ALIGNMENT", "ImageFormat", "Images", "check_samplers", "image_object",
           "read_images"]  # fmt: skip

Array = NDArray[Any]

TEXEL_BYTES = 8
PITCH_ALIGNMENT = 128
"""Bytes of which a linear image's row pitch is a multiple."""
IMAGE_OBJECT_BYTES = 64
_SAMPLER_DWORD = 12
_TYPE_2D = 9
_IDENTITY = 4 | 5 << 3 | 6 << 6 | 7 << 9  # destination channels X, Y, Z, W
_CLAMP_LAST_TEXEL = 2
_HALF_FLOAT, _RGBA = 14, 8  # HSA channel type and order, for software that asks

_IMAGE: Mapping[str, tuple[int, int, int]] = {
    "base_low": (0, 0, 32), "base_high": (1, 0, 8), "max_mip": (1, 12, 5), "format": (1, 17, 8),
    "base_level": (1, 25, 5), "width_low": (1, 30, 2), "width_high": (2, 0, 14), "height": (2, 14, 16),
    "channels": (3, 0, 12), "last_level": (3, 15, 5), "swizzle_mode": (3, 20, 5), "type": (3, 28, 4),
    "pitch": (4, 0, 16), "base_array": (4, 16, 14), "compression": (6, 21, 2),
}  # fmt: skip
"""Dword, lowest bit, bits. Sizes and the pitch (texels) are stored minus one, the base divided by 256."""
_SAMPLER: Mapping[str, tuple[int, int, int]] = {
    "clamp_x": (0, 0, 3), "clamp_y": (0, 3, 3), "anisotropy": (0, 9, 3), "unnormalized": (0, 15, 1),
    "filter_mode": (0, 29, 2), "lod_bias": (2, 0, 14), "mag_filter": (2, 20, 2), "min_filter": (2, 22, 2),
    "mip_filter": (2, 26, 2),
}  # fmt: skip
_SAMPLER_VALUES = {"clamp_x": _CLAMP_LAST_TEXEL, "clamp_y": _CLAMP_LAST_TEXEL, "unnormalized": 1}
_IMAGE_VALUES = {"type": _TYPE_2D, "channels": _IDENTITY}
_IMAGE_ZEROS = ("max_mip", "base_level", "last_level", "swizzle_mode", "base_array", "compression")


class ImageFormat(IntEnum):
    """Format codes with four channels of 16 bits."""

    UINT = 55
    FLOAT = 57


@dataclass(frozen=True, slots=True)
class Images:
    """Descriptors, one per wave: addresses `uint64`, sizes and pitch in texels, format codes."""

    base: Array
    width: Array
    height: Array
    pitch: Array
    format: Array


def image_object(
    base: int, width: int, height: int, pitch_bytes: int, kind: ImageFormat = ImageFormat.FLOAT
) -> bytes:
    """What a handle of a texture or surface points at: descriptor, four software dwords, sampler.

    The sampler takes texel coordinates, the nearest texel, clamped to the edge. ValueError for a base that is not
    256-byte aligned, a pitch that is not a multiple of `PITCH_ALIGNMENT`, or sizes that do not fit.
    """
    if base % 256 or pitch_bytes % PITCH_ALIGNMENT or pitch_bytes < width * TEXEL_BYTES:
        raise ValueError(f"image at {base:#x} with rows of {pitch_bytes} bytes: not aligned, or narrower than {width}")
    values = {
        **_IMAGE_VALUES,
        "base_low": base >> 8 & 0xFFFF_FFFF,
        "base_high": base >> 40,
        "format": kind,
        "width_low": (width - 1) & 3,
        "width_high": (width - 1) >> 2,
        "height": height - 1,
        "pitch": pitch_bytes // TEXEL_BYTES - 1,
    }
    words = _encode(_IMAGE, values, _SAMPLER_DWORD)
    words[8:11] = _HALF_FLOAT if kind is ImageFormat.FLOAT else 12, _RGBA, width
    return words.tobytes() + _encode(_SAMPLER, _SAMPLER_VALUES, 4).tobytes()


def _encode(fields: Mapping[str, tuple[int, int, int]], values: Mapping[str, int], dwords: int) -> Array:
    words = np.zeros(dwords, dtype=np.uint32)
    for name, value in values.items():
        dword, low, bits = fields[name]
        if value < 0 or value >> bits:
            raise ValueError(f"{name} {value} does not fit into {bits} bits")
        words[dword] |= np.uint32(value << low)
    return words


def _field(words: Array, place: tuple[int, int, int]) -> Array:
    dword, low, bits = place
    return np.asarray(words[dword] >> np.uint32(low) & np.uint32((1 << bits) - 1)).astype(np.int64)


def read_images(words: Array) -> Images:
    """Descriptors from `uint32[8, waves]`. EmulationError names the first field that is not supported."""
    fields = {name: _field(words, place) for name, place in _IMAGE.items()}
    _demand("image", fields, {**_IMAGE_VALUES, **dict.fromkeys(_IMAGE_ZEROS, 0)})
    kinds = fields["format"]
    strange = ~np.isin(kinds, list(ImageFormat))
    if strange.any():
        raise EmulationError(f"image format {int(kinds[strange][0])} is not supported")
    base = fields["base_low"].astype(np.uint64) << np.uint64(8) | fields["base_high"].astype(np.uint64) << np.uint64(40)
    width = (fields["width_high"] << 2 | fields["width_low"]) + 1
    pitch = fields["pitch"] + 1
    if (pitch * TEXEL_BYTES % PITCH_ALIGNMENT).any() or (pitch < width).any():
        raise EmulationError(f"linear image with a pitch of {int(pitch[0])} texels at a width of {int(width[0])}")
    return Images(base, width, fields["height"] + 1, pitch, kinds)


def check_samplers(words: Array) -> None:
    """EmulationError unless all of `uint32[4, waves]` sample the nearest texel at texel coordinates, edge clamped."""
    fields = {name: _field(words, place) for name, place in _SAMPLER.items()}
    _demand("sampler", fields, {**dict.fromkeys(_SAMPLER, 0), **_SAMPLER_VALUES})


def _demand(what: str, fields: Mapping[str, Array], wanted: Mapping[str, int]) -> None:
    for name, value in wanted.items():
        wrong = fields[name] != value
        if wrong.any():
            raise EmulationError(f"{what} descriptor: {name} {int(fields[name][wrong][0])}; only {value} is supported")
