"""HIP's images as hardware descriptors: array formats and texture descriptions to gfx12's.

Source of the enumerations: HIP, driver_types.h (hipArray_Format) and texture_types.h (address, filter and read modes).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from zluda_rr.emulate.gfx12 import Addressing, ImageFormat, Numbers, Sampling, image_object
from zluda_rr.emulate.hip.protocol import Refusal, Status

__all__ = ["image_format", "image_of_request", "sampling"]

_REQUEST = struct.Struct("<Q12I")
"""image_request of native/texture.c."""
_CHANNELS: Mapping[int, tuple[int, Numbers]] = {
    0x01: (8, Numbers.UINT),
    0x02: (16, Numbers.UINT),
    0x03: (32, Numbers.UINT),
    0x08: (8, Numbers.SINT),
    0x09: (16, Numbers.SINT),
    0x0A: (32, Numbers.SINT),
    0x10: (16, Numbers.FLOAT),
    0x20: (32, Numbers.FLOAT),
}
"""hipArray_Format to bits and meaning."""
_ORDERS = {1: "R", 2: "RG", 4: "RGBA"}
_NORMALIZED = {Numbers.UINT: Numbers.UNORM, Numbers.SINT: Numbers.SNORM}
_MODES = {0: Addressing.WRAP, 1: Addressing.CLAMP, 2: Addressing.MIRROR, 3: Addressing.BORDER}


def image_format(array_format: int, channels: int, *, normalized_float: bool = False) -> ImageFormat:
    """The code of an array's texels; integers of 8 and 16 bits may be read as normalised floats."""
    if array_format not in _CHANNELS or channels not in _ORDERS:
        raise Refusal(Status.INVALID_VALUE, f"image of format {array_format:#x} with {channels} channels")
    bits, numbers = _CHANNELS[array_format]
    if normalized_float and bits < 32:
        numbers = _NORMALIZED.get(numbers, numbers)
    return ImageFormat[f"{_ORDERS[channels]}{bits}_{numbers}"]


def sampling(mode_x: int, mode_y: int, *, normalized: bool, linear: bool) -> Sampling:
    """The sampler of a texture. Texel coordinates know no wrapping: HIP then clamps. Refusal for other modes."""
    if mode_x not in _MODES or mode_y not in _MODES:
        raise Refusal(Status.INVALID_VALUE, f"texture address modes {mode_x} and {mode_y}")
    x, y = _MODES[mode_x], _MODES[mode_y]
    if not normalized:
        x, y = (mode if mode is Addressing.BORDER else Addressing.CLAMP for mode in (x, y))
    return Sampling(x, y, normalized, linear)


def image_of_request(data: bytes) -> bytes:
    """The bytes behind a handle. Refusal for an image that the emulator does not have."""
    base, width, height, pitch, form, channels, as_float, mode_x, mode_y, linear, normalized, srgb, _ = _REQUEST.unpack(
        data
    )
    if srgb:
        raise Refusal(Status.NOT_SUPPORTED, "sRGB textures are not there")
    kind = image_format(form, channels, normalized_float=bool(as_float))
    sampler = sampling(mode_x, mode_y, normalized=bool(normalized), linear=bool(linear))
    try:
        return image_object(base, width, height, pitch, kind, sampler)
    except ValueError as error:
        raise Refusal(Status.INVALID_VALUE, str(error)) from error
