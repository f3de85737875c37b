"""Builds the C library, with the `ziglang` wheel's compiler where it is installed, else the system's `cc`."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from zluda_rr.atomic import replace_file
from zluda_rr.errors import UserError
from zluda_rr.toolchain import c_compiler, cache_dir, content_key

from .options import NATIVE

WARNINGS = ("-Wall", "-Wextra", "-Werror")
_FLAGS = ("-std=c11", "-Os", "-fPIC", "-fvisibility=hidden", *WARNINGS)
REAL_LIBRARY = "libzluda_rr_real.so"
"""The name under which the proxy needs the library it stands before, in its own folder."""


class Library(StrEnum):
    """The two ways to load the hook."""

    PRELOAD = "libzluda_rr.so"
    PROXY = "libcuda.so.1"


def compiler() -> list[str]:
    """The command of a C compiler. UserError where there is none."""
    return c_compiler("the hook library")


def sources() -> tuple[Path, ...]:
    """The C files, in a fixed order."""
    return tuple(sorted(NATIVE.glob("*.c")))


def link_flags(library: Library) -> list[str]:
    """What a library is linked with, apart from the proxy's need of the real one."""
    script = "libzluda_rr.map" if library is Library.PRELOAD else "libcuda.map"
    flags = ["-shared", f"-Wl,--version-script={NATIVE / script}", f"-Wl,-soname,{library}", "-Wl,-z,now"]
    return flags if library is Library.PRELOAD else [*flags, "-DZRR_PROXY"]


def build(library: Library, output: Path, command: Sequence[str], extra: Sequence[str] = ()) -> None:
    """Compile and link one library into `output`. UserError with the compiler's first error."""
    with tempfile.TemporaryDirectory() as work:
        needed: list[str] = []
        if library is Library.PROXY:
            stub = Path(work) / REAL_LIBRARY
            empty = Path(work) / "empty.c"
            empty.write_text("extern int zluda_rr_nothing;\n")
            _run([*command, "-shared", "-fPIC", f"-Wl,-soname,{REAL_LIBRARY}", str(empty), "-o", str(stub)])
            needed = ["-Wl,--no-as-needed", str(stub), "-Wl,-rpath,$ORIGIN"]
        target = Path(work) / "library"
        files = [str(path) for path in sources()]
        _run([*command, *_FLAGS, *extra, *link_flags(library), *files, *needed, "-ldl", "-o", str(target)])
        _publish(target, output)


def _publish(built: Path, output: Path) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        data = built.read_bytes()
        replace_file(output, data, mode=0o755)
        replace_file(_digest_of(output), hashlib.sha256(data).hexdigest().encode())
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}; make room or set ZLUDA_RR_CACHE_DIR") from error


def _digest_of(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")


def _is_sound(library: Path) -> bool:
    """Whether a built library is whole: a full disk or a crash can leave a file without contents."""
    try:
        return hashlib.sha256(library.read_bytes()).hexdigest() == _digest_of(library).read_text()
    except (OSError, ValueError):
        return False


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise UserError(f"hook library: {lines[0].strip() if lines else f'exit status {done.returncode}'}")


def library_path(library: Library = Library.PRELOAD) -> Path:
    """The built library: the one a wheel carries, else one in the cache, compiled when it is missing or damaged."""
    carried = Path(__file__).parent.parent / "_data" / "lib" / library
    if carried.is_file():
        return carried
    command = compiler()
    inputs = [path.read_bytes() for path in sorted(NATIVE.iterdir())]
    key = content_key("hook", library, *command[1:], *_FLAGS, Path(__file__).read_bytes(), *inputs)
    output = cache_dir() / "lib" / key[:16] / library
    if not _is_sound(output):
        build(library, output, command, ["-s"])
    return output
