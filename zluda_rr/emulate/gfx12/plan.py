"""How the operands of each opcode are read: signatures of the opcode table turned into table lookups.

A field whose value decides the operand alone is one lookup in a shared table. Literals, DPP, source modifiers
and addresses with two meanings go through the field's `read` function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from zluda_rr.emulate.gfx12.encodings import DPP8, DPP8_FI, DPP16, FORMATS, LITERAL
from zluda_rr.emulate.gfx12.inst import Encoding, Kind, Operand, Special, Type
from zluda_rr.emulate.gfx12.modifiers import Mods, memory_mods, scalar_mods, vector_mods
from zluda_rr.emulate.gfx12.opcodes import OperandSpec, Signature, opcode_table
from zluda_rr.emulate.gfx12.operands import OFF, literal_operand, scalar_register, source_operand, vgpr

__all__ = ["DPP_CODES", "LONG", "SHORT", "DecodeError", "Plan", "plans"]

DPP_CODES = frozenset({DPP8, DPP8_FI, DPP16})
SHORT = frozenset({Encoding.VOP1, Encoding.VOP2, Encoding.VOPC})
LONG = frozenset({Encoding.VOP3, Encoding.VOP3SD, Encoding.VOP3P})
_VMEM = frozenset({Encoding.GLOBAL, Encoding.FLAT, Encoding.SCRATCH})
_VCC = Operand(Kind.SPECIAL, int(Special.VCC_LO))
_EXEC = Operand(Kind.SPECIAL, int(Special.EXEC_LO))
_NULL = int(Special.NULL)
_SOURCES = ("src0", "src1", "src2")
_SOURCE_FIELDS = frozenset({"ssrc0", "ssrc1", "src0", "src1", "src2", "srcx0", "srcy0"})
_IMMEDIATES = frozenset({"simm16", "ioffset", "length"})
_VOP3_MODIFIERS = 1 << 15 | 0xF << 11 | 7 << 8 | 3 << 59 | 7 << 61  # clamp, op_sel, abs, omod, neg
_VOP3SD_MODIFIERS = 1 << 15 | 3 << 59 | 7 << 61

Table = Sequence[Operand | None]
Reader = Callable[[int, int, int | None], Operand]
"""Instruction bits, the dword after them, and the same dword if it is a DPP dword, to the operand."""


class DecodeError(ValueError):
    """Machine code that is no known gfx1201 instruction; names the address and the dwords."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand: `table[bits >> low & mask]`, or `read` where that is None or modifiers are present."""

    low: int
    mask: int
    table: Table
    read: Reader


@dataclass(frozen=True, slots=True)
class Plan:
    """How to decode one opcode."""

    signature: Signature
    size: int
    dst: tuple[Slot, ...]
    src: tuple[Slot, ...]
    sources: tuple[tuple[int, int], ...]
    """(lowest bit, mask) of the fields that may announce a literal."""
    has_literal: bool
    optional_dst: bool
    modifiers: int
    """Bits that, when any is set, need every `read`; also when DPP is present."""
    mods: Mods | None
    """None when there are no mods without modifiers or DPP."""
    all_mods: Mods
    src0: int
    """Lowest bit of a src0 that may announce DPP, or -1."""


def _field(encoding: Encoding, name: str) -> tuple[int, int]:
    low, width = FORMATS[encoding].fields[name]
    return low, (1 << width) - 1


def _bad(what: str) -> Operand:
    raise DecodeError(what)


@cache
def _source_table(bits: int, width: int, kind: Type, half: str) -> Table:
    """Operands by source code; `half` is "", "short" (bit 7 of a VGPR number is the half) or "long" (half 0)."""
    table: list[Operand | None] = []
    for code in range(1 << bits):
        operand = source_operand(code, width, kind)
        if half == "short" and code >= 256:
            operand = vgpr(code & 127, 1, kind, code >> 7 & 1)
        elif half == "long" and operand is not None:
            operand = replace(operand, half=0)
        table.append(operand)
    return tuple(table)


@cache
def _vgpr_table(width: int, kind: Type, half: str) -> Table:
    if half == "short":
        return tuple(vgpr(code & 127, 1, kind, code >> 7) for code in range(256))
    return tuple(vgpr(code, width, kind, 0 if half else None) for code in range(256))


@cache
def _scalar_table(width: int, kind: Type, scale: int, *, off: bool) -> Table:
    codes = [code * scale for code in range(128)]
    return tuple(OFF if off and code == _NULL else scalar_register(code, width, kind) for code in codes)


def _source_slot(spec: OperandSpec, signature: Signature) -> Slot:
    """A field that may name any source, a literal or (src0) a DPP operand."""
    encoding = signature.encoding
    low, mask = _field(encoding, spec.field)
    kind, width = spec.type or Type.B32, spec.width
    signed = signature.mnemonic.endswith("_i64")
    half = "" if not spec.half else "short" if encoding in SHORT else "long"
    table = _source_table(mask.bit_length(), width, kind, half)
    if spec.type is None:
        raw: Table = tuple(Operand(Kind.INT, code, code, width) for code in range(mask + 1))
        return Slot(low, mask, raw, lambda bits, word, dpp: raw[bits >> low & mask] or _bad("raw"))

    def read(bits: int, word: int, dpp: int | None) -> Operand:
        value = bits >> low & mask
        if value == LITERAL:
            return literal_operand(word, width, kind, signed=signed)
        if dpp is not None and value in DPP_CODES:
            value = 256 + (dpp & 0xFF)
        return table[value] or _bad(f"source code {value}")

    return Slot(low, mask, table, read)


def _mix_slot(spec: OperandSpec, signature: Signature) -> Slot:
    """v_fma_mix: a source is f32 unless its op_sel_hi bit is set."""
    low, mask = _field(signature.encoding, spec.field)
    bit = {"src0": 59, "src1": 60, "src2": 14}[spec.field]
    single = _source_slot(replace(spec, type=Type.B32), signature).read
    half = _source_slot(replace(spec, type=Type.PK_F16), signature).read
    empty: Table = (None,) * (mask + 1)
    return Slot(low, mask, empty, lambda bits, word, dpp: (half if bits >> bit & 1 else single)(bits, word, dpp))


def _modified(operand: Operand, neg: int, absolute: int, half: int | None) -> Operand:
    o = operand
    return Operand(o.kind, o.index, o.value, o.width, o.type, bool(neg), bool(absolute), half)


def _with_modifiers(slot: Slot, spec: OperandSpec, signature: Signature) -> Slot:
    """VOP3: neg, abs and op_sel of a source; VOP1/2/C: neg and abs of the DPP16 dword."""
    encoding, plain = signature.encoding, slot.read
    position = _SOURCES.index("src1" if spec.field == "vsrc1" else spec.field)
    half, has_abs = spec.half, encoding is Encoding.VOP3

    def read_long(bits: int, word: int, dpp: int | None) -> Operand:
        absolute = bits >> (8 + position) & 1 if has_abs else 0
        selected = bits >> (11 + position) & 1 if half else None
        return _modified(plain(bits, word, dpp), bits >> (61 + position) & 1, absolute, selected)

    def read_short(bits: int, word: int, dpp: int | None) -> Operand:
        operand = plain(bits, word, dpp)
        if dpp is None or bits & 0x1FF != DPP16:
            return operand
        flags = dpp >> (20 + 2 * position) & 3
        return _modified(operand, flags & 1, flags >> 1, operand.half) if flags else operand

    return replace(slot, read=read_short if encoding in SHORT else read_long)


def _lookup(low: int, mask: int, table: Table, what: str) -> Slot:
    def read(bits: int, word: int, dpp: int | None) -> Operand:
        return table[bits >> low & mask] or _bad(f"{what} {bits >> low & mask}")

    return Slot(low, mask, table, read)


def _computed(read: Callable[[int], Operand]) -> Slot:
    return Slot(0, 0, (None,), lambda bits, word, dpp: read(bits))


def _constant(operand: Operand) -> Slot:
    return Slot(0, 0, (operand,), lambda bits, word, dpp: operand)


def _register_slot(spec: OperandSpec, signature: Signature) -> Slot:
    """A field that always names a register (or, for addresses, none)."""
    encoding, field, width, kind = signature.encoding, spec.field, spec.width, spec.type or Type.B32
    low, mask = _field(encoding, field)
    if field == "sbase":
        return _lookup(low, mask, _scalar_table(width, kind, 2, off=False), field)
    if field in ("sdst", "soffset", "saddr", "rsrc", "samp") or spec.scalar:
        off = encoding in _VMEM and field == "saddr"
        return _lookup(low, min(mask, 127), _scalar_table(width, kind, 1, off=off), "scalar register")
    if field == "vdsty":
        x_low, _ = _field(encoding, "vdstx")
        return _computed(lambda bits: vgpr((bits >> low & mask) << 1 | (~bits >> x_low & 1), 1, kind))
    half = "" if not spec.half else "short" if encoding in SHORT else "long"
    slot = _lookup(low, mask, _vgpr_table(width, kind, half), "vgpr")
    if half == "long":
        return replace(slot, read=lambda bits, word, dpp: vgpr(bits >> low & mask, 1, kind, bits >> 14 & 1))
    return slot


def _address_slot(signature: Signature) -> Slot:
    """vaddr: 64 bits without a scalar base, absent where the encoding says so."""
    encoding = signature.encoding
    low, mask = _field(encoding, "vaddr")
    if encoding is Encoding.SCRATCH:
        return _computed(lambda bits: vgpr(bits >> low & mask) if bits >> 49 & 1 else OFF)
    if encoding is Encoding.BUFFER:

        def read_buffer(bits: int) -> Operand:
            count = (bits >> 62 & 1) + (bits >> 63 & 1)
            return vgpr(bits >> low & mask, count, Type.B64 if count == 2 else Type.B32) if count else OFF

        return _computed(read_buffer)
    if encoding is Encoding.FLAT:
        return _lookup(low, mask, _vgpr_table(2, Type.B64, ""), "vgpr")

    def read(bits: int) -> Operand:
        index = bits >> low & mask
        return vgpr(index, 2, Type.B64) if bits & 0x7F == _NULL else vgpr(index)

    return _computed(read)


def _literal_slot(spec: OperandSpec) -> Slot:
    kind = spec.type or Type.B32
    return Slot(0, 0, (None,), lambda bits, word, dpp: literal_operand(word, 1, kind, signed=False))


def _slot(spec: OperandSpec, signature: Signature) -> Slot:
    if spec.field == "vcc":
        return _constant(_VCC)
    if spec.field == "literal":
        return _literal_slot(spec)
    if spec.field == "vaddr":
        return _address_slot(signature)
    if spec.field not in _SOURCE_FIELDS:
        slot = _register_slot(spec, signature)
    elif signature.mnemonic.startswith("v_fma_mix"):
        slot = _mix_slot(spec, signature)
    else:
        slot = _source_slot(spec, signature)
    modifiable = spec.field in _SOURCES or spec.field == "vsrc1"
    if modifiable and signature.encoding in SHORT | {Encoding.VOP3, Encoding.VOP3SD}:
        return _with_modifiers(slot, spec, signature)
    return slot


def _operands(signature: Signature) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    registers = [spec for spec in signature.operands if spec.field not in _IMMEDIATES]
    dst = [_slot(spec, signature) for spec in registers if spec.written]
    src = [_slot(spec, signature) for spec in registers if not spec.written]
    if signature.encoding is Encoding.FLAT:
        src.append(_constant(OFF))
    if signature.mnemonic.startswith("v_cmpx_"):
        dst.append(_constant(_EXEC))
    if signature.encoding is Encoding.BUFFER and "atomic" in signature.mnemonic:
        src.insert(0, dst[0])
    return tuple(dst), tuple(src)


def _mods(signature: Signature) -> tuple[Mods | None, Mods]:
    """Mods without and with modifier bits or DPP."""
    encoding = signature.encoding
    if encoding in SHORT or encoding in (Encoding.VOP3, Encoding.VOP3SD):
        return None, vector_mods(signature)
    if encoding is Encoding.VOP3P:
        return vector_mods(signature), vector_mods(signature)
    scalar = encoding in (Encoding.SOPP, Encoding.SOPK, Encoding.SMEM)
    mods = scalar_mods(signature) if scalar else memory_mods(signature)
    return mods, mods


def _plan(signature: Signature) -> Plan:
    encoding, specs = signature.encoding, signature.operands
    dst, src = _operands(signature)
    mods, all_mods = _mods(signature)
    announcing = [spec for spec in specs if spec.field in _SOURCE_FIELDS and spec.type is not None]
    modifiers = {Encoding.VOP3: _VOP3_MODIFIERS, Encoding.VOP3SD: _VOP3SD_MODIFIERS}.get(encoding, 0)
    takes_dpp = encoding in SHORT | LONG and any(spec.field == "src0" for spec in specs)
    return Plan(
        signature=signature,
        size=FORMATS[encoding].size,
        dst=dst,
        src=src,
        sources=tuple(_field(encoding, spec.field) for spec in announcing),
        has_literal=any(spec.field == "literal" for spec in specs),
        optional_dst=any(spec.optional for spec in specs),
        modifiers=modifiers,
        mods=mods,
        all_mods=all_mods,
        src0=_field(encoding, "src0")[0] if takes_dpp else -1,
    )


@cache
def plans(table: str) -> Sequence[Plan | None]:
    """Plans of one opcode table by opcode; VOP3 includes VOP3SD."""
    names = ("VOP3", "VOP3SD") if table == "VOP3" else (table,)
    found = {opcode: s for (name, opcode), s in opcode_table().items() if name in names}
    return tuple(_plan(found[opcode]) if opcode in found else None for opcode in range(1024))
