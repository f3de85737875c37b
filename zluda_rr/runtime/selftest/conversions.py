"""FP8 conversions of all halves in every position, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.e4m3 import decode_half_pairs, decode_to_float, encode_float_gfx12, encode_half
from zluda_rr.numerics.f16 import half_to_float, is_nan_half
from zluda_rr.runtime.selftest.rig import Argument, Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, comparison, one_nan, one_nan_half

__all__ = ["CONVERSION_CHECKS"]

Array = NDArray[Any]
HALVES = 1 << 16
_BLOCKS, _THREADS = HALVES // 256, 256
_WORDS = Out((HALVES,), np.uint32)


def _all_halves() -> tuple[Array, Array]:
    """Every half, and each one's companion in the other positions of its word."""
    bits = np.arange(HALVES, dtype=np.uint16)
    return bits, bits[::-1].copy()


def _both(codes: Array, others: Array) -> Array:
    """The word (x, y, y, x), as the kernels make it."""
    x, y = codes.astype(np.uint32), others.astype(np.uint32)
    return np.asarray(x | y << np.uint32(8) | y << np.uint32(16) | x << np.uint32(24))


def _floats(rig: Rig, kernel: str, outputs: int = 1) -> tuple[Array, Array, list[Array]]:
    bits, others = _all_halves()
    arguments: list[Argument] = [half_to_float(bits), half_to_float(others), *[_WORDS] * outputs]
    return bits, others, rig.launch("convert", kernel, arguments, _BLOCKS, _THREADS)


def _words(bits: Array, others: Array, *, saturate: bool = False) -> Array:
    codes = [encode_float_gfx12(half_to_float(part), saturate=saturate) for part in (bits, others)]
    return _both(codes[0], codes[1])


def _encode(rig: Rig) -> Row:
    bits, others, (found,) = _floats(rig, "encode")
    return comparison([("x, y", _words(bits, others), found, [bits, others])], "words of four conversions")


def _encode_saturating(rig: Rig) -> Row:
    bits, others, (found, after) = _floats(rig, "encode_saturating", 2)
    parts = [
        ("under FP16_OVFL", _words(bits, others, saturate=True), found, [bits, others]),
        ("after it", _words(bits, others), after, [bits, others]),
    ]
    return comparison(parts, "words of four conversions")


def _encode_positive_nan(rig: Rig) -> Row:
    bits, others, (found,) = _floats(rig, "encode_positive_nan")
    codes = []
    for part in (bits, others):
        negated = encode_float_gfx12(-half_to_float(part))
        codes.append(np.where(is_nan_half(part), np.uint8(0x7F), negated ^ np.uint8(0x80)))
    return comparison([("x, y", _both(codes[0], codes[1]), found, [bits, others])], "words of four conversions")


def _requantise(rig: Rig) -> Row:
    """PTX's codes; the bodies' NaNs keep their sign (exact, relu) or are all 0xff (propagate)."""
    bits, others = _all_halves()
    results = rig.launch("convert", "requantise_halves", [bits, _WORDS, _WORDS, _WORDS], _BLOCKS, _THREADS)
    parts = []
    for name, found in zip(("exact", "propagate", "relu"), results, strict=True):
        codes = [_body_codes(part, name) for part in (bits, others)]
        expected, actual = _both(codes[0], codes[1]), found
        if name == "relu":  # which sign a NaN has behind a maximum, no document says
            expected, actual = (_unsigned_nan(words) for words in (expected, actual))
        parts.append((name, expected, actual, [bits, others]))
    return comparison(parts, "words of four conversions")


def _body_codes(bits: Array, mode: str) -> Array:
    codes = encode_half(bits, relu=mode == "relu")
    if mode == "propagate":
        return np.where(is_nan_half(bits), np.uint8(0xFF), codes)
    sign = (bits >> np.uint16(8)).astype(np.uint8) & np.uint8(0x80)
    return np.where(is_nan_half(bits), codes | sign, codes)


def _unsigned_nan(words: Array) -> Array:
    codes = np.ascontiguousarray(words).view(np.uint8)
    return np.where((codes & 0x7F) == 0x7F, np.uint8(0x7F), codes).view(np.uint32)


def _translated(rig: Rig) -> Row:
    """What the lowering of PTX's conversions gives: PTX's codes exactly, NaN always 0x7f; halves with any NaN."""
    bits, others = _all_halves()
    short = Out((HALVES,), np.uint16)
    arguments: list[Argument] = [bits, short, short, short, _WORDS]
    plain, swapped, relu, decoded = rig.launch("translated", "translated", arguments, _BLOCKS, _THREADS)

    def pairs(low: Array, high: Array, *, relu: bool = False) -> Array:
        first, second = (encode_half(part, relu=relu).astype(np.uint16) for part in (low, high))
        return first | second << np.uint16(8)

    parts = [
        ("plain", pairs(bits, others), plain, [bits, others]),
        ("plain, positions exchanged", pairs(others, bits), swapped, [others, bits]),
        ("relu", pairs(bits, others, relu=True), relu, [bits, others]),
        ("back", one_nan_half(decode_half_pairs(bits)), one_nan_half(decoded), [bits]),
    ]
    return comparison(parts, "conversions of pairs")


def _decode(rig: Rig) -> Row:
    """All codes in every byte, through byte_sel and through the packed form."""
    codes = np.arange(256, dtype=np.uint8)
    places = np.stack([codes, codes ^ 0x5A, codes ^ 0xFF, codes[::-1]], axis=1)
    words = np.ascontiguousarray(places).view(np.uint32)[:, 0]
    (found,) = rig.launch("convert", "decode", [words, Out((256, 8), np.float32)], 1, 256)
    expected = decode_to_float(np.concatenate([places, places], axis=1))
    given = np.broadcast_to(words[:, None], expected.shape)
    both = (one_nan(np.ascontiguousarray(values).view(np.uint32)) for values in (expected, found))
    want, got = both
    return comparison([("word", want, got, [given])], "values")


CONVERSION_CHECKS = (
    Check("fp8-encode", "Does v_cvt_pk_fp8_f32 round, overflow and keep NaN as assumed, in all four bytes?", _encode),
    Check("fp8-encode-ovfl", "Does MODE.FP16_OVFL make it saturate, and only while it is set?", _encode_saturating),
    Check("fp8-encode-nan", "Does it take negated sources, so that NaNs come out positive?", _encode_positive_nan),
    Check("fp8-requantise", "Are the bodies' conversions PTX's: plain, propagating and relu?", _requantise),
    Check("fp8-translated", "Are the translated conversions PTX's: plain, relu, and back?", _translated),
    Check("fp8-decode", "Do v_cvt_f32_fp8 and v_cvt_pk_f32_fp8 give every code's value from every byte?", _decode),
)
