"""Compiled device code for the decoder's tests, built once per process."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from zluda_rr.toolchain import Compiled, compile_hip_kernel

SOURCE = Path(__file__).with_name("kernels.hip")
_SUFFIX = re.compile(r"_e(32|64)(_dpp)?$|_dpp$")


@cache
def compiled() -> Compiled:
    """The code object and assembly of kernels.hip."""
    return compile_hip_kernel(SOURCE)


def assembly_mnemonics(assembly: str) -> list[str]:
    """Mnemonics of the instructions of LLVM's assembly text in order, without encoding suffixes."""
    lines = (line for line in assembly.splitlines() if re.match(r"\t[a-z]\w+( |$)", line))
    return [_SUFFIX.sub("", line.split()[0]) for line in lines]
