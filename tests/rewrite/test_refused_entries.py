"""A kernel that is not understood is refused by name and line; the others of its module are handled as always."""

import pytest
from click.testing import CliRunner

from tests.corpus.build import read_module
from zluda_rr.cli import main
from zluda_rr.contract import load_contract
from zluda_rr.hook.cache import Kind
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.transform import Wanted, transform_text
from zluda_rr.ptx import PtxError, parse
from zluda_rr.rewrite import compare_modules, examine_module, inspect_json, inspect_text, report_page, rewrite_module

HEAD = ".version 9.0\n.target sm_89\n.address_size 64\n"
ENC0 = load_contract("enc0").entry
ODD = (
    f".visible .entry {ENC0}(.param .align 8 .b8 p[64])\n"
    "{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r1, 1;\n\tfrob.new %r1, <%r2>;\n\tret;\n}\n"
)
GOOD = (
    ".visible .entry good(.param .u64 p)\n{\n\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<4>;\n"
    "\tld.param.u64 %rd1, [p];\n\tmov.u32 %r1, (3+4)<<1;\n\tst.global.u32 [%rd1], %r1;\n\tret;\n}\n"
)
REASON = 'cannot read frob.new: expected an operand, found "<"'


def test_inspect_names_the_kernel_the_line_and_the_reason() -> None:
    text = inspect_text(HEAD + ODD + GOOD)
    assert f"entry     {ENC0}\nrefused   line 8: {REASON}\n" in text
    assert "entry     good\nlayer     no rule; 4 statements, 0 phases" in text
    assert "2 entries" in text
    document = inspect_json(HEAD + ODD + GOOD)
    assert document["refused"] == [{"entry": ENC0, "line": 8, "reason": REASON}]
    assert [entry["entry"] for entry in document["entries"]] == ["good"]  # type: ignore[attr-defined]
    page = report_page([examine_module(HEAD + ODD + GOOD)], "m.ptx")
    assert "frob.new" in page
    assert "good" in page


def test_without_any_kernel_that_is_understood_inspect_is_an_error() -> None:
    with pytest.raises(PtxError, match=r"8:\d+: cannot read frob\.new"):
        inspect_text(HEAD + ODD)


def test_diff_says_so() -> None:
    with pytest.raises(PtxError, match=r"cannot read frob\.new"):
        compare_modules(examine_module(HEAD + GOOD), examine_module(HEAD + ODD + GOOD))


def test_rewrite_refuses_the_kernel(tmp_path) -> None:
    with pytest.raises(PtxError, match=r"8:\d+: cannot read frob\.new"):
        rewrite_module(parse(HEAD + ODD + GOOD), load_contract("enc0"), ["phase8"])
    source = tmp_path / "m.ptx"
    source.write_text(HEAD + ODD + GOOD)
    result = CliRunner().invoke(main, ["rewrite", str(source), "-o", str(tmp_path / "out.ptx")])
    assert result.exit_code == 2
    assert "cannot read frob.new" in result.output
    assert "Traceback" not in result.output


def test_compile_takes_the_other_kernel(tmp_path) -> None:
    source = tmp_path / "m.ptx"
    source.write_text(HEAD + ODD + GOOD)
    output = tmp_path / "out.co"
    good = CliRunner().invoke(main, ["compile", str(source), "-o", str(output), "--entry", "good"])
    assert (good.exit_code, output.is_file()) == (0, True), good.output
    odd = CliRunner().invoke(main, ["compile", str(source), "-o", str(output), "--entry", ENC0])
    assert odd.exit_code == 2
    assert "cannot read frob.new" in odd.output


def test_the_hook_refuses_one_layer_and_says_why() -> None:
    other = GOOD.replace("good", "cuda_dldn_engine_swin_other_kernel")
    entry = transform_text(HEAD + ODD + other, Wanted.of(read_settings({})))
    assert entry.kind == Kind.UNCHANGED
    assert f"enc0 refused: line 8: {REASON}" in entry.note
    assert "other refused: no rule for it" in entry.note


def test_the_hook_replaces_the_other_layer() -> None:
    odd = ODD.replace(ENC0, "cuda_dldn_engine_swin_odd_kernel")
    entry = transform_text(read_module("enc0") + odd, Wanted.of(read_settings({})))
    assert entry.kind == Kind.REPLACED
    assert "odd refused: line " in entry.note
    assert REASON in entry.note
    assert odd in entry.text


@pytest.mark.parametrize("scope", [".frobnicate 3\n", ".rounding .rz;\n"])
def test_a_directive_that_may_hold_for_all_refuses_all(scope: str) -> None:
    with pytest.raises(PtxError, match=r"4:\d+: cannot read \."):
        inspect_text(HEAD + scope + GOOD)
