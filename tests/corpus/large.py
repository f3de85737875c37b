"""Large modules for the front-end benchmark: `python -m tests.corpus.large [LINES ...]` compiles them below `.corpus/`.

They are real nvcc 13.0 output of `cuda/large.cu`, one kernel whose number of unrolled branches decides the size.
They are not committed: 125,000 lines are 2.8 MB and take nvcc about ten seconds, 250,000 lines half a minute.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .build import COMPILERS, SOURCES, rename_entry
from .compilers import nvcc_13_0

LINES = 125_000
# nvcc 13.0.88: lines of the kernel without branches, and of each branch.
FIXED_LINES, BRANCH_LINES = 4200, 2790


def branches(lines: int) -> int:
    """Branches of the module that comes nearest to `lines` lines; at least one."""
    return max(1, round((lines - FIXED_LINES) / BRANCH_LINES))


def large_module(lines: int = LINES, folder: Path = COMPILERS) -> Path:
    """PTX file of about `lines` lines, compiled unless it is there already."""
    path = folder / f"large-{lines}.ptx"
    if not path.is_file():
        ptx = rename_entry(nvcc_13_0().compile(SOURCES / "large.cu", (f"RR_BRANCHES={branches(lines)}",)))
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(ptx)
        unfinished.replace(path)
    return path


def main(arguments: Sequence[str]) -> int:
    """Build the sizes named, or the standard one."""
    for lines in map(int, arguments or (LINES,)):
        path = large_module(lines)
        text = path.read_text()
        print(f"{path}: {text.count(chr(10))} lines, {len(text)} bytes, {text.count('mma.sync')} mma")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
