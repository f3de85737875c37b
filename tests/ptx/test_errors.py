"""Messages for text that is not PTX: golden, three lines, with the place."""

import pytest

from tests.ptx.modules import HEADER, entry, sample
from tests.ptx.probes.support import understand
from zluda_rr.errors import UserError
from zluda_rr.ptx import PtxError, parse


def place(message: str, source: str, caret: int) -> str:
    """The three lines of a message about m.ptx."""
    return f"m.ptx:{message}\n{source}\n{' ' * caret}^"


GOLDEN = {
    "empty": ("", "m.ptx:1:1: expected .version: there is no PTX in this text\n  \n  ^"),
    "comments only": (
        "// nothing\n",
        "m.ptx:1:1: expected .version: there is no PTX in this text\n  // nothing\n  ^",
    ),
    "no version": (
        ".target sm_89\n",
        "m.ptx:1:1: expected .version as the first directive of a PTX module\n  .target sm_89\n  ^",
    ),
    "binary": (
        "\x7fELF\x02\x01\x01\x00\x00",
        "m.ptx:1:1: not PTX text: unexpected character '\\x7f'\n  .ELF.....\n  ^",
    ),
    "other language": (
        "int main() { return 0; }\n",
        'm.ptx:1:1: expected .version, found "int"\n  int main() { return 0; }\n  ^',
    ),
    "bad version": (
        ".version nine\n.target sm_89\n",
        'm.ptx:1:10: expected a version such as 9.0, found "nine"\n  .version nine\n           ^',
    ),
    "missing semicolon": (
        entry("\tmov.u32 %r1, %r2\n\tadd.s32 %r3, %r1, 1;"),
        'm.ptx:14:2: cannot read mov.u32: expected ",", ";" or "|", found "add.s32"\n   add.s32 %r3, %r1, 1;\n   ^',
    ),
    "missing operand": (
        entry("\tadd.s32 %r3, , 1;"),
        place(
            '13:15: cannot read add.s32: expected an operand, found ","',
            "   add.s32 %r3, , 1;",
            16,
        ),
    ),
    "bad constant": (
        entry("\tmov.u32 %r3, 12abc;"),
        place(
            '13:15: cannot read mov.u32: expected an operand, found "12abc"',
            "   mov.u32 %r3, 12abc;",
            16,
        ),
    ),
    "unclosed bracket": (
        entry("\tld.global.u32 %r3, [%rd1;"),
        place('13:26: expected "+", ",", "]" or a constant, found ";"', "   ld.global.u32 %r3, [%rd1;", 27),
    ),
    "unclosed block": (
        entry("\t{ mov.u32 %r3, 1;").rstrip(),
        'm.ptx:14:2: expected "}": the block opened at line 8 is not closed\n  }\n   ^',
    ),
    "stray word": (
        entry("\tret;") + "kernel k2\n",
        'm.ptx:15:1: expected a directive, a function or a variable, found "kernel"\n  kernel k2\n  ^',
    ),
    "unclosed section": (
        HEADER + ".section .debug_str\n{\n.b8 1,2\n",
        'm.ptx:7:8: expected "}": the section at line 5 is not closed\n  .b8 1,2\n         ^',
    ),
    "one brace too many": (
        entry("\tret;\n}"),
        'm.ptx:15:1: unexpected "}": no block is open\n  }\n  ^',
    ),
    "truncated in an instruction": (
        entry("\tret;\n\tmov.u32 %r1, %r").partition("%r\n")[0] + "%r",
        'm.ptx:14:17: expected ",", ";" or "|", found the end\n   mov.u32 %r1, %r\n                  ^',
    ),
    "truncated after a header": (
        HEADER + ".visible .entry k(\n\t.param .b64 p\n)\n",
        'm.ptx:7:2: expected "{" or ";" after a function header\n  )\n   ^',
    ),
    "truncated in a header": (
        HEADER + ".visible .entry k(\n\t.param .b64",
        'm.ptx:6:13: expected ".align", ".ptr", a name or a register, found the end\n   .param .b64\n              ^',
    ),
    "unclosed comment": (
        entry("\tret; /* for ever"),
        'm.ptx:13:7: expected "*/": the comment is not closed\n   ret; /* for ever\n        ^',
    ),
    "bad type": (
        entry("\t.reg .b17 x;"),
        'm.ptx:13:7: cannot read .reg: expected ".align", ".v4" or a type, found ".b17"\n   .reg .b17 x;\n        ^',
    ),
    "octal": (
        entry("\tmov.u32 %r3, 089;"),
        place('13:15: cannot read mov.u32: expected an operand, found "089"', "   mov.u32 %r3, 089;", 16),
    ),
    "huge constant": (
        entry("\tmov.u32 %r3, 99999999999999999999999;"),
        place(
            '13:15: cannot read mov.u32: expected an operand, found "99999999999999999999999"',
            "   mov.u32 %r3, 99999999999999999999999;",
            16,
        ),
    ),
    "fraction as an offset": (
        entry("\tld.global.u32 %r3, [%rd1+9.0];"),
        place(
            '13:2: cannot read ld.global.u32: expected an integer, found "9.0"', "   ld.global.u32 %r3, [%rd1+9.0];", 3
        ),
    ),
    "fraction as an address": (
        entry("\tld.global.u32 %r3, [9.0];"),
        place('13:2: cannot read ld.global.u32: expected an integer, found "9.0"', "   ld.global.u32 %r3, [9.0];", 3),
    ),
    "fraction as a block size": (
        HEADER + ".visible .entry k() .maxntid 9.0\n{\n\tret;\n}\n",
        place('5:1: cannot read .entry k: expected an integer, found "9.0"', "  .visible .entry k() .maxntid 9.0", 2),
    ),
    "float bits as a dimension": (
        entry("\t.shared .b8 x[0f3F800000];"),
        place('13:2: cannot read .shared: expected an integer, found "0f3F800000"', "   .shared .b8 x[0f3F800000];", 3),
    ),
    "letters of another script": (
        entry("\tmov.u32 %r3, déjà;"),
        place(
            '13:16: cannot read mov.u32: expected ")", "+", ",", ";", "|", "}" or a constant, found "éjà"',
            "   mov.u32 %r3, déjà;",
            17,
        ),
    ),
    "unknown directive": (
        entry("\tret;") + ".frobnicate 3\n",
        place('15:1: cannot read .frobnicate: expected a directive, found ".frobnicate"', "  .frobnicate 3", 2),
    ),
    "too deep": (
        entry("{" * 10_000 + "}" * 10_000),
        place("13:4096: blocks are nested deeper than 4096", "  " + "{" * 160, 82),
    ),
    "twice": (
        entry("\tret;") + ".visible .entry k()\n{\n\tret;\n}\n",
        "m.ptx:15:1: function k is defined twice, first at line 5\n  .visible .entry k()\n  ^",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_messages(name: str) -> None:
    text, message = GOLDEN[name]
    with pytest.raises(PtxError) as caught:
        understand(parse(text, filename="m.ptx"))
    assert isinstance(caught.value, UserError)
    assert str(caught.value) == message


def test_a_declaration_may_repeat_its_definition() -> None:
    text = HEADER + ".func f\n(\n\t.param .b32 p\n)\n;\n.func f(\n\t.param .b32 p\n)\n{\n\tret;\n}\n"
    module = parse(text)
    assert [f.body is None for f in module.functions] == [True, False]
    assert module.function("f") is module.functions[1]


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("name", ["plain", "debug"])
def test_truncated_output_is_an_error_near_its_end(name: str, fraction: float) -> None:
    text = sample(name)[: int(len(sample(name)) * fraction)]
    try:
        module = parse(text)
    except PtxError as error:
        last = text.rstrip().count("\n") + 1
        assert error.line >= last - 40, str(error)  # noqa: PT017 - a cut between two items is no error
    else:
        assert module.items


def test_a_long_line_is_cut_around_the_place() -> None:
    text = entry("\t" + "mov.u32 %r1, 1; " * 100 + "mov.u32 %r1, ;" + " mov.u32 %r1, 1;" * 100)
    with pytest.raises(PtxError) as caught:
        understand(parse(text))
    _, source, caret = str(caught.value).split("\n")
    assert len(source) <= 162
    assert source[len(caret) - 1] == ";"
    assert source[: len(caret) - 1].endswith("mov.u32 %r1, ")


def test_expected_names_are_there_for_programs() -> None:
    with pytest.raises(PtxError) as caught:
        understand(parse(entry("ld.global.u32 %r3, [%rd1;")))
    assert caught.value.expected == ('"+"', '","', '"]"', "a constant")
