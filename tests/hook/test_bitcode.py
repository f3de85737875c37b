"""Bodies for ZLUDA: the committed bitcode is what the sources give, is fit to be linked, and reaches the library."""

import ctypes
import hashlib
import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.contract import AnyCutRule, BodyChoice, LayerCutRule, load_contracts
from zluda_rr.errors import UserError
from zluda_rr.hook import bitcode, library_path
from zluda_rr.hook.bitcode import (
    CLANG_VARIABLE,
    SOURCES,
    committed_bitcode,
    compile_bitcode,
    content_name,
    load_manifest,
    name_bodies,
    named_bodies,
    needed_bodies,
    source_digest,
    unpack_bodies,
)
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.resources import resource_dir
from zluda_rr.toolchain import llvm_binding

from .sandbox import Sandbox

STEMS = [Path(name).stem for name in SOURCES]
_AGAIN = f"run: {CLANG_VARIABLE}='...' python -m zluda_rr.hook"


def calling(*symbols: str) -> str:
    """A module that declares bodies."""
    declared = "".join(f".extern .func  (.param .b32 r) {s}\n(\n\t.param .b32 p\n)\n;\n" for s in symbols)
    return f".version 9.0\n.target sm_89\n.address_size 64\n{declared}"


@pytest.mark.parametrize("name", SOURCES)
def test_the_sources_are_those_that_the_bitcode_was_made_from(name: str) -> None:
    assert load_manifest()[Path(name).stem].sources == source_digest(resource_dir("kernels") / name), _AGAIN


def test_the_digest_covers_headers_of_headers(tmp_path: Path) -> None:
    for name, text in (("a.hip", '#include "b.h"\n'), ("b.h", '#include "c.h"\n'), ("c.h", "int x;\n")):
        (tmp_path / name).write_text(text)
    before = source_digest(tmp_path / "a.hip")
    (tmp_path / "c.h").write_text("int y;\n")
    assert source_digest(tmp_path / "a.hip") != before


@pytest.mark.parametrize("name", SOURCES)
def test_the_committed_bitcode_is_what_the_sources_give(name: str) -> None:
    clang = shlex.split(os.environ.get(CLANG_VARIABLE, ""))
    if not clang:
        pytest.skip(f"{CLANG_VARIABLE} names no clang 21")
    made, _ = compile_bitcode(resource_dir("kernels") / name, clang)
    assert hashlib.sha256(made).hexdigest() == load_manifest()[Path(name).stem].bitcode, _AGAIN


@pytest.mark.parametrize("stem", STEMS)
def test_the_manifest_is_true(stem: str) -> None:
    record = load_manifest()[stem]
    assert record.bitcode == hashlib.sha256(committed_bitcode(stem)).hexdigest()
    assert int(record.compiler.removeprefix("clang version ").split(".")[0]) <= 21
    source = (resource_dir("kernels") / f"{stem}.hip").read_text()
    assert sorted(record.symbols) == sorted(re.findall(r"^ZRR_BODY uint32_t (zrr_\w+)\(", source, re.M))


@pytest.mark.parametrize("stem", STEMS)
def test_the_bitcode_can_become_part_of_any_gfx12_kernel(stem: str) -> None:
    module = llvm_binding().parse_bitcode(committed_bitcode(stem))
    defined = [f for f in module.functions if not f.is_declaration]
    assert {f.name for f in defined} == set(load_manifest()[stem].symbols)
    assert all(f.name.startswith("llvm.") for f in module.functions if f.is_declaration)
    assert not list(module.global_variables), "a list that would keep functions alive"
    text = str(module)
    assert "!llvm.module.flags" not in text
    groups = dict(re.findall(r"^attributes (#\d+) = \{ (.*) \}$", text, re.M))
    for head in re.findall(r"^define [^{]*", text, re.M):
        attributes = groups[re.findall(r"#\d+", head)[-1]]
        assert "alwaysinline" in attributes
        assert '"target-cpu"="gfx1201"' in attributes
        assert not re.search(r'"(?:target-features|amdgpu-|denormal-fp)', attributes)


def test_everything_that_a_rewrite_can_call_has_bitcode() -> None:
    symbols = {body.symbol for contract in load_contracts() for cut in contract.cuts for body in _choices(cut)}
    assert {"zrr_swin_phase", "zrr_swin_enc0", "zrr_swin_enc0_staged"} <= symbols
    fused = re.findall(r"\bzrr_fc_\w+", (resource_dir("rules") / "fragment-consumer.rule").read_text())
    sided = [f"zrr_fc_{way}{side}" for way in ("lift", "lower") for side in (0, 1)]
    assert len(set(fused)) > 8
    for symbol in (*sorted(symbols), *sorted(set(fused)), *sided):
        assert len(needed_bodies(calling(symbol))) == 1


def _choices(cut: AnyCutRule) -> tuple[AnyCutRule | BodyChoice, ...]:
    return cut.bodies if isinstance(cut, LayerCutRule) else (cut,)


def test_what_has_no_bitcode_is_named() -> None:
    with pytest.raises(UserError, match="zrr_other: no bitcode; there is: zrr_fc_"):
        needed_bodies(calling("zrr_swin_phase", "zrr_other"))
    assert needed_bodies("// nothing declared\n") == ()


def test_names_in_a_module() -> None:
    text = calling("zrr_swin_phase", "zrr_fc_half", "zrr_fc_pack")
    expected = tuple(content_name(committed_bitcode(stem)) for stem in ("swin_phase", "fragment_consumer"))
    assert named_bodies(name_bodies(text)) == expected
    assert name_bodies(text).startswith(text)
    assert name_bodies("// none") == "// none"
    assert named_bodies(text) == ()


def test_a_damaged_file_is_not_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bitcode"
    folder.mkdir()
    for path in (resource_dir("kernels") / "bitcode").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(bitcode, "bitcode_folder", lambda: folder)
    assert committed_bitcode("swin_phase").startswith(b"BC")
    records = json.loads((folder / "manifest.json").read_text())
    records["swin_phase"]["bitcode"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(records))
    with pytest.raises(UserError, match=r"not the file that manifest\.json records"):
        committed_bitcode("swin_phase")
    (folder / "swin_phase.bc.xz").write_bytes(b"no xz")
    with pytest.raises(UserError, match=r"swin_phase\.bc\.xz: .*; install zluda-rr again"):
        committed_bitcode("swin_phase")


def test_a_clang_that_is_too_new_or_missing_is_refused(tmp_path: Path) -> None:
    source = resource_dir("kernels") / "swin_phase.hip"
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\necho 'Debian clang version 22.1.0 (1)'\n")
    clang.chmod(0o755)
    with pytest.raises(UserError, match="ZLUDA reads bitcode of clang 21 and older"):
        compile_bitcode(source, [str(clang)])
    with pytest.raises(UserError, match=f"correct {CLANG_VARIABLE}"):
        compile_bitcode(source, [str(tmp_path / "none")])


def test_rewrite_writes_the_bitcode_that_the_module_needs(tmp_path: Path) -> None:
    (tmp_path / "enc0.ptx").write_text(read_ptx(shipped_module("enc0")))
    arguments = ["rewrite", str(tmp_path / "enc0.ptx"), "-o", str(tmp_path / "out.ptx"), "--cut", "phase8"]
    result = CliRunner().invoke(main, [*arguments, "--bitcode", str(tmp_path / "bodies")])
    assert result.exit_code == 0, result.output
    assert [p.name for p in (tmp_path / "bodies").iterdir()] == ["swin_phase.bc"]
    assert (tmp_path / "bodies" / "swin_phase.bc").read_bytes() == committed_bitcode("swin_phase")
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, [*arguments, "--bitcode", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    refused = CliRunner().invoke(main, [*arguments, "--target", "nvptx", "--bitcode", str(tmp_path / "more")])
    assert refused.exit_code == 2
    assert not (tmp_path / "more").exists()


@pytest.fixture
def ask(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> "Ask":
    for name in ("ZLUDA_RR_CACHE_DIR",):
        monkeypatch.setenv(name, box.env[name])
    return Ask()


class Ask:
    """`zluda_rr_bodies` of the library in this process."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(library_path()))

    def __call__(self, text: str, *, sized: bool = True) -> tuple[int, str]:
        paths, data = ctypes.c_void_p(1), text.encode()
        size = ctypes.c_size_t(len(data) if sized else 0)
        status = self.library.zluda_rr_bodies(data, size, ctypes.byref(paths))
        found = ctypes.string_at(paths.value).decode() if paths.value else ""
        self.library.zluda_rr_free(paths)
        return status, found


def test_the_library_names_the_files(box: Sandbox, ask: Ask) -> None:
    text = name_bodies(calling("zrr_swin_phase", "zrr_fc_half"))
    unpack_bodies(box.cache)
    for sized in (True, False):
        status, paths = ask(text, sized=sized)
        assert status == 1
        assert [Path(p).read_bytes() for p in paths.splitlines()] == [
            committed_bitcode("swin_phase"),
            committed_bitcode("fragment_consumer"),
        ]
    assert ask(calling()) == (0, "")


@pytest.mark.parametrize(
    "fault", ["missing", "damaged", "cut off", "link", "folder", "bad name", "short", "17", "cache"]
)
def test_whatever_is_wrong_with_a_body_means_the_original(
    box: Sandbox, ask: Ask, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = name_bodies(calling("zrr_swin_phase"))
    unpack_bodies(box.cache)
    assert ask(text)[0] == 1
    name = named_bodies(text)[0]
    path = box.cache.folder / f"{name}.bc"
    if fault == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    elif fault == "cut off":
        path.write_bytes(path.read_bytes()[:-1])
    elif fault == "bad name":
        text = text.replace(name, f"../{name[3:]}")
    elif fault == "short":
        text = text.rstrip("\n")[:-1]
    elif fault == "17":
        text += f"// zluda-rr bitcode {name}\n" * 16
    elif fault == "cache":
        monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(box.folder / "none"))
    else:
        path.rename(box.folder / "elsewhere")
        if fault == "link":
            path.symlink_to(box.folder / "elsewhere")
        elif fault == "folder":
            path.mkdir()
    log = box.folder / "log"
    monkeypatch.setenv("ZLUDA_RR_LOG_FILE", str(log))
    assert ask(text) == (-1, "")
    printed = log.read_text()
    assert printed.count("\n") == 1
    assert "zluda_rr_bodies: original module: " in printed


def test_bodies_are_unpacked_again_where_they_are_damaged(box: Sandbox, ask: Ask) -> None:
    text = name_bodies(calling("zrr_swin_phase"))
    unpack_bodies(box.cache)
    path = box.cache.folder / f"{named_bodies(text)[0]}.bc"
    path.write_bytes(b"BC")
    unpack_bodies(box.cache)
    assert ask(text)[0] == 1
    box.cache.clear()
    assert not path.exists()
