"""Memory as a wave sees it: the caller's `AddressSpace`, plus what a loader adds for one launch.

The loader's part (code object image, kernel arguments) lies below the address space, so that the caller's
memory gains no allocations from a launch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import Memory, MemoryFault

LOADER_BASE = 0x7E00_0000_0000
"""First byte of the loader's region."""

Addresses = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


class Bus:
    """Loads and stores of `uint64[N]` addresses; the loader's region is read-only."""

    __slots__ = ("_image", "memory")

    def __init__(self, memory: Memory, image: bytes) -> None:
        self.attach(memory, image)

    def attach(self, memory: Memory, image: bytes) -> None:
        """Put another launch's memory in place."""
        self.memory = memory
        self._image = np.frombuffer(image, dtype=np.uint8)

    def load(self, addresses: Addresses, nbytes: int) -> Bytes:
        """Bytes `[N, nbytes]`; MemoryFault outside every allocation."""
        offsets = addresses - np.uint64(LOADER_BASE)
        own = offsets < np.uint64(len(self._image))
        if not own.any():
            return self.memory.load(addresses, nbytes)
        result = np.empty((len(addresses), nbytes), dtype=np.uint8)
        last = int(offsets[own].max()) + nbytes
        if last > len(self._image):
            raise MemoryFault(f"{nbytes}-byte load past the end of the code object and its arguments")
        result[own] = self._image[offsets[own].astype(np.int64)[:, None] + np.arange(nbytes)]
        if not own.all():
            result[~own] = self.memory.load(addresses[~own], nbytes)
        return result

    def store(self, addresses: Addresses, data: Bytes) -> None:
        """Write rows `[N, nbytes]`; later rows win where they overlap."""
        self.memory.store(addresses, data)
