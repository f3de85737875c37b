"""The code object for the device in what HIP's loaders take: an ELF file, or clang's offload bundle, compressed or not.

Sources: clang documentation, "Clang Offload Bundler"; llvm/lib/Object/OffloadBundle.cpp for compressed headers.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from zluda_rr.emulate.hip.protocol import Refusal, Status

__all__ = ["device_code"]

_BUNDLE, _COMPRESSED, _ELF = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"\x7fELF"
_TARGET = "amdgcn-amd-amdhsa--gfx1201"
_ZLIB, _ZSTD = 0, 1
_LONGEST = 1 << 31


def device_code(data: bytes) -> bytes:
    """The gfx1201 code object. Refusal where there is none, or the bytes are damaged."""
    if data.startswith(_COMPRESSED):
        data = _uncompressed(data)
    if data.startswith(_ELF):
        return data
    if not data.startswith(_BUNDLE):
        raise Refusal(Status.INVALID_IMAGE, "module: neither an ELF file nor an offload bundle")
    try:
        entries = _entries(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise Refusal(Status.INVALID_IMAGE, f"module: damaged offload bundle: {error}") from error
    for name, code in entries:
        # hipv4-amdgcn-amd-amdhsa--gfx1201, with features such as :sramecc+ behind; gfx1201 has none that matter here.
        if name.split("-", 1)[-1].split(":")[0] == _TARGET:
            return code
    there = ", ".join(name for name, _ in entries) or "none"
    raise Refusal(Status.NO_BINARY_FOR_GPU, f"module: no code for gfx1201 in the bundle; there is: {there}")


def _entries(data: bytes) -> list[tuple[str, bytes]]:
    """Names and contents."""
    (count,) = struct.unpack_from("<Q", data, len(_BUNDLE))
    at, found = len(_BUNDLE) + 8, []
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length].decode("ascii")
        found.append((name, data[offset : offset + size]))
        at += 24 + length
    return found


def _uncompressed(data: bytes) -> bytes:
    try:
        version, method = struct.unpack_from("<HH", data, 4)
        head = struct.Struct("<4sHHIIQ" if version == 2 else "<4sHHQQQ")
        *_, size, _ = head.unpack_from(data)
        if method not in (_ZLIB, _ZSTD) or size > _LONGEST:
            raise Refusal(Status.INVALID_IMAGE, f"module: compressed bundle of method {method}, {size} bytes")
        body = data[head.size :]
        if method == _ZSTD:
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
        return zlib.decompressobj().decompress(body, size)
    except (struct.error, zstandard.ZstdError, zlib.error) as error:
        raise Refusal(Status.INVALID_IMAGE, f"module: damaged compressed bundle: {error}") from error
