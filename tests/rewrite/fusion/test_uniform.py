"""Which values fusion takes for equal in all lanes, and for equal to one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite import fuse_entries, fuse_module
from zluda_rr.rewrite.fusion_view import KernelView

from .cases import PRODUCE, consume, convert, module
from .test_places import ENTRY, PLAIN, assembles

HEAD = """.version 9.0
.target sm_89
.address_size 64
.shared .align 4 .b8 tile[64];
.func (.param .b32 r) f(.param .b32 x) { ret; }
.visible .entry k(.param .u32 n, .param .u64 at)
{
.reg .b32 %a, %b, %t<9>; .reg .pred %p, %q, %e, %f, %g; .reg .b16 %h<9>; .reg .b64 %rd<4>;
ld.param.u32 %t1, [n]; mov.u32 %t2, %laneid; mov.u32 %t3, %ctaid.x; ld.param.u64 %rd1, [at];
setp.eq.u32 %p, %t1, 0; setp.eq.u32 %q, %t2, 0; mov.b32 {%h1, %h2}, %t1;
"""
UNIFORM = [
    "mov.u32 %a, 5;", "mov.u32 %a, %ctaid.x;", "mov.u32 %a, %ntid.y;", "ld.param.u32 %a, [n];", "add.u32 %a, %t1, %t3;",
    "selp.b32 %a, 1, 2, !%p;", "mov.u32 %a, tile;", "mov.u32 %a, WARP_SZ;", "mov.b32 %a, {%h1, %h2};",
    "setp.eq.u32 %e, %t1, 3; selp.b32 %a, 1, 2, %e;", "add.cc.u32 %a, %t1, 1;",
]  # fmt: skip
NOT_UNIFORM = [
    "mov.u32 %a, %tid.x;", "mov.u32 %a, %laneid;", "mov.u32 %a, %warpid;", "mov.u32 %a, %clock;", "mov.u32 %a, %smid;",
    "mov.u32 %a, %lanemask_lt;", "activemask.b32 %a;", "vote.sync.ballot.b32 %a, %p, -1;",
    "ld.global.u32 %a, [%rd1];", "ld.volatile.global.u32 %a, [%rd1];", "atom.global.add.u32 %a, [%rd1], 1;",
    "ld.shared.u32 %a, [tile];", "shfl.sync.idx.b32 %a, %t1, 0, 31, -1;", "selp.b32 %a, 1, 2, %q;",
    "add.u32 %a, %t1, %t2;", "@%p mov.u32 %a, 5;", "mov.u32 %a, 5; @%p mov.u32 %a, 6;",
    "{ .param .b32 n; st.param.b32 [n], %t1; .param .b32 o; call.uni (o), f, (n); ld.param.b32 %a, [o]; }",
    "{ .param .b32 n; ld.param.b32 %a, [n]; }", "match.any.sync.b32 %a, %t1, -1;",
    "add.cc.u32 %t4, %t1, 1; addc.u32 %a, 0, 0;",
    "@%p bra L; mov.u32 %a, 5; L:", "redux.sync.add.u32 %a, %t1, -1;", "mov.u32 %a, n;",
]  # fmt: skip
DIFFERENT = [
    ("selp.b32 %a, 1, 2, %p;", "selp.b32 %b, 1, 2, !%p;"),
    (
        "setp.eq.and.u32 %e, %t1, 3, %p; selp.b32 %a, 1, 2, %e;",
        "setp.eq.and.u32 %f, %t1, 3, !%p; selp.b32 %b, 1, 2, %f;",
    ),
    ("mov.b32 {%h3, _}, %t1; mov.b32 %a, {%h3, %h3};", "mov.b32 {_, %h4}, %t1; mov.b32 %b, {%h4, %h4};"),
    ("mov.b32 %a, {%h1, %h2};", "mov.b32 %b, {%h2, %h1};"),
    ("setp.eq.u32 %e|%g, %t1, 3; selp.b32 %a, 1, 2, %e;", "selp.b32 %b, 1, 2, %g;"),
    ("add.u32 %a, %t1, 1;", "add.u32 %b, %t1, 2;"),
    ("add.u32 %a, %t1, 1;", "sub.u32 %b, %t1, 1;"),
    ("add.u32 %a, %t1, %t3;", "add.u32 %b, %t1, %t1;"),
    ("mov.u32 %a, %ctaid.x;", "mov.u32 %b, %ctaid.y;"),
    ("mov.u32 %a, tile;", "mov.u32 %b, tile+4;"),
    ("cvt.u32.u16 %a, %h1;", "cvt.s32.s16 %b, %h1;"),
]


def view(lines: str) -> tuple[KernelView, int]:
    """A kernel of the lines, and the statement behind them."""
    program = parse(f"{HEAD}{lines}\nst.shared.v2.u32 [tile], {{%a, %b}};\nret;\n}}\n")
    found = KernelView(program, program.entries[0])
    return found, next(s.number for s in found.body.statements if s.spelling == "st.shared.v2.u32")


def key(lines: str, register: str = "%a") -> object:
    found, number = view(lines)
    value = found.value(number, register)
    return None if value is None else found.same_for_all(value)


@pytest.mark.parametrize("line", UNIFORM)
def test_uniform(line: str) -> None:
    assert key(line) is not None


@pytest.mark.parametrize("line", NOT_UNIFORM)
def test_not_known_to_be_uniform(line: str) -> None:
    assert key(line) is None


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_equal_only_where_every_operand_is(first: str, second: str) -> None:
    found, number = view(f"{first}\n{second}")
    values = [found.value(number, register) for register in ("%a", "%b")]
    keys = [None if value is None else found.same_for_all(value) for value in values]
    assert None in keys or keys[0] != keys[1]


@pytest.mark.parametrize("line", ["selp.b32 {}, 1, 2, !%p;", "add.u32 {}, %t1, %t3;", "mov.b32 {}, {{%h1, %h2}};"])
def test_equal_expressions_are_equal(line: str) -> None:
    found, number = view(f"{line.format('%a')}\n{line.format('%b')}")
    keys = [found.same_for_all(value) for register in ("%a", "%b") if (value := found.value(number, register))]
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None


def test_a_long_chain_of_expressions() -> None:
    lines = "\n".join(f"add.u32 %r{i + 1}, %r{i}, 1;" for i in range(5000))
    assert key(f".reg .b32 %r<5001>; mov.u32 %r0, %t1;\n{lines}\nmov.u32 %a, %r5000;") is not None


def test_what_the_turn_before_left_is_another_value() -> None:
    """A register that is read in front of the only instruction that writes it, in a loop."""
    turn = "T: add.u32 %a, %t5, %b; mov.u32 %b, 7; add.u32 %t5, %t5, 1; setp.lt.u32 %e, %t5, 2; @%e bra T;"
    lines = f"mov.u32 %t5, 0; {turn}"
    found, _ = view(lines)
    number = next(s.number for s in found.body.statements if s.defs == ("%a",))
    assert found.value(number, "%b") is None


def test_a_vector_with_a_sink_is_no_traceback() -> None:
    lines = "".join(f"mov.b32 {{_, %h{4 + i}}}, %x{i};\nmov.b32 %v{i}, {{%h{4 + i}, %h{4 + i}}};\n" for i in range(4))
    result = fuse_module(module(PRODUCE + lines + convert("u", "v") + consume()), "probe")
    assert result.fused


def test_declarations_stand_in_front_of_every_kernel(tmp_path: Path) -> None:
    """Whatever the order in which kernels are fused."""
    first = PLAIN[PLAIN.index(ENTRY) :].replace("probe", "first")
    program: Module = parse(PLAIN.replace(ENTRY, first + ENTRY))
    fused, results = fuse_entries(program, ("probe", "first"))
    assert all(result.fused for result in results)
    assembles(print_module(fused), tmp_path)
