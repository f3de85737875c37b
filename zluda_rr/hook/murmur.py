"""MurmurHash3 x64 128 with seed 0, as native/hash.c computes it: names and checks of cache entries."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def _rotate(x: int, by: int) -> int:
    return (x << by & _MASK) | x >> (64 - by)


def _mix(k: int) -> int:
    k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & _MASK
    k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33


def murmur128(data: bytes) -> bytes:
    """16 bytes: the two words, little-endian, as an entry's header holds them."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for k1, k2 in struct.iter_unpack("<QQ", memoryview(data)[:whole]):
        k1 = k1 * _C1 & _MASK
        h1 ^= ((k1 << 31 & _MASK) | k1 >> 33) * _C2 & _MASK
        h1 = (((h1 << 27 & _MASK) | h1 >> 37) + h2) * 5 + 0x52DCE729 & _MASK
        k2 = k2 * _C2 & _MASK
        h2 ^= ((k2 << 33 & _MASK) | k2 >> 31) * _C1 & _MASK
        h2 = (((h2 << 31 & _MASK) | h2 >> 33) + h1) * 5 + 0x38495AB5 & _MASK
    if len(data) > whole:
        k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
        h2 ^= _rotate(k2 * _C2 & _MASK, 33) * _C1 & _MASK
        h1 ^= _rotate(k1 * _C1 & _MASK, 31) * _C2 & _MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _mix(h1), _mix(h2)
    h1 = h1 + h2 & _MASK
    return struct.pack("<QQ", h1, h2 + h1 & _MASK)


def hash_hex(digest: bytes) -> str:
    """32 digits, each word printed as a number: the spelling in file names."""
    return "".join(f"{word:016x}" for word in struct.unpack("<QQ", digest))
