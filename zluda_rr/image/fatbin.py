"""NVIDIA fat binaries: header, entries, concatenated entries. Field offsets and sources: docs/containers.md.

A fatbin is a 16-byte header and a run of entries, each a header of at least 64 bytes followed by its payload. Sizes
are bytes, all integers little endian. Nothing here trusts a size field: what does not fit is a `Skipped`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from zluda_rr.image.model import Compression, Skip, Skipped, looks_like_ptx
from zluda_rr.image.source import Source
from zluda_rr.image.unpack import MAX_MODULE_BYTES, Budget, UnpackError, unpack

MAGIC = struct.pack("<I", 0xBA55ED50)
_VERSION = 1

# magic u32, version u16, header bytes u16, bytes that follow the header u64
HEADER = struct.Struct("<IHHQ")
"""Of a fatbin."""
# kind u16, version u16, header bytes u32, payload bytes u64, compressed bytes u32, options offset u32, minor u16,
# major u16, arch u32, name offset u32, name bytes u32, flags u64, zero u64, uncompressed bytes u64
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_TABLE = struct.Struct("<II")

KIND_PTX, KIND_ELF, _KIND_NVVM, KIND_CONCAT = 0x1, 0x2, 0x8, 0x100
_KIND_NAMES = {
    KIND_ELF: "machine code (cubin)",
    0x10: "relocatable machine code",
    0x40: "index or compiler data",
    _KIND_NVVM: "NVVM/LTO intermediate code",
}
_LZ4, _ZSTD = 0x2000, 0x8000
_ARCH_SUFFIX = {0x100000: "a", 0x200000: "f"}
_MAX_HEADER_BYTES = 16 << 20
"""The table of a concatenated entry is part of its header."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a fatbin lies in a file: [start, end) with the entries from `first` on; `missing` bytes are cut off."""

    start: int
    first: int
    end: int
    missing: int


@dataclass(frozen=True, slots=True)
class EntryFields:
    """The fields of an entry's header, or of an item's in the table of a concatenated one."""

    kind: int
    header_bytes: int
    payload_bytes: int
    compressed_bytes: int
    options_offset: int
    arch: int
    name_offset: int
    name_bytes: int
    flags: int
    uncompressed_bytes: int

    @property
    def target(self) -> str:
        """``sm_90a``."""
        return f"sm_{self.arch}" + "".join(s for flag, s in _ARCH_SUFFIX.items() if self.flags & flag)


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One entry: [start, end) with its header, the payload from `body` on. `place` is ``entry 2``."""

    place: str
    start: int
    body: int
    end: int
    fields: EntryFields


@dataclass(frozen=True, slots=True)
class FatbinText:
    """The PTX of one entry. `place` is ``entry 2``, or ``entry 2.1`` of `item` 1 inside a concatenated entry."""

    place: str
    compression: Compression
    text: str
    target: str
    """``sm_90a``, of the entry's header."""
    entry: FatbinEntry
    item: int = 0
    """Number in a concatenated entry, 0: the entry is no such."""


def fatbin_at(source: Source, start: int, limit: int) -> Extent | None:
    """The fatbin whose magic number is at `start`, cut off at `limit`; None when the bytes are no fatbin header."""
    if start + HEADER.size > limit:
        return None
    magic, version, header, nbytes = HEADER.unpack(source.read(start, HEADER.size))
    if magic != 0xBA55ED50 or version != _VERSION or not HEADER.size <= header <= 4096 or start + header > limit:
        return None
    end = start + header + nbytes
    return Extent(start, start + header, min(end, limit), max(0, end - limit))


def entries_of(source: Source, extent: Extent, budget: Budget) -> Iterator[FatbinEntry | Skipped]:
    """Every entry, and a `Skipped` where the walk ends because a header is damaged; its origin is the place."""
    position, number = extent.first, 0
    while position < extent.end:
        number += 1
        budget.entry()
        place, left = f"entry {number}", extent.end - position
        if left < _ENTRY.size:
            # nvcc ends a fatbin with its last entry, linkers may pad it with zeros.
            if any(source.read(position, left)):
                yield Skipped(place, f"{left} bytes are left, an entry header has {_ENTRY.size}", Skip.DAMAGED)
            return
        fields = fields_at(source.read(position, _ENTRY.size), 0)
        body = position + fields.header_bytes
        if not _ENTRY.size <= fields.header_bytes <= _MAX_HEADER_BYTES or fields.payload_bytes > extent.end - body:
            what = f"header {fields.header_bytes}, payload {fields.payload_bytes}"
            yield Skipped(place, f"its sizes ({what}) do not fit the {left} bytes left", Skip.DAMAGED)
            return
        yield FatbinEntry(place, position, body, body + fields.payload_bytes, fields)
        position = body + fields.payload_bytes


def fatbin_texts(source: Source, extent: Extent, budget: Budget) -> Iterator[FatbinText | Skipped]:
    """PTX of every entry that has some, and a `Skipped` for each other; its origin is the place, ``entry 2``."""
    if extent.missing:
        yield Skipped("header", f"the fatbin claims {extent.missing} bytes more than there are", Skip.DAMAGED)
    for entry in entries_of(source, extent, budget):
        if isinstance(entry, Skipped):
            yield entry
        else:
            yield from texts_of(source, entry, budget)


def fields_at(data: bytes, position: int) -> EntryFields:
    """The fields of the header at `position`."""
    f = _ENTRY.unpack_from(data, position)
    return EntryFields(f[0], f[2], f[3], f[4], f[5], f[8], f[9], f[10], f[11], f[13])


def unpacked_header(header: bytes, payload_bytes: int, version: tuple[int, int] | None) -> bytes:
    """The header of an entry, name and options kept, for an uncompressed payload; of PTX with another version."""
    f = list(_ENTRY.unpack_from(header))
    f[2], f[3], f[4], f[13] = len(header), payload_bytes, 0, 0
    f[11] &= ~(_LZ4 | _ZSTD)
    if version is not None:
        f[7], f[6] = version
    return _ENTRY.pack(*f) + header[_ENTRY.size :]


def texts_of(source: Source, entry: FatbinEntry, budget: Budget) -> Iterator[FatbinText | Skipped]:
    """PTX of one entry, of each item where it is concatenated."""
    fields = entry.fields
    if fields.kind not in (KIND_PTX, KIND_CONCAT):
        what = _KIND_NAMES.get(fields.kind, f"unknown kind {fields.kind:#x}")
        yield Skipped(entry.place, f"{what} for {fields.target}, no PTX")
        return
    try:
        content = entry_content(source, entry)
        budget.unpacked(len(content))
        compression = compression_of(fields)
        if fields.kind == KIND_PTX:
            yield FatbinText(entry.place, compression, _ptx_text(content), fields.target, entry)
            return
    except UnpackError as error:
        yield Skipped(entry.place, str(error), Skip.DAMAGED)
        return
    for item in concatenated_items(source, entry, content, budget):
        if isinstance(item, Skipped):
            yield item
        elif item.fields.kind != KIND_PTX:
            what = _KIND_NAMES.get(item.fields.kind, f"unknown kind {item.fields.kind:#x}")
            yield Skipped(item.place, f"{what} for {item.fields.target}, no PTX")
        else:
            try:
                budget.unpacked(len(item.content))
                text = _ptx_text(item.content)
                yield FatbinText(item.place, compression, text, item.fields.target, entry, item.number)
            except UnpackError as error:
                yield Skipped(item.place, str(error), Skip.DAMAGED)


def compression_of(entry: EntryFields) -> Compression:
    """Of the payload. Raises UnpackError."""
    if entry.flags & _LZ4 and entry.flags & _ZSTD:
        raise UnpackError("flags name both LZ4 and zstd")
    if entry.flags & _LZ4:
        return Compression.LZ4
    return Compression.ZSTD if entry.flags & _ZSTD else Compression.NONE


def entry_content(source: Source, entry: FatbinEntry) -> bytes:
    """The payload, decompressed. Raises UnpackError."""
    fields = entry.fields
    compression = compression_of(fields)
    if compression is Compression.NONE:
        if fields.payload_bytes > MAX_MODULE_BYTES:
            raise UnpackError(f"{fields.payload_bytes} bytes, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
        return source.read(entry.body, fields.payload_bytes)
    if not 0 < fields.compressed_bytes <= fields.payload_bytes:
        raise UnpackError(f"claims {fields.compressed_bytes} compressed bytes in a payload of {fields.payload_bytes}")
    if fields.compressed_bytes > MAX_MODULE_BYTES:
        raise UnpackError(f"{fields.compressed_bytes} bytes, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
    packed = source.read(entry.body, fields.compressed_bytes)
    return unpack(memoryview(packed), compression, fields.uncompressed_bytes)


def _ptx_text(content: bytes) -> str:
    try:
        text = content.rstrip(b"\0").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnpackError(f"byte {error.start} of the payload is no text; encrypted or damaged PTX") from error
    if "\0" in text:
        raise UnpackError(f"byte {text.index(chr(0))} of the payload is NUL; encrypted or damaged PTX")
    if not looks_like_ptx(text):
        raise UnpackError("the payload does not begin with .version; encrypted or damaged PTX")
    return text


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a concatenated entry. `header` is its part of the table, name and options included."""

    place: str
    number: int
    header: bytes
    fields: EntryFields
    content: bytes


def concatenated_items(source: Source, entry: FatbinEntry, content: bytes, budget: Budget) -> Iterator[Item | Skipped]:
    """Images that share one compressed payload (``fatbinary --concat`` of CUDA 13.5), unpacked to `content`.

    Behind the 64 bytes of the entry's header lies the table: count u32, bytes of the table u32, then one entry header
    per item, whose "header bytes" is the offset of its content in the unpacked payload and "payload bytes" its length.
    """
    place = entry.place
    table = source.read(entry.start + _ENTRY.size, entry.body - entry.start - _ENTRY.size)
    if len(table) < _TABLE.size:
        yield Skipped(place, "a concatenated entry without its table", Skip.DAMAGED)
        return
    count, table_bytes = _TABLE.unpack_from(table)
    if table_bytes > len(table):
        yield Skipped(place, f"its table claims {table_bytes} bytes, the header has {len(table)}", Skip.DAMAGED)
        return
    position = _TABLE.size
    for number in range(1, count + 1):
        budget.entry()
        inner = f"{place}.{number}"
        if table_bytes - position < _ENTRY.size:
            yield Skipped(inner, f"the table of {count} items ends here", Skip.DAMAGED)
            return
        fields = fields_at(table, position)
        start, nbytes = fields.header_bytes, fields.payload_bytes
        end = position + _item_bytes(table, position, fields)
        if start + nbytes > len(content):
            yield Skipped(inner, f"claims bytes {start} to {start + nbytes} of {len(content)}", Skip.DAMAGED)
        else:
            yield Item(inner, number, table[position:end], fields, content[start : start + nbytes])
        position = end


def _item_bytes(table: bytes, position: int, item: EntryFields) -> int:
    """Length of an item: 64, then name and options, each with a NUL and padded to 8 bytes."""
    end = _ENTRY.size
    if item.name_offset:
        end = max(end, item.name_offset + _padded(item.name_bytes))
    at = position + item.options_offset
    if item.options_offset and at + _TABLE.size <= len(table):
        offset, nbytes = _TABLE.unpack_from(table, at)
        end = max(end, offset + _padded(nbytes))
    return end


def _padded(nbytes: int) -> int:
    return (nbytes + 8) & ~7
