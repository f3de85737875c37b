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
from .structure import mma_runs, statements

NAMES = [v.name for v in VARIANTS]
# The combined module repeats the two others (tested below); building it takes as long as both.
REBUILT = [
    pytest.param(v, id=v.name, marks=[pytest.mark.soak] if v.name == "rr" else [])
    for v in VARIANTS
    if v.compiler == "nvcc13.0"
]
# nvcc 13.5's PTX needs its own ptxas; every module for the target it names, one per layer for the H200.
ASSEMBLED = [*((n, "sm_89") for n in NAMES if "13.5" not in n and n != "rr"), ("enc0", "sm_90"), ("enc1", "sm_90")]
# rr-module.md: mma per phase of enc0, 536 in all.
PHASES = [24, 24, 24, 24, 48, 48, 16, 24, 24, 48, 48, *[16] * 9, 32, 8]
PARAMETER_BYTES = {"enc0": 1032, "enc1": 144}
ENTRY = "cuda_dldn_engine_swin_enc0_kernel"
SHARED = "_ZZ33cuda_dldn_engine_swin_enc0_kernel35DldnEngineFusedSwinEnc0ParamsStructE"


def layers(name: str) -> list[str]:
    """Layers whose entry a module holds."""
    return ["enc0", "enc1"] if name == "rr" else [name.split("-")[0]]


@pytest.mark.parametrize("variant", REBUILT)
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


@pytest.mark.parametrize("name", [n for n in NAMES if "enc0" in layers(n)])
def test_phases_of_enc0_are_contiguous_runs(name):
    assert mma_runs(read_module(name), ENTRY) == PHASES
    assert sum(PHASES) == 536


def test_mma_runs_sees_an_interruption():
    run = "mma.sync.x {a},{b};\n"
    assert mma_runs(f".entry e() {{ add.u32 a,b,c; {run * 3} add.u32 a,b,c; {run}ret; }}") == [3, 1]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_sizes_of_the_original(name):
    ptx = read_module(name)
    for layer in layers(name):
        entry = ENTRY.replace("enc0", layer)
        size = PARAMETER_BYTES[layer]
        assert f".visible .entry {entry}(\n\t.param .align 8 .b8 {entry}_param_0[{size}]\n)" in ptx
    shared = re.findall(r"\.shared \S+ \S+ \.b8 (\S+);", ptx)
    enc0_arrays = [f"{SHARED}12input_tensor[3200]", f"{SHARED}11input_noise[800]"]
    assert sorted(shared) == (sorted(enc0_arrays) if "enc0" in layers(name) else [])
    assert ptx.count(".entry") == len(layers(name))
    assert ".local" not in ptx
    assert not re.search(r"(?<!_Z)_Z33cuda_dldn", ptx)
    assert str(Path.home()) not in ptx
    assert "/tmp" not in ptx


def test_combined_module_holds_both_entries_as_they_are_alone():
    both = read_module("rr")
    for layer in ("enc0", "enc1"):
        entry = ENTRY.replace("enc0", layer)
        alone, combined = statements(read_module(layer), entry), statements(both, entry)
        assert [s.split()[0] for s in alone] == [s.split()[0] for s in combined]


def test_modules_differ():
    assert len({read_module(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize(("name", "arch"), ASSEMBLED)
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
    cubin = (tmp_path / "module.cubin").read_bytes()
    assert all(ENTRY.replace("enc0", layer).encode() in cubin for layer in layers(name))


def test_rename_leaves_shared_arrays_alone():
    mangled = "_Z33cuda_dldn_engine_swin_enc0_kernel35DldnEngineFusedSwinEnc0ParamsStruct"
    text = f".entry {mangled}(.param {mangled}_param_0[8]) {SHARED}12input_tensor // .globl {mangled}\n"
    assert rename_entry(text) == f".entry {ENTRY}(.param {ENTRY}_param_0[8]) {SHARED}12input_tensor // .globl {ENTRY}\n"
