"""Warp-wide instructions against lane-by-lane Python models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulate.ptx.harness import Snippet, run
from zluda_rr.emulate.ptx import ExecutionFault
from zluda_rr.numerics import mma

FULL = 0xFFFFFFFF


def shuffled(mode: str, values: list[int], b: list[int], c: list[int]) -> list[tuple[int, int]]:
    """The manual's pseudo code of shfl.sync, one lane after the other: (value, predicate)."""
    result = []
    for lane in range(32):
        bval, cval = b[lane] & 31, c[lane] & 31
        segmask = c[lane] >> 8 & 31
        most = (lane & segmask) | (cval & ~segmask)
        least = lane & segmask
        if mode == "up":
            j = lane - bval
            inside = j >= most
        elif mode == "down":
            j = lane + bval
            inside = j <= most
        elif mode == "bfly":
            j = lane ^ bval
            inside = j <= most
        else:
            j = least | (bval & ~segmask)
            inside = j <= most
        result.append((values[j if inside else lane], int(inside)))
    return result


# The clamp and segment operands that CUDA's __shfl_*_sync build: width 32, 16, 8, … (0x1f or 0 as clamp).
controls = st.sampled_from([(segment << 8) | clamp for segment in (0, 16, 24, 28, 30, 31) for clamp in (0, 31, 15)])


@settings(max_examples=30, deadline=None)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]),
    b=st.lists(st.integers(0, 40), min_size=32, max_size=32),
    c=controls,
    seed=st.integers(0, 2**32 - 1),
)
def test_shuffles(mode: str, b: list[int], c: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << 32, 32).tolist()
    text = f"shfl.sync.{mode}.b32 %d0|%d1, %a0, %a1, %a2, 0xffffffff;\nshfl.sync.{mode}.b32 %d2, %a0, %a1, %a2, -1;"
    inputs = np.array([values, b, [c] * 32], dtype=np.uint64).T
    slots = run(Snippet(text, ("b32",) * 3, ("b32", "pred", "b32")), inputs).slots
    expected = shuffled(mode, values, b, [c] * 32)
    assert [(int(value), int(inside)) for value, inside, _ in slots] == expected
    assert np.array_equal(slots[:, 0], slots[:, 2])


def test_shuffles_stay_inside_their_warp() -> None:
    inputs = np.arange(128, dtype=np.uint64)[:, None]
    slots = run(Snippet("shfl.sync.bfly.b32 %d0, %a0, 5, 31, -1;", ("b32",), ("b32",)), inputs, block=64).slots
    assert slots[:, 0].tolist() == [lane ^ 5 for lane in range(128)]


DIVERGENT = """mov.u32 %lane, %laneid;
setp.lt.u32 %p, %lane, {limit};
@%p shfl.sync.down.b32 %d0, %a0, 1, 31, {members};"""


@pytest.mark.parametrize(
    ("limit", "members", "message"),
    [(8, 0x0000000F, "member mask lacks"), (8, 0xFFFFFFFF, "reads from a lane that does not execute")],
)
def test_undefined_shuffles_are_faults(limit: int, members: int, message: str) -> None:
    snippet = Snippet(
        DIVERGENT.format(limit=limit, members=members), ("b32",), ("b32",), declare=".reg .b32 %lane; .reg .pred %p;\n"
    )
    with pytest.raises(ExecutionFault, match=rf"line \d+, s\d+: .*: .*{message}"):
        run(snippet, np.arange(32, dtype=np.uint64)[:, None])


def test_a_part_of_a_warp_may_shuffle_among_itself() -> None:
    text = """mov.u32 %lane, %laneid; setp.lt.u32 %p, %lane, 8; mov.b32 %d0, 77;
    @%p shfl.sync.bfly.b32 %d0, %a0, 1, 31, 0xff;"""
    snippet = Snippet(text, ("b32",), ("b32",), declare=".reg .b32 %lane; .reg .pred %p;\n")
    slots = run(snippet, np.arange(32, dtype=np.uint64)[:, None]).slots
    assert slots[:, 0].tolist() == [1, 0, 3, 2, 5, 4, 7, 6] + [77] * 24


@pytest.mark.parametrize("members", [FULL, 0x0000FFFF])
@pytest.mark.parametrize("pattern", [0, FULL, 0x00000100, 0xFFFF0000, 0x0000FFFF, 0x12345678])
def test_votes(pattern: int, members: int) -> None:
    text = f"""mov.u32 %lane, %laneid; shr.b32 %x1, {members:#x}, %lane; and.b32 %x1, %x1, 1; setp.eq.u32 %p, %x1, 1;
    @%p vote.sync.ballot.b32 %d0, %a0, {members:#x};
    @%p vote.sync.ballot.b32 %d1, !%a0, {members:#x};
    @%p vote.sync.all.pred %d2, %a0, {members:#x};
    @%p vote.sync.any.pred %d3, %a0, {members:#x};
    @%p vote.sync.uni.pred %d4, %a0, {members:#x};
    @%p activemask.b32 %d5;"""
    outputs = ("b32", "b32", "pred", "pred", "pred", "b32")
    snippet = Snippet(text, ("pred",), outputs, declare=".reg .b32 %lane, %x1; .reg .pred %p;\n")
    inputs = np.array([[pattern >> lane & 1] for lane in range(32)], dtype=np.uint64)
    chosen = pattern & members
    expected = [
        chosen,
        ~pattern & members,
        int(chosen == members),
        int(chosen != 0),
        int(chosen in (0, members)),
        members,
    ]
    for lane, row in enumerate(run(snippet, inputs).slots.tolist()):
        assert row == (expected if members >> lane & 1 else [0] * 6)


def test_movmatrix_transposes() -> None:
    values = np.arange(64, dtype=np.uint16) * 1000 + 7  # element (row, column) at 8 * row + column
    words = values.view(np.uint32).astype(np.uint64)[:, None]
    snippet = Snippet("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", ("b32",), ("b32",))
    out = run(snippet, words).slots[:, 0]
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        low, high = int(values[8 * column + row]), int(values[8 * (column + 1) + row])
        assert int(out[lane]) == low | high << 16


MMA = """mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16
 {%d0, %d1}, {%a0, %a1, %a2, %a3}, {%a4, %a5}, {%a6, %a7};"""


@pytest.mark.parametrize("model", mma.MODELS)
def test_mma_hands_fragments_to_the_model(model: str) -> None:
    rng = np.random.default_rng(2)
    words = rng.integers(0, 1 << 32, (96, 8), dtype=np.uint64) & np.uint64(0xBFBFBFBF)
    words[:, 6:] &= np.uint64(0x3FFF3FFF)
    slots = run(Snippet(MMA, ("b32",) * 8, ("b32",) * 2), words, model=model).slots
    fragments = words.astype(np.uint32).reshape(3, 32, 8).transpose(0, 2, 1)
    expected = mma.mma_m16n8k32(fragments[:, :4], fragments[:, 4:6], fragments[:, 6:], model)
    assert np.array_equal(slots.astype(np.uint32).reshape(3, 32, 2).transpose(0, 2, 1), expected)


@pytest.mark.parametrize("text", [MMA.replace("\n", " "), "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"])
def test_aligned_instructions_need_the_whole_warp(text: str) -> None:
    guarded = f"mov.u32 %lane, %laneid; setp.lt.u32 %p, %lane, 31;\n@%p {text}"
    snippet = Snippet(guarded, ("b32",) * 8, ("b32",) * 2, declare=".reg .b32 %lane; .reg .pred %p;\n")
    with pytest.raises(ExecutionFault, match="executed by a part of a warp"):
        run(snippet, np.zeros((32, 8), dtype=np.uint64))
