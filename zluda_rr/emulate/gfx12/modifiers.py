"""Everything of an instruction that is not an operand: offsets, DPP controls, packed selectors, immediates."""

from __future__ import annotations

from collections.abc import Callable

from zluda_rr.emulate.gfx12.encodings import DPP8, DPP8_FI
from zluda_rr.emulate.gfx12.inst import Encoding
from zluda_rr.emulate.gfx12.opcodes import Signature

__all__ = ["BYTE_SEL_DST", "BYTE_SEL_SRC", "has_signed_immediate", "memory_mods", "scalar_mods", "vector_mods"]

Mods = Callable[[int, int | None], dict[str, int]]
"""Instruction bits and the DPP dword, if any, to the mods."""

BYTE_SEL_SRC = frozenset({"v_cvt_f32_fp8", "v_cvt_f32_bf8"})
BYTE_SEL_DST = frozenset({"v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32"})
_SIGNED = ("s_branch", "s_cbranch_", "s_call_", "s_movk_", "s_cmovk_", "s_addk_", "s_mulk_")


def has_signed_immediate(mnemonic: str) -> bool:
    """Whether simm16 of that SOPP/SOPK instruction is a signed number (offsets in dwords, integers)."""
    return mnemonic.startswith(_SIGNED)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _nothing(bits: int, dpp: int | None) -> dict[str, int]:
    return {}


def scalar_mods(signature: Signature) -> Mods:
    """`simm16` of SOPP/SOPK; `offset`, `cpol` and `length` of SMEM."""
    if signature.encoding is Encoding.SMEM:
        prefetch = any(spec.field == "length" for spec in signature.operands)

        def read_smem(bits: int, dpp: int | None) -> dict[str, int]:
            mods = {"offset": _signed(bits >> 32 & 0xFFFFFF, 24)}
            cpol = (bits >> 23 & 3) | (bits >> 21 & 3) << 3
            if cpol:
                mods["cpol"] = cpol
            if prefetch:
                mods["length"] = bits >> 6 & 0x7F
            return mods

        return read_smem if signature.operands else _nothing
    if not any(spec.field == "simm16" for spec in signature.operands):
        return _nothing
    if has_signed_immediate(signature.mnemonic):
        return lambda bits, dpp: {"simm16": _signed(bits & 0xFFFF, 16)}
    return lambda bits, dpp: {"simm16": bits & 0xFFFF}


def dpp_mods(dpp: int, code: int) -> dict[str, int]:
    """Mods of the DPP dword; `code` is the src0 code that announced it."""
    if code in (DPP8, DPP8_FI):
        return {"dpp8": dpp >> 8, "fi": code - DPP8}
    return {
        "dpp_ctrl": dpp >> 8 & 0x1FF,
        "row_mask": dpp >> 28,
        "bank_mask": dpp >> 24 & 15,
        "bound_ctrl": dpp >> 19 & 1,
        "fi": dpp >> 18 & 1,
    }


def vector_mods(signature: Signature) -> Mods:
    """clamp, omod, op_sel and friends of VOP3, VOP3SD, VOP3P, and DPP of all vector formats."""
    encoding = signature.encoding
    if encoding in (Encoding.VOP1, Encoding.VOP2, Encoding.VOPC):
        return lambda bits, dpp: {} if dpp is None else dpp_mods(dpp, bits & 0x1FF)
    if encoding is Encoding.VOP3P:
        return _packed_mods
    mnemonic = signature.mnemonic

    def read(bits: int, dpp: int | None) -> dict[str, int]:
        mods = {} if dpp is None else dpp_mods(dpp, bits >> 32 & 0x1FF)
        if bits >> 15 & 1:
            mods["clamp"] = 1
        if bits >> 59 & 3:
            mods["omod"] = bits >> 59 & 3
        selector = bits >> 11 & 15
        if selector and encoding is Encoding.VOP3:
            if mnemonic in BYTE_SEL_SRC:
                mods["byte_sel"] = (selector & 1) << 1 | selector >> 1 & 1
            elif mnemonic in BYTE_SEL_DST:
                mods["byte_sel"] = selector >> 2
            else:
                mods["op_sel"] = selector
        return mods

    return read


def _packed_mods(bits: int, dpp: int | None) -> dict[str, int]:
    mods = {} if dpp is None else dpp_mods(dpp, bits >> 32 & 0x1FF)
    mods["op_sel"] = bits >> 11 & 7
    mods["op_sel_hi"] = (bits >> 59 & 3) | (bits >> 14 & 1) << 2
    mods["neg_lo"] = bits >> 61 & 7
    mods["neg_hi"] = bits >> 8 & 7
    if bits >> 15 & 1:
        mods["clamp"] = 1
    return mods


def memory_mods(signature: Signature) -> Mods:
    """Offsets and cache policy of DS, GLOBAL, FLAT, SCRATCH and BUFFER; nothing for the scalar ALU."""
    encoding = signature.encoding
    if encoding is Encoding.DS:
        if "2addr" in signature.mnemonic:
            return lambda bits, dpp: {"offset0": bits & 255, "offset1": bits >> 8 & 255}
        return lambda bits, dpp: {"offset": bits & 0xFFFF}
    if encoding not in (Encoding.GLOBAL, Encoding.FLAT, Encoding.SCRATCH, Encoding.BUFFER):
        return _nothing
    is_buffer = encoding is Encoding.BUFFER

    def read(bits: int, dpp: int | None) -> dict[str, int]:
        mods = {"offset": _signed(bits >> 72 & 0xFFFFFF, 24)}
        cpol = (bits >> 52 & 7) | (bits >> 50 & 3) << 3
        if cpol:
            mods["cpol"] = cpol
        if is_buffer:
            mods |= {"offen": bits >> 62 & 1, "idxen": bits >> 63 & 1, "tfe": bits >> 22 & 1}
        return mods

    return read
