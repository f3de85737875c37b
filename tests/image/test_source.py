"""Found in pieces is found in one; holes are left out; a file that shrinks is an error."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zluda_rr.image.source import _BLOCK, Finder, Source, open_source

NEEDLE = b"\x50\xed\x55\xba"


@given(
    places=st.lists(
        st.one_of(
            st.integers(0, 3 * _BLOCK),
            st.integers(-8, 8).map(lambda d: _BLOCK + d),
            st.integers(-8, 8).map(lambda d: 2 * _BLOCK + d),
        ),
        max_size=6,
    ),
    start=st.integers(0, 3 * _BLOCK),
    end=st.integers(0, 3 * _BLOCK + 64),
)
def test_searching_in_pieces(places: list[int], start: int, end: int) -> None:
    data = bytearray(3 * _BLOCK + 32)
    for place in places:
        data[place : place + 4] = NEEDLE
    source = Source.of(bytes(data))
    assert source.find(NEEDLE, start, end) == bytes(data).find(NEEDLE, start, min(end, len(data)))
    finder, found, at = Finder(source, NEEDLE), [], 0
    while (at := finder.at_or_after(at)) >= 0:
        found.append(at)
        assert finder.at_or_after(at) == at
        at += 1
    assert found == [i for i in sorted(set(places)) if data[i : i + 4] == NEEDLE]


def test_a_needle_across_a_block_is_missed_without_the_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    data = bytes(_BLOCK - 2) + NEEDLE + bytes(_BLOCK)
    assert Source.of(data).find(NEEDLE, 0) == _BLOCK - 2
    monkeypatch.setattr("zluda_rr.image.source._OVERLAP", 0)
    assert Source.of(data).find(NEEDLE, 0) == -1


def test_holes_are_not_read(tmp_path: Path) -> None:
    """A sparse file of 1 TiB: searched in no time, and what lies between its holes is found."""
    path = tmp_path / "sparse"
    place = (1 << 39) + 12345
    with path.open("wb") as stream:
        stream.seek(place)
        stream.write(NEEDLE)
        os.truncate(stream.fileno(), 1 << 40)
    start = time.process_time()
    with open_source(path) as source:
        assert source.size == 1 << 40
        if source.stored_bytes > 1 << 30:
            pytest.skip("this file system knows no holes")
        assert source.find(NEEDLE, 0) == place
        assert source.find(NEEDLE, place + 1) == -1
        assert source.read(1 << 38, 10) == bytes(10)
    assert time.process_time() - start < 1


def test_a_file_that_shrinks_is_an_error_and_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * _BLOCK))
    with open_source(path) as source:
        assert len(source.read(0, 1 << 30)) == 2 * _BLOCK
        os.truncate(path, 100)
        with pytest.raises(OSError, match="shorter"):
            source.find(NEEDLE, _BLOCK)


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none"):
        with pytest.raises(OSError, match=r"\w"), open_source(path):
            pass
