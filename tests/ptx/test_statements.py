"""Numbering, lines and scoped names."""

import pytest

from tests.ptx.modules import CORPUS, entry, read, sample
from zluda_rr.ptx import Function, Module, PtxError, Register, Symbol, linearise, parse

# A cutting of nvcc 13.0's output with everything that numbering must count or skip.
CUT = """\t.loc\t1 13 3
\tmov.f32 \t%f11, 0f3FC00000;
\t// begin inline asm
\t{.reg .f16 low;
  cvt.rn.f16.f32 low, %f11;
  mov.b32 %r18, {low,low};}

\t// end inline asm
\tmma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16
\t\t{%r1,%r2},
\t\t{%r3,%r4,%r5,%r6},
\t\t{%r7,%r8},
\t\t{%r9,%r10};
\t{ // callseq 0, 0
\t.param .b32 param0;
\tst.param.f32 \t[param0+0], %f12;
\tcall.uni
\tfoo,
\t(
\tparam0
\t);
\t} // callseq 0
\t@%p3 bra \t$L__BB1_2;

$L__BB1_2:
\t.pragma "nounroll";
\tret;"""

REGISTERS = ".reg .b32 %r<32>;\n\t.reg .f32 %f<32>;\n\t.reg .pred %p<8>;"


def kernel(text: str) -> Function:
    return parse(text).entries[0]


def test_numbers_and_lines() -> None:
    """A statement ends at `;`, a label is one, a multi-line instruction is one, at its first line."""
    body = linearise(kernel(entry(CUT, registers=REGISTERS)))
    first = entry("", registers=REGISTERS).count("\n", 0, entry("", registers=REGISTERS).index("\n\n\n")) + 3
    assert [(s.number, s.line - first + 1, s.opcode or s.label) for s in body.statements] == [
        (1, 2, "mov"),
        (2, 5, "cvt"),
        (3, 6, "mov"),
        (4, 9, "mma"),
        (5, 16, "st"),
        (6, 17, "call"),
        (7, 23, "bra"),
        (8, 25, "$L__BB1_2"),
        (9, 27, "ret"),
    ]
    assert body.labels == {"$L__BB1_2": 8}
    assert body[8].text == "$L__BB1_2:"
    assert body[4].text.startswith("mma.sync")
    assert body[4].text.endswith("{%r9,%r10};")


@pytest.mark.parametrize("name", ["plain", "lineinfo", "debug"])
def test_every_statement_stands_on_its_line(name: str) -> None:
    lines = sample(name).split("\n")
    module = parse(sample(name))
    for function in module.functions:
        if function.body is not None:
            for statement in linearise(function, module).statements:
                word = statement.opcode or (statement.label or "").partition("@")[0]
                assert word in lines[statement.line - 1]


def test_statement_count_of_the_reference_kernel() -> None:
    """Semicolons of statements plus labels, counted without the parser."""
    text = read(CORPUS / "enc0.ptx.xz")
    module = parse(text)
    body = linearise(module.entries[0], module)
    lines = [line.strip() for line in text[text.index("\n{") :].split("\n")]
    code = [line.partition("//")[0].strip().strip("{}").strip() for line in lines]
    statements = sum(line.count(";") for line in code) - sum(line.count(".reg") for line in code)
    statements -= sum(line.startswith((".shared", ".local", ".pragma", ".param")) for line in code)
    labels = sum(line.startswith("$L") and line.endswith(":") for line in code)
    assert len(body.statements) == statements + labels
    assert sum(s.opcode == "mma" for s in body.statements) == 536


SCOPES = """\tmov.u32 %r1, 1;
{ .reg .b16 low, high; .reg .f32 x<2>;
  mov.b32 {low, high}, %r1;
  { .reg .b16 low; mov.b16 low, high; mov.b32 %r2, {low, high}; }
  cvt.f32.u16 x1, low; }
{ .reg .pred p; .reg .b32 low;
LOOP:
  setp.ne.s32 p, low, 0;
  @p bra LOOP; }
LOOP:
\tbra LOOP;
{ .param .b32 param0; st.param.b32 [param0+4], %r1; }"""


def test_scoped_names_are_unique() -> None:
    body = linearise(kernel(entry(SCOPES)))
    assert [(s.defs, s.uses) for s in body.statements] == [
        (("%r1",), ()),
        (("low@1", "high@1"), ("%r1",)),
        (("low@2",), ("high@1",)),
        (("%r2",), ("low@2", "high@1")),
        (("x1@1",), ("low@1",)),
        ((), ()),
        (("p@3",), ("low@3",)),
        ((), ("p@3",)),
        ((), ()),
        ((), ()),
        ((), ("%r1",)),
    ]
    types = {name: body.registers[name] for name in ("low@1", "low@2", "low@3", "x0@1", "x1@1", "p@3", "%r1")}
    assert types == {
        "low@1": "b16",
        "low@2": "b16",
        "low@3": "b32",
        "x0@1": "f32",
        "x1@1": "f32",
        "p@3": "pred",
        "%r1": "b32",
    }
    assert body.labels == {"LOOP@3": 6, "LOOP": 9}
    assert body[8].guard is not None
    assert (body[8].guard.register, body[8].operands) == ("p@3", (Symbol("LOOP@3"),))
    assert body[10].operands == (Symbol("LOOP"),)
    assert body[5].operands[0] == Register("x1@1")
    assert body.variables["param0@4"].type == "b32"
    assert body[11].operands[0].base == Symbol("param0@4")  # type: ignore[union-attr]


def test_register_ranges_and_module_variables() -> None:
    module = parse(sample("plain"))
    function = module.function("features")
    assert function is not None
    body = linearise(function, module)
    assert body.registers["%SPL"] == "b64"
    assert "tab" in body.variables
    assert "tab" not in linearise(function).variables
    assert {s.number for s in body.statements} == set(range(1, len(body.statements) + 1))


def test_unknown_instruction() -> None:
    body = linearise(kernel(entry("frobnicate.b32 %r1, [%r2], 5;")))
    assert not body[1].known
    assert (body[1].defs, body[1].uses) == ((), ("%r1", "%r2"))
    assert body[1].form is None


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("mov.u32 %r1, %r99;", "register %r99 is not declared", (13, 1)),
        ("\t@%p99 bra L;\nL:", "register %p99 is not declared", (13, 2)),
        ("{ .reg .b16 low; }\nmov.b16 %low, %r1;", "register %low is not declared", (14, 1)),
        (".reg .b32 %r1;", "register %r1 is declared twice in this scope", (13, 1)),
        (".reg .b32 %x<9999999>;", "more than 4000000 registers in one function", (13, 1)),
        ("L:\nL:", "label L is defined twice in this scope", (14, 1)),
    ],
)
def test_resolution_errors(text: str, message: str, place: tuple[int, int]) -> None:
    module: Module = parse(entry(text), filename="x.ptx")
    with pytest.raises(PtxError) as caught:
        linearise(module.entries[0], module)
    assert caught.value.message == message
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).startswith(f"x.ptx:{place[0]}:{place[1]}: {message}\n")
