"""Sections of ELF and PE files, read by pyelftools and pefile; they name places and hold a cubin's own PTX."""

import io
from dataclasses import dataclass

from zluda_rr.image.model import Container, one_line

# e_machine of NVIDIA's machine code (elf.h: EM_CUDA); e_machine is the u16 at offset 18 of any ELF file.
_EM_CUDA = 190
_MAX_SECTIONS = 65_536


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


def sections_of(data: bytes, container: Container) -> tuple[Section, ...]:
    """Sections that lie in the file, sorted by offset; none where the headers are damaged.

    A fatbin is found by its magic number, so that damaged headers and files without a section table cost no more than
    the name of the place.
    """
    try:
        if container in (Container.ELF, Container.CUBIN):
            found = _elf_sections(data)
        elif container is Container.PE:
            found = _pe_sections(data)
        else:
            found = []
    except Exception:
        # Both libraries raise whatever a field they trusted leads to; only names depend on them here.
        return ()
    return tuple(sorted((s for s in found if 0 < s.nbytes <= len(data) - s.offset), key=lambda s: s.offset))


def _elf_sections(data: bytes) -> list[Section]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    if elf.num_sections() > _MAX_SECTIONS:
        return []
    return [
        Section(one_line(section.name), section["sh_offset"], section["sh_size"])
        for section in elf.iter_sections()
        if section["sh_type"] != "SHT_NOBITS"
    ]


def _pe_sections(data: bytes) -> list[Section]:
    import pefile

    pe = pefile.PE(data=data, fast_load=True)
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
