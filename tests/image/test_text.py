"""Reading PTX files and writing results: one-line errors, never half a file."""

import lzma
from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.image import read_ptx, shipped_module, write_atomically


def test_line_ends_survive(tmp_path: Path) -> None:
    path = tmp_path / "m.ptx"
    path.write_bytes(b".version 9.0\r\n.target sm_89\n")
    assert read_ptx(path) == ".version 9.0\r\n.target sm_89\n"


def test_xz_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "m.ptx.xz"
    path.write_bytes(lzma.compress(b".version 9.0\n"))
    assert read_ptx(path) == ".version 9.0\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\x7fELF\x02\x01\x01\x00", "NUL byte"),
        (b".version\xff", "not UTF-8"),
        (lzma.compress(b"x" * 999)[:-20], "broken xz"),
    ],
)
def test_bad_files_are_one_line_errors(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.ptx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_ptx(path)
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "none.ptx", tmp_path):
        with pytest.raises(UserError, match=str(path)):
            read_ptx(path)


def test_unknown_module_names_those_there_are() -> None:
    with pytest.raises(UserError, match="enc0"):
        shipped_module("nonsense")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "x").touch()
    with pytest.raises(UserError):
        write_atomically(target, b"data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_write_replaces_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
