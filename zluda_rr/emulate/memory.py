"""The device memory that both emulators share: one flat arena of named allocations.

A generic address equals a global address. Allocations never touch: at least `GUARD` bytes lie between two of
them, so that an access one element beyond an allocation is a fault and not a silent read of its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BASE = 0x7F00_0000_0000
"""Address of the first byte of the arena. Low addresses stay unmapped, so a null pointer faults."""
GUARD = 256
"""Least number of unmapped bytes before, between and after allocations."""
DEFAULT_CAPACITY = 1 << 30
"""Bytes of address space; untouched pages cost nothing."""

_READABLE = 1
_WRITABLE = 2

Addresses = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]


def gather(arena: Bytes, view: Words, offsets: NDArray[np.int64], nbytes: int) -> Bytes:
    """Bytes `[N, nbytes]` at N checked offsets into `arena`; `view` is the same bytes as words, for aligned rows."""
    if nbytes % 4 == 0 and not (offsets & 3).any():
        first = offsets >> 2
        words = np.empty((len(first), nbytes // 4), dtype=np.uint32)
        for index in range(nbytes // 4):
            words[:, index] = view[first + index]
        return words.view(np.uint8)
    gathered: Bytes = arena[offsets[:, None] + np.arange(nbytes)]
    return gathered


def scatter(arena: Bytes, view: Words, offsets: NDArray[np.int64], data: Bytes) -> None:
    """Write row i of `data` (`[N, nbytes]`) at offset i of `arena`; `view` as for `gather`; the last row wins."""
    if data.shape[1] % 4 == 0 and not (offsets & 3).any():
        first = offsets >> 2
        words = np.ascontiguousarray(data).view(np.uint32)
        if words.shape[1] == 1:
            view[first] = words[:, 0]
        else:
            view[first[:, None] + np.arange(words.shape[1])] = words
        return
    arena[offsets[:, None] + np.arange(data.shape[1])] = data


@dataclass(frozen=True, slots=True)
class Access:
    """What one lane asked for: `what` is load or store, `address` a generic address."""

    what: str
    address: int
    nbytes: int


class MemoryFault(RuntimeError):  # noqa: N818 - the hardware's word for it
    """An access outside every allocation, or a store to a read-only one. `access`: where it is one of global memory."""

    def __init__(self, message: str, access: Access | None = None) -> None:
        super().__init__(message)
        self.access = access


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a named buffer lies."""

    address: int
    nbytes: int
    writable: bool


class Memory(Protocol):
    """What kernels see: bytes at `uint64[N]` addresses. MemoryFault outside every allocation."""

    def load(self, addresses: Addresses, nbytes: int) -> Bytes:
        """Bytes `[N, nbytes]` at each of the N addresses; any alignment."""

    def store(self, addresses: Addresses, data: Bytes) -> None:
        """Write row i of `data` (`[N, nbytes]`) at address i; of rows that overlap the last one wins."""


class AddressSpace:
    """Little-endian memory with named allocations.

    Views returned by `view` stay valid for the life of the space: the arena never moves.
    """

    __slots__ = ("_allocations", "_arena", "_guard", "_tags", "_used", "_words")

    def __init__(self, capacity: int = DEFAULT_CAPACITY, guard: int = GUARD) -> None:
        """`guard`: least number of unmapped bytes around an allocation, at least `GUARD`."""
        capacity = (capacity + 15) & ~15
        self._arena = np.zeros(capacity, dtype=np.uint8)
        self._words = self._arena.view(np.uint32)
        # One tag per byte: checking the first and the last byte of an access is enough, since no access is
        # longer than a guard gap.
        self._tags = np.zeros(capacity, dtype=np.uint8)
        self._allocations: dict[str, Allocation] = {}
        self._guard = max(guard, GUARD)
        self._used = self._guard

    @property
    def allocations(self) -> Mapping[str, Allocation]:
        """Every allocation by name, in the order of their addresses."""
        return MappingProxyType(self._allocations)

    def allocate(
        self,
        name: str,
        nbytes: int,
        *,
        align: int = 256,
        data: Bytes | bytes | None = None,
        writable: bool = True,
    ) -> int:
        """Reserve `nbytes` zeroed bytes (or `data`, at most that long) and return their address.

        Raises ValueError for a name in use, an alignment that is no power of two, data that is too long, and
        when the arena is full.
        """
        if name in self._allocations:
            raise ValueError(f"allocation {name!r} exists")
        if align < 1 or align & (align - 1):
            raise ValueError(f"alignment {align} is no power of two")
        start = (self._used + align - 1) & ~(align - 1)
        end = start + nbytes
        if nbytes < 0 or end + self._guard > len(self._arena):
            raise ValueError(f"no room for {nbytes} bytes of {name!r} in an arena of {len(self._arena)}")
        content = data if isinstance(data, bytes) else b"" if data is None else data.tobytes()
        image = np.frombuffer(content, dtype=np.uint8)
        if len(image) > nbytes:
            raise ValueError(f"{len(image)} bytes of data for the {nbytes} bytes of {name!r}")
        self._arena[start : start + len(image)] = image
        self._tags[start:end] = _READABLE | (_WRITABLE if writable else 0)
        self._allocations[name] = Allocation(BASE + start, nbytes, writable)
        self._used = end + self._guard
        return BASE + start

    def view(self, name: str) -> Bytes:
        """The bytes of an allocation; writing to them writes to memory, also where kernels may not."""
        allocation = self._allocations[name]
        start = allocation.address - BASE
        return self._arena[start : start + allocation.nbytes]

    def name_of(self, address: int) -> str | None:
        """The allocation that begins at an address."""
        return next((name for name, a in self._allocations.items() if a.address == address), None)

    def copy(self) -> AddressSpace:
        """An independent space with the same allocations, addresses and bytes."""
        other = AddressSpace(len(self._arena), self._guard)
        other._arena[: self._used] = self._arena[: self._used]
        other._tags[: self._used] = self._tags[: self._used]
        other._allocations = dict(self._allocations)
        other._used = self._used
        return other

    def load(self, addresses: Addresses, nbytes: int) -> Bytes:
        """Bytes `[N, nbytes]` at each of the N addresses; any alignment."""
        return gather(self._arena, self._words, self._check(addresses, nbytes, _READABLE), nbytes)

    def store(self, addresses: Addresses, data: Bytes) -> None:
        """Write row i of `data` (`[N, nbytes]`) at address i; of rows that overlap the last one wins."""
        scatter(self._arena, self._words, self._check(addresses, data.shape[1], _WRITABLE), data)

    def load_u32(self, addresses: Addresses) -> Words:
        """Words `[N]` at word-aligned addresses; a misaligned one is a fault."""
        words: Words = self._words[self._check_aligned(addresses, _READABLE)]
        return words

    def store_u32(self, addresses: Addresses, words: Words) -> None:
        """Write `words` (`[N]`) at word-aligned addresses; of equal addresses the last one wins."""
        self._words[self._check_aligned(addresses, _WRITABLE)] = words

    def _check_aligned(self, addresses: Addresses, needed: int) -> NDArray[np.int64]:
        offsets = self._check(addresses, 4, needed)
        misaligned = (offsets & 3) != 0
        if misaligned.any():
            address = int(addresses[misaligned][0])
            what = "load" if needed == _READABLE else "store"
            raise MemoryFault(
                f"misaligned 4-byte access at {address:#x} ({self._nearest(address)})", Access(what, address, 4)
            )
        return offsets >> 2

    def _check(self, addresses: Addresses, nbytes: int, needed: int) -> NDArray[np.int64]:
        """Offsets into the arena; MemoryFault names the first address whose bytes lack the `needed` tag."""
        # Unsigned subtraction wraps addresses below BASE to huge offsets, so one comparison bounds both ends.
        offsets = addresses - np.uint64(BASE)
        inside = offsets < np.uint64(self._used)
        if not inside.all():
            self._fault(int(addresses[~inside][0]), nbytes, needed)
        signed = offsets.view(np.int64)
        good = self._tags[signed] & self._tags[signed + (nbytes - 1)] & needed
        if not good.all():
            self._fault(int(addresses[good == 0][0]), nbytes, needed)
        return signed

    def _fault(self, address: int, nbytes: int, needed: int) -> None:
        what = "load" if needed == _READABLE else "store"
        raise MemoryFault(
            f"{nbytes}-byte {what} at {address:#x}: {self._nearest(address)}", Access(what, address, nbytes)
        )

    def _nearest(self, address: int) -> str:
        """Where `address` lies relative to the closest allocation."""
        if not self._allocations:
            return "no allocation exists"

        def distance(item: tuple[str, Allocation]) -> int:
            start = item[1].address
            return max(start - address, address - (start + item[1].nbytes - 1), 0)

        name, best = min(self._allocations.items(), key=distance)
        place = f"[{best.address:#x}, {best.address + best.nbytes:#x})"
        if address < best.address:
            return f"{best.address - address} bytes before {name!r} {place}"
        if address >= best.address + best.nbytes:
            return f"{address - best.address - best.nbytes} bytes past the end of {name!r} {place}"
        access = "" if best.writable else " read-only"
        return f"{address - best.address} bytes into{access} {name!r} {place}"
