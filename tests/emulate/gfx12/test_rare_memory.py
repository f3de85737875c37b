"""Buffer accesses, lane-numbered accesses, LDS counters and the float atomics."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulate.gfx12.snippet import bits, execute, floats, machine
from zluda_rr.emulate.gfx12.inst import Special
from zluda_rr.emulate.gfx12.machine import EmulationError, Machine
from zluda_rr.emulate.memory import AddressSpace

RAW = 3 << 28
LANE = np.arange(32, dtype=np.uint32)


def with_buffer(
    size: int, *, stride: int = 0, records: int | None = None, rule: int = RAW
) -> tuple[Machine, AddressSpace]:
    """A machine whose s[4:7] describe an allocation of words 0, 1, 2, ...; `size` in bytes."""
    memory = AddressSpace()
    data = np.arange(size // 4, dtype=np.uint32).view(np.uint8)
    base = memory.allocate("buffer", size, data=data)
    target = machine(memory=memory)
    words = (base & 0xFFFF_FFFF, base >> 32 | stride << 16, size if records is None else records, rule)
    for index, word in enumerate(words):
        target.sgpr[4 + index] = word
    target.sgpr[8] = 0
    return target, memory


def words_of(memory: AddressSpace) -> NDArray[np.uint32]:
    return memory.view("buffer").view(np.uint32)


def test_raw_buffer_checks_the_range() -> None:
    target, _ = with_buffer(128, records=64)
    target.vgpr[0] = LANE * 4
    target.sgpr[8] = 8
    execute(target, ["buffer_load_b32 v1, v0, s[4:7], s8 offen offset:4"])
    expected = [lane + 3 if 4 * lane + 12 + 4 <= 64 else 0 for lane in range(32)]
    assert target.vgpr[1, 0].tolist() == expected


def test_buffer_store_drops_what_is_outside() -> None:
    target, memory = with_buffer(128, records=64)
    target.vgpr[0] = LANE * 8
    target.vgpr[2], target.vgpr[3] = 100 + LANE, 200 + LANE
    execute(target, ["buffer_store_b64 v[2:3], v0, s[4:7], null offen"])
    got = words_of(memory).tolist()
    assert got[:16] == [word for lane in range(8) for word in (100 + lane, 200 + lane)]
    assert got[16:] == list(range(16, 32))


def test_structured_buffer() -> None:
    target, _ = with_buffer(32 * 12, stride=12, records=30, rule=0)
    target.vgpr[0], target.vgpr[1] = LANE, np.where(LANE == 3, 12, 4)
    execute(target, ["buffer_load_b32 v2, v[0:1], s[4:7], null idxen offen"])
    expected = [0 if lane == 3 or lane >= 30 else 3 * lane + 1 for lane in range(32)]
    assert target.vgpr[2, 0].tolist() == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("u8", 0x81), ("i8", 0xFFFF_FF81), ("u16", 0x8081), ("i16", 0xFFFF_8081)]
)
def test_small_buffer_loads(name: str, expected: int) -> None:
    target, memory = with_buffer(64)
    words_of(memory)[2] = 0x7777_8081
    execute(target, [f"buffer_load_{name} v1, off, s[4:7], null offset:8"])
    assert (target.vgpr[1] == expected).all()


def test_buffer_atomic_returns_and_adds() -> None:
    target, memory = with_buffer(64)
    target.vgpr[1] = 1
    execute(target, ["buffer_atomic_add_u32 v1, off, s[4:7], null offset:4 th:TH_ATOMIC_RETURN"])
    assert target.vgpr[1, 0].tolist() == [1 + lane for lane in range(32)]
    assert words_of(memory)[1] == 33


def test_swizzled_buffers_are_refused() -> None:
    target, _ = with_buffer(64)
    target.sgpr[5] |= np.uint32(1 << 31)
    with pytest.raises(EmulationError, match="swizzled"):
        execute(target, ["buffer_load_b32 v1, off, s[4:7], null"])


def test_scalar_buffer_loads_zero_past_the_end() -> None:
    target, _ = with_buffer(128, records=40)
    target.sgpr[8] = 8
    execute(target, ["s_buffer_load_b128 s[12:15], s[4:7], s8 offset:0x14", "s_buffer_load_u8 s16, s[4:7], 0x1c"])
    assert target.sgpr[12:16, 0].tolist() == [7, 8, 9, 0]
    assert target.sgpr[16, 0] == 7


def test_lane_numbered_accesses() -> None:
    memory = AddressSpace()
    base = memory.allocate("buffer", 256, data=np.arange(64, dtype=np.uint32).view(np.uint8))
    target = machine(lds=256, memory=memory)
    target.sgpr[0], target.sgpr[1] = base & 0xFFFF_FFFF, base >> 32
    target.vgpr[2] = 7 * LANE
    execute(target, [
        "global_load_addtid_b32 v1, s[0:1] offset:16", "s_mov_b32 m0, 64", "ds_store_addtid_b32 v2 offset:32",
        "ds_load_addtid_b32 v3 offset:32", "global_store_addtid_b32 v2, s[0:1] offset:128",
    ])  # fmt: skip
    assert target.vgpr[1, 0].tolist() == [4 + lane for lane in range(32)]
    assert target.vgpr[3, 0].tolist() == (7 * LANE).tolist()
    assert target.lds.view(np.uint32)[24:56].tolist() == (7 * LANE).tolist()
    assert words_of(memory)[32:].tolist() == (7 * LANE).tolist()


def test_lds_counters_take_waves_in_turn() -> None:
    target = machine(2, per_group=2, lds=64)
    target.lds.view(np.uint32)[3] = 100
    target.sgpr[Special.EXEC_LO] = np.array([0xFFFF, 0x7], dtype=np.uint32)
    target.vgpr[1] = 0
    execute(target, ["s_mov_b32 m0, 8", "ds_append v1 offset:4"])
    assert target.vgpr[1, 0].tolist() == [*[100] * 16, *[0] * 16]
    assert target.vgpr[1, 1].tolist() == [*[116] * 3, *[0] * 29]
    assert target.lds.view(np.uint32)[3] == 119
    execute(target, ["ds_consume v1 offset:4"])
    assert target.lds.view(np.uint32)[3] == 100


def test_float_atomics() -> None:
    """All lanes on one address, in lane order: minimum, maximum (a NaN loses) and packed sums."""
    target = machine(lds=64)
    lds = target.lds.view(np.uint32)
    lds[:4] = [*bits([np.nan, -1.0]), 0, 0]
    values = np.linspace(-3, 3, 32, dtype=np.float32)
    target.vgpr[0], target.vgpr[1] = 0, bits(values)
    target.vgpr[2] = 0x3C00_C000  # 1.0, -2.0
    target.vgpr[3] = 0x3F80_C000  # 1.0, -2.0
    execute(target, [
        "ds_min_num_f32 v0, v1", "ds_max_num_rtn_f32 v4, v0, v1 offset:4", "ds_pk_add_f16 v0, v2 offset:8",
        "ds_pk_add_bf16 v0, v3 offset:12",
    ])  # fmt: skip
    assert floats(lds[:2]).tolist() == [-3.0, 3.0]
    assert floats(target.vgpr[4, 0]).tolist() == np.maximum.accumulate([-1.0, *values[:-1]]).tolist()
    assert lds[2] == 0x5000_D400  # 32.0, -64.0
    assert lds[3] == 0x4200_C280


def test_saturating_atomics() -> None:
    target = machine(lds=64)
    lds = target.lds.view(np.uint32)
    lds[:4] = [10, 10, 0xFF00_00FF, 0]
    target.vgpr[0], target.vgpr[1] = 0, 3
    target.vgpr[2], target.vgpr[3] = 0xFF, 0x12
    target.sgpr[Special.EXEC_LO] = 0xF
    execute(target, ["ds_sub_clamp_u32 v0, v1", "ds_cond_sub_u32 v0, v1 offset:4", "ds_mskor_b32 v0, v2, v3 offset:8"])
    assert lds[:3].tolist() == [0, 1, 0xFF00_0012]
