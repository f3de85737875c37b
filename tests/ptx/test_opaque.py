"""What the grammar does not know: kept as it stands, and only the functions that it may concern are refused."""

import time

import pytest

from tests.ptx.modules import HEADER, entry
from tests.ptx.probes.support import opaque
from zluda_rr.ptx import (
    Immediate,
    Module,
    Opaque,
    PtxError,
    add_module_item,
    edit_function,
    linearise,
    parse,
    print_module,
)
from zluda_rr.ptx.grammar import ChunkError, parse_chunk

GOOD = ".visible .entry good()\n{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r1, 1;\n\tret;\n}\n"


def module_of(*, scope: str = "", body: str = "", header: str = "") -> Module:
    """A module with something at module scope, a kernel `odd` with a body and header of its own, and `good`."""
    odd = f".visible .entry odd(){header}\n{{\n\t.reg .b32 %r<4>;\n{body}\tret;\n}}\n"
    text = HEADER + scope + odd + GOOD
    module = parse(text, filename="m.ptx")
    assert print_module(module) == text
    return module


def refusals(module: Module) -> dict[str, str]:
    """Entry -> the first line of its refusal."""
    found = {}
    for function in module.entries:
        try:
            linearise(function, module)
        except PtxError as error:
            found[function.name] = str(error).split("\n")[0]
    return found


def test_a_statement_that_is_not_known_is_a_node_with_a_place() -> None:
    module = module_of(body="\tmov.u32 %r1, 2;\n\tfrob.new %r1, <%r2>;\n")
    (node,) = opaque(module)
    assert isinstance(node, Opaque)
    assert (node.name, node.text, node.span) == ("frob.new", "frob.new %r1, <%r2>;", (9, 2, 9))
    assert refusals(module) == {"odd": 'm.ptx:9:16: cannot read frob.new: expected an operand, found "<"'}


@pytest.mark.parametrize(
    "body",
    [
        "\tfrob { L1: mov.u32 %r1, 2; .reg .b32 %r1; }, 5;\n",  # a label and a declaration inside
        "\tfrob (%r1) L2: ret;\n",
        "\tfrob { { } } ;\n",
        "\tfrob /* } */ <>, // } ;\n\t5;\n",
        '\tfrob "};", <5>;\n',
        "\tFROB %r1;\n",
        "\t5, 6;\n",
        "\t.frob 5;\n",
        "\t.reg .b17 %r9;\n",
        "\t.shared .b32 x[1, 2];\n",
        "\t.loc one two three;\n",
        "\t;\n",
        "\t@!!%p1 ret;\n",
        "\tcall (%r1) = f;\n",
    ],
)
def test_whatever_it_hides_only_its_own_kernel_is_refused(body: str) -> None:
    module = module_of(body=body)
    assert opaque(module)
    assert refusals(module).keys() == {"odd"}
    assert [function.name for function in module.entries] == ["odd", "good"]


@pytest.mark.parametrize("body", ["\tfrob { ;\n", "\tfrob } ;\n", "\tfrob ( } );\n", '\tfrob " ;\n'])
def test_without_balance_there_is_no_end_to_trust(body: str) -> None:
    with pytest.raises(PtxError):
        module_of(body=body)


@pytest.mark.parametrize(
    "scope",
    [
        ".frobnicate 3\n",
        ".frobnicate 3;\n",
        ".frobnicate { a; b; }\n",
        ".frobnicate\n{ .visible .entry hidden() { ret; } }\n",
        ".rounding .rz // for everything\n",
        '.pragma nounroll, "x";\n',
    ],
)
def test_a_directive_of_the_module_may_hold_for_every_kernel(scope: str) -> None:
    found = refusals(module_of(scope=scope))
    assert found.keys() == {"odd", "good"}
    assert all(line.startswith("m.ptx:5:") and "cannot read ." in line for line in found.values())


def test_a_directive_does_not_swallow_the_kernel_behind_it() -> None:
    assert [f.name for f in module_of(scope=".frobnicate 3\n").entries] == ["odd", "good"]
    assert [f.name for f in module_of(scope=".frobnicate\n// .visible .entry none()\n").entries] == ["odd", "good"]


@pytest.mark.parametrize(
    ("scope", "body"),
    [
        (".global .b32 x[2] = {1,,2};\n", "\tld.global.u32 %r1, [x];\n"),
        (".global .b32 y, x[2] = {1,,2};\n", "\tmov.u32 %r1, y+4;\n"),
        (".shared .b99 x;\n", "\tmov.u32 %r1, x;\n"),
        (".common .wide .b32 x;\n", "\tmov.u32 %r1, x;\n"),
        (".alias x, y, z;\n", "\tcall.uni x;\n"),
        (".func x() .frobnicate { ret; }\n", "\tcall.uni x;\n"),
        (".extern .func (.param .b99 r) x(.param .b32 p);\n", "\tcall.uni (%r1), x, (%r2);\n"),
        (".global .b32 x[1, 2];\n", "\t.global .u32 here = x;\n"),
    ],
)
def test_a_name_that_is_not_understood_concerns_those_that_use_it(scope: str, body: str) -> None:
    found = refusals(module_of(scope=scope, body=body))
    if "here" in body:
        assert refusals(module_of(scope=scope, body="\t.global .u32 here = 1;\n")) == {}
    assert found.keys() == {"odd"}
    assert found["odd"].startswith("m.ptx:5:")


@pytest.mark.parametrize("scope", [".section .debug_x { ?? }\n", '.file one "a.cu"\n'])
def test_debug_information_concerns_nobody(scope: str) -> None:
    assert refusals(module_of(scope=scope)) == {}


def test_a_header_that_is_not_known() -> None:
    module = module_of(header=" .frobnicate 5")
    (line,) = refusals(module).values()
    assert line.startswith("m.ptx:5:23: cannot read .entry odd: expected")
    assert line.endswith('found ".frobnicate"')
    assert [function.name for function in module.entries] == ["odd", "good"]


def test_pragmas_in_a_header() -> None:
    module = module_of(header=' .maxntid 32 .pragma "a;{"; ')
    assert module.entries[0].directives == (("maxntid", (32,)),)
    assert refusals(module) == {}


# ------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("first", [0, 1])
def test_equal_separators_do_not_make_equal_meanings(first: int) -> None:
    pairs = [
        ("mov.u32 %r1, x+4;", "mov.u32 %r1, 3+4;"),
        ("mov.pred %p1, !%p2;", "mov.pred %p1, !1;"),
        ("mov.u32 %r1, (7);", "mov.u32 %r1, (3);"),
        ("mov.u32 %r1, WARP_SZ;", "mov.u32 %r1, %r2;"),
        ("mov.u32 %r1, 6/3;", "mov.u32 %r1, 6/0;"),
        ("ld.shared.u32 %r1, [%r2+4];", "ld.shared.u32 %r1, [%r2+9.0];"),
        ("ld.shared.u32 %r1, [%r2+4];", "ld.shared.u32 %r1, [4+4];"),
        ("mov.f64 %d1, 1.0+2.0;", "mov.f64 %d1, 1.0+0f3F800000;"),
    ]
    for pair in pairs:
        alone = [shown(text) for text in pair]
        together = shown(pair[first], pair[1 - first])
        assert together == alone[first] + alone[1 - first], pair


def shown(*texts: str) -> list[str]:
    body = parse(entry("".join(f"{text}\n" for text in texts))).entries[0].body
    assert body is not None
    found = [item for item in body.walk() if item.text in texts]  # type: ignore[union-attr]
    return ["opaque" if isinstance(item, Opaque) else str(item.operands) for item in found]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mov.u32 %r1, (3+4*2)<<1;", 22),
        ("mov .u32 %r1, WARP_SZ-1;", 31),
        ("mov/* c */.u32 %r1, -(5);", -5),
        ("mov.u32\n\t%r1, ~0;", -1),
    ],
)
def test_expressions_become_constants(text: str, value: int) -> None:
    (statement,) = linearise(parse(entry(text)).entries[0]).statements
    assert statement.spelling == "mov.u32"
    operand = statement.operands[1]
    assert isinstance(operand, Immediate)
    assert (operand.kind, operand.value) == ("int", value)
    assert statement.words == ("%r1", str(value))
    assert statement.text == text


# ------------------------------------------------------------------------------------------------------------ vectors


def test_lanes_of_vector_registers_are_registers() -> None:
    lines = [
        ".reg .v4 .b32 v, %w<2>;",
        "mov.b32 v.x, 1;",
        "mov.b32 v.g, v.x;",
        "ld.global.v4.b32 %w1, [%rd1];",
        "{ .reg .v2 .b32 v; mov.b32 v.y, %w1.a; st.global.v2.b32 [%rd1], v; }",
        "mov.b32 %r1, v . y;".replace(" . ", " ."),
    ]
    body = linearise(parse(entry("\n".join(lines))).entries[0])
    assert [(s.defs, s.uses) for s in body.statements] == [
        (("v.x",), ()),
        (("v.y",), ("v.x",)),
        (("%w1.x", "%w1.y", "%w1.z", "%w1.w"), ("%rd1",)),
        (("v.y@1",), ("%w1.w",)),
        ((), ("%rd1", "v.x@1", "v.y@1")),
        (("%r1",), ("v.y",)),
    ]
    assert body.registers["%w0.z"] == "b32"


@pytest.mark.parametrize("line", ["mov.b64 %rd1, {v, v};", "ld.global.u32 %r1, [v];", "mov.u32 %r1, v+4;"])
def test_a_whole_vector_where_none_can_stand(line: str) -> None:
    with pytest.raises(PtxError, match="whole vector"):
        linearise(parse(entry(f".reg .v2 .b32 v;\n{line}")).entries[0])


# --------------------------------------------------------------------------------------------------------- size, edits


def test_depth() -> None:
    depth = 2_000
    text = entry("{ mov.u32 %r1, 1; " * depth + "}" * depth)
    module = parse(text)
    assert print_module(module) == text
    assert len(linearise(module.entries[0], module).statements) == depth
    edited = edit_function(module, "k", delete=[depth])
    assert len(linearise(edited.entries[0], edited).statements) == depth - 1


def test_deep_expressions_and_lists() -> None:
    deep = f"mov.u32 %r1, {'(' * 5_000}1{')' * 5_000};"
    assert [node.name for node in opaque(parse(entry(deep + "\n" + "mov.u32 %r1, " + "-" * 5_000 + "(1);")))] == [
        "mov.u32"
    ] * 2
    module = parse(
        HEADER + f".global .b32 x[1] = {'{' * 5_000}1{'}' * 5_000};\n.global .b32 y = {'(' * 5_000}1{')' * 5_000};\n"
    )
    assert [variable.name for variable in module.variables] == ["x", "y"]


def test_much_that_is_odd_takes_time_in_proportion() -> None:
    """One line of everything: no text is looked at again for each statement."""

    def seconds(count: int) -> float:
        text = entry(
            "frob %r1, <%r2>; frob.b %r1, 5 6; vadd.s32.s32.s32 %r1, %r2.b0, %r3.h1; ld .shared.u32 %r1, [%r2]; "
            * count
        )
        begin = time.process_time()
        module = parse(text)
        spent = time.process_time() - begin
        assert print_module(module) == text
        return spent

    seconds(10)
    assert seconds(8_000) < 16 * min(seconds(1_000), seconds(1_000)) + 0.2


def test_a_table_of_numbers_is_no_work_for_a_grammar() -> None:
    numbers = ", ".join(map(str, range(100_000)))
    begin = time.process_time()
    module = parse(HEADER + f".global .b32 x[100000] = {{{numbers}}};\n")
    assert time.process_time() - begin < 2
    assert module.variables[0].init == f"{{{numbers}}}"


def test_an_edit_brings_in_nothing_that_is_not_understood() -> None:
    module = parse(entry("\tmov.u32 %r1, 1;\n"))
    with pytest.raises(PtxError, match="cannot read frob"):
        edit_function(module, "k", insert_after={1: "\tfrob <>;\n"})
    with pytest.raises(PtxError, match=r"cannot read \.extern"):
        add_module_item(module, ".extern .b99 x;")


def test_one_line_for_a_version_of_three_numbers() -> None:
    with pytest.raises(PtxError) as caught:
        parse(".version 9.0.1\n.target sm_90\n.address_size 64\n.visible .entry k(){ret;}\n", filename="m.ptx")
    assert str(caught.value).split("\n")[0] == 'm.ptx:1:10: expected a version such as 9.0, found "9.0.1"'


def test_a_directive_with_text_behind_it_is_an_error_with_a_place() -> None:
    """Where the grammar expects the end and meets a character of no token."""
    with pytest.raises(PtxError, match=r"5:23: .*é"):
        parse(HEADER + ".section .x { .b8 1 } é")
    with pytest.raises(ChunkError, match="é"):
        parse_chunk("directive", ".section .x { .b8 1 } é")
