"""Edits touch only the lines they name."""

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ptx.modules import CORPUS, entry, read, sample
from zluda_rr.ptx import Module, PtxError, add_module_item, edit_function, linearise, parse, print_module

TEXT = entry(
    """\tmov.u32 %r1, 1;
\t// begin inline asm
\t{.reg .f16 low;
  cvt.rn.f16.f32 low, %f1;
  mov.b32 %r2, {low,low};}

\t// end inline asm
\t// begin inline asm
\t{add.f16x2 %r3,%r2,%r2;
}
\t// end inline asm
\tmov.u32 %r4, 1; mov.u32 %r5, 2;
\t// begin inline asm
\tmovmatrix.sync.aligned.m8n8.trans.b16
\t\t%r6, %r5;
\t// end inline asm
L: ret; // done""",
    registers=".reg .b32 %r<8>;\n\t.reg .f32 %f<2>;",
)


def changed(before: str, module: Module) -> list[str]:
    after = print_module(module)
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line.rstrip("\n") for line in lines if line[0] in "+-"]


def edit(text: str = TEXT, **changes) -> list[str]:
    return changed(text, edit_function(parse(text), "k", **changes))


def test_no_edit_is_no_change() -> None:
    assert edit() == []


@pytest.mark.parametrize(
    ("delete", "gone"),
    [
        ([1], ["- \tmov.u32 %r1, 1;"]),
        ([2], ["-   cvt.rn.f16.f32 low, %f1;"]),
        (
            [2, 3],
            [
                "- \t// begin inline asm",
                "- \t{.reg .f16 low;",
                "-   cvt.rn.f16.f32 low, %f1;",
                "-   mov.b32 %r2, {low,low};}",
                "- ",
                "- \t// end inline asm",
            ],
        ),
        ([4], ["- \t// begin inline asm", "- \t{add.f16x2 %r3,%r2,%r2;", "- }", "- \t// end inline asm"]),
        (
            [7],
            [
                "- \t// begin inline asm",
                "- \tmovmatrix.sync.aligned.m8n8.trans.b16",
                "- \t\t%r6, %r5;",
                "- \t// end inline asm",
            ],
        ),
        ([5], ["- \tmov.u32 %r4, 1; mov.u32 %r5, 2;", "+ \t mov.u32 %r5, 2;"]),
        ([5, 6], ["- \tmov.u32 %r4, 1; mov.u32 %r5, 2;"]),
        ([9], ["- L: ret; // done", "+ L:  // done"]),
    ],
)
def test_deletions(delete: list[int], gone: list[str]) -> None:
    """Which of several equal marker lines a diff names is its own choice, so the lines are compared as a bag."""
    assert sorted(edit(delete=delete)) == sorted(gone)


def after_insertion(**changes) -> str:
    return print_module(edit_function(parse(TEXT), "k", **changes))


@pytest.mark.parametrize(
    ("changes", "context"),
    [
        ({"insert_before": {1: "\tbar.sync 0;"}}, "\n\tbar.sync 0;\n\tmov.u32 %r1, 1;"),
        ({"insert_after": {1: "\tbar.sync 0;\n"}}, "1;\n\tbar.sync 0;\n\t// begin inline asm\n\t{.reg"),
        # Outside the scoped block and its markers.
        ({"insert_before": {2: "\tbar.sync 0;"}}, "1;\n\tbar.sync 0;\n\t// begin inline asm\n\t{.reg"),
        ({"insert_after": {3: "\tbar.sync 0;"}}, "}\n\n\t// end inline asm\n\tbar.sync 0;\n\t// begin"),
        ({"insert_after": {4: "\tbar.sync 0;"}}, "}\n\t// end inline asm\n\tbar.sync 0;\n\tmov.u32 %r4"),
        # Inside it.
        ({"insert_after": {2: "\tbar.sync 0;"}}, "low, %f1;\n\tbar.sync 0;\n  mov.b32"),
        # Between two statements of one line.
        ({"insert_before": {6: "\tbar.sync 0;"}}, "\tmov.u32 %r4, 1; \n\tbar.sync 0;\nmov.u32 %r5, 2;"),
        ({"insert_after": {9: "\tbar.sync 0;"}}, "L: ret; // done\n\tbar.sync 0;\n}"),
        ({"at_start": "\t.reg .b32 %zrr<4>;"}, "\n{\n\t.reg .b32 %zrr<4>;\n\t.reg .b32 %r<8>;"),
        # Before and after one place, in order.
        (
            {"insert_after": {4: "\tbar.sync 1;"}, "insert_before": {5: "\tbar.sync 2;"}},
            "asm\n\tbar.sync 1;\n\tbar.sync 2;\n\tmov.u32 %r4",
        ),
        # In the place of what is deleted.
        (
            {"delete": [2, 3, 4], "insert_before": {2: "\tbar.sync 1;"}, "insert_after": {4: "\tbar.sync 2;"}},
            "%r1, 1;\n\tbar.sync 1;\n\tbar.sync 2;\n\tmov.u32 %r4",
        ),
        ({"delete": [2, 3, 4], "insert_after": {3: "\tbar.sync 1;"}}, "%r1, 1;\n\tbar.sync 1;\n\tmov.u32 %r4"),
    ],
)
def test_insertions(changes, context: str) -> None:
    assert context in after_insertion(**changes)


def test_line_ends_of_the_text() -> None:
    text = TEXT.replace("\n", "\r\n")
    edited = print_module(
        edit_function(parse(text), "k", delete=[2, 3], insert_before={4: "\tbar.sync 0;\n\tbar.sync 1;"})
    )
    assert edited.replace("\r\n", "\n") == print_module(
        edit_function(parse(TEXT), "k", delete=[2, 3], insert_before={4: "\tbar.sync 0;\n\tbar.sync 1;"})
    )
    assert edited.count("\n") == edited.count("\r\n")


def test_insertions_are_parsed() -> None:
    with pytest.raises(PtxError, match='found "3"'):
        edit(insert_before={1: "\tmov.u32 %r1, 1 3;"})


def test_unknown_places() -> None:
    with pytest.raises(KeyError, match="s10"):
        edit(delete=[10])
    with pytest.raises(KeyError, match="nobody"):
        edit_function(parse(TEXT), "nobody", delete=[1])


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(1, 445), max_size=40), st.sets(st.integers(1, 445), max_size=6))
def test_other_statements_stay(delete: set[int], insert: set[int]) -> None:
    """Against the plain list of statement texts."""
    module = parse(sample("plain"))
    kernel = module.function("features")
    assert kernel is not None
    texts = [s.text for s in linearise(kernel).statements]
    assert len(texts) == 445
    expected = []
    for number, text in enumerate(texts, 1):
        expected += [] if number in delete else [text]
        expected += [f"bar.sync {number};"] if number in insert else []
    # Labels that a remaining branch needs may go: the text is still PTX, resolution is not the editor's business.
    edited = edit_function(module, "features", delete=delete, insert_after={n: f"\tbar.sync {n};" for n in insert})
    function = edited.function("features")
    assert function is not None
    body = linearise(function, edited)
    assert sorted(s.text.partition("@")[0] for s in body.statements) == sorted(t.partition("@")[0] for t in expected)


def test_module_items() -> None:
    declaration = ".extern .func (.param .b32 r) zrr_x(.param .b32 a);"
    module = parse(sample("plain"))
    lines = changed(sample("plain"), add_module_item(module, declaration, before="features"))
    assert lines == [f"+ {declaration}"]
    edited = add_module_item(module, declaration)
    assert edited.functions[0].name == "zrr_x"
    with pytest.raises(KeyError, match="nobody"):
        add_module_item(module, declaration, before="nobody")


def test_a_large_deletion_in_the_reference_kernel() -> None:
    text = read(CORPUS / "enc0.ptx.xz")
    module = parse(text)
    name = module.entries[0].name
    removed = range(5000, 9000)
    edited = edit_function(module, name, delete=removed)
    before = [s.text for s in linearise(module.entries[0]).statements]
    after = [s.text for s in linearise(edited.entries[0]).statements]
    assert after == before[:4999] + before[8999:]
    assert all(line.startswith("-") for line in changed_fast(text, print_module(edited)))


def changed_fast(before: str, after: str) -> list[str]:
    """Unified diff without context: cheaper than ndiff on long texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))]
