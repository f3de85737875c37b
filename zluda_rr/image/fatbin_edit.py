"""A fatbin with one PTX text changed: which entry a loader takes, and the same fatbin with another text in its place.

Whatever is not asked for stays byte for byte: other entries, their order, the changed entry's name and options. Rules
and sources: docs/containers.md, "What a loader takes".
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, cast

from zluda_rr.image.fatbin import (
    HEADER,
    KIND_CONCAT,
    KIND_ELF,
    KIND_PTX,
    MAGIC,
    Extent,
    FatbinEntry,
    FatbinText,
    concatenated_items,
    entries_of,
    entry_content,
    fatbin_at,
    fatbin_texts,
    unpacked_header,
)
from zluda_rr.image.model import Container, PtxImage, Skipped, image_of, one_line
from zluda_rr.image.source import Source, open_source
from zluda_rr.image.unpack import MAX_MODULE_BYTES, Budget

_TARGET = re.compile(r"sm_(\d+)([af]?)")


class Loader(StrEnum):
    """Who loads a fatbin."""

    ZLUDA = "zluda"
    NVIDIA = "nvptx"


@dataclass(frozen=True, slots=True)
class Fatbin:
    """A whole fatbin in memory, nothing cut off."""

    source: Source
    extent: Extent

    @classmethod
    def of(cls, data: bytes) -> Fatbin | None:
        """The fatbin that `data` starts with; None where it is none or is cut off."""
        source = Source.of(data)
        extent = fatbin_at(source, 0, len(data))
        return None if extent is None or extent.missing else cls(source, extent)

    def texts(self) -> Iterator[FatbinText]:
        """PTX in the order of the entries."""
        found = fatbin_texts(self.source, self.extent, self._budget())
        return (item for item in found if isinstance(item, FatbinText))

    def entries(self) -> tuple[FatbinEntry, ...]:
        """Every entry up to the first damaged one."""
        found = entries_of(self.source, self.extent, self._budget())
        return tuple(item for item in found if isinstance(item, FatbinEntry))

    def _budget(self) -> Budget:
        return Budget("fatbin", bytes_left=512 << 20)

    def chosen(self, loader: Loader, reads: Callable[[FatbinText], bool]) -> FatbinText | None:
        """The PTX that `loader` takes; `reads` says whether its parser takes a text.

        ZLUDA: the last that it reads; it passes over concatenated entries, whose items count only where there is no
        other. NVIDIA's driver: the newest architecture (no device is known here), of two with the same the later.
        """
        texts = list(self.texts())
        if loader is Loader.ZLUDA:
            plain = [text for text in texts if text.item == 0]
            return next((text for text in reversed(plain or texts) if reads(text)), None)
        return max(enumerate(texts), key=lambda item: (_newness(item[1].target), item[0]), default=(0, None))[1]

    def replaced(self, chosen: FatbinText, text: str, loader: Loader) -> tuple[bytes, str]:
        """The fatbin with `text` in place of `chosen`, and which entry `loader` may take before it, empty for none.

        NVIDIA's driver takes machine code before PTX: entries for the same or a newer architecture are left out if
        `text` has all their kernels. Every device that could run them can run the text.
        """
        if loader is Loader.ZLUDA:
            return self.with_text(chosen, text), ""
        kernels = image_of(text, "", Container.FATBIN, chosen.compression).entries
        gone, first = self._superseded(chosen, kernels)
        return self.with_text(chosen, text, without=gone), first

    def with_text(self, chosen: FatbinText, text: str, *, without: Sequence[FatbinEntry] = ()) -> bytes:
        """The fatbin with `text`, uncompressed, as the entry `chosen`, and without the entries `without`.

        A concatenated entry gives way to one entry for each of its items, uncompressed.
        """
        gone = {entry.start for entry in without}
        parts: list[bytes] = []
        position = self.extent.first
        for entry in self.entries():
            if entry.start == chosen.entry.start:
                parts.append(self._changed(entry, chosen, text))
            elif entry.start not in gone:
                parts.append(self.source.read(entry.start, entry.end - entry.start))
            position = entry.end
        parts.append(self.source.read(position, self.extent.end - position))  # padding, or what nobody can read
        body = b"".join(parts)
        head = bytearray(self.source.read(self.extent.start, self.extent.first - self.extent.start))
        struct.pack_into("<Q", head, HEADER.size - 8, len(body))
        return bytes(head) + body

    def _changed(self, entry: FatbinEntry, chosen: FatbinText, text: str) -> bytes:
        if entry.fields.kind != KIND_CONCAT:
            return _plain_entry(self.source.read(entry.start, entry.body - entry.start), text.encode())
        content = entry_content(self.source, entry)
        parts = []
        for item in concatenated_items(self.source, entry, content, self._budget()):
            if not isinstance(item, Skipped):
                new = text.encode() if item.number == chosen.item else item.content
                parts.append(_plain_entry(item.header, new, is_text=item.fields.kind == KIND_PTX))
        return b"".join(parts)

    def _superseded(self, chosen: FatbinText, kernels: Sequence[str]) -> tuple[tuple[FatbinEntry, ...], str]:
        """Machine code that may go, and one that stays before `chosen`; where one stays, all do."""
        found = []
        for entry in self.entries():
            if entry.fields.kind == KIND_ELF and _newness(entry.fields.target)[0] >= _newness(chosen.target)[0]:
                names = self._kernels(entry)
                if names is None or not set(names) <= set(kernels):
                    return (), f"{entry.place}, machine code for {entry.fields.target}"
                found.append(entry)
        return tuple(found), ""

    def _kernels(self, entry: FatbinEntry) -> list[str] | None:
        """Names that a cubin defines for others, None: it cannot be read."""
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection

        try:
            elf = ELFFile(cast(IO[bytes], io.BytesIO(entry_content(self.source, entry))))
            tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
            symbols = [symbol for table in tables for symbol in table.iter_symbols()]
        except Exception:
            # pyelftools raises whatever a field it trusted leads to; the entry then stays.
            return None
        found = [
            symbol.name
            for symbol in symbols
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_info"]["bind"] != "STB_LOCAL"
        ]
        return found or None


def _newness(target: str) -> tuple[int, int]:
    match = _TARGET.fullmatch(target)
    return (int(match[1]), {"a": 2, "f": 1, "": 0}[match[2]]) if match else (0, 0)


def _plain_entry(header: bytes, content: bytes, *, is_text: bool = True) -> bytes:
    """An uncompressed entry: `header` with the sizes of `content`, padded as fatbinary does."""
    padded = content.rstrip(b"\0") + b"\0" if is_text else content
    padded += bytes(-len(padded) % 8)
    version = re.search(rb"^\s*\.version\s+(\d+)\.(\d+)", content, re.M) if is_text else None
    number = (int(version[1]), int(version[2])) if version else None
    return unpacked_header(header, len(padded), number) + padded


def read_fatbin(path: Path) -> Fatbin | None:
    """The fatbin that a file is; None for any other, and for one cut off or larger than MAX_MODULE_BYTES."""
    try:
        with open_source(path) as source:
            whole = source.size <= MAX_MODULE_BYTES and source.read(0, len(MAGIC)) == MAGIC
            return Fatbin.of(source.read(0, source.size)) if whole else None
    except OSError:
        return None


def entry_image(entry: FatbinText, path: Path) -> PtxImage:
    """The module of an entry of the fatbin `path`."""
    return image_of(entry.text, f"{one_line(path)}: {entry.place}", Container.FATBIN, entry.compression)
