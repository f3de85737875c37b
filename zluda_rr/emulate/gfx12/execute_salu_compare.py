"""Scalar comparisons into SCC and the scalar float instructions that gfx11.5 and gfx12 added.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 16, SOPC, SOP1 and SOP2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import floats
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.execute_valu_compare import FLOAT_RELATIONS
from zluda_rr.emulate.gfx12.execute_valu_convert import to_integer
from zluda_rr.emulate.gfx12.table import Build, per_wave

Array = NDArray[Any]

_INTEGER = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {}
    for relation, formula in _INTEGER.items():
        for letter, name in (("i", "i32"), ("u", "u32"), ("q", "u64")):
            table[f"s_cmp_{relation}_{name}"] = per_wave(letter * 2, "c", formula)
    for relation, compare in FLOAT_RELATIONS.items():
        for letter, name in (("f", "f32"), ("h", "f16")):
            table[f"s_cmp_{relation}_{name}"] = per_wave(letter * 2, "c", compare)
    for bits, letter in ((32, "u"), (64, "q")):
        table[f"s_bitcmp0_b{bits}"] = per_wave(letter + "u", "c", _bit_test(bits, 0))
        table[f"s_bitcmp1_b{bits}"] = per_wave(letter + "u", "c", _bit_test(bits, 1))
    return table | _floats() | _conversions()


def _bit_test(bits: int, wanted: int) -> Callable[[Array, Array], Array]:
    def formula(x: Array, place: Array) -> Array:
        amount = (place & np.uint32(bits - 1)).astype(x.dtype)
        result: Array = (np.right_shift(x, amount) & x.dtype.type(1)) == wanted
        return result

    return formula


def _floats() -> dict[str, Build]:
    table: dict[str, Build] = {}
    for letter, name in (("f", "f32"), ("h", "f16")):
        for stem, formula in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("min_num", floats.minimum_number),
            ("max_num", floats.maximum_number),
            ("minimum", floats.minimum),
            ("maximum", floats.maximum),
        ):
            table[f"s_{stem}_{name}"] = _guarded(letter * 2, letter, formula)
        for stem, whole in (("ceil", np.ceil), ("floor", np.floor), ("trunc", np.trunc), ("rndne", np.rint)):
            table[f"s_{stem}_{name}"] = per_wave(letter, letter, whole)
        table[f"s_fmac_{name}"] = _fmac(letter)
    fused = _guarded("fff", "f", floats.fma_f32)
    return table | {"s_fmaak_f32": fused, "s_fmamk_f32": fused}


def _guarded(sources: str, result: str, formula: Callable[..., Array]) -> Build:
    def build(b: Binder) -> None:
        args = [b.scalar(index, letter) for index, letter in enumerate(sources)]
        b.emit_scalar(result, b.guarded(formula), *args)

    return build


def _fmac(letter: str) -> Build:
    formula = floats.fma_f32 if letter == "f" else floats.fma_to_odd

    def build(b: Binder) -> None:
        old = b.scalar_operand(b.inst.dst[0], letter)
        b.emit_scalar(letter, b.guarded(formula), b.scalar(0, letter), b.scalar(1, letter), old)

    return build


def _conversions() -> dict[str, Build]:
    def truncate(low: Array, high: Array) -> Array:
        first, second = (floats.round_f16(x, 3, False).view(np.uint16).astype(np.uint32) for x in (low, high))
        return first | (second << np.uint32(16))

    def high_half(b: Binder) -> None:
        table = b.machine.halves
        b.emit_scalar("f", lambda x: table.take(x >> np.uint32(16)), b.scalar(0, "u"))

    return {
        "s_cvt_f32_i32": per_wave("i", "f", lambda x: np.asarray(x).astype(np.float32)),
        "s_cvt_f32_u32": per_wave("u", "f", lambda x: np.asarray(x).astype(np.float32)),
        "s_cvt_i32_f32": per_wave("f", "i", lambda x: to_integer(x, np.int32)),
        "s_cvt_u32_f32": per_wave("f", "u", lambda x: to_integer(x, np.uint32)),
        "s_cvt_f16_f32": per_wave("f", "h", np.positive),
        "s_cvt_f32_f16": per_wave("h", "f", np.positive),
        "s_cvt_hi_f32_f16": high_half,
        "s_cvt_pk_rtz_f16_f32": per_wave("ff", "u", truncate),
    }
