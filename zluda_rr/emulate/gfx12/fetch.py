"""Operands as numpy arrays: what a compiled instruction reads, resolved once per instruction.

A source becomes an array that holds its value whenever the instruction runs: a view of the register file where
that suffices, else a work array that a step in `prepare` fills. Vector sources broadcast to `[waves, 32]`
(scalars are `[waves, 1]`, constants 0-d), scalar sources to `[waves]`.

Letters name the view of an operand: `u i f` 32-bit unsigned, signed, float; `w s` 16-bit unsigned, signed;
`h` an f16 as the f32 of the same value; `q l d` 64-bit unsigned, signed, float; `b` a lane mask as booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.floats import flush_f16, flush_f32
from zluda_rr.emulate.gfx12.inst import Inst, Kind, Operand, Special
from zluda_rr.emulate.gfx12.lanes import Exchange, exchange
from zluda_rr.emulate.gfx12.machine import (
    FIRST_TTMP,
    LANES,
    PRIVATE_APERTURE,
    SCC_ROW,
    SHARED_APERTURE,
    EmulationError,
    Machine,
    Variant,
)

Array = NDArray[Any]
Step = Callable[[], object]

DTYPES = {"u": "u4", "i": "i4", "f": "f4", "w": "u2", "s": "i2", "q": "u8", "l": "i8", "d": "f8"}
_SIGN: dict[str, Any] = {"f": np.uint32(0x8000_0000), "h": np.uint32(0x8000_0000), "d": np.uint64(1 << 63)}
_APERTURES = {
    Special.SHARED_BASE: SHARED_APERTURE << 32,
    Special.SHARED_LIMIT: SHARED_APERTURE << 32 | 0xFFFF_FFFF,
    Special.PRIVATE_BASE: PRIVATE_APERTURE << 32,
    Special.PRIVATE_LIMIT: PRIVATE_APERTURE << 32 | 0xFFFF_FFFF,
}


class Fetch:
    """Source operands of one instruction for one variant of the instruction stream."""

    def __init__(self, machine: Machine, inst: Inst, variant: Variant, *, slot: int = 0) -> None:
        self.machine = machine
        self.inst = inst
        self.variant = variant
        self.prepare: list[Step] = []
        self.snapshot = False
        """Copy VGPR sources in `prepare`, so that the other half of a VOPD may overwrite the registers."""
        self.exchange: Exchange | None = exchange(inst.mods)
        self.write_mask: Array | None = None
        """Lanes that DPP lets the instruction write, where that is not simply EXEC."""
        self._slot = slot
        self._halves = machine.halves

    def work(self, shape: tuple[int, ...], dtype: str) -> Array:
        """A work array of this instruction's own."""
        self._slot += 1
        return self.machine.pool.get(self._slot, shape, dtype)

    def vector(self, index: int, letter: str) -> Array:
        """Source `index` per lane. DPP applies to source 0."""
        return self.operand(self.inst.src[index], letter, moved=index == 0)

    def vectors(self, letters: str) -> tuple[Array, ...]:
        """The first sources, one letter each."""
        return tuple(self.vector(index, letter) for index, letter in enumerate(letters))

    def operand(self, op: Operand, letter: str, *, moved: bool = False) -> Array:
        """Any operand (a destination that is also read, say) per lane."""
        if letter == "b":
            return self._lane_flags(op)
        if letter in "qld":
            value = self._wide(op).view(DTYPES[letter])[..., 0]
        elif letter in "ws":
            value = self._half(op, moved).view(DTYPES[letter])
        elif letter == "h":
            value = self._half_as_float(op, moved)
        else:
            value = self._word(op, moved).view(DTYPES[letter])
        return self._modified(value, op, letter) if letter in "fhd" else value

    def scalar(self, index: int, letter: str) -> Array:
        """Source `index` per wave: `[waves]`, or 0-d for a constant."""
        return self.scalar_operand(self.inst.src[index], letter)

    def scalar_operand(self, op: Operand, letter: str) -> Array:
        if letter in "qld":
            return self._wide(op, scalar=True).view(DTYPES[letter])[..., 0]
        word = self._scalar_word(op)
        if letter in "wsh":
            low = _half_of(word, op.half or 0)
            return self._table(low) if letter == "h" else low.view(DTYPES[letter])
        value = word.view(DTYPES[letter])
        return self._modified(value, op, letter) if letter == "f" else value

    def row(self, op: Operand) -> int:
        """Row of a scalar register in the scalar file."""
        if op.kind is Kind.SGPR:
            return op.index
        if op.kind is Kind.TTMP:
            return FIRST_TTMP + op.index
        if op.kind is Kind.SPECIAL:
            if op.index == Special.SCC:
                return SCC_ROW
            if op.index <= Special.EXEC_HI:
                return op.index
        raise EmulationError(f"operand {op.kind} {op.index} is no scalar register")

    def registers(self, op: Operand, count: int) -> list[Array]:
        """`count` consecutive VGPRs as `uint32[waves, 32]`."""
        if op.kind is not Kind.VGPR:
            raise EmulationError(f"operand {op.kind} {op.index} is no vector register")
        return [self.machine.vgpr[op.index + i] for i in range(count)]

    def _scalar_word(self, op: Operand) -> Array:
        if op.is_constant:
            return np.array(op.value & 0xFFFF_FFFF, dtype=np.uint32)
        if op.kind is Kind.SPECIAL and op.index in _APERTURES:
            return np.array(_APERTURES[Special(op.index)] >> 32, dtype=np.uint32)
        return np.asarray(self.machine.sgpr[self.row(op)])

    def _word(self, op: Operand, moved: bool) -> Array:
        """32 bits per lane, after DPP."""
        if op.kind is not Kind.VGPR:
            word = self._scalar_word(op)
            return word.reshape(-1, 1) if word.ndim else word
        register = self.machine.vgpr[op.index]
        if moved and self.exchange is not None:
            return self._exchanged(register, self.exchange)
        if self.snapshot:
            copy = self.work(register.shape, "u4")
            self.prepare.append(partial(np.copyto, copy, register))
            return copy
        return np.asarray(register)

    def _half(self, op: Operand, moved: bool) -> Array:
        return _half_of(self._word(op, moved), op.half or 0)

    def _half_as_float(self, op: Operand, moved: bool) -> Array:
        return self._table(self._half(op, moved))

    def _table(self, half: Array) -> Array:
        """f32 of f16 bits. Halves cover all of the index range, so `wrap` never wraps."""
        if not half.ndim:
            return np.array(self._halves[int(half)])
        value = self.work(half.shape, "f4")
        self.prepare.append(partial(self._halves.take, half, out=value, mode="wrap"))
        return value

    def packed(self, op: Operand, letter: str, *, moved: bool = False) -> Array:
        """Both halves of a 32-bit operand, `[waves, 32, 2]` (or broadcasting to it), no modifiers applied."""
        word = self._word(op, moved)
        halves = np.asarray(word).view("u2").reshape(*word.shape, 2) if word.ndim else word.reshape(1).view("u2")
        return self._table(halves) if letter == "h" else halves.view(DTYPES[letter])

    def _wide(self, op: Operand, *, scalar: bool = False) -> Array:
        """Two dwords in the last axis."""
        if op.is_constant:
            return np.array([op.value], dtype=np.uint64).view(np.uint32)
        if op.kind is Kind.SPECIAL and op.index in _APERTURES:
            return np.array([_APERTURES[Special(op.index)]], dtype=np.uint64).view(np.uint32)
        machine = self.machine
        if op.kind is Kind.VGPR:
            parts: tuple[Array, Array] = (machine.vgpr[op.index], machine.vgpr[op.index + 1])
            pair = self.work((machine.waves, LANES, 2), "u4")
        else:
            row = self.row(op)
            high = machine.sgpr[row if row == Special.NULL else row + 1]
            parts = (machine.sgpr[row], high)
            pair = self.work((machine.waves, 2), "u4")
        self.prepare.append(partial(np.copyto, pair[..., 0], parts[0]))
        self.prepare.append(partial(np.copyto, pair[..., 1], parts[1]))
        return pair if scalar or op.kind is Kind.VGPR else pair.reshape(machine.waves, 1, 2)

    def _lane_flags(self, op: Operand) -> Array:
        """A 32-bit lane mask as booleans `[waves, 32]`."""
        if op.is_constant:
            bits = np.unpackbits(np.array([op.value], dtype="<u4").view(np.uint8), bitorder="little")
            return bits.view(np.bool_)
        row = self._scalar_word(op)
        waves = self.machine.waves
        flags = self.work((waves, LANES), "?")

        source = row.view(np.uint8).reshape(waves, 4)

        def unpack() -> None:
            bits = np.unpackbits(source, axis=1, bitorder="little")
            np.copyto(flags, bits.view(np.bool_))

        self.prepare.append(unpack)
        return flags

    def _modified(self, value: Array, op: Operand, letter: str) -> Array:
        """abs, then neg, then the flush of denormal inputs that MODE asks for."""
        sign = _SIGN[letter]
        word = f"u{value.dtype.itemsize}"
        for wanted, apply, mask in ((op.abs, np.bitwise_and, ~sign), (op.neg, np.bitwise_xor, sign)):
            if wanted:
                value = self.derive(partial(_bits, apply, mask, word), value)
        mode = self.machine.mode
        if letter == "f" and not mode.denorm_32 & 1:
            value = self.derive(flush_f32, value)
        if letter == "h" and not mode.denorm_16_64 & 1:
            value = self.derive(flush_f16, value)
        return value

    def derive(self, change: Callable[[Array], Array], value: Array) -> Array:
        """An array that holds `change(value)` whenever the instruction runs."""
        if not value.ndim:
            return np.asarray(change(value))
        changed = self.work(value.shape, value.dtype.str[1:])
        self.prepare.append(lambda: np.copyto(changed, change(value)))
        return changed

    def _exchanged(self, register: Array, move: Exchange) -> Array:
        """The register as DPP presents it; also settles `write_mask`."""
        moved = self.work(register.shape, "u4")
        self.prepare.append(partial(np.take, register, move.source, axis=1, out=moved, mode="wrap"))
        if move.is_total and (self.variant is Variant.FULL or move.fetch_inactive):
            return moved
        lanes = self.machine.lanes
        mask = self.write_mask = self.work(register.shape, "?")

        def settle() -> None:
            readable = move.inside if move.fetch_inactive else lanes[:, move.source] & move.inside
            np.multiply(moved, readable, out=moved)
            allowed = move.writes if move.zero_outside else readable & move.writes
            np.logical_and(lanes, allowed, out=mask)

        self.prepare.append(settle)
        return moved


def _half_of(word: Array, half: int) -> Array:
    """One 16-bit half of 32-bit words of any shape."""
    if not word.ndim:
        return np.array(int(word) >> 16 * half & 0xFFFF, dtype=np.uint16)
    return word.view("u2").reshape(*word.shape, 2)[..., half]


def _bits(apply: np.ufunc, mask: Array, word: str, value: Array) -> Array:
    result: Array = apply(value.view(word), mask).view(value.dtype)
    return result
