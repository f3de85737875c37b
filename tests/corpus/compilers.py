"""The CUDA compilers of the corpus, all from the package index, and how each turns one source into PTX.

nvcc preprocesses with a host compiler; ziglang's clang with the stand-in headers in `host/` serves, so that no system
compiler is needed and the result does not depend on one.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

HERE = Path(__file__).parent
HOST_HEADERS = HERE / "host"
ARCH = "89"
COMMON_FLAGS = ("-std=c++17", "-use_fast_math")


class CorpusError(RuntimeError):
    """A compiler is missing or rejected a source; the message is its own output."""


class Compiler(Protocol):
    """Turns a CUDA source into PTX text."""

    @property
    def name(self) -> str: ...

    def versions(self) -> dict[str, str]:
        """Package name -> version of everything that decides the output."""
        ...

    def compile(self, source: Path, defines: Sequence[str], arch: str = ARCH) -> str:
        """PTX of `source` for sm_`arch`; raises CorpusError with the compiler's output."""
        ...


def install(target: Path, packages: Sequence[str]) -> None:
    """Install `name==version` packages into `target` unless they are there."""
    wanted = {tuple(p.split("==")) for p in packages}
    present = {(d.metadata["Name"], d.version) for d in metadata.distributions(path=[str(target)])}
    if wanted <= present:
        return
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--upgrade"]
    subprocess.run([*pip, "--target", str(target), *packages], check=True)


@dataclass(frozen=True, slots=True)
class Nvcc:
    """nvcc below `root` (a site-packages folder or a `pip --target` folder)."""

    name: str
    root: Path
    packages: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        found = {d.metadata["Name"]: d.version for d in metadata.distributions(path=[str(self.root)])}
        return {p.split("==")[0]: found[p.split("==")[0]] for p in self.packages}

    def tool(self, name: str) -> Path:
        path = self.root / "nvidia" / "cu13" / "bin" / name
        if not path.is_file():
            raise CorpusError(f"{name} not found below {self.root}: pip install 'zluda-rr[corpus]'")
        return path

    def compile(self, source: Path, defines: Sequence[str], arch: str = ARCH) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            host = Path(scratch, "host-c++")
            host.write_text(_host_script())
            host.chmod(0o755)
            out = Path(scratch, "out.ptx")
            flags = ["-ptx", f"-arch=sm_{arch}", *COMMON_FLAGS, *(f"-D{d}" for d in defines)]
            command = [str(self.tool("nvcc")), "-ccbin", str(host), "-allow-unsupported-compiler", *flags]
            done = subprocess.run(
                [*command, source.name, "-o", str(out)], cwd=source.parent, capture_output=True, text=True
            )
            if done.returncode:
                raise CorpusError(f"{self.name}: {done.stderr or done.stdout}")
            return out.read_text()


def _host_script() -> str:
    flags = f'-target x86_64-linux-gnu.2.28 -nostdinc++ -U_GNU_SOURCE "$@" -isystem "{HOST_HEADERS}"'
    return f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ {flags}\n'


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The run-time compiler through its C interface (12.9 ships no nvcc in its wheels)."""

    name: str
    root: Path
    packages: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        found = {d.metadata["Name"]: d.version for d in metadata.distributions(path=[str(self.root)])}
        return {p.split("==")[0]: found[p.split("==")[0]] for p in self.packages}

    def compile(self, source: Path, defines: Sequence[str], arch: str = ARCH) -> str:
        nvidia = self.root / "nvidia"
        builtins = next((nvidia / "cuda_nvrtc" / "lib").glob("libnvrtc-builtins.so.*"))
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(next((nvidia / "cuda_nvrtc" / "lib").glob("libnvrtc.so.*"))))
        program = ctypes.c_void_p()
        text = source.read_text().encode()
        _check(library.nvrtcCreateProgram(ctypes.byref(program), text, source.name.encode(), 0, None, None))
        includes = [f"-I{source.parent}", f"-I{nvidia / 'cuda_runtime' / 'include'}"]
        options = [f"-arch=compute_{arch}", *COMMON_FLAGS, *includes, *(f"-D{d}" for d in defines)]
        array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        if library.nvrtcCompileProgram(program, len(options), array):
            raise CorpusError(f"{self.name}: {_text(library, program, 'ProgramLog')}")
        return _text(library, program, "PTX")


def _check(status: int) -> None:
    if status:
        raise CorpusError(f"NVRTC error {status}")


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.value.decode()


def nvcc_13_0() -> Nvcc:
    """The compiler of the `corpus` extra."""
    names = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
    return Nvcc("nvcc13.0", Path(sysconfig.get_paths()["purelib"]), names)


def nvcc_13_5(home: Path) -> Nvcc:
    """A newer one, installed below `home`; cccl has its own version numbers."""
    same = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime")
    packages = (*(f"{n}==13.5.37" for n in same), "nvidia-cuda-cccl==13.3.5.0.6")
    install(home / "nvcc13.5", packages)
    return Nvcc("nvcc13.5", home / "nvcc13.5", packages)


def nvrtc_12_9(home: Path) -> Nvrtc:
    """The run-time compiler of the previous major version, installed below `home`."""
    packages = ("nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79")
    install(home / "nvrtc12.9", packages)
    return Nvrtc("nvrtc12.9", home / "nvrtc12.9", packages)
