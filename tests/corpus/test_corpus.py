"""The committed modules are what their sources give, and have the shape that the documents state."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from .build import OUTPUT, VARIANTS, build, compress, manifest_entry, module_path, read_module, rename_entry
from .compilers import nvcc_13_0

NAMES = [v.name for v in VARIANTS]
NVCC_13_0 = [v for v in VARIANTS if v.compiler == "nvcc13.0"]
# rr-module.md: mma per phase of enc0, 536 in all.
PHASES = [24, 24, 24, 24, 48, 48, 16, 24, 24, 48, 48, *[16] * 9, 32, 8]
ENTRY = "cuda_dldn_engine_swin_enc0_kernel"
SHARED = "_ZZ33cuda_dldn_engine_swin_enc0_kernel35DldnEngineFusedSwinEnc0ParamsStructE"


def mma_runs(ptx: str) -> list[int]:
    """Lengths of the maximal runs of adjacent mma.sync statements, found in the text alone."""
    code = re.sub(r"//[^\n]*", "", ptx)
    body = code[code.index("{", code.index(".entry")) :]
    runs, length = [], 0
    for statement in re.split(r";|^\$\w+:", body, flags=re.MULTILINE):
        if statement.strip().startswith("mma.sync"):
            length += 1
        elif length:
            runs.append(length)
            length = 0
    return runs


@pytest.mark.parametrize("variant", NVCC_13_0, ids=lambda v: v.name)
def test_sources_give_the_committed_bytes(variant):
    ptx = build(variant)
    assert ptx == read_module(variant.name)
    assert compress(ptx) == module_path(variant.name).read_bytes()


def test_manifest_lists_every_module_with_its_digest():
    modules = tomllib.loads((OUTPUT / "manifest.toml").read_text())["modules"]
    assert sorted(modules) == sorted(NAMES) == sorted(p.name.removesuffix(".ptx.xz") for p in OUTPUT.glob("*.xz"))
    for name in NAMES:
        assert modules[name]["sha256"] == hashlib.sha256(read_module(name).encode()).hexdigest()
    assert manifest_entry(VARIANTS[0], read_module("enc0")) in (OUTPUT / "manifest.toml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_phases_are_contiguous_runs(name):
    assert mma_runs(read_module(name)) == PHASES
    assert sum(PHASES) == 536


def test_mma_runs_sees_an_interruption():
    run = "mma.sync.x {a},{b};\n"
    assert mma_runs(f".entry e() {{ add.u32 a,b,c; {run * 3} add.u32 a,b,c; {run}ret; }}") == [3, 1]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_sizes_of_the_original(name):
    ptx = read_module(name)
    assert f".visible .entry {ENTRY}(\n\t.param .align 8 .b8 {ENTRY}_param_0[1032]\n)" in ptx
    assert f".b8 {SHARED}12input_tensor[3200];" in ptx
    assert f".b8 {SHARED}11input_noise[800];" in ptx
    assert ".local" not in ptx
    assert not re.search(r"(?<!_Z)_Z33cuda_dldn", ptx)
    assert str(Path.home()) not in ptx
    assert "/tmp" not in ptx


def test_modules_differ():
    assert len({read_module(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("arch", ["sm_89", "sm_90"])
@pytest.mark.parametrize("name", [n for n in NAMES if "13.5" not in n])
def test_ptxas_accepts(name, arch, tmp_path):
    source = tmp_path / "module.ptx"
    source.write_text(read_module(name))
    ptxas = str(nvcc_13_0().tool("ptxas"))
    done = subprocess.run(
        [ptxas, f"-arch={arch}", "-O0", "-fmad", "false", str(source), "-o", str(tmp_path / "module.cubin")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert ENTRY.encode() in (tmp_path / "module.cubin").read_bytes()


def test_rename_leaves_shared_arrays_alone():
    mangled = "_Z33cuda_dldn_engine_swin_enc0_kernel35DldnEngineFusedSwinEnc0ParamsStruct"
    text = f".entry {mangled}(.param {mangled}_param_0[8]) {SHARED}12input_tensor // .globl {mangled}\n"
    assert rename_entry(text) == f".entry {ENTRY}(.param {ENTRY}_param_0[8]) {SHARED}12input_tensor // .globl {ENTRY}\n"
