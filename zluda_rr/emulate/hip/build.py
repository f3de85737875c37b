"""Builds the emulated `libamdhip64.so` and the `libhiprtc.so` beside it, once for each state of its sources."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zluda_rr.atomic import replace_file
from zluda_rr.errors import UserError
from zluda_rr.toolchain import c_compiler, cache_dir, content_key

__all__ = ["LIBRARIES", "build", "library_folder"]

LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libhiprtc.so", "libhiprtc.so.7")
"""Names in the folder; those without a number are links, as in ROCm."""
_NATIVE = Path(__file__).with_name("native")
_ROOT = Path(__file__).resolve().parents[3]
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-pthread")
_HIPRTC = "hiprtc.c"


def library_folder() -> Path:
    """The folder with the libraries, compiled into the cache at need. UserError without a compiler."""
    command = c_compiler("the emulated HIP library")
    inputs = [part for path in sorted(_NATIVE.iterdir()) for part in (path.name.encode(), path.read_bytes())]
    places = (sys.executable, str(_ROOT))
    key = content_key("hip", *command[1:], *_FLAGS, *places, Path(__file__).read_bytes(), *inputs)
    folder = cache_dir() / "hip" / key[:16]
    if not all((folder / name).exists() for name in LIBRARIES):
        try:
            build(folder, command, ("-s",))
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; choose another folder with ZLUDA_RR_CACHE_DIR") from error
    return folder


def build(folder: Path, command: Sequence[str], extra: Sequence[str] = ()) -> None:
    """Compile both libraries into `folder`. UserError with the compiler's first error."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(path for path in _NATIVE.glob("*.c") if path.name != _HIPRTC)
    places = (f'-DZRR_HIP_PYTHON="{sys.executable}"', f'-DZRR_HIP_ROOT="{_ROOT}"')
    with tempfile.TemporaryDirectory() as work:
        for name, files in ((LIBRARIES[1], sources), (LIBRARIES[3], [_NATIVE / _HIPRTC])):
            target = Path(work) / name
            link = ("-shared", f"-Wl,-soname,{name}", "-Wl,-z,now")
            _run([*command, *_FLAGS, *extra, *places, *link, *map(str, files), "-o", str(target)])
            replace_file(folder / name, target.read_bytes(), mode=0o755)
    for name, of in ((LIBRARIES[0], LIBRARIES[1]), (LIBRARIES[2], LIBRARIES[3])):
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(of)
        os.replace(temporary, folder / name)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise UserError(f"emulated HIP library: {lines[0].strip() if lines else f'exit status {done.returncode}'}")
