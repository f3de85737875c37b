"""Runs a program on the emulated device: the libraries' folder in front of its loader path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from zluda_rr.emulate.hip.build import library_folder
from zluda_rr.errors import UserError

__all__ = ["emulated_environment", "run_emulated"]

_PATH = "LD_LIBRARY_PATH"
# hip-python looks into these before it asks the loader (rocm.bindings.util.paths).
_SHADOWING = ("ROCM_PATH", "ROCM_HOME")


def emulated_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which HIP programs find the emulated library first."""
    folder = str(library_folder())
    found = {name: value for name, value in environ.items() if name not in _SHADOWING}
    rest = found.get(_PATH)
    return {**found, _PATH: f"{folder}{os.pathsep}{rest}" if rest else folder, "ROCM_PATH": folder}


def run_emulated(command: Sequence[str]) -> None:
    """Become the program; does not return. UserError where it cannot be started."""
    if not command:
        raise UserError("no program named; give it after --, as in: zluda-rr hip-emulated -- ./program")
    program = shutil.which(command[0])
    if program is None:
        raise UserError(f"{command[0]}: no such program")
    environment = emulated_environment(os.environ)
    try:
        os.execve(program, list(command), environment)
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}") from error
