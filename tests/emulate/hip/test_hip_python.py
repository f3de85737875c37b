"""hip-python finds the emulated library by the loader's path alone, and gets right values from it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.emulate.hip.conftest import HERE, NATIVE, Site
from zluda_rr.emulate.hip import LIBRARIES

CASES = (
    "vector_add",
    "reduction",
    "atomics",
    "module_global",
    "textures",
    "boxes",
    "streams",
    "properties",
    "refusals",
)
# What ZLUDA's library is linked with (its ext/hip_runtime-sys), beside what hip-python looks up.
ZLUDA = (HERE / "zluda-symbols.txt").read_text().split()


@pytest.fixture(scope="module")
def run(site: Site) -> subprocess.CompletedProcess[str]:
    return site.run(sys.executable, HERE / "python_program.py", site.code_object)


@pytest.mark.parametrize("case", CASES)
def test_values_are_right(run: subprocess.CompletedProcess[str], case: str) -> None:
    assert f"{case}: ok" in run.stdout.splitlines(), run.stdout + run.stderr


def test_what_is_missing_is_said_once(run: subprocess.CompletedProcess[str]) -> None:
    said = run.stderr.splitlines()
    assert [line for line in said if "hipGraphCreate" in line] == [
        "libamdhip64 (emulated): hipGraphCreate is not there; it returns hipErrorNotSupported"
    ]
    assert [line for line in said if "hiprtcCreateProgram" in line] == [
        "libhiprtc (emulated): hiprtcCreateProgram is not there; compile for gfx1201 beforehand"
    ]


def exported(library: Path) -> set[str]:
    with library.open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(".dynsym")
        assert symbols is not None
        return {s.name for s in symbols.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}


def looked_up(module: str) -> set[str]:
    """Names in the sources that hip-python ships of its bindings."""
    spec = find_spec("rocm.bindings")
    assert spec is not None
    (folder,) = spec.submodule_search_locations or ()
    return set(re.findall(r'__init_symbol\(&\w+,"(\w+)"', (Path(folder) / f"{module}.pyx").read_text()))


@pytest.mark.parametrize(("module", "library"), [("cyhip", "libamdhip64.so"), ("cyhiprtc", "libhiprtc.so")])
def test_every_symbol_of_hip_python_is_there(site: Site, module: str, library: str) -> None:
    names = looked_up(module)
    assert len(names) > 15
    assert names - exported(site.library / library) == set()


def test_every_symbol_of_zluda_is_there(site: Site) -> None:
    assert len(ZLUDA) == 91
    assert set(ZLUDA) - exported(site.library / "libamdhip64.so") == set()


def test_nothing_else_is_exported(site: Site) -> None:
    strange = {n for n in exported(site.library / "libamdhip64.so") if not n.startswith(("hip", "__hip"))}
    assert strange == {"zludaRrHipSetModel"}


def test_names_in_the_folder(site: Site) -> None:
    for name in LIBRARIES:
        with (site.library / name).open("rb") as stream:
            dynamic = ELFFile(stream).get_section_by_name(".dynamic")
            assert dynamic is not None
            sonames = [tag.soname for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_SONAME"]
        assert sonames == [f"{name.removesuffix('.7')}.7"]


def test_lists_of_what_is_not_there_have_no_doubles() -> None:
    names = re.findall(r"^NAME\((\w+)\)$", (NATIVE / "unsupported.def").read_text(), re.MULTILINE)
    assert names == sorted(set(names))
