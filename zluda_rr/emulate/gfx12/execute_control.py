"""Program control: branches, calls, barriers, the MODE register, and what does nothing in an emulator.

A builder that ends a block sets `Binder.exit`, a function that says where the active waves go on. Source: AMD
"RDNA4" Instruction Set Architecture, chapters 4 and 16 (SOPP, SOPK, SOP1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder, Departure
from zluda_rr.emulate.gfx12.inst import Inst, Special
from zluda_rr.emulate.gfx12.machine import ENDED, SCC_ROW, EmulationError, Mode, ProgramFault
from zluda_rr.emulate.gfx12.table import Build

Array = NDArray[Any]

_HW_MODE = 1


def following(inst: Inst) -> int:
    """Address of the next instruction."""
    return inst.address + inst.size


def is_branch(inst: Inst) -> bool:
    """Whether `inst.target` is an address that the program may go to."""
    return inst.mnemonic.startswith(("s_branch", "s_cbranch_", "s_call_"))


def _branch(b: Binder) -> None:
    target = b.inst.target
    mode = b.machine.mode.bits
    b.exit = lambda: [Departure(target, mode, None)]


def _conditional(row: int, wanted_zero: bool) -> Build:
    def build(b: Binder) -> None:
        machine = b.machine
        source = machine.sgpr[row]
        active = machine.active
        target, after, mode = b.inst.target, following(b.inst), machine.mode.bits

        def leave() -> list[Departure]:
            taken = ((source == 0) == wanted_zero) & active
            count, present = int(np.count_nonzero(taken)), int(np.count_nonzero(active))
            if count == 0:
                return [Departure(after, mode, None)]
            if count == present:
                return [Departure(target, mode, None)]
            return [Departure(target, mode, taken), Departure(after, mode, active & ~taken)]

        b.exit = leave

    return build


def _get_pc(b: Binder) -> None:
    value = np.array(b.machine.code_base + following(b.inst), dtype=np.uint64)
    b.emit_scalar("q", lambda: value)


def _jump(b: Binder) -> None:
    """s_setpc_b64, s_swappc_b64: waves may go to different addresses."""
    machine = b.machine
    target = b.scalar(0, "q")
    if b.inst.dst:
        back = np.array(machine.code_base + following(b.inst), dtype=np.uint64)
        held = b.work((machine.waves,), "u8")
        b.act.append(partial(np.copyto, held, target))
        b.emit_scalar("q", lambda: back)
        target = held
    mode = machine.mode.bits
    active = machine.active

    def leave() -> list[Departure]:
        goals = np.broadcast_to(target, machine.waves) - np.uint64(machine.code_base)
        distinct = np.unique(goals[active])
        if len(distinct) == 1:
            return [Departure(int(distinct[0]), mode, None)]
        return [Departure(int(goal), mode, (goals == goal) & active) for goal in distinct]

    b.exit = leave


def _call(b: Binder) -> None:
    _get_pc(b)
    _branch(b)


def _end(b: Binder) -> None:
    machine = b.machine

    def leave() -> list[Departure]:
        machine.arrivals[machine.active] = ENDED
        return []

    b.exit = leave


def _signal(b: Binder, *, first: bool = False) -> None:
    """s_barrier_signal: -1 is the workgroup's barrier; the _isfirst form tells the first wave by SCC."""
    machine = b.machine
    which = b.inst.src[0]
    if not which.is_constant or which.value & 0xFFFF_FFFF != 0xFFFF_FFFF:
        raise EmulationError("only the workgroup barrier (-1) exists here")

    def act() -> None:
        if first:
            _mark_first(machine.arrivals, machine.waves_per_group, machine.active, machine.sgpr[SCC_ROW])
        machine.arrivals[machine.active] += 1

    b.act.append(act)


def _mark_first(arrivals: Array, per_group: int, active: Array, flag: Array) -> None:
    """SCC of the lowest active wave of each group where no wave has signalled this barrier yet."""
    for start in range(0, len(arrivals), per_group):
        group = slice(start, start + per_group)
        living = arrivals[group][arrivals[group] < ENDED]
        members = np.flatnonzero(active[group]) + start
        flag[members] = 0
        if len(members) and living.max() == arrivals[members[0]]:
            flag[members[0]] = 1


def _wait_for_barrier(b: Binder) -> None:
    machine = b.machine
    after, mode = following(b.inst), machine.mode.bits

    def leave() -> list[Departure]:
        if (machine.waits >= machine.arrivals)[machine.active].any():
            raise ProgramFault(f"s_barrier_wait at {b.inst.address:#x} without an s_barrier_signal before it")
        machine.waits[machine.active] += 1
        passing = machine.passes_barrier() & machine.active
        if passing.any() and passing.sum() == machine.active.sum():
            return [Departure(after, mode, None)]
        waiting = machine.active & ~passing
        leaving = [Departure(after, mode, waiting, parked=True)]
        return [*leaving, Departure(after, mode, passing)] if passing.any() else leaving

    b.exit = leave


def _register_field(simm: int) -> tuple[int, int, int]:
    """Register number, first bit and bit count of a hwreg operand."""
    return simm & 63, simm >> 6 & 31, (simm >> 11 & 31) + 1


def _get_register(b: Binder) -> None:
    register, first, size = _register_field(b.inst.mods["simm16"] & 0xFFFF)
    if register != _HW_MODE:
        raise EmulationError(f"hardware register {register} does not exist here")
    value = np.array(b.machine.mode.bits >> first & ((1 << size) - 1), dtype=np.uint32)
    b.emit_scalar("u", lambda: value)


def _set_register(b: Binder, source: Callable[[], Array]) -> None:
    """Changes MODE; waves go on by the value they wrote."""
    register, first, size = _register_field(b.inst.mods["simm16"] & 0xFFFF)
    if register != _HW_MODE:
        raise EmulationError(f"hardware register {register} cannot be written here")
    machine = b.machine
    field = ((1 << size) - 1) << first
    kept = machine.mode.bits & ~field
    after = following(b.inst)

    def leave() -> list[Departure]:
        written = np.broadcast_to(source(), machine.waves).astype(np.int64)
        modes = (written << first & field) | kept
        return [
            Departure(after, Mode.from_bits(int(bits)).bits, (modes == bits) & machine.active)
            for bits in np.unique(modes[machine.active])
        ]

    b.exit = leave


def _set_register_scalar(b: Binder) -> None:
    value = b.scalar_operand(b.inst.src[-1] if b.inst.src else b.inst.dst[0], "u")
    _set_register(b, lambda: value)


def _set_mode(shift: int) -> Build:
    """s_round_mode (low four bits), s_denorm_mode (next four)."""

    def build(b: Binder) -> None:
        bits = b.machine.mode.bits & ~(15 << shift) | (b.inst.mods["simm16"] & 15) << shift
        after = following(b.inst)
        b.exit = lambda: [Departure(after, bits, None)]

    return build


def _trap(b: Binder) -> None:
    def leave() -> list[Departure]:
        raise ProgramFault("s_trap: the program gave up")

    b.exit = leave


def _nothing(b: Binder) -> None:
    """Waits, hints and messages."""


IGNORED = frozenset((
    "s_nop", "s_sleep", "s_clause", "s_delay_alu", "s_code_end", "s_sendmsg", "s_setprio", "s_wait_alu",
    "s_wait_bvhcnt", "s_wait_dscnt", "s_wait_event", "s_wait_expcnt", "s_wait_idle", "s_wait_kmcnt",
    "s_wait_loadcnt", "s_wait_loadcnt_dscnt", "s_wait_samplecnt", "s_wait_storecnt", "s_wait_storecnt_dscnt",
    "s_waitcnt", "s_ttracedata", "s_ttracedata_imm", "s_incperflevel", "s_decperflevel",
    "v_nop", "v_pipeflush", "s_sleep_var",
))  # fmt: skip
"""Waits, hints and messages: nothing to do."""


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {
        "s_branch": _branch,
        "s_cbranch_scc0": _conditional(SCC_ROW, True),
        "s_cbranch_scc1": _conditional(SCC_ROW, False),
        "s_cbranch_vccz": _conditional(Special.VCC_LO, True),
        "s_cbranch_vccnz": _conditional(Special.VCC_LO, False),
        "s_cbranch_execz": _conditional(Special.EXEC_LO, True),
        "s_cbranch_execnz": _conditional(Special.EXEC_LO, False),
        "s_getpc_b64": _get_pc,
        "s_setpc_b64": _jump,
        "s_swappc_b64": _jump,
        "s_call_b64": _call,
        "s_endpgm": _end,
        "s_barrier_signal": _signal,
        "s_barrier_signal_isfirst": partial(_signal, first=True),
        "s_barrier_wait": _wait_for_barrier,
        "s_getreg_b32": _get_register,
        "s_setreg_b32": _set_register_scalar,
        "s_setreg_imm32_b32": _set_register_scalar,
        "s_round_mode": _set_mode(0),
        "s_denorm_mode": _set_mode(4),
        "s_trap": _trap,
    }
    return table | dict.fromkeys(IGNORED, _nothing)
