"""Decompression with a bound that holds whatever the size fields say."""

import lzma
from dataclasses import dataclass

import lz4.block
import zstandard

from zluda_rr.errors import UserError
from zluda_rr.image.model import Compression

MAX_FILE_BYTES = 1 << 30
"""Largest file that is read; the largest CUDA libraries are about half of it."""
MAX_MODULE_BYTES = 64 << 20
"""Largest single module after decompression, ZLUDA's own bound (dark_api/src/fatbin.rs)."""
MAX_TOTAL_BYTES = 4 << 30
"""All modules of one file together; they are unpacked one after the other."""
MAX_ENTRIES = 100_000
"""Entries looked at in one file."""

# A frame's window is allocated before its first byte is known; fatbinary's frames stay below their content size.
_MAX_WINDOW_BYTES = 128 << 20
_XZ_MEMORY_BYTES = 256 << 20


class UnpackError(Exception):
    """Data that cannot be unpacked within the bounds; the message is a phrase without the place."""


class BudgetError(UserError):
    """One file would take more work or memory than it may."""


@dataclass(slots=True)
class Budget:
    """What one file may still unpack. Raises BudgetError when it is spent, so that work is bounded."""

    place: str
    bytes_left: int = MAX_TOTAL_BYTES
    entries_left: int = MAX_ENTRIES

    def entry(self) -> None:
        """Count one entry."""
        self.entries_left -= 1
        if self.entries_left < 0:
            raise BudgetError(f"{self.place}: more than {MAX_ENTRIES} entries; name a smaller file")

    def unpacked(self, nbytes: int) -> None:
        """Count `nbytes` that were unpacked or copied out."""
        self.bytes_left -= nbytes
        if self.bytes_left < 0:
            raise BudgetError(f"{self.place}: more than {MAX_TOTAL_BYTES >> 20} MiB of PTX; name a smaller file")


def unpack(data: memoryview, compression: Compression, nbytes: int) -> bytes:
    """`data` decompressed to exactly `nbytes` bytes. Raises UnpackError for anything else."""
    if nbytes > MAX_MODULE_BYTES:
        raise UnpackError(f"claims {nbytes} bytes, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
    if compression is Compression.LZ4:
        return _exactly(_lz4(data, nbytes), nbytes)
    if compression is Compression.ZSTD:
        return _exactly(_zstd(data, nbytes), nbytes)
    return bytes(data)


def xz_head(data: bytes, nbytes: int) -> bytes:
    """The first `nbytes` of the content, or fewer where `data` is only a file's start. Raises UnpackError."""
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    try:
        return decoder.decompress(data, nbytes)
    except lzma.LZMAError as error:
        raise UnpackError(f"broken xz data ({error})") from error


def unpack_xz(data: bytes) -> bytes:
    """An ``.xz`` file of at most MAX_MODULE_BYTES. Raises UnpackError."""
    result = bytearray()
    while data:
        decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
        try:
            result += decoder.decompress(data, MAX_MODULE_BYTES + 1 - len(result))
        except lzma.LZMAError as error:
            raise UnpackError(f"broken xz data ({error})") from error
        if len(result) > MAX_MODULE_BYTES:
            raise UnpackError(f"broken xz data (more than {MAX_MODULE_BYTES >> 20} MiB)")
        if not decoder.eof:
            raise UnpackError("broken xz data (it ends too early)")
        # Streams may follow one another, with zero bytes between them (xz file format, section 2).
        data = decoder.unused_data.lstrip(b"\0")
    return bytes(result)


def _exactly(result: bytes, nbytes: int) -> bytes:
    if len(result) != nbytes:
        more = "more" if len(result) > nbytes else f"only {len(result)}"
        raise UnpackError(f"claims {nbytes} bytes, but unpacks to {more}")
    return result


def _lz4(data: memoryview, nbytes: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(data, uncompressed_size=nbytes))
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError) as error:
        raise UnpackError(f"broken LZ4 data for {nbytes} bytes") from error


def _zstd(data: memoryview, nbytes: int) -> bytes:
    decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decoder.stream_reader(data) as reader:
            # One byte more than claimed tells a longer frame from a true one.
            return _read_up_to(reader, nbytes + 1)
    except (zstandard.ZstdError, ValueError, OverflowError, MemoryError) as error:
        raise UnpackError(f"broken zstd data for {nbytes} bytes") from error


def _read_up_to(reader: zstandard.ZstdDecompressionReader, nbytes: int) -> bytes:
    result = bytearray()
    while len(result) < nbytes:
        chunk = reader.read(min(nbytes - len(result), 1 << 20))
        if not chunk:
            break
        result += chunk
    return bytes(result)
