"""FP8 codecs: e4m3 as PTX converts it, and e4m3/e5m2 as gfx12 does.

e4m3 is the OCP `fn` form: bias 7, no infinity, NaN is 0x7f and 0xff, largest value 448, least 2^-9.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.f16 import CANONICAL_NAN, F32, F64, Half, half_to_float, round_half

Code = NDArray[np.uint8]

LARGEST = 448.0
_NAN = 0x7F
_LARGEST_CODE = 0x7E


def encode_half(bits: Half, *, relu: bool = False) -> Code:
    """`cvt.rn.satfinite{.relu}.e4m3x2.f16x2`, one element: bytes of the halves.

    Beyond +-448, infinity included: +-448. NaN: 0x7f whatever its sign. With `relu`, negatives and -0 become +0 and
    NaN stays. Measured so on an H200 (driver 580) for all halves in both positions, through the driver's compiler
    and through ptxas 13.0 at -O0 and -O3.
    """
    codes: Code = _ptx_codes(relu).take(bits)
    return codes


def encode_half_pairs(packed: NDArray[np.uint32], *, relu: bool = False) -> Half:
    """`cvt.rn.satfinite{.relu}.e4m3x2.f16x2`: u16 with the low half's byte below the high half's."""
    low = encode_half(packed.astype(np.uint16), relu=relu)
    high = encode_half((packed >> np.uint32(16)).astype(np.uint16), relu=relu)
    return low.astype(np.uint16) | (high.astype(np.uint16) << np.uint16(8))


def decode_to_half(codes: Code) -> Half:
    """`cvt.rn.f16x2.e4m3x2`, one element: exact halves, NaN is 0x7fff whatever its sign."""
    halves: Half = _half_of_code().take(codes)
    return halves


def decode_half_pairs(packed: Half) -> NDArray[np.uint32]:
    """`cvt.rn.f16x2.e4m3x2`: f16x2 with the low byte's half below the high byte's."""
    low = decode_to_half(packed.astype(np.uint8))
    high = decode_to_half((packed >> np.uint16(8)).astype(np.uint8))
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def decode_to_float(codes: Code) -> F32:
    """Exact f32 values, quiet NaN with the code's sign: operands of mma and WMMA, gfx12's `v_cvt_f32_fp8`."""
    values: F32 = _float_of_code().take(codes)
    return values


def encode_float_gfx12(values: F32, *, saturate: bool = False) -> Code:
    """gfx12's `v_cvt_pk_fp8_f32`, one element.

    Rounds to nearest even and keeps e4m3 denormals. Overflow is decided after rounding (above 464 in
    magnitude) and gives the NaN code with the sign, as infinity does; every NaN gives 0xff. `saturate` models
    MODE.FP16_OVFL: +-448 instead for overflow and infinity.
    """
    code = _round_to_code(values)
    sign = _sign(values)
    limit = np.uint8(_LARGEST_CODE if saturate else _NAN)
    return np.where(np.isnan(values), np.uint8(0xFF), sign | np.minimum(code, limit).astype(np.uint8))


def decode_e5m2_to_float(codes: Code) -> F32:
    """gfx12's `v_cvt_f32_bf8`: e5m2 is the upper byte of a half."""
    return half_to_float(codes.astype(np.uint16) << np.uint16(8))


def encode_e5m2_float_gfx12(values: F32, *, saturate: bool = False) -> Code:
    """gfx12's `v_cvt_pk_bf8_f32`, one element: nearest even; overflow and infinity give infinity, or +-57344
    with `saturate`; NaN gives 0xff (by analogy with fp8)."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(values).astype(np.float64)
        exponent = _binade(magnitude, -14, 16)
        steps = np.rint(np.ldexp(magnitude, 2 - exponent))
    steps = np.where(np.isfinite(steps), steps, 1 << 20)
    code = np.minimum((exponent + 14) * 4 + steps, 0x7B if saturate else 0x7C).astype(np.uint8)
    return np.where(np.isnan(values), np.uint8(0xFF), _sign(values) | code)


def _sign(values: F32) -> Code:
    return (np.signbit(values).astype(np.uint8) << np.uint8(7)).astype(np.uint8)


def _binade(magnitude: F64, lowest: int, highest: int) -> NDArray[np.int64]:
    """Exponent e of 2^e <= magnitude < 2^(e+1), clipped; zeros and denormals belong to the lowest."""
    exponent = np.where(magnitude == 0, lowest, np.frexp(magnitude)[1] - 1)
    return np.clip(exponent, lowest, highest).astype(np.int64)


def _round_to_code(values: F32) -> NDArray[np.int64]:
    """Magnitude code of the nearest e4m3, ties to even; 0x7f and above mean overflow. NaN gives anything."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(values).astype(np.float64)
        exponent = _binade(magnitude, -6, 9)
        steps = np.rint(np.ldexp(magnitude, 3 - exponent))
    bounded = np.where(np.isfinite(steps) & (steps <= 16), steps, 1 << 10).astype(np.int64)
    # steps includes the hidden bit of normals (8..16), so a carry into the next binade needs no case of its
    # own.
    codes: NDArray[np.int64] = (exponent + 6) * 8 + bounded
    return codes


@cache
def _ptx_codes(relu: bool) -> Code:
    """e4m3 byte of each of the 65,536 halves."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = half_to_float(bits)
    rounded = np.minimum(_round_to_code(values), _LARGEST_CODE)
    codes = rounded.astype(np.uint8) | _sign(values)
    if relu:
        codes = np.where(np.signbit(values), np.uint8(0), codes)
    return np.where(np.isnan(values), np.uint8(_NAN), codes)


@cache
def _float_of_code() -> F32:
    """Value of each of the 256 codes."""
    codes = np.arange(256)
    exponent = (codes >> 3) & 15
    mantissa = codes & 7
    magnitude = np.where(
        exponent == 0, np.ldexp(mantissa.astype(np.float64), -9), np.ldexp(8.0 + mantissa, exponent - 10)
    )
    magnitude[(codes & 0x7F) == _NAN] = np.nan
    return np.copysign(magnitude, np.where(codes & 0x80, -1.0, 1.0)).astype(np.float32)


@cache
def _half_of_code() -> Half:
    """Half of each of the 256 codes."""
    halves = round_half(_float_of_code())
    halves[[_NAN, 0x80 | _NAN]] = CANONICAL_NAN
    return halves
