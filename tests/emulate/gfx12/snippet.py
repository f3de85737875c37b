"""Runs hand-assembled gfx1201 code on a machine whose registers the test sets and reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.tools.gfx12_opcodes.assembler import assemble
from zluda_rr.emulate.gfx12.blocks import Compiler
from zluda_rr.emulate.gfx12.bus import Bus
from zluda_rr.emulate.gfx12.decode import decode
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.inst import Inst, Special
from zluda_rr.emulate.gfx12.machine import Machine
from zluda_rr.emulate.gfx12.scheduler import Scheduler
from zluda_rr.emulate.memory import AddressSpace

Words = NDArray[np.uint32]
ORIGIN = 0x1000
MODE = 0xF0
"""Round to nearest even, all denormals kept."""
FULL = 0xFFFF_FFFF


@cache
def program_of(lines: tuple[str, ...]) -> dict[int, Inst]:
    """The instructions of assembly lines by address, with s_endpgm behind them."""
    program: dict[int, Inst] = {}
    address = ORIGIN
    for line, code in zip((*lines, "s_endpgm"), assemble([*lines, "s_endpgm"]), strict=True):
        assert code is not None, f"the assembler rejects {line!r}"
        program[address] = inst = decode(code.code, 0, address)
        address += inst.size
    return program


def machine(
    waves: int = 1,
    *,
    per_group: int = 1,
    lds: int = 0,
    scratch: int = 0,
    memory: AddressSpace | None = None,
) -> Machine:
    """Waves with undefined registers and EXEC full."""
    bus = Bus(AddressSpace(0) if memory is None else memory, b"")
    return Machine(waves // per_group, per_group, lds_bytes=lds, scratch_bytes=scratch, bus=bus)


def execute(target: Machine, lines: Sequence[str], mode: int = MODE) -> Machine:
    """Run the lines in every wave of the machine."""
    target.refresh_lanes()
    compiler = Compiler(target, program_of(tuple(lines)), operations())
    Scheduler(target, compiler, 100_000).run(ORIGIN, mode)
    return target


def run(
    *lines: str,
    v: Mapping[int, ArrayLike] | None = None,
    s: Mapping[int, ArrayLike] | None = None,
    execution: ArrayLike = FULL,
    mode: int = MODE,
    waves: int = 1,
) -> Machine:
    """Run lines with given VGPRs (`[32]` or `[waves, 32]`) and SGPRs (`[waves]` or one number)."""
    target = machine(waves)
    for register, lanes in (v or {}).items():
        target.vgpr[register] = np.asarray(lanes, dtype=np.uint32)
    for register, values in (s or {}).items():
        target.sgpr[register] = np.asarray(values, dtype=np.uint32)
    target.sgpr[Special.EXEC_LO] = np.asarray(execution, dtype=np.uint32)
    return execute(target, lines, mode)


def lanes_of(target: Machine, register: int, wave: int = 0) -> list[int]:
    """A VGPR of one wave as Python integers."""
    return [int(x) for x in target.vgpr[register, wave]]


def bits(values: ArrayLike) -> Words:
    """f32 values as words."""
    return np.asarray(values, dtype=np.float32).view(np.uint32)


def floats(words: ArrayLike) -> NDArray[np.float32]:
    """Words as f32 values."""
    return np.asarray(words, dtype=np.uint32).view(np.float32)
