"""Image loads, stores and point samples of linear 2D images with four 16-bit channels.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 11 (image memory operations). Outside the image loads give
0 and stores are dropped; what the hardware's documents leave open (inexact conversions, half-way coordinates) is an
error here, so that no result rests on a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import transfer
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.image_forms import IMAGE_DIMENSIONS
from zluda_rr.emulate.gfx12.image_resource import TEXEL_BYTES, ImageFormat, Images, check_samplers, read_images
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.machine import LANES, UNSET, EmulationError
from zluda_rr.emulate.gfx12.ports import GlobalPort
from zluda_rr.emulate.gfx12.table import Build
from zluda_rr.numerics.f16 import half_to_float, is_nan_half, round_half

Array = NDArray[Any]
Place = Callable[[Array], tuple[Images, Array, Array]]
"""Flat lane numbers to each lane's image and its texel, x and y (`int64`)."""

_STEPS = 256.0
"""The sampler's coordinates have 8 fractional bits."""
_NO_HALF = UNSET & 0xFFFF


def _refuse(b: Binder) -> None:
    """What no compute kernel here is compiled to."""
    mods = b.inst.mods
    if IMAGE_DIMENSIONS[mods["dim"]].name != "2D":
        raise EmulationError(f"image of dimension {IMAGE_DIMENSIONS[mods['dim']].name}: only 2D is supported")
    for name in ("a16", "r128", "tfe", "lwe"):
        if mods[name]:
            raise EmulationError(f"image instruction with {name} is not supported")
    if not mods["dmask"]:
        raise EmulationError("image instruction without a channel in dmask")


def _words(b: Binder, op: Operand) -> Array:
    """A descriptor's scalar registers, `uint32[width, waves]` (a view)."""
    first = b.row(op)
    return b.machine.sgpr[first : first + op.width]


def _images(words: Array, lanes: Array) -> Images:
    """Images of lanes, decoded once per wave that has one of them."""
    waves, which = np.unique(lanes // LANES, return_inverse=True)
    found = read_images(words[:, waves])
    return Images(*(part[which] for part in (found.base, found.width, found.height, found.pitch, found.format)))


def _place(b: Binder) -> Place:
    """Integer texel coordinates."""
    x_op, y_op, resource = b.inst.src[-3:]
    x_row, y_row = (transfer.rows(b, op, 1)[0] for op in (x_op, y_op))
    words = _words(b, resource)

    def place(lanes: Array) -> tuple[Images, Array, Array]:
        x, y = (row[lanes].view(np.int32).astype(np.int64) for row in (x_row, y_row))
        return _images(words, lanes), x, y

    return place


def _sampled_place(b: Binder) -> Place:
    """Float coordinates through the sampler."""
    x_op, y_op, resource, sampler = b.inst.src
    x_row, y_row = (transfer.rows(b, op, 1)[0] for op in (x_op, y_op))
    words, samplers = _words(b, resource), _words(b, sampler)

    def place(lanes: Array) -> tuple[Images, Array, Array]:
        check_samplers(samplers[:, np.unique(lanes // LANES)])
        images = _images(words, lanes)
        x = _texel(x_row[lanes].view(np.float32), images.width)
        return images, x, _texel(y_row[lanes].view(np.float32), images.height)

    return place


def _texel(coordinate: Array, size: Array) -> Array:
    """Nearest texel of an unnormalised coordinate, clamped to the edge."""
    wide = coordinate.astype(np.float64)
    if np.isnan(wide).any():
        raise EmulationError("image sample at a coordinate that is no number")
    clamped = np.clip(wide, -1.0, size.astype(np.float64))
    texel = np.floor(clamped)
    doubtful = np.floor(np.rint(clamped * _STEPS) / _STEPS) != texel
    if doubtful.any():
        raise EmulationError(f"image sample at {wide[doubtful][0]}: too close to the next texel to tell which is read")
    return np.clip(texel.astype(np.int64), 0, size - 1)


def _addresses(images: Images, x: Array, y: Array) -> tuple[Array, Array]:
    """Addresses of texels, and which of them are inside."""
    inside = (x >= 0) & (x < images.width) & (y >= 0) & (y < images.height)
    return images.base + ((y * images.pitch + x) * TEXEL_BYTES).astype(np.uint64), inside


def _channels(mask: int) -> list[int]:
    return [channel for channel in range(4) if mask >> channel & 1]


def _read(place: Callable[[Binder], Place]) -> Build:
    def build(b: Binder) -> None:
        _refuse(b)
        where, port = place(b), GlobalPort(b.machine)
        channels, packed = _channels(b.inst.mods["dmask"]), bool(b.inst.mods["d16"])
        targets = transfer.rows(b, b.inst.dst[0], b.inst.dst[0].width)
        lanes_of = transfer.lane_numbers(b)

        def act() -> None:
            lanes = lanes_of()
            if not len(lanes):
                return
            images, x, y = where(lanes)
            addresses, inside = _addresses(images, x, y)
            texels = np.zeros((len(lanes), 4), dtype=np.uint16)
            if inside.any():
                texels[inside] = port.load(lanes[inside], addresses[inside], TEXEL_BYTES).view(np.uint16)
            chosen = texels[:, channels]
            words = _packed(chosen) if packed else _widened(chosen, images.format)
            for index, target in enumerate(targets):
                target[lanes] = words[:, index]

        b.act.append(act)

    return build


def _packed(halves: Array) -> Array:
    """Two channels a register; what the hardware leaves in a last odd half is not defined."""
    if halves.shape[1] % 2:
        halves = np.column_stack([halves, np.full(len(halves), _NO_HALF, dtype=np.uint16)])
    return np.ascontiguousarray(halves).view(np.uint32)


def _widened(halves: Array, formats: Array) -> Array:
    floats = half_to_float(halves).view(np.uint32)
    return np.where((formats == ImageFormat.FLOAT)[:, None], floats, halves.astype(np.uint32))


def _narrowed(words: Array, formats: Array) -> Array:
    """32-bit channels to 16 bits; only values that have them exactly."""
    floats = words.view(np.float32)
    halves = round_half(floats)
    exact = (half_to_float(halves).view(np.uint32) == words) | (np.isnan(floats) & is_nan_half(halves))
    is_float = (formats == ImageFormat.FLOAT)[:, None]
    good = np.where(is_float, exact, words <= 0xFFFF)
    if not good.all():
        raise EmulationError(f"image store of {int(words[~good][0]):#x} to 16 bits: not representable")
    return np.where(is_float, halves, words.astype(np.uint16))


def _store(b: Binder) -> None:
    _refuse(b)
    if b.inst.mods["dmask"] != 15:
        raise EmulationError("image store of some channels only is not supported")
    where, port = _place(b), GlobalPort(b.machine)
    data = b.inst.src[0]
    sources = transfer.rows(b, data, data.width)
    packed = bool(b.inst.mods["d16"])
    lanes_of = transfer.lane_numbers(b)

    def act() -> None:
        lanes = lanes_of()
        if not len(lanes):
            return
        images, x, y = where(lanes)
        addresses, inside = _addresses(images, x, y)
        words = np.stack([source[lanes] for source in sources], axis=1)
        halves = words.view(np.uint16) if packed else _narrowed(words, images.format)
        if inside.any():
            port.store(lanes[inside], addresses[inside], np.ascontiguousarray(halves[inside]).view(np.uint8))

    b.act.append(act)


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    return {
        "image_load": _read(_place),
        "image_sample": _read(_sampled_place),
        "image_sample_lz": _read(_sampled_place),
        "image_store": _store,
    }
