"""Faults planted in the emulator, each with the rows of the self-test that it must turn red: these and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zluda_rr.emulate.gfx12 import execute_image, execute_valu_convert, execute_vop3p, execute_wmma, floats, lanes
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.table import Build, per_lane
from zluda_rr.numerics.e4m3 import decode_to_float, encode_float_gfx12
from zluda_rr.numerics.f16 import flush
from zluda_rr.numerics.mma import wmma_16x16x16

Array = Any
Change = Callable[[dict[str, Build]], None]
Patch = tuple[Any, str, Any]
"""A module, a name in it, and what stands there instead."""

_WMMA = "v_wmma_f32_16x16x16_fp8_fp8"
_CVT = "v_cvt_pk_fp8_f32"
_ALL_ENCODERS = ("fp8-encode", "fp8-encode-ovfl", "fp8-encode-nan", "fp8-requantise", "fp8-translated")


@dataclass(frozen=True, slots=True)
class Fault:
    """A changed table of operations, or changed functions of the emulator; `red` are rows by name."""

    red: frozenset[str]
    change: Change | None = None
    patches: tuple[Patch, ...] = ()


def _wmma(decode_a: Callable[[Array], Array]) -> Change:
    return lambda table: table.update({_WMMA: vars(execute_wmma)["_wmma"](decode_a, decode_to_float)})


def _sums(formula: Callable[[Array, Array, Array, str], Array]) -> tuple[Patch, ...]:
    return ((execute_wmma, "wmma_16x16x16", formula),)


def _swapped_halves(codes: Array) -> Array:
    return decode_to_float(codes)[..., np.r_[8:16, 0:8]]


def _cut_sums(a: Array, b: Array, c: Array, model: str) -> Array:
    """Toward zero where the exact model rounds to nearest."""
    if model != "exact":
        return wmma_16x16x16(a, b, c, model)
    total = a.astype(np.float64) @ np.swapaxes(b, -1, -2).astype(np.float64) + c
    return np.asarray(floats.round_f32(total, 3))


def _flushed_sums(a: Array, b: Array, c: Array, model: str) -> Array:
    return wmma_16x16x16(a, b, flush(np.ascontiguousarray(c)), model)


def _encoder(encode: Callable[..., Array]) -> Change:
    return lambda table: table.update({_CVT: vars(execute_valu_convert)["_pack_fp8"](encode)})


def _ties_away(values: Array, *, saturate: bool = False) -> Array:
    up = (np.asarray(values).view(np.uint32) + np.uint32(1 << 16)).view(np.float32)
    return encode_float_gfx12(np.where(np.isfinite(values), up, values), saturate=saturate)


def _never_saturates(values: Array, *, saturate: bool = False) -> Array:
    return encode_float_gfx12(values)


def _always_saturates(values: Array, *, saturate: bool = False) -> Array:
    return encode_float_gfx12(values, saturate=True)


def _signed_nan(values: Array, *, saturate: bool = False) -> Array:
    sign = np.signbit(values).astype(np.uint8) << np.uint8(7)
    return np.where(np.isnan(values), sign | np.uint8(0x7F), encode_float_gfx12(values, saturate=saturate))


def _bytes_exchanged(table: dict[str, Build]) -> None:
    right = table[_CVT]

    def build(b: Binder) -> None:
        b.inst = replace(b.inst, src=(b.inst.src[1], b.inst.src[0], *b.inst.src[2:]))
        right(b)

    table[_CVT] = build


def _no_negation(table: dict[str, Build]) -> None:
    right = table[_CVT]

    def build(b: Binder) -> None:
        b.inst = replace(b.inst, src=tuple(replace(op, neg=False) for op in b.inst.src))
        right(b)

    table[_CVT] = build


def _wrong_byte(b: Binder) -> None:
    places = np.uint32(8 * (b.inst.mods.get("byte_sel", 0) ^ 3))
    b.emit("f", lambda x: decode_to_float((x >> places).astype(np.uint8)), b.vector(0, "u"))


def _off(name: str) -> Change:
    """Results one half's step off."""

    def change(table: dict[str, Build]) -> None:
        right = table[name]

        def build(b: Binder) -> None:
            right(b)
            out = b.machine.vgpr[b.inst.dst[0].index].view(np.float32)
            b.act.append(lambda: np.multiply(out, np.float32(1 + 2**-9), out=out))

        table[name] = build

    return change


def _instead(name: str, build: Build) -> Change:
    return lambda table: table.update({name: build})


def _as(name: str, other: str) -> Change:
    return lambda table: table.update({name: table[other]})


def _packed(count: int, formula: Callable[..., Array]) -> Build:
    built: Build = vars(execute_vop3p)["_packed"]("h", count, formula)
    return built


def _flushing_add(x: Array, y: Array) -> Array:
    return np.asarray(flush(x + np.zeros_like(x)) + flush(y + np.zeros_like(y)))


def _other_half(b: Binder, index: int) -> Array:
    flipped = replace(b.inst, mods={**b.inst.mods, "op_sel": b.inst.mods.get("op_sel", 0) ^ 1})
    b.inst, kept = flipped, b.inst
    try:
        return _MIX_SOURCE(b, index)
    finally:
        b.inst = kept


_MIX_SOURCE = execute_vop3p.mix_source
_DPP16 = lanes.dpp16
_TEXELS = vars(execute_image)["_texels"]


def _wrong_row_mask(control: int) -> tuple[Array, Array]:
    return _DPP16(control ^ 0xF if control & ~15 == 0x160 else control)


def _clamped_texels(images: Array, lane: Array, port: Any, x: Array, y: Array, dtype: str) -> Array:
    return _TEXELS(images, lane, port, np.clip(x, 0, images.width - 1), np.clip(y, 0, images.height - 1), dtype)


def _rows(*names: str) -> frozenset[str]:
    return frozenset(names)


FAULTS: Mapping[str, Fault] = {
    "none": Fault(_rows()),
    "operand half swapped": Fault(_rows("wmma-layout", "wmma-special", "wmma-accumulation"), _wmma(_swapped_halves)),
    "products cut, not rounded": Fault(_rows("wmma-accumulation"), patches=_sums(_cut_sums)),
    "one model for another": Fault(
        _rows("wmma-accumulation"),
        patches=_sums(lambda a, b, c, model: wmma_16x16x16(a, b, c, "pairwise" if model == "sequential" else model)),
    ),
    "denormal C flushed": Fault(_rows("wmma-special"), patches=_sums(_flushed_sums)),
    "ties away from zero": Fault(_rows(*_ALL_ENCODERS), _encoder(_ties_away)),
    "FP16_OVFL ignored": Fault(_rows("fp8-encode-ovfl"), _encoder(_never_saturates)),
    "FP16_OVFL always": Fault(_rows(*_ALL_ENCODERS), _encoder(_always_saturates)),
    "NaN keeps its sign": Fault(
        _rows("fp8-encode", "fp8-encode-ovfl", "fp8-encode-nan", "fp8-requantise"), _encoder(_signed_nan)
    ),
    "bytes exchanged": Fault(_rows(*_ALL_ENCODERS), _bytes_exchanged),
    "no negation of sources": Fault(_rows("fp8-encode-nan"), _no_negation),
    "wrong byte decoded": Fault(_rows("fp8-decode"), _instead("v_cvt_f32_fp8", _wrong_byte)),
    "rcp off": Fault(_rows("rcp"), _off("v_rcp_f32")),
    "rsq off": Fault(_rows("rsq"), _off("v_rsq_f32")),
    "exp2 off": Fault(_rows("exp2"), _off("v_exp_f32")),
    "sums always flush": Fault(_rows("denormals"), _instead("v_add_f32", per_lane("ff", "f", _flushing_add))),
    "packed minimum is maximum": Fault(_rows("packed", "fp8-requantise"), _as("v_pk_min_u16", "v_pk_max_u16")),
    "NaN loses a maximum": Fault(
        _rows("packed", "fp8-requantise", "fp8-translated"),
        _instead("v_pk_maximum_f16", _packed(2, floats.maximum_number)),
    ),
    "mix reads the other half": Fault(
        _rows("mixed", "denormals", "fp8-requantise"), patches=((execute_vop3p, "mix_source", _other_half),)
    ),
    "row_xmask reversed": Fault(_rows("lanes"), patches=((lanes, "dpp16", _wrong_row_mask),)),
    "permlanex16 stays in its row": Fault(_rows("lanes"), _as("v_permlanex16_b32", "v_permlane16_b32")),
    "images clamp": Fault(_rows("image-load"), patches=((execute_image, "_texels", _clamped_texels),)),
}
LAYER_FAULTS: Mapping[str, frozenset[str]] = {
    "operand half swapped": _rows("enc0-translated", "enc0-rewritten"),
    "permlanex16 stays in its row": _rows("enc0-rewritten"),
}


@contextmanager
def _patched(fault: Fault) -> Iterator[None]:
    kept = [(module, name, vars(module)[name]) for module, name, _ in fault.patches]
    for module, name, value in fault.patches:
        vars(module)[name] = value
    try:
        yield
    finally:
        for module, name, value in kept:
            vars(module)[name] = value


class Planted:
    """The table of operations with one fault in it at a time."""

    def __init__(self) -> None:
        self._undo: Any = None

    def table(self, name: str) -> Mapping[str, Build]:
        """The operations under a fault, whose patches stay until the next call."""
        if self._undo is not None:
            self._undo.__exit__(None, None, None)
        fault = FAULTS[name]
        self._undo = _patched(fault)
        self._undo.__enter__()
        table = dict(operations())
        if fault.change is not None:
            fault.change(table)
        return table
