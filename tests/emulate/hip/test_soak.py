"""Random sequences from four threads against a model (soak.c), with AddressSanitizer over program and library."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.emulate.hip.conftest import NATIVE, PROGRAM, Site
from zluda_rr.emulate.hip.build import build
from zluda_rr.toolchain import c_compiler

SANITIZERS = ("-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def with_runtime(library: str) -> str:
    """The system's gcc, where it has this sanitizer; ziglang has no runtimes for them."""
    compiler = shutil.which("gcc")
    if compiler is not None:
        asked = [compiler, f"-print-file-name={library}"]
        if Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).is_absolute():
            return compiler
    pytest.skip(f"no compiler with {library}")


@pytest.fixture(scope="module")
def sanitized(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The library once more, with sanitizers."""
    compiler = with_runtime("libasan.so")
    work = tmp_path_factory.mktemp("sanitized")
    build(work / "lib", [compiler], ("-g", *SANITIZERS))
    return replace(site, library=work / "lib", work=work)


@pytest.fixture(scope="module")
def soak(sanitized: Site) -> Path:
    return sanitized.compile("soak.c", command=["gcc"], flags=SANITIZERS)


def sequences(site: Site, program: Path, count: int, seed: int) -> None:
    done = site.run(program, site.code_object, str(count), str(seed))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{count} sequences without a difference\n", "")


def test_fifty_sequences(sanitized: Site, soak: Path) -> None:
    sequences(sanitized, soak, 50, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 6))
def test_thousand_sequences(sanitized: Site, soak: Path, seed: int) -> None:
    sequences(sanitized, soak, 1000, seed)


@pytest.mark.soak
@pytest.mark.parametrize("case", ["memory", "texture", "fault", "module_globals", "threads"])
def test_cases_with_sanitizers(sanitized: Site, case: str) -> None:
    program = sanitized.compile(*PROGRAM, command=["gcc"], flags=SANITIZERS)
    done = sanitized.run(program, sanitized.code_object, case)
    assert (done.returncode, done.stdout) == (0, f"{case}: ok\n"), done.stderr


@pytest.mark.soak
def test_threads_do_not_race(site: Site, tmp_path: Path) -> None:
    compiler = with_runtime("libtsan.so")
    flags = ("-O1", "-fsanitize=thread")
    build(tmp_path / "lib", [compiler], ("-g", *flags))
    other = replace(site, library=tmp_path / "lib", work=tmp_path)
    sequences(other, other.compile("soak.c", command=[compiler], flags=flags), 200, 6)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("line", "broken", "sign"),
    [
        ("at = where->slots[i].end + 1;", "at = where->slots[i].end - 1;", "not"),  # blocks overlap
        ("used -= bytes;", "used -= bytes - EMU_GRANULE;", "leaked"),
    ],
)
def test_faults_of_the_library_are_seen(site: Site, tmp_path: Path, line: str, broken: str, sign: str) -> None:
    folder = tmp_path / "native"
    shutil.copytree(NATIVE, folder)
    source = (folder / "arena.c").read_text()
    assert source.count(line) == 1
    (folder / "arena.c").write_text(source.replace(line, broken))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zluda_rr.emulate.hip.build._NATIVE", folder)
        build(tmp_path / "lib", c_compiler("tests"))
    other = replace(site, library=tmp_path / "lib", work=tmp_path)
    done = other.run(other.compile("soak.c"), site.code_object, "50", "1")
    assert done.returncode == 1
    assert sign in done.stdout or "hipErrorLaunchFailure" in done.stdout
