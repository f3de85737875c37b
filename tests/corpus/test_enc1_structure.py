"""enc1's modules against seed 001: mma per phase (section 2.1) and what every epilogue does (sections 2.4 and 3)."""

from __future__ import annotations

import re

import pytest

from .build import VARIANTS, read_module
from .structure import count, epilogues, mma_runs

ENTRY = "cuda_dldn_engine_swin_enc1_kernel"
NAMES = [v.name for v in VARIANTS if v.name.startswith("enc1") or v.name == "rr"]
# Seed 001 section 2.1.
PHASES = [24, 24, 24, 24, 48, 48, 32, 24, 24, 24, 24, 48, 48, *[32] * 17, 96, 16]
# A weight fragment (four words of a lane), per-column words, and both conversions of e4m3. Pointers read through a
# register base stay generic.
FRAGMENT, COLUMNS = r"ld\.weak\.global\.ca\.v4", r"ld\.(global\.)?(u32|b32|v2\.[ub]16)"
STORE = r"st\.(global\.)?[ub]32"
PACK, UNPACK = r"cvt\.rn\.satfinite\.e4m3x2\.f16x2", r"cvt\.rn\.f16x2\.e4m3x2"
LOADS = {FRAGMENT: 2}
SCORES = {FRAGMENT: 24, PACK: 80}
SOFTMAX = {
    r"mul\.f16x2": 96,
    r"max\.f16x2": 96,
    r"min\.f16x2": 96,
    r"fma\.rn\.f16x2": 192,
    r"and\.b32 %r\d+, %r\d+, 2145419232": 96,
    r"shfl\.sync\.bfly": 16,
    r"rcp\.approx\.ftz\.f32": 192,
    r"mul\.f16 ": 192,
    r"movmatrix": 48,
    PACK: 144,
}
ACTIVATION = {rf"{op}\.f16x2": 32 for op in ("neg", "max", "min", "abs", "sub", "add")} | {r"mul\.f16x2": 96}
SQUEEZE = {**ACTIVATION, FRAGMENT: 4, PACK: 32}
EXPAND = {FRAGMENT: 4, COLUMNS: 4, PACK: 64}
NORM = {r"shfl\.sync\.bfly": 16, r"rsqrt\.approx\.ftz\.f32": 128, r"mul\.f16 ": 384}
EPILOGUES = {
    **dict.fromkeys((1, 2, 3, 7, 8, 9, 10), LOADS),
    **dict.fromkeys((4, 11), SCORES),
    **dict.fromkeys((5, 12), SOFTMAX),
    6: {FRAGMENT: 4, COLUMNS: 8, r"add\.f16 ": 128, PACK: 32},
    13: {FRAGMENT: 4, PACK: 32},
    14: {**NORM, FRAGMENT: 4, COLUMNS: 12, PACK: 64},
    15: {**SQUEEZE, COLUMNS: 8, r"add\.f16 ": 128},
    **dict.fromkeys(range(16, 30, 2), EXPAND),
    **dict.fromkeys(range(17, 31, 2), SQUEEZE),
    30: {
        PACK: 64,
        STORE: 32,
        r"shfl\.sync\.down": 16,
        r"shfl\.sync\.up": 16,
        FRAGMENT: 48,
        COLUMNS: 12,
    },
    31: {PACK: 24, STORE: 12, FRAGMENT: 2, COLUMNS: 2},
    32: {
        r"shfl\.sync\.idx": 16,
        r"ex2\.approx\.ftz\.f32": 22,
        r"div\.approx\.ftz\.f32": 6,
        r"tex\.base\.2d\.v4\.f16\.s32": 18,
        r"fma\.rn\.f16x2": 24,
        r"shfl\.sync\.down": 8,
        r"sust\.b\.2d\.v4\.b16\.zero": 6,
    },
}
# Statements per epilogue where the seed's count is this compiler's but for a few (section 2.4).
LENGTHS = {1: 7, 4: 171, 5: 3843, 6: 264, 7: 7, 11: 171, 12: 3838, 13: 59, 15: 813, 16: 116, 17: 604, 31: 204}
MEMORY = r"(ld|st|tex|suld|sust)\."


@pytest.fixture(scope="module", params=NAMES)
def parts(request):
    return epilogues(read_module(request.param), ENTRY)


@pytest.mark.parametrize("name", NAMES)
def test_mma_per_phase(name):
    assert mma_runs(read_module(name), ENTRY) == PHASES
    assert sum(PHASES) == 1072


@pytest.mark.parametrize("index", EPILOGUES)
def test_epilogue(parts, index):
    assert {op: count(parts[index], op) for op in EPILOGUES[index]} == EPILOGUES[index]


@pytest.mark.parametrize("index", LENGTHS)
def test_epilogue_length_is_the_original_s(index):
    part = epilogues(read_module("enc1"), ENTRY)[index]
    assert abs(len(part) - LENGTHS[index]) <= 0.1 * LENGTHS[index]


def test_memory_is_touched_where_the_seed_says(parts):
    """Every load and store of an epilogue is in the table above; E5 and E12 touch none."""
    for index, expected in EPILOGUES.items():
        stated = sum(n for op, n in expected.items() if re.match(r"(ld|st|tex|suld|sust)\\", op))
        parameters = count(parts[index], r"ld\.param")
        assert count(parts[index], MEMORY) - parameters == stated, index


def test_prologue_decodes_norms_and_packs_both_planes(parts):
    prologue = {op: count(parts[0], op) for op in (UNPACK, PACK, r"rsqrt\.approx", r"shfl\.sync\.bfly")}
    assert prologue == {UNPACK: 96, PACK: 96, r"rsqrt\.approx": 192, r"shfl\.sync\.bfly": 24}
    assert count(parts[0], r"ld\.(global\.)?v2\.[ub]16") == 48 + 8  # input words, then the gain


def test_order_inside_the_epilogues_that_do_several_things(parts):
    def first(index: int, op: str) -> int:
        return next(i for i, statement in enumerate(parts[index]) if count([statement], op))

    def order(index: int, *ops: str) -> bool:
        places = [first(index, op) for op in ops]
        return places == sorted(places)

    assert order(4, FRAGMENT, PACK)
    assert order(5, r"shl\.b32", r"shfl\.sync\.bfly", r"rcp\.approx", r"movmatrix", PACK)
    assert order(14, r"mul\.f16 ", r"shfl\.sync\.bfly", r"rsqrt\.approx", COLUMNS, FRAGMENT, PACK)
    assert order(15, r"neg\.f16x2", FRAGMENT, COLUMNS, r"add\.f16 ", PACK)
    assert order(30, PACK, STORE, r"shfl\.sync\.down", FRAGMENT, COLUMNS)
    assert order(31, PACK, STORE, FRAGMENT, COLUMNS)
    assert order(32, r"shfl\.sync\.idx", r"ex2\.approx", r"tex\.base", r"sust\.b")
