"""Packed 16-bit instructions, dot products and the mixed-precision fma.

`op_sel` picks the half of each source that feeds the low result, `op_sel_hi` the one that feeds the high
result; `neg_lo` and `neg_hi` negate likewise. Source: AMD "RDNA4" Instruction Set Architecture, VOP3P.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import floats
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.execute_valu_float import fused
from zluda_rr.emulate.gfx12.execute_valu_int import shift
from zluda_rr.emulate.gfx12.table import Build

Array = NDArray[Any]
Formula = Callable[..., Array]


def halves(b: Binder, index: int, letter: str) -> Array:
    """Source `index` as (low, high) pairs `[..., 2]` after op_sel and neg."""
    mods = b.inst.mods
    pair = b.packed(b.inst.src[index], letter, moved=index == 0)
    low = mods.get("op_sel", 0) >> index & 1
    high = mods.get("op_sel_hi", 7) >> index & 1  # the VOP2 form of v_pk_fmac_f16 has no selectors
    if (low, high) == (1, 0):
        pair = pair[..., ::-1]
    elif low == high:
        pair = pair[..., low : low + 1]
    if letter != "h":
        return pair
    signs = [mods.get("neg_lo", 0) >> index & 1, mods.get("neg_hi", 0) >> index & 1]
    if any(signs):
        factor = np.array([-1.0 if sign else 1.0 for sign in signs], dtype=np.float32)
        pair = _derived(b, pair, lambda x: np.where(factor < 0, -x, x))
    if not b.machine.mode.denorm_16_64 & 1:
        pair = _derived(b, pair, floats.flush_f16)
    return pair


def _derived(b: Binder, value: Array, change: Callable[[Array], Array]) -> Array:
    """As `Fetch.derive`, for a change that may widen the last axis."""
    result = b.work(np.shape(change(value)), value.dtype.str[1:])
    b.prepare.append(lambda: np.copyto(result, change(value)))
    return result


def _packed(letter: str, count: int, formula: Formula) -> Build:
    """Both halves computed by one formula; the result is committed as a word."""

    def build(b: Binder) -> None:
        args = [halves(b, index, letter) for index in range(count)]
        _emit_pair(b, letter, formula, args)

    return build


def _emit_pair(b: Binder, letter: str, formula: Formula, args: list[Array]) -> None:
    shape = (b.machine.waves, 32, 2)
    mode, clamps = b.machine.mode, b.inst.mods.get("clamp")
    if letter == "h":
        if mode.round_16_64 and isinstance(formula, np.ufunc):
            formula = partial(formula, dtype=np.float64)  # exact, so that the one rounding is the right one
        formula = b.guarded(formula)

    def compute(*sources: Array) -> Array:
        value = formula(*sources)
        if letter == "h":
            value = floats.round_f16(value, mode.round_16_64, mode.fp16_ovfl)
            if not mode.denorm_16_64 & 2:
                value = floats.flush_f16(value.astype(np.float32)).astype(np.float16)
            if clamps:
                value = floats.clamp(value)
        whole = np.ascontiguousarray(np.broadcast_to(value, shape))
        words: Array = whole.view(np.uint32)[..., 0]
        return words

    b.emit("u", compute, *args)


def _pk_fmac(b: Binder) -> None:
    """v_pk_fmac_f16: accumulates into the destination."""
    args = [halves(b, index, "h") for index in range(2)]
    _emit_pair(b, "h", floats.fma_to_odd, [*args, b.packed(b.inst.dst[0], "h")])


def _saturable(letter: str, operation: np.ufunc) -> Build:
    """Packed add or sub of integers; `clamp` saturates."""
    info = np.iinfo(np.uint16 if letter == "w" else np.int16)

    def clamped(x: Array, y: Array) -> Array:
        return np.asarray(np.clip(operation(x, y, dtype=np.int32), info.min, info.max).astype(info.dtype))

    def build(b: Binder) -> None:
        args = [halves(b, index, letter) for index in range(2)]
        _emit_pair(b, letter, clamped if b.inst.mods.get("clamp") else operation, args)

    return build


def mix_source(b: Binder, index: int) -> Array:
    """A v_fma_mix source: f32, or the half that op_sel names where op_sel_hi is set. neg_lo negates, neg_hi
    takes the magnitude first."""
    mods, op = b.inst.mods, b.inst.src[index]
    if mods.get("op_sel_hi", 0) >> index & 1:
        pair = b.packed(op, "h", moved=index == 0)
        value = pair[..., mods.get("op_sel", 0) >> index & 1]
        if not b.machine.mode.denorm_16_64 & 1:
            value = b.derive(floats.flush_f16, value)
    else:
        value = b.operand(op, "f", moved=index == 0)
    if mods.get("neg_hi", 0) >> index & 1:
        value = b.derive(np.abs, value)
    if mods.get("neg_lo", 0) >> index & 1:
        value = b.derive(np.negative, value)
    return value


def _mix(result: str, half: int = 0) -> Build:
    def build(b: Binder) -> None:
        sources = [mix_source(b, index) for index in range(3)]
        if result == "f":
            fused(b, "f", *sources)
        else:  # mixlo, mixhi: the f32 result is rounded to f16
            target = replace(b.inst.dst[0], half=half)
            b.emit("h", b.guarded(floats.fma_f32), *sources, target=target)

    return build


def _dot2_f32(b: Binder) -> None:
    """v_dot2_f32_f16: two products and an f32, added from the low half on, fused."""

    def formula(x: Array, y: Array, z: Array) -> Array:
        first = floats.fma_f32(x[..., 0], y[..., 0], z)
        return floats.fma_f32(x[..., -1], y[..., -1], first)

    b.emit("f", formula, halves(b, 0, "h"), halves(b, 1, "h"), b.operand(b.inst.src[2], "f"))


def _dot4(signs: tuple[bool, bool] | None) -> Build:
    """v_dot4: four byte products plus a word. With `signs` None, neg_lo says which source is signed."""

    def build(b: Binder) -> None:
        neg = b.inst.mods.get("neg_lo", 0)
        signed = signs if signs is not None else (bool(neg & 1), bool(neg & 2))
        dtypes = [np.int8 if s else np.uint8 for s in signed]

        def formula(x: Array, y: Array, z: Array) -> Array:
            total = np.asarray(z, dtype=np.int64)
            for byte in range(4):
                parts = ((v >> np.uint32(8 * byte)).astype(np.uint8) for v in (x, y))
                a, c = (part.view(dtype) for part, dtype in zip(parts, dtypes, strict=True))
                total = total + np.multiply(a, c, dtype=np.int64)
            return (total & 0xFFFF_FFFF).astype(np.uint32)

        x, y, z = (b.operand(op, letter) for op, letter in zip(b.inst.src, "uui", strict=True))
        b.emit("u", formula, x, y, z)

    return build


def _multiply_add(x: Array, y: Array, z: Array) -> Array:
    result: Array = x * y + z
    return result


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {
        "v_pk_add_f16": _packed("h", 2, np.add),
        "v_pk_mul_f16": _packed("h", 2, np.multiply),
        "v_pk_fma_f16": _packed("h", 3, floats.fma_to_odd),
        "v_pk_fmac_f16": _pk_fmac,
        "v_pk_min_num_f16": _packed("h", 2, floats.minimum_number),
        "v_pk_max_num_f16": _packed("h", 2, floats.maximum_number),
        "v_pk_minimum_f16": _packed("h", 2, floats.minimum),
        "v_pk_maximum_f16": _packed("h", 2, floats.maximum),
        "v_pk_mul_lo_u16": _packed("w", 2, np.multiply),
        "v_fma_mix_f32": _mix("f"),
        "v_fma_mixlo_f16": _mix("h"),
        "v_fma_mixhi_f16": _mix("h", 1),
        "v_dot2_f32_f16": _dot2_f32,
        "v_dot4_i32_iu8": _dot4(None),
        "v_dot4_u32_u8": _dot4((False, False)),
    }
    for letter, name in (("w", "u16"), ("s", "i16")):
        table[f"v_pk_add_{name}"] = _saturable(letter, np.add)
        table[f"v_pk_sub_{name}"] = _saturable(letter, np.subtract)
        table[f"v_pk_min_{name}"] = _packed(letter, 2, np.minimum)
        table[f"v_pk_max_{name}"] = _packed(letter, 2, np.maximum)
        table[f"v_pk_mad_{name}"] = _packed(letter, 3, _multiply_add)
    for name, letter, operation in (
        ("lshlrev_b16", "w", np.left_shift),
        ("lshrrev_b16", "w", np.right_shift),
        ("ashrrev_i16", "s", np.right_shift),
    ):
        table[f"v_pk_{name}"] = _packed(letter, 2, shift(operation, 16, reverse=True))
    return table
