"""Calls of functions that the module defines, in the oracle and lowered."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.harness import assert_same, kernel, operands
from zluda_rr import lower
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import OracleError, refused_statements, run_entry
from zluda_rr.errors import UserError
from zluda_rr.ptx import Module, parse, print_module

WORD = ("b32",)
DECLARATIONS = ".reg .b32 %r, %s; .reg .b64 %x; .reg .f32 %f; .reg .pred %p, %q;"

FUNCTIONS = """
.func (.param .b32 result) twice(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result+0], %r2;
    ret;
}
.func (.param .b64 result) widened(.param .b32 x, .param .b64 y)
{
    .reg .b32 %r1; .reg .b64 %x, %y; .reg .pred %p;
    ld.param.s32 %r1, [x];
    ld.param.u64 %y, [y+0];
    cvt.s64.s32 %x, %r1;
    setp.lt.s64 %p, %x, %y;
    @%p bra LESS;
    st.param.b64 [result], %x;
    ret;
LESS:
    add.s64 %x, %x, %y;
    st.param.b64 [result], %x;
    ret;
}
.func (.param .b32 result) four_times(.param .b32 x)
{
    .reg .b32 %r1;
    .param .b32 a; .param .b32 b;
    ld.param.b32 %r1, [x];
    st.param.b32 [a], %r1;
    call.uni (b), twice, (a);
    ld.param.b32 %r1, [b];
    st.param.b32 [a], %r1;
    call (b), twice, (a);
    ld.param.b32 %r1, [b];
    st.param.b32 [result], %r1;
    ret;
}
.func nothing(.param .b32 x) { ret; }
.func (.param .f32 result) flushed(.param .f32 x)
{
    .reg .f32 %f;
    ld.param.f32 %f, [x];
    mul.ftz.f32 %f, %f, 0f3F000000;
    st.param.f32 [result], %f;
    ret;
}
.func (.param .b32 result) forgets(.param .b32 x) { ret; }
.func (.param .b32 result) endless(.param .b32 x)
{
    .param .b32 a; .param .b32 b;
    call (b), other, (a);
    ret;
}
.func (.param .b32 result) other(.param .b32 x)
{
    .param .b32 a; .param .b32 b;
    call (b), endless, (a);
    ret;
}
.func (.param .b32 result) struct(.param .align 4 .b8 x[8]) { ret; }
.func leaves() { exit; }
.func (.param .b32 result) sometimes(.param .b32 x)
{
    .reg .b32 %r1; .reg .pred %p;
    ld.param.b32 %r1, [x];
    setp.lt.s32 %p, %r1, 0;
    @%p ret;
    st.param.b32 [result], %r1;
    ret;
}
"""


def with_functions(statements: str, *, outputs: int = 1, inputs: int = 1) -> Module:
    text = print_module(kernel(statements, inputs=inputs, outputs=outputs, declarations=DECLARATIONS))
    return parse(text.replace(".visible .entry", FUNCTIONS + ".visible .entry"), filename="calls.ptx")


def call(function: str, source: str = "%a0", target: str = "%d0", kind: str = "b32", guard: str = "") -> str:
    return (
        f"{{ .param .{kind} p; .param .{kind} q; st.param.{kind} [p], {source}; "
        f"{guard}call.uni (q), {function}, (p); ld.param.{kind} {target}, [q]; }}"
    )


CASES = {
    "scalar": call("twice"),
    "nested": call("four_times"),
    "two calls": call("twice") + call("four_times", "%d0"),
    "no result": "{ .param .b32 p; st.param.b32 [p], %a0; call nothing, (p); } mov.u32 %d0, %a0;",
    "mixed widths": (
        "{ .param .b32 p; .param .b64 y; .param .b64 q; st.param.b32 [p], %a0; mov.b64 %x, {%a0, 3}; "
        "st.param.b64 [y], %x; call (q), widened, (p, y); ld.param.b64 %x, [q]; mov.b64 {%d0, %r}, %x; "
        "xor.b32 %d0, %d0, %r; }"
    ),
    "flushes where the caller does not": (
        "mov.b32 %f, %a0; mul.f32 %f, %f, 0f3F800000;" + call("flushed", "%f", "%f", "f32") + "mov.b32 %d0, %f;"
    ),
    "result that is never set": call("forgets") + "add.u32 %d0, %d0, %a0;",
    "result of the call before": call("sometimes")
    + "neg.s32 %r, %a0;"
    + call("sometimes", "%r", "%s")
    + "mad.lo.u32 %d0, %s, 3, %d0;",
    "guarded": "setp.lt.s32 %q, %a0, 0; mov.u32 %d0, 1; " + call("twice", guard="@%q "),
    "in a branch": "setp.lt.s32 %q, %a0, 5; mov.u32 %d0, 1; @%q bra ON; " + call("four_times") + " ON:",
}


@pytest.mark.parametrize("name", CASES)
def test_call(name: str) -> None:
    kinds = ("f32",) if "flushes" in name else WORD
    assert_same(with_functions(CASES[name]), operands(1), kinds)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (call("endless"), "recursion of endless"),
        (call("struct"), r"function struct .*\(only scalar parameters and at most one scalar result\)"),
        ("call leaves;", r"exit is not in the lowered PTX subset \(in a function\)"),
        ("{ .param .b64 p; .param .b32 q; call (q), twice, (p); }", r"call .*\(twice takes other parameters\)"),
        ("{ .param .b32 p; .param .b64 q; call (q), twice, (p); }", r"call .*\(twice takes other parameters\)"),
        ("{ .param .b32 p; call twice, (p); }", r"call .*\(twice takes other parameters\)"),
        ("call probe;", r"call .*\(a kernel\)"),
    ],
)
def test_refused_call(statements: str, reason: str) -> None:
    with pytest.raises(lower.LoweringError, match=reason) as caught:
        lower.lower_module(with_functions(f"mov.u32 %d0, 0; {statements}"), "probe")
    assert str(caught.value).startswith("calls.ptx:")
    assert "\n" not in str(caught.value)


def test_function_without_a_body_is_named() -> None:
    text = print_module(with_functions(call("elsewhere")))
    declared = ".extern .func (.param .b32 r) elsewhere(.param .b32 x);\n.visible .entry"
    module = parse(text.replace(".visible .entry", declared))
    with pytest.raises(UserError, match="function elsewhere is called but no linked file defines it"):
        lower.compile_module(module, "probe")


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (call("endless"), "endless calls itself"),
        ("call leaves;", "exit; *: leaves ends its thread"),
        ("call probe;", "call probe; *: probe is a kernel"),
        ("{ .param .b64 p; .param .b32 q; call (q), twice, (p); }", "the arguments are not those of its definition"),
        ("{ .param .b32 p; .param .b64 q; call (q), twice, (p); }", "the results are not those of its definition"),
        ("{ .param .b32 p; call twice, (p); }", "the results are not those of its definition"),
    ],
)
def test_oracle_refuses_them_too(statements: str, reason: str) -> None:
    memory = AddressSpace(1 << 16)
    params = np.zeros(2, np.uint64).tobytes()
    with pytest.raises(OracleError, match=rf"line \d+, s\d+: .*{reason}") as caught:
        run_entry(
            with_functions(f"mov.u32 %d0, 0; {statements}"), "probe", grid=(1, 1, 1), block=(32, 1, 1), params=params,
            memory=memory, model="exact",
        )  # fmt: skip
    module = with_functions(f"mov.u32 %d0, 0; {statements}")
    (refused,) = refused_statements(module, "probe").values()
    assert caught.value.args == refused.args
