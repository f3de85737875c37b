"""Global, flat, scratch, LDS and scalar memory: every width, addressing form and edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import execute, lanes_of, machine
from zluda_rr.emulate.gfx12.machine import PRIVATE_APERTURE, SHARED_APERTURE, Machine
from zluda_rr.emulate.memory import AddressSpace, MemoryFault

LANE = np.arange(32)
DATA = np.random.default_rng(3).integers(0, 256, 1024, dtype=np.uint8)


def with_memory(waves: int = 1, **kwargs: int) -> tuple[Machine, AddressSpace, int]:
    space = AddressSpace(1 << 16)
    address = space.allocate("data", 1024, data=DATA)
    return machine(waves, memory=space, **kwargs), space, address


def set_pointer(target: Machine, register: int, addresses: np.ndarray) -> None:
    """64-bit addresses per lane into a VGPR pair."""
    target.vgpr[register] = (addresses & 0xFFFF_FFFF).astype(np.uint32)
    target.vgpr[register + 1] = (addresses >> 32).astype(np.uint32)


def words_at(offsets: np.ndarray, nbytes: int) -> np.ndarray:
    """Little-endian integers of DATA."""
    return np.array([int.from_bytes(DATA[o : o + nbytes].tobytes(), "little") for o in offsets], dtype=np.uint64)


@pytest.mark.parametrize("mask", [0xFFFF_FFFF, 0x0F00_FF31])
@pytest.mark.parametrize("step", [16, 13])
def test_global_loads_of_every_width(mask: int, step: int) -> None:
    """Aligned and unaligned addresses; disabled lanes keep their registers."""
    target, _, address = with_memory()
    set_pointer(target, 0, address + LANE * step)
    target.vgpr[4:40] = 0xEEEE_DDDD
    target.sgpr[126] = mask
    execute(
        target,
        [
            "global_load_b128 v[4:7], v[0:1], off offset:16",
            "global_load_b96 v[8:10], v[0:1], off",
            "global_load_b64 v[12:13], v[0:1], off",
            "global_load_b32 v14, v[0:1], off offset:-0",
            "global_load_u8 v15, v[0:1], off offset:3",
            "global_load_i8 v16, v[0:1], off offset:3",
            "global_load_u16 v17, v[0:1], off",
            "global_load_i16 v18, v[0:1], off",
            "global_load_d16_b16 v19, v[0:1], off",
            "global_load_d16_hi_b16 v20, v[0:1], off",
            "global_load_d16_hi_u8 v21, v[0:1], off",
            "global_load_d16_i8 v22, v[0:1], off",
        ],
    )
    start = LANE * step
    signed8 = words_at(start + 3, 1).astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
    signed16 = words_at(start, 2).astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)
    first8 = words_at(start, 1).astype(np.uint8).view(np.int8).astype(np.int16).view(np.uint16)
    half = words_at(start, 2)
    expected = {
        **{4 + i: words_at(start + 16 + 4 * i, 4) for i in range(4)},
        **{8 + i: words_at(start + 4 * i, 4) for i in range(3)},
        **{12 + i: words_at(start + 4 * i, 4) for i in range(2)},
        14: words_at(start, 4),
        15: words_at(start + 3, 1),
        16: signed8,
        17: half,
        18: signed16,
        19: half | np.uint64(0xEEEE_0000),
        20: half << np.uint64(16) | np.uint64(0xDDDD),
        21: words_at(start, 1) << np.uint64(16) | np.uint64(0xDDDD),
        22: first8.astype(np.uint64) | np.uint64(0xEEEE_0000),
    }
    for register, values in expected.items():
        for lane in range(32):
            want = int(values[lane]) if mask >> lane & 1 else 0xEEEE_DDDD
            assert lanes_of(target, register)[lane] == want, (register, lane)
    assert lanes_of(target, 11)[0] == 0xEEEE_DDDD


def test_stores_and_scalar_bases() -> None:
    target, space, address = with_memory(2)
    target.vgpr[0] = LANE * 16
    for i in range(4):
        target.vgpr[4 + i] = 0x0101_0000 * (i + 1) + LANE
    target.sgpr[2:4] = [[(address + 512 * w) & 0xFFFF_FFFF for w in range(2)], [address >> 32] * 2]
    execute(target, ["global_store_b128 v0, v[4:7], s[2:3]"])
    words = space.view("data").view(np.uint32).reshape(2, 32, 4)
    for wave in range(2):
        for i in range(4):
            assert (words[wave, :, i] == 0x0101_0000 * (i + 1) + LANE).all()
    execute(
        target,
        [
            "global_store_b8 v0, v4, s[2:3] offset:1",
            "global_store_d16_hi_b8 v0, v5, s[2:3] offset:2",
            "global_store_b16 v0, v6, s[2:3] offset:4",
            "global_store_d16_hi_b16 v0, v7, s[2:3] offset:6",
            "global_store_b64 v0, v[4:5], s[2:3] offset:8",
        ],
    )
    got = space.view("data").reshape(2, 32, 16)
    assert (got[..., 1] == LANE).all()
    assert (got[..., 2] == 2).all()
    assert (got[..., 4:6].copy().view(np.uint16)[..., 0] == LANE).all()
    assert (got[..., 6:8].copy().view(np.uint16)[..., 0] == 0x0404).all()
    assert (got[..., 8:16].copy().view(np.uint32)[0, 5] == [0x0101_0005, 0x0202_0005]).all()


def test_negative_offsets_and_64_bit_carry() -> None:
    target, _, address = with_memory()
    set_pointer(target, 0, address + 256 + 4 * LANE)
    execute(target, ["global_load_b32 v2, v[0:1], off offset:-256"])
    assert (target.vgpr[2, 0] == words_at(4 * LANE, 4)).all()


def test_faults_name_the_instruction_and_the_allocation() -> None:
    target, _, address = with_memory()
    set_pointer(target, 0, address + 1024 + 4 * LANE)
    with pytest.raises(MemoryFault, match="past the end of 'data'") as caught:
        execute(target, ["v_nop", "global_load_b32 v2, v[0:1], off"])
    assert any("0x1004: global_load_b32 v2, v[0:1], off" in note for note in caught.value.__notes__)


def test_disabled_lanes_may_hold_any_address() -> None:
    target, _, address = with_memory()
    pointers = np.where(LANE < 4, address + 4 * LANE, 0x1234)
    set_pointer(target, 0, pointers)
    target.sgpr[126] = 0xF
    execute(target, ["global_load_b32 v2, v[0:1], off", "global_store_b32 v[0:1], v2, off offset:16"])
    assert (target.vgpr[2, 0, :4] == words_at(4 * LANE[:4], 4)).all()


def test_scalar_loads() -> None:
    target, _, address = with_memory(3)
    starts = [address, address + 64, address + 128]
    target.sgpr[0:2] = [[a & 0xFFFF_FFFF for a in starts], [address >> 32] * 3]
    target.sgpr[2] = 8
    execute(
        target,
        [
            "s_load_b512 s[16:31], s[0:1], 0x0",
            "s_load_b64 s[4:5], s[0:1], s2 offset:0x4",
            "s_load_u8 s6, s[0:1], 0x3",
            "s_load_i8 s7, s[0:1], 0x3",
            "s_load_u16 s8, s[0:1], 0x2",
            "s_load_i16 s9, s[0:1], 0x2",
            "s_load_b32 s0, s[0:1], 0x10",
        ],
    )
    for wave in range(3):
        base = 64 * wave
        assert target.sgpr[16:32, wave].tolist() == words_at(base + 4 * np.arange(16), 4).tolist()
        assert target.sgpr[4:6, wave].tolist() == words_at(base + np.array([12, 16]), 4).tolist()
        byte, half = int(DATA[base + 3]), int(DATA[base + 2 : base + 4].view(np.uint16)[0])
        assert target.sgpr[6:10, wave].tolist() == [
            byte,
            (byte ^ 0x80) - 0x80 & 0xFFFF_FFFF,
            half,
            (half ^ 0x8000) - 0x8000 & 0xFFFF_FFFF,
        ]
        assert int(target.sgpr[0, wave]) == int(words_at(np.array([base + 16]), 4)[0])


def test_lds_is_private_to_a_workgroup() -> None:
    """Two workgroups of two waves: a wave reads what the other wave of its own group wrote."""
    target = machine(4, per_group=2, lds=256)
    wave = np.arange(4)[:, None]
    target.vgpr[0] = 4 * LANE + 128 * (wave % 2)
    target.vgpr[1] = 1000 * wave + LANE
    target.vgpr[2] = 4 * LANE + 128 * (1 - wave % 2)
    execute(target, ["ds_store_b32 v0, v1", "ds_load_b32 v3, v2"])
    assert (target.vgpr[3] == 1000 * (wave ^ 1) + LANE).all()


def test_lds_base_and_offset_add_up_in_32_bits() -> None:
    target = machine(1, lds=1024)
    target.vgpr[0] = (4 * LANE - 512).astype(np.int32).view(np.uint32)
    target.vgpr[1] = LANE + 7
    target.vgpr[2] = 4 * LANE
    lines = ["ds_store_b32 v0, v1 offset:512", "ds_load_b32 v3, v2"]
    execute(target, [*lines, "ds_load_2addr_b32 v[4:5], v0 offset0:128 offset1:128"])
    for register in (3, 4, 5):
        assert (target.vgpr[register, 0] == LANE + 7).all()


@pytest.mark.parametrize("mask", [0xFFFF_FFFF, 0x00FF_0F01])
def test_lds_forms(mask: int) -> None:
    target = machine(1, lds=4096)
    target.lds[:] = np.resize(DATA, 4096)
    memory = np.resize(DATA, 4096)
    target.vgpr[0] = 16 * LANE
    target.vgpr[4:60] = 0xEEEE_DDDD
    target.sgpr[126] = mask
    execute(
        target,
        [
            "ds_load_b128 v[4:7], v0 offset:32",
            "ds_load_b96 v[8:10], v0",
            "ds_load_b64 v[12:13], v0 offset:8",
            "ds_load_2addr_b32 v[14:15], v0 offset0:1 offset1:3",
            "ds_load_2addr_b64 v[16:19], v0 offset0:2 offset1:1",
            "ds_load_2addr_stride64_b32 v[20:21], v0 offset0:1 offset1:2",
            "ds_load_2addr_stride64_b64 v[24:27], v0 offset0:0 offset1:3",
            "ds_load_u8 v28, v0 offset:5",
            "ds_load_i8 v29, v0 offset:5",
            "ds_load_u16 v30, v0 offset:6",
            "ds_load_i16 v31, v0 offset:6",
            "ds_load_u16_d16 v32, v0 offset:6",
            "ds_load_u16_d16_hi v33, v0 offset:6",
            "ds_load_u8_d16_hi v34, v0 offset:6",
        ],
    )

    def read(offset: int, lane: int, nbytes: int = 4) -> int:
        start = 16 * lane + offset
        return int.from_bytes(memory[start : start + nbytes].tobytes(), "little")

    def extended(value: int, width: int) -> int:
        return ((value ^ 1 << width - 1) - (1 << width - 1)) & 0xFFFF_FFFF

    for lane in range(32):
        expected = {
            **{4 + i: read(32 + 4 * i, lane) for i in range(4)},
            **{8 + i: read(4 * i, lane) for i in range(3)},
            **{12 + i: read(8 + 4 * i, lane) for i in range(2)},
            14: read(4, lane),
            15: read(12, lane),
            16: read(16, lane),
            17: read(20, lane),
            18: read(8, lane),
            19: read(12, lane),
            20: read(256, lane),
            21: read(512, lane),
            24: read(0, lane),
            25: read(4, lane),
            26: read(1536, lane),
            27: read(1540, lane),
            28: read(5, lane, 1),
            29: extended(read(5, lane, 1), 8),
            30: read(6, lane, 2),
            31: extended(read(6, lane, 2), 16),
            32: 0xEEEE_0000 | read(6, lane, 2),
            33: read(6, lane, 2) << 16 | 0xDDDD,
            34: read(6, lane, 1) << 16 | 0xDDDD,
        }
        for register, value in expected.items():
            want = value if mask >> lane & 1 else 0xEEEE_DDDD
            assert lanes_of(target, register)[lane] == want, (register, lane)


def test_lds_stores_and_address_in_the_destination() -> None:
    target = machine(1, lds=2048)
    target.vgpr[0] = 8 * LANE
    target.vgpr[1] = 0x1111_0000 + LANE
    target.vgpr[2] = 0x2222_0000 + LANE
    execute(
        target,
        [
            "ds_store_2addr_stride64_b32 v0, v1, v2 offset0:0 offset1:2",
            "ds_store_b8 v0, v1 offset:4",
            "ds_store_b16_d16_hi v0, v1 offset:6",
            "ds_load_2addr_stride64_b32 v[0:1], v0 offset0:2 offset1:0",
        ],
    )
    assert (target.vgpr[0, 0] == 0x2222_0000 + LANE).all()
    assert (target.vgpr[1, 0] == 0x1111_0000 + LANE).all()
    halves = target.lds.view(np.uint16)
    assert (halves[3:128:4] == 0x1111).all()
    assert (target.lds[4:256:8] == LANE).all()


def test_lds_bounds() -> None:
    target = machine(1, lds=64)
    target.vgpr[0] = 4 * LANE
    with pytest.raises(MemoryFault, match=r"4-byte LDS access at offset 0x40 of 64 bytes \(wave 0, lane 16\)"):
        execute(target, ["ds_load_b32 v1, v0"])


def test_scratch_is_private_to_a_lane() -> None:
    target = machine(2, scratch=64)
    value = np.arange(64).reshape(2, 32) * 3
    target.vgpr[0] = value
    target.vgpr[1] = 4 * (LANE % 4)
    target.sgpr[5] = 16
    execute(
        target,
        [
            "scratch_store_b32 v1, v0, off offset:8",
            "scratch_load_b32 v2, v1, off offset:8",
            "scratch_store_b64 off, v[0:1], s5",
            "scratch_load_b64 v[4:5], off, s5",
            "scratch_store_b32 v1, v0, s5 offset:16",
            "scratch_load_b32 v6, v1, s5 offset:16",
            "scratch_store_b8 off, v0, off offset:3",
            "scratch_load_u8 v7, off, off offset:3",
        ],
    )
    for register in (2, 4, 6, 7):
        assert (target.vgpr[register] == value).all(), register
    assert (target.vgpr[5] == 4 * (LANE % 4)).all()


def test_flat_addresses_reach_all_three_memories() -> None:
    target, space, address = with_memory(1, lds=256, scratch=64)
    kinds = LANE % 3
    pointers = np.where(
        kinds == 0,
        address + 4 * LANE,
        np.where(kinds == 1, (SHARED_APERTURE << 32) + 4 * LANE, (PRIVATE_APERTURE << 32) + 8),
    )
    set_pointer(target, 0, pointers)
    target.vgpr[2] = 0xAB00_0000 + LANE
    execute(target, ["flat_store_b32 v[0:1], v2", "flat_load_b32 v3, v[0:1]"])
    assert (target.vgpr[3] == target.vgpr[2]).all()
    assert (space.view("data").view(np.uint32)[:32][kinds == 0] == 0xAB00_0000 + LANE[kinds == 0]).all()
    assert (target.lds.view(np.uint32)[:32][kinds == 1] == 0xAB00_0000 + LANE[kinds == 1]).all()
    lanes = target.scratch.reshape(32, 64)[:, 8:12].copy().view(np.uint32)[:, 0]
    assert (lanes[kinds == 2] == 0xAB00_0000 + LANE[kinds == 2]).all()


def test_atomics_take_turns_in_lane_order() -> None:
    target, space, address = with_memory()
    space.view("data").view(np.uint32)[:4] = [100, 200, 300, 5]
    set_pointer(target, 0, address + 4 * (LANE % 4))
    target.vgpr[2] = LANE + 1
    execute(target, ["global_atomic_add_u32 v3, v[0:1], v2, off th:TH_ATOMIC_RETURN"])
    totals = [100, 200, 300, 5]
    for lane in range(32):
        assert lanes_of(target, 3)[lane] == totals[lane % 4]
        totals[lane % 4] += lane + 1
    assert space.view("data").view(np.uint32)[:4].tolist() == totals


def test_compare_and_swap_and_lds_atomics() -> None:
    target, space, address = with_memory(1, lds=128)
    space.view("data").view(np.uint32)[:32] = LANE % 2
    set_pointer(target, 0, address + 4 * LANE)
    target.vgpr[2] = 77  # new value
    target.vgpr[3] = 1  # expected
    target.vgpr[5] = 4 * (LANE % 2)
    target.vgpr[6] = LANE
    target.lds.view(np.uint32)[:] = 3
    execute(
        target,
        [
            "global_atomic_cmpswap_b32 v4, v[0:1], v[2:3], off th:TH_ATOMIC_RETURN",
            "ds_max_u32 v5, v6",
            "ds_add_rtn_u32 v7, v5, v3 offset:8",
            "ds_cmpstore_rtn_b32 v8, v5, v2, v9 offset:16",
        ],
    )
    assert (target.vgpr[4, 0] == LANE % 2).all()
    assert (space.view("data").view(np.uint32)[:32] == np.where(LANE % 2 == 1, 77, 0)).all()
    assert target.lds.view(np.uint32)[:4].tolist() == [30, 31, 19, 19]
    assert lanes_of(target, 7) == [3 + lane // 2 for lane in range(32)]
