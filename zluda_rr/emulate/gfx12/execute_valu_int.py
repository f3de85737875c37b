"""Vector integer and bit operations, 16, 32 and 64 bits, with carries.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 16, VOP1 to VOP3. `rev` forms swap the first two
sources. Shift amounts count modulo the width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.fetch import DTYPES
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.table import Build, per_lane

_VCC = Operand(Kind.SPECIAL, Special.VCC_LO)

Array = NDArray[Any]
Formula = Callable[..., Array]

_U32 = np.uint32


def _sext24(x: Array) -> Array:
    return np.right_shift(np.left_shift(x, 8), 8)


def _zext24(x: Array) -> Array:
    return np.bitwise_and(x, _U32(0xFF_FFFF))


def _high(x: Array, y: Array, wide: type[Any]) -> Array:
    """Upper 32 bits of a product."""
    product = np.multiply(x, y, dtype=wide)
    return np.asarray(np.right_shift(product, wide(32)).astype(x.dtype))


def shift(operation: np.ufunc, bits: int, *, reverse: bool = False) -> Formula:
    """A shift whose amount counts modulo `bits`; `reverse` takes the amount first."""

    def formula(x: Array, amount: Array) -> Array:
        limit = amount.dtype.type(bits - 1)
        result: Array = operation(x, np.bitwise_and(amount, limit).astype(x.dtype))
        return result

    return (lambda amount, x: formula(x, amount)) if reverse else formula


def bitfield_u32(x: Array, offset: Array, width: Array) -> Array:
    """v_bfe_u32: `width` bits of x from bit `offset` on."""
    mask = np.left_shift(_U32(1), width & _U32(31)) - _U32(1)
    result: Array = np.right_shift(x, offset & _U32(31)) & mask
    return result


def bitfield_i32(x: Array, offset: Array, width: Array) -> Array:
    """v_bfe_i32: as `bitfield_u32`, sign extended from the field's top bit."""
    width = width & _U32(31)
    shifted = np.right_shift(x, (offset & _U32(31)).astype(np.int32))
    field = np.asarray(shifted).view(np.uint32) & (np.left_shift(_U32(1), width) - _U32(1))
    sign = np.where(width > 0, np.left_shift(_U32(1), (width - _U32(1)) & _U32(31)), _U32(0))
    return np.asarray((field ^ sign) - sign).view(np.int32)


def permute_bytes(high: Array, low: Array, selector: Array) -> Array:
    """v_perm_b32: selector bytes 0..3 pick from `low`, 4..7 from `high`, 8..11 sign fills of bytes 1, 3, 5, 7,
    12 is 0x00, above 0xff."""
    if not selector.ndim or selector.shape[-1] == 1:  # a constant, or a scalar register
        first = selector.flat[0]
        if (selector == first).all():
            return _permute_fixed(high, low, int(first))
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    result = np.zeros(np.broadcast_shapes(both.shape, selector.shape), dtype=np.uint32)
    for byte in range(4):
        chosen = np.right_shift(selector, _U32(8 * byte)) & _U32(0xFF)
        plain = np.right_shift(both, (np.minimum(chosen, _U32(7)) * _U32(8)).astype(np.uint64)) & np.uint64(0xFF)
        source = (chosen & _U32(3)) * _U32(16) + _U32(15)
        sign = (np.right_shift(both, source.astype(np.uint64)) & np.uint64(1)).astype(np.uint32) * _U32(0xFF)
        fixed = np.where(chosen == 12, _U32(0), _U32(0xFF))
        value = np.where(chosen > 11, fixed, np.where(chosen > 7, sign, plain.astype(np.uint32)))
        result |= value << _U32(8 * byte)
    return result


def _permute_fixed(high: Array, low: Array, selector: int) -> Array:
    """`permute_bytes` with the same selector everywhere, the usual case."""
    result: Any = _U32(0)
    for byte, chosen in enumerate(selector.to_bytes(4, "little")):
        part: Any
        if chosen < 8:
            part = (high if chosen > 3 else low) >> _U32(8 * (chosen & 3)) & _U32(0xFF)
        elif chosen < 12:
            part = ((high if chosen > 9 else low) >> _U32(16 * (chosen & 1) + 15) & _U32(1)) * _U32(0xFF)
        else:
            part = _U32(0 if chosen == 12 else 0xFF)
        result = result | part << _U32(8 * byte)
    return np.asarray(result)


def _align(high: Array, low: Array, amount: Array, unit: int) -> Array:
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    places = (amount & _U32(32 // unit - 1)) * _U32(unit)
    return np.asarray(np.right_shift(both, places.astype(np.uint64)).astype(np.uint32))


def reverse_bits(x: Array) -> Array:
    """Bit 0 to bit 31 and so on."""
    for places, mask in ((1, 0x5555_5555), (2, 0x3333_3333), (4, 0x0F0F_0F0F), (8, 0x00FF_00FF)):
        x = ((x >> _U32(places)) & _U32(mask)) | ((x & _U32(mask)) << _U32(places))
    return (x >> _U32(16)) | (x << _U32(16))


def count_bits(x: Array) -> Array:
    """Ones in each word."""
    return np.bitwise_count(x).astype(np.uint32)


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest one; -1 for zero. Any unsigned width."""
    bits = 8 * x.dtype.itemsize
    smeared = x
    places = 1
    while places < bits:
        smeared = smeared | (smeared >> x.dtype.type(places))
        places *= 2
    return np.where(x == 0, -1, bits - np.bitwise_count(smeared).astype(np.int32)).astype(np.int32)


def trailing_zeros(x: Array) -> Array:
    """Zeros below the lowest one; -1 for zero. Any unsigned width."""
    lowest = x & (~x + x.dtype.type(1))
    below = np.bitwise_count(lowest - x.dtype.type(1)).astype(np.int32)
    return np.where(x == 0, -1, below).astype(np.int32)


def sign_run(x: Array) -> Array:
    """v_cls_i32: leading bits equal to the sign bit; -1 for 0 and -1."""
    flipped = np.where(x < 0, ~x, x).view(f"u{x.dtype.itemsize}")
    return leading_zeros(flipped)


def _saturating(operation: np.ufunc, letter: str, wide: type[Any]) -> Formula:
    info = np.iinfo(np.dtype(DTYPES[letter]))

    def formula(x: Array, y: Array) -> Array:
        exact = operation(x, y, dtype=wide)
        return np.asarray(np.clip(exact, info.min, info.max).astype(info.dtype))

    return formula


def _sum(operation: np.ufunc, letter: str, *, swapped: bool = False) -> Build:
    """add or sub of one width; `clamp` saturates."""
    clamped = _saturating(operation, letter, np.int64)

    def build(b: Binder) -> None:
        x, y = b.vectors(letter * 2)
        if swapped:
            x, y = y, x
        b.emit(letter, clamped if b.inst.mods.get("clamp") else operation, x, y)

    return build


def _carry_sum(operation: np.ufunc, *, swapped: bool, carries_in: bool) -> Build:
    """add or sub with a carry (borrow) lane mask out, and in where `carries_in`."""

    def formula(x: Array, y: Array, carry: Array) -> tuple[Array, Array]:
        exact = operation(operation(x, y, dtype=np.int64), carry, dtype=np.int64)
        out = (exact < 0) | (exact > 0xFFFF_FFFF)
        return np.bitwise_and(exact, 0xFFFF_FFFF).astype(np.uint32), out

    def build(b: Binder) -> None:
        x, y = b.vectors("uu")
        if swapped:
            x, y = y, x
        carry = b.vector(2, "b") if carries_in else np.array(False)
        b.emit_many("ub", formula, x, y, carry)

    return build


def _mad_wide(letter: str) -> Build:
    """v_mad_co_*64: 32 x 32 + 64 bits, with carry out."""
    wide = "q" if letter == "u" else "l"
    dtype: type[Any] = np.uint64 if letter == "u" else np.int64

    def formula(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
        product = np.multiply(x, y, dtype=dtype)
        total = product + z
        if letter == "u":
            return total, total < product
        return total, (total < product) != (z < 0)

    return lambda b: b.emit_many(wide + "b", formula, *b.vectors(letter * 2 + wide))


def _three(outer: np.ufunc, inner: Formula) -> Formula:
    return lambda x, y, z: outer(inner(x, y), z)


def _median(x: Array, y: Array, z: Array) -> Array:
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


def _mbcnt(b: Binder, high: bool) -> None:
    """Ones of a mask below the own lane, plus source 1. The high half holds lanes 32..63: none below here."""
    below = (np.uint64(1) << np.arange(32, dtype=np.uint64)) - np.uint64(1)
    limit = np.zeros(32, np.uint32) if high else below.astype(np.uint32)
    b.emit("u", lambda mask, start: count_bits(mask & limit) + start, *b.vectors("uu"))


def _sad(x: Array, y: Array, z: Array) -> Array:
    total = z
    for byte in range(4):
        a = (x >> _U32(8 * byte)) & _U32(255)
        c = (y >> _U32(8 * byte)) & _U32(255)
        total = total + (np.maximum(a, c) - np.minimum(a, c))
    return total


def _select(letter: str) -> Build:
    """v_cndmask: source 1 where the mask is set. Float modifiers apply to it as bits."""

    def build(b: Binder) -> None:
        # The halves of a VOPD do not list VCC.
        flags = b.operand(b.inst.src[2] if len(b.inst.src) > 2 else _VCC, "b")
        modified = any(op.neg or op.abs for op in b.inst.src[:2])
        if modified and letter == "u":
            b.emit("f", lambda x, y, flag: np.where(flag, y, x), *b.vectors("ff"), flags)
        else:
            b.emit(letter, lambda x, y, flag: np.where(flag, y, x), *b.vectors(letter * 2), flags)

    return build


def _move(letter: str) -> Build:
    def build(b: Binder) -> None:
        b.emit(letter, np.positive, b.vector(0, letter))

    return build


def _swap(letter: str) -> Build:
    def build(b: Binder) -> None:
        x = b.operand(b.inst.dst[0], letter)
        y = b.operand(b.inst.src[0], letter)
        first = b.committer(letter, b.inst.dst[0])
        second = b.committer(letter, b.inst.src[0])

        def act() -> None:
            held = x.copy()
            first(y.copy())
            second(held)

        b.act.append(act)

    return build


def _extrema(letter: str, name: str) -> dict[str, Build]:
    low, high = np.minimum, np.maximum
    return {
        f"v_min_{name}": per_lane(letter * 2, letter, low),
        f"v_max_{name}": per_lane(letter * 2, letter, high),
        f"v_min3_{name}": per_lane(letter * 3, letter, _three(low, low)),
        f"v_max3_{name}": per_lane(letter * 3, letter, _three(high, high)),
        f"v_med3_{name}": per_lane(letter * 3, letter, _median),
        f"v_minmax_{name}": per_lane(letter * 3, letter, _three(high, low)),
        f"v_maxmin_{name}": per_lane(letter * 3, letter, _three(low, high)),
    }


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table = {**_logic(), **_products(), **_bits(), **_carries()}
    for letter, name in (("u", "u32"), ("i", "i32"), ("w", "u16"), ("s", "i16")):
        table |= _extrema(letter, name)
        table[f"v_add_nc_{name}"] = _sum(np.add, letter)
        table[f"v_sub_nc_{name}"] = _sum(np.subtract, letter)
        table[f"v_subrev_nc_{name}"] = _sum(np.subtract, letter, swapped=True)
    return table


def _carries() -> dict[str, Build]:
    table: dict[str, Build] = {}
    for name, operation, swapped in (
        ("add", np.add, False),
        ("sub", np.subtract, False),
        ("subrev", np.subtract, True),
    ):
        table[f"v_{name}_co_u32"] = _carry_sum(operation, swapped=swapped, carries_in=False)
        table[f"v_{name}_co_ci_u32"] = _carry_sum(operation, swapped=swapped, carries_in=True)
    table["v_mad_co_u64_u32"] = _mad_wide("u")
    table["v_mad_co_i64_i32"] = _mad_wide("i")
    return table


def _logic() -> dict[str, Build]:
    table: dict[str, Build] = {
        "v_mov_b32": _move("u"),
        "v_mov_b16": _move("w"),
        "v_swap_b32": _swap("u"),
        "v_swap_b16": _swap("w"),
        "v_cndmask_b32": _select("u"),
        "v_cndmask_b16": _select("w"),
        "v_not_b32": per_lane("u", "u", np.invert),
        "v_not_b16": per_lane("w", "w", np.invert),
        "v_xnor_b32": per_lane("uu", "u", lambda x, y: ~(x ^ y)),
        "v_bfi_b32": per_lane("uuu", "u", lambda m, x, y: (m & x) | (~m & y)),
        "v_and_or_b32": per_lane("uuu", "u", lambda x, y, z: (x & y) | z),
        "v_or3_b32": per_lane("uuu", "u", lambda x, y, z: x | y | z),
        "v_xor3_b32": per_lane("uuu", "u", lambda x, y, z: x ^ y ^ z),
        "v_xad_u32": per_lane("uuu", "u", lambda x, y, z: (x ^ y) + z),
    }
    for name, operation in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        table[f"v_{name}_b32"] = per_lane("uu", "u", operation)
        table[f"v_{name}_b16"] = per_lane("ww", "w", operation)
    return table


def _products() -> dict[str, Build]:
    return {
        "v_mul_lo_u32": per_lane("uu", "u", np.multiply),
        "v_mul_hi_u32": per_lane("uu", "u", lambda x, y: _high(x, y, np.uint64)),
        "v_mul_hi_i32": per_lane("ii", "i", lambda x, y: _high(x, y, np.int64)),
        "v_mul_i32_i24": per_lane("ii", "i", lambda x, y: _sext24(x) * _sext24(y)),
        "v_mul_u32_u24": per_lane("uu", "u", lambda x, y: _zext24(x) * _zext24(y)),
        "v_mul_hi_i32_i24": per_lane("ii", "i", lambda x, y: _high(_sext24(x), _sext24(y), np.int64)),
        "v_mul_hi_u32_u24": per_lane("uu", "u", lambda x, y: _high(_zext24(x), _zext24(y), np.uint64)),
        "v_mad_i32_i24": per_lane("iii", "i", lambda x, y, z: _sext24(x) * _sext24(y) + z),
        "v_mad_u32_u24": per_lane("uuu", "u", lambda x, y, z: _zext24(x) * _zext24(y) + z),
        "v_mad_u32_u16": per_lane("wwu", "u", lambda x, y, z: x.astype(np.uint32) * y + z),
        "v_mad_i32_i16": per_lane("ssi", "i", lambda x, y, z: x.astype(np.int32) * y + z),
        "v_mul_lo_u16": per_lane("ww", "w", np.multiply),
        "v_mad_u16": per_lane("www", "w", lambda x, y, z: x * y + z),
        "v_mad_i16": per_lane("sss", "s", lambda x, y, z: x * y + z),
        "v_add3_u32": per_lane("uuu", "u", lambda x, y, z: x + y + z),
        "v_sad_u8": per_lane("uuu", "u", _sad),
        "v_sad_u32": per_lane("uuu", "u", lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z),
    }


def _bits() -> dict[str, Build]:
    left, right = np.left_shift, np.right_shift
    shl = shift(left, 32)
    table = {
        "v_lshl_add_u32": per_lane("uuu", "u", lambda x, n, z: shl(x, n) + z),
        "v_add_lshl_u32": per_lane("uuu", "u", lambda x, y, n: shl(x + y, n)),
        "v_lshl_or_b32": per_lane("uuu", "u", lambda x, n, z: shl(x, n) | z),
        "v_bfe_u32": per_lane("uuu", "u", bitfield_u32),
        "v_bfe_i32": per_lane("iuu", "i", bitfield_i32),
        "v_bfm_b32": per_lane("uu", "u", lambda n, at: shl(shl(np.full_like(n, 1), n) - _U32(1), at)),
        "v_perm_b32": per_lane("uuu", "u", permute_bytes),
        "v_alignbit_b32": per_lane("uuu", "u", partial(_align, unit=1)),
        "v_alignbyte_b32": per_lane("uuu", "u", partial(_align, unit=8)),
        "v_bfrev_b32": per_lane("u", "u", reverse_bits),
        "v_clz_i32_u32": per_lane("u", "i", leading_zeros),
        "v_ctz_i32_b32": per_lane("u", "i", trailing_zeros),
        "v_cls_i32": per_lane("i", "i", sign_run),
        "v_bcnt_u32_b32": per_lane("uu", "u", lambda x, y: count_bits(x) + y),
        "v_mbcnt_lo_u32_b32": lambda b: _mbcnt(b, False),
        "v_mbcnt_hi_u32_b32": lambda b: _mbcnt(b, True),
    }
    for name, operation, word in (("lshl", left, "u"), ("lshr", right, "u"), ("ashr", right, "i")):
        kind = "b" if word == "u" else "i"
        thin, wide = ("w", "q") if word == "u" else ("s", "l")
        table[f"v_{name}rev_{kind}32"] = per_lane("u" + word, word, shift(operation, 32, reverse=True))
        table[f"v_{name}rev_{kind}16"] = per_lane("w" + thin, thin, shift(operation, 16, reverse=True))
        table[f"v_{name}rev_{kind}64"] = per_lane("u" + wide, wide, shift(operation, 64, reverse=True))
    return table
