"""gfx12 machine code to `Inst`.

Every opcode's operand signature becomes a plan once (which bits, which operand constructor); decoding an
instruction runs its plan. An encoding outside the table is an error with its address and dwords, never a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from zluda_rr.emulate.gfx12.elf import CodeObject, Kernel
from zluda_rr.emulate.gfx12.encodings import DPP8, DPP8_FI, DPP16, FORMATS, LITERAL, format_of
from zluda_rr.emulate.gfx12.inst import Encoding, Inst, Kind, Operand, Special, Type
from zluda_rr.emulate.gfx12.modifiers import memory_mods, scalar_mods, vector_mods
from zluda_rr.emulate.gfx12.opcodes import OperandSpec, Signature, opcode_table
from zluda_rr.emulate.gfx12.operands import OFF, literal_operand, scalar_register, source_operand, vgpr

__all__ = ["DecodeError", "decode", "decode_program"]

_VCC = Operand(Kind.SPECIAL, int(Special.VCC_LO))
_EXEC = Operand(Kind.SPECIAL, int(Special.EXEC_LO))
_NULL = int(Special.NULL)
_SOURCES = ("src0", "src1", "src2")
_SCALAR_SOURCES = frozenset({"ssrc0", "ssrc1", "src0", "src1", "src2", "srcx0", "srcy0"})
_SCALARS = frozenset({"sdst", "soffset", "saddr"})
_DPP_CODES = frozenset({DPP8, DPP8_FI, DPP16})
_SHORT = frozenset({Encoding.VOP1, Encoding.VOP2, Encoding.VOPC})
_LONG = frozenset({Encoding.VOP3, Encoding.VOP3SD, Encoding.VOP3P})
_VMEM = frozenset({Encoding.GLOBAL, Encoding.FLAT, Encoding.SCRATCH})


class DecodeError(ValueError):
    """Machine code that is no known gfx1201 instruction; names the address and the dwords."""


@dataclass(slots=True)
class _Code:
    """One instruction being decoded: its bits and the dwords that may follow the base encoding."""

    bits: int
    literal: int
    dpp: int | None = None
    uses_literal: bool = False


Reader = Callable[[_Code], Operand]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read one opcode's operands."""

    signature: Signature
    size: int
    dst: tuple[Reader, ...]
    src: tuple[Reader, ...]
    optional_dst: bool
    has_literal: bool
    mods: Callable[[int, int | None], dict[str, int]]
    short_vector: bool


def _field(encoding: Encoding, name: str) -> tuple[int, int]:
    low, width = FORMATS[encoding].fields[name]
    return low, (1 << width) - 1


def _bad(what: str) -> Operand:
    raise DecodeError(what)


def _source_reader(spec: OperandSpec, signature: Signature) -> Reader:
    """A field that may name any source, a literal or (src0) a DPP operand."""
    encoding = signature.encoding
    low, mask = _field(encoding, spec.field)
    kind, width = spec.type or Type.B32, spec.width
    signed = signature.mnemonic.endswith("_i64")
    short_half = spec.half and encoding in _SHORT
    mix = signature.mnemonic.startswith("v_fma_mix")
    mix_bit = {"src0": 59, "src1": 60, "src2": 14}.get(spec.field, 0)
    raw = spec.type is None

    def read(code: _Code) -> Operand:
        value = code.bits >> low & mask
        if raw:
            return Operand(Kind.INT, value, value, width)
        wanted = Type.B32 if mix and not code.bits >> mix_bit & 1 else kind
        if value == LITERAL:
            code.uses_literal = True
            return literal_operand(code.literal, width, wanted, signed=signed)
        if code.dpp is not None and value in _DPP_CODES:
            value = 256 + (code.dpp & 0xFF)
        if short_half and value >= 256:
            return vgpr(value & 127, 1, kind, value >> 7 & 1)
        return source_operand(value, width, wanted) or _bad(f"source code {value}")

    return read


def _with_modifiers(read: Reader, spec: OperandSpec, signature: Signature) -> Reader:
    """VOP3: neg, abs and op_sel of a source; VOP1/2/C: neg and abs of the DPP dword."""
    encoding = signature.encoding
    position = _SOURCES.index("src1" if spec.field == "vsrc1" else spec.field)
    half = spec.half and encoding is Encoding.VOP3

    def read_long(code: _Code) -> Operand:
        operand = read(code)
        neg = code.bits >> (61 + position) & 1
        absolute = code.bits >> (8 + position) & 1 if encoding is Encoding.VOP3 else 0
        if neg or absolute or half:
            selected = code.bits >> (11 + position) & 1 if half else None
            return _modified(operand, bool(neg), bool(absolute), selected)
        return operand

    def read_short(code: _Code) -> Operand:
        operand = read(code)
        if code.dpp is None or code.bits & 0x1FF != DPP16:
            return operand
        flags = code.dpp >> (20 + 2 * position) & 3 if position < 2 else 0
        return replace(operand, neg=bool(flags & 1), abs=bool(flags & 2)) if flags else operand

    return read_short if encoding in _SHORT else read_long


def _modified(operand: Operand, neg: bool, absolute: bool, half: int | None) -> Operand:
    o = operand
    return Operand(o.kind, o.index, o.value, o.width, o.type, neg, absolute, half)


def _register_reader(spec: OperandSpec, signature: Signature) -> Reader:
    """A field that always names a register (or the two special address fields)."""
    encoding, field, width, kind = signature.encoding, spec.field, spec.width, spec.type or Type.B32
    low, mask = _field(encoding, field)
    if field == "sbase":
        return lambda code: scalar_register((code.bits >> low & mask) * 2, width, kind) or _bad("sbase")
    if field == "rsrc":
        return lambda code: scalar_register(code.bits >> low & 0xFF, width, kind) or _bad("rsrc")
    if field in _SCALARS or spec.scalar:
        off = encoding in _VMEM and field == "saddr"

        def read_scalar(code: _Code) -> Operand:
            value = code.bits >> low & mask
            if off and value == _NULL:
                return OFF
            return scalar_register(value, width, kind) or _bad(f"scalar register {value}")

        return read_scalar
    if field == "vdsty":
        x_low, _ = _field(encoding, "vdstx")
        return lambda code: vgpr((code.bits >> low & mask) << 1 | (~code.bits >> x_low & 1), 1, kind)
    if spec.half and encoding in _SHORT:
        return lambda code: vgpr(code.bits >> low & 127, 1, kind, code.bits >> (low + 7) & 1)
    if spec.half:
        return lambda code: vgpr(code.bits >> low & mask, 1, kind, code.bits >> 14 & 1)
    return lambda code: vgpr(code.bits >> low & mask, width, kind)


def _address_reader(spec: OperandSpec, signature: Signature) -> Reader:
    """vaddr: 64 bits without a scalar base, absent where the encoding says so."""
    encoding = signature.encoding
    low, mask = _field(encoding, "vaddr")
    if encoding is Encoding.SCRATCH:
        return lambda code: vgpr(code.bits >> low & mask) if code.bits >> 49 & 1 else OFF
    if encoding is Encoding.BUFFER:

        def read_buffer(code: _Code) -> Operand:
            count = (code.bits >> 62 & 1) + (code.bits >> 63 & 1)
            return vgpr(code.bits >> low & mask, count, Type.B32) if count else OFF

        return read_buffer
    if encoding is Encoding.FLAT:
        return lambda code: vgpr(code.bits >> low & mask, 2, Type.B64)

    def read(code: _Code) -> Operand:
        wide = code.bits & 0x7F == _NULL
        return vgpr(code.bits >> low & mask, 2 if wide else 1, Type.B64 if wide else Type.B32)

    return read


def _literal_reader(spec: OperandSpec) -> Reader:
    kind = spec.type or Type.B32

    def read(code: _Code) -> Operand:
        code.uses_literal = True
        return literal_operand(code.literal, 1, kind, signed=False)

    return read


def _reader(spec: OperandSpec, signature: Signature) -> Reader:
    if spec.field == "vcc":
        return lambda code: _VCC
    if spec.field == "literal":
        return _literal_reader(spec)
    if spec.field == "vaddr":
        return _address_reader(spec, signature)
    is_source = spec.field in _SCALAR_SOURCES
    read = _source_reader(spec, signature) if is_source else _register_reader(spec, signature)
    modifiable = spec.field in _SOURCES or spec.field == "vsrc1"
    if modifiable and signature.encoding in _SHORT | {Encoding.VOP3, Encoding.VOP3SD}:
        return _with_modifiers(read, spec, signature)
    return read


def _plan(signature: Signature) -> _Plan:
    encoding = signature.encoding
    registers = [s for s in signature.operands if s.field not in ("simm16", "ioffset", "length")]
    dst = [_reader(spec, signature) for spec in registers if spec.written]
    src = [_reader(spec, signature) for spec in registers if not spec.written]
    if encoding is Encoding.FLAT:
        src.append(lambda code: OFF)
    if signature.mnemonic.startswith("v_cmpx_"):
        dst.append(lambda code: _EXEC)
    if encoding is Encoding.BUFFER and "atomic" in signature.mnemonic:
        src.insert(0, dst[0])
    if encoding in (Encoding.SOPP, Encoding.SOPK, Encoding.SMEM):
        mods = scalar_mods(signature)
    elif encoding in _SHORT | _LONG:
        mods = vector_mods(signature)
    else:
        mods = memory_mods(signature)
    return _Plan(
        signature=signature,
        size=FORMATS[encoding].size,
        dst=tuple(dst),
        src=tuple(src),
        optional_dst=any(spec.optional for spec in signature.operands),
        has_literal=any(spec.field == "literal" for spec in signature.operands),
        mods=mods,
        short_vector=encoding in _SHORT,
    )


@cache
def _plans() -> Mapping[tuple[str, int], _Plan]:
    return {key: _plan(signature) for key, signature in opcode_table().items()}


@cache
def _formats() -> Mapping[Encoding, tuple[str, int, int, int]]:
    """Table name, size, lowest bit and mask of the opcode of each format."""
    return {e: (str(e), f.size, f.opcode[0], (1 << f.opcode[1]) - 1) for e, f in FORMATS.items()}


def decode(data: bytes | memoryview, offset: int, address: int) -> Inst:
    """Decode the instruction at `data[offset:]`, which lies at `address`.

    Raises DecodeError for anything that is not a gfx1201 compute instruction.
    """
    try:
        return _decode(bytes(data[offset : offset + 20]), address)
    except DecodeError as error:
        words = [data[i : i + 4][::-1].hex() for i in range(offset, min(offset + 12, len(data)), 4)]
        raise DecodeError(f"address {address:#x}: dwords {' '.join(words)}: {error}") from None


def _decode(window: bytes, address: int) -> Inst:
    if len(window) < 4:
        raise DecodeError("end of the code in an instruction")
    (first,) = struct.unpack_from("<I", window)
    encoding = format_of(first)
    if encoding is None:
        raise DecodeError("unknown encoding")
    name, size, opcode_low, opcode_mask = _formats()[encoding]
    bits = int.from_bytes(window[:size], "little")
    opcode = bits >> opcode_low & opcode_mask
    extra = int.from_bytes(window[size : size + 4], "little")
    if encoding is Encoding.VOPD:
        return _decode_dual(bits, extra, address, len(window))
    plan = _plans().get((name, opcode))
    if plan is None and encoding is Encoding.VOP3:
        plan = _plans().get(("VOP3SD", opcode))
    if plan is None:
        raise DecodeError(f"unknown {name} opcode {opcode:#x}")
    code = _Code(bits, extra)
    if encoding in _SHORT or encoding in _LONG:
        src0 = bits & 0x1FF if plan.short_vector else bits >> 32 & 0x1FF
        if src0 in _DPP_CODES:
            code.dpp = extra
    return _build(plan, code, address, len(window))


def _build(plan: _Plan, code: _Code, address: int, available: int, pair: Inst | None = None) -> Inst:
    signature = plan.signature
    dst = tuple([read(code) for read in plan.dst])
    src = tuple([read(code) for read in plan.src])
    if plan.optional_dst and not code.bits >> 52 & 1:
        dst = ()
    if code.uses_literal and code.dpp is not None:
        raise DecodeError("both a literal and DPP")
    size = plan.size + 4 * (code.uses_literal or code.dpp is not None)
    if size > available:
        raise DecodeError("end of the code in an instruction")
    mods = plan.mods(code.bits, code.dpp)
    return Inst(address, size, signature.mnemonic, signature.encoding, dst, src, mods, pair)


def _decode_dual(bits: int, extra: int, address: int, available: int) -> Inst:
    """Both halves of VOPD; a literal is shared."""
    code = _Code(bits, extra)
    x = _plans().get(("VOPDX", bits >> 22 & 15))
    y = _plans().get(("VOPDY", bits >> 17 & 31))
    if x is None or y is None:
        raise DecodeError(f"unknown VOPD opcodes {bits >> 22 & 15:#x}, {bits >> 17 & 31:#x}")
    code.uses_literal = LITERAL in (bits & 0x1FF, bits >> 32 & 0x1FF) or x.has_literal or y.has_literal
    second = _build(y, code, address, available)
    return _build(x, code, address, available, second)


def decode_program(code_object: CodeObject, kernel: Kernel | None = None) -> dict[int, Inst]:
    """Every instruction of all functions of the code object by address, in address order.

    Functions are the ELF function symbols; what lies between them is padding. With `kernel` given, a kernel
    entry without a sized symbol is an error instead of being skipped.
    """
    program: dict[int, Inst] = {}
    for function in code_object.functions:
        data = code_object.read(function.address, function.size)
        offset = 0
        while offset < len(data):
            inst = decode(data, offset, function.address + offset)
            program[inst.address] = inst
            offset += inst.size
    if kernel is not None and kernel.entry not in program:
        raise DecodeError(f"kernel {kernel.name}: no code at its entry {kernel.entry:#x}")
    return program
