"""What a file holds: PTX modules with their provenance, and what was passed over, with the reason."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

# Comments go first: they may hold any of the words looked for. One without an end reaches to the end of the text, so
# that no text takes more than one pass.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STARTS_AS_PTX = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*+\.version\s+\d+\.\d", re.DOTALL)
_VERSION = re.compile(r"\.version\s+(\d+\.\d+)")
_TARGET = re.compile(r"\.target\s+(\w+)")
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


class Container(StrEnum):
    """Kind of file that a module was found in."""

    TEXT = "ptx"
    FATBIN = "fatbin"
    CUBIN = "cubin"
    ELF = "elf"
    PE = "pe"
    BINARY = "binary"


class Compression(StrEnum):
    """How the text was stored."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    XZ = "xz"


@dataclass(frozen=True, slots=True)
class PtxImage:
    """One PTX module. `text` is what a driver would be given: line ends kept, padding NULs removed."""

    origin: str
    """Path, and inside a container the place: ``x.dll: .nv_fatb+0x0, entry 2``."""
    container: Container
    compression: Compression
    text: str
    version: str
    """Of the ``.version`` directive, ``9.0``; empty where the text has none."""
    arch: str
    """First word of the ``.target`` directive, ``sm_89``; empty where the text has none."""
    entries: tuple[str, ...]
    """Kernel names in the order of the text, found by a scan of the words, not by the front end."""
    sha256: str
    """Of the text's UTF-8 bytes, 64 hexadecimal digits."""
    text_bytes: int
    """Of the text in UTF-8."""
    fatbin: tuple[int, int] | None = None
    """Where the whole fatbin that holds the module lies in the file, [start, end)."""

    def json(self) -> dict[str, Any]:
        """Everything but the text, for a JSON document."""
        return {
            "origin": self.origin,
            "container": str(self.container),
            "compression": str(self.compression),
            "version": self.version,
            "target": self.arch,
            "entries": list(self.entries),
            "sha256": self.sha256,
            "text_bytes": self.text_bytes,
        }


class Skip(StrEnum):
    """Why something was passed over."""

    ORDINARY = "ordinary"
    LARGE = "large"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    ENTRY = "entry"
    UNNAMED = "unnamed"

    @property
    def plural(self) -> str:
        """How a sum calls them."""
        return {
            Skip.ORDINARY: "files without PTX",
            Skip.LARGE: "too large",
            Skip.UNREADABLE: "unreadable",
            Skip.DAMAGED: "damaged",
            Skip.ENTRY: "entries without PTX (machine code and the like)",
            Skip.UNNAMED: "modules that no rule concerns",
        }[self]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that gives no PTX: machine code, a damaged entry, an unreadable file, a file of another kind."""

    origin: str
    reason: str
    kind: Skip = Skip.ENTRY

    def __str__(self) -> str:
        return f"{self.origin}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Contents:
    """All PTX modules of a file or directory, in the order of paths and then of file offsets."""

    path: Path
    modules: tuple[PtxImage, ...]
    skipped: tuple[Skipped, ...]

    @property
    def is_text(self) -> bool:
        """Whether the path is one PTX text and not a container."""
        return len(self.modules) == 1 and self.modules[0].container is Container.TEXT and self.path.is_file()


def image_of(
    text: str, origin: str, container: Container, compression: Compression, fatbin: tuple[int, int] | None = None
) -> PtxImage:
    """A module with its directives read from the text."""
    bare = _COMMENT.sub(" ", text)
    data = text.encode()
    version, target = _VERSION.search(bare), _TARGET.search(bare)
    return PtxImage(
        origin=origin,
        container=container,
        compression=compression,
        text=text,
        version=version[1] if version else "",
        arch=target[1] if target else "",
        entries=tuple(_ENTRY.findall(bare)),
        sha256=hashlib.sha256(data).hexdigest(),
        text_bytes=len(data),
        fatbin=fatbin,
    )


def looks_like_ptx(text: str) -> bool:
    """Whether the first word that is no comment is ``.version``, as the PTX ISA demands of every module."""
    return _STARTS_AS_PTX.match(text) is not None


_BLANKS = re.compile(rb"(?:\s|//[^\n]*\n|/\*.*?\*/)*+", re.DOTALL)
_VERSION_BYTES = re.compile(rb"\.version\s+\d+\.\d")


def starts_as_ptx(head: bytes) -> bool | None:
    """The same of the first bytes of a text; None: a comment or blanks reach to their end, more is needed."""
    start = _BLANKS.match(head)
    rest = head[start.end() if start else 0 :]
    if len(rest) < 64 or rest.startswith((b"//", b"/*")):
        return True if _VERSION_BYTES.match(rest) else None
    return _VERSION_BYTES.match(rest) is not None


def one_line(name: object) -> str:
    """A name from outside, fit for a one-line message: what cannot be printed is escaped."""
    text = str(name).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
