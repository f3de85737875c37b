"""LLVM's assembler for gfx1201 as a function: lines in, canonical text and bytes out, bad lines tolerated."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_ENCODING = re.compile(rb"^\t(.*?)\s*; encoding: \[([^\]]*)\]$")
_MARK = re.compile(rb"^L(\d+):$")


@dataclass(frozen=True, slots=True)
class Assembled:
    """What LLVM made of one source line."""

    text: str
    """LLVM's canonical spelling, single spaces."""
    code: bytes


def assemble(lines: Sequence[str], *, true16: bool = True, cpu: str = "gfx1201") -> list[Assembled | None]:
    """Assemble each line on its own; None where LLVM rejects it. About 100,000 lines a second.

    `true16` selects the `.l`/`.h` spelling of 16-bit operands; the bytes do not depend on it.
    """
    source = "".join(f"L{i}:\n{line}\n" for i, line in enumerate(lines))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.s"
        path.write_text(source)
        command = [sys.executable, "-m", "ziglang", "clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa"]
        command += ["-target-cpu", cpu, "-target-feature", "+real-true16" if true16 else "-real-true16"]
        command += ["-filetype", "asm", "-show-encoding", str(path), "-o", "-"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    result: list[Assembled | None] = [None] * len(lines)
    current = -1
    for line in done.stdout.splitlines():
        mark = _MARK.match(line)
        if mark:
            current = int(mark[1])
            continue
        match = _ENCODING.match(line)
        if match and current >= 0:
            code = bytes(int(byte, 16) for byte in match[2].split(b","))
            result[current] = Assembled(" ".join(match[1].decode().split()), code)
    return result


def assemble_chunks(lines: Iterable[str], *, true16: bool = True, size: int = 50_000) -> list[Assembled | None]:
    """`assemble` in pieces, so that a large probe does not need a large process."""
    everything = list(lines)
    result: list[Assembled | None] = []
    for start in range(0, len(everything), size):
        result += assemble(everything[start : start + size], true16=true16)
    return result
