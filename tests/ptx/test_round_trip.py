"""print(parse(text)) == text, byte for byte."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ptx.modules import HEADER, all_files, entry, read, sample
from zluda_rr.ptx import (
    Block,
    ControlFlow,
    DefUse,
    Directive,
    Instruction,
    Label,
    Liveness,
    Module,
    PtxError,
    RegDecl,
    VarDecl,
    linearise,
    parse,
    print_module,
)

FILES = all_files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_compiler_output_survives(path: Path) -> None:
    text = read(path)
    assert print_module(parse(text)) == text


@pytest.mark.parametrize("name", ["plain", "lineinfo", "debug"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.rstrip() + "\n\n// the end",
        lambda text: text.replace("\t", "    ").replace(", ", " ,\t"),
        lambda text: text.replace(";\n", "; // why\n"),
        lambda text: text.replace(", ", ", /* a */ "),
        lambda text: text.replace("\t{", "\t{ /* in; {here} */"),
    ],
    ids=[
        "crlf",
        "no final newline",
        "final comment",
        "blanks",
        "line comments",
        "block comments",
        "braces in comments",
    ],
)
def test_layout_survives(name: str, change) -> None:
    text = change(sample(name))
    assert print_module(parse(text)) == text


TOKENS = [
    ";",
    "{",
    "}",
    ",",
    "(",
    ")",
    "[",
    "]",
    "\n",
    "\r\n",
    "\t",
    "//",
    "/*",
    "*/",
    "%r1",
    ".reg",
    ".b32",
    "0f",
    "-",
    "@",
    ":",
    '"',
    "|",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = sample("plain")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 30))
        text = text[:at] + draw(st.sampled_from([*TOKENS, ""])) + text[at + length :]
    return text


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_text_survives_or_is_an_error_with_a_place(text: str) -> None:
    check_survives(text)


def check_survives(text: str) -> None:
    """Either the text comes back, or the error names a place inside it."""
    try:
        module = parse(text)
        printed, line, message = print_module(module), 1, "\n\n"
        analyse(module)
    except PtxError as error:
        printed, line, message = text, error.line, str(error)
    assert printed == text
    assert 1 <= line <= text.count("\n") + 1
    assert message.count("\n") == 2


def analyse(module: Module) -> None:
    """Everything the front end offers, for its exceptions."""
    for function in module.functions:
        if function.body is not None:
            body = linearise(function, module)
            flow = ControlFlow(body)
            chains, liveness = DefUse(body, flow), Liveness(body, flow)
            for statement in body.statements:
                assert (statement.opcode == "") == (statement.label is not None)
                assert len(statement.operands) <= len(statement.text)
                assert all(chains.uses(register) for register in statement.uses)
            assert not body.statements or liveness.live_in(1) <= set(body.registers)


@pytest.mark.soak
def test_many_mutations() -> None:
    chooser = random.Random(5)
    for name in ("plain", "lineinfo"):
        original = sample(name)
        for _ in range(10_000):
            at = chooser.randrange(len(original))
            cut = chooser.choice([0, 1, 2, 5, 40])
            check_survives(original[:at] + chooser.choice([*TOKENS, ""]) + original[at + cut :])


def test_every_kind_of_node_is_there() -> None:
    """The round trip would also hold for a parser that calls everything a comment."""
    module = parse(sample("debug"))
    kinds = {type(item) for item in _items(module)}
    assert kinds == {Block, Directive, Instruction, Label, RegDecl, VarDecl}
    assert {d.name for d in module.items if isinstance(d, Directive)} == {
        "version",
        "target",
        "address_size",
        "file",
        "section",
    }


def _items(module: Module):
    pending = [f.body for f in module.functions if f.body]
    while pending:
        for item in pending.pop().items:
            if isinstance(item, Block):
                pending.append(item)
            yield item


def test_module_fields() -> None:
    module = parse(sample("plain"))
    assert (module.version, module.target, module.address_size) == ("9.0", ("sm_89",), 64)
    assert [f.name for f in module.entries] == ["features"]
    kernel = module.function("features")
    assert kernel is not None
    assert kernel.linkage == ("visible",)
    assert kernel.directives == (("maxntid", (128, 1, 1)), ("minnctapersm", (2,)))
    (param,) = kernel.params
    assert (param.name, param.type, param.align, param.nbytes) == ("features_param_0", "b8", 8, 56)
    printf = module.function("vprintf")
    assert printf is not None
    assert printf.body is None
    assert [p.name for p in printf.params] == ["vprintf_param_0", "vprintf_param_1"]
    assert [p.type for p in printf.returns] == ["b32"]
    variables = {v.name: v for v in module.variables}
    assert (variables["tab"].space, variables["tab"].nbytes, variables["tab"].align) == ("const", 20, 4)
    assert variables["bytes"].init == "{1, 2, 3, 4}"
    assert (variables["dyn"].count, variables["dyn"].nbytes, variables["dyn"].linkage) == (None, None, ("extern",))
    assert variables["where"].init == "counter" or "generic" in (variables["where"].init or "")


def test_instruction_spans_are_those_of_the_text() -> None:
    text = sample("plain")
    lines = text.split("\n")
    checked = 0
    for item in _items(parse(text)):
        if isinstance(item, Instruction | Label):
            first = item.text.split("\n")[0]
            assert lines[item.span.line - 1][item.span.column - 1 :].startswith(first)
            assert item.span.end_line == item.span.line + item.text.count("\n")
            checked += 1
    assert checked > 400


def test_several_names_in_one_declaration() -> None:
    text = entry("\t.shared .align 4 .b32 a, b[4],\n\t c;\n\tret;")
    module = parse(text)
    assert print_module(module) == text
    body = module.entries[0].body
    assert body is not None
    found = [(v.name, v.count, v.align) for v in body.items if isinstance(v, VarDecl)]
    assert found == [("a", 1, 4), ("b", 4, 4), ("c", 1, 4)]


def test_two_dimensions_and_vectors() -> None:
    module = parse(HEADER + ".global .align 16 .v4 .f32 x[2][3];\n.global .b8 y[] = {1, 2};\n")
    assert [(v.name, v.count) for v in module.variables] == [("x", 24), ("y", None)]
