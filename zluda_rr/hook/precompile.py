"""Fills the cache ahead of the game."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image import Container, modules_in

from .cache import Cache, Entry, entry_key, locked
from .child import store
from .murmur import murmur128
from .options import Settings
from .tool import Tool
from .transform import module_extent

_FATBIN_MAGIC = (0xBA55ED50).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bytes that a program may hand to the loader, and where they come from."""

    origin: str
    image: bytes


def candidates(paths: tuple[Path, ...]) -> tuple[Candidate, ...]:
    """Every module in the files and folders, as the fatbin that holds it and as its text; each once."""
    found: dict[bytes, Candidate] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
        for candidate in _candidates(path):
            if candidate.image:
                found.setdefault(candidate.image, candidate)
    return tuple(found.values())


def _candidates(path: Path) -> Iterator[Candidate]:
    modules = modules_in(path)
    for module in modules:
        yield Candidate(module.origin, module_extent(module.text.encode()))
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    with_fatbins = [
        p for p in files if any(m.origin.startswith(str(p)) and m.container is not Container.TEXT for m in modules)
    ]
    for file in with_fatbins:
        data = file.read_bytes()
        at = data.find(_FATBIN_MAGIC)
        while at >= 0:
            image = module_extent(data[at : at + 16])
            size = int.from_bytes(data[at + 6 : at + 8], "little") + int.from_bytes(data[at + 8 : at + 16], "little")
            if image[4:6] == b"\1\0" and at + size <= len(data):
                yield Candidate(f"{file}+{at:#x}", data[at : at + size])
            at = data.find(_FATBIN_MAGIC, at + 4)


def fill(cache: Cache, candidate: Candidate, settings: Settings, tool: Tool) -> Entry:
    """The entry of one candidate; waits for a program that is rewriting the same module."""
    lock = entry_key(murmur128(candidate.image), settings, "")
    with locked(cache.folder / f"{lock}.lock", wait=True):
        return store(cache, candidate.image, settings, tool)
