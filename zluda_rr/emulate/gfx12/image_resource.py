"""Image and sampler descriptors of gfx12, and the objects that HIP's texture and surface handles point at.

Sources: ROCR-Runtime, image/resource_gfx12.h (bit fields, format and swizzle codes) and image_manager_gfx12.cpp
(how the driver fills them); HIP puts a texture object's sampler at dword 12, behind the image descriptor's 8 dwords
and four more for software. Only linear 2D images of one level exist here; all else is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.image_formats import FORMATS, ImageFormat, Numbers, Texel
from zluda_rr.emulate.gfx12.machine import EmulationError

__all__ = ["IMAGE_OBJECT_BYTES", "PITCH_ALIGNMENT", "Addressing", "Images", "Sampling", "image_object", "read_images",
           "read_samplers"]  # fmt: skip

Array = NDArray[Any]

PITCH_ALIGNMENT = 128
"""Bytes of which a linear image's row pitch is a multiple."""
IMAGE_OBJECT_BYTES = 64
_SAMPLER_DWORD = 12
_TYPE_2D = 9
_ZERO, _ONE, _FIRST_CHANNEL = 0, 1, 4
_MAX_LOD = 4095

_IMAGE: Mapping[str, tuple[int, int, int]] = {
    "base_low": (0, 0, 32), "base_high": (1, 0, 8), "max_mip": (1, 12, 5), "format": (1, 17, 8),
    "base_level": (1, 25, 5), "width_low": (1, 30, 2), "width_high": (2, 0, 14), "height": (2, 14, 16),
    "channels": (3, 0, 12), "last_level": (3, 15, 5), "swizzle_mode": (3, 20, 5), "type": (3, 28, 4),
    "pitch": (4, 0, 16), "base_array": (4, 16, 14), "compression": (6, 21, 2),
}  # fmt: skip
"""Dword, lowest bit, bits. Sizes and the pitch (texels) are stored minus one, the base divided by 256."""
_SAMPLER: Mapping[str, tuple[int, int, int]] = {
    "clamp_x": (0, 0, 3), "clamp_y": (0, 3, 3), "clamp_z": (0, 6, 3), "anisotropy": (0, 9, 3),
    "unnormalized": (0, 15, 1), "trunc_coord": (0, 27, 1), "filter_mode": (0, 29, 2), "max_lod": (1, 13, 13),
    "lod_bias": (2, 0, 14), "mag_filter": (2, 20, 2), "min_filter": (2, 22, 2), "mip_filter": (2, 26, 2),
    "border": (3, 30, 2),
}  # fmt: skip
_SAMPLER_ZEROS = ("anisotropy", "trunc_coord", "filter_mode", "lod_bias", "mip_filter", "border")
_IMAGE_ZEROS = ("max_mip", "base_level", "last_level", "swizzle_mode", "base_array", "compression")


class Addressing(IntEnum):
    """SQ_TEX_CLAMP: what a coordinate outside the image means. The border is zero in every channel."""

    WRAP = 0
    MIRROR = 1
    CLAMP = 2
    BORDER = 6


@dataclass(frozen=True, slots=True)
class Sampling:
    """A sampler: addressing of x and y, coordinates in texels or in image widths, nearest texel or bilinear."""

    x: Addressing = Addressing.CLAMP
    y: Addressing = Addressing.CLAMP
    normalized: bool = False
    linear: bool = False


@dataclass(frozen=True, slots=True)
class Images:
    """Descriptors, one per wave: addresses `uint64`, sizes and pitch in texels, format codes."""

    base: Array
    width: Array
    height: Array
    pitch: Array
    format: Array


def image_object(
    base: int,
    width: int,
    height: int,
    pitch_bytes: int,
    kind: ImageFormat = ImageFormat.RGBA16_FLOAT,
    sampling: Sampling | None = None,
) -> bytes:
    """What a handle of a texture or surface points at: descriptor, four software dwords, sampler.

    The sampler's default takes texel coordinates, the nearest texel, clamped to the edge. ValueError for a base that is
    not 256-byte aligned, a pitch that is not a multiple of `PITCH_ALIGNMENT`, or sizes that do not fit.
    """
    texel = FORMATS[kind]
    if base % 256 or pitch_bytes % PITCH_ALIGNMENT or pitch_bytes < width * texel.nbytes:
        raise ValueError(f"image at {base:#x} with rows of {pitch_bytes} bytes: not aligned, or narrower than {width}")
    values = {
        "type": _TYPE_2D,
        "channels": _channel_selects(texel),
        "base_low": base >> 8 & 0xFFFF_FFFF,
        "base_high": base >> 40,
        "format": kind,
        "width_low": (width - 1) & 3,
        "width_high": (width - 1) >> 2,
        "height": height - 1,
        "pitch": pitch_bytes // texel.nbytes - 1,
    }
    words = _encode(_IMAGE, values, _SAMPLER_DWORD)
    words[8:11] = _hsa_channel_type(texel), _HSA_ORDERS[len(texel.bits)], width
    return words.tobytes() + _sampler(sampling or Sampling()).tobytes()


_HSA_ORDERS = {1: 1, 2: 3, 4: 8}  # R, RG, RGBA


def _hsa_channel_type(texel: Texel) -> int:
    """hsa_ext_image_channel_type_t, for software that asks."""
    if texel.bits[0] == 10:
        return 7
    step = {8: 0, 16: 1, 32: 2}[texel.bits[0]]
    first = {Numbers.SNORM: 0, Numbers.UNORM: 2, Numbers.SINT: 8, Numbers.UINT: 11, Numbers.FLOAT: 13}
    return first[texel.numbers] + step


def _channel_selects(texel: Texel) -> int:
    """X, Y, Z, W where the format has them; else zero, and one for the last."""
    have = len(texel.bits)
    codes = [_FIRST_CHANNEL + channel if channel < have else _ZERO for channel in range(4)]
    if have < 4:
        codes[3] = _ONE
    return sum(code << 3 * channel for channel, code in enumerate(codes))


def _sampler(sampling: Sampling) -> Array:
    values = {
        "clamp_x": sampling.x,
        "clamp_y": sampling.y,
        "clamp_z": sampling.x,
        "unnormalized": not sampling.normalized,
        "max_lod": _MAX_LOD,
        "mag_filter": sampling.linear,
        "min_filter": sampling.linear,
    }
    return _encode(_SAMPLER, {name: int(value) for name, value in values.items()}, 4)


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
    _demand("image", fields, {"type": _TYPE_2D, **dict.fromkeys(_IMAGE_ZEROS, 0)})
    kinds = fields["format"]
    strange = ~np.isin(kinds, list(ImageFormat))
    if strange.any():
        raise EmulationError(f"image format {int(kinds[strange][0])} is not supported")
    base = fields["base_low"].astype(np.uint64) << np.uint64(8) | fields["base_high"].astype(np.uint64) << np.uint64(40)
    width = (fields["width_high"] << 2 | fields["width_low"]) + 1
    pitch = fields["pitch"] + 1
    for kind in np.unique(kinds):
        texel = FORMATS[ImageFormat(kind)]
        same = kinds == kind
        _demand("image", {"channels": fields["channels"][same]}, {"channels": _channel_selects(texel)})
        if (pitch[same] * texel.nbytes % PITCH_ALIGNMENT).any() or (pitch < width).any():
            raise EmulationError(f"linear image with a pitch of {int(pitch[0])} texels at a width of {int(width[0])}")
    return Images(base, width, fields["height"] + 1, pitch, kinds)


def read_samplers(words: Array) -> Sampling:
    """The sampler that all of `uint32[4, waves]` are. EmulationError for fields that are not supported."""
    fields = {name: _field(words, place) for name, place in _SAMPLER.items()}
    _demand("sampler", fields, dict.fromkeys(_SAMPLER_ZEROS, 0))
    for name in ("clamp_x", "clamp_y", "unnormalized", "mag_filter", "min_filter"):
        if (fields[name] != fields[name][0]).any():
            raise EmulationError(f"samplers of several kinds in one instruction: {name}")
    first = {name: int(values[0]) for name, values in fields.items()}
    for name in ("clamp_x", "clamp_y"):
        if first[name] not in list(Addressing):
            raise EmulationError(f"sampler descriptor: {name} {first[name]} is not supported")
    if first["mag_filter"] > 1 or first["mag_filter"] != first["min_filter"]:
        raise EmulationError(f"sampler descriptor: mag_filter {first['mag_filter']}, min_filter {first['min_filter']}")
    x, y = Addressing(first["clamp_x"]), Addressing(first["clamp_y"])
    normalized = not first["unnormalized"]
    if not normalized and not {x, y} <= {Addressing.CLAMP, Addressing.BORDER}:
        raise EmulationError(f"sampler descriptor: clamp_x {x}, clamp_y {y} with texel coordinates")
    return Sampling(x, y, normalized, bool(first["mag_filter"]))


def _demand(what: str, fields: Mapping[str, Array], wanted: Mapping[str, int]) -> None:
    for name, value in wanted.items():
        wrong = fields[name] != value
        if wrong.any():
            raise EmulationError(f"{what} descriptor: {name} {int(fields[name][wrong][0])}; only {value} is supported")
