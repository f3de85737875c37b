"""The cache folder that the library reads: entries, requests, locks (layouts: native/cache.c)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from zluda_rr.atomic import replace_file
from zluda_rr.errors import UserError

from .murmur import hash_hex, murmur128
from .options import Settings
from .tool import Tool

_HEADER = struct.Struct("<8sII16sQIIQ16sQ")  # up to the header's own hash
_MAGIC, _FORMAT = b"ZRRENTRY", 1
_NAME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}")
_FATBIN_MAGIC = (0xBA55ED50).to_bytes(4, "little")
_BODY = re.compile(r"[0-9a-f]{32}\.bc")
_NOTE_BYTES = 479  # what the library keeps of a note


class Kind(IntEnum):
    """What an entry says about a module."""

    REPLACED = 1
    UNCHANGED = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A rewritten module, or the reason why it stays as it is."""

    kind: Kind
    note: str
    text: str = ""
    """PTX to load; empty where it is loaded inside `fatbin`."""
    fatbin: bytes = b""
    """The fatbin to load: the original's with one entry rewritten."""

    def pack(self, image: bytes) -> bytes:
        """The file of this entry for the module `image`."""
        note = self.note.encode(errors="replace")[:_NOTE_BYTES]  # a path in it may not be UTF-8
        # Both end in NUL, which ends a text and which no fatbin's size counts.
        payload = (self.fatbin or self.text.encode()) + b"\0" if self.kind is Kind.REPLACED else b""
        hashes = murmur128(image), murmur128(payload + note)
        head = _HEADER.pack(_MAGIC, _FORMAT, self.kind, hashes[0], len(image), len(note), 0, len(payload), hashes[1], 0)
        return head + murmur128(head) + payload + note


def unpack(data: bytes) -> Entry:
    """An entry from its file. ValueError for anything damaged."""
    head, rest = data[: _HEADER.size], data[_HEADER.size + 16 :]
    if len(head) < _HEADER.size or data[_HEADER.size : _HEADER.size + 16] != murmur128(head):
        raise ValueError("header damaged")
    magic, version, kind, _, _, note, _, payload, check, _ = _HEADER.unpack(head)
    if magic != _MAGIC or version != _FORMAT or len(rest) != note + payload or murmur128(rest) != check:
        raise ValueError("contents damaged")
    said, body = rest[payload:].decode("utf-8", "replace"), rest[: max(payload - 1, 0)]
    if body.startswith(_FATBIN_MAGIC):
        return Entry(Kind(kind), said, fatbin=body)
    return Entry(Kind(kind), said, body.decode())


def entry_key(image_hash: bytes, settings: Settings, fingerprint: str) -> str:
    """Name of an entry; with an empty fingerprint, of lock and request."""
    fields = "".join(f"{name}={settings[name]}\n" for name in ("target", "fusion", "layers", "disable"))
    text = f"zluda-rr settings 1\n{fields}tool={fingerprint}\n"
    return f"{hash_hex(image_hash)}-{hash_hex(murmur128(text.encode()))[:16]}"


@dataclass(frozen=True, slots=True)
class Cache:
    """One folder. Files appear in it by rename only; it belongs to this user and no other may write to it."""

    folder: Path

    def prepare(self) -> None:
        """Create the folder. UserError where it cannot be used."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            about = self.folder.lstat()
        except OSError as error:
            raise UserError(f"{self.folder}: {error.strerror}; set ZLUDA_RR_CACHE_DIR to a writable folder") from error
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise UserError(f"{self.folder}: belongs to another user or others may write to it; remove it")

    def write(self, name: str, data: bytes) -> None:
        """One file, whole or not at all. UserError when it cannot be written."""
        try:
            replace_file(self.folder / name, data, mode=0o600)
        except OSError as error:
            raise UserError(f"{self.folder}: {error.strerror}; make room or set ZLUDA_RR_CACHE_DIR") from error

    def write_tool(self, tool: Tool) -> None:
        """The record, unless it is there already."""
        text = tool.text().encode()
        path = self.folder / "tool"
        if not path.is_file() or path.read_bytes() != text:
            self.write("tool", text)

    def read(self, key: str) -> Entry | None:
        """A sound entry or None; a damaged one is removed."""
        path = self.folder / f"{key}.zrr"
        try:
            return unpack(path.read_bytes())
        except OSError:
            return None
        except ValueError:
            path.unlink(missing_ok=True)
            return None

    def entries(self) -> tuple[Path, ...]:
        """Files of entries, oldest first."""
        found = [p for p in self._files() if p.suffix == ".zrr"]
        return tuple(sorted(found, key=lambda p: p.stat().st_mtime_ns))

    def _files(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (p for p in self.folder.iterdir() if p.suffix == ".tmp" or _NAME.match(p.name))

    def _bodies(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (p for p in self.folder.iterdir() if _BODY.fullmatch(p.name))

    def clear(self) -> int:
        """Remove every entry, body, request and unused lock; the number of entries."""
        entries = len(self.entries())
        for path in [*self._files(), *self._bodies()]:
            self._remove(path)
        return entries

    def prune(self, keep_bytes: int) -> int:
        """Remove damaged entries, leftovers and the oldest entries above `keep_bytes`; how many entries went."""
        removed = 0
        for path in list(self._files()):
            if path.suffix == ".zrr":
                removed += self.read(path.stem) is None
            else:
                self._remove(path)
        entries = list(self.entries())
        total = sum(p.stat().st_size for p in entries)
        while entries and total > keep_bytes:
            oldest = entries.pop(0)
            total -= oldest.stat().st_size
            oldest.unlink(missing_ok=True)
            removed += 1
        return removed

    def _remove(self, path: Path) -> None:
        """A file that no rewrite is using."""
        with contextlib.suppress(OSError):
            if path.suffix in (".lock", ".img", ".tmp"):
                stem = path.with_name(f"{path.name[:49]}.lock")
                with locked(stem, wait=False):
                    path.unlink(missing_ok=True)
            else:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """The exclusive lock that the library takes as well. BlockingIOError when it is held and `wait` is false."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)
