"""Bit layouts of the gfx12 microcode formats.

Source: AMD "RDNA4" Instruction Set Architecture, chapter 15 (microcode formats). Bits are numbered from bit 0
of the first dword on; a format of two or three dwords is one 64- or 96-bit number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zluda_rr.emulate.gfx12.inst import Encoding

__all__ = ["DPP8", "DPP8_FI", "DPP16", "DPP_FIELDS", "FORMATS", "LITERAL", "Format", "format_of"]

LITERAL = 255
"""Source code that means: the next dword is the operand."""
DPP8, DPP8_FI, DPP16 = 233, 234, 250
"""src0 codes that mean: a DPP dword follows, which holds the real src0 VGPR."""

Field = tuple[int, int]
"""Lowest bit and number of bits."""


@dataclass(frozen=True, slots=True)
class Format:
    """One microcode format. `prefix` is the value of the top `32 - prefix_lsb` bits of the first dword."""

    encoding: Encoding
    prefix: int
    prefix_lsb: int
    size: int
    opcode: Field
    fields: Mapping[str, Field]


_VECTOR_SOURCES = {"src0": (32, 9), "src1": (41, 9), "src2": (50, 9)}
_VMEM = {"saddr": (0, 7), "vdst": (32, 8), "sve": (49, 1), "scope": (50, 2), "th": (52, 3), "vsrc": (55, 8),
         "vaddr": (64, 8), "ioffset": (72, 24)}  # fmt: skip
_IMAGE = {"dim": (0, 3), "r128": (4, 1), "d16": (5, 1), "a16": (6, 1), "dmask": (22, 4), "vdata": (32, 8),
          "rsrc": (41, 9), "scope": (50, 2), "th": (52, 3), "vaddr0": (64, 8), "vaddr1": (72, 8), "vaddr2": (80, 8),
          "vaddr3": (88, 8)}  # fmt: skip


def _vmem(encoding: Encoding, segment: int) -> Format:
    return Format(encoding, 0b11101100 | segment, 24, 12, (14, 8), _VMEM)


FORMATS: Mapping[Encoding, Format] = {
    fmt.encoding: fmt
    for fmt in (
        Format(Encoding.SOP1, 0b101111101, 23, 4, (8, 8), {"ssrc0": (0, 8), "sdst": (16, 7)}),
        Format(Encoding.SOPC, 0b101111110, 23, 4, (16, 7), {"ssrc0": (0, 8), "ssrc1": (8, 8)}),
        Format(Encoding.SOPP, 0b101111111, 23, 4, (16, 7), {"simm16": (0, 16)}),
        Format(Encoding.SOPK, 0b1011, 28, 4, (23, 5), {"simm16": (0, 16), "sdst": (16, 7)}),
        Format(
            Encoding.SOP2, 0b10, 30, 4, (23, 7), {"ssrc0": (0, 8), "ssrc1": (8, 8), "sdst": (16, 7)}
        ),
        Format(
            Encoding.SMEM, 0b111101, 26, 8, (13, 6),
            {"sbase": (0, 6), "sdst": (6, 7), "scope": (21, 2), "th": (23, 2), "ioffset": (32, 24), "soffset": (57, 7)},
        ),
        Format(Encoding.VOP1, 0b0111111, 25, 4, (9, 8), {"src0": (0, 9), "vdst": (17, 8)}),
        Format(Encoding.VOPC, 0b0111110, 25, 4, (17, 8), {"src0": (0, 9), "vsrc1": (9, 8)}),
        Format(Encoding.VOP2, 0b0, 31, 4, (25, 6), {"src0": (0, 9), "vsrc1": (9, 8), "vdst": (17, 8)}),
        Format(
            Encoding.VOP3, 0b110101, 26, 8, (16, 10),
            {"vdst": (0, 8), "abs": (8, 3), "op_sel": (11, 4), "clamp": (15, 1), **_VECTOR_SOURCES, "omod": (59, 2),
             "neg": (61, 3)},
        ),
        Format(
            Encoding.VOP3SD, 0b110101, 26, 8, (16, 10),
            {"vdst": (0, 8), "sdst": (8, 7), "clamp": (15, 1), **_VECTOR_SOURCES, "omod": (59, 2), "neg": (61, 3)},
        ),
        Format(
            Encoding.VOP3P, 0b11001100, 24, 8, (16, 7),
            {"vdst": (0, 8), "neg_hi": (8, 3), "op_sel": (11, 3), "op_sel_hi2": (14, 1), "clamp": (15, 1),
             **_VECTOR_SOURCES, "op_sel_hi": (59, 2), "neg_lo": (61, 3)},
        ),
        Format(
            Encoding.VOPD, 0b110010, 26, 8, (22, 4),
            {"srcx0": (0, 9), "vsrcx1": (9, 8), "opy": (17, 5), "srcy0": (32, 9), "vsrcy1": (41, 8),
             "vdsty": (49, 7), "vdstx": (56, 8)},
        ),
        Format(
            Encoding.DS, 0b110110, 26, 8, (18, 8),
            {"offset0": (0, 8), "offset1": (8, 8), "addr": (32, 8), "data0": (40, 8), "data1": (48, 8),
             "vdst": (56, 8)},
        ),
        _vmem(Encoding.FLAT, 0),
        _vmem(Encoding.SCRATCH, 1),
        _vmem(Encoding.GLOBAL, 2),
        Format(
            Encoding.BUFFER, 0b110001, 26, 12, (14, 8),
            {"soffset": (0, 7), "tfe": (22, 1), "vdst": (32, 8), "rsrc": (41, 9), "scope": (50, 2), "th": (52, 3),
             "format": (55, 7), "offen": (62, 1), "idxen": (63, 1), "vaddr": (64, 8), "ioffset": (72, 24)},
        ),
        Format(
            Encoding.VIMAGE, 0b110100, 26, 12, (14, 8),
            {**_IMAGE, "tfe": (55, 1), "vaddr4": (56, 8)},
        ),
        Format(
            Encoding.VSAMPLE, 0b111001, 26, 12, (14, 8),
            {**_IMAGE, "tfe": (3, 1), "unorm": (13, 1), "lwe": (40, 1), "samp": (55, 9)},
        ),
    )
}  # fmt: skip

DPP_FIELDS: Mapping[str, Field] = {
    "src0": (0, 8), "dpp_ctrl": (8, 9), "fi": (18, 1), "bound_ctrl": (19, 1), "neg0": (20, 1), "abs0": (21, 1),
    "neg1": (22, 1), "abs1": (23, 1), "bank_mask": (24, 4), "row_mask": (28, 4),
}  # fmt: skip
"""The DPP16 dword; DPP8 is src0 in bits 0..7 and eight 3-bit lane selectors above."""


def _prefixes() -> tuple[Encoding | None, ...]:
    # VOP3SD shares VOP3's prefix and is told apart by opcode.
    table: list[Encoding | None] = []
    ordered = sorted(FORMATS.values(), key=lambda fmt: fmt.prefix_lsb)
    for top in range(512):
        word = top << 23
        hits = [f.encoding for f in ordered if word >> f.prefix_lsb == f.prefix and f.encoding != Encoding.VOP3SD]
        table.append(hits[0] if hits else None)
    return tuple(table)


_BY_PREFIX = _prefixes()


def format_of(word: int) -> Encoding | None:
    """Format of an instruction from its first dword; VOP3SD answers VOP3; None for unknown prefixes."""
    return _BY_PREFIX[word >> 23]
