"""The library builds without a warning, with every compiler there is."""

import shutil
import sys
from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.hook import build
from zluda_rr.hook.build import Library, compiler
from zluda_rr.hook.options import NATIVE

# The language says nothing of function pointers in void pointers; POSIX does, and the code keeps to what it says.
_STRICT = ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wvla", "-Wpedantic"]


def compilers() -> list[list[str]]:
    found = [[path] for name in ("gcc", "clang") if (path := shutil.which(name))]
    return [*found, compiler()]


@pytest.mark.parametrize("library", Library)
@pytest.mark.parametrize("command", compilers(), ids=lambda c: Path(c[0]).name)
def test_no_warning(command: list[str], library: Library, tmp_path: Path) -> None:
    output = tmp_path / library
    build(library, output, command, ["-s", *_STRICT])
    assert output.stat().st_size < 64 << 10


def test_warnings_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "native"
    shutil.copytree(NATIVE, folder)
    (folder / "zz.c").write_text("static int unused(void) { return 1; }\n")
    monkeypatch.setattr(sys.modules["zluda_rr.hook.build"], "NATIVE", folder)
    with pytest.raises(UserError, match="unused"):
        build(Library.PRELOAD, tmp_path / "out.so", compiler())
    assert not (tmp_path / "out.so").exists()
