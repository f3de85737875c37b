"""Texts of single statements, by their place in the tree."""

from __future__ import annotations

import pytest

from zluda_rr.ptx import (
    Instruction,
    Module,
    add_parameter,
    change_instructions,
    define_functions,
    linearise,
    on_one_line,
    parse,
    print_module,
    rename_reads,
    replace_statements,
    with_modifier,
)

HEAD = ".version 8.4\n.target sm_89\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<20>; .reg .pred %p<4>; .reg .b64 %rd<4>; .reg .b32 plain;"


def kernel(body: str, header: str = ".visible .entry k(.param .u64 a)") -> Module:
    return parse(f"{HEAD}{header}\n{{\n{REGISTERS}\n{body}\nret;\n}}\n")


@pytest.mark.parametrize(
    ("line", "names", "expected"),
    [
        ("add.u32 %r1, %r2, %r3;", {"%r2": "%n"}, "add.u32 %r1, %n, %r3;"),
        ("add.u32 %r1, %r1, %r1;", {"%r1": "%n"}, "add.u32 %r1, %n, %n;"),
        ("add.u32 %r1, %r11, %r111;".replace("%r111", "%r12"), {"%r1": "%n"}, "add.u32 %r1, %r11, %r12;"),
        ("@%p1 add.u32 %r1, %r2, %r3;", {"%p1": "%n", "%r3": "%m"}, "@%n add.u32 %r1, %r2, %m;"),
        (
            "@!%p1 add.u32 /* %r2 */ %r1, %r2, // %r2\n %r3;",
            {"%r2": "%n"},
            "@!%p1 add.u32 /* %r2 */ %r1, %n, // %r2\n %r3;",
        ),
        ("st.global.u32 [%rd1+8], %r1;", {"%rd1": "%n", "%r1": "%m"}, "st.global.u32 [%n+8], %m;"),
        ("selp.b32 %r1, %r2, %r3, !%p2;", {"%p2": "%n"}, "selp.b32 %r1, %r2, %r3, !%n;"),
        ("mov.b64 %rd1, {%r1, %r2};", {"%r2": "%n"}, "mov.b64 %rd1, {%r1, %n};"),
        ("add.u32 %r1, plain, 5;", {"plain": "%n"}, "add.u32 %r1, %n, 5;"),
        ("{ .reg .b32 %r2; add.u32 %r1, %r2, %r3; }", {"%r2": "%n"}, "add.u32 %r1, %r2, %r3;"),
        ("{ .reg .b32 %r2; add.u32 %r1, %r2, %r3; }", {"%r2@1": "%n"}, "add.u32 %r1, %n, %r3;"),
    ],
)
def test_reads_are_renamed_where_they_are_reads(line: str, names: dict[str, str], expected: str) -> None:
    module = kernel(line)
    assert rename_reads(linearise(module.entries[0]).statements[0], names) == expected


def test_a_comment_does_not_swallow_the_rest_of_its_line() -> None:
    module = kernel("add.u32 %r1, // the sum\n\t%r2, /* and */ 5;")
    assert on_one_line(linearise(module.entries[0]).statements[0]) == "add.u32 %r1, %r2, 5;"


def test_labels_have_no_reads() -> None:
    with pytest.raises(ValueError, match="label"):
        rename_reads(linearise(kernel("L:").entries[0]).statements[0], {})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("add.f32 %f1, %f2, %f3;", "add.rn.f32 %f1, %f2, %f3;"),
        ("@%add add.f32 %f1, %f2, %f3;", "@%add add.rn.f32 %f1, %f2, %f3;"),
        ("@!%add add.f32 %f1, /* add */ %f2, %f3;", "@!%add add.rn.f32 %f1, /* add */ %f2, %f3;"),
    ],
)
def test_a_modifier_behind_the_opcode(line: str, expected: str) -> None:
    module = parse(f"{HEAD}.entry k()\n{{\n.reg .pred %add; .reg .f32 %f<4>;\n{line}\nret;\n}}\n")
    found = next(item for item in module.entries[0].body.items if isinstance(item, Instruction))  # type: ignore[union-attr]
    assert with_modifier(found, "rn") == expected


def test_statements_are_replaced_in_their_places() -> None:
    module = kernel("add.u32 %r1, %r2, 1; { .reg .b32 t; add.u32 t, %r1, 2; add.u32 %r3, t, 3; }")
    edited = replace_statements(
        module, "k", {1: "", 2: "mov.b32 t, %new;"}, at_start=".reg .b32 %new;", in_front="// f\n"
    )
    text = print_module(edited)
    assert "{ .reg .b32 t; mov.b32 t, %new; add.u32 %r3, t, 3; }" in text
    assert "// f\n.visible .entry k(" in text
    assert text.index("{") < text.index(".reg .b32 %new;") < text.index(REGISTERS)
    with pytest.raises(KeyError, match="s9"):
        replace_statements(module, "k", {9: ""})
    with pytest.raises(KeyError, match="nobody"):
        replace_statements(module, "nobody", {})


def test_instructions_of_every_function_are_changed() -> None:
    module = parse(f"{HEAD}.func f() {{ membar.gl; {{ bar.sync 0; }} }}\n.entry k() {{ bar.sync 1; ret; }}\n")
    edited = change_instructions(module, lambda i: "bar.sync 7;" if i.opcode == "bar" else None)
    assert print_module(edited) == print_module(module).replace("sync 0", "sync 7").replace("sync 1", "sync 7")
    assert change_instructions(module, lambda i: None) is module


def test_declarations_become_definitions() -> None:
    text = f"{HEAD}/* .func f(); */ .extern .func f();\n.func g() {{ ret; }}\n.extern .func f();\n.extern .func h();\n"
    edited = print_module(define_functions(parse(text), {"f": ".func f() { ret; }"}))
    assert edited == f"{HEAD}/* .func f(); */ .func f() {{ ret; }}\n.func g() {{ ret; }}\n\n.extern .func h();\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (".entry k(.param .u64 a)", ".entry k(.param .u64 a,\n\t.param .u64 z)"),
        (".entry k()", ".entry k(\n\t.param .u64 z)"),
        (".entry k", ".entry k (\n\t.param .u64 z)"),
        (
            ".entry /* k( */ k // (\n(.param .u64 a // )\n)",
            ".entry /* k( */ k // (\n(.param .u64 a,\n\t.param .u64 z // )\n)",
        ),
        (
            ".entry k(.param .align 8 .b8 a[16]) .maxntid 32, 1, 1",
            ".entry k(.param .align 8 .b8 a[16],\n\t.param .u64 z) .maxntid 32, 1, 1",
        ),
    ],
)
def test_one_more_parameter(header: str, expected: str) -> None:
    module = parse(f"{HEAD}.entry k$(.param .u64 b) {{ ret; }}\n{header}\n{{\nret;\n}}\n")
    edited = add_parameter(module, "k", ".param .u64 z")
    assert print_module(edited) == print_module(module).replace(header + "\n{", expected + "\n{")
    function = edited.function("k")
    assert function is not None
    assert function.params[-1].name == "z"
