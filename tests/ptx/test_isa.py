"""The instruction table: lookup, completeness over real output, and its page."""

from pathlib import Path

import pytest

from tests.ptx.modules import all_files, read
from zluda_rr.ptx import Block, Instruction, Module, isa, parse

DOCS = Path(__file__).resolve().parents[2] / "docs" / "instructions.md"


def shapes(module: Module) -> set[tuple[str, tuple[str, ...], int]]:
    found = set()
    pending = [f.body for f in module.functions if f.body]
    while pending:
        for item in pending.pop().items:
            if isinstance(item, Block):
                pending.append(item)
            elif isinstance(item, Instruction):
                found.add((item.opcode, item.modifiers, len(item.operands)))
    return found


@pytest.mark.parametrize("path", all_files(), ids=lambda path: path.name)
def test_every_instruction_of_real_output_is_known(path: Path) -> None:
    found = shapes(parse(read(path)))
    assert found
    assert sorted(shape for shape in found if isa.lookup(*shape) is None) == []


def directions(opcode: str, *modifiers: str, n: int | None = None) -> list[tuple[str, str, str]]:
    form = isa.lookup(opcode, modifiers, n)
    assert form is not None
    return [(o.name, "rw"[o.written and not o.read] if o.read != o.written else "rw", o.type) for o in form.operands]


def test_types_come_from_the_modifiers() -> None:
    assert directions("cvt", "rn", "f16", "f32") == [("d", "w", "f16"), ("a", "r", "f32")]
    assert directions("mul", "wide", "s32", n=3) == [("d", "w", "s64"), ("a", "r", "s32"), ("b", "r", "s32")]
    assert [t for _, _, t in directions("mad", "wide", "u16", n=4)] == ["u32", "u16", "u16", "u32"]
    mma = directions("mma", "sync", "aligned", "m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16", n=4)
    assert [t for _, _, t in mma] == ["f16", "e4m3", "e4m3", "f16"]
    assert directions("st", "shared", "v2", "b32", n=2) == [("a", "r", "address"), ("b", "r", "b32")]
    assert directions("cvt", "rn", "satfinite", "relu", "e4m3x2", "f16x2") == [
        ("d", "w", "e4m3x2"),
        ("a", "r", "f16x2"),
    ]


def test_modifier_order_does_not_matter() -> None:
    """nvcc writes `.sync.aligned.m8n8.trans`, the documented modules `.sync.trans.aligned.m8n8`."""
    first = isa.lookup("movmatrix", ("sync", "aligned", "m8n8", "trans", "b16"), 2)
    second = isa.lookup("movmatrix", ("sync", "trans", "aligned", "m8n8", "b16"), 2)
    assert first is not None
    assert first == second


def test_fields() -> None:
    form = isa.lookup("ld", ("weak", "global", "ca", "v4", "u32"), 2)
    assert form is not None
    assert (form.fields["S"], form.fields["C"], form.fields["V"], form.fields["T"]) == ("global", "ca", "v4", "u32")
    assert form.link.endswith("#data-movement-and-conversion-instructions-ld")


@pytest.mark.parametrize(
    ("opcode", "modifiers", "n"),
    [
        ("frobnicate", (), 2),
        ("add", ("s33",), 3),
        ("add", ("s32",), 2),
        ("add", ("s32", "s32"), 3),
        ("add", (), 3),
        ("mul", ("wide", "s64"), 3),
        ("movmatrix", ("sync", "aligned", "m8n8", "b16"), 2),
    ],
)
def test_what_is_not_there(opcode: str, modifiers: tuple[str, ...], n: int) -> None:
    assert isa.lookup(opcode, modifiers, n) is None
    assert isa.knows(opcode) == (opcode != "frobnicate")


def test_lines_are_distinct_and_well_formed() -> None:
    syntaxes = [pattern.syntax for pattern in isa.patterns()]
    assert len(syntaxes) == len(set(syntaxes))
    for pattern in isa.patterns():
        names = {modifier.name for modifier in pattern.modifiers if modifier.name}
        for operand in pattern.operands:
            base = operand.type.removeprefix("wide(").removesuffix(")")
            assert base in names or base == base.lower(), pattern.syntax


@pytest.mark.parametrize("line", ["add..T d:=T", "add.T{u32 d", "add.s32 d", ".s32 d:=T"])
def test_malformed_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"bad|no opcode"):
        isa.parse_form(line, "Title", {})


@pytest.mark.parametrize("name", ["%tid.x", "%laneid", "%ctaid.z", "%lanemask_lt", "%clock64", "%globaltimer", "%ntid"])
def test_special_registers(name: str) -> None:
    assert isa.is_special_register(name)
    assert not isa.is_special_register(name + "q")
    assert not isa.is_special_register(name[1:])
