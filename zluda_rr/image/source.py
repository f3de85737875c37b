"""Bytes at random access, of a file or in memory. Searching reads a block at a time and leaves holes out, so that a
file of any size costs little memory; nothing is mapped, since a mapped file that is cut meanwhile kills the process."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image.model import one_line

_BLOCK = 1 << 18
_SMALL = 4096
"""So few bytes, between two fatbins say, are read alone."""
_OVERLAP = 64
"""Bytes that a block shares with the next: the longest needle."""

Range = tuple[int, int]


class Source:
    """`size` bytes; `ranges` are the parts [low, high) that are stored, the rest are zeros."""

    __slots__ = ("_base", "_block", "_pread", "ranges", "size")

    def __init__(self, size: int, ranges: tuple[Range, ...], pread: Callable[[int, int], bytes]) -> None:
        self.size = size
        self.ranges = ranges
        self._pread = pread
        self._base, self._block = -1, b""

    @classmethod
    def of(cls, data: bytes) -> Source:
        """Bytes in memory."""
        return cls(len(data), ((0, len(data)),), lambda start, nbytes: data[start : start + nbytes])

    @property
    def stored_bytes(self) -> int:
        """Without the holes."""
        return sum(high - low for low, high in self.ranges)

    def read(self, start: int, nbytes: int) -> bytes:
        """Bytes [start, start + nbytes), cut at the end. Raises OSError where a file cannot be read or got shorter."""
        nbytes = max(0, min(nbytes, self.size - start))
        at = start - self._base
        if self._base >= 0 and at >= 0 and at + nbytes <= len(self._block):
            return self._block[at : at + nbytes]
        data = self._pread(start, nbytes)
        if len(data) != nbytes:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        return data

    def find(self, needle: bytes, start: int, end: int | None = None) -> int:
        """First place of `needle`, at most 64 bytes and none of them 0, in [start, end); -1: none."""
        limit = self.size if end is None else min(end, self.size)
        for low, high in self.ranges:
            position, stop = max(start, low), min(high, limit)
            if 0 < stop - position <= _SMALL:
                found = self.read(position, stop - position).find(needle)
                if found >= 0:
                    return position + found
                continue
            while position + len(needle) <= stop:
                base = position - position % _BLOCK
                found = self._block_at(base).find(needle, position - base, min(stop - base, _BLOCK + len(needle) - 1))
                if found >= 0:
                    return base + found
                position = base + _BLOCK
        return -1

    def _block_at(self, base: int) -> bytes:
        if base != self._base:
            block = self.read(base, _BLOCK + _OVERLAP)
            self._base, self._block = base, block
        return self._block


class Finder:
    """One needle's places before `end`, in ascending order; asking again for one that is known costs nothing."""

    __slots__ = ("_end", "_known", "_needle", "_source")

    def __init__(self, source: Source, needle: bytes, end: int | None = None) -> None:
        self._source, self._needle, self._end = source, needle, end
        self._known = -2  # not looked yet; -1: none left

    def at_or_after(self, position: int) -> int:
        """The first place from `position` on, -1: none."""
        if self._known == -2 or 0 <= self._known < position:
            self._known = self._source.find(self._needle, position, self._end)
        return self._known


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The bytes of a regular file. Raises OSError for anything else."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        ranges = _stored(handle, about)
        yield Source(about.st_size, ranges, lambda start, nbytes: os.pread(handle, nbytes, start))
    finally:
        os.close(handle)


def read_range(path: Path, start: int, end: int) -> bytes:
    """Bytes [start, end) of a file. Raises UserError where they cannot be read."""
    try:
        with open_source(path) as source:
            return source.read(start, end - start)
    except OSError as error:
        raise UserError(f"{one_line(path)}: {error.strerror or error}; name a readable file") from error


def _stored(handle: int, about: os.stat_result) -> tuple[Range, ...]:
    """Ranges with data; the whole file unless it is sparse."""
    whole = ((0, about.st_size),)
    if about.st_blocks * 512 >= about.st_size:
        return whole
    found: list[Range] = []
    position = 0
    try:
        while position < about.st_size:
            low = os.lseek(handle, position, os.SEEK_DATA)
            high = os.lseek(handle, low, os.SEEK_HOLE)
            if found and found[-1][1] == low:
                found[-1] = (found[-1][0], high)
            else:
                found.append((low, high))
            position = high
    except OSError as error:
        # ENXIO: no data behind `position`. Other file systems do not know holes.
        if error.errno != errno.ENXIO:
            return whole
    return tuple((low, min(high, about.st_size)) for low, high in found)
