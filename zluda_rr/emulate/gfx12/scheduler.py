"""Runs waves to their end: groups of waves at one address advance together, lowest address first.

Lowest-address-first lets waves that left a group at a branch meet it again where the paths join.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Departure
from zluda_rr.emulate.gfx12.blocks import Compiler
from zluda_rr.emulate.gfx12.machine import Machine, Mode, ProgramFault

Waves = NDArray[np.bool_]
Where = tuple[int, int]
"""Address and MODE bits."""


class Scheduler:
    """Executes one launch (or batch) on a machine."""

    def __init__(self, machine: Machine, compiler: Compiler, limit: int) -> None:
        self._machine = machine
        self._compiler = compiler
        self._waiting: dict[Where, Waves] = {}
        self._parked: list[Departure] = []
        self._limit = limit
        self._blocks_run = 0

    def run(self, entry: int, mode: int) -> None:
        """Run all waves from `entry` to s_endpgm. ProgramFault for a run past the limit."""
        machine = self._machine
        handler: Any = lambda kind, flag: machine.invalid.append(True)  # noqa: E731
        self._waiting = {(entry, mode): np.ones(machine.waves, dtype=np.bool_)}
        with np.errstate(all="ignore", invalid="call", call=handler):
            while self._waiting or self._parked:
                self._release()
                # Of the waves of a workgroup, those that have signalled least never wait.
                assert self._waiting, "parked waves without one that runs"
                where = min(self._waiting)
                self._advance(where, self._waiting.pop(where))

    def _advance(self, where: Where, waves: Waves) -> None:
        """Run a group until it splits, ends, or another group is due."""
        machine, compiler, waiting = self._machine, self._compiler, self._waiting
        machine.activate(waves)
        machine.mode = Mode.from_bits(where[1])
        count = int(np.count_nonzero(waves))
        address, mode = where
        while True:
            block = compiler.block(address, mode, machine.variant)
            block.run()
            block.executed += count
            self._blocks_run += 1
            if self._blocks_run > self._limit:
                raise ProgramFault(f"more than {self._limit} blocks executed: endless loop at {address:#x}?")
            departures = block.leave()
            if len(departures) != 1 or departures[0].waves is not None or self._parked:
                break
            address = departures[0].address
            if departures[0].mode != mode:
                mode = departures[0].mode
                machine.mode = Mode.from_bits(mode)
            if waiting and (address, mode) >= min(waiting):
                break
        self._depart(departures)

    def _depart(self, departures: list[Departure]) -> None:
        for departure in departures:
            waves = self._machine.active.copy() if departure.waves is None else departure.waves
            if departure.parked:
                self._parked.append(Departure(departure.address, departure.mode, waves))
            else:
                self._enqueue(departure.address, departure.mode, waves)

    def _enqueue(self, address: int, mode: int, waves: Waves) -> None:
        key = (address, mode)
        present = self._waiting.get(key)
        self._waiting[key] = waves if present is None else present | waves

    def _release(self) -> None:
        """Let parked waves go whose barrier is complete."""
        if not self._parked:
            return
        passing = self._machine.passes_barrier()
        parked, self._parked = self._parked, []
        for departure in parked:
            waves = departure.waves
            assert waves is not None
            free = waves & passing
            if free.any():
                self._enqueue(departure.address, departure.mode, free)
            if (waves & ~passing).any():
                self._parked.append(Departure(departure.address, departure.mode, waves & ~passing))
