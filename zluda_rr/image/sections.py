"""Sections of ELF and PE files, read by pyelftools and pefile; they name places and hold a cubin's own PTX."""

import io
import os
from dataclasses import dataclass
from typing import IO, cast

from zluda_rr.image.model import Container, one_line
from zluda_rr.image.source import Source

# e_machine of NVIDIA's machine code (elf.h: EM_CUDA); e_machine is the u16 at offset 18 of any ELF file.
_EM_CUDA = 190
_MAX_SECTIONS = 65_536
_PE_HEAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes [offset, offset + nbytes) of the file."""

    name: str
    offset: int
    nbytes: int


def container_of(data: bytes) -> Container:
    """Kind of a file that is no text, by its first bytes."""
    if data.startswith(b"\x50\xed\x55\xba"):
        return Container.FATBIN
    if data.startswith(b"\x7fELF"):
        return Container.CUBIN if int.from_bytes(data[18:20], "little") == _EM_CUDA else Container.ELF
    return Container.PE if data.startswith(b"MZ") else Container.BINARY


def sections_of(source: Source, container: Container) -> tuple[Section, ...]:
    """Sections that lie in the file, sorted by offset; none where the headers are damaged.

    A fatbin is found by its magic number, so that damaged headers and files without a section table cost no more than
    the name of the place.
    """
    try:
        if container in (Container.ELF, Container.CUBIN):
            found = _elf_sections(source)
        elif container is Container.PE:
            found = _pe_sections(source)
        else:
            found = []
    except Exception:
        # Both libraries raise whatever a field they trusted leads to; only names depend on them here.
        return ()
    return tuple(sorted((s for s in found if 0 < s.nbytes <= source.size - s.offset), key=lambda s: s.offset))


class _Stream(io.RawIOBase):
    """A source as the file that pyelftools reads."""

    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._source.size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(self._at, self._source.size if size < 0 else size)
        self._at += len(data)
        return data


def _elf_sections(source: Source) -> list[Section]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(cast(IO[bytes], _Stream(source)))
    if elf.num_sections() > _MAX_SECTIONS:
        return []
    return [
        Section(one_line(section.name), section["sh_offset"], section["sh_size"])
        for section in elf.iter_sections()
        if section["sh_type"] != "SHT_NOBITS"
    ]


def _pe_sections(source: Source) -> list[Section]:
    import pefile

    # Headers and section table are at the start; with `fast_load` nothing else is read.
    pe = pefile.PE(data=source.read(0, _PE_HEAD_BYTES), fast_load=True)
    try:
        return [
            Section(
                one_line(section.Name.rstrip(b"\0").decode("utf-8", "backslashreplace")),
                section.PointerToRawData,
                section.SizeOfRawData,
            )
            for section in pe.sections
        ]
    finally:
        pe.close()
