"""Operands and guards of single instructions."""

import struct

import pytest

from tests.ptx.modules import entry
from tests.ptx.probes.support import understand
from zluda_rr.ptx import (
    Address,
    Coordinates,
    Group,
    Guard,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    PtxError,
    Register,
    Symbol,
    Vector,
    linearise,
    parse,
)

R = Register


def instruction(text: str) -> Instruction:
    body = parse(entry(text)).entries[0].body
    assert body is not None
    return next(item for item in body.items if isinstance(item, Instruction))


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("ret;", ()),
        ("mov.u32 %r1, -5;", (R("%r1"), Immediate("-5", "int", -5))),
        ("mov.u32 %r1, 0x33800000U;", (R("%r1"), Immediate("0x33800000U", "int", 0x33800000))),
        ("mov.u32 %r1, 017;", (R("%r1"), Immediate("017", "int", 15))),
        ("mov.u32 %r1, 0b101;", (R("%r1"), Immediate("0b101", "int", 5))),
        ("mov.f32 %f1, 0f3FC00000;", (R("%f1"), Immediate("0f3FC00000", "f32", 0x3FC00000))),
        ("mov.f64 %f1, 0d3FE1CC0000000000;", (R("%f1"), Immediate("0d3FE1CC0000000000", "f64", 0x3FE1CC0000000000))),
        ("mov.u32 %r1, %tid.x;", (R("%r1"), R("%tid.x"))),
        ("mov.u64 %rd1, table+16;", (R("%rd1"), Symbol("table", 16))),
        ("mov.b32 {low,high}, %r1;", (Vector((Symbol("low"), Symbol("high"))), R("%r1"))),
        ("ld.global.u32 %r1, [%rd1];", (R("%r1"), Address(R("%rd1"), 0))),
        ("ld.global.u32 %r1, [%rd1+-32];", (R("%r1"), Address(R("%rd1"), -32))),
        ("ld.global.u32 %r1, [%rd1-32];", (R("%r1"), Address(R("%rd1"), -32))),
        ("ld.param.u32 %r1, [k_param_0+8];", (R("%r1"), Address(Symbol("k_param_0"), 8))),
        ("ld.shared.u32 %r1, [64];", (R("%r1"), Address(None, 64))),
        (
            "shfl.sync.down.b32 %r1|%p1, %r2, 4, 31, -1;",
            (
                Pair(R("%r1"), R("%p1")),
                R("%r2"),
                Immediate("4", "int", 4),
                Immediate("31", "int", 31),
                Immediate("-1", "int", -1),
            ),
        ),
        ("and.pred %p1, %p2, !%p3;", (R("%p1"), R("%p2"), Negated(R("%p3")))),
        (
            "sust.b.2d.v2.b16.zero [%rd1, {%r1, %r2}], {%r3, %r4};",
            (Coordinates(R("%rd1"), (R("%r1"), R("%r2"))), Vector((R("%r3"), R("%r4")))),
        ),
        (
            "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, s, {%f5, %f6}];",
            (
                Vector((R("%f1"), R("%f2"), R("%f3"), R("%f4"))),
                Coordinates(Symbol("t"), (R("%f5"), R("%f6")), Symbol("s")),
            ),
        ),
        (
            "call.uni (retval0),\n\tfoo,\n\t(\n\tparam0,\n\tparam1\n\t);",
            (Group((Symbol("retval0"),)), Symbol("foo"), Group((Symbol("param0"), Symbol("param1")))),
        ),
        ("call foo, ();", (Symbol("foo"), Group(()))),
    ],
)
def test_operand_forms(text: str, operands: tuple[Operand, ...]) -> None:
    assert instruction(text).operands == operands


def test_decimal_float_is_its_double() -> None:
    (_, value) = instruction("mov.f32 %f1, -1.5;").operands
    assert isinstance(value, Immediate)
    assert struct.pack("<Q", value.value) == struct.pack("<d", -1.5)


def test_name_and_modifiers() -> None:
    found = instruction(
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r1,%r2},{%r3,%r4,%r5,%r6},{%r7,%r8},{%r1,%r2};"
    )
    assert found.opcode == "mma"
    assert found.modifiers == ("sync", "aligned", "m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16")
    scoped = instruction("ld.shared::cta.L2::128B.u32 %r1, [%r2];")
    assert scoped.modifiers == ("shared::cta", "L2::128B", "u32")


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("ret;", None),
        ("@%p1 ret;", Guard("%p1", negated=False)),
        ("@!%p1 ret;", Guard("%p1", negated=True)),
        ("@p bra L;", Guard("p", negated=False)),
    ],
)
def test_guards(text: str, guard: Guard | None) -> None:
    assert instruction(text).guard == guard


def test_equal_shapes_are_parsed_once() -> None:
    body = parse(entry("add.s32 %r1, %r2, 5;\nadd.s32 %r3, %r1, %r2;\nadd.u32 %r3, %r1, %r2;")).entries[0].body
    assert body is not None
    first, second, third = (item for item in body.items if isinstance(item, Instruction))
    assert first.shape is second.shape
    assert first.shape is not third.shape


def test_a_shape_does_not_hide_a_bad_offset() -> None:
    text = entry("ld.shared.u32 %r1, [%r2+4];\nld.shared.u32 %r1, [%r2+%r3];")
    with pytest.raises(PtxError, match=r"expected .*constant.*found \"%r3\""):
        understand(parse(text))


def test_statement_operands_are_resolved() -> None:
    body = linearise(parse(entry("{ .reg .b16 low;\nmov.b32 {low, _}, %r1; }")).entries[0])
    assert body[1].operands == (Vector((R("low@1"), Symbol("_"))), R("%r1"))
