"""Scalar ALU instructions: SOP1, SOP2, SOPC and SOPK, the scalar floats of gfx12 included.

One value per wave. SCC gets a carry, an overflow or "result is not zero" as the instruction says. Source: AMD
"RDNA4" Instruction Set Architecture, chapter 16, SOP1 to SOPK.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.execute_valu_int import (
    bitfield_i32,
    bitfield_u32,
    leading_zeros,
    reverse_bits,
    shift,
    sign_run,
    trailing_zeros,
)
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.table import Build, per_wave

Array = NDArray[Any]
Formula = Callable[..., Any]

_EXEC = Operand(Kind.SPECIAL, Special.EXEC_LO)
_SCC = Operand(Kind.SPECIAL, Special.SCC)
_U32 = np.uint32


def flagged(formula: Formula) -> Formula:
    """The result and whether it is not zero."""

    def both(*args: Array) -> tuple[Array, Array]:
        value = np.asarray(formula(*args))
        return value, value != 0

    return both


def _unsigned_sum(operation: np.ufunc, carries: bool) -> Build:
    def formula(x: Array, y: Array, carry: Array | int = 0) -> tuple[Array, Array]:
        exact = operation(operation(x, y, dtype=np.int64), carry, dtype=np.int64)
        return (exact & 0xFFFF_FFFF).astype(np.uint32), (exact < 0) | (exact > 0xFFFF_FFFF)

    def build(b: Binder) -> None:
        args = [b.scalar(index, "u") for index in range(2)]
        if carries:
            args.append(b.scalar_operand(_SCC, "u"))
        b.emit_scalar("uc", formula, *args)

    return build


def _signed_sum(operation: np.ufunc) -> Formula:
    """SCC is signed overflow."""

    def formula(x: Array, y: Array) -> tuple[Array, Array]:
        exact = operation(x, y, dtype=np.int64)
        wrapped = exact.astype(np.int32)
        return wrapped, wrapped != exact

    return formula


def _shift_add(amount: int) -> Formula:
    def formula(x: Array, y: Array) -> tuple[Array, Array]:
        exact = np.left_shift(x.astype(np.uint64), np.uint64(amount)) + y
        return exact.astype(np.uint32), exact > np.uint64(0xFFFF_FFFF)

    return formula


def _min(x: Array, y: Array) -> tuple[Array, Array]:
    return np.minimum(x, y), x < y


def _max(x: Array, y: Array) -> tuple[Array, Array]:
    return np.maximum(x, y), x >= y


def _field(signed: bool, wide: bool) -> Formula:
    """s_bfe: offset in bits 0..4 (0..5), width from bit 16 on."""

    def narrow(x: Array, control: Array) -> Array:
        width = (control >> _U32(16)) & _U32(0x7F)
        pick = bitfield_i32 if signed else bitfield_u32
        whole = np.right_shift(x, (control & _U32(31)).astype(x.dtype))
        return np.where(width >= 32, whole, pick(x, control, np.minimum(width, _U32(31))))

    def broad(x: Array, control: Array) -> Array:
        offset = (control & _U32(63)).astype(x.dtype)
        width = np.minimum((control >> _U32(16)) & _U32(0x7F), _U32(64)).astype(np.int64)
        up = np.clip(64 - width - offset.astype(np.int64), 0, 63).astype(x.dtype)
        down = np.clip(64 - width, 0, 63).astype(x.dtype)
        return np.asarray(np.where(width == 0, x.dtype.type(0), np.right_shift(np.left_shift(x, up), down)))

    return broad if wide else narrow


def _bitmask(dtype: type[Any]) -> Formula:
    """s_bfm: `width` ones from bit `offset` on."""
    limit = dtype(8 * np.dtype(dtype).itemsize - 1)
    one = dtype(1)

    def formula(width: Array, offset: Array) -> Array:
        ones = np.left_shift(one, width.astype(dtype) & limit) - one
        result: Array = np.left_shift(ones, offset.astype(dtype) & limit)
        return result

    return formula


def _pack(low: int, high: int) -> Formula:
    """s_pack: a chosen half of each source."""

    def formula(x: Array, y: Array) -> Array:
        first = np.right_shift(x, _U32(16 * low)) & _U32(0xFFFF)
        return first | ((np.right_shift(y, _U32(16 * high)) & _U32(0xFFFF)) << _U32(16))

    return formula


def _select(letter: str) -> Build:
    def build(b: Binder) -> None:
        flag = b.scalar_operand(_SCC, "u")
        b.emit_scalar(letter, lambda x, y, c: np.where(c != 0, x, y), b.scalar(0, letter), b.scalar(1, letter), flag)

    return build


def _conditional_move(letter: str) -> Build:
    def build(b: Binder) -> None:
        old = b.scalar_operand(b.inst.dst[0], letter)
        flag = b.scalar_operand(_SCC, "u")
        b.emit_scalar(letter, lambda x, o, c: np.where(c != 0, x, o), b.scalar(0, letter), old, flag)

    return build


def _save_exec(formula: Formula, *, writes_exec_only: bool = False) -> Build:
    """`dst = EXEC; EXEC = formula(source, EXEC); SCC = EXEC != 0`; wrexec forms also put it in dst."""

    def build(b: Binder) -> None:
        source, execution = b.scalar(0, "u"), b.scalar_operand(_EXEC, "u")
        save = b.scalar_committer("u", b.inst.dst[0])
        enable = b.scalar_committer("u", _EXEC)
        flag = b.scalar_committer("u", _SCC)

        def act() -> None:
            old = execution.copy()
            new = np.broadcast_to(np.asarray(formula(source, old)), old.shape).astype(np.uint32)
            save(new if writes_exec_only else old)
            enable(new)
            flag((new != 0).astype(np.uint32))

        b.act.append(act)

    return build


def _bit_set(value: int) -> Build:
    def build(b: Binder) -> None:
        def formula(place: Array, old: Array) -> Array:
            bit = np.left_shift(_U32(1), place & _U32(31))
            return np.asarray(old | bit if value else old & ~bit)

        b.emit_scalar("u", formula, b.scalar(0, "u"), b.scalar_operand(b.inst.dst[0], "u"))

    return build


def _immediate(formula: Formula, results: str, letter: str = "u") -> Build:
    """SOPK: the destination's old value and the 16-bit immediate, sign extended."""

    def build(b: Binder) -> None:
        value = np.array(b.inst.mods["simm16"], dtype=np.int64).astype(np.int16).astype(np.int32)
        old = b.scalar_operand(b.inst.dst[0], letter)
        b.emit_scalar(results, formula, old, value.view(old.dtype))

    return build


def _counts(x: Array) -> Array:
    return np.bitwise_count(x).astype(np.uint32)


_LOGIC: dict[str, Formula] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
    "and_not1": lambda x, y: x & ~y,
    "or_not1": lambda x, y: x | ~y,
}
_SAVE: dict[str, Formula] = {
    **_LOGIC,
    "and_not0": lambda x, y: ~x & y,
    "or_not0": lambda x, y: ~x | y,
}


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    return {**_two(), **_one(), **_sopk(), **_execution()}


def _execution() -> dict[str, Build]:
    table = {f"s_{name}_saveexec_b32": _save_exec(formula) for name, formula in _SAVE.items()}
    for name in ("and_not0", "and_not1"):
        table[f"s_{name}_wrexec_b32"] = _save_exec(_SAVE[name], writes_exec_only=True)
    return table


def _two() -> dict[str, Build]:
    table: dict[str, Build] = {}
    for name, formula in _LOGIC.items():
        table[f"s_{name}_b32"] = per_wave("uu", "uc", flagged(formula))
        table[f"s_{name}_b64"] = per_wave("qq", "qc", flagged(formula))
    for name, operation, word in (
        ("s_lshl_b", np.left_shift, "uq"),
        ("s_lshr_b", np.right_shift, "uq"),
        ("s_ashr_i", np.right_shift, "il"),
    ):
        table[f"{name}32"] = per_wave(word[0] + "u", word[0] + "c", flagged(shift(operation, 32)))
        table[f"{name}64"] = per_wave(word[1] + "u", word[1] + "c", flagged(shift(operation, 64)))
    for amount in range(1, 5):
        table[f"s_lshl{amount}_add_u32"] = per_wave("uu", "uc", _shift_add(amount))
    for letter, name in (("u", "u32"), ("i", "i32")):
        table[f"s_min_{name}"] = per_wave(letter * 2, letter + "c", _min)
        table[f"s_max_{name}"] = per_wave(letter * 2, letter + "c", _max)
    for name, low, high in (("ll", 0, 0), ("lh", 0, 1), ("hl", 1, 0), ("hh", 1, 1)):
        table[f"s_pack_{name}_b32_b16"] = per_wave("uu", "u", _pack(low, high))
    return table | _sums() | _wide_two()


def _sums() -> dict[str, Build]:
    return {
        "s_add_co_u32": _unsigned_sum(np.add, False),
        "s_sub_co_u32": _unsigned_sum(np.subtract, False),
        "s_add_co_ci_u32": _unsigned_sum(np.add, True),
        "s_sub_co_ci_u32": _unsigned_sum(np.subtract, True),
        "s_add_co_i32": per_wave("ii", "ic", _signed_sum(np.add)),
        "s_sub_co_i32": per_wave("ii", "ic", _signed_sum(np.subtract)),
        "s_absdiff_i32": per_wave("ii", "ic", flagged(lambda x, y: np.abs(x - y))),
        "s_mul_i32": per_wave("uu", "u", np.multiply),
        "s_mul_hi_u32": per_wave("uu", "u", partial(_high, wide=np.uint64)),
        "s_mul_hi_i32": per_wave("ii", "i", partial(_high, wide=np.int64)),
        "s_add_nc_u64": per_wave("qq", "q", np.add),
        "s_sub_nc_u64": per_wave("qq", "q", np.subtract),
        "s_mul_u64": per_wave("qq", "q", np.multiply),
    }


def _high(x: Array, y: Array, wide: type[Any]) -> Array:
    return np.asarray(np.right_shift(np.multiply(x, y, dtype=wide), wide(32)).astype(x.dtype))


def _wide_two() -> dict[str, Build]:
    return {
        "s_bfe_u32": per_wave("uu", "uc", flagged(_field(False, False))),
        "s_bfe_i32": per_wave("iu", "ic", flagged(_field(True, False))),
        "s_bfe_u64": per_wave("qu", "qc", flagged(_field(False, True))),
        "s_bfe_i64": per_wave("lu", "lc", flagged(_field(True, True))),
        "s_bfm_b32": per_wave("uu", "u", _bitmask(np.uint32)),
        "s_bfm_b64": per_wave("uu", "q", _bitmask(np.uint64)),
        "s_cselect_b32": _select("u"),
        "s_cselect_b64": _select("q"),
    }


def _one() -> dict[str, Build]:
    table: dict[str, Build] = {
        "s_abs_i32": per_wave("i", "ic", flagged(np.abs)),
        "s_sext_i32_i8": per_wave("u", "i", lambda x: x.astype(np.uint8).view(np.int8).astype(np.int32)),
        "s_sext_i32_i16": per_wave("u", "i", lambda x: x.astype(np.uint16).view(np.int16).astype(np.int32)),
        "s_bitset0_b32": _bit_set(0),
        "s_bitset1_b32": _bit_set(1),
        "s_cls_i32": per_wave("i", "i", sign_run),
        "s_cls_i32_i64": per_wave("l", "i", sign_run),
        "s_clz_i32_u32": per_wave("u", "i", leading_zeros),
        "s_clz_i32_u64": per_wave("q", "i", leading_zeros),
        "s_brev_b32": per_wave("u", "u", reverse_bits),
        "s_brev_b64": per_wave("q", "q", _reverse_64),
    }
    for bits, letter in ((32, "u"), (64, "q")):
        table[f"s_mov_b{bits}"] = per_wave(letter, letter, np.positive)
        table[f"s_cmov_b{bits}"] = _conditional_move(letter)
        table[f"s_not_b{bits}"] = per_wave(letter, letter + "c", flagged(np.invert))
        table[f"s_bcnt1_i32_b{bits}"] = per_wave(letter, "uc", flagged(_counts))
        table[f"s_bcnt0_i32_b{bits}"] = per_wave(letter, "uc", flagged(lambda x: _counts(~x)))
        table[f"s_ctz_i32_b{bits}"] = per_wave(letter, "i", trailing_zeros)
    return table


def _reverse_64(x: Array) -> Array:
    low = reverse_bits((x & np.uint64(0xFFFF_FFFF)).astype(np.uint32)).astype(np.uint64)
    return (low << np.uint64(32)) | reverse_bits((x >> np.uint64(32)).astype(np.uint32))


def _sopk() -> dict[str, Build]:
    return {
        "s_movk_i32": _immediate(lambda old, k: np.broadcast_to(k, old.shape), "u"),
        "s_addk_co_i32": _immediate(_signed_sum(np.add), "ic", "i"),
        "s_mulk_i32": _immediate(np.multiply, "u"),
        "s_cmovk_i32": _conditional_immediate,
    }


def _conditional_immediate(b: Binder) -> None:
    value = np.array(b.inst.mods["simm16"], dtype=np.int64).astype(np.int16).astype(np.int32).view(np.uint32)
    old, flag = b.scalar_operand(b.inst.dst[0], "u"), b.scalar_operand(_SCC, "u")
    b.emit_scalar("u", lambda o, c: np.where(c != 0, value, o), old, flag)
