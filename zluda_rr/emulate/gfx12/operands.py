"""Source and destination codes of gfx12 instructions to operands.

Source: AMD "RDNA4" Instruction Set Architecture, 7.1 (operand codes) and 7.1.3 (constants); how a constant
is read by 16-bit and packed operands follows LLVM (AMDGPUBaseInfo, getInlineEncodingV216): floats are f16
for f16 operands and f32 bits for integer ones, integers are sign extended.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from zluda_rr.emulate.gfx12.encodings import LITERAL
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special, Type

__all__ = ["INLINE_FLOATS", "OFF", "literal_operand", "scalar_register", "source_operand", "vgpr"]

INLINE_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.15915494309189535)
"""Values of the codes 240 to 248; the last is 1/(2*pi), which LLVM writes 0.15915494."""
FIRST_FLOAT = 240
OFF = Operand(Kind.OFF)

_F16_INVERSE_2PI, _BF16_INVERSE_2PI = 0x3118, 0x3E22
_HALF = frozenset({Type.F16, Type.B16, Type.BF16})


@lru_cache(maxsize=8192)
def vgpr(index: int, width: int = 1, kind: Type = Type.B32, half: int | None = None) -> Operand:
    """A vector register operand."""
    return Operand(Kind.VGPR, index, 0, width, kind, half=half)


@lru_cache(maxsize=2048)
def scalar_register(code: int, width: int = 1, kind: Type = Type.B32) -> Operand | None:
    """Operand of a scalar register code (0 to 127), None when there is no such register."""
    if code < 106:
        return Operand(Kind.SGPR, code, 0, width, kind)
    if 108 <= code < 124:
        return Operand(Kind.TTMP, code - 108, 0, width, kind)
    if code in (106, 107, 124, 125, 126, 127):
        return Operand(Kind.SPECIAL, code, 0, width, kind)
    return None


def _float_bits(index: int, kind: Type) -> int:
    value = INLINE_FLOATS[index]
    if kind in (Type.F16, Type.PK_F16):
        return _F16_INVERSE_2PI if index == 8 else int(struct.unpack("<H", struct.pack("<e", value))[0])
    if kind in (Type.F64, Type.B64):
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if kind in (Type.BF16, Type.PK_BF16):
        return bits >> 16
    return bits & 0xFFFF if kind is Type.B16 else bits


@lru_cache(maxsize=8192)
def source_operand(code: int, width: int, kind: Type) -> Operand | None:
    """Operand of a 9-bit source code other than a literal; None when the code means nothing on gfx12."""
    if code >= 256:
        return Operand(Kind.VGPR, code - 256, 0, width, kind)
    if code < 128:
        return scalar_register(code, width, kind)
    if code <= 208:
        value = code - 128 if code <= 192 else 192 - code
        bits = 64 if kind in (Type.B64, Type.F64) else 16 if kind in _HALF else 32
        return Operand(Kind.INT, code, value & ((1 << bits) - 1), width, kind)
    if FIRST_FLOAT <= code < FIRST_FLOAT + len(INLINE_FLOATS):
        return Operand(Kind.FLOAT, code, _float_bits(code - FIRST_FLOAT, kind), width, kind)
    if code in (235, 236, 237, 238, 251, 252, 253):
        return Operand(Kind.SPECIAL, int(Special(code)), 0, width, kind)
    return None


def literal_operand(literal: int, width: int, kind: Type, *, signed: bool) -> Operand:
    """Operand of the literal dword; `signed` sign extends a 64-bit integer.

    For 16-bit types the value keeps the whole dword, of which the low half counts: LLVM sign extends some.
    """
    if kind is Type.F64:
        value = literal << 32
    elif kind is Type.B64 and signed and literal >> 31:
        value = literal | 0xFFFFFFFF_00000000
    else:
        value = literal
    return Operand(Kind.LITERAL, LITERAL, value, width, kind)
