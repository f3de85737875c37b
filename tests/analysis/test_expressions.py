"""Expressions: halves, constants, order of operands, and what is not followed."""

import pytest

from tests.analysis.snippets import Snippet
from zluda_rr.analysis.expressions import Expressions


def nodes(lines: str, *registers: str) -> list[tuple[int, ...]]:
    """What the last definition of each register holds."""
    snippet = Snippet(lines)
    found = Expressions(snippet.body, snippet.values)
    last = {register: s.number for s in snippet.body.statements for register in s.defs}
    return [found.defined(last[register], register) for register in registers]


LEAVES = "ld.global.u32 %r1, [%rd1];\nld.global.u32 %r2, [%rd1+4];\n"


def test_packed_and_scalar_arithmetic_are_the_same() -> None:
    scalar = """
        mov.b32 {%rs1, %rs2}, %r1; mov.b32 {%rs3, %rs4}, %r2;
        add.f16 %rs5, %rs3, %rs1; add.f16 %rs6, %rs4, %rs2; mov.b32 %r3, {%rs5, %rs6};
        add.f16x2 %r4, %r1, %r2;
    """
    one, other = nodes(LEAVES + scalar, "%r3", "%r4")
    assert one == other


@pytest.mark.parametrize(("opcode", "same"), [("add", True), ("mul", True), ("max", True), ("sub", False)])
def test_order_of_operands(opcode: str, same: bool) -> None:
    one, other = nodes(LEAVES + f"{opcode}.f16x2 %r3, %r1, %r2; {opcode}.f16x2 %r4, %r2, %r1;", "%r3", "%r4")
    assert (one == other) is same


def test_a_swapped_pair_is_another_value() -> None:
    lines = "mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r3, {%rs2, %rs1}; mov.b32 %r4, {%rs1, %rs2}; mov.b32 %r5, %r1;"
    swapped, again, copy = nodes(LEAVES + lines, "%r3", "%r4", "%r5")
    assert again == copy != swapped


def test_constants_of_any_spelling() -> None:
    lines = """
        mov.f32 %f1, 0f40000000; cvt.rn.f16.f32 %rs1, %f1; mov.b32 %r3, {%rs1, %rs1}; mul.f16x2 %r4, %r1, %r3;
        mov.b32 %r5, 1073758208; mul.f16x2 %r6, %r5, %r1;
        mov.f32 %f2, 0fC0000000; cvt.rn.f16.f32 %rs2, %f2; neg.f16 %rs3, %rs2; mov.b32 %r7, {%rs3, %rs3};
        mul.f16x2 %r8, %r7, %r1;
    """
    one, other, third = nodes(LEAVES + lines, "%r4", "%r6", "%r8")
    assert one == other == third


def test_bits_that_cross_the_halves_count_unless_masked_off() -> None:
    lines = (
        "shl.b32 %r3, %r1, 5; and.b32 %r4, %r3, 2145419232; and.b32 %r5, %r3, 2145419233; and.b32 %r6, %r3, 2145484768;"
    )
    clean, _, crossed = nodes(LEAVES + lines, "%r4", "%r5", "%r6")
    assert clean[0] != clean[1]
    assert crossed[0] == clean[0]
    assert crossed[1] != clean[1]


def test_guarded_and_joined_values_are_opaque() -> None:
    lines = """
        setp.eq.s32 %p1, %r1, 0; mov.b32 %r3, %r1; @%p1 mov.b32 %r3, %r2;
        add.f16x2 %r4, %r3, %r1; add.f16x2 %r5, %r1, %r1;
    """
    joined, plain = nodes(LEAVES + lines, "%r4", "%r5")
    assert joined != plain
