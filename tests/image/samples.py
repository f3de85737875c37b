"""Containers of a PTX text, made by NVIDIA's own fatbinary and ptxas and by ziglang's compiler and linkers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.toolchain import nvcc, ptxas

MODES = {"none": "none", "speed": "lz4", "balance": "zstd", "size": "zstd", "default": "zstd"}
"""fatbinary's compression modes, and what CUDA 13.0 writes for each."""

SMALL_PTX = """\
//
// A kernel small enough to read in a hex dump.
//
.version 9.0
.target sm_89
.address_size 64

\t// .globl\tsmall
.visible .entry small(
\t.param .u64 small_param_0
)
{
\t.reg .b32 \t%r<2>;
\t.reg .b64 \t%rd<3>;

\tld.param.u64 \t%rd1, [small_param_0];
\tcvta.to.global.u64 \t%rd2, %rd1;
\tmov.u32 \t%r1, %tid.x;
\tst.global.u32 \t[%rd2], %r1;
\tret;
}
"""


@dataclass(frozen=True, slots=True)
class Image:
    """One ``--image3`` of fatbinary: kind ptx or elf, architecture ``89`` or ``120a``."""

    kind: str
    arch: str
    file: Path


def run(*command: str | Path, folder: Path) -> None:
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout


def zig(*command: str | Path, folder: Path) -> None:
    run(sys.executable, "-m", "ziglang", *command, folder=folder)


def fatbin(folder: Path, name: str, images: Sequence[Image], mode: str = "none", *flags: str, tools: Path) -> Path:
    """`fatbinary --create`; `tools` is the folder of the CUDA programs."""
    compress = ("--compress=false",) if mode == "none" else ("--compress-all", f"--compress-mode={mode}")
    specs = [f"--image3=kind={i.kind},sm={i.arch},file={i.file}" for i in images]
    run(tools / "fatbinary", "-64", "--create", name, *compress, *flags, *specs, folder=folder)
    return folder / name


def cubin(folder: Path, name: str, ptx: Path, *flags: str, arch: str = "sm_89") -> Path:
    run(ptxas(), f"-arch={arch}", "-O0", *flags, ptx, "-o", name, folder=folder)
    return folder / name


def cuda_tools() -> Path:
    return nvcc().parent


def embedding_source(folder: Path, images: Sequence[Image], mode: str) -> Path:
    """C file with the fatbin in its section, as `nvcc` compiles it into a host object."""
    flags = ("--compress=false",) if mode == "none" else ("--compress-all", f"--compress-mode={mode}")
    specs = [f"--image3=kind={i.kind},sm={i.arch},file={i.file}" for i in images]
    run(cuda_tools() / "fatbinary", "-64", "--no-asm", "--embedded-fatbin=fatbin.c", *flags, *specs, folder=folder)
    source = folder / "host.c"
    source.write_text('#include "fatbin.c"\nconst void *wrapper(void) { return &__fatDeviceText; }\n')
    return source


def shared_object(folder: Path, source: Path) -> Path:
    """ELF shared object with sections .nv_fatbin and .nvFatBinSegment."""
    zig("cc", "-target", "x86_64-linux-gnu", "-c", "-fPIC", *_include(), source, "-o", "host.o", folder=folder)
    zig("ld.lld", "-shared", "host.o", "-o", "host.so", folder=folder)
    return folder / "host.so"


def windows_dll(folder: Path, source: Path) -> Path:
    """PE DLL with sections .nv_fatb and .nvFatBi."""
    zig("cc", "-target", "x86_64-windows-gnu", "-c", *_include(), source, "-o", "host.obj", folder=folder)
    zig("lld-link", "/dll", "/noentry", "host.obj", "/out:host.dll", folder=folder)
    return folder / "host.dll"


def _include() -> tuple[str, ...]:
    return (f"-I{cuda_tools().parent / 'include'}",)
