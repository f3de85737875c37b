"""What must stay in NVIDIA's order: the smallest kernel for each reason, which must still give the same bytes."""

from __future__ import annotations

import pytest

from .cases import CHAIN, MMA, PRODUCE, compare, consume, convert

RELU = ".relu"
ROWS = "".join(f"add.f16x2 %y{i}, %x{i}, %x{i};\n" for i in range(4))
LATE = "".join(
    f"add.f16x2 %y{i}, %x{i}, %x{i};\nshfl.sync.bfly.b32 %z{i}, %y{i}, 1, 31, -1;\nadd.f16x2 %v{i}, %y{i}, %z{i};\n"
    for i in range(4)
)
ODD = "and.b32 %one, %one, %a12;\nsetp.eq.u32 %p0, %one, 1;\n"
CASES = {
    "mixed conversion variants in one fragment": PRODUCE + convert("u", "x", (RELU, "", RELU, "")) + consume(),
    "partial update: the instruction is guarded": PRODUCE
    + ODD
    + "mov.b32 %y0, %x0;\n@%p0 add.f16x2 %y0, %x0, %x0;\n"
    + "".join(f"mov.b32 %y{i}, %x{i};\n" for i in (1, 2, 3))
    + convert("u", "y")
    + consume(),
    "partial update: the register is written again, and other code reads this value": PRODUCE
    + ROWS
    + "mov.b32 %v0, %y0;\nst.global.u32 [%out], %y0;\n"
    + convert("u", "y")
    + consume()
    + "mov.b32 %y0, %a12;\nmov.b32 %y1, %a12;\nst.global.u32 [%out], %y0;\nst.global.u32 [%out], %y1;\n",
    "its sibling is in another basic block": PRODUCE
    + "add.f16x2 %y0, %x0, %x0;\nadd.f16x2 %y2, %x2, %x2;\nbra NEXT;\nNEXT:\n"
    + "add.f16x2 %y1, %x1, %x1;\nadd.f16x2 %y3, %x3, %x3;\n"
    + convert("u", "y")
    + consume(),
    "not every lane of the warp is sure to execute it": PRODUCE
    + ODD
    + "".join(f"mov.b32 %y{i}, %a12;\n" for i in range(4))
    + "@%p0 bra SKIP;\n"
    + ROWS
    + "SKIP:\n"
    + convert("u", "y")
    + consume(),
    "unpaired m16n8 tile: no other mma beside it has its A fragment": PRODUCE
    + convert("u", "x")
    + f"{MMA} {{%d0, %d1}}, {{%u0, %u1, %u0, %u1}}, {{%a4, %a5}}, {{%a8, %a9}};\nmov.u32 %d2, 0;\nmov.u32 %d3, 0;\n",
    "shfl.sync.up.b32 is not proved to work on each word alone": PRODUCE
    + "".join(f"shfl.sync.up.b32 %y{i}, %x{i}, 1, 0, -1;\n" for i in range(4))
    + convert("u", "y")
    + consume(),
    "shfl.sync.bfly.b32 is not proved to work on each word alone": PRODUCE
    + "".join(f"shfl.sync.bfly.b32 %y{i}, %x{i}, 4, 31, -1;\n" for i in range(4))
    + convert("u", "y")
    + consume(),
    "mixes both members of a pair": PRODUCE
    + "add.f16x2 %y0, %x0, %x1;\nadd.f16x2 %y1, %x1, %x0;\nmov.b32 %y2, %x2;\nmov.b32 %y3, %x3;\n"
    + convert("u", "y")
    + consume(),
    "the sibling of its operand is defined later": PRODUCE + LATE + convert("u", "v") + consume(),
    "transpose of something other than accumulators of one or two k steps with C = 0": CHAIN.replace("%d", "%w")
    + "".join(f"movmatrix.sync.aligned.m8n8.trans.b16 %d{i}, %w{i};\n" for i in range(4)),
    "other code reads a value that is neither 16 nor 32 bits": PRODUCE
    + "".join(f"mul.wide.u32 %wide{i}, %x{i}, 3;\ncvt.u32.u64 %y{i}, %wide{i};\n" for i in range(4))
    + convert("u", "y")
    + consume()
    + "cvt.u32.u64 %z0, %wide0;\nst.global.u64 [%out], %wide0;\n",
    "other code reads it before its sibling is defined": PRODUCE
    + "add.f16x2 %y0, %x0, %x0;\nst.global.u32 [%out], %y0;\nadd.f16x2 %y1, %x1, %x1;\n"
    + "mov.b32 %y2, %x2;\nmov.b32 %y3, %x3;\n"
    + convert("u", "y")
    + consume(),
    "no instruction does the same to the sibling": PRODUCE
    + "neg.f16x2 %y0, %x0;\nmov.b32 %y1, %x1;\nmov.b32 %y2, %x2;\nmov.b32 %y3, %x3;\n"
    + convert("u", "y")
    + consume(),
}


@pytest.mark.parametrize("reason", CASES)
def test_refused_and_still_the_same_bytes(reason: str) -> None:
    outcome = compare(CASES[reason])
    assert reason in outcome.reasons
    assert outcome.equal


def test_the_consumer_in_another_block_is_fused_where_dominance_shows_it() -> None:
    outcome = compare(PRODUCE + convert("u", "x") + "bra NEXT;\nNEXT:\n" + consume())
    assert outcome.equal
    assert [chain.operand for chain in outcome.report.chains] == ["A"]


def test_a_value_of_two_definitions_is_not_followed() -> None:
    text = PRODUCE + ROWS + "@%p0 bra NEXT;\nmov.b32 %y0, %a12;\nNEXT:\n" + convert("u", "y") + consume()
    outcome = compare(text.replace("mov.u32 %one, 1;", "setp.eq.u32 %p0, %a12, 1;"))
    assert outcome.equal
    assert "no instruction does the same to the sibling" in outcome.reasons


def test_a_shuffle_whose_predicate_is_read_stays() -> None:
    text = PRODUCE + "".join(f"shfl.sync.bfly.b32 %y{i}|%p{i}, %x{i}, 1, 31, -1;\n" for i in range(4))
    outcome = compare(text + convert("u", "y") + consume() + "selp.b32 %d0, %d0, %zero, %p0;\n")
    assert "shfl.sync.bfly.b32 is not proved to work on each word alone" in outcome.reasons
    assert outcome.equal


def test_refusals_name_producer_and_consumer() -> None:
    report = compare(CASES["mixes both members of a pair"]).report
    assert any(r.producers == (1,) and r.consumers == (2,) for r in report.refused)
    assert "P1 -> P2 in NVIDIA's order: mixes both members of a pair" in report.text()
    assert max(map(len, report.text().splitlines())) <= 100
