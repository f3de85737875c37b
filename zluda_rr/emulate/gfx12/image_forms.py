"""VIMAGE and VSAMPLE: operands whose number and width follow from the modifiers.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 15 (VIMAGE, VSAMPLE), and LLVM's assembler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zluda_rr.emulate.gfx12.encodings import FORMATS
from zluda_rr.emulate.gfx12.inst import Encoding, Inst, Operand, Type
from zluda_rr.emulate.gfx12.opcodes import Signature
from zluda_rr.emulate.gfx12.operands import scalar_register, vgpr
from zluda_rr.emulate.gfx12.plan import DecodeError

__all__ = ["IMAGE_DIMENSIONS", "IMAGE_FORMATS", "Dimension", "data_dwords", "decode_image"]

IMAGE_FORMATS = frozenset({Encoding.VIMAGE, Encoding.VSAMPLE})
_FLAGS = ("d16", "a16", "r128", "tfe", "unorm", "lwe")


@dataclass(frozen=True, slots=True)
class Dimension:
    """One value of the `dim` field: its name in the assembler and the coordinates of a texel."""

    name: str
    coordinates: int


IMAGE_DIMENSIONS = (
    Dimension("1D", 1), Dimension("2D", 2), Dimension("3D", 3), Dimension("CUBE", 3),
    Dimension("1D_ARRAY", 2), Dimension("2D_ARRAY", 3), Dimension("2D_MSAA", 3), Dimension("2D_MSAA_ARRAY", 4),
)  # fmt: skip


def data_dwords(mods: Mapping[str, int]) -> int:
    """Registers of the data: one per channel of dmask, one per two with d16; tfe adds the status word."""
    channels = max(mods["dmask"].bit_count(), 1)
    return ((channels + 1) // 2 if mods["d16"] else channels) + mods["tfe"]


def decode_image(signature: Signature, bits: int, address: int) -> Inst:
    """Decode 96 bits of a VIMAGE or VSAMPLE instruction. DecodeError for a register that does not exist."""
    encoding = signature.encoding

    def field(name: str) -> int:
        low, width = FORMATS[encoding].fields.get(name, (0, 0))
        return bits >> low & ((1 << width) - 1)

    mods = {name: field(name) for name in ("dmask", "dim", *_FLAGS)}
    policy = field("th") | field("scope") << 3
    if policy:
        mods["cpol"] = policy
    coordinates = IMAGE_DIMENSIONS[mods["dim"]].coordinates
    registers = (coordinates + 1) // 2 if mods["a16"] else coordinates
    sources = [vgpr(field(f"vaddr{number}")) for number in range(registers)]
    sources.append(_resource(field("rsrc"), 8))
    if encoding is Encoding.VSAMPLE:
        sources.append(_resource(field("samp"), 4))
    width = data_dwords(mods)
    data = vgpr(field("vdata"), width, Type.B32 if width == 1 else Type.WIDE)
    written = any(spec.written for spec in signature.operands)
    dst, src = ((data,), tuple(sources)) if written else ((), (data, *sources))
    return Inst(address, FORMATS[encoding].size, signature.mnemonic, encoding, dst, src, mods)


def _resource(code: int, width: int) -> Operand:
    found = scalar_register(code, width, Type.WIDE) if code < 128 else None
    if found is None:
        raise DecodeError(f"scalar register {code}")
    return found
