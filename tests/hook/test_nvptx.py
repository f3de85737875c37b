"""Bodies as PTX for NVIDIA's driver, and the option that forbids contraction."""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.errors import UserError
from zluda_rr.hook import insert_bodies, without_contraction
from zluda_rr.hook.nvptx import SOURCES, committed_body, compile_body, has_body
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.ptx import parse
from zluda_rr.resources import resource_dir
from zluda_rr.toolchain import ptxas


@pytest.mark.parametrize("name", SOURCES)
def test_the_committed_bodies_are_what_the_sources_give(name: str) -> None:
    source = resource_dir("kernels") / name
    same = compile_body(source) == committed_body(source.stem)
    assert same, "run: python -m zluda_rr.hook"


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The phase-8 cut; the whole layer takes ptxas a quarter of a minute and is run on the device."""
    folder = tmp_path_factory.mktemp("nvptx")
    (folder / "enc0.ptx").write_text(read_ptx(shipped_module("enc0")))
    arguments = ["rewrite", str(folder / "enc0.ptx"), "-o", str(folder / "out.ptx"), "--cut", "phase8"]
    result = CliRunner().invoke(main, [*arguments, "--target", "nvptx", "--no-contraction"])
    assert result.exit_code == 0, result.output
    return folder / "out.ptx"


def test_the_module_is_complete_and_ptxas_takes_it(rewritten: Path, tmp_path: Path) -> None:
    module = parse(rewritten.read_text())
    bodies = [f for f in module.functions if f.name == "zrr_swin_phase" and f.body is not None]
    assert len(bodies) == 1
    assert not re.search(r"\.extern\s+\.func", rewritten.read_text())
    command = [str(ptxas()), "-arch=sm_90", "-v", str(rewritten), "-o", str(tmp_path / "out.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores" in done.stderr


def test_nothing_can_be_fused_any_more(rewritten: Path) -> None:
    text = rewritten.read_text()
    assert not re.search(r"\b(?:add|sub|mul)\.(?:ftz\.)?f(?:16|16x2|32)\s", text)
    assert len(re.findall(r"\b(?:add|sub|mul)\.rn\.f16x2", text)) > 1000
    assert without_contraction(text) == text


def module_with(line: str) -> str:
    return f".version 8.4\n.target sm_89\n.address_size 64\n.visible .entry k()\n{{\n{line}\n\tret;\n}}\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\tadd.f16x2 %r1, %r2, %r3;", "\tadd.rn.f16x2 %r1, %r2, %r3;"),
        ("\t{mul.f16 %h, %a, %b;}", "\t{mul.rn.f16 %h, %a, %b;}"),
        ("\t@!%p1 add.f32 %f1, /* mul.f32 */ %f2, %f3;", "\t@!%p1 add.rn.f32 %f1, /* mul.f32 */ %f2, %f3;"),
        ("\t/* add.f32 %f1, */ mov.f32 %f1, %f2;",) * 2,
        ('\t.pragma "add.f32 x";',) * 2,
        ("\t@%p1 sub.ftz.f32 %f1, %f2, %f3;", "\t@%p1 sub.rn.ftz.f32 %f1, %f2, %f3;"),
        ("\tmul.ftz.sat.f32 %f1, %f2, %f3;", "\tmul.rn.ftz.sat.f32 %f1, %f2, %f3;"),
        ("\tadd.rz.f32 %f1, %f2, %f3;", "\tadd.rz.f32 %f1, %f2, %f3;"),
        ("\tfma.rn.f16x2 %r1, %r2, %r3, %r4;", "\tfma.rn.f16x2 %r1, %r2, %r3, %r4;"),
        ("\tadd.s32 %r1, %r2, %r3;", "\tadd.s32 %r1, %r2, %r3;"),
        ("\tatom.global.add.f32 %f1, [%rd1], %f2;", "\tatom.global.add.f32 %f1, [%rd1], %f2;"),
        ("\tred.global.add.f32 [%rd1], %f2; // mul.f16 %h", "\tred.global.add.f32 [%rd1], %f2; // mul.f16 %h"),
        ("\t// add.f32 stays", "\t// add.f32 stays"),
    ],
)
def test_which_instructions_are_changed(line: str, expected: str) -> None:
    assert without_contraction(module_with(line)) == module_with(expected)


def test_a_body_without_ptx_is_named() -> None:
    assert has_body("zrr_swin_phase")
    assert has_body("zrr_swin_enc0")
    assert not has_body("zrr_other")
    declared = ".version 8.4\n.target sm_89\n.extern .func  (.param .b32 r) zrr_other\n(\n\t.param .b32 p\n)\n;\n"
    with pytest.raises(UserError, match="zrr_other: no body for --target nvptx"):
        insert_bodies(declared)
    assert insert_bodies("// nothing declared\n") == "// nothing declared\n"
