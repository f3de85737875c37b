"""Image loads, stores and samples of linear 2D images.

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
from zluda_rr.emulate.gfx12.image_formats import FORMATS, ImageFormat, Numbers, Texel, decode_texels, encode_texels
from zluda_rr.emulate.gfx12.image_forms import IMAGE_DIMENSIONS
from zluda_rr.emulate.gfx12.image_resource import Addressing, Images, Sampling, read_images, read_samplers
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.machine import LANES, UNSET, EmulationError
from zluda_rr.emulate.gfx12.ports import GlobalPort
from zluda_rr.emulate.gfx12.table import Build
from zluda_rr.numerics.f16 import half_to_float, is_nan_half, round_half

Array = NDArray[Any]
Values = Callable[[Array], Array]
"""Flat lane numbers to each lane's channel values `[N, 4]`."""

_STEPS = 256.0
"""The sampler's coordinates have 8 fractional bits."""
_FAR = 1 << 20
"""Image sizes that a coordinate is bounded to."""
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


def _texels(images: Images, lanes: Array, port: GlobalPort, x: Array, y: Array, dtype: str) -> Array:
    """Channel values `[N, 4]`: "u4", or "u2" for d16; zeros outside the image."""
    found = np.zeros((len(lanes), 4), dtype=dtype)
    inside = (x >= 0) & (x < images.width) & (y >= 0) & (y < images.height)
    for kind in np.unique(images.format):
        texel = FORMATS[ImageFormat(kind)]
        chosen = np.flatnonzero(inside & (images.format == kind))
        if len(chosen):
            data = port.load(lanes[chosen], _addresses(images, x, y, texel)[chosen], texel.nbytes)
            found[chosen, : len(texel.bits)] = decode_texels(texel, data) if dtype == "u4" else _halves(texel, data)
            if len(texel.bits) < 4:
                found[chosen, 3] = texel.one if dtype == "u4" else texel.half_one
    return found


def _halves(texel: Texel, data: Array) -> Array:
    """Channels of 16 bits: as they lie in memory, cut from integers, or floats that a half has exactly."""
    if set(texel.bits) == {16} and not texel.is_normalized:
        return np.ascontiguousarray(data).view(np.uint16)
    words = np.ascontiguousarray(decode_texels(texel, data))
    if texel.is_integer:
        return words.astype(np.uint16)
    halves = round_half(words.view(np.float32))
    good = (half_to_float(halves).view(np.uint32) == words) | is_nan_half(halves)
    if not good.all():
        raise EmulationError(f"image read of {int(words[~good][0]):#x} with d16: not representable")
    return halves


def _addresses(images: Images, x: Array, y: Array, texel: Texel) -> Array:
    return np.asarray(images.base + ((y * images.pitch + x) * texel.nbytes).astype(np.uint64))


def _loaded(b: Binder, dtype: str) -> Values:
    """The texel at integer coordinates."""
    x_op, y_op, resource = b.inst.src[-3:]
    x_row, y_row = (transfer.rows(b, op, 1)[0] for op in (x_op, y_op))
    words, port = _words(b, resource), GlobalPort(b.machine)

    def values(lanes: Array) -> Array:
        x, y = (row[lanes].view(np.int32).astype(np.int64) for row in (x_row, y_row))
        return _texels(_images(words, lanes), lanes, port, x, y, dtype)

    return values


def _sampled(b: Binder, dtype: str) -> Values:
    """Float coordinates through the sampler."""
    x_op, y_op, resource, sampler = b.inst.src
    x_row, y_row = (transfer.rows(b, op, 1)[0] for op in (x_op, y_op))
    words, samplers, port = _words(b, resource), _words(b, sampler), GlobalPort(b.machine)

    def values(lanes: Array) -> Array:
        sampling = read_samplers(samplers[:, np.unique(lanes // LANES)])
        images = _images(words, lanes)
        x, y = (row[lanes].view(np.float32).astype(np.float64) for row in (x_row, y_row))
        if np.isnan(x).any() or np.isnan(y).any():
            raise EmulationError("image sample at a coordinate that is no number")
        if sampling.normalized:
            x, y = x * images.width, y * images.height
        if sampling.linear:
            mixed = _bilinear(images, lanes, port, sampling, x, y)
            return mixed.view(np.uint32) if dtype == "u4" else round_half(mixed)
        columns = addressed(sampling.x, _nearest(x, images.width), images.width)
        rows = addressed(sampling.y, _nearest(y, images.height), images.height)
        return _texels(images, lanes, port, columns, rows, dtype)

    return values


def _bounded(coordinate: Array, size: Array) -> Array:
    """Infinities and huge values as something that integers hold; what lies so far outside stays outside."""
    return np.clip(coordinate, -_FAR * size, _FAR * size)


def _nearest(coordinate: Array, size: Array) -> Array:
    bounded = _bounded(coordinate, size)
    texel = np.floor(bounded)
    doubtful = np.floor(np.rint(bounded * _STEPS) / _STEPS) != texel
    doubtful &= (bounded > -1.0) & (bounded < size + 1.0)
    if doubtful.any():
        where = coordinate[doubtful][0]
        raise EmulationError(f"image sample at {where}: too close to the next texel to tell which is read")
    return texel.astype(np.int64)


def addressed(mode: Addressing, texel: Array, size: Array) -> Array:
    """Texel numbers inside the image; -1 for the border."""
    if mode is Addressing.WRAP:
        return np.asarray(texel % size)
    if mode is Addressing.MIRROR:
        place = texel % (2 * size)
        return np.asarray(np.where(place < size, place, 2 * size - 1 - place))
    if mode is Addressing.CLAMP:
        return np.asarray(np.clip(texel, 0, size - 1))
    return np.where((texel >= 0) & (texel < size), texel, -1)


def _bilinear(images: Images, lanes: Array, port: GlobalPort, sampling: Sampling, x: Array, y: Array) -> Array:
    """The mean of four texels with weights of 8 bits, summed exactly and rounded once; a card may round otherwise."""
    if any(FORMATS[ImageFormat(kind)].is_integer for kind in np.unique(images.format)):
        raise EmulationError("bilinear sample of an integer image")
    columns = _between(sampling.x, x, images.width)
    rows = _between(sampling.y, y, images.height)
    total = np.zeros((len(lanes), 4), dtype=np.float64)
    for column, across in columns:
        for row, down in rows:
            values = _texels(images, lanes, port, column, row, "u4").view(np.float32).astype(np.float64)
            total += np.where((across * down)[:, None] == 0.0, 0.0, values * (across * down)[:, None])
    return np.asarray(total, dtype=np.float32)


def _between(mode: Addressing, coordinate: Array, size: Array) -> list[tuple[Array, Array]]:
    """The two texels around a coordinate, each with its weight."""
    steps = np.rint((_bounded(coordinate, size) - 0.5) * _STEPS)
    first = np.floor(steps / _STEPS)
    weight = steps / _STEPS - first
    texel = first.astype(np.int64)
    return [(addressed(mode, texel, size), 1.0 - weight), (addressed(mode, texel + 1, size), weight)]


def _channels(mask: int) -> list[int]:
    return [channel for channel in range(4) if mask >> channel & 1]


def _read(source: Callable[[Binder, str], Values]) -> Build:
    def build(b: Binder) -> None:
        _refuse(b)
        channels, packed = _channels(b.inst.mods["dmask"]), bool(b.inst.mods["d16"])
        values = source(b, "u2" if packed else "u4")
        targets = transfer.rows(b, b.inst.dst[0], b.inst.dst[0].width)
        lanes_of = transfer.lane_numbers(b)

        def act() -> None:
            lanes = lanes_of()
            if not len(lanes):
                return
            chosen = values(lanes)[:, channels]
            words = _packed(chosen) if packed else chosen
            for index, target in enumerate(targets):
                target[lanes] = words[:, index]

        b.act.append(act)

    return build


def _packed(halves: Array) -> Array:
    """Two channels a register; what the hardware leaves in a last odd half is not defined."""
    if halves.shape[1] % 2:
        halves = np.column_stack([halves, np.full(len(halves), _NO_HALF, dtype=np.uint16)])
    return np.ascontiguousarray(halves).view(np.uint32)


def _store(b: Binder) -> None:
    _refuse(b)
    mask = b.inst.mods["dmask"]
    if not mask & 1:
        raise EmulationError(f"image store without the first channel (dmask {mask:#x}) is not supported")
    x_op, y_op, resource = b.inst.src[-3:]
    x_row, y_row = (transfer.rows(b, op, 1)[0] for op in (x_op, y_op))
    descriptors, port = _words(b, resource), GlobalPort(b.machine)
    data = b.inst.src[0]
    sources = transfer.rows(b, data, data.width)
    packed = bool(b.inst.mods["d16"])
    lanes_of = transfer.lane_numbers(b)

    def act() -> None:
        lanes = lanes_of()
        if not len(lanes):
            return
        x, y = (row[lanes].view(np.int32).astype(np.int64) for row in (x_row, y_row))
        images = _images(descriptors, lanes)
        inside = (x >= 0) & (x < images.width) & (y >= 0) & (y < images.height)
        values = np.stack([source[lanes] for source in sources], axis=1)
        if packed:
            values = np.ascontiguousarray(values).view(np.uint16)
        values = _all_channels(values, mask)
        for kind in np.unique(images.format):
            texel = FORMATS[ImageFormat(kind)]
            chosen = np.flatnonzero(inside & (images.format == kind))
            if len(chosen):
                raw = _stored(texel, values[chosen])
                port.store(lanes[chosen], _addresses(images, x, y, texel)[chosen], raw)

    b.act.append(act)


def _all_channels(values: Array, mask: int) -> Array:
    """`[N, 4]`: channels that a store leaves out are the first one (LLVM's feature default-component-broadcast)."""
    channels = _channels(mask)
    full = np.repeat(values[:, :1], 4, axis=1)
    full[:, channels] = values[:, : len(channels)]
    return full


def _stored(texel: Texel, values: Array) -> Array:
    """Bytes of texels from channels of 32 bits, or of 16 (d16)."""
    have = len(texel.bits)
    if values.dtype == np.uint32:
        return encode_texels(texel, values[:, :have])
    halves = values[:, :have]
    if set(texel.bits) == {16} and not texel.is_normalized:
        return np.ascontiguousarray(halves).view(np.uint8)  # as they are, NaNs too
    if texel.is_integer:
        if texel.numbers is Numbers.SINT:
            return encode_texels(texel, np.ascontiguousarray(halves).view(np.int16).astype(np.int32).view(np.uint32))
        return encode_texels(texel, halves.astype(np.uint32))
    return encode_texels(texel, half_to_float(halves).view(np.uint32))


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    return {
        "image_load": _read(_loaded),
        "image_sample": _read(_sampled),
        "image_sample_lz": _read(_sampled),
        "image_store": _store,
    }
