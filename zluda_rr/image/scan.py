"""The modules of one file or of a folder, one after the other: nothing is kept, and nothing large is read without need.

A file is PTX text (also xz-compressed), or binary. In a binary file fatbins are found by their magic number wherever
they lie, and PTX that is stored as a plain string by its first two directives; the section table only names the place.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image.fatbin import MAGIC, Extent, FatbinText, fatbin_at, fatbin_texts
from zluda_rr.image.model import (
    Compression,
    Container,
    PtxImage,
    Skip,
    Skipped,
    image_of,
    looks_like_ptx,
    one_line,
    starts_as_ptx,
)
from zluda_rr.image.sections import Section, container_of, sections_of
from zluda_rr.image.source import Finder, Source, open_source
from zluda_rr.image.text import decode_text
from zluda_rr.image.unpack import MAX_MODULE_BYTES, Budget, BudgetError, UnpackError, unpack_xz, xz_head

_XZ_MAGIC = b"\xfd7zXZ\x00"
_AR_MAGIC = b"!<arch>\n"
_VERSION = b".version"
_PLAIN_PTX = re.compile(rb"\.version[ \t]++\d++\.\d++[ \t\r]*+\n\s*+\.target[ \t]++sm_\d")
# The two directives are at most this far apart.
_PLAIN_BYTES = 1 << 10
# Comments of a compiler stand before .version; this many bytes are looked back for their start.
_LEADING_COMMENT_BYTES = 4096
_DEBUG_PTX = ".nv_debug_ptx_txt"
HEAD_BYTES = 1 << 16
"""A file's kind is told by these."""
MAX_UNKNOWN_BYTES = 16 << 20
"""Largest file of a folder that is searched although its first bytes are no container's; RR modules have under 3 MB."""

Found = PtxImage | Skipped


@dataclass(frozen=True, slots=True)
class Scan:
    """How files are read. `many`: one of a folder, where a file without PTX is an item and not an error.

    With `names`, a module whose text has none of them comes as a `Skipped` of the kind UNNAMED: a plain search,
    before anything else is done with the text.
    """

    many: bool = False
    names: tuple[str, ...] | None = None

    def path(self, path: Path) -> Iterator[Found]:
        """Modules of a file. Raises UserError, but not with `many`."""
        name = one_line(path)
        try:
            with open_source(path) as source:
                yield from self.source(source, path)
        except OSError as error:
            if not self.many:
                raise UserError(f"{name}: {error.strerror or error}; name a readable PTX file") from error
            yield Skipped(name, error.strerror or str(error), Skip.UNREADABLE)

    def source(self, source: Source, path: Path) -> Iterator[Found]:
        """Modules of a file's content; `path` stands in places and messages."""
        try:
            yield from _File(self, source, path).modules()
        except BudgetError as error:
            if not self.many:
                raise
            yield Skipped(one_line(path), str(error).removeprefix(f"{one_line(path)}: "), Skip.LARGE)
        except UserError as error:
            if not self.many:
                raise
            yield Skipped(one_line(path), str(error).removeprefix(f"{one_line(path)}: "), Skip.DAMAGED)

    def image(
        self, text: str, place: str, container: Container, compression: Compression, fatbin: Extent | None = None
    ) -> Found:
        """A module, or that no rule is for it."""
        if self.names is not None and not any(name in text for name in self.names):
            return Skipped(place, "no kernel of a rule", Skip.UNNAMED)
        where = (fatbin.start, fatbin.end) if fatbin is not None and not fatbin.missing else None
        return image_of(text, place, container, compression, where)


def files_below(root: Path) -> Iterator[Path]:
    """Regular files, each once however many links lead to it; os.walk follows no link to a directory."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            try:
                status = path.stat()
            except OSError:
                continue  # A dangling link, or one in a loop.
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield path


class _File:
    """One file, read once."""

    def __init__(self, scan: Scan, source: Source, path: Path) -> None:
        self.scan, self.source, self.path = scan, source, path
        self.name = one_line(path)
        self.budget = Budget(self.name)
        self.container = Container.BINARY
        self._sections: Sequence[Section] | None = None

    def modules(self) -> Iterator[Found]:
        """Modules of one file's bytes. Raises UserError for text that cannot be PTX (empty, not UTF-8)."""
        head = self.source.read(0, HEAD_BYTES)
        compression = Compression.NONE
        if head.startswith(_XZ_MAGIC):
            head = self._unpacked(head)
            compression = Compression.XZ
        self.container = container_of(head)
        known = self.container is not Container.BINARY or head.startswith(_AR_MAGIC)
        if not known and b"\0" not in head:
            yield self._text(head, compression)
        elif not known and self.scan.many and self.source.stored_bytes > MAX_UNKNOWN_BYTES:
            what = f"{self.source.size} bytes, and the first are no container's; name the file to have it searched"
            yield Skipped(self.name, what, Skip.LARGE)
        else:
            nothing = True
            for item in self._binary():
                nothing = False
                yield item
            if nothing and self.scan.many:
                yield Skipped(self.name, f"{self.container}, no PTX inside", Skip.ORDINARY)

    def _unpacked(self, head: bytes) -> bytes:
        """Of an xz file: its source becomes the content, unless that is ordinary text; the content's head."""
        try:
            size = self.source.size
            if size > MAX_MODULE_BYTES:
                raise UnpackError(f"{size} bytes of xz data, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
            start = xz_head(head, HEAD_BYTES)
            if self.scan.many and b"\0" not in start and starts_as_ptx(start) is False:
                return start
            data = unpack_xz(self.source.read(0, self.source.size))
        except UnpackError as error:
            raise UserError(f"{self.name}: {error}; fetch the file again") from error
        self.source = Source.of(data)
        return data[:HEAD_BYTES]

    def _text(self, head: bytes, compression: Compression) -> Found:
        if self.scan.many and (not head.strip() or starts_as_ptx(head) is False):
            return Skipped(self.name, "no PTX text", Skip.ORDINARY)
        size = self.source.size
        if size > MAX_MODULE_BYTES:
            raise BudgetError(f"{self.name}: {size} bytes of text, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
        data = self.source.read(0, size)
        if self.scan.many and starts_as_ptx(data) is not True:
            return Skipped(self.name, "no PTX text", Skip.ORDINARY)
        text = decode_text(data, self.path)
        self.budget.unpacked(len(data))
        return self.scan.image(text, self.name, Container.TEXT, compression)

    def _binary(self) -> Iterator[Found]:
        if self.container is Container.CUBIN:
            yield from self._cubin()
        position = 0
        for extent in self._fatbins():
            self.budget.entry()
            yield from self._strings(position, extent.start)
            alone = self.container is Container.FATBIN and extent.start == 0
            prefix = f"{self.name}: " + ("" if alone else f"{self._place(extent.start)}, ")
            for item in fatbin_texts(self.source, extent, self.budget):
                if isinstance(item, FatbinText):
                    yield self.scan.image(item.text, prefix + item.place, self.container, item.compression, extent)
                else:
                    yield Skipped(prefix + item.origin, item.reason, item.kind)
            position = extent.end
        yield from self._strings(position, self.source.size)

    def _fatbins(self) -> Iterator[Extent]:
        """Every fatbin, in order. One that claims more than the file has ends before the next."""
        magic = Finder(self.source, MAGIC)
        extent = self._fatbin_from(magic, 0)
        while extent is not None:
            following = self._fatbin_from(magic, extent.first if extent.missing else extent.end)
            if extent.missing and following is not None:
                cut = extent.end - following.start
                extent = Extent(extent.start, extent.first, following.start, extent.missing + cut)
            yield extent
            extent = following

    def _fatbin_from(self, magic: Finder, position: int) -> Extent | None:
        while (position := magic.at_or_after(position)) >= 0:
            extent = fatbin_at(self.source, position, self.source.size)
            if extent is not None:
                return extent
            position += 1
        return None

    def _sections_by_offset(self) -> Sequence[Section]:
        if self._sections is None:
            self._sections = sections_of(self.source, self.container)
        return self._sections

    def _place(self, offset: int) -> str:
        """``.nv_fatbin+0x40``, or the offset in the file where no section covers it."""
        sections = self._sections_by_offset()
        index = bisect.bisect_right(sections, offset, key=lambda s: s.offset) - 1
        if index >= 0 and offset < sections[index].offset + sections[index].nbytes:
            return f"{sections[index].name}+{offset - sections[index].offset:#x}"
        return f"offset {offset:#x}"

    def _cubin(self) -> Iterator[Found]:
        """PTX that ptxas keeps for debuggers (``-g``, ``-lineinfo``): the source lines, each ended by a NUL."""
        section = next((s for s in self._sections_by_offset() if s.name == _DEBUG_PTX), None)
        if section is None:
            yield Skipped(self.name, "machine code (cubin) without PTX; compile with -lineinfo or use the fatbin")
            return
        self.budget.entry()
        place = f"{self.name}: {_DEBUG_PTX}"
        if section.nbytes > MAX_MODULE_BYTES:
            what = f"{section.nbytes} bytes, over the bound of {MAX_MODULE_BYTES >> 20} MiB"
            yield Skipped(place, what, Skip.LARGE)
            return
        raw = self.source.read(section.offset, section.nbytes).rstrip(b"\0").replace(b"\0", b"\n") + b"\n"
        self.budget.unpacked(len(raw))
        text = raw.decode("utf-8", "replace")
        if looks_like_ptx(text) and "\ufffd" not in text:
            yield self.scan.image(text, place, Container.CUBIN, Compression.NONE)
        else:
            yield Skipped(place, "the section is no PTX text; encrypted or damaged", Skip.DAMAGED)

    def _strings(self, start: int, end: int) -> Iterator[Found]:
        """PTX stored as NUL-terminated strings in [start, end)."""
        position, texts = start, Finder(self.source, _VERSION, end)
        while (at := texts.at_or_after(position)) >= 0:
            head = _PLAIN_PTX.match(self.source.read(at, min(_PLAIN_BYTES, end - at)))
            if head is None:
                position = at + 1
                continue
            self.budget.entry()
            after = at + head.end()
            comment = min(_LEADING_COMMENT_BYTES, at - position)
            zero = self.source.read(at - comment, comment).rfind(b"\0")
            begin = at - comment + zero + 1 if zero >= 0 else at
            stop = self._end_of_string(after, min(end, at + MAX_MODULE_BYTES))
            position = stop if stop >= 0 else end
            yield self._string(at, begin, stop)

    def _end_of_string(self, start: int, end: int) -> int:
        """Where the NUL is, -1: nowhere."""
        step = 1 << 16
        while start < end:
            found = self.source.read(start, min(step, end - start)).find(b"\0")
            if found >= 0:
                return start + found
            start += step
            step = min(step * 2, 1 << 22)
        return -1

    def _string(self, at: int, begin: int, stop: int) -> Found:
        place = f"{self.name}: {self._place(at)}"
        if stop < 0:
            return Skipped(place, "a PTX string without an end", Skip.DAMAGED)
        self.budget.unpacked(stop - begin)
        try:
            text = self.source.read(begin, stop - begin).decode("utf-8")
        except UnicodeDecodeError:
            return Skipped(place, "a PTX string that is not UTF-8", Skip.DAMAGED)
        if not looks_like_ptx(text):
            return Skipped(place, "text that contains PTX, but does not begin with .version", Skip.DAMAGED)
        return self.scan.image(text, place, self.container, Compression.NONE)
