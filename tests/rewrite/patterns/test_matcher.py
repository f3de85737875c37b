"""Matching of lines by definitions and uses."""

from __future__ import annotations

import pytest

from tests.lower.harness import kernel
from zluda_rr.ptx import Register
from zluda_rr.rewrite.fusion_view import KernelView
from zluda_rr.rewrite.patterns import Match, Value, find, read_rules

REGISTERS = ".reg .b32 %x, %y, %z, %w, %one; .reg .b16 %h<4>; .reg .pred %p;"


def matches(rule_body: str, statements: str) -> list[Match]:
    """Matches of a rule anywhere in a kernel's statements."""
    (rule,) = read_rules('rule r {\n reason "r" source "s"\n' + rule_body + "\n}")
    module = kernel(statements, inputs=4, outputs=1, declarations=REGISTERS)
    view = KernelView(module, module.entries[0])
    found = [find(rule, view, s.number) for s in view.body.statements if s.instruction is not None]
    return [match for match in found if match is not None]


ADD = "match { $d = add.f16x2 $a, $b; }"
TWICE = "match { $d = add.f16x2 $a, $a; } carry;"
PACK = """match {
  $lo = cvt.rn.*.e4m3x2.f16x2 $x;
  $hi = cvt.rn.*.e4m3x2.f16x2 $y;
  at: $w = mov.b32 {$lo, $hi};
} %s emit {
 | $w = zrr_fc_pack($x, $y);
}"""
CVT = "cvt.rn.satfinite.e4m3x2.f16x2"


def test_captures_are_values() -> None:
    (match,) = matches(f"{ADD} carry;", "add.f16x2 %x, %a0, %a1;")
    (number,) = match.statements
    assert match.captures["d"] == Value("%x", number)
    assert isinstance(match.captures["a"], Value)
    assert match.captures["a"].register == "%a0"


def test_one_name_is_one_value() -> None:
    assert len(matches(TWICE, "add.f16x2 %x, %a0, %a0;\nadd.f16x2 %y, %a0, %a1;")) == 1
    assert not matches(TWICE, "mov.b32 %x, %a0;\nadd.f16x2 %y, %a0, %a1;")


def test_constants_match_by_value() -> None:
    rule = "match { $d = shl.b32 $a, 3; } carry;"
    assert len(matches(rule, "shl.b32 %x, %a0, 3;\nmov.u32 %one, 3;\nshl.b32 %y, %a0, %one;\nshl.b32 %z, %a0, 4;")) == 2
    assert not matches(rule, "shl.b32 %x, %a0, %a1;")


def test_guarded_instructions_do_not_match() -> None:
    assert not matches(f"{ADD} carry;", "setp.eq.u32 %p, %a0, 0;\n@%p add.f16x2 %x, %a0, %a1;")


@pytest.mark.parametrize("order", ["%x, %a1", "%a1, %x"])
def test_commutative_operands(order: str) -> None:
    chain = "match { $x = neg.f16x2 $a; at: $d = add.f16x2 $x, $b; }"
    emit = " emit {\n | neg $d, $b;\n}"
    text = f"neg.f16x2 %x, %a0;\nadd.f16x2 %y, {order};"
    assert len(matches(f"{chain} where commutes $x $b;{emit}", text)) == 1
    assert len(matches(chain + emit, text)) == (order == "%x, %a1")


def test_several_lines_are_found_by_definitions() -> None:
    text = f"{CVT} %h0, %a0;\n{CVT} %h1, %a1;\nmov.b32 %x, {{%h1, %h0}};"
    (match,) = matches(PACK % "", text)
    assert [match.captures[n].register for n in ("x", "y")] == ["%a1", "%a0"]  # type: ignore[union-attr]


def test_use_counts() -> None:
    text = f"{CVT} %h0, %a0;\n{CVT} %h1, %a1;\nmov.b32 %x, {{%h0, %h1}};\n"
    assert len(matches(PACK % "where uses $lo == 1;", text)) == 1
    assert not matches(PACK % "where uses $lo == 1;", text + "mov.b32 %y, {%h0, %h0};")
    assert len(matches(PACK % "where uses $lo <= 2;", text + "cvt.u32.u16 %y, %h0;")) == 1


def test_order() -> None:
    rule = """match { p: $x = neg.f16x2 $a; q: $y = abs.f16x2 $a; }
      where before p q;
      emit {
      | mov $x, $y;
    }"""
    assert len(matches(rule, "neg.f16x2 %x, %a0;\nabs.f16x2 %y, %a0;")) == 1
    assert not matches(rule, "abs.f16x2 %y, %a0;\nneg.f16x2 %x, %a0;")


def test_results_with_a_predicate() -> None:
    rule = "match { $d|_ = shfl.sync.bfly.b32 $v, 1, 31, -1; } carry;"
    shuffles = "shfl.sync.bfly.b32 %x|%p, %a0, 1, 31, -1;\nshfl.sync.bfly.b32 %y, %a0, 1, 31, -1;"
    assert len(matches(rule, shuffles)) == 2
    assert not matches(rule, "shfl.sync.bfly.b32 %y, %a0, 2, 31, -1;")


def test_uniform_values_are_the_same_for_all_lanes() -> None:
    text = "mov.u32 %x, %laneid;\nmov.u32 %y, 5;\nadd.u32 %z, %y, 1;\nadd.u32 %w, %y, %x;"
    module = kernel(text, inputs=1, outputs=1, declarations=REGISTERS)
    view = KernelView(module, module.entries[0])
    last = len(view.body.statements)

    def key(register: str) -> object:
        value = view.value(last, register)
        assert value is not None
        return view.same_for_all(value)

    assert key("%y") is not None
    assert key("%z") is not None
    assert key("%y") != key("%z")
    assert key("%x") is None
    assert key("%w") is None
    assert key("%a0") is None
    assert view.constant(last, Register("%z")) == 6
