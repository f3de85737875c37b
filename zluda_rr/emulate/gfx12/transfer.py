"""Loads, stores and atomics as compiled steps over any port: which lanes, which registers, which bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.floats import bf16_to_float, maximum_number, minimum_number, round_bf16
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.machine import LANES, Variant
from zluda_rr.emulate.gfx12.ports import Port
from zluda_rr.numerics.f16 import half_to_float, round_half

Array = NDArray[Any]
Address = Callable[[Array], Array]
"""Addresses of the lanes whose flat numbers are given."""
Update = Callable[[Array, Array, Array], Array]
"""Old values, data and (for compare and swap) second data to new values."""


def lane_numbers(b: Binder) -> Callable[[], Array]:
    """Flat numbers of the lanes that take part."""
    machine = b.machine
    if b.variant is Variant.FULL:
        everyone = np.arange(machine.waves * LANES)
        return lambda: everyone
    return lambda: np.flatnonzero(machine.lanes)


def rows(b: Binder, op: Operand, count: int) -> list[Array]:
    """`count` registers as flat `uint32[waves * 32]` views."""
    return [register.reshape(-1) for register in b.registers(op, count)]


def load(b: Binder, port: Port, address: Address, nbytes: int, op: Operand) -> None:
    """Whole dwords into consecutive registers."""
    targets = rows(b, op, nbytes // 4)
    lanes = lane_numbers(b)
    full = b.variant is Variant.FULL

    def act() -> None:
        chosen = lanes()
        words = port.load(chosen, address(chosen), nbytes).view(np.uint32)
        for index, target in enumerate(targets):
            if full:
                np.copyto(target, words[:, index])
            else:
                target[chosen] = words[:, index]

    b.act.append(act)


def load_small(b: Binder, port: Port, address: Address, dtype: str, half: int | None) -> None:
    """A byte or half word, extended to 32 bits, or to 16 bits of one half of the register."""
    target = rows(b, b.inst.dst[0], 1)[0]
    place = target if half is None else target.view(np.uint16).reshape(-1, 2)[:, half]
    signed = dtype[0] == "i"
    wide = ("i4" if signed else "u4") if half is None else ("i2" if signed else "u2")
    lanes = lane_numbers(b)
    nbytes = int(dtype[1])

    def act() -> None:
        chosen = lanes()
        value = port.load(chosen, address(chosen), nbytes).view(dtype)[:, 0].astype(wide)
        place[chosen] = value.view(place.dtype)

    b.act.append(act)


def store(b: Binder, port: Port, address: Address, nbytes: int, op: Operand) -> None:
    """Whole dwords from consecutive registers."""
    sources = rows(b, op, nbytes // 4)
    lanes = lane_numbers(b)

    def act() -> None:
        chosen = lanes()
        words = np.empty((len(chosen), len(sources)), dtype=np.uint32)
        for index, source in enumerate(sources):
            words[:, index] = source[chosen]
        port.store(chosen, address(chosen), words.view(np.uint8))

    b.act.append(act)


def store_small(b: Binder, port: Port, address: Address, nbytes: int, shift: int, op: Operand) -> None:
    """The low bytes of a register, shifted right first."""
    source = rows(b, op, 1)[0]
    lanes = lane_numbers(b)

    def act() -> None:
        chosen = lanes()
        values = source[chosen] >> np.uint32(shift)
        port.store(chosen, address(chosen), values.view(np.uint8).reshape(-1, 4)[:, :nbytes])

    b.act.append(act)


def atomic(b: Binder, port: Port, address: Address, dtype: str, update: Update, data: tuple[Operand, ...]) -> None:
    """Read, modify, write; lanes that share an address take turns in lane order."""
    count = int(dtype[1]) // 4
    sources = [rows(b, op, count) for op in data]
    targets = rows(b, b.inst.dst[0], count) if b.inst.dst else []
    lanes = lane_numbers(b)

    def act() -> None:
        chosen = lanes()
        places = address(chosen)
        values = [np.stack([r[chosen] for r in s], axis=-1).view(dtype)[:, 0] for s in sources]
        if len(values) == 1:
            values.append(values[0])
        old = _in_turns(port, chosen, places, values, update, dtype)
        words = np.ascontiguousarray(old).view(np.uint32).reshape(-1, count)
        for index, target in enumerate(targets):
            target[chosen] = words[:, index]

    b.act.append(act)


def _in_turns(port: Port, lanes: Array, places: Array, values: list[Array], update: Update, dtype: str) -> Array:
    """Old values; in round n the n-th lane of every address has its turn."""
    old = np.zeros(len(lanes), dtype=dtype)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(places) else np.zeros(0, np.int64)
    turn = np.empty(len(places), dtype=np.int64)
    turn[order] = np.arange(len(places)) - np.repeat(starts, np.diff(np.r_[starts, len(places)]))
    size = int(dtype[1])
    for number in range(int(turn.max()) + 1 if len(turn) else 0):
        now = np.flatnonzero(turn == number)
        before = port.load(lanes[now], places[now], size).view(dtype)[:, 0]
        after = update(before, values[0][now], values[1][now]).astype(dtype)
        old[now] = before
        port.store(lanes[now], places[now], after.reshape(-1, 1).view(np.uint8))
    return old


def updates() -> dict[str, tuple[str, Update]]:
    """Atomic operations by name suffix: element dtype and the new value."""
    table: dict[str, tuple[str, Update]] = {}
    for bits in (32, 64):
        word, signed, size = f"u{bits // 8}", f"i{bits // 8}", str(bits)
        table |= {
            f"add_u{size}": (word, lambda old, x, _: old + x),
            f"sub_u{size}": (word, lambda old, x, _: old - x),
            f"rsub_u{size}": (word, lambda old, x, _: x - old),
            f"and_b{size}": (word, lambda old, x, _: old & x),
            f"or_b{size}": (word, lambda old, x, _: old | x),
            f"xor_b{size}": (word, lambda old, x, _: old ^ x),
            f"min_u{size}": (word, lambda old, x, _: np.minimum(old, x)),
            f"max_u{size}": (word, lambda old, x, _: np.maximum(old, x)),
            f"min_i{size}": (signed, lambda old, x, _: np.minimum(old, x)),
            f"max_i{size}": (signed, lambda old, x, _: np.maximum(old, x)),
            f"inc_u{size}": (word, lambda old, x, _: np.where(old >= x, 0, old + 1)),
            f"dec_u{size}": (word, lambda old, x, _: np.where((old == 0) | (old > x), x, old - 1)),
            f"swap_b{size}": (word, lambda old, x, _: x),
            f"cmpswap_b{size}": (word, lambda old, x, expected: np.where(old == expected, x, old)),
            f"mskor_b{size}": (word, lambda old, mask, x: (old & ~mask) | x),
        }
    return table | _more_updates()


def _more_updates() -> dict[str, tuple[str, Update]]:
    """Float and saturating ones. Float atomics flush nothing; minimum and maximum are IEEE's *Number."""
    table: dict[str, tuple[str, Update]] = {
        "add_f32": ("f4", lambda old, x, _: old + x),
        "sub_clamp_u32": ("u4", lambda old, x, _: np.where(old < x, 0, old - x)),
        "cond_sub_u32": ("u4", lambda old, x, _: np.where(old < x, old, old - x)),
        "pk_add_f16": ("u4", lambda old, x, _: _packed_sum(old, x, half_to_float, round_half)),
        "pk_add_bf16": ("u4", lambda old, x, _: _packed_sum(old, x, bf16_to_float, round_bf16)),
    }
    for dtype, size in (("f4", 32), ("f8", 64)):
        table[f"min_num_f{size}"] = (dtype, lambda old, x, _: minimum_number(old, x))
        table[f"max_num_f{size}"] = (dtype, lambda old, x, _: maximum_number(old, x))
    return table


def _packed_sum(old: Array, x: Array, widen: Callable[[Array], Array], narrow: Callable[[Array], Array]) -> Array:
    """Two 16-bit float sums in a word."""
    first, second = (widen(np.ascontiguousarray(v).view(np.uint16)) for v in (old, x))
    return np.ascontiguousarray(narrow(first + second)).view(np.uint32)
