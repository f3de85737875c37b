"""Every atomic operation on LDS and global memory, with and without the returned value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import execute, machine
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.memory import AddressSpace

Update = Callable[[int, int, int], int]


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def integer_updates(bits: int) -> dict[str, Update]:
    """New value of (old, data, second data)."""
    return {
        f"add_u{bits}": lambda old, x, _: old + x,
        f"sub_u{bits}": lambda old, x, _: old - x,
        f"rsub_u{bits}": lambda old, x, _: x - old,
        f"and_b{bits}": lambda old, x, _: old & x,
        f"or_b{bits}": lambda old, x, _: old | x,
        f"xor_b{bits}": lambda old, x, _: old ^ x,
        f"min_u{bits}": lambda old, x, _: min(old, x),
        f"max_u{bits}": lambda old, x, _: max(old, x),
        f"min_i{bits}": lambda old, x, _: min(signed(old, bits), signed(x, bits)),
        f"max_i{bits}": lambda old, x, _: max(signed(old, bits), signed(x, bits)),
        f"inc_u{bits}": lambda old, x, _: 0 if old >= x else old + 1,
        f"dec_u{bits}": lambda old, x, _: x if old == 0 or old > x else old - 1,
        f"swap_b{bits}": lambda old, x, _: x,
        f"cmpswap_b{bits}": lambda old, x, expected: x if old == expected else old,
    }


LDS_NAMES = {"swap": "storexchg", "cmpswap": "cmpstore"}


def start(bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Old values of eight places, data and second data of 32 lanes; some of them are equal on purpose."""
    rng = np.random.default_rng(bits)
    dtype = np.dtype(f"u{bits // 8}")
    pool = np.array([0, 1, 2, 5, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 3], dtype=dtype)
    return pool.copy(), rng.choice(pool, 32), rng.choice(pool, 32)


def expected(update: Update, bits: int) -> tuple[list[int], list[int]]:
    """Final values of the eight places and what each lane saw, lane after lane."""
    old, data, second = start(bits)
    places, seen = [int(x) for x in old], []
    for lane in range(32):
        seen.append(places[lane % 8])
        places[lane % 8] = update(places[lane % 8], int(data[lane]), int(second[lane])) & ((1 << bits) - 1)
    return places, seen


def registers(values: np.ndarray) -> np.ndarray:
    """`[dwords, 32]`."""
    return values.view(np.uint32).reshape(32, -1).T


CASES = [(bits, name) for bits in (32, 64) for name in integer_updates(bits)]


@pytest.mark.parametrize(("bits", "name"), CASES)
def test_lds(bits: int, name: str) -> None:
    stem, suffix = name.rsplit("_", 1)
    stem = LDS_NAMES.get(stem, stem)
    old, data, second = start(bits)
    count = bits // 32
    target = machine(1, lds=256)
    target.lds[: old.nbytes] = old.view(np.uint8)
    target.lds[128 : 128 + old.nbytes] = old.view(np.uint8)
    target.vgpr[0] = np.arange(32) % 8 * (bits // 8)
    target.vgpr[2 : 2 + count, 0] = registers(data)
    target.vgpr[4 : 4 + count, 0] = registers(second)

    def register(n: int) -> str:
        return f"v{n}" if count == 1 else f"v[{n}:{n + 1}]"

    sources = f"v0, {register(2)}" + (f", {register(4)}" if stem == "cmpstore" else "")
    lines = [f"ds_{stem}_rtn_{suffix} {register(6)}, {sources} offset:128"]
    plain = f"ds_{stem}_{suffix}"
    if plain in operations():
        lines.append(f"{plain} {sources}")
    execute(target, lines)
    places, seen = expected(integer_updates(bits)[name], bits)
    assert target.lds[128 : 128 + old.nbytes].view(old.dtype).tolist() == places
    assert np.ascontiguousarray(target.vgpr[6 : 6 + count, 0].T).view(old.dtype)[:, 0].tolist() == seen
    if plain in operations():
        assert target.lds[: old.nbytes].view(old.dtype).tolist() == places


@pytest.mark.parametrize(("bits", "name"), [case for case in CASES if f"global_atomic_{case[1]}" in operations()])
@pytest.mark.parametrize("prefix", ["global", "flat"])
def test_global(bits: int, name: str, prefix: str) -> None:
    old, data, second = start(bits)
    count = bits // 32
    space = AddressSpace(1 << 12)
    address = space.allocate("places", old.nbytes, data=old.tobytes())
    again = space.allocate("again", old.nbytes, data=old.tobytes())
    target = machine(1, memory=space)
    for register, base in ((0, address), (2, again)):
        pointers = base + np.arange(32) % 8 * (bits // 8)
        target.vgpr[register], target.vgpr[register + 1] = pointers & 0xFFFF_FFFF, pointers >> 32
    target.vgpr[4 : 4 + count, 0] = registers(data)
    target.vgpr[4 + count : 4 + 2 * count, 0] = registers(second)
    width = count * (2 if name.startswith("cmpswap") else 1)
    source = "v4" if width == 1 else f"v[4:{3 + width}]"
    result = "v10" if count == 1 else "v[10:11]"
    off = ", off" if prefix == "global" else ""
    execute(
        target,
        [
            f"{prefix}_atomic_{name} {result}, v[0:1], {source}{off} th:TH_ATOMIC_RETURN",
            f"{prefix}_atomic_{name} v[2:3], {source}{off}",
        ],
    )
    places, seen = expected(integer_updates(bits)[name], bits)
    for allocation in ("places", "again"):
        assert space.view(allocation).view(old.dtype).tolist() == places
    assert np.ascontiguousarray(target.vgpr[10 : 10 + count, 0].T).view(old.dtype)[:, 0].tolist() == seen


def test_every_integer_atomic_is_covered() -> None:
    floats = {"add_f32", "min_num_f32", "max_num_f32", "pk_add_f16", "pk_add_bf16", "cond_sub_u32", "sub_clamp_u32"}
    names = {name.removeprefix("global_atomic_") for name in operations() if name.startswith("global_atomic_")}
    assert names - floats == {name for _, name in CASES if not name.startswith("rsub")}
