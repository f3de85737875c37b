"""Matrix multiplies of f16, bf16 and integers: v_wmma_{f32,f16,bf16,i32}_16x16x{16,32}_* of wave32.

Layouts as in `execute_wmma`: lane l with r = l & 15 and h = l >> 4 holds of A row r and of B column r the
elements k = n*h .. n*h + n - 1 in order, n the elements per lane; of C and D column r, row i + 8h in element i
(two elements per VGPR where they have 16 bits). EXEC is ignored. Float products are exact in f32 or f64; the
order of the additions is the accumulation model of the run, and 16-bit results are rounded once at the end.
Source: AMD "RDNA4" Instruction Set Architecture, 7.9 (matrix operations).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.execute_wmma import accumulator_of_matrix, matrix_of_accumulator
from zluda_rr.emulate.gfx12.floats import bf16_to_float, round_bf16
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.machine import Variant
from zluda_rr.emulate.gfx12.table import Build
from zluda_rr.numerics.f16 import half_to_float
from zluda_rr.numerics.mma import wmma_k16

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Element:
    """How a matrix element is held: bits and the f32 (or int64) value of raw unsigned elements."""

    bits: int
    value: Callable[[Array], Array]


def _raw_of(registers: Array, bits: int) -> Array:
    """`uint32[count, waves, 32]` to raw elements `[waves, 16 rows, k]`."""
    count, waves, _ = registers.shape
    words = np.ascontiguousarray(registers.transpose(1, 2, 0))  # [waves, lane, dword]
    if bits == 4:
        raw = words.view(np.uint8)
        raw = np.stack([raw & 15, raw >> 4], axis=-1)
    else:
        raw = words.view(f"u{bits // 8}")
    per_lane = count * 32 // bits
    return raw.reshape(waves, 2, 16, per_lane).transpose(0, 2, 1, 3).reshape(waves, 16, 2 * per_lane)


def _registers(b: Binder, op: Operand) -> Array:
    return b.machine.vgpr[op.index : op.index + op.width]


def _modified(b: Binder, matrix: Array, index: int) -> Array:
    """Float sources: neg_lo and neg_hi negate the even and the odd k; of C, neg_hi is the magnitude."""
    low, high = b.inst.mods["neg_lo"] >> index & 1, b.inst.mods["neg_hi"] >> index & 1
    if index == 2:
        matrix = np.abs(matrix) if high else matrix
        return -matrix if low else matrix
    if not low and not high:
        return matrix
    signs = np.where(np.arange(matrix.shape[-1]) & 1, -1.0 if high else 1.0, -1.0 if low else 1.0)
    result: Array = matrix * signs.astype(matrix.dtype)
    return result


def _seed(b: Binder, decode: Callable[[Array], Array] | None) -> Callable[[], Array]:
    """C as f32 or int32 `[waves, 16, 16]`; `decode` reads 16-bit elements."""
    op = b.inst.src[2]
    if op.is_constant:
        word = np.array(op.value & 0xFFFF_FFFF, dtype=np.uint32)
        value = word if decode is None else decode(word.astype(np.uint16))
        constant = np.broadcast_to(value, (b.machine.waves, 16, 16))
        return lambda: constant
    block = _registers(b, op)
    if decode is None:
        return lambda: matrix_of_accumulator(np.ascontiguousarray(block.transpose(1, 0, 2)))
    return lambda: matrix_of_accumulator(_unpacked(decode, block))


def _unpacked(decode: Callable[[Array], Array], block: Array) -> Array:
    """4 registers of pairs to `[waves, 8, 32]`."""
    words = np.ascontiguousarray(block.transpose(1, 2, 0))
    return decode(words.view(np.uint16)).transpose(0, 2, 1)


def _packed(halves: Array) -> Array:
    """`uint16[waves, 8, 32]` to `uint32[4, waves, 32]`."""
    pairs = np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint32)
    return pairs.transpose(2, 0, 1)


def _commit(b: Binder) -> Callable[[Array], None]:
    out = _registers(b, b.inst.dst[0])
    active, partial_waves = b.machine.active, b.variant is Variant.WAVES

    def commit(words: Array) -> None:
        if partial_waves:
            np.copyto(out, words, where=active[None, :, None])
        else:
            np.copyto(out, words)

    return commit


def _float(element: _Element, narrow: Callable[[Array], Array] | None) -> Build:
    """f16 or bf16 operands; `narrow` rounds results to 16 bits, None keeps f32."""

    def build(b: Binder) -> None:
        left, right = (_registers(b, op) for op in b.inst.src[:2])
        decode = None if narrow is None else element.value
        seed, commit, model = _seed(b, decode), _commit(b), b.machine.model

        def act() -> None:
            rows = _modified(b, element.value(_raw_of(left, element.bits)), 0)
            columns = _modified(b, element.value(_raw_of(right, element.bits)), 1)
            c = seed()
            c = _modified(b, c.view(np.float32) if c.dtype == np.uint32 else c, 2)
            with np.errstate(all="ignore"):
                products = rows[:, :, None, :] * columns[:, None, :, :]
            result = accumulator_of_matrix(wmma_k16(products, c, model))
            if narrow is None:
                commit(result.view(np.uint32).transpose(1, 0, 2))
            else:
                commit(_packed(narrow(result)))

        b.act.append(act)

    return build


def _integer(bits: int) -> Build:
    """iu8 and iu4: neg_lo says which operand is signed; clamp saturates the 32-bit sums."""

    def build(b: Binder) -> None:
        left, right = (_registers(b, op) for op in b.inst.src[:2])
        signs = [b.inst.mods["neg_lo"] >> index & 1 for index in range(2)]
        clamps = bool(b.inst.mods.get("clamp"))
        seed, commit = _seed(b, None), _commit(b)

        def values(registers: Array, signed: int) -> Array:
            raw = _raw_of(registers, bits).astype(np.int64)
            half = 1 << (bits - 1)
            return (raw ^ half) - half if signed else raw

        def act() -> None:
            rows, columns = values(left, signs[0]), values(right, signs[1])
            total = rows @ columns.swapaxes(-1, -2) + seed().view(np.int32)
            if clamps:
                total = np.clip(total, -(2**31), 2**31 - 1)
            words = (total & 0xFFFF_FFFF).astype(np.uint32)
            commit(accumulator_of_matrix(words).transpose(1, 0, 2))

        b.act.append(act)

    return build


def _to_f16_bits(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return x.astype(np.float16).view(np.uint16)


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    half, brain = _Element(16, half_to_float), _Element(16, bf16_to_float)
    return {
        "v_wmma_f32_16x16x16_f16": _float(half, None),
        "v_wmma_f32_16x16x16_bf16": _float(brain, None),
        "v_wmma_f16_16x16x16_f16": _float(half, _to_f16_bits),
        "v_wmma_bf16_16x16x16_bf16": _float(brain, round_bf16),
        "v_wmma_i32_16x16x16_iu8": _integer(8),
        "v_wmma_i32_16x16x16_iu4": _integer(4),
        "v_wmma_i32_16x16x32_iu4": _integer(4),
    }
