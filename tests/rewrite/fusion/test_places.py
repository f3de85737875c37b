"""Where the kernel stands in its text: fusion finds it in the tree, and what it writes is PTX for ptxas."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from zluda_rr.ptx import Module, linearise, parse, print_module
from zluda_rr.rewrite import fuse_entries, fuse_module
from zluda_rr.toolchain import ptxas

from .cases import CHAIN, module
from .test_kernels import SAMPLES

# The harness has a register %tid, which ptxas takes for the special one.
PLAIN = print_module(module(CHAIN)).replace("%tid;", "%thread;").replace("%tid,", "%thread,")
ENTRY = ".visible .entry probe("
OTHER = ".visible .entry {}()\n{{\n ret;\n}}\n"
DECLARED = ".visible .entry probe(.param .u64 probe_in, .param .u64 probe_out);\n"


def one_line(text: str) -> str:
    return " ".join(text.split())


TEXTS = {
    "plain": PLAIN,
    "a comment in front that looks like it": PLAIN.replace(ENTRY, f"// like .entry probe in the paper {{\n{ENTRY}"),
    "a comment between": PLAIN.replace(ENTRY, ".visible .entry /* x */ probe("),
    "a comment with the entry between": PLAIN.replace(ENTRY, ".visible .entry /* .entry probe( { */ probe // {\n("),
    "a comment behind the brace": PLAIN.replace(")\n{", ")\n{ // .entry probe() {"),
    "another that begins like it": PLAIN.replace(ENTRY, OTHER.format("probe$1") + OTHER.format("probe_1") + ENTRY),
    "another whose end it is": PLAIN.replace(ENTRY, OTHER.format("my_probe") + OTHER.format("$probe") + ENTRY),
    "a dollar": PLAIN.replace("probe", "$pro$be"),
    "a declaration": PLAIN.replace(ENTRY, DECLARED + ENTRY),
    "a declaration, commented": PLAIN.replace(ENTRY, f"{DECLARED}/* .entry probe( */ {ENTRY}"),
    "one line": one_line(PLAIN),
    "one line with a comment": one_line(PLAIN) + " // .entry probe {",
    "bare": PLAIN.replace(".visible .entry", ".entry"),
    "directives": PLAIN.replace(")\n{", ")\n.maxntid 32, 1, 1\n.minnctapersm 1 // {\n{"),
    "carriage returns": PLAIN.replace("\n", "\r\n"),
    "a string": PLAIN.replace("ret;", '.pragma ".entry probe( {";\n    ret;'),
    "a line directive": PLAIN.replace(ENTRY, '.file 1 "entry probe.cu"\n' + ENTRY).replace("ret;", ".loc 1 3 4\n ret;"),
    "statements on one line": PLAIN.replace(";\n", "; "),
    "no line before": PLAIN.replace("\n" + ENTRY, " " + ENTRY),
    "a call": (SAMPLES / "call.ptx").read_text(),
}


def assembles(text: str, folder: Path) -> None:
    (folder / "module.ptx").write_text(text)
    command = [str(ptxas()), "-c", "-O0", "-arch=sm_89", "module.ptx", "-o", "module.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", TEXTS)
def test_fused_wherever_it_stands(name: str, tmp_path: Path) -> None:
    original = parse(TEXTS[name])
    fused, results = fuse_entries(original)
    assert sum(result.fused for result in results) == 1
    assert {r.left for r in results if not r.fused} <= {"it has no products"}
    assert "zrr_fc_product0" in print_module(fused)
    assembles(TEXTS[name], tmp_path)
    assembles(print_module(fused), tmp_path)


@pytest.mark.parametrize("name", TEXTS)
def test_the_rest_of_the_module_keeps_its_text(name: str) -> None:
    original = parse(TEXTS[name])
    fused, _ = fuse_entries(original)
    kept = [item.text for item in fused.items if not getattr(item, "name", "").startswith("zrr_fc_")]
    assert kept == [item.text for item in original.items]
    others = [f for f in original.entries if f.name in ("my_probe", "probe$1", "probe_1", "$probe")]
    assert all(_spellings(fused, f.name) == _spellings(original, f.name) for f in others)


def _spellings(program: Module, name: str) -> list[str]:
    function = program.function(name)
    assert function is not None
    return [statement.spelling for statement in linearise(function, program).statements]


NAMES = {
    "a register": (".reg .b32 %zrr_w0;", "it uses the name %zrr_w0 itself"),
    "a register of the prelude": (".reg .b64 %zrr_own;", "it uses the name %zrr_own itself"),
    "a variable": (".shared .b32 zrr_p0;", "it uses the name zrr_p0 itself"),
    "a label": ("zrr_r:", "it uses the name zrr_r itself"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_the_text_would_use(name: str) -> None:
    line, reason = NAMES[name]
    program = module(f"{line}\n{CHAIN}")
    result = fuse_module(program, "probe")
    assert result.module is program
    assert result.left == reason


def test_functions_that_are_not_the_helpers() -> None:
    own = ".func (.param .b32 r) zrr_fc_lift0(.param .b32 a, .param .b32 b)\n{\n ret;\n}\n"
    program = parse(PLAIN.replace(ENTRY, own + ENTRY))
    assert fuse_module(program, "probe").left == "the module has a function zrr_fc_lift0 of its own"


def test_an_unreadable_result_leaves_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in writing, the original goes on, and the others of its module are fused."""
    from zluda_rr.rewrite import fusion_emit

    program = parse(PLAIN.replace(ENTRY, PLAIN[PLAIN.index(ENTRY) :].replace("probe", "first") + ENTRY))
    write = fusion_emit.Writer.write

    def broken(self: fusion_emit.Writer, edited: Module, entry: str) -> Module:
        text = print_module(write(self, edited, entry))
        return parse(text.replace("%zrr_w1,", "%zrr_other,")) if entry == "first" else parse(text)

    monkeypatch.setattr(fusion_emit.Writer, "write", broken)
    fused, results = fuse_entries(program)
    assert [result.fused for result in results] == [False, True]
    assert results[0].left is not None
    assert results[0].left.startswith("the rewritten kernel cannot be read: ")
    assert "register %zrr_other is not declared" in results[0].left
    assert _spellings(fused, "first") == _spellings(program, "first")
