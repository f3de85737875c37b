"""The built library, and the test programs compiled against it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from zluda_rr.emulate.hip import library_folder
from zluda_rr.toolchain import c_compiler, compile_hip_kernel

HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "zluda_rr" / "emulate" / "hip" / "native"
PROGRAM = ("program.c", "program_memory.c")
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g")


@dataclass(frozen=True, slots=True)
class Site:
    """Where things lie, and how to run a program on the emulated device."""

    library: Path
    code_object: Path
    work: Path

    def compile(self, *sources: str, command: list[str] | None = None, flags: tuple[str, ...] = ("-O1",)) -> Path:
        """A C program of this folder, linked with the library; called as its first source."""
        program = self.work / Path(sources[0]).stem
        files = [
            *(str(HERE / source) for source in sources),
            f"-I{NATIVE}",
            f"-L{self.library}",
            "-lamdhip64",
            "-lpthread",
            "-o",
            str(program),
        ]
        subprocess.run([*(command or c_compiler("tests")), *FLAGS, *flags, *files], check=True)
        return program

    def run(self, *command: str | Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.library), **(environ or {})}
        return subprocess.run(
            [str(part) for part in command], env=env, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    work = tmp_path_factory.mktemp("hip")
    code_object = work / "kernels.co"
    code_object.write_bytes(compile_hip_kernel(HERE / "kernels.hip").code_object)
    return Site(library_folder(), code_object, work)


@pytest.fixture(scope="session")
def program(site: Site) -> Path:
    return site.compile(*PROGRAM)
