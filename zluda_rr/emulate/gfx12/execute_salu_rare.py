"""Scalar instructions that wave32 code seldom holds: 64-bit EXEC forms, bit spreading, relative moves.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 16, SOP1 and SOPP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.table import Build, per_wave

Array = NDArray[Any]
Formula = Callable[..., Any]

_EXEC_PAIR = Operand(Kind.SPECIAL, int(Special.EXEC_LO), width=2)
_SCC = Operand(Kind.SPECIAL, int(Special.SCC))
_M0 = Operand(Kind.SPECIAL, int(Special.M0))
_U32, _U64 = np.uint32, np.uint64

_SAVE: dict[str, Formula] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
    "and_not0": lambda x, y: ~x & y,
    "or_not0": lambda x, y: ~x | y,
    "and_not1": lambda x, y: x & ~y,
    "or_not1": lambda x, y: x | ~y,
}


def _save_exec(formula: Formula, *, writes_exec_only: bool = False) -> Build:
    """`dst = EXEC; EXEC = formula(source, EXEC); SCC = EXEC != 0`; wrexec forms also put it in dst."""

    def build(b: Binder) -> None:
        source, execution = b.scalar(0, "q"), b.scalar_operand(_EXEC_PAIR, "q")
        save = b.scalar_committer("q", b.inst.dst[0])
        enable = b.scalar_committer("q", _EXEC_PAIR)
        flag = b.scalar_committer("u", _SCC)

        def act() -> None:
            old = execution.copy()
            new = np.broadcast_to(np.asarray(formula(source, old)), old.shape).astype(np.uint64)
            save(new if writes_exec_only else old)
            enable(new)
            flag((new != 0).astype(np.uint32))

        b.act.append(act)

    return build


def _bit_set(value: int) -> Build:
    def build(b: Binder) -> None:
        def formula(place: Array, old: Array) -> Array:
            bit = np.left_shift(_U64(1), (place & _U32(63)).astype(np.uint64))
            return old | bit if value else old & ~bit

        b.emit_scalar("q", formula, b.scalar(0, "u"), b.scalar_operand(b.inst.dst[0], "q"))

    return build


def _replicated(x: Array) -> Array:
    """Every bit twice, 32 to 64 bits."""
    result = np.zeros(np.shape(x), dtype=np.uint64)
    for place in range(32):
        bit = ((x >> _U32(place)) & _U32(1)).astype(np.uint64)
        result = result | bit * _U64(3) << _U64(2 * place)
    return np.asarray(result)


def _quads(x: Array, bits: int) -> list[Array]:
    kind = x.dtype.type
    return [(x >> kind(4 * index)) & kind(15) for index in range(bits // 4)]


def _quad_mask(bits: int) -> Formula:
    """One bit per quad that has any bit set, and whether the result is not zero."""

    def formula(x: Array) -> tuple[Array, Array]:
        kind = x.dtype.type
        result = kind(0)
        for index, quad in enumerate(_quads(x, bits)):
            result = result | (quad != 0).astype(kind) << kind(index)
        return np.asarray(result), np.asarray(result) != 0

    return formula


def _whole_quads(bits: int) -> Formula:
    """Every quad that has any bit set becomes full."""

    def formula(x: Array) -> tuple[Array, Array]:
        kind = x.dtype.type
        result = kind(0)
        for index, quad in enumerate(_quads(x, bits)):
            result = result | np.where(quad != 0, kind(15), kind(0)) << kind(4 * index)
        return np.asarray(result), np.asarray(result) != 0

    return formula


def _read_relative(letter: str) -> Build:
    """s_movrels: the source register number counts from M0."""

    def build(b: Binder) -> None:
        machine = b.machine
        index, first = b.scalar_operand(_M0, "u"), b.row(b.inst.src[0])
        waves = np.arange(machine.waves)

        def value() -> Array:
            low = machine.sgpr[first + index.astype(np.int64), waves]
            if letter == "u":
                return low
            high = machine.sgpr[first + 1 + index.astype(np.int64), waves]
            return low.astype(np.uint64) | high.astype(np.uint64) << _U64(32)

        b.emit_scalar(letter, value)

    return build


def _write_relative(letter: str) -> Build:
    """s_movreld: the destination register number counts from M0."""

    def build(b: Binder) -> None:
        machine = b.machine
        index, first = b.scalar_operand(_M0, "u"), b.row(b.inst.dst[0])
        value = b.scalar(0, letter)
        waves = np.arange(machine.waves)

        def act() -> None:
            chosen = machine.active
            rows = first + index.astype(np.int64)[chosen]
            words = np.broadcast_to(value, machine.waves)[chosen]
            machine.sgpr[rows, waves[chosen]] = (words & words.dtype.type(0xFFFF_FFFF)).astype(np.uint32)
            if letter == "q":
                machine.sgpr[rows + 1, waves[chosen]] = (words >> _U64(32)).astype(np.uint32)

        b.act.append(act)

    return build


def _nothing(b: Binder) -> None:
    """Hints to a scheduler or a debugger that is not there."""


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table = {f"s_{name}_saveexec_b64": _save_exec(formula) for name, formula in _SAVE.items()}
    for name in ("and_not0", "and_not1"):
        table[f"s_{name}_wrexec_b64"] = _save_exec(_SAVE[name], writes_exec_only=True)
    for bits, letter in ((32, "u"), (64, "q")):
        table[f"s_quadmask_b{bits}"] = per_wave(letter, letter + "c", _quad_mask(bits))
        table[f"s_wqm_b{bits}"] = per_wave(letter, letter + "c", _whole_quads(bits))
        table[f"s_movrels_b{bits}"] = _read_relative(letter)
        table[f"s_movreld_b{bits}"] = _write_relative(letter)
    table |= {
        "s_bitset0_b64": _bit_set(0),
        "s_bitset1_b64": _bit_set(1),
        "s_bitreplicate_b64_b32": per_wave("u", "q", _replicated),
    }
    return table | dict.fromkeys(("s_setkill", "s_sethalt", "s_version", "s_wakeup"), _nothing)
