"""Vector instructions that compilers emit seldom: division scaling, dot products, byte arithmetic.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 16, VOP1 to VOP3P. The order in which the dot
products of 16-bit and fp8 floats add is not documented: from the low element on, one fused step each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import floats
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.machine import VGPRS
from zluda_rr.emulate.gfx12.table import Build, per_lane
from zluda_rr.numerics.e4m3 import decode_e5m2_to_float, decode_to_float

Array = NDArray[Any]
Decode = Callable[[Array], Array]

_U32 = np.uint32
_M0 = Operand(Kind.SPECIAL, int(Special.M0))


@dataclass(frozen=True, slots=True)
class _Scaling:
    """Constants of v_div_scale for one format."""

    dtype: type[Any]
    far: int
    """Exponent distance from which the quotient may overflow."""
    tiny: int
    """Biased exponent up to which a numerator loses bits in the refinement."""
    power: int
    bias: int
    least_normal: float


_F32 = _Scaling(np.float32, 96, 23, 64, 127, 2.0**-126)
_F64 = _Scaling(np.float64, 768, 53, 128, 1023, 2.0**-1022)


def _biased_exponent(x: Array, scaling: _Scaling) -> Array:
    """The exponent field."""
    if scaling.dtype is np.float32:
        return (x.view(np.uint32) >> _U32(23) & _U32(255)).astype(np.int64)
    return (x.view(np.uint64) >> np.uint64(52) & np.uint64(2047)).astype(np.int64)


def div_scale(x: Array, denominator: Array, numerator: Array, scaling: _Scaling) -> tuple[Array, Array]:
    """The scaled operand (`x` is the denominator or the numerator) and whether v_div_fmas has to scale back."""
    x, d, n = (np.asarray(v, dtype=scaling.dtype) for v in np.broadcast_arrays(x, denominator, numerator))
    up, down = (scaling.dtype(2.0) ** (s * scaling.power) for s in (1, -1))
    is_d, is_n = x == d, x == n
    undefined = (d == 0) | (n == 0)
    overflows = _biased_exponent(n, scaling) - _biased_exponent(d, scaling) >= scaling.far
    d_denormal = (np.abs(d) < scaling.least_normal) & (d != 0)
    reciprocal_denormal = np.abs(d) > scaling.dtype(1) / scaling.dtype(scaling.least_normal)
    quotient = np.abs(n / np.where(d == 0, scaling.dtype(1), d))
    quotient_denormal = quotient < scaling.least_normal
    n_tiny = _biased_exponent(n, scaling) <= scaling.tiny
    conditions: Sequence[Array] = (
        undefined, overflows, d_denormal, reciprocal_denormal & quotient_denormal, reciprocal_denormal,
        quotient_denormal, n_tiny,
    )  # fmt: skip
    with np.errstate(over="ignore", under="ignore"):
        raised, lowered = x * up, x * down
    # The manual raises the denominator in the fourth case; a denominator that large can only be lowered.
    results: Sequence[Array] = (
        np.full_like(x, np.nan), np.where(is_d, raised, x), raised, np.where(is_d, lowered, x), lowered,
        np.where(is_n, raised, x), raised,
    )  # fmt: skip
    flags = (False, True, False, True, False, True, False)
    return np.select(conditions, results, x), np.select(conditions, flags, False)


def _div_scale(letter: str, scaling: _Scaling) -> Build:
    def build(b: Binder) -> None:
        b.emit_many(letter + "b", partial(div_scale, scaling=scaling), *b.vectors(letter * 3))

    return build


def _bf16(words: Array, half: int) -> Array:
    """One bf16 of 32-bit words as f32."""
    bits = words & _U32(0xFFFF0000) if half else words << _U32(16)
    return np.asarray(bits).view(np.float32)


def _dot2_bf16(x: Array, y: Array, z: Array) -> Array:
    """Two bf16 products and an f32."""
    first = floats.fma_f32(_bf16(x, 0), _bf16(y, 0), z)
    return floats.fma_f32(_bf16(x, 1), _bf16(y, 1), first)


def _dot2_f32_bf16(b: Binder) -> None:
    b.emit("f", _dot2_bf16, b.vector(0, "u"), b.vector(1, "u"), b.vector(2, "f"))


def _dot2_f16(x: Array, y: Array, z: Array) -> Array:
    """Two f16 products and an f16 in f32."""
    return floats.fma_f32(x[..., 1], y[..., 1], floats.fma_f32(x[..., 0], y[..., 0], z))


def _dot2_f16_f16(b: Binder) -> None:
    pairs = [b.packed(op, "h", moved=index == 0) for index, op in enumerate(b.inst.src[:2])]
    b.emit("h", _dot2_f16, *pairs, b.vector(2, "h"))


def _dot2_bf16_bf16(b: Binder) -> None:
    def formula(x: Array, y: Array, z: Array) -> Array:
        return floats.round_bf16(_dot2_bf16(x, y, _bf16(z.astype(np.uint32), 0)))

    b.emit("w", formula, b.vector(0, "u"), b.vector(1, "u"), b.vector(2, "w"))


def _dot2acc(bf16: bool) -> Build:
    """v_dot2acc and its VOPD half: accumulates in the destination."""

    def build(b: Binder) -> None:
        seed = b.operand(b.inst.dst[0], "f")
        if bf16:
            b.emit("f", _dot2_bf16, b.vector(0, "u"), b.vector(1, "u"), seed)
            return
        pairs = [b.packed(op, "h", moved=index == 0) for index, op in enumerate(b.inst.src[:2])]
        b.emit("f", _dot2_f16, *pairs, seed)

    return build


def _dot4_fp8(first: Decode, second: Decode) -> Build:
    """v_dot4_f32_*: four exact products added to an f32 one after the other."""

    def formula(x: Array, y: Array, z: Array) -> Array:
        total = np.asarray(z)
        for byte in range(4):
            left, right = ((v >> _U32(8 * byte)).astype(np.uint8) for v in (x, y))
            total = total + first(left) * second(right)
        return total

    def build(b: Binder) -> None:
        b.emit("f", formula, b.vector(0, "u"), b.vector(1, "u"), _third(b))

    return build


def _third(b: Binder) -> Array:
    """C of a VOP3P dot product: neg_lo negates it, neg_hi takes its magnitude first."""
    value = b.vector(2, "f")
    if b.inst.mods["neg_hi"] >> 2 & 1:
        value = b.derive(np.abs, value)
    if b.inst.mods["neg_lo"] >> 2 & 1:
        value = b.derive(np.negative, value)
    return value


def _nibbles(x: Array, signed: bool) -> list[Array]:
    found = [((x >> _U32(4 * index)) & _U32(15)).astype(np.int64) for index in range(8)]
    return [(n ^ 8) - 8 for n in found] if signed else found


def _dot8(signed_form: bool) -> Build:
    """v_dot8: eight nibble products plus a word; in the iu form neg_lo says which source is signed."""

    def build(b: Binder) -> None:
        signs = [bool(signed_form and b.inst.mods["neg_lo"] >> index & 1) for index in range(2)]
        clamps = bool(b.inst.mods.get("clamp"))
        low, high = (-(2**31), 2**31 - 1) if signed_form else (0, 2**32 - 1)

        def formula(x: Array, y: Array, z: Array) -> Array:
            total = np.asarray(z, dtype=np.int64)
            for left, right in zip(_nibbles(x, signs[0]), _nibbles(y, signs[1]), strict=True):
                total = total + left * right
            total = np.clip(total, low, high) if clamps else total
            return (total & 0xFFFF_FFFF).astype(np.uint32)

        b.emit("u", formula, b.vector(0, "u"), b.vector(1, "u"), b.vector(2, "i" if signed_form else "u"))

    return build


def _bytes(x: Array) -> list[Array]:
    return [(x >> _U32(8 * index)) & _U32(255) for index in range(4)]


def _distance(x: Array, y: Array) -> Array:
    return np.maximum(x, y) - np.minimum(x, y)


def _sad_bytes(x: Array, y: Array) -> Array:
    total = np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.uint32)
    for left, right in zip(_bytes(x), _bytes(y), strict=True):
        total = total + _distance(left, right)
    return total


def _sad_u16(x: Array, y: Array, z: Array) -> Array:
    low = _distance(x & _U32(0xFFFF), y & _U32(0xFFFF))
    return z + low + _distance(x >> _U32(16), y >> _U32(16))


def _msad(x: Array, y: Array, z: Array) -> Array:
    """Bytes of the reference `y` that are 0 do not count."""
    total = z
    for left, right in zip(_bytes(x), _bytes(y), strict=True):
        total = total + np.where(right != 0, _distance(left, right), _U32(0))
    return total


def _lerp(x: Array, y: Array, z: Array) -> Array:
    """Bytewise average, rounded up where bit 0 of the third byte is set."""
    total = _U32(0)
    for index, (left, right, rounding) in enumerate(zip(_bytes(x), _bytes(y), _bytes(z), strict=True)):
        total = total | ((left + right + (rounding & _U32(1))) >> _U32(1)) << _U32(8 * index)
    return np.asarray(total)


def _dx9_fma(x: Array, y: Array, z: Array) -> Array:
    """Zero times anything is +0."""
    zero = (x == 0) | (y == 0)
    return np.where(zero, np.float32(0) + z, floats.fma_f32(np.where(zero, np.float32(0), x), y, z))


def _offset_i4(x: Array) -> Array:
    """v_cvt_off_f32_i4: the low nibble, signed, in sixteenths."""
    nibble = (x & _U32(15)).astype(np.int64)
    return (((nibble ^ 8) - 8) / 16.0).astype(np.float32)


def _quad_sad(masked: bool) -> Build:
    """v_[m]qsad_pk_u16_u8: four SADs of sliding bytes, each added to a 16-bit part of the third source."""

    def formula(x: Array, y: Array, z: Array) -> Array:
        result = np.uint64(0)
        for index in range(4):
            window = ((x >> np.uint64(8 * index)) & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
            start = ((z >> np.uint64(16 * index)) & np.uint64(0xFFFF)).astype(np.uint32)
            total = _msad(window, y, start) if masked else _sad_bytes(window, y) + start
            result = result | np.minimum(total, _U32(0xFFFF)).astype(np.uint64) << np.uint64(16 * index)
        return np.asarray(result)

    return per_lane("quq", "q", formula)


def _move_relative(source_shift: int | None, target_shift: int | None) -> Build:
    """v_movrel*: register numbers count from M0 (from its bits at the given shift; None: the number is plain)."""

    def build(b: Binder) -> None:
        machine, source, target = b.machine, b.inst.src[0], b.inst.dst[0].index
        index = b.scalar_operand(_M0, "u")
        waves = np.arange(machine.waves)
        plain = b.vector(0, "u")

        def rows(first: int, shift: int) -> Array:
            # Waves that do not take part may hold anything in M0.
            return np.asarray(np.minimum(first + (index.astype(np.int64) >> shift & 0xFFFF), VGPRS - 1))

        def value() -> Array:
            return plain if source_shift is None else machine.vgpr[rows(source.index, source_shift), waves]

        if target_shift is None:
            b.emit("u", value)
            return

        def act() -> None:
            chosen = rows(target, target_shift), waves
            machine.vgpr[chosen] = np.where(machine.lanes, value(), machine.vgpr[chosen])

        b.act.append(act)

    return build


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    decoders = {"fp8": decode_to_float, "bf8": decode_e5m2_to_float}
    table: dict[str, Build] = {
        "v_div_scale_f32": _div_scale("f", _F32),
        "v_div_scale_f64": _div_scale("d", _F64),
        "v_dot2_f32_bf16": _dot2_f32_bf16,
        "v_dot2_f16_f16": _dot2_f16_f16,
        "v_dot2_bf16_bf16": _dot2_bf16_bf16,
        "v_dot2acc_f32_f16": _dot2acc(False),
        "v_dot2acc_f32_bf16": _dot2acc(True),
        "v_dot8_i32_iu4": _dot8(True),
        "v_dot8_u32_u4": _dot8(False),
        "v_sad_hi_u8": per_lane("uuu", "u", lambda x, y, z: (_sad_bytes(x, y) << _U32(16)) + z),
        "v_sad_u16": per_lane("uuu", "u", _sad_u16),
        "v_msad_u8": per_lane("uuu", "u", _msad),
        "v_lerp_u8": per_lane("uuu", "u", _lerp),
        "v_qsad_pk_u16_u8": _quad_sad(False),
        "v_mqsad_pk_u16_u8": _quad_sad(True),
        "v_fma_dx9_zero_f32": per_lane("fff", "f", _dx9_fma),
        "v_cvt_off_f32_i4": per_lane("u", "f", _offset_i4),
        "v_movrels_b32": _move_relative(0, None),
        "v_movreld_b32": _move_relative(None, 0),
        "v_movrelsd_b32": _move_relative(0, 0),
        "v_movrelsd_2_b32": _move_relative(0, 16),
    }
    for first, decode_first in decoders.items():
        for second, decode_second in decoders.items():
            table[f"v_dot4_f32_{first}_{second}"] = _dot4_fp8(decode_first, decode_second)
    return table
