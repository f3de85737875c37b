"""Device memory that the C library allocates and the emulator reads and writes: an arena shared through a file.

In front of the arena lies the library's table (native/arena.c): one 16-bit word per granule of 256 bytes with the
number of valid bytes and two flags. No access is longer than the free granule between two blocks, so its first and last
byte decide whether it is good.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import Addresses, Bytes, MemoryFault, gather, scatter

__all__ = ["DeviceMemory"]

_SHIFT, _GRANULE = 8, 256
_NEAR = 1 << 16
"""Granules that the text of a fault looks at at once."""
_VALID = np.uint16(0x1FF)
_FIRST, _READ_ONLY = np.uint16(1 << 14), np.uint16(1 << 15)


class DeviceMemory:
    """The arena as kernels see it (`zluda_rr.emulate.memory.Memory`) and as the loader does."""

    __slots__ = ("_arena", "_base", "_size", "_table", "_words")

    def __init__(self, descriptor: int, base: int, size: int, table_bytes: int) -> None:
        """Map the file: `table_bytes` of table, then the arena of `size` bytes, which the program has at `base`."""
        self._base = base
        self._size = size
        mapped = mmap.mmap(descriptor, table_bytes + size)
        self._table = np.frombuffer(mapped, np.uint16, size // _GRANULE)
        self._arena = np.frombuffer(mapped, np.uint8, size, table_bytes)
        self._words = self._arena.view(np.uint32)

    def load(self, addresses: Addresses, nbytes: int) -> Bytes:
        """See Memory."""
        return gather(self._arena, self._words, self._check(addresses, nbytes, store=False), nbytes)

    def store(self, addresses: Addresses, data: Bytes) -> None:
        """See Memory."""
        scatter(self._arena, self._words, self._check(addresses, data.shape[1], store=True), data)

    def write(self, address: int, data: bytes) -> None:
        """The loader's own write, also where kernels may only read. ValueError outside the arena."""
        start = address - self._base
        if not 0 <= start <= self._size - len(data):
            raise ValueError(f"{len(data)} bytes at {address:#x}: not in the arena")
        self._arena[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def protect(self, address: int, nbytes: int) -> None:
        """Make every granule of a range read-only for kernels, until the library frees it."""
        start = address - self._base
        self._table[start >> _SHIFT : (start + nbytes + _GRANULE - 1) >> _SHIFT] |= _READ_ONLY

    def _check(self, addresses: Addresses, nbytes: int, *, store: bool) -> NDArray[np.int64]:
        """Offsets into the arena; MemoryFault names the first address that is not good."""
        # Unsigned subtraction wraps addresses below the arena to huge offsets: one comparison bounds both ends.
        offsets = addresses - np.uint64(self._base)
        inside = offsets < np.uint64(self._size - _GRANULE)
        if not inside.all():
            self._fault(int(addresses[~inside][0]), nbytes, store)
        first = offsets.view(np.int64)
        last = first + (nbytes - 1)
        words, ends = self._table[first >> _SHIFT], self._table[last >> _SHIFT]
        good = ((words & _VALID) > (first & (_GRANULE - 1))) & ((ends & _VALID) > (last & (_GRANULE - 1)))
        if store:
            good &= (words | ends) & _READ_ONLY == 0
        if not good.all():
            self._fault(int(addresses[~good][0]), nbytes, store)
        return first

    def _fault(self, address: int, nbytes: int, store: bool) -> None:
        what = "store" if store else "load"
        raise MemoryFault(f"{nbytes}-byte {what} at {address:#x}: {self._place(address)}")

    def _place(self, address: int) -> str:
        """Where an address lies relative to the closest block."""
        offset = address - self._base
        if not 0 <= offset < self._size:
            return "not in the device's memory"
        blocks = self._blocks_near(offset >> _SHIFT)
        if not blocks:
            return "far from everything that is allocated"
        start, size = min(blocks, key=lambda b: max(b[0] - address, address - (b[0] + b[1] - 1), 0))
        block = f"the {size} bytes at {start:#x}"
        if address < start:
            return f"{start - address} bytes before {block}"
        if address >= start + size:
            return f"{address - start - size} bytes past the end of {block}"
        read_only = bool(self._table[offset >> _SHIFT] & _READ_ONLY)
        return f"{address - start} bytes into {block}" + (", which kernels may only read" if read_only else "")

    def _blocks_near(self, granule: int) -> list[tuple[int, int]]:
        """(address, bytes) of the block that begins last before a granule's end, and of the first one behind it.

        Looks no further than `_NEAR` granules: a read would put pages under the table's untouched parts.
        """
        low = max(granule - _NEAR, 0)
        starts = low + np.flatnonzero(self._table[low : granule + _NEAR] & _FIRST)
        after = int(np.searchsorted(starts, granule, side="right"))
        return [
            (self._base + (int(start) << _SHIFT), self._bytes_from(int(start)))
            for start in starts[max(after - 1, 0) : after + 1]
        ]

    def _bytes_from(self, start: int) -> int:
        """Bytes of the block that begins at a granule: whole ones, and the last in part."""
        total = 0
        for first in range(start, len(self._table), _NEAR):
            valid = self._table[first : first + _NEAR] & _VALID
            partial = np.flatnonzero(valid != _GRANULE)
            if len(partial):
                last = int(partial[0])
                return total + last * _GRANULE + int(valid[last])
            total += len(valid) * _GRANULE
        return total
