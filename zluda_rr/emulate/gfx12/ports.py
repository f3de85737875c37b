"""Byte access to the memories that vector instructions reach: global, LDS, scratch and flat.

A port takes the flat lane numbers (`wave * 32 + lane`) that access memory, one address each, and moves rows
of bytes. LDS and scratch accesses outside their allocation are faults; hardware would return zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.machine import LANES, PRIVATE_APERTURE, SHARED_APERTURE, Machine
from zluda_rr.emulate.memory import MemoryFault

Array = NDArray[Any]


class Port(Protocol):
    """One memory."""

    def load(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        """Rows `uint8[N, nbytes]`."""

    def store(self, lanes: Array, addresses: Array, data: Array) -> None:
        """Write rows `uint8[N, nbytes]`; where they overlap the higher lane wins."""


class GlobalPort:
    """Addresses are `uint64`."""

    __slots__ = ("_bus",)

    def __init__(self, machine: Machine) -> None:
        self._bus = machine.bus

    def load(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        return self._bus.load(addresses, nbytes)

    def store(self, lanes: Array, addresses: Array, data: Array) -> None:
        self._bus.store(addresses, data)


class BankPort:
    """A private region per lane of one array: LDS (by workgroup) or scratch (by lane). Addresses are offsets."""

    __slots__ = ("_bases", "_bytes", "_limit", "_name", "_words")

    def __init__(self, name: str, storage: Array, bases: Array, limit: int) -> None:
        self._name = name
        self._bytes = storage
        self._words = storage.view(np.uint32)
        self._bases = bases
        self._limit = limit

    def load(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        offsets = self._offsets(lanes, addresses, nbytes)
        if nbytes % 4 == 0 and not (offsets & 3).any():
            first = offsets >> 2
            if nbytes == 4:
                return np.asarray(self._words[first].reshape(-1, 1).view(np.uint8))
            return np.asarray(self._words[first[:, None] + np.arange(nbytes // 4)].view(np.uint8))
        return self._bytes[offsets[:, None] + np.arange(nbytes)]

    def store(self, lanes: Array, addresses: Array, data: Array) -> None:
        nbytes = data.shape[1]
        offsets = self._offsets(lanes, addresses, nbytes)
        if nbytes % 4 == 0 and not (offsets & 3).any():
            words = np.ascontiguousarray(data).view(np.uint32)
            self._words[(offsets >> 2)[:, None] + np.arange(nbytes // 4)] = words
            return
        self._bytes[offsets[:, None] + np.arange(nbytes)] = data

    def _offsets(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        if not len(addresses):
            return np.zeros(0, dtype=np.int64)
        local = addresses.astype(np.int64)
        if int(local.max()) + nbytes > self._limit or int(local.min()) < 0:
            bad = (local < 0) | (local + nbytes > self._limit)
            where = int(np.flatnonzero(bad)[0])
            lane = int(lanes[where])
            raise MemoryFault(
                f"{nbytes}-byte {self._name} access at offset {int(local[where]):#x} of {self._limit} bytes "
                f"(wave {lane // LANES}, lane {lane % LANES})"
            )
        return local + self._bases[lanes]


class FlatPort:
    """64-bit addresses whose high dword may mean LDS or scratch."""

    __slots__ = ("_parts", "_rest")

    def __init__(self, machine: Machine) -> None:
        self._parts: tuple[tuple[int, Port], ...] = (
            (SHARED_APERTURE, lds_port(machine)),
            (PRIVATE_APERTURE, scratch_port(machine)),
        )
        self._rest: Port = GlobalPort(machine)

    def load(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        result = np.empty((len(addresses), nbytes), dtype=np.uint8)

        def fetch(port: Port, chosen: Array, local: Array) -> None:
            result[chosen] = port.load(lanes[chosen], local, nbytes)

        self._each(addresses, fetch)
        return result

    def store(self, lanes: Array, addresses: Array, data: Array) -> None:
        self._each(addresses, lambda port, chosen, local: port.store(lanes[chosen], local, data[chosen]))

    def _each(self, addresses: Array, access: Callable[[Port, Array, Array], None]) -> None:
        high = (addresses >> np.uint64(32)).astype(np.int64)
        rest = np.ones(len(addresses), dtype=np.bool_)
        for aperture, port in self._parts:
            chosen = high == aperture
            if chosen.any():
                access(port, chosen, addresses[chosen] & np.uint64(0xFFFF_FFFF))
                rest &= ~chosen
        if rest.any():
            access(self._rest, rest, addresses[rest])


def lds_port(machine: Machine) -> BankPort:
    return BankPort("LDS", machine.lds, np.repeat(machine.lds_base, LANES), machine.lds_bytes)


def scratch_port(machine: Machine) -> BankPort:
    size = machine.scratch_bytes
    bases = np.arange(machine.waves * LANES, dtype=np.int64) * size
    return BankPort("scratch", machine.scratch, bases, size)
