"""LDS instructions, and the lane exchanges that go through the LDS unit without touching memory.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 11. 2addr offsets count elements, stride64 ones 64
elements. ds_bpermute reads 0 from lanes that EXEC disables; in ds_permute the highest writer wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import transfer
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.lanes import swizzle
from zluda_rr.emulate.gfx12.machine import LANES
from zluda_rr.emulate.gfx12.ports import lds_port
from zluda_rr.emulate.gfx12.table import Build

Array = NDArray[Any]

_SMALL = {
    "u8": ("u1", None),
    "i8": ("i1", None),
    "u16": ("u2", None),
    "i16": ("i2", None),
    "u8_d16": ("u1", 0),
    "i8_d16": ("i1", 0),
    "u16_d16": ("u2", 0),
    "u8_d16_hi": ("u1", 1),
    "i8_d16_hi": ("i1", 1),
    "u16_d16_hi": ("u2", 1),
}
_SMALL_STORES = {"b8": (1, 0), "b16": (2, 0), "b8_d16_hi": (1, 16), "b16_d16_hi": (2, 16)}


def _address(b: Binder, offset: int) -> transfer.Address:
    """Base and offset add up in 32 bits: LLVM relies on a negative base wrapping."""
    index = transfer.rows(b, b.inst.src[0], 1)[0]
    return lambda lanes: (index[lanes] + np.uint32(offset)).astype(np.int64)


def _own_offset(b: Binder) -> transfer.Address:
    return _address(b, b.inst.mods.get("offset", 0))


def _load(nbytes: int) -> Build:
    return lambda b: transfer.load(b, lds_port(b.machine), _own_offset(b), nbytes, b.inst.dst[0])


def _store(nbytes: int) -> Build:
    return lambda b: transfer.store(b, lds_port(b.machine), _own_offset(b), nbytes, b.inst.src[1])


def _load_small(dtype: str, half: int | None) -> Build:
    return lambda b: transfer.load_small(b, lds_port(b.machine), _own_offset(b), dtype, half)


def _store_small(nbytes: int, shift: int) -> Build:
    def build(b: Binder) -> None:
        transfer.store_small(b, lds_port(b.machine), _own_offset(b), nbytes, shift, b.inst.src[1])

    return build


def _part(op: Operand, dwords: int) -> Operand:
    """The register `dwords` further on."""
    return Operand(op.kind, op.index + dwords)


def _load_pair(nbytes: int, stride: int) -> Build:
    def build(b: Binder) -> None:
        port, target = lds_port(b.machine), b.inst.dst[0]
        # The address may be part of the destination: read it before the first load writes.
        index = b.registers(b.inst.src[0], 1)[0]
        held = b.work(index.shape, "u4")
        b.prepare.append(lambda: np.copyto(held, index))
        flat = held.reshape(-1)
        for number in range(2):
            offset = b.inst.mods.get(f"offset{number}", 0) * stride * nbytes

            def address(lanes: Array, offset: int = offset) -> Array:
                return (flat[lanes] + np.uint32(offset)).astype(np.int64)

            transfer.load(b, port, address, nbytes, _part(target, number * nbytes // 4))

    return build


def _store_pair(nbytes: int, stride: int) -> Build:
    def build(b: Binder) -> None:
        port = lds_port(b.machine)
        for number in range(2):
            offset = b.inst.mods.get(f"offset{number}", 0) * stride * nbytes
            transfer.store(b, port, _address(b, offset), nbytes, b.inst.src[1 + number])

    return build


def _atomic(dtype: str, update: transfer.Update) -> Build:
    def build(b: Binder) -> None:
        transfer.atomic(b, lds_port(b.machine), _own_offset(b), dtype, update, b.inst.src[1:])

    return build


def _pull(fetch_inactive: bool) -> Build:
    """ds_bpermute: each lane reads the lane that its byte address names."""

    def build(b: Binder) -> None:
        machine = b.machine
        offset = np.uint32(b.inst.mods.get("offset", 0))
        index, data = b.registers(b.inst.src[0], 1)[0], b.registers(b.inst.src[1], 1)[0]
        first = (np.arange(machine.waves, dtype=np.uint32) * np.uint32(LANES))[:, None]

        def pull() -> Array:
            lanes = ((index + offset) >> np.uint32(2)) & np.uint32(LANES - 1)
            source = first + lanes
            value = data.reshape(-1).take(source)
            if fetch_inactive or machine.all_lanes:
                return value
            return value * machine.lanes.reshape(-1).take(source)

        b.emit("u", pull)

    return build


def _push(b: Binder) -> None:
    """ds_permute: each enabled lane sends its data to the lane that its byte address names."""
    machine = b.machine
    offset = np.uint32(b.inst.mods.get("offset", 0))
    index, data = b.registers(b.inst.src[0], 1)[0], b.registers(b.inst.src[1], 1)[0]
    first = (np.arange(machine.waves, dtype=np.int64) * LANES)[:, None]

    def push() -> Array:
        lanes = ((index + offset) >> np.uint32(2)) & np.uint32(LANES - 1)
        chosen = machine.lanes
        received = np.zeros(machine.waves * LANES, dtype=np.uint32)
        received[(first + lanes)[chosen]] = data[chosen]
        return received.reshape(machine.waves, LANES)

    b.emit("u", push)


def _swizzle(b: Binder) -> None:
    """ds_swizzle: a fixed exchange; lanes that EXEC disables read as 0."""
    machine = b.machine
    source = swizzle(b.inst.mods.get("offset", 0))
    data = b.registers(b.inst.src[0], 1)[0]
    b.emit("u", lambda: data[:, source] * machine.lanes[:, source])


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {
        "ds_bpermute_b32": _pull(False),
        "ds_bpermute_fi_b32": _pull(True),
        "ds_permute_b32": _push,
        "ds_swizzle_b32": _swizzle,
        "ds_nop": lambda b: None,
    }
    for bits in (32, 64, 96, 128):
        table[f"ds_load_b{bits}"] = _load(bits // 8)
        table[f"ds_store_b{bits}"] = _store(bits // 8)
    for bits in (32, 64):
        for name, stride in (("", 1), ("_stride64", 64)):
            table[f"ds_load_2addr{name}_b{bits}"] = _load_pair(bits // 8, stride)
            table[f"ds_store_2addr{name}_b{bits}"] = _store_pair(bits // 8, stride)
    for name, (dtype, half) in _SMALL.items():
        table[f"ds_load_{name}"] = _load_small(dtype, half)
    for name, (nbytes, shift) in _SMALL_STORES.items():
        table[f"ds_store_{name}"] = _store_small(nbytes, shift)
    return table | _atomics()


def _atomics() -> dict[str, Build]:
    renamed = {"swap": "storexchg", "cmpswap": "cmpstore"}
    table: dict[str, Build] = {}
    for name, (dtype, update) in transfer.updates().items():
        stem, suffix = name.rsplit("_", 1)
        build = _atomic(dtype, update)
        table[f"ds_{renamed.get(stem, stem)}_{suffix}"] = build
        table[f"ds_{renamed.get(stem, stem)}_rtn_{suffix}"] = build
    return table
