"""Architectural state of the waves of one launch (or one batch of whole workgroups of it).

Register files are arrays over all waves, so that one numpy call executes an instruction for every wave:
VGPRs are `uint32[256, waves, 32]`, scalar registers `uint32[rows, waves]`, indexed by hardware operand code.
Source of register codes and of the MODE layout: AMD "RDNA4" Instruction Set Architecture, chapters 3 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bus import Bus
from zluda_rr.emulate.gfx12.floats import half_table
from zluda_rr.emulate.gfx12.inst import Special

Array = NDArray[Any]

LANES = 32
VGPRS = 256
FIRST_TTMP = 108
SCC_ROW = 128
"""Row of the scalar file that holds SCC (0 or 1)."""
SINK_ROW = 129
"""Row that takes writes to `null`."""
SCALAR_ROWS = 130
SHARED_APERTURE = 0x0001_0000
"""High dword of a flat address that means LDS."""
PRIVATE_APERTURE = 0x0002_0000
"""High dword of a flat address that means scratch."""
ENDED = 1 << 60
UNSET = 0xDEAD_BEEF
"""What registers, LDS and scratch hold before the first write; the hardware promises nothing."""


class EmulationError(RuntimeError):
    """An instruction that the emulator does not know; ProgramFault: what no hardware would survive."""


class ProgramFault(EmulationError):  # noqa: N818 - named as MemoryFault is
    """A program that does what hardware would not survive: it is at fault, not the emulator."""


class Variant(IntEnum):
    """How much of the machine an instruction stream covers; each has its own compiled steps."""

    FULL = 0
    """Every lane of every wave."""
    LANES = 1
    """Every wave; EXEC masks some lanes."""
    WAVES = 2
    """Some waves only."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The MODE register bits that change results: rounding (0 nearest even, 1 up, 2 down, 3 to zero),
    denormals (bit 0 keep inputs, bit 1 keep outputs) and FP16_OVFL."""

    round_32: int = 0
    round_16_64: int = 0
    denorm_32: int = 3
    denorm_16_64: int = 3
    fp16_ovfl: bool = False

    @classmethod
    def from_bits(cls, bits: int) -> Mode:
        return cls(bits & 3, bits >> 2 & 3, bits >> 4 & 3, bits >> 6 & 3, bool(bits >> 23 & 1))

    @property
    def bits(self) -> int:
        """The register value as `s_getreg_b32` reads it."""
        rounds = self.round_32 | self.round_16_64 << 2
        return rounds | self.denorm_32 << 4 | self.denorm_16_64 << 6 | int(self.fp16_ovfl) << 23


class Pool:
    """Work arrays that instructions share: they run one after another, so a slot is free again at the next."""

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, tuple[int, ...], str], Array] = {}

    def get(self, slot: int, shape: tuple[int, ...], dtype: str) -> Array:
        """The array of a slot; a step list may use a slot once only."""
        key = (slot, shape, dtype)
        found = self._arrays.get(key)
        if found is None:
            found = self._arrays[key] = np.zeros(shape, dtype=dtype)
        return found


class Machine:
    """Registers, LDS and scratch of `groups * waves_per_group` waves, in workgroup order."""

    __slots__ = (
        "active", "all_lanes", "all_waves", "arrivals", "bus", "code_base", "groups", "halves", "invalid",
        "lane_mask", "lanes", "lds", "lds_base", "lds_bytes", "mode", "model", "pool", "scratch",
        "scratch_bytes", "sgpr", "thin_lane_mask", "vgpr", "waits", "waves", "waves_per_group",
    )  # fmt: skip

    def __init__(self, groups: int, waves_per_group: int, *, lds_bytes: int, scratch_bytes: int, bus: Bus) -> None:
        waves = groups * waves_per_group
        self.groups = groups
        self.waves_per_group = waves_per_group
        self.waves = waves
        self.bus = bus
        self.model = "exact"
        self.mode = Mode()
        self.code_base = 0
        """Address of the code object's image: program counters in registers are that much larger."""
        self.lds_bytes = (lds_bytes + 15) & ~15
        self.scratch_bytes = (scratch_bytes + 15) & ~15
        self.vgpr = np.empty((VGPRS, waves, LANES), dtype=np.uint32)
        self.sgpr = np.empty((SCALAR_ROWS, waves), dtype=np.uint32)
        self.lds = np.empty(groups * self.lds_bytes, dtype=np.uint8)
        self.lds_base = np.repeat(np.arange(groups, dtype=np.int64) * self.lds_bytes, waves_per_group)
        self.scratch = np.empty(waves * LANES * self.scratch_bytes, dtype=np.uint8)
        self.active = np.ones(waves, dtype=np.bool_)
        self.lanes = np.ones((waves, LANES), dtype=np.bool_)
        self.lane_mask = np.empty((waves, LANES), dtype=np.uint32)
        self.thin_lane_mask = np.empty((waves, LANES), dtype=np.uint16)
        self.arrivals = np.zeros(waves, dtype=np.int64)
        """Workgroup barriers each wave has signalled; `ENDED` for waves that have ended."""
        self.waits = np.zeros(waves, dtype=np.int64)
        """Workgroup barriers each wave has waited for."""
        self.invalid: list[bool] = []
        self.pool = Pool()
        self.halves = half_table()
        self.all_waves = True
        self.all_lanes = True
        self.reset()

    def reset(self) -> None:
        """State of waves that have not started: EXEC full, every register without a defined value."""
        self.vgpr.fill(UNSET)
        self.sgpr.fill(UNSET)
        self.lds.view(np.uint32).fill(UNSET)
        self.scratch.view(np.uint32).fill(UNSET)
        self.sgpr[Special.EXEC_LO] = 0xFFFF_FFFF
        self.sgpr[Special.EXEC_HI] = 0
        self.sgpr[Special.NULL] = 0
        self.sgpr[SCC_ROW] = 0
        self.arrivals.fill(0)
        self.waits.fill(0)
        self.activate(np.ones(self.waves, dtype=np.bool_))

    def activate(self, waves: NDArray[np.bool_]) -> None:
        """Make `waves` the ones that instructions apply to."""
        np.copyto(self.active, waves)
        self.all_waves = bool(waves.all())
        self.refresh_lanes()

    def refresh_lanes(self) -> None:
        """Derive the lane masks from EXEC and the active waves; to be called after either changed."""
        execution = self.sgpr[Special.EXEC_LO]
        bits = np.unpackbits(execution.view(np.uint8).reshape(self.waves, 4), axis=1, bitorder="little")
        np.copyto(self.lanes, bits.view(np.bool_))
        if not self.all_waves:
            self.lanes &= self.active[:, None]
        self.all_lanes = bool(self.lanes.all())
        np.negative(self.lanes.view(np.uint8).astype(np.uint32), out=self.lane_mask)
        np.copyto(self.thin_lane_mask, self.lane_mask, casting="unsafe")

    def passes_barrier(self) -> NDArray[np.bool_]:
        """Waves whose last signalled barrier every living wave of the workgroup has signalled too."""
        by_group = self.arrivals.reshape(self.groups, self.waves_per_group)
        complete = by_group.min(axis=1)
        return np.asarray((by_group <= complete[:, None]).reshape(-1))

    @property
    def variant(self) -> Variant:
        if self.all_lanes:
            return Variant.FULL
        return Variant.LANES if self.all_waves else Variant.WAVES
