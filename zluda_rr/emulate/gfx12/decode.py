"""gfx12 machine code to `Inst`.

An encoding outside the opcode table is an error with its address and dwords, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from zluda_rr.emulate.gfx12.elf import CodeObject, Kernel
from zluda_rr.emulate.gfx12.encodings import FORMATS, LITERAL, format_of
from zluda_rr.emulate.gfx12.image_forms import IMAGE_FORMATS, decode_image
from zluda_rr.emulate.gfx12.inst import Encoding, Inst, Operand
from zluda_rr.emulate.gfx12.plan import DPP_CODES, DecodeError, Plan, Slot, plans

__all__ = ["DecodeError", "decode", "decode_program"]

_NO_MODS: Mapping[str, int] = MappingProxyType({})
_PADDING = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Family:
    """One format: dwords, opcode field and plans."""

    encoding: Encoding
    dwords: int
    low: int
    mask: int
    plans: Sequence[Plan | None]


@cache
def _families() -> Sequence[_Family | None]:
    """Families by the top nine bits of the first dword."""
    built = {
        encoding: _Family(encoding, f.size // 4, f.opcode[0], (1 << f.opcode[1]) - 1, plans(str(encoding)))
        for encoding, f in FORMATS.items()
    }
    encodings = [format_of(top << 23) for top in range(512)]
    return tuple(built[encoding] if encoding is not None else None for encoding in encodings)


def decode(data: bytes | memoryview, offset: int, address: int) -> Inst:
    """Decode the instruction at `data[offset:]`, which lies at `address`.

    Raises DecodeError for anything that is not a known gfx1201 instruction.
    """
    window = bytes(data[offset : offset + 16])
    words = [int.from_bytes(window[i : i + 4], "little") for i in range(0, len(window) & ~3, 4)]
    return _decode_at(words, 0, address)


def _decode_at(words: list[int], index: int, address: int) -> Inst:
    """Decode at `words[index]`, with the address in any error."""
    available = len(words) - index
    try:
        if available < 4:
            inst = _decode([*words[index:], *_PADDING], 0, address)
            if inst.size > 4 * available:
                raise DecodeError("the code ends inside this instruction")
            return inst
        return _decode(words, index, address)
    except DecodeError as error:
        shown = " ".join(f"{word:08x}" for word in words[index : index + 3])
        raise DecodeError(f"address {address:#x}: dwords {shown}: {error}") from None


def _decode(words: list[int], index: int, address: int) -> Inst:
    """Decode at `words[index]`; at least four words must follow."""
    bits = words[index]
    family = _families()[bits >> 23]
    if family is None:
        raise DecodeError("unknown encoding")
    dwords = family.dwords
    if dwords > 1:
        bits |= words[index + 1] << 32
        if dwords > 2:
            bits |= words[index + 2] << 64
    word = words[index + dwords]
    if family.encoding is Encoding.VOPD:
        return _decode_dual(bits, word, address)
    plan = family.plans[bits >> family.low & family.mask]
    if plan is None:
        raise DecodeError(f"unknown {family.encoding} opcode {bits >> family.low & family.mask:#x}")
    if family.encoding in IMAGE_FORMATS:
        return decode_image(plan.signature, bits, address)
    dpp = word if plan.src0 >= 0 and bits >> plan.src0 & 0x1FF in DPP_CODES else None
    literal = plan.has_literal or _has_literal(plan, bits)
    if dpp is not None and literal:
        raise DecodeError("both a literal and DPP")
    extra = 4 if literal or dpp is not None else 0
    return _build(plan, bits, word, dpp, address, plan.size + extra)


def _has_literal(plan: Plan, bits: int) -> bool:
    return any(bits >> low & mask == LITERAL for low, mask in plan.sources)


def _build(
    plan: Plan, bits: int, word: int, dpp: int | None, address: int, size: int, pair: Inst | None = None
) -> Inst:
    signature = plan.signature
    if bits & plan.modifiers or dpp is not None:
        dst = tuple([slot.read(bits, word, dpp) for slot in plan.dst])
        src = tuple([slot.read(bits, word, dpp) for slot in plan.src])
        mods: Mapping[str, int] = plan.all_mods(bits, dpp)
    else:
        dst, src = _look_up(plan.dst, bits, word), _look_up(plan.src, bits, word)
        mods = _NO_MODS if plan.mods is None else plan.mods(bits, None)
    if plan.optional_dst and not bits >> 52 & 1:
        dst = ()
    return Inst(address, size, signature.mnemonic, signature.encoding, dst, src, mods, pair)


def _look_up(slots: tuple[Slot, ...], bits: int, word: int) -> tuple[Operand, ...]:
    found = []
    for slot in slots:
        operand = slot.table[bits >> slot.low & slot.mask]
        found.append(slot.read(bits, word, None) if operand is None else operand)
    return tuple(found)


def _decode_dual(bits: int, word: int, address: int) -> Inst:
    """Both halves of VOPD; a literal is shared."""
    x_code, y_code = bits >> 22 & 15, bits >> 17 & 31
    x, y = plans("VOPDX")[x_code], plans("VOPDY")[y_code]
    if x is None or y is None:
        raise DecodeError(f"unknown VOPD opcodes {x_code:#x}, {y_code:#x}")
    literal = x.has_literal or y.has_literal or _has_literal(x, bits) or _has_literal(y, bits)
    size = x.size + 4 * literal
    second = _build(y, bits, word, None, address, size)
    return _build(x, bits, word, None, address, size, second)


def decode_program(code_object: CodeObject, kernel: Kernel | None = None) -> dict[int, Inst]:
    """Every instruction of all functions of the code object by address, in address order.

    Functions are the ELF function symbols; what lies between them is padding. With `kernel` given, a kernel
    entry without a sized symbol is an error instead of being skipped.
    """
    program: dict[int, Inst] = {}
    for function in code_object.functions:
        data = memoryview(code_object.read(function.address, function.size & ~3)).cast("I")
        words = data.tolist()
        index = 0
        while index < len(words):
            inst = _decode_at(words, index, function.address + 4 * index)
            program[inst.address] = inst
            index += inst.size >> 2
    if kernel is not None and kernel.entry not in program:
        raise DecodeError(f"kernel {kernel.name}: no code at its entry {kernel.entry:#x}")
    return program
