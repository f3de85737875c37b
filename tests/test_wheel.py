"""The wheel, installed as anyone would: into an environment that has nothing but what the wheel asks for."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.image.samples import SMALL_PTX
from zluda_rr.toolchain import GLIBC

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Installed:
    """A fresh environment with the wheel in it."""

    wheel: Path
    folder: Path

    @property
    def site(self) -> Path:
        (found,) = (self.folder / "lib").glob("python*/site-packages")
        return found

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """One command of it, with a home of its own and far from the checkout."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        whole = {"PATH": os.environ["PATH"], "HOME": str(home), **env}
        program = [str(self.folder / "bin" / "zluda-rr"), *command]
        return subprocess.run(program, cwd=home, env=whole, capture_output=True, text=True, check=False)


def requirements(names: list[str], extra: str = "") -> Iterator[importlib.metadata.Distribution]:
    """Everything that has to be installed for these, each once; from this environment."""
    seen: set[str] = set()
    while names:
        requirement = Requirement(names.pop())
        name = requirement.name.lower().replace("_", "-")
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add(name)
        distribution = importlib.metadata.distribution(name)
        yield distribution
        names += distribution.requires or []


def link_requirements(wheel: Path, folder: Path, extra: str = "") -> None:
    """A folder with exactly the packages that the wheel's metadata ask for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    folder.mkdir()
    for distribution in requirements(metadata.get_all("Requires-Dist", []), extra):
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = folder / top
            if not link.is_symlink():
                link.symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built once, whichever of several test processes comes first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "wheel"
    with (shared / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            install_wheel(folder)
            (folder / "ready").touch()
    (wheel,) = folder.glob("*.whl")
    return Installed(wheel, folder / "venv")


def install_wheel(folder: Path) -> None:
    """Build the wheel and install it, beside links to what it needs."""
    folder.mkdir()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    there = Installed(wheel, folder / "venv")
    python = str(there.folder / "bin" / "python")
    install = ["-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    link_requirements(wheel, folder / "needed")
    (there.site / "needed.pth").write_text(f"{folder / 'needed'}\n")


def test_the_wheel_carries_the_libraries_and_the_bodies(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    data = "zluda_rr/_data/"
    assert {f"{data}lib/libzluda_rr.so", f"{data}lib/libcuda.so.1"} <= names
    for file in ("bitcode/swin_enc0.bc.xz", "bitcode/manifest.json", "nvptx/swin_enc0.ptx.xz", "swin_enc0.hip"):
        assert f"{data}kernels/{file}" in names
    assert {
        f"{data}rules/enc0.toml",
        f"{data}modules/enc0.ptx.xz",
        f"{data}patches/zluda/0001-module-hook.patch",
    } <= names
    assert installed.wheel.name.endswith(f"-py3-none-manylinux_{GLIBC.replace('.', '_')}_x86_64.whl")


def test_the_libraries_run_with_an_old_glibc(installed: Installed) -> None:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    for name in ("libzluda_rr.so", "libcuda.so.1"):
        with (installed.site / "zluda_rr" / "_data" / "lib" / name).open("rb") as stream:
            (needed,) = (s for s in ELFFile(stream).iter_sections() if isinstance(s, GNUVerNeedSection))
            versions = {aux.name for _, auxiliaries in needed.iter_versions() for aux in auxiliaries}
        numbers = [tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions if v.startswith("GLIBC_")]
        assert numbers
        assert max(numbers) <= tuple(map(int, GLIBC.split(".")))


def test_nothing_of_the_extras_is_there(installed: Installed) -> None:
    """The tests below would mean nothing with a compiler in reach, or with this checkout."""
    probe = "print(zluda_rr.__file__, find_spec('ziglang'), find_spec('llvmlite'))"
    code = f"import zluda_rr; from importlib.util import find_spec; {probe}"
    python = [str(installed.folder / "bin" / "python"), "-c", code]
    said = subprocess.run(python, cwd=installed.folder, capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(installed.site / "zluda_rr" / "__init__.py"), "None", "None"]


def test_the_hook_is_there_without_a_compiler(installed: Installed) -> None:
    path = installed.run("hook-path", PATH="/nonexistent")
    assert path.returncode == 0, path.stderr
    library = Path(path.stdout.strip())
    assert library == installed.site / "zluda_rr" / "_data" / "lib" / "libzluda_rr.so"
    loaded = installed.run("launch", "--", "/bin/sh", "-c", "grep -c libzluda_rr.so /proc/$$/maps")
    assert int(loaded.stdout) > 0, loaded.stderr


def test_what_needs_no_compiler_works(installed: Installed, tmp_path: Path) -> None:
    source, output = tmp_path / "small.ptx", tmp_path / "enc0.ptx"
    source.write_text(SMALL_PTX)
    enc0 = str(installed.site / "zluda_rr" / "_data" / "modules" / "enc0.ptx.xz")
    for command in (
        ["inspect", str(source)],
        ["rewrite", enc0, "-o", str(output), "--cut", "phase8", "--bitcode", str(tmp_path / "bodies")],
        ["precompile", "--quiet", str(source)],
        ["cache", "list"],
        ["log"],
        ["--version"],
    ):
        done = installed.run(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stderr == "", command
    assert "call.uni" in output.read_text()
    assert [p.name for p in (tmp_path / "bodies").iterdir()] == ["swin_phase.bc"]


def test_doctor_says_what_is_missing(installed: Installed) -> None:
    done = installed.run("doctor")
    assert done.returncode == 1
    missing = [line for line in done.stdout.splitlines() if line.startswith("FIX")]
    assert len(missing) == 1
    assert missing[0].startswith("FIX  CUDA: libcuda.so.1")
    assert "Traceback" not in done.stderr
    for what in ("library", "cache", "rewriter", "layers"):
        assert f"ok   {what}: " in done.stdout


@pytest.mark.parametrize("command", ["demo", "verify", "bench", "compile"])
def test_what_needs_a_compiler_says_so(installed: Installed, tmp_path: Path, command: str) -> None:
    source = tmp_path / "small.ptx"
    source.write_text(SMALL_PTX)
    rest = [str(source), "-o", str(tmp_path / "out.co")] if command == "compile" else []
    done = installed.run(command, "--quiet", *rest)
    assert done.returncode == 2
    assert re.fullmatch(r"zluda-rr: [\w.]+ is missing; install it with: pip install 'zluda-rr\[build\]'\n", done.stderr)
    assert not (tmp_path / "out.co").exists()


@pytest.mark.soak
def test_with_the_extra_everything_works(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "needed"
    link_requirements(installed.wheel, folder, extra="build")
    source = tmp_path / "small.ptx"
    source.write_text(SMALL_PTX)
    for command in (["compile", str(source), "-o", str(tmp_path / "out.co")], ["bench"], ["demo"]):
        done = installed.run(*command, PYTHONPATH=str(folder))
        assert done.returncode == 0, (command, done.stderr)
