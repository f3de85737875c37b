"""The front end at full size: `python -m tests.corpus.bench_frontend` prints what whole processes need, and the growth.

`inspect` runs on real nvcc output of 30,000, 125,000 and 250,000 lines (`large.py` compiles them once below
`.corpus/`), `rewrite` on enc0's module with further kernels of that kind after it, 125,000 lines together. Time is
processor time of the process, user and system; other programs on the same cores still slow it down.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .build import COMPILERS, read_module
from .large import LINES, large_module

SIZES = (30_000, LINES, 250_000)
INSPECT_SECONDS, INSPECT_BYTES, REWRITE_SECONDS = 4.0, 700 << 20, 6.0
LINEAR = 1.3
"""Growth from the smallest to the largest size may exceed the growth in lines by this factor."""
_KERNEL_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process needed: processor seconds, elapsed seconds, peak resident bytes."""

    lines: int
    processor_s: float
    elapsed_s: float
    peak_bytes: int

    def __str__(self) -> str:
        peak = self.peak_bytes / (1 << 20)
        return f"{self.lines:>8,} lines  {self.processor_s:6.2f} s CPU  {self.elapsed_s:6.2f} s elapsed  {peak:5.0f} MB"


def run(path: Path, *arguments: str) -> Cost:
    """Run `zluda-rr ARGUMENTS`; CalledProcessError where it fails."""
    command = [str(Path(sys.executable).with_name("zluda-rr")), *arguments]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    elapsed = time.perf_counter() - begin
    text = path.read_text()
    return Cost(text.count("\n"), usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss << 10)


def combined(lines: int, folder: Path) -> Path:
    """enc0's module with copies of a large kernel after it, under names of their own."""
    text = read_module("enc0")
    kernel = large_module(_KERNEL_LINES, COMPILERS).read_text()
    start = kernel.index(".visible .entry")
    (name,) = set(re.findall(r"\.entry (\w+)", kernel))
    body = kernel[start:]
    for copy in range(1, 1 + round((lines - text.count("\n")) / body.count("\n"))):
        text += "\n" + body.replace(name, f"{name}_{copy}").replace("$L__BB0_", f"$L__BB{copy}_")
    path = folder / "combined.ptx"
    path.write_text(text)
    return path


def main() -> int:
    """Print the costs; 1 where a bound of the issue is exceeded."""
    costs = []
    for size in SIZES:
        path = large_module(size)
        costs.append(run(path, "inspect", str(path)))
        print(f"inspect  {costs[-1]}", flush=True)
    small, standard, large = costs
    growth = (large.processor_s / small.processor_s) / (large.lines / small.lines)
    print(f"growth from {small.lines:,} to {large.lines:,} lines: {growth:.2f} of linear, start-up included")
    with tempfile.TemporaryDirectory() as folder:
        path = combined(LINES, Path(folder))
        cost = run(path, "rewrite", str(path), "-o", f"{folder}/out.ptx", "--layer", "enc0", "--cut", "phase8")
        print(f"rewrite  {cost}")
    good = (
        standard.processor_s < INSPECT_SECONDS
        and standard.peak_bytes < INSPECT_BYTES
        and cost.processor_s < REWRITE_SECONDS
        and growth < LINEAR
    )
    print("within the bounds" if good else "NOT within the bounds", end=": ")
    print(f"inspect {INSPECT_SECONDS} s and {INSPECT_BYTES >> 20} MB, rewrite {REWRITE_SECONDS} s, growth {LINEAR}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
