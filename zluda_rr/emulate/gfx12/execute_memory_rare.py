"""Buffer instructions, loads and stores by lane number, and the LDS counters.

Source: AMD "RDNA4" Instruction Set Architecture, chapters 9 to 12. Of the buffer resource the base, stride,
record count and the out-of-range rule are used; swizzling and formats are not supported. Out of range, loads
give 0 and stores are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import transfer
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.execute_memory import SMALL, SMALL_STORES, WIDTHS
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.machine import LANES, EmulationError, Machine, Variant
from zluda_rr.emulate.gfx12.ports import GlobalPort, Port, lds_port
from zluda_rr.emulate.gfx12.table import Build

Array = NDArray[Any]

_M0 = Operand(Kind.SPECIAL, int(Special.M0))
_OUTSIDE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@dataclass(frozen=True, slots=True)
class _Resource:
    """The fields of a buffer resource (V#), one value per wave."""

    base: Array
    stride: Array
    records: Array
    rule: Array
    """0 structured (index and offset checked), 1 index only, 2 no records at all, 3 raw bytes."""


def _resource(words: Array) -> _Resource:
    """From `uint32[4, waves]`."""
    base = words[0].astype(np.uint64) | (words[1] & np.uint32(0xFFFF)).astype(np.uint64) << np.uint64(32)
    if ((words[1] >> np.uint32(30)) & np.uint32(3)).any():
        raise EmulationError("swizzled buffer resources are not supported")
    stride = ((words[1] >> np.uint32(16)) & np.uint32(0x3FFF)).astype(np.uint64)
    return _Resource(base, stride, words[2].astype(np.uint64), words[3] >> np.uint32(28) & np.uint32(3))


class _RangePort:
    """Global memory where the address `_OUTSIDE` reads 0 and swallows writes."""

    __slots__ = ("_port",)

    def __init__(self, machine: Machine) -> None:
        self._port: Port = GlobalPort(machine)

    def load(self, lanes: Array, addresses: Array, nbytes: int) -> Array:
        inside = addresses != _OUTSIDE
        data = np.zeros((len(addresses), nbytes), dtype=np.uint8)
        if inside.any():
            data[inside] = self._port.load(lanes[inside], addresses[inside], nbytes)
        return data

    def store(self, lanes: Array, addresses: Array, data: Array) -> None:
        inside = addresses != _OUTSIDE
        if inside.any():
            self._port.store(lanes[inside], addresses[inside], data[inside])


def _words(b: Binder, op: Operand, count: int) -> Array:
    """`count` consecutive scalar registers, `uint32[count, waves]` (a view)."""
    first = b.row(op)
    return b.machine.sgpr[first : first + count]


def _buffer_address(b: Binder, nbytes: int) -> transfer.Address:
    """Addresses, or `_OUTSIDE` for lanes whose access is out of range."""
    *_, vaddr, resource, soffset = b.inst.src
    words = _words(b, resource, 4)
    scalar = np.broadcast_to(b.scalar_operand(soffset, "u"), b.machine.waves)
    mods = b.inst.mods
    parts = [] if vaddr.kind is Kind.OFF else transfer.rows(b, vaddr, vaddr.width)
    index_row = parts.pop(0) if mods["idxen"] else None
    offset_row = parts.pop(0) if mods["offen"] else None
    fixed = np.uint64(mods["offset"])

    def address(lanes: Array) -> Array:
        wave = lanes // LANES
        r = _resource(words)
        zero = np.zeros(len(lanes), dtype=np.uint64)
        index = zero if index_row is None else index_row[lanes].astype(np.uint64)
        offset = fixed + (zero if offset_row is None else offset_row[lanes].astype(np.uint64))
        rule, records, stride = r.rule[wave], r.records[wave], r.stride[wave]
        extra = scalar[wave].astype(np.uint64)
        end = offset + np.uint64(nbytes)
        bad = np.select(
            [rule == 0, rule == 1, rule == 2],
            [(index >= records) | (end > stride), index >= records, records == 0],
            end + extra + index * stride > records,
        )
        return np.where(bad, _OUTSIDE, r.base[wave] + extra + index * stride + offset)

    return address


def _buffer_table() -> dict[str, Build]:
    table: dict[str, Build] = {}

    def load(nbytes: int) -> Build:
        return lambda b: transfer.load(b, _RangePort(b.machine), _buffer_address(b, nbytes), nbytes, b.inst.dst[0])

    def store(nbytes: int) -> Build:
        return lambda b: transfer.store(b, _RangePort(b.machine), _buffer_address(b, nbytes), nbytes, b.inst.src[0])

    def load_small(dtype: str, half: int | None) -> Build:
        return lambda b: transfer.load_small(b, _RangePort(b.machine), _buffer_address(b, int(dtype[1])), dtype, half)

    def store_small(nbytes: int, shift: int) -> Build:
        return lambda b: transfer.store_small(
            b, _RangePort(b.machine), _buffer_address(b, nbytes), nbytes, shift, b.inst.src[0]
        )

    for bits in WIDTHS:
        table[f"buffer_load_b{bits}"] = load(bits // 8)
        table[f"buffer_store_b{bits}"] = store(bits // 8)
    for name, (dtype, half) in SMALL.items():
        table[f"buffer_load_{name}"] = load_small(dtype, half)
    for name, (nbytes, shift) in SMALL_STORES.items():
        table[f"buffer_store_{name}"] = store_small(nbytes, shift)
    for name, (dtype, update) in transfer.updates().items():
        table[f"buffer_atomic_{name}"] = _buffer_atomic(name, dtype, update)
    return table


def _buffer_atomic(name: str, dtype: str, update: transfer.Update) -> Build:
    def build(b: Binder) -> None:
        data = b.inst.src[0]
        dwords = int(dtype[1]) // 4
        operands: tuple[Operand, ...] = (data,)
        if name.startswith("cmpswap"):
            operands = (data, Operand(Kind.VGPR, data.index + dwords))
        address = _buffer_address(b, 4 * dwords)
        transfer.atomic(b, _RangePort(b.machine), address, dtype, update, operands)

    return build


def _scalar_buffer_load(element: str, count: int) -> Build:
    """s_buffer_load: bytes past the last record read as 0, dword by dword."""
    nbytes, signed = int(element[1]), element[0] == "i"

    def build(b: Binder) -> None:
        machine = b.machine
        words, extra = _words(b, b.inst.src[0], 4), b.scalar(1, "u")
        first = b.row(b.inst.dst[0])
        target = machine.sgpr[first : first + count]
        fixed = np.uint64(b.inst.mods["offset"])
        port = _RangePort(machine)
        partial_waves = b.variant is Variant.WAVES

        def act() -> None:
            r = _resource(words)
            start = np.broadcast_to(extra, machine.waves).astype(np.uint64) + fixed
            start = start & np.uint64(0xFFFF_FFFF_FFFF_FFFC) if nbytes == 4 else start
            size = np.where(r.stride == 0, r.records, r.records * r.stride)
            chosen = machine.active if partial_waves else np.ones(machine.waves, dtype=np.bool_)
            for index in range(count):
                place = start + np.uint64(index * nbytes)
                address = np.where(place + np.uint64(nbytes) > size, _OUTSIDE, r.base + place)[chosen]
                data = port.load(np.flatnonzero(chosen), address, nbytes).view(element)[:, 0]
                target[index, chosen] = data.astype("i4").view(np.uint32) if signed else data.astype("u4")

        b.act.append(act)

    return build


def _lane_offset(lanes: Array) -> Array:
    return (lanes % LANES).astype(np.int64) * 4


def _lds_by_lane(b: Binder) -> transfer.Address:
    """M0 plus the offset plus four times the lane."""
    start = np.broadcast_to(b.scalar_operand(_M0, "u"), b.machine.waves)
    offset = b.inst.mods["offset"]
    return lambda lanes: (start[lanes // LANES] & 0xFFFF).astype(np.int64) + offset + _lane_offset(lanes)


def _global_by_lane(b: Binder) -> transfer.Address:
    """Scalar base plus the offset plus four times the lane."""
    base = np.broadcast_to(b.scalar_operand(b.inst.src[-1], "q"), b.machine.waves)
    offset = np.uint64(b.inst.mods["offset"] & 0xFFFF_FFFF_FFFF_FFFF)
    return lambda lanes: base[lanes // LANES] + offset + _lane_offset(lanes).astype(np.uint64)


def _count(step: int) -> Build:
    """ds_append and ds_consume: the counter at M0 plus the offset moves by the number of enabled lanes of
    each wave in turn; every lane receives the value before."""

    def build(b: Binder) -> None:
        machine = b.machine
        start = np.broadcast_to(b.scalar_operand(_M0, "u"), machine.waves)
        offset, port = b.inst.mods["offset"], lds_port(machine)
        before = b.work((machine.waves, LANES), "u4")

        def act() -> Array:
            for wave in np.flatnonzero(machine.lanes.any(axis=1)):
                lane = np.array([wave * LANES])
                place = np.array([(int(start[wave]) & 0xFFFF) + offset], dtype=np.int64)
                old = port.load(lane, place, 4).view(np.uint32)
                before[wave] = old[0, 0]
                new = (int(old[0, 0]) + step * int(machine.lanes[wave].sum())) & 0xFFFF_FFFF
                port.store(lane, place, np.array([[new]], dtype=np.uint32).view(np.uint8))
            return before

        b.emit("u", act)

    return build


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {
        **_buffer_table(),
        "ds_append": _count(1),
        "ds_consume": _count(-1),
        "ds_load_addtid_b32": lambda b: transfer.load(b, lds_port(b.machine), _lds_by_lane(b), 4, b.inst.dst[0]),
        "ds_store_addtid_b32": lambda b: transfer.store(b, lds_port(b.machine), _lds_by_lane(b), 4, b.inst.src[0]),
        "global_load_addtid_b32": lambda b: transfer.load(
            b, GlobalPort(b.machine), _global_by_lane(b), 4, b.inst.dst[0]
        ),
        "global_store_addtid_b32": lambda b: transfer.store(
            b, GlobalPort(b.machine), _global_by_lane(b), 4, b.inst.src[0]
        ),
    }
    for bits in (32, 64, 96, 128, 256, 512):
        table[f"s_buffer_load_b{bits}"] = _scalar_buffer_load("u4", bits // 32)
    for element in ("u1", "i1", "u2", "i2"):
        table[f"s_buffer_load_{element[0]}{8 * int(element[1])}"] = _scalar_buffer_load(element, 1)
    return table
