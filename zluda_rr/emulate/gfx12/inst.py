"""Decoded gfx12 (RDNA4) instructions: the types shared by the decoder, the printer and the executor.

Operand order is the order of LLVM's assembler text (destinations in `dst`, everything else in `src`), with
these fixed conventions for operands that the text omits or spells differently:

* implicit operands that the encoding has no field for are listed where the text lists them, so
  `v_cmp_*_e32` and `v_add_co_ci_u32` write an explicit `vcc_lo`, `v_cndmask_b32_e32` reads it as third
  source; `v_cmpx_*` has `dst == (exec_lo,)`. SCC, the VCC read of `v_div_fmas`, the accumulator read of
  `v_fmac`/`v_dot2acc` and the old value of a partly written register are not listed.
* SMEM: `src == (sbase, soffset)`; `soffset` is `null` when unused; prefetches have the mod `length`.
* GLOBAL/FLAT/SCRATCH: `src == (vaddr, saddr)` or `(vaddr, vdata, saddr)`; either address may have kind OFF.
* DS: `src == (addr, data0, data1)` as far as the instruction has them.
* BUFFER: `src == (vaddr, srsrc, soffset)` or `(vdata, vaddr, srsrc, soffset)`.
* VIMAGE/VSAMPLE: `src == (address, ..., srsrc)` and (`address, ..., srsrc, sampler`), one operand per address
  register; a store has the data in front. The data's width follows from dmask, d16 and tfe.
* DPP forms: the lane exchange applies to `src[0]`.

Source: AMD "RDNA4" Instruction Set Architecture, chapters 7 to 12 and 15, and LLVM's AMDGPUOperandSyntax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

__all__ = ["Encoding", "Inst", "Kind", "Operand", "Special", "Type"]


class Encoding(StrEnum):
    """Microcode format of an instruction (the DPP forms are VOP1/VOP2/VOPC/VOP3/VOP3P with DPP mods)."""

    SOP1 = "SOP1"
    SOP2 = "SOP2"
    SOPC = "SOPC"
    SOPK = "SOPK"
    SOPP = "SOPP"
    SMEM = "SMEM"
    VOP1 = "VOP1"
    VOP2 = "VOP2"
    VOPC = "VOPC"
    VOP3 = "VOP3"
    VOP3SD = "VOP3SD"
    VOP3P = "VOP3P"
    VOPD = "VOPD"
    DS = "DS"
    GLOBAL = "GLOBAL"
    FLAT = "FLAT"
    SCRATCH = "SCRATCH"
    BUFFER = "BUFFER"
    VIMAGE = "VIMAGE"
    VSAMPLE = "VSAMPLE"


class Kind(StrEnum):
    """Where an operand's value lives."""

    VGPR = "vgpr"
    SGPR = "sgpr"
    TTMP = "ttmp"
    SPECIAL = "special"
    """A `Special` register; `index` is its hardware code. Width 2 of VCC_LO/EXEC_LO is the 64-bit pair."""
    INT = "int"
    FLOAT = "float"
    LITERAL = "literal"
    OFF = "off"


class Special(IntEnum):
    """Hardware source codes of the registers that are neither VGPR, SGPR nor TTMP."""

    VCC_LO = 106
    VCC_HI = 107
    NULL = 124
    M0 = 125
    EXEC_LO = 126
    EXEC_HI = 127
    SHARED_BASE = 235
    SHARED_LIMIT = 236
    PRIVATE_BASE = 237
    PRIVATE_LIMIT = 238
    VCCZ = 251
    EXECZ = 252
    SCC = 253


class Type(StrEnum):
    """How an operand reads its bits; decides the value of an inline float and the range of a literal."""

    B16 = "b16"
    """16-bit integer: inline floats read as the low 16 bits of the f32."""
    F16 = "f16"
    BF16 = "bf16"
    B32 = "b32"
    """Any 32-bit operand, integer or f32; a wave32 lane mask too. Inline floats read as f32 bits."""
    B64 = "b64"
    """64-bit integer or pair: inline integers are sign extended, a literal only for *_i64; floats are f64."""
    F64 = "f64"
    """A literal holds the high 32 bits; inline floats read as f64 bits."""
    PK_F16 = "pk_f16"
    """Two f16 halves: an inline float sits in the low half, the high half is zero."""
    PK_BF16 = "pk_bf16"
    WIDE = "wide"
    """Register tuples (memory data, WMMA fragments); inline constants apply to every element."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `width` is in dwords (1 for anything up to 32 bits, lane masks included).

    `value` is the constant as raw bits (unsigned, `32 * width` bits; for WIDE one 32-bit element, f32 for
    floats), resolved for the operand's type: inline 1.0 is 0x3c00 where an f16 is read, 0x3f800000 for B32,
    0x3ff0000000000000 for F64; inline -1 is 0xffffffff, or 64 ones for B64/F64. A literal of a 16-bit type
    keeps its whole dword, of which the low half counts.
    For INT and FLOAT `index` is the hardware code.
    `half` selects the low (0) or high (1) 16 bits of a register wherever a VALU instruction reads or writes a
    16-bit operand (from op_sel or from the .l/.h encoding, both decode alike); None elsewhere, so also for
    memory data (d16 is in the mnemonic) and SALU. A 16-bit destination leaves the other half unchanged.
    `neg` and `abs` are the VOP3/DPP float source modifiers (abs applies first).
    """

    kind: Kind
    index: int = 0
    value: int = 0
    width: int = 1
    type: Type = Type.B32
    neg: bool = False
    abs: bool = False
    half: int | None = None

    @property
    def is_constant(self) -> bool:
        return self.kind in (Kind.INT, Kind.FLOAT, Kind.LITERAL)


@dataclass(frozen=True, slots=True)
class Inst:
    """One decoded instruction. `address` is absolute within the code object's image, `size` in bytes.

    `mnemonic` has no _e32/_e64/_dpp suffix; VOPD halves keep `v_dual_`. Keys of `mods` (absent means 0):

    * SOPP/SOPK: `simm16`, signed for branches and s_movk/s_addk/s_cmpk_i, else as LLVM prints it
    * VOP3, VOP3P: `clamp`, `omod` (1: *2, 2: *4, 3: /2); VOP3 `op_sel`, the raw bits (sources 0..2, then
      the destination): already applied where the operand has a `half`, else it means something of its own
      (v_permlane16: 1 fi, 2 bound_ctrl); `byte_sel` of v_cvt_f32_{fp8,bf8} and v_cvt_sr_{fp8,bf8}_f32
    * VOP3P, always present: bit masks by source `op_sel`, `op_sel_hi`, `neg_lo`, `neg_hi`
      (v_fma_mix*: neg_lo is neg, neg_hi is abs)
    * DPP16: `dpp_ctrl` (9 bits), `row_mask`, `bank_mask`, `bound_ctrl`, `fi`, all present
    * DPP8: `dpp8` (24 bits, 3 per lane, lane 0 lowest), `fi`
    * SMEM, memory: `offset` (signed bytes; DS: unsigned); DS pairs: `offset0`, `offset1` (element units)
    * VIMAGE, VSAMPLE: `dmask`, `dim`, and 1 for each of `d16`, `a16`, `r128`, `tfe`, `unorm`, `lwe` (the last two
      VSAMPLE only), all present; `cpol`
    * memory: `cpol` (bits 0..2 th, 3..4 scope); BUFFER: `offen`, `idxen`, `tfe`

    `pair` is the second (Y) half of a VOPD; both halves carry the address and size of the whole and read
    all their sources before either writes.
    """

    address: int
    size: int
    mnemonic: str
    encoding: Encoding
    dst: tuple[Operand, ...] = ()
    src: tuple[Operand, ...] = ()
    mods: Mapping[str, int] = field(default_factory=dict, hash=False)
    pair: Inst | None = None

    @property
    def target(self) -> int:
        """Byte address a relative branch (or s_call_b64) goes to; meaningless for other instructions."""
        return self.address + 4 + 4 * self.mods.get("simm16", 0)

    @property
    def text(self) -> str:
        """LLVM assembler text that assembles back to the same bytes (16-bit operands as .l/.h)."""
        from zluda_rr.emulate.gfx12.text import format_inst

        return format_inst(self)
