"""Cross-lane instructions, barriers and shared memory against the PTX oracle."""

import numpy as np
import pytest

from tests.lower.harness import LANES, assert_same, kernel

WORD = ("b32",)
DECLARATIONS = ".reg .b32 %r, %s; .reg .b64 %x; .reg .b16 %h, %k, %l, %m; .reg .pred %p, %q;"


def lane_words(warps: int, columns: int = 1) -> np.ndarray:
    return np.random.default_rng(9).integers(0, 1 << 32, (warps * LANES, columns), dtype=np.uint32)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("clamp", [31, 0, 0x1C1F, 0x181F, 0x1807])
def test_shuffle_of_every_distance(mode: str, clamp: int) -> None:
    """Distance (or source lane) per warp, both as register and with the predicate; the clamp as nvcc builds it."""
    words = np.concatenate([lane_words(40), np.repeat(np.arange(40, dtype=np.uint32), LANES)[:, None]], axis=1)
    text = f"shfl.sync.{mode}.b32 %d0|%p, %a0, %a1, {clamp}, -1; selp.u32 %d1, 1, 0, %p;"
    assert_same(kernel(text, inputs=2, outputs=2, declarations=DECLARATIONS), words, WORD * 2)


def test_shuffle_with_constants() -> None:
    text = "mov.u32 %r, WARP_SZ; shl.b32 %r, %r, 8; add.s32 %r, %r, -8192; or.b32 %r, %r, 31;\n"
    text += "\n".join(f"shfl.sync.bfly.b32 %d{i}, %a0, {1 << i}, %r, -1;" for i in range(5))
    assert_same(kernel(text, inputs=1, outputs=5, declarations=DECLARATIONS), lane_words(4), WORD * 5)


def test_shuffle_from_a_source_per_lane() -> None:
    words = np.concatenate([lane_words(8), lane_words(8) & 31], axis=1)
    text = "shfl.sync.idx.b32 %d0, %a0, %a1, 31, -1;"
    assert_same(kernel(text, inputs=2, outputs=1), words, WORD)


def test_movmatrix_moves_every_element() -> None:
    halves = np.arange(8 * 64, dtype=np.uint32)
    words = (halves[0::2] | halves[1::2] << 16)[:, None]
    text = "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0; movmatrix.sync.trans.aligned.m8n8.b16 %d1, %d0;"
    module = kernel(text, inputs=1, outputs=2)
    assert_same(module, words, WORD * 2)


@pytest.mark.parametrize("mode", ["any", "all", "uni", "ballot"])
def test_vote(mode: str) -> None:
    words = lane_words(8) & 3
    words[:LANES] = 0
    words[LANES : 2 * LANES] = 1
    result = "vote.sync.ballot.b32 %d0, %p, -1;"
    if mode != "ballot":
        result = f"vote.sync.{mode}.pred %q, %p, -1; selp.u32 %d0, 1, 0, %q;"
    text = f"setp.ne.u32 %p, %a0, 0; {result}"
    assert_same(kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS), words, WORD)


def test_exchange_through_shared_memory() -> None:
    text = """
    .shared .align 16 .b8 other[64];
    .shared .align 16 .b8 tile[640];
    mov.u32 %s, tile;
    mad.lo.s32 %r, %tid, 16, %s;
    st.shared.v4.b32 [%r], {%a0, %tid, %a0, %tid};
    st.shared.b16 [%r+4], %h;
    bar.sync 0;
    xor.b32 %tid, %tid, 5;
    mad.lo.s32 %r, %tid, 16, %s;
    ld.shared.b32 %d0, [%r];
    ld.shared.u16 %d1, [%r+6];
    ld.shared.s8 %d2, [%r+3];
    ld.shared.v2.u16 {%k, %l}, [%r+8];
    mov.b32 %d3, {%l, %k};
    ld.shared.b32 %d4, [tile+16];
    """
    text = text.replace("st.shared.b16", "cvt.u16.u32 %h, %a0; st.shared.b16")
    assert_same(kernel(text, inputs=1, outputs=5, declarations=DECLARATIONS), lane_words(3), WORD * 5)


def test_stores_of_every_width() -> None:
    text = """
    mov.u32 %d0, 0; mov.u32 %d1, 0;
    st.global.u32 [%out+4], %a0;
    cvt.u16.u32 %h, %a1;
    st.global.u8 [%out+5], %a1;
    st.global.b16 [%out+6], %h;
    ld.global.u32 %d1, [%out+4];
    ld.global.u8 %d2, [%out+7];
    ld.global.s16 %d3, [%out+6];
    ld.weak.global.ca.v2.u32 {%d4, %d5}, [%in];
    ld.global.nc.L1::no_allocate.v2.b32 {%d6, %d7}, [%in];
    """
    words = lane_words(2, 2)
    assert_same(kernel(text, inputs=2, outputs=8, declarations=DECLARATIONS), words, WORD * 8)


def test_parameters_through_a_register() -> None:
    text = "mov.b64 %x, probe_in; ld.param.u32 %d0, [%x+4]; add.s64 %x, %x, 16; ld.param.v2.u16 {%h, %k}, [%x+-12];"
    text += "mov.b32 %d1, {%k, %h};"
    assert_same(kernel(text, inputs=1, outputs=2, declarations=DECLARATIONS), lane_words(1), WORD * 2)
