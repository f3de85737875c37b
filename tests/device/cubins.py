"""Builds the cubins of a golden run: `python -m tests.device.cubins DIR` runs `ptxas -fmad false -arch=sm_90`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.corpus.build import VARIANTS, compiler, read_module
from tests.corpus.compilers import Nvcc, nvcc_13_0

from .layer import LAYERS

ARCH = "sm_90"


def build_cubin(name: str, target: Path) -> None:
    """One committed module to `target`; modules of a newer nvcc need its own ptxas."""
    variant = next(v for v in VARIANTS if v.name == name)
    own = compiler(variant.compiler)
    ptxas = (own if isinstance(own, Nvcc) else nvcc_13_0()).tool("ptxas")
    source = target.with_suffix(".ptx")
    source.write_text(read_module(name))
    subprocess.run([str(ptxas), f"-arch={ARCH}", "-fmad", "false", str(source), "-o", str(target)], check=True)
    source.unlink()


def main(folder: Path) -> None:
    """All modules that hold one layer, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for variant in VARIANTS:
        if variant.name.split("-")[0] in LAYERS:
            build_cubin(variant.name, folder / f"{variant.name}.cubin")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
