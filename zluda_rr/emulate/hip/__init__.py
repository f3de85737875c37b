"""HIP on the gfx12 emulator: a `libamdhip64.so` in C, and the process behind it that runs kernels (docs/hip.md)."""

from zluda_rr.emulate.hip.build import LIBRARIES, library_folder
from zluda_rr.emulate.hip.command import run_emulated

__all__ = ["LIBRARIES", "library_folder", "run_emulated"]
