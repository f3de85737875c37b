"""Lane exchanges, every control exhaustively, against per-lane models that follow the ISA's words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import FULL, bits, execute, floats, lanes_of, machine, run

VALUES = [0x1000 + 7 * lane for lane in range(32)]
OLD = [0xAAAA_0000 + lane for lane in range(32)]
MASKS = [FULL, 0x0F0F_A5C3, 0xFFFE_7FFF, 0]


def dpp_source(control: str, lane: int) -> int | None:
    """Lane that `lane` reads, None outside its row."""
    name, _, argument = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if name == "quad_perm":
        return lane // 4 * 4 + [int(x) for x in argument.strip("[]").split(",")][lane % 4]
    if name == "row_mirror":
        return row + 15 - place
    if name == "row_half_mirror":
        return lane // 8 * 8 + 7 - lane % 8
    amount = int(argument)
    if name == "row_ror":
        return row + (place - amount) % 16
    if name == "row_share":
        return row + amount
    if name == "row_xmask":
        return row + (place ^ amount)
    source = place + amount if name == "row_shl" else place - amount
    return row + source if 0 <= source < 16 else None


CONTROLS = [
    *(f"quad_perm:[{a},{b},{c},{d}]" for a in range(4) for b in range(4) for c in range(4) for d in range(4)),
    *(f"{name}:{n}" for name in ("row_shl", "row_shr", "row_ror") for n in range(1, 16)),
    *(f"{name}:{n}" for name in ("row_share", "row_xmask") for n in range(16)),
    "row_mirror",
    "row_half_mirror",
]
FLAGS = [
    (row_mask, bank_mask, bound, fetch)
    for row_mask, bank_mask in ((15, 15), (2, 15), (15, 6))
    for bound in (0, 1)
    for fetch in (0, 1)
]


@pytest.mark.parametrize(("row_mask", "bank_mask", "bound", "fetch"), FLAGS)
def test_dpp16(row_mask: int, bank_mask: int, bound: int, fetch: int) -> None:
    """All 335 controls, one destination register each in four groups, under four EXEC masks."""
    suffix = f"row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}{' bound_ctrl:1' * bound}{' fi:1' * fetch}"
    for start in range(0, len(CONTROLS), 120):
        chosen = CONTROLS[start : start + 120]
        lines = [f"v_mov_b32_dpp v{10 + i}, v0 {control} {suffix}" for i, control in enumerate(chosen)]
        target = machine(len(MASKS))
        target.vgpr[0] = VALUES
        target.vgpr[10:130] = OLD
        target.sgpr[126] = MASKS
        execute(target, lines)
        for i, control in enumerate(chosen):
            for wave, mask in enumerate(MASKS):
                expected = list(OLD)
                for lane in range(32):
                    enabled = mask >> lane & 1 and row_mask >> lane // 16 & 1 and bank_mask >> lane % 16 // 4 & 1
                    source = dpp_source(control, lane)
                    readable = source is not None and (fetch or mask >> source & 1)
                    if enabled and readable:
                        assert source is not None
                        expected[lane] = VALUES[source]
                    elif enabled and bound:
                        expected[lane] = 0
                assert lanes_of(target, 10 + i, wave) == expected, (control, hex(mask))


def test_dpp_reads_all_lanes_before_it_writes_any() -> None:
    done = run("v_mov_b32_dpp v0, v0 row_ror:1 row_mask:0xf bank_mask:0xf", v={0: VALUES})
    assert lanes_of(done, 0) == [VALUES[lane // 16 * 16 + (lane - 1) % 16] for lane in range(32)]


def test_dpp_of_vop2_and_vop3_and_half_sources() -> None:
    x = np.arange(32, dtype=np.float32)
    done = run(
        "v_add_f32_dpp v1, v0, v0 row_xmask:1 row_mask:0xf bank_mask:0xf",
        "v_fma_f32_e64_dpp v2, -v0, v0, 1.0 row_share:3 row_mask:0xf bank_mask:0xf",
        "v_add_f16_dpp v3.l, v4.h, v4.l row_mirror row_mask:0xf bank_mask:0xf",
        v={0: bits(x), 3: [0] * 32, 4: [int(np.float16(lane).view(np.uint16)) << 16 for lane in range(32)]},
    )
    lane = np.arange(32)
    assert floats(done.vgpr[1, 0]).tolist() == (x[lane ^ 1] + x).tolist()
    assert floats(done.vgpr[2, 0]).tolist() == (-x[lane // 16 * 16 + 3] * x + 1).tolist()
    low = done.vgpr[3, 0].view(np.float16)[0::2]
    assert low.tolist() == x[lane // 16 * 16 + 15 - lane % 16].tolist()


def test_dpp_compare_only_where_lanes_are_written() -> None:
    done = run("v_cmp_eq_u32_e64_dpp s2, v0, v0 row_shl:1 row_mask:0xf bank_mask:0xf", v={0: [5] * 32})
    assert int(done.sgpr[2, 0]) & 0x7FFF_7FFF == 0x7FFF_7FFF


@pytest.mark.parametrize("fetch", [0, 1])
def test_dpp8(fetch: int) -> None:
    rng = np.random.default_rng(8)
    selectors = [[int(x) for x in rng.integers(0, 8, 8)] for _ in range(60)]
    lines = [
        f"v_mov_b32_dpp v{10 + i}, v0 dpp8:[{','.join(map(str, s))}]{' fi:1' * fetch}" for i, s in enumerate(selectors)
    ]
    target = machine(len(MASKS))
    target.vgpr[0] = VALUES
    target.vgpr[10:70] = OLD
    target.sgpr[126] = MASKS
    execute(target, lines)
    for i, selector in enumerate(selectors):
        for wave, mask in enumerate(MASKS):
            sources = [lane // 8 * 8 + selector[lane % 8] for lane in range(32)]
            expected = [
                (VALUES[s] if fetch or mask >> s & 1 else 0) if mask >> lane & 1 else OLD[lane]
                for lane, s in enumerate(sources)
            ]
            assert lanes_of(target, 10 + i, wave) == expected


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("fetch", [0, 1])
@pytest.mark.parametrize("bound", [0, 1])
def test_permlane16(cross: bool, fetch: int, bound: int) -> None:
    """Literal and register selectors; destination and source the same register as well."""
    low, high = 0x7654_3210, 0x0123_89FE
    name = "v_permlanex16_b32" if cross else "v_permlane16_b32"
    suffix = f" op_sel:[{fetch},{bound}]" if fetch or bound else ""
    lines = [
        "s_mov_b32 s0, 0x76543210",
        "s_mov_b32 s1, 0x012389fe",
        f"{name} v1, v0, s0, s1{suffix}",
        f"{name} v2, v0, 0x76543210, 0x76543210{suffix}",
        f"{name} v3, v3, s0, s1{suffix}",
        f"{name} v4, v0, -1, 0{suffix}",
    ]
    target = machine(len(MASKS))
    target.vgpr[0] = VALUES
    target.vgpr[3] = VALUES
    for register in (1, 2, 4):
        target.vgpr[register] = OLD
    target.sgpr[126] = MASKS
    execute(target, lines)
    for wave, mask in enumerate(MASKS):
        for register, words, old in (
            (1, (low, high), OLD),
            (2, (low, low), OLD),
            (3, (low, high), VALUES),
            (4, (0xFFFF_FFFF, 0), OLD),
        ):
            expected = list(old)
            for lane in range(32):
                if not mask >> lane & 1:
                    continue
                place = lane % 16
                source = (words[place // 8] >> 4 * (place % 8) & 15) + (lane // 16 ^ cross) * 16
                if fetch or mask >> source & 1:
                    expected[lane] = VALUES[source]
                elif bound:
                    expected[lane] = 0
            assert lanes_of(target, register, wave) == expected, (register, hex(mask))


def test_permlane_var() -> None:
    selectors = [(5 * lane + 3) % 16 for lane in range(32)]
    done = run(
        "v_permlane16_var_b32 v2, v0, v1",
        "v_permlanex16_var_b32 v3, v0, v1",
        v={0: VALUES, 1: selectors},
    )
    assert lanes_of(done, 2) == [VALUES[lane // 16 * 16 + s] for lane, s in enumerate(selectors)]
    assert lanes_of(done, 3) == [VALUES[(lane // 16 ^ 1) * 16 + s] for lane, s in enumerate(selectors)]


def test_read_and_write_lanes() -> None:
    masks = [FULL, 0xFFFF_FF00, 0x8000_0000, 0]
    target = machine(len(masks))
    target.vgpr[0] = VALUES
    target.vgpr[1] = OLD
    target.sgpr[126] = masks
    target.sgpr[4] = [3, 40, 31, 0]
    execute(
        target,
        [
            "v_readfirstlane_b32 s0, v0",
            "v_readlane_b32 s1, v0, s4",
            "v_readlane_b32 s2, v0, 7",
            "v_writelane_b32 v1, s0, 9",
            "v_writelane_b32 v1, 0x1234, s4",
        ],
    )
    firsts = [0, 8, 31, 0]
    assert target.sgpr[0].tolist() == [VALUES[lane] for lane in firsts]
    assert target.sgpr[1].tolist() == [VALUES[lane % 32] for lane in (3, 40, 31, 0)]
    assert target.sgpr[2].tolist() == [VALUES[7]] * 4
    for wave, lane in enumerate((3, 8, 31, 0)):
        expected = list(OLD)
        expected[9] = VALUES[firsts[wave]]
        expected[lane] = 0x1234
        assert lanes_of(target, 1, wave) == expected


@pytest.mark.parametrize("mask", MASKS[:3])
def test_bpermute_and_permute(mask: int) -> None:
    rng = np.random.default_rng(mask)
    index = rng.integers(0, 64, 32)
    done = run(
        "ds_bpermute_b32 v2, v1, v0",
        "ds_bpermute_b32 v3, v1, v0 offset:8",
        "ds_bpermute_fi_b32 v4, v1, v0",
        "ds_permute_b32 v5, v1, v0",
        v={0: VALUES, 1: 4 * index, 2: OLD, 3: OLD, 4: OLD, 5: OLD},
        execution=mask,
    )
    pulled, shifted, fetched, pushed = list(OLD), list(OLD), list(OLD), list(OLD)
    received = [0] * 32
    for lane in range(32):
        if mask >> lane & 1:
            received[index[lane] % 32] = VALUES[lane]
    for lane in range(32):
        if mask >> lane & 1:
            source = int(index[lane]) % 32
            pulled[lane] = VALUES[source] if mask >> source & 1 else 0
            fetched[lane] = VALUES[source]
            source = (source + 2) % 32
            shifted[lane] = VALUES[source] if mask >> source & 1 else 0
            pushed[lane] = received[lane]
    assert [lanes_of(done, r) for r in (2, 3, 4, 5)] == [pulled, shifted, fetched, pushed]


def test_swizzle() -> None:
    done = run(
        "ds_swizzle_b32 v1, v0 offset:swizzle(QUAD_PERM,3,0,1,2)",
        'ds_swizzle_b32 v2, v0 offset:swizzle(BITMASK_PERM,"01pi0")',
        "ds_swizzle_b32 v3, v0 offset:swizzle(BROADCAST,8,5)",
        "ds_swizzle_b32 v4, v0 offset:swizzle(REVERSE,16)",
        "ds_swizzle_b32 v5, v0 offset:swizzle(SWAP,4)",
        "ds_swizzle_b32 v6, v0 offset:swizzle(ROTATE,0,3)",
        "ds_swizzle_b32 v7, v0 offset:swizzle(ROTATE,1,3)",
        "ds_swizzle_b32 v8, v0 offset:swizzle(FFT,31)",
        "ds_swizzle_b32 v9, v0 offset:swizzle(FFT,0)",
        v={0: VALUES},
    )
    lanes = range(32)
    expected = {
        1: [lane // 4 * 4 + (3, 0, 1, 2)[lane % 4] for lane in lanes],
        # pattern from bit 4 down: 0, 1, keep, invert, 0
        2: [(lane & 4) | 8 | (~lane & 2) for lane in lanes],
        3: [lane // 8 * 8 + 5 for lane in lanes],
        4: [lane // 16 * 16 + 15 - lane % 16 for lane in lanes],
        5: [lane ^ 4 for lane in lanes],
        6: [(lane + 3) % 32 for lane in lanes],
        7: [(lane - 3) % 32 for lane in lanes],
        8: list(lanes),
        9: [int(f"{lane:05b}"[::-1], 2) for lane in lanes],
    }
    for register, sources in expected.items():
        assert lanes_of(done, register) == [VALUES[s] for s in sources], register


def test_lane_count_below() -> None:
    mask = 0xF0F0_1234
    done = run(
        "v_mbcnt_lo_u32_b32 v1, s0, 0",
        "v_mbcnt_hi_u32_b32 v2, -1, v1",
        "v_mbcnt_lo_u32_b32 v3, -1, 0",
        s={0: mask},
    )
    below = [(mask & ((1 << lane) - 1)).bit_count() for lane in range(32)]
    assert lanes_of(done, 1) == lanes_of(done, 2) == below
    assert lanes_of(done, 3) == list(range(32))


def test_dual_issue_reads_before_it_writes() -> None:
    done = run(
        "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0",
        "v_dual_add_f32 v2, v3, v2 :: v_dual_mul_f32 v3, v2, v3",
        v={0: [1] * 32, 1: [2] * 32, 2: bits([3.0] * 32), 3: bits([5.0] * 32)},
    )
    assert (lanes_of(done, 0)[0], lanes_of(done, 1)[0]) == (2, 1)
    assert (floats(done.vgpr[2, 0, 0]), floats(done.vgpr[3, 0, 0])) == (8.0, 15.0)


def test_dual_issue_under_exec_and_with_vcc() -> None:
    target = machine(1)
    target.vgpr[0], target.vgpr[1], target.vgpr[2], target.vgpr[5] = 10, 20, 30, 10
    target.sgpr[106], target.sgpr[126] = 0x0000_FFFF, 0x00FF_00FF
    execute(target, ["v_dual_cndmask_b32 v2, v0, v1 :: v_dual_mov_b32 v1, v5"])
    enabled = [0x00FF_00FF >> lane & 1 for lane in range(32)]
    assert lanes_of(target, 2) == [(20 if lane < 16 else 10) if on else 30 for lane, on in enumerate(enabled)]
    assert lanes_of(target, 1) == [10 if on else 20 for on in enabled]
