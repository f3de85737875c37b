"""AMDGPU code objects: the ELF that lld links for amdgcn-amd-amdhsa, with its kernels.

Sources: LLVM AMDGPUUsage, "ELF Code Object", "Code Object V5 Metadata" and "Kernel Descriptor".
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from zluda_rr.errors import UserError

__all__ = ["Argument", "CodeObject", "CodeObjectError", "Descriptor", "Function", "Kernel", "Relocation",
           "Segment", "Variable", "load_code_object"]  # fmt: skip

_EM_AMDGPU = 224
_NT_AMDGPU_METADATA = 32
_GFX1201 = 0x04E  # EF_AMDGPU_MACH_AMDGCN_GFX1201
_DESCRIPTOR_SIZE = 64
_R_AMDGPU_ABS64 = 3
_R_AMDGPU_RELATIVE64 = 13


class CodeObjectError(UserError):
    """Bytes that are no linked gfx1201 code object, or one that uses what is not supported."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: byte offset and size in the kernarg segment, kind as in the metadata."""

    name: str
    offset: int
    size: int
    value_kind: str
    """by_value, global_buffer, dynamic_shared_pointer, or hidden_* for what the runtime fills in."""

    @property
    def is_hidden(self) -> bool:
        return self.value_kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The 64-byte kernel descriptor; raw words with the fields a launch needs as properties."""

    group_segment_fixed_size: int
    private_segment_fixed_size: int
    kernarg_size: int
    entry_offset: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    kernarg_preload: int

    @property
    def float_round_mode_32(self) -> int:
        """0 nearest even, 1 up, 2 down, 3 toward zero."""
        return self.rsrc1 >> 12 & 3

    @property
    def float_round_mode_16_64(self) -> int:
        return self.rsrc1 >> 14 & 3

    @property
    def float_denorm_mode_32(self) -> int:
        """0 flush sources and results, 1 flush results only, 2 flush sources only, 3 keep denormals."""
        return self.rsrc1 >> 16 & 3

    @property
    def float_denorm_mode_16_64(self) -> int:
        return self.rsrc1 >> 18 & 3

    @property
    def fp16_overflow(self) -> bool:
        return bool(self.rsrc1 >> 26 & 1)

    @property
    def mode(self) -> int:
        """The MODE register's FP_ROUND and FP_DENORM bits (0..7) at the start of a wave."""
        return self.rsrc1 >> 12 & 0xFF

    @property
    def vgpr_blocks(self) -> int:
        """GRANULATED_WORKITEM_VGPR_COUNT: (value + 1) * 8 VGPRs in wave32."""
        return self.rsrc1 & 63

    @property
    def user_sgpr_count(self) -> int:
        return self.rsrc2 >> 1 & 31

    @property
    def has_private_segment(self) -> bool:
        return bool(self.rsrc2 & 1)

    @property
    def workgroup_id(self) -> tuple[bool, bool, bool]:
        """Whether x, y, z of the workgroup id are wanted; gfx12 puts them in TTMP9 and TTMP7, not in SGPRs."""
        return bool(self.rsrc2 >> 7 & 1), bool(self.rsrc2 >> 8 & 1), bool(self.rsrc2 >> 9 & 1)

    @property
    def workitem_id_dimensions(self) -> int:
        """1 to 3 dimensions of the work item id packed into v0 (x bits 0..9, y 10..19, z 20..29)."""
        return (self.rsrc2 >> 11 & 3) + 1

    @property
    def is_wave32(self) -> bool:
        return bool(self.properties >> 10 & 1)

    @property
    def uses_dynamic_stack(self) -> bool:
        return bool(self.properties >> 11 & 1)

    @property
    def user_sgprs(self) -> tuple[tuple[str, int], ...]:
        """Enabled user SGPR inputs in register order with their dword counts, kernarg preload last."""
        names = (("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
                 ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1))  # fmt: skip
        enabled = [item for bit, item in enumerate(names) if self.properties >> bit & 1]
        if self.preload_length:
            enabled.append(("kernarg_preload", self.preload_length))
        return tuple(enabled)

    @property
    def preload_length(self) -> int:
        """Dwords of the kernarg segment preloaded into SGPRs, from dword `preload_offset` on."""
        return self.kernarg_preload & 0x7F

    @property
    def preload_offset(self) -> int:
        return self.kernarg_preload >> 7


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: descriptor and metadata. Addresses are virtual addresses of the code object."""

    name: str
    descriptor: Descriptor
    entry: int
    kernarg_size: int
    kernarg_align: int
    lds_bytes: int
    """Fixed LDS of a workgroup (from the metadata: the descriptor's granule field may be 0)."""
    scratch_bytes: int
    """Private segment per work item."""
    vgprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    args: tuple[Argument, ...]
    max_workgroup_size: int
    wavefront_size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A loaded segment: `data` padded with zeros to its size in memory."""

    address: int
    data: bytes
    writable: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A function symbol."""

    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A global variable's place in the image."""

    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A 64-bit word of the image that a loader sets to its base address plus `value`."""

    address: int
    value: int


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A linked code object. All addresses count from the image base 0."""

    kernels: Mapping[str, Kernel]
    segments: tuple[Segment, ...]
    symbols: Mapping[str, int]
    functions: tuple[Function, ...]
    """In address order."""
    target: str
    relocations: tuple[Relocation, ...] = ()
    variables: Mapping[str, Variable] = field(default_factory=dict)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the image; CodeObjectError outside the segments."""
        for segment in self.segments:
            start = address - segment.address
            if start >= 0 and start + size <= len(segment.data):
                return segment.data[start : start + size]
        raise CodeObjectError(f"no segment holds {size} bytes at {address:#x}")


def _segments(elf: ELFFile) -> tuple[Segment, ...]:
    found = []
    for segment in elf.iter_segments():
        header = segment.header
        if header.p_type != "PT_LOAD":
            continue
        data = segment.data() + bytes(header.p_memsz - header.p_filesz)
        found.append(Segment(header.p_vaddr, data, bool(header.p_flags & 2), bool(header.p_flags & 1)))
    return tuple(found)


def _metadata(elf: ELFFile) -> dict[str, Any]:
    for section in elf.iter_sections():
        if not isinstance(section, NoteSection):
            continue
        for note in section.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_NT_AMDGPU_METADATA, "NT_AMDGPU_METADATA"):
                raw = note["n_descdata"] if "n_descdata" in note else note["n_desc"]
                return dict(msgpack.unpackb(raw if isinstance(raw, bytes) else raw.encode("latin-1")))
    raise CodeObjectError("no AMDGPU metadata note: not a code object that clang or lld finished")


def _symbols(elf: ELFFile) -> tuple[dict[str, int], tuple[Function, ...]]:
    addresses: dict[str, int] = {}
    functions: dict[tuple[int, str], Function] = {}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            if not symbol.name or symbol["st_shndx"] == "SHN_UNDEF":
                continue
            addresses[symbol.name] = symbol["st_value"]
            if symbol["st_info"].type == "STT_FUNC" and symbol["st_size"]:
                function = Function(symbol.name, symbol["st_value"], symbol["st_size"])
                functions[function.address, function.name] = function
    return addresses, tuple(functions[key] for key in sorted(functions))


def _variables(elf: ELFFile) -> dict[str, Variable]:
    """Data symbols with a size, kernel descriptors (`NAME.kd`) left out."""
    found = {}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            is_data = symbol["st_info"].type == "STT_OBJECT" and symbol["st_shndx"] != "SHN_UNDEF"
            if is_data and symbol["st_size"] and not symbol.name.endswith(".kd"):
                found[symbol.name] = Variable(symbol.name, symbol["st_value"], symbol["st_size"])
    return found


def _descriptor(raw: bytes) -> Descriptor:
    group, private, kernarg, _, entry, _, rsrc3, rsrc1, rsrc2, properties, preload, _ = struct.unpack(
        "<IIIIq20sIIIHHI", raw
    )
    return Descriptor(group, private, kernarg, entry, rsrc1, rsrc2, rsrc3, properties, preload)


def _kernel(image: CodeObject, entry: Mapping[str, Any]) -> Kernel:
    name, symbol = entry[".name"], entry[".symbol"]
    if symbol not in image.symbols:
        raise CodeObjectError(f"kernel {name}: descriptor symbol {symbol} is missing")
    address = image.symbols[symbol]
    descriptor = _descriptor(image.read(address, _DESCRIPTOR_SIZE))
    args = tuple(
        Argument(a.get(".name", ""), a[".offset"], a[".size"], a[".value_kind"]) for a in entry.get(".args", ())
    )
    return Kernel(
        name=name,
        descriptor=descriptor,
        entry=address + descriptor.entry_offset,
        kernarg_size=entry[".kernarg_segment_size"],
        kernarg_align=entry[".kernarg_segment_align"],
        lds_bytes=entry[".group_segment_fixed_size"],
        scratch_bytes=entry[".private_segment_fixed_size"],
        vgprs=entry[".vgpr_count"],
        sgprs=entry[".sgpr_count"],
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        args=args,
        max_workgroup_size=entry[".max_flat_workgroup_size"],
        wavefront_size=entry[".wavefront_size"],
    )


def _check(elf: ELFFile) -> None:
    if elf.header.e_machine not in (_EM_AMDGPU, "EM_AMDGPU"):
        raise CodeObjectError("not an AMDGPU ELF file")
    if elf.header.e_type != "ET_DYN":
        raise CodeObjectError("an unlinked object: link it with ld.lld -shared first")
    if elf.header.e_flags & 0xFF != _GFX1201:
        raise CodeObjectError(f"not for gfx1201 (machine {elf.header.e_flags & 0xFF:#x})")


def _relocations(elf: ELFFile) -> tuple[Relocation, ...]:
    """What a loader has to add its base address to; CodeObjectError for anything but 64-bit pointers."""
    found = []
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        symbols: Any = elf.get_section(section.header.sh_link)
        for entry in section.iter_relocations():
            value = entry["r_addend"]
            if entry["r_info_type"] == _R_AMDGPU_ABS64:
                symbol = symbols.get_symbol(entry["r_info_sym"])
                if symbol["st_shndx"] == "SHN_UNDEF":
                    raise CodeObjectError(f"undefined symbol {symbol.name}")
                value += symbol["st_value"]
            elif entry["r_info_type"] != _R_AMDGPU_RELATIVE64:
                raise CodeObjectError(f"relocation of type {entry['r_info_type']} in {section.name}")
            found.append(Relocation(entry["r_offset"], value))
    return tuple(found)


def load_code_object(data: bytes) -> CodeObject:
    """Read a linked gfx1201 code object.

    Raises CodeObjectError for anything else, with the reason.
    """
    try:
        elf = ELFFile(io.BytesIO(data))
        _check(elf)
        symbols, functions = _symbols(elf)
        metadata = _metadata(elf)
        target = metadata.get("amdhsa.target", "")
        bare = CodeObject({}, _segments(elf), symbols, functions, target, _relocations(elf), _variables(elf))
    except (ELFError, msgpack.UnpackException, struct.error) as error:
        raise CodeObjectError(f"not an AMDGPU ELF file: {error}") from None
    kernels = {entry[".name"]: _kernel(bare, entry) for entry in metadata.get("amdhsa.kernels", ())}
    return replace(bare, kernels=kernels)
