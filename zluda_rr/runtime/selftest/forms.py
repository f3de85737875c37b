"""Packed and mixed arithmetic, lane exchanges and image loads in the forms that the bodies use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.f16 import (
    add_half,
    fma_float,
    fma_half,
    half_to_float,
    is_nan_half,
    max_half,
    min_half,
    mul_half,
    round_half,
    sum_to_odd,
)
from zluda_rr.runtime.selftest.rig import Argument, Handle, Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, comparison, one_nan, one_nan_half

__all__ = ["FORM_CHECKS"]

Array = NDArray[Any]
_COUNT = 4096
_SPECIAL = (0x0000, 0x8000, 0x0001, 0x83FF, 0x3C00, 0xBC00, 0x3800, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00)
_PACKED = (
    "v_pk_add_f16", "v_pk_mul_f16", "v_pk_fma_f16", "v_pk_min_num_f16", "v_pk_max_num_f16", "v_pk_minimum_f16",
    "v_pk_maximum_f16", "v_pk_max_num_f16 |x| clamp", "v_pk_add_f16 0.5 clamp", "v_pk_min_u16", "v_pk_min_i16",
    "v_pk_add_f16 op_sel neg",
)  # fmt: skip


def _halves(seed: int) -> Array:
    """Pairs `uint16[n, 2]`: any bits, every special value often."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 16, (_COUNT, 2)).astype(np.uint16)
    often = rng.random(bits.shape) < 0.3
    bits[often] = rng.choice(np.array(_SPECIAL, np.uint16), int(often.sum()))
    return bits


def _word(pairs: Array) -> Array:
    return np.ascontiguousarray(pairs).view(np.uint32)[:, 0]


def _to_unit(bits: Array) -> Array:
    """The clamp of results: to [0, 1]; NaN and -0 give +0."""
    values = half_to_float(bits)
    with np.errstate(all="ignore"):
        return round_half(np.where(values > 0, np.minimum(values, np.float32(1)), np.float32(0)))


def _or_nan(picked: Array, a: Array, b: Array) -> Array:
    return np.where(is_nan_half(a) | is_nan_half(b), np.uint16(0x7E00), picked)


def _negated(pairs: Array, *, high: bool) -> Array:
    """The sign of one half of each pair flipped."""
    result = pairs.copy()
    result[:, int(high)] ^= np.uint16(0x8000)
    return result


def _packed(rig: Rig) -> Row:
    a, b, c = (_halves(seed) for seed in (1, 2, 3))
    sign, magnitude = np.uint16(0x8000), a & np.uint16(0x7FFF)
    signed = np.minimum(a.view(np.int16), b.view(np.int16)).view(np.uint16)
    crossed = add_half(_negated(a[:, ::-1], high=True), _negated(b, high=False))
    expected = [
        add_half(a, b), mul_half(a, b), fma_half(a, b, c), min_half(a, b), max_half(a, b),
        _or_nan(min_half(a, b), a, b), _or_nan(max_half(a, b), a, b),
        _to_unit(np.where(is_nan_half(a), a & ~sign, magnitude)), _to_unit(add_half(a, np.full_like(a, 0x3800))),
        np.minimum(a, b), signed, crossed,
    ]  # fmt: skip
    inputs = [_word(pairs) for pairs in (a, b, c)]
    arguments: list[Argument] = [*inputs, Out((_COUNT, len(_PACKED)), np.uint32)]
    (found,) = rig.launch("forms", "packed", arguments, _COUNT // 256, 256)
    parts = []
    for index, (name, pairs) in enumerate(zip(_PACKED, expected, strict=True)):
        words = [_word(pairs), found[:, index].copy()]
        if not name.endswith("16") or "f16" in name:
            words = [one_nan_half(part) for part in words]
        parts.append((name, words[0], words[1], inputs))
    return comparison(parts, "words")


def _mixed(rig: Rig) -> Row:
    rng = np.random.default_rng(4)
    pairs = _halves(5)
    y, z = (half_to_float(_halves(seed)[:, 0]) * np.float32(1 + 2**-12) for seed in (6, 7))
    y[::7] *= np.exp2(rng.integers(-60, 60, y[::7].shape)).astype(np.float32)
    low, high = (half_to_float(pairs[:, half].copy()) for half in (0, 1))

    def rounded(p: Array, q: Array, r: Array) -> Array:
        """f16 of the f32 that the instruction forms; both roundings are the hardware's."""
        return round_half(fma_float(p, q, r)).astype(np.uint32)

    def scaled(values: Array) -> Array:
        return round_half(sum_to_odd(values.astype(np.float64) * 0.25, np.full_like(values, -0.0))).astype(np.uint32)

    with np.errstate(all="ignore"):
        singles = [fma_float(low, y, z), fma_float(high, y, z), fma_float(-low, y, z)]
        expected = [one_nan(values.view(np.uint32)) for values in singles]
        expected += [scaled(y) | scaled(z) << np.uint32(16)]
        expected += [rounded(y, z, y) | rounded(z, y, z) << np.uint32(16)]
        expected += [one_nan((high * np.float32(0.5)).view(np.uint32))]
    names = ("fma_mix low", "fma_mix high", "fma_mix -low", "mixlo/hi * 0.25", "mixlo/hi", "fma_mix high * 0.5")
    arguments: list[Argument] = [_word(pairs), y, z, Out((_COUNT, len(names)), np.uint32)]
    (found,) = rig.launch("forms", "mixed", arguments, _COUNT // 256, 256)
    inputs = [_word(pairs), y.view(np.uint32), z.view(np.uint32)]
    parts = []
    for index, (name, words) in enumerate(zip(names, expected, strict=True)):
        same = one_nan_half if name.startswith("mixlo") else one_nan
        parts.append((name, same(words), same(found[:, index].copy()), inputs))
    return comparison(parts, "words")


def _lanes(rig: Rig) -> Row:
    values = np.random.default_rng(8).integers(0, 1 << 32, (8, 32)).astype(np.uint32)
    lane = np.arange(32)
    row, place = lane & 16, lane & 15
    dpp8 = (lane & ~7) | ((0x123456 >> (3 * (lane & 7))) & 7)
    sources = {
        "row_xmask:1": lane ^ 1, "row_xmask:2": lane ^ 2, "row_xmask:4": lane ^ 4, "row_xmask:8": lane ^ 8,
        "row_share:5": row | 5, "quad_perm": lane ^ 3, "row_mirror": row | 15 - place, "row_shr:1": lane - 1,
        "dpp8": dpp8, "permlanex16": lane ^ 16, "ds_bpermute": (7 * lane + 3) & 31,
    }  # fmt: skip
    (found,) = rig.launch("forms", "lanes", [values, Out((256, 12), np.uint32)], 1, 256)
    got = found.reshape(8, 32, 12)
    parts = []
    for index, (name, source) in enumerate(sources.items()):
        expected = values[:, source]
        if name == "row_shr:1":
            expected = np.where(place == 0, np.uint32(0), expected)
        parts.append((name, expected, got[..., index], [values]))
    ballot = ((values & 1).astype(np.uint64) << lane.astype(np.uint64)).sum(axis=1).astype(np.uint32)
    parts.append(("ballot", np.broadcast_to(ballot[:, None], (8, 32)), got[..., 11], [values]))
    return comparison(parts, "words")


def _image(rig: Rig) -> Row:
    """A surface of four f16 a texel: inside, at all edges, outside on every side."""
    width, height = 37, 21
    rng = np.random.default_rng(9)
    texels = rng.normal(0, 100, (height, width, 4)).astype(np.float16)
    texels.view(np.uint16)[rng.random(texels.shape) < 0.05] = 0x0001
    y, x = (axis.ravel() for axis in np.mgrid[-3 : height + 3, -3 : width + 3])
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    places = np.stack([x, y], axis=1).astype(np.int32)
    count = len(places)
    runtime = rig.device.runtime
    array, surface = runtime.surface(texels.view(np.uint8).reshape(height, -1))
    try:
        arguments: list[Argument] = [Handle(int(surface)), places, Out((count, 4), np.float32), count]
        (found,) = rig.launch("image", "load", arguments, -(-count // 256), 256)
    finally:
        runtime.call("hipDestroySurfaceObject", surface)
        runtime.call("hipArrayDestroy", array)
    expected = np.zeros((count, 4), np.float32)
    expected[inside] = texels[y[inside], x[inside]].astype(np.float32)
    given = [np.repeat(places[:, axis, None], 4, axis=1).astype(np.int16).view(np.uint16) for axis in (0, 1)]
    return comparison([("x, y", expected.view(np.uint32), found.view(np.uint32), given)], "channels")


FORM_CHECKS = (
    Check("packed", "Do the packed f16 and integer forms of the bodies compute as assumed?", _packed),
    Check("mixed", "Do v_fma_mix_f32, v_fma_mixlo_f16 and v_fma_mixhi_f16 round once, from the right half?", _mixed),
    Check("lanes", "Do DPP, permlanex16, ds_bpermute and ballot read the lanes that the bodies expect?", _lanes),
    Check("image-load", "Does image_load give texels inside an image and zeros outside?", _image),
)
