"""The state of a running grid: registers, memories and special registers, as arrays over [warps, 32
lanes]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.emulate.ptx.kinds import Array, Mask

LANES = 32
SHARED_WINDOW = 0x7E00_0000_0000
"""Generic address of shared byte 0, the same for every block."""
LOCAL_WINDOW = 0x7D00_0000_0000
"""Generic address of a thread's first local byte."""
WINDOW_BYTES = 1 << 32


@dataclass(frozen=True, slots=True)
class Launch:
    """Grid and block extents (x, y, z), and the bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads // LANES)


@dataclass(slots=True)
class ExternCall:
    """What the Python model of an extern function sees.

    `arguments` are the arrays [warps, 32] of the parameters, `active` marks the calling lanes, `shared` is
    uint8[blocks, bytes] (row `block_of_warp[w]` belongs to warp w), `memory` the device memory. The model
    returns the result register, uint32/uint64[warps, 32], or None for a function without one.
    """

    arguments: tuple[Array, ...]
    active: Mask
    shared: NDArray[np.uint8]
    block_of_warp: NDArray[np.int64]
    memory: AddressSpace


Extern = Callable[[ExternCall], Array | None]


class Callee(Protocol):
    """A function of the module. Arguments and results lie in the thread's local memory, as (offset, bytes)."""

    @property
    def arguments(self) -> tuple[tuple[int, int], ...]:
        """Where the function finds its parameters."""

    @property
    def results(self) -> tuple[tuple[int, int], ...]:
        """Where it leaves its results."""

    def run(self, machine: Machine, mask: Mask | None) -> None:
        """Execute it for the lanes of `mask` of its caller."""


@dataclass(slots=True)
class Machine:
    """One chunk of a grid. `r` holds a slot per register, constant and special register; arrays in it are
    never changed in place, so results may share them."""

    shape: tuple[int, int]
    r: list[Array]
    memory: AddressSpace
    params: NDArray[np.uint8]
    shared: NDArray[np.uint8]  # [blocks, bytes]
    local: NDArray[np.uint8]  # [warps * 32, bytes]
    block_of_warp: NDArray[np.int64]
    live: Mask
    model: str
    externs: Mapping[str, Extern]
    shared_limit: int  # bytes in use; the arrays are padded
    local_limit: int
    special: Mapping[str, Array] = field(default_factory=dict)
    functions: Mapping[str, Callee] = field(default_factory=dict)
    awaited: Mask | None = None  # in a function: the threads that its barriers wait for, which may not all have called
    full: Mask = field(init=False)
    blank: list[Array] = field(init=False)
    captured: dict[int, tuple[Array, ...]] = field(default_factory=dict)
    poison: dict[int, Mask] = field(init=False, default_factory=dict)  # lanes whose value is undefined, by slot

    def __post_init__(self) -> None:
        self.full = np.ones(self.shape, dtype=np.bool_)
        self.blank = list(self.r)

    def put(self, slot: int, value: Array, mask: Mask | None) -> None:
        """Write a result of the slot's storage dtype to the lanes of `mask` (all for None)."""
        self.r[slot] = value if mask is None else np.where(mask, value, self.r[slot])

    def shared_rows(self) -> NDArray[np.int64]:
        """Offset of each lane's block in the flat shared array, [warps, 1]."""
        rows: NDArray[np.int64] = (self.block_of_warp * self.shared.shape[1])[:, None]
        return rows

    def load(self, space: str, addresses: NDArray[np.uint64], nbytes: int, mask: Mask | None) -> NDArray[np.uint8]:
        """Bytes [N, nbytes] for the N lanes of `mask`, in order, from addresses [warps, 32]."""
        where = _select(addresses, mask)
        _check_alignment(where, nbytes)
        if space == "generic":
            return self._load_generic(addresses, where, nbytes, mask)
        if space == "global":
            return self.memory.load(where, nbytes)
        flat, offsets = self._private(space, addresses, nbytes, mask)
        gathered: NDArray[np.uint8] = flat[offsets[:, None] + np.arange(nbytes)]
        return gathered

    def store(self, space: str, addresses: NDArray[np.uint64], data: NDArray[np.uint8], mask: Mask | None) -> None:
        """Write data [N, nbytes] of the N lanes of `mask`; of overlapping stores the highest lane wins."""
        nbytes = data.shape[1]
        where = _select(addresses, mask)
        _check_alignment(where, nbytes)
        if space == "generic":
            self._store_generic(addresses, where, data, mask)
        elif space == "global":
            self.memory.store(where, data)
        else:
            flat, offsets = self._private(space, addresses, nbytes, mask)
            flat[offsets[:, None] + np.arange(nbytes)] = data

    def _private(
        self, space: str, addresses: NDArray[np.uint64], nbytes: int, mask: Mask | None
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The flat array behind shared or local memory and the lanes' offsets into it, checked."""
        if space == "shared":
            flat, limit = self.shared.reshape(-1), self.shared_limit
            rows = np.broadcast_to(self.shared_rows(), self.shape)
        else:
            flat, limit = self.local.reshape(-1), self.local_limit
            rows = np.arange(self.shape[0] * LANES, dtype=np.int64).reshape(self.shape) * self.local.shape[1]
        where = _select(addresses, mask)
        beyond = out_of_range(where, nbytes, limit)
        if beyond.any():
            address = int(where[beyond][0])
            raise MemoryFault(f"{nbytes}-byte access at {address:#x} of {space} memory, which has {limit} bytes")
        return flat, where.astype(np.int64) + _select(rows, mask)

    def _parts(self, where: NDArray[np.uint64], mask: Mask | None) -> list[tuple[str, int, NDArray[np.bool_]]]:
        """Which of the selected generic addresses lie in which space: (space, window, selection of N)."""
        shared = (where >= SHARED_WINDOW) & (where < SHARED_WINDOW + WINDOW_BYTES)
        local = (where >= LOCAL_WINDOW) & (where < LOCAL_WINDOW + WINDOW_BYTES)
        parts = [("shared", SHARED_WINDOW, shared), ("local", LOCAL_WINDOW, local)]
        return [*parts, ("global", 0, ~(shared | local))]

    def _load_generic(
        self, addresses: NDArray[np.uint64], where: NDArray[np.uint64], nbytes: int, mask: Mask | None
    ) -> NDArray[np.uint8]:
        data = np.empty((len(where), nbytes), dtype=np.uint8)
        for space, window, chosen in self._parts(where, mask):
            if chosen.any():
                lanes = self._lanes(chosen, mask)
                data[chosen] = self.load(space, addresses - np.uint64(window), nbytes, lanes)
        return data

    def _store_generic(
        self,
        addresses: NDArray[np.uint64],
        where: NDArray[np.uint64],
        data: NDArray[np.uint8],
        mask: Mask | None,
    ) -> None:
        for space, window, chosen in self._parts(where, mask):
            if chosen.any():
                lanes = self._lanes(chosen, mask)
                self.store(space, addresses - np.uint64(window), data[chosen], lanes)

    def _lanes(self, chosen: NDArray[np.bool_], mask: Mask | None) -> Mask:
        lanes = np.zeros(self.shape, dtype=np.bool_)
        lanes[self.full if mask is None else mask] = chosen
        return lanes


def _select(values: Array, mask: Mask | None) -> Array:
    return values.reshape(-1) if mask is None else values[mask]


def out_of_range(addresses: NDArray[np.uint64], nbytes: int, limit: int) -> Mask:
    """Which accesses do not lie inside [0, limit); no sum that could wrap."""
    if nbytes > limit:
        return np.ones(addresses.shape, dtype=np.bool_)
    return addresses > np.uint64(limit - nbytes)


def _check_alignment(addresses: NDArray[np.uint64], nbytes: int) -> None:
    misaligned = (addresses & np.uint64(nbytes - 1)) != 0
    if misaligned.any():
        raise MemoryFault(f"misaligned {nbytes}-byte access at {int(addresses[misaligned][0]):#x}")
