"""Global, flat, scratch and scalar memory instructions.

Source: AMD "RDNA4" Instruction Set Architecture, chapters 8 and 10 to 12. Cache policies, prefetches and cache
maintenance change nothing here: all waves see one memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import transfer
from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Kind, Operand
from zluda_rr.emulate.gfx12.machine import LANES, EmulationError, Variant
from zluda_rr.emulate.gfx12.ports import FlatPort, GlobalPort, Port, scratch_port
from zluda_rr.emulate.gfx12.table import Build

Array = NDArray[Any]
PortOf = Callable[[Binder], Port]
AddressOf = Callable[[Binder, Operand, Operand], transfer.Address]

SMALL = {
    "u8": ("u1", None),
    "i8": ("i1", None),
    "u16": ("u2", None),
    "i16": ("i2", None),
    "d16_u8": ("u1", 0),
    "d16_i8": ("i1", 0),
    "d16_b16": ("u2", 0),
    "d16_hi_u8": ("u1", 1),
    "d16_hi_i8": ("i1", 1),
    "d16_hi_b16": ("u2", 1),
}
"""Loads of less than a dword: element and the half that takes it (None: extended to 32 bits)."""
SMALL_STORES = {"b8": (1, 0), "b16": (2, 0), "d16_hi_b8": (1, 16), "d16_hi_b16": (2, 16)}
"""Bytes and right shift."""
WIDTHS = (32, 64, 96, 128)


def _global_address(b: Binder, vaddr: Operand, saddr: Operand) -> transfer.Address:
    """64-bit VGPR pair, or scalar base plus a 32-bit VGPR, plus the offset."""
    offset = np.uint64(b.inst.mods.get("offset", 0) & 0xFFFF_FFFF_FFFF_FFFF)
    if saddr.kind is Kind.OFF:
        low, high = transfer.rows(b, vaddr, 2)
        return lambda lanes: ((high[lanes].astype(np.uint64) << np.uint64(32)) | low[lanes]) + offset
    base = b.scalar_operand(saddr, "q")
    index = transfer.rows(b, vaddr, 1)[0]
    if not base.ndim:
        return lambda lanes: base + index[lanes] + offset
    return lambda lanes: base[lanes // LANES] + index[lanes] + offset


def _scratch_address(b: Binder, vaddr: Operand, saddr: Operand) -> transfer.Address:
    """VGPR, SGPR, both or none, plus the offset: 32 bits."""
    offset = b.inst.mods.get("offset", 0)
    parts: list[transfer.Address] = []
    if vaddr.kind is not Kind.OFF:
        index = transfer.rows(b, vaddr, 1)[0].view(np.int32)
        parts.append(lambda lanes: index[lanes])
    if saddr.kind is not Kind.OFF:
        base = np.broadcast_to(b.scalar_operand(saddr, "i"), b.machine.waves)
        parts.append(lambda lanes: base[lanes // LANES])

    def address(lanes: Array) -> Array:
        total = np.full(len(lanes), offset, dtype=np.int64)
        for part in parts:
            total += part(lanes)
        return total

    return address


def _load(port: PortOf, address: AddressOf, nbytes: int) -> Build:
    def build(b: Binder) -> None:
        vaddr, saddr = b.inst.src[:2]
        transfer.load(b, port(b), address(b, vaddr, saddr), nbytes, b.inst.dst[0])

    return build


def _load_small(port: PortOf, address: AddressOf, dtype: str, half: int | None) -> Build:
    def build(b: Binder) -> None:
        vaddr, saddr = b.inst.src[:2]
        transfer.load_small(b, port(b), address(b, vaddr, saddr), dtype, half)

    return build


def _store(port: PortOf, address: AddressOf, nbytes: int) -> Build:
    def build(b: Binder) -> None:
        vaddr, data, saddr = b.inst.src[:3]
        transfer.store(b, port(b), address(b, vaddr, saddr), nbytes, data)

    return build


def _store_small(port: PortOf, address: AddressOf, nbytes: int, shift: int) -> Build:
    def build(b: Binder) -> None:
        vaddr, data, saddr = b.inst.src[:3]
        transfer.store_small(b, port(b), address(b, vaddr, saddr), nbytes, shift, data)

    return build


def _atomic(port: PortOf, address: AddressOf, dtype: str, update: transfer.Update, swaps: bool) -> Build:
    def build(b: Binder) -> None:
        vaddr, data, saddr = b.inst.src[:3]
        operands: tuple[Operand, ...] = (data,)
        if swaps:  # new value, then the one to compare with, in consecutive registers
            second = Operand(Kind.VGPR, data.index + int(dtype[1]) // 4)
            operands = (data, second)
        transfer.atomic(b, port(b), address(b, vaddr, saddr), dtype, update, operands)

    return build


def _family(prefix: str, port: PortOf, address: AddressOf) -> dict[str, Build]:
    table: dict[str, Build] = {}
    for bits in WIDTHS:
        table[f"{prefix}_load_b{bits}"] = _load(port, address, bits // 8)
        table[f"{prefix}_store_b{bits}"] = _store(port, address, bits // 8)
    for name, (dtype, half) in SMALL.items():
        table[f"{prefix}_load_{name}"] = _load_small(port, address, dtype, half)
    for name, (nbytes, shift) in SMALL_STORES.items():
        table[f"{prefix}_store_{name}"] = _store_small(port, address, nbytes, shift)
    return table


def _atomics(prefix: str, port: PortOf, address: AddressOf) -> dict[str, Build]:
    return {
        f"{prefix}_atomic_{name}": _atomic(port, address, dtype, update, name.startswith("cmpswap"))
        for name, (dtype, update) in transfer.updates().items()
    }


def _scalar_load(element: str, count: int, signed: bool = False) -> Build:
    """SMEM: `count` elements at sbase + soffset + offset, dword aligned for dwords."""
    nbytes = int(element[1])

    def build(b: Binder) -> None:
        machine = b.machine
        base = b.scalar(0, "q")
        extra = b.scalar(1, "u")
        offset = np.uint64(b.inst.mods.get("offset", 0) & 0xFFFF_FFFF_FFFF_FFFF)
        first = b.row(b.inst.dst[0])
        target = machine.sgpr[first : first + count]
        keep = np.uint64(0xFFFF_FFFF_FFFF_FFFC if nbytes == 4 else 0xFFFF_FFFF_FFFF_FFFF)
        partial_waves = b.variant is Variant.WAVES

        def act() -> None:
            addresses = np.broadcast_to((base + extra + offset) & keep, machine.waves)
            chosen = machine.active if partial_waves else slice(None)
            data = machine.bus.load(addresses[chosen], nbytes * count).view(element)
            wide = data.astype("i4").view(np.uint32) if signed else data.astype("u4")
            target[:, chosen] = wide.T

        b.act.append(act)

    return build


def _nothing(b: Binder) -> None:
    """Prefetches and cache maintenance."""


def _unsupported_scalar_base(b: Binder, vaddr: Operand, saddr: Operand) -> transfer.Address:
    if saddr.kind is not Kind.OFF:
        raise EmulationError("flat instruction with a scalar base")
    return _global_address(b, vaddr, saddr)


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    global_port: PortOf = lambda b: GlobalPort(b.machine)  # noqa: E731
    flat_port: PortOf = lambda b: FlatPort(b.machine)  # noqa: E731
    table = {
        **_family("global", global_port, _global_address),
        **_family("flat", flat_port, _unsupported_scalar_base),
        **_family("scratch", lambda b: scratch_port(b.machine), _scratch_address),
        **_atomics("global", global_port, _global_address),
        **_atomics("flat", flat_port, _unsupported_scalar_base),
    }
    for bits in (32, 64, 96, 128, 256, 512):
        table[f"s_load_b{bits}"] = _scalar_load("u4", bits // 32)
    for name in ("u1", "i1", "u2", "i2"):
        small = partial(_scalar_load, name, 1, name[0] == "i")
        table[f"s_load_{name[0]}{8 * int(name[1])}"] = small()
    for name in (
        "global_inv", "global_wb", "global_wbinv", "s_dcache_inv", "s_icache_inv", "s_prefetch_data",
        "s_prefetch_data_pc_rel", "s_prefetch_inst", "s_prefetch_inst_pc_rel", "s_buffer_prefetch_data",
    ):  # fmt: skip
        table[name] = _nothing
    return table
