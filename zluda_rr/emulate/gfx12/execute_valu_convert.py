"""Vector conversions between integers, f16, f32, f64 and fp8, and packs.

Float to integer truncates (unless the name says otherwise), saturates, and sends NaN to 0. Source: AMD
"RDNA4" Instruction Set Architecture, chapter 16, VOP1 and VOP3; fp8 behaviour as `numerics.e4m3` states it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import floats
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.table import Build, per_lane
from zluda_rr.numerics.e4m3 import (
    decode_e5m2_to_float,
    decode_to_float,
    encode_e5m2_float_gfx12,
    encode_float_gfx12,
)

Array = NDArray[Any]


def to_integer(x: Array, dtype: type[Any], whole: Callable[[Array], Array] = np.trunc) -> Array:
    """Saturating conversion of a float array; NaN gives 0."""
    info = np.iinfo(dtype)
    value = whole(np.nan_to_num(np.asarray(x, dtype=np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
    return np.clip(value, info.min, info.max).astype(np.int64).astype(dtype)


def _nearest(x: Array) -> Array:
    """floor(x + 0.5), as V_CVT_NEAREST_I32_F32."""
    return np.floor(x + 0.5)


def normalised(x: Array, dtype: type[Any]) -> Array:
    """[-1, 1] or [0, 1] to +-32767 or 65535, to nearest even; NaN gives 0."""
    inside = np.clip(np.asarray(x, dtype=np.float64), -1, 1)
    return to_integer(inside * np.iinfo(dtype).max, dtype, np.rint)


def _pack(low: Array, high: Array) -> Array:
    """Two 16-bit arrays into words."""
    first = np.asarray(low).view(np.uint16).astype(np.uint32)
    return first | (np.asarray(high).view(np.uint16).astype(np.uint32) << np.uint32(16))


def _f16_from_f32(b: Binder) -> None:
    b.emit("h", np.asarray, b.vector(0, "f"))


def _f32_from_f64(b: Binder) -> None:
    mode = b.machine.mode.round_32
    b.emit("f", lambda x: floats.round_f32(x, mode), b.vector(0, "d"))


def _pack_toward_zero(b: Binder) -> None:
    """v_cvt_pk_rtz_f16_f32: truncates, so that only infinities become infinite."""

    def formula(x: Array, y: Array) -> Array:
        return _pack(*(floats.round_f16(v, 3, False) for v in (x, y)))

    b.emit("u", formula, *b.vectors("ff"))


def _pack_halves(b: Binder) -> None:
    """v_pack_b32_f16: two halves side by side; modifiers act on their sign bits."""
    halves = []
    for index in range(2):
        op = b.inst.src[index]
        bits = b.vector(index, "w")
        if op.abs:
            bits = b.derive(lambda v: v & np.uint16(0x7FFF), bits)
        if op.neg:
            bits = b.derive(lambda v: v ^ np.uint16(0x8000), bits)
        halves.append(bits)
    b.emit("u", _pack, *halves)


@cache
def _codes(encode: Callable[..., Array], saturate: bool) -> Array:
    """fp8 codes of the f32 that have these upper 16 bits. Seven fraction bits, the last of them sticky, decide
    every rounding to three or two."""
    values = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(encode(values, saturate=saturate))


def _encoded(codes: Array, x: Array) -> Array:
    bits = np.asarray(x).view(np.uint32)
    index = bits >> np.uint32(16) | ((bits & np.uint32(0xFFFF)) != 0)
    return np.asarray(codes.take(index).astype(np.uint16))


def _pack_fp8(encode: Callable[..., Array]) -> Build:
    """v_cvt_pk_{fp8,bf8}_f32: two codes into the selected half of the destination."""

    def build(b: Binder) -> None:
        codes = _codes(encode, b.machine.mode.fp16_ovfl)
        b.emit("w", lambda x, y: _encoded(codes, x) | (_encoded(codes, y) << np.uint16(8)), *b.vectors("ff"))

    return build


def _from_fp8(decode: Callable[[Array], Array]) -> Build:
    """v_cvt_f32_{fp8,bf8}: one byte of the source; the VOP3 form says which."""

    def build(b: Binder) -> None:
        places = np.uint32(8 * b.inst.mods.get("byte_sel", 0))
        b.emit("f", lambda x: decode((x >> places).astype(np.uint8)), b.vector(0, "u"))

    return build


def _pair_from_fp8(decode: Callable[[Array], Array]) -> Build:
    """v_cvt_pk_f32_{fp8,bf8}: two bytes of the selected half into two registers."""

    def build(b: Binder) -> None:
        def formula(x: Array) -> Array:
            low, high = (decode((x >> np.uint16(n)).astype(np.uint8)).view(np.uint32) for n in (0, 8))
            return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))

        b.emit("q", formula, b.vector(0, "w"))

    return build


def _unsigned_byte(index: int) -> Build:
    places = np.uint32(8 * index)
    return per_lane("u", "f", lambda x: ((x >> places) & np.uint32(255)).astype(np.float32))


def _cast(dtype: type[Any]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(x).astype(dtype)


def _integers(dtype: type[Any], whole: Callable[[Array], Array] = np.trunc) -> Callable[[Array], Array]:
    return lambda x: to_integer(x, dtype, whole)


def _saturate_u8(packed: Array) -> Array:
    """v_sat_pk_u8_i16: two signed halves clamped to bytes."""
    low = np.clip(np.asarray(packed).astype(np.uint16).view(np.int16), 0, 255).astype(np.uint16)
    high = np.clip((packed >> np.uint32(16)).astype(np.uint16).view(np.int16), 0, 255).astype(np.uint16)
    return low | (high << np.uint16(8))


def _byte_into(x: Array, position: Array, old: Array) -> Array:
    """v_cvt_pk_u8_f32: a float as a byte of a word."""
    places = (position & np.uint32(3)) * np.uint32(8)
    byte = to_integer(x, np.uint8, np.rint).astype(np.uint32)
    return np.asarray((old & ~np.left_shift(np.uint32(255), places)) | np.left_shift(byte, places))


def _packs() -> dict[str, Build]:
    def pair(dtype: type[Any], change: Callable[..., Array]) -> Callable[[Array, Array], Array]:
        return lambda x, y: _pack(change(x, dtype), change(y, dtype))

    def clip(x: Array, dtype: type[Any]) -> Array:
        info = np.iinfo(dtype)
        return np.clip(x, info.min, info.max).astype(dtype)

    return {
        "v_cvt_pk_rtz_f16_f32": _pack_toward_zero,
        "v_pack_b32_f16": _pack_halves,
        "v_cvt_pk_i16_f32": per_lane("ff", "u", pair(np.int16, to_integer)),
        "v_cvt_pk_u16_f32": per_lane("ff", "u", pair(np.uint16, to_integer)),
        "v_cvt_pk_norm_i16_f32": per_lane("ff", "u", pair(np.int16, normalised)),
        "v_cvt_pk_norm_u16_f32": per_lane("ff", "u", pair(np.uint16, normalised)),
        "v_cvt_pk_norm_i16_f16": per_lane("hh", "u", pair(np.int16, normalised)),
        "v_cvt_pk_norm_u16_f16": per_lane("hh", "u", pair(np.uint16, normalised)),
        "v_cvt_pk_u16_u32": per_lane("uu", "u", pair(np.uint16, clip)),
        "v_cvt_pk_i16_i32": per_lane("ii", "u", pair(np.int16, clip)),
        "v_sat_pk_u8_i16": per_lane("u", "w", _saturate_u8),
        "v_cvt_pk_u8_f32": per_lane("fuu", "u", _byte_into),
        "v_cvt_pk_fp8_f32": _pack_fp8(encode_float_gfx12),
        "v_cvt_pk_bf8_f32": _pack_fp8(encode_e5m2_float_gfx12),
        "v_cvt_f32_fp8": _from_fp8(decode_to_float),
        "v_cvt_f32_bf8": _from_fp8(decode_e5m2_to_float),
        "v_cvt_pk_f32_fp8": _pair_from_fp8(decode_to_float),
        "v_cvt_pk_f32_bf8": _pair_from_fp8(decode_e5m2_to_float),
    }


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    i32, u32, f32, f64 = np.int32, np.uint32, np.float32, np.float64
    table: dict[str, Build] = {
        "v_cvt_f16_f32": _f16_from_f32,
        "v_cvt_f32_f16": per_lane("h", "f", np.positive),
        "v_cvt_f32_f64": _f32_from_f64,
        "v_cvt_f64_f32": per_lane("f", "d", _cast(f64)),
        "v_cvt_f32_i32": per_lane("i", "f", _cast(f32)),
        "v_cvt_f32_u32": per_lane("u", "f", _cast(f32)),
        "v_cvt_f64_i32": per_lane("i", "d", _cast(f64)),
        "v_cvt_f64_u32": per_lane("u", "d", _cast(f64)),
        "v_cvt_f16_i16": per_lane("s", "h", _cast(f32)),
        "v_cvt_f16_u16": per_lane("w", "h", _cast(f32)),
        "v_cvt_i32_f32": per_lane("f", "i", _integers(i32)),
        "v_cvt_u32_f32": per_lane("f", "u", _integers(u32)),
        "v_cvt_i32_f64": per_lane("d", "i", _integers(i32)),
        "v_cvt_u32_f64": per_lane("d", "u", _integers(u32)),
        "v_cvt_i16_f16": per_lane("h", "s", _integers(np.int16)),
        "v_cvt_u16_f16": per_lane("h", "w", _integers(np.uint16)),
        "v_cvt_nearest_i32_f32": per_lane("f", "i", _integers(i32, _nearest)),
        "v_cvt_floor_i32_f32": per_lane("f", "i", _integers(i32, np.floor)),
        "v_cvt_norm_i16_f16": per_lane("h", "s", partial(normalised, dtype=np.int16)),
        "v_cvt_norm_u16_f16": per_lane("h", "w", partial(normalised, dtype=np.uint16)),
        "v_cvt_i32_i16": per_lane("s", "i", _cast(i32)),
        "v_cvt_u32_u16": per_lane("w", "u", _cast(u32)),
        **_packs(),
    }
    for index in range(4):
        table[f"v_cvt_f32_ubyte{index}"] = _unsigned_byte(index)
    return table
