"""NVIDIA fat binaries: header, entries, concatenated entries. Field offsets and sources: docs/containers.md.

A fatbin is a 16-byte header and a run of entries, each a header of at least 64 bytes followed by its payload. Sizes
are bytes, all integers little endian. Nothing here trusts a size field: what does not fit is a `Skipped`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from zluda_rr.image.model import Compression, Skipped, looks_like_ptx
from zluda_rr.image.unpack import Budget, UnpackError, unpack

MAGIC = struct.pack("<I", 0xBA55ED50)
_VERSION = 1

# magic u32, version u16, header bytes u16, bytes that follow the header u64
_HEADER = struct.Struct("<IHHQ")
# kind u16, version u16, header bytes u32, payload bytes u64, compressed bytes u32, options offset u32, minor u16,
# major u16, arch u32, name offset u32, name bytes u32, flags u64, zero u64, uncompressed bytes u64
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_TABLE = struct.Struct("<II")

_KIND_PTX, _KIND_ELF, _KIND_NVVM, _KIND_CONCAT = 0x1, 0x2, 0x8, 0x100
_KIND_NAMES = {
    _KIND_ELF: "machine code (cubin)",
    0x10: "relocatable machine code",
    0x40: "index or compiler data",
    _KIND_NVVM: "NVVM/LTO intermediate code",
}
_LZ4, _ZSTD = 0x2000, 0x8000
_ARCH_SUFFIX = {0x100000: "a", 0x200000: "f"}


@dataclass(frozen=True, slots=True)
class FatbinText:
    """The PTX of one entry. `place` is ``entry 2``, or ``entry 2.1`` inside a concatenated entry."""

    place: str
    compression: Compression
    text: str


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a fatbin lies in a file: [start, end) with the entries from `first` on; `missing` bytes are cut off."""

    start: int
    first: int
    end: int
    missing: int


@dataclass(frozen=True, slots=True)
class _Entry:
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
        return f"sm_{self.arch}" + "".join(s for flag, s in _ARCH_SUFFIX.items() if self.flags & flag)


def fatbin_at(data: memoryview, start: int, limit: int) -> Extent | None:
    """The fatbin whose magic number is at `start`, cut off at `limit`; None when the bytes are no fatbin header."""
    if start + _HEADER.size > limit:
        return None
    magic, version, header, nbytes = _HEADER.unpack_from(data, start)
    if magic != 0xBA55ED50 or version != _VERSION or not _HEADER.size <= header <= 4096 or start + header > limit:
        return None
    end = start + header + nbytes
    return Extent(start, start + header, min(end, limit), max(0, end - limit))


def fatbin_texts(data: memoryview, extent: Extent, budget: Budget) -> Iterator[FatbinText | Skipped]:
    """PTX of every entry that has some, and a `Skipped` for each other; its origin is the place, ``entry 2``."""
    if extent.missing:
        yield Skipped("header", f"the fatbin claims {extent.missing} bytes more than there are")
    position, number = extent.first, 0
    while position < extent.end:
        number += 1
        budget.entry()
        place = f"entry {number}"
        if extent.end - position < _ENTRY.size:
            # nvcc ends a fatbin with its last entry, linkers may pad it with zeros.
            if any(data[position : extent.end]):
                yield Skipped(place, f"{extent.end - position} bytes are left, an entry header has {_ENTRY.size}")
            return
        entry = _entry_at(data, position)
        body = position + entry.header_bytes
        if entry.header_bytes < _ENTRY.size or entry.payload_bytes > extent.end - body:
            what = f"header {entry.header_bytes}, payload {entry.payload_bytes}"
            yield Skipped(place, f"its sizes ({what}) do not fit the {extent.end - position} bytes left")
            return
        header = data[position:body]
        yield from _texts_of(entry, header, data[body : body + entry.payload_bytes], place, budget)
        position = body + entry.payload_bytes


def _entry_at(data: memoryview, position: int) -> _Entry:
    f = _ENTRY.unpack_from(data, position)
    return _Entry(f[0], f[2], f[3], f[4], f[5], f[8], f[9], f[10], f[11], f[13])


def _texts_of(
    entry: _Entry, header: memoryview, payload: memoryview, place: str, budget: Budget
) -> Iterator[FatbinText | Skipped]:
    if entry.kind not in (_KIND_PTX, _KIND_CONCAT):
        what = _KIND_NAMES.get(entry.kind, f"unknown kind {entry.kind:#x}")
        yield Skipped(place, f"{what} for {entry.target}, no PTX")
        return
    try:
        compression = _compression(entry)
        content = _content(entry, payload, compression)
        budget.unpacked(len(content))
        if entry.kind == _KIND_PTX:
            yield FatbinText(place, compression, _ptx_text(content))
            return
    except UnpackError as error:
        yield Skipped(place, str(error))
        return
    yield from _concatenated(header, memoryview(content), compression, place, budget)


def _compression(entry: _Entry) -> Compression:
    if entry.flags & _LZ4 and entry.flags & _ZSTD:
        raise UnpackError("flags name both LZ4 and zstd")
    if entry.flags & _LZ4:
        return Compression.LZ4
    return Compression.ZSTD if entry.flags & _ZSTD else Compression.NONE


def _content(entry: _Entry, payload: memoryview, compression: Compression) -> bytes:
    if compression is Compression.NONE:
        return unpack(payload, compression, len(payload))
    if not 0 < entry.compressed_bytes <= len(payload):
        raise UnpackError(f"claims {entry.compressed_bytes} compressed bytes in a payload of {len(payload)}")
    return unpack(payload[: entry.compressed_bytes], compression, entry.uncompressed_bytes)


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


def _concatenated(
    header: memoryview, content: memoryview, compression: Compression, place: str, budget: Budget
) -> Iterator[FatbinText | Skipped]:
    """Entries that share one compressed payload (``fatbinary --concat`` of CUDA 13.5).

    Behind the 64 bytes of the entry's header lies the table: count u32, bytes of the table u32, then one entry header
    per item, whose "header bytes" is the offset of its content in the unpacked payload and "payload bytes" its length.
    """
    if len(header) < _ENTRY.size + _TABLE.size:
        yield Skipped(place, "a concatenated entry without its table")
        return
    table = header[_ENTRY.size :]
    count, table_bytes = _TABLE.unpack_from(table)
    if table_bytes > len(table):
        yield Skipped(place, f"its table claims {table_bytes} bytes, the header has {len(table)}")
        return
    position = _TABLE.size
    for number in range(1, count + 1):
        budget.entry()
        inner = f"{place}.{number}"
        if table_bytes - position < _ENTRY.size:
            yield Skipped(inner, f"the table of {count} items ends here")
            return
        item = _entry_at(table, position)
        start, nbytes = item.header_bytes, item.payload_bytes
        if start + nbytes > len(content):
            yield Skipped(inner, f"claims bytes {start} to {start + nbytes} of {len(content)}")
        elif item.kind == _KIND_PTX:
            try:
                budget.unpacked(nbytes)
                yield FatbinText(inner, compression, _ptx_text(bytes(content[start : start + nbytes])))
            except UnpackError as error:
                yield Skipped(inner, str(error))
        else:
            what = _KIND_NAMES.get(item.kind, f"unknown kind {item.kind:#x}")
            yield Skipped(inner, f"{what} for {item.target}, no PTX")
        position += _item_bytes(table, position, item)


def _item_bytes(table: memoryview, position: int, item: _Entry) -> int:
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
