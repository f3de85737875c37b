"""Branches, loops and barriers: every lane computes what it would alone, and lanes meet again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulate.ptx.harness import Snippet, run
from zluda_rr.emulate.ptx import ExecutionFault

REGISTERS = ".reg .b32 %x0, %x1, %x2, %t; .reg .pred %p, %q;\n"


def lanes(*columns: object, count: int = 32) -> np.ndarray:
    return np.stack([np.broadcast_to(np.asarray(column, dtype=np.uint64), count) for column in columns], axis=1)


COLLATZ = """mov.b32 %x0, %a0; mov.b32 %d0, 0;
LOOP: setp.le.u32 %p, %x0, 1;
@%p bra DONE;
add.u32 %d0, %d0, 1;
and.b32 %x1, %x0, 1;
setp.eq.u32 %q, %x1, 0;
@%q bra EVEN;
mad.lo.u32 %x0, %x0, 3, 1;
bra.uni LOOP;
EVEN: shr.u32 %x0, %x0, 1;
bra.uni LOOP;
DONE: activemask.b32 %d1;"""


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=32, max_size=32))
def test_loops_with_their_own_trip_counts(starts: list[int]) -> None:
    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    slots = run(Snippet(COLLATZ, ("b32",), ("b32", "b32"), declare=REGISTERS), lanes(starts)).slots
    assert slots[:, 0].tolist() == [steps(n) for n in starts]
    assert np.all(slots[:, 1] == 0xFFFFFFFF)  # all lanes are together again behind the loop


NESTED = """mov.b32 %d0, 0; mov.b32 %d1, 0;
setp.lt.s32 %p, %a0, 0;
@%p bra NEGATIVE;
 setp.gt.s32 %q, %a0, 10;
 @!%q bra SMALL;
  add.u32 %d0, %d0, 1; activemask.b32 %d1; bra.uni JOIN;
 SMALL:
  add.u32 %d0, %d0, 2; activemask.b32 %d1;
 JOIN:
 add.u32 %d0, %d0, 100; activemask.b32 %d2;
 bra.uni END;
NEGATIVE:
 setp.lt.s32 %q, %a0, -10;
 @%q ret;
 add.u32 %d0, %d0, 3; activemask.b32 %d1; mov.b32 %d2, 0;
END:
add.u32 %d0, %d0, 1000;"""


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=32, max_size=32))
def test_nested_branches_and_early_return(values: list[int]) -> None:
    snippet = Snippet(NESTED, ("b32",), ("b32", "b32", "b32"), declare=REGISTERS)
    slots = run(snippet, lanes([v & 0xFFFFFFFF for v in values])).slots

    def ballot(test: object) -> int:
        return sum(1 << lane for lane, value in enumerate(values) if test(value))  # type: ignore[operator]

    large, small = ballot(lambda v: v > 10), ballot(lambda v: 0 <= v <= 10)
    for value, row in zip(values, slots.tolist(), strict=True):
        if value > 10:
            assert row == [1101, large, large | small]
        elif value >= 0:
            assert row == [1102, small, large | small]
        elif value >= -10:
            assert row == [1003, ballot(lambda v: -10 <= v < 0), 0]
        else:
            assert row == [0xEEEEEEEE] * 3  # returned before its store


def test_a_loop_whose_body_is_laid_out_behind_its_exit() -> None:
    text = """mov.b32 %d0, 0; mov.b32 %x0, %a0;
    HEAD: setp.ne.u32 %p, %x0, 0;
    @%p bra BODY;
    EXIT: add.u32 %d0, %d0, 1000;
    bra.uni END;
    BODY: add.u32 %d0, %d0, %x0; sub.u32 %x0, %x0, 1; bra.uni HEAD;
    END: mov.b32 %d1, %d0;"""
    counts = np.arange(32)
    slots = run(Snippet(text, ("b32",), ("b32", "b32"), declare=REGISTERS), lanes(counts)).slots
    assert slots[:, 0].tolist() == [1000 + n * (n + 1) // 2 for n in counts.tolist()]
    assert np.array_equal(slots[:, 0], slots[:, 1])


def test_nested_loops_diverge_at_both_levels() -> None:
    text = """mov.b32 %d0, 0; mov.b32 %x0, 0;
    OUTER: setp.ge.u32 %p, %x0, %a0; @%p bra END;
     mov.b32 %x1, 0;
     INNER: setp.ge.u32 %q, %x1, %x0; @%q bra NEXT;
      mad.lo.u32 %d0, %x0, %x1, %d0; add.u32 %x1, %x1, 1; bra.uni INNER;
     NEXT: add.u32 %x0, %x0, 1; bra.uni OUTER;
    END: activemask.b32 %d1;"""
    sizes = [lane % 9 for lane in range(32)]
    slots = run(Snippet(text, ("b32",), ("b32", "b32"), declare=REGISTERS), lanes(sizes)).slots
    assert slots[:, 0].tolist() == [sum(i * j for i in range(n) for j in range(i)) for n in sizes]
    assert np.all(slots[:, 1] == 0xFFFFFFFF)


def test_guards_leave_other_lanes_alone() -> None:
    text = """mov.b32 %d0, 5; setp.lt.u32 %p, %a0, 16; @%p mov.b32 %d0, 9; @!%p add.u32 %d0, %d0, %a0;
    setp.lt.u32 %q, %a0, 100; @!%q mov.b32 %d0, 1;"""
    slots = run(Snippet(text, ("b32",), ("b32",), declare=REGISTERS), lanes(range(32))).slots
    assert slots[:, 0].tolist() == [9] * 16 + [5 + lane for lane in range(16, 32)]


SHARED = ".shared .align 4 .b32 box[256];\n.reg .b32 %at;\n.reg .b32 %x0, %x1;\n.reg .pred %p;\n"
REVERSE = """mov.u32 %at, box; mov.u32 %x0, %tid.x; mad.lo.u32 %x1, %x0, 4, %at; st.shared.b32 [%x1], %a0;
bar.sync 0;
mov.u32 %x1, %ntid.x; sub.u32 %x0, %x1, %x0; sub.u32 %x0, %x0, 1; mad.lo.u32 %x1, %x0, 4, %at;
ld.shared.b32 %d0, [%x1];"""


@pytest.mark.parametrize("block", [32, 96, 256])
@pytest.mark.parametrize("chunk_warps", [1, 4, 128])
def test_barriers_order_shared_memory_of_each_block(block: int, chunk_warps: int) -> None:
    values = np.arange(3 * block) * 7 + 1
    snippet = Snippet(REVERSE, ("b32",), ("b32",), declare=SHARED)
    slots = run(snippet, lanes(values, count=3 * block), block=block, chunk_warps=chunk_warps).slots
    assert np.array_equal(slots[:, 0], values.reshape(3, block)[:, ::-1].ravel())


def test_warps_wait_for_the_slowest_of_their_block() -> None:
    """Warp w spins w * 10 rounds before it writes; everyone reads the last warp's word behind the barrier."""
    text = """mov.u32 %x0, %tid.x; shr.u32 %x1, %x0, 5; mul.lo.u32 %x1, %x1, 10;
    SPIN: setp.eq.u32 %p, %x1, 0; @%p bra GO; sub.u32 %x1, %x1, 1; bra.uni SPIN;
    GO: mov.u32 %at, box; mad.lo.u32 %x1, %x0, 4, %at; st.shared.b32 [%x1], %a0;
    barrier.sync.aligned 0;
    ld.shared.b32 %d0, [box+508];"""
    values = np.arange(256) + 1
    slots = run(Snippet(text, ("b32",), ("b32",), declare=SHARED), lanes(values, count=256), block=128).slots
    assert slots[:, 0].tolist() == [128] * 128 + [256] * 128


def test_ended_threads_do_not_hold_a_barrier() -> None:
    text = "setp.ge.u32 %p, %a0, 40; @%p exit; bar.sync 0; mov.b32 %d0, 1;"
    slots = run(Snippet(text, ("b32",), ("b32",), declare=SHARED), lanes(range(64), count=64), block=64).slots
    assert slots[:, 0].tolist() == [1] * 40 + [0xEEEEEEEE] * 24


def test_a_barrier_that_the_others_leave_behind_opens_when_they_end() -> None:
    text = """setp.lt.u32 %p, %a0, 32; @%p bra FIRST; bar.sync 0; bra.uni LAST;
    FIRST: mov.b32 %d0, 1; LAST: mov.b32 %d0, 2;"""
    slots = run(Snippet(text, ("b32",), ("b32",), declare=SHARED), lanes(range(64), count=64), block=64).slots
    assert np.all(slots == 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bar.warp.sync 1;", "member mask lacks"),
        (
            "setp.lt.u32 %p, %a0, 9; @%p bra.uni AHEAD; bar.warp.sync -1; AHEAD: mov.b32 %d0, 0;",
            "a lane that is elsewhere",
        ),
    ],
)
def test_wrong_warp_barriers_are_faults(text: str, message: str) -> None:
    with pytest.raises(ExecutionFault, match=message):
        run(Snippet(text, ("b32",), ("b32",), declare=REGISTERS), lanes(range(32)))


def test_a_warp_barrier_of_all_or_of_the_executing_lanes() -> None:
    text = "bar.warp.sync -1; setp.lt.u32 %p, %a0, 4; @%p bar.warp.sync 15; mov.b32 %d0, 3;"
    assert np.all(run(Snippet(text, ("b32",), ("b32",), declare=REGISTERS), lanes(range(32))).slots == 3)


def test_blocks_of_part_warps_leave_the_other_lanes_out() -> None:
    snippet = Snippet("activemask.b32 %d0; mov.u32 %d1, %laneid; mov.u32 %d2, %warpid;", ("b32",), ("b32",) * 3)
    slots = run(snippet, lanes(range(80), count=80), block=40).slots
    assert slots[:, 0].tolist() == ([0xFFFFFFFF] * 32 + [0xFF] * 8) * 2
    assert slots[:, 1].tolist() == [*range(32), *range(8)] * 2
    assert slots[:, 2].tolist() == ([0] * 32 + [1] * 8) * 2
