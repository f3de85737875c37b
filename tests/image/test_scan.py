"""What a search of a folder reads: of what holds no PTX, next to nothing."""

import sys
from pathlib import Path

import pytest

from tests.image.samples import SMALL_PTX
from tests.image.test_damaged import entry, fatbin
from zluda_rr.image import Scan, Skip, Skipped, contents, unpack
from zluda_rr.image.scan import HEAD_BYTES, MAX_UNKNOWN_BYTES, Found
from zluda_rr.image.source import Source


def scanned(data: bytes) -> tuple[list[Found], int]:
    """Items of a file of a folder, and how many bytes were read for them."""
    read = [0]

    def pread(start: int, nbytes: int) -> bytes:
        read[0] += nbytes
        return data[start : start + nbytes]

    items = list(Scan(many=True).source(Source(len(data), ((0, len(data)),), pread), Path("file")))
    return items, read[0]


JSON = b'{"name": "texture", "version": 9.0},\n' * (1 << 17)
COMMENTS = b"// .version 9.0 of the notes\n/* and\nmore */\n"


@pytest.mark.parametrize(
    ("data", "kind", "most"),
    [
        (JSON, Skip.ORDINARY, HEAD_BYTES),
        (COMMENTS * 10 + JSON, Skip.ORDINARY, HEAD_BYTES),
        (COMMENTS * 9000 + b"no PTX\n" * 100, Skip.ORDINARY, HEAD_BYTES + len(COMMENTS) * 9000 + 700),
        (b"PAK\0" + bytes(range(1, 256)) * (MAX_UNKNOWN_BYTES // 255 + 1), Skip.LARGE, HEAD_BYTES),
        (b"", Skip.ORDINARY, 0),
    ],
    ids=["JSON", "JSON behind comments", "comments", "a large file of resources", "nothing"],
)
def test_what_holds_no_ptx_costs_its_head(data: bytes, kind: Skip, most: int) -> None:
    (item,), read = scanned(data)
    assert isinstance(item, Skipped)
    assert item.kind is kind
    assert read <= most


def test_ptx_behind_many_comments_is_found() -> None:
    (item,), _ = scanned(COMMENTS * 9000 + SMALL_PTX.encode())
    assert not isinstance(item, Skipped)
    assert item.entries == ("small",)


def test_machine_code_is_not_read() -> None:
    machine = entry(bytes(8 << 20), kind=2)
    items, read = scanned(b"\x7fELF" + bytes(60) + fatbin(machine, entry(), machine))
    assert [isinstance(item, Skipped) for item in items] == [True, False, True]
    assert read < 1 << 20


def test_a_bound_ends_one_file_and_not_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.fatbin").write_bytes(fatbin(entry(), entry(b"", kind=2) * (unpack.MAX_ENTRIES + 1)))
    (tmp_path / "b.ptx").write_text(SMALL_PTX)
    found = contents(tmp_path)
    assert [Path(m.origin.split(": ")[0]).name for m in found.modules] == ["a.fatbin", "b.ptx"]
    (large,) = (item for item in found.skipped if item.kind is Skip.LARGE)
    assert "more than 100000 entries" in large.reason


def test_texts_that_nobody_asked_for_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["zluda_rr.image.contents"], "MAX_KEPT_BYTES", 1000)
    for number in range(5):
        (tmp_path / f"{number}.ptx").write_text(SMALL_PTX.replace("small(", f"small{number}("))
    found = contents(tmp_path, {"small3"})
    assert [bool(m.text) for m in found.modules] == [True, True, False, True, False]
    assert len({m.sha256 for m in found.modules}) == 5
    assert all(m.text_bytes == len(SMALL_PTX) + 1 for m in found.modules)
