"""Vector instructions that cross lanes: readlane, writelane, permlane and the pseudo-scalar functions.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 16. v_permlane16 reads lanes of its own row of 16,
v_permlanex16 those of the other row; op_sel bit 0 is fetch-inactive, bit 1 bound control (0 for lanes that
EXEC disables, else they keep what they had).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.floats import round_f16
from zluda_rr.emulate.gfx12.lanes import permlane16_selectors
from zluda_rr.emulate.gfx12.machine import LANES
from zluda_rr.emulate.gfx12.table import Build
from zluda_rr.numerics.approx import approx_ex2, approx_lg2, approx_rcp, approx_rsqrt, approx_sqrt

Array = NDArray[Any]
Function = Callable[[Array], Array]


def _read_first(b: Binder) -> None:
    """v_readfirstlane: the lowest enabled lane, lane 0 where none is."""
    lanes = b.machine.lanes
    waves = np.arange(b.machine.waves)
    source = b.registers(b.inst.src[0], 1)[0]
    b.emit_scalar("u", lambda: source[waves, lanes.argmax(axis=1)])


def _read_lane(b: Binder) -> None:
    waves = np.arange(b.machine.waves)
    source, lane = b.registers(b.inst.src[0], 1)[0], b.scalar(1, "u")
    b.emit_scalar("u", lambda: source[waves, lane & np.uint32(LANES - 1)])


def _write_lane(b: Binder) -> None:
    """v_writelane ignores EXEC, but not the choice of waves."""
    machine = b.machine
    waves = np.arange(machine.waves)
    target = machine.vgpr[b.inst.dst[0].index]
    value, lane = b.scalar(0, "u"), b.scalar(1, "u")
    active = machine.active

    def act() -> None:
        place = np.broadcast_to(lane & np.uint32(LANES - 1), machine.waves)
        values = np.broadcast_to(value, machine.waves)
        target[waves[active], place[active]] = values[active]

    b.act.append(act)


def _permute(cross: bool, variable: bool) -> Build:
    """v_permlane[x]16[_var]: selectors from two scalars, or per lane from a register."""

    def build(b: Binder) -> None:
        machine = b.machine
        source = b.registers(b.inst.src[0], 1)[0]
        select = b.inst.mods.get("op_sel", 0)
        fetch_inactive, zero = bool(select & 1), bool(select & 2)
        lane = np.arange(LANES)
        row = (lane & 16) ^ (16 if cross else 0)
        mask = b.write_mask = b.work((machine.waves, LANES), "?")
        moved = b.work((machine.waves, LANES), "u4")
        selectors = _selectors(b, variable)

        def exchange() -> None:
            index = np.broadcast_to(row | selectors(), moved.shape)
            np.copyto(moved, np.take_along_axis(source, index, axis=1))
            readable = True if fetch_inactive else np.take_along_axis(machine.lanes, index, axis=1)
            np.multiply(moved, readable, out=moved)
            np.logical_and(machine.lanes, True if zero else readable, out=mask)

        b.prepare.append(exchange)
        b.emit("u", np.positive, moved)

    return build


def _selectors(b: Binder, variable: bool) -> Callable[[], Array]:
    """A function giving each lane's place in its row, broadcasting to `[waves, 32]`."""
    if variable:
        chosen = b.vector(1, "u")
        return lambda: (chosen & np.uint32(15)).astype(np.int64)
    low, high = b.scalar(1, "u"), b.scalar(2, "u")

    def scalars() -> Array:
        words = np.broadcast_arrays(low.astype(np.int64), high.astype(np.int64))
        row = permlane16_selectors(*words)
        return np.concatenate([row, row], axis=-1)

    return scalars


def _swap_halves(b: Binder) -> None:
    """v_permlane64 does nothing in a wave of 32 lanes but move."""
    b.emit("u", np.positive, b.vector(0, "u"))


def _pseudo_scalar(letter: str, formula: Function) -> Build:
    """v_s_*: a transcendental function of scalar registers."""

    def build(b: Binder) -> None:
        mode = b.machine.mode
        source = b.scalar(0, letter)
        if letter == "f":
            b.emit_scalar("f", lambda x: formula(np.atleast_1d(x)), source)
            return

        def rounded(x: Array) -> Array:
            exact = formula(np.asarray(x, dtype=np.float64))
            return round_f16(exact, mode.round_16_64, mode.fp16_ovfl).view(np.uint16).astype(np.uint32)

        b.emit_scalar("u", rounded, source)

    return build


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {
        "v_readfirstlane_b32": _read_first,
        "v_readlane_b32": _read_lane,
        "v_writelane_b32": _write_lane,
        "v_permlane16_b32": _permute(False, False),
        "v_permlanex16_b32": _permute(True, False),
        "v_permlane16_var_b32": _permute(False, True),
        "v_permlanex16_var_b32": _permute(True, True),
        "v_permlane64_b32": _swap_halves,
    }
    single: dict[str, Function] = {
        "exp": approx_ex2,
        "log": approx_lg2,
        "rcp": approx_rcp,
        "rsq": approx_rsqrt,
        "sqrt": approx_sqrt,
    }
    half: dict[str, Function] = {
        "exp": np.exp2,
        "log": np.log2,
        "rcp": lambda x: 1.0 / x,
        "rsq": lambda x: 1.0 / np.sqrt(x),
        "sqrt": np.sqrt,
    }
    for name, formula in single.items():
        table[f"v_s_{name}_f32"] = _pseudo_scalar("f", formula)
    for name, wide in half.items():
        table[f"v_s_{name}_f16"] = _pseudo_scalar("h", wide)
    return table
