"""FP8 matrix multiply: v_wmma_f32_16x16x16_{fp8,bf8}_{fp8,bf8} of wave32.

Layout (`numerics.layout`): lane l with r = l & 15 and h = l >> 4 holds
of A row r, of B column r, k = 8h + i in byte i of its two dwords; of C and D column r, row i + 8h in VGPR i.
The order of the additions is the accumulation model of the run (`numerics.mma`). EXEC is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.inst import Operand
from zluda_rr.emulate.gfx12.machine import LANES, Variant
from zluda_rr.emulate.gfx12.table import Build
from zluda_rr.numerics.e4m3 import decode_e5m2_to_float, decode_to_float
from zluda_rr.numerics.mma import wmma_16x16x16

Array = NDArray[Any]
ACCUMULATORS = 8


def matrix_of_operand(registers: Array, decode: Callable[[Array], Array]) -> Array:
    """`uint32[waves, 2, 32]` to f32 `[waves, 16 rows or columns, 16 k]`."""
    waves = registers.shape[0]
    # bytes [wave, dword, h, r, byte] -> [wave, r, h, dword, byte]
    codes = np.ascontiguousarray(registers).view(np.uint8).reshape(waves, 2, 2, 16, 4)
    return decode(codes.transpose(0, 3, 2, 1, 4).reshape(waves, 16, 16))


def matrix_of_accumulator(registers: Array) -> Array:
    """f32 `[waves, 8, 32]` to `[waves, 16 rows, 16 columns]`."""
    waves = registers.shape[0]
    return registers.reshape(waves, 8, 2, 16).transpose(0, 2, 1, 3).reshape(waves, 16, 16)


def accumulator_of_matrix(matrix: Array) -> Array:
    """Inverse of `matrix_of_accumulator`."""
    waves = matrix.shape[0]
    return matrix.reshape(waves, 2, 8, 16).transpose(0, 2, 1, 3).reshape(waves, 8, LANES)


def _accumulator(b: Binder, op: Operand) -> Callable[[], Array]:
    """C as a function giving `[waves, 16, 16]` (or broadcasting to it for an inline constant)."""
    mods = b.inst.mods
    negate, magnitude = mods.get("neg_lo", 0) >> 2 & 1, mods.get("neg_hi", 0) >> 2 & 1

    def modified(c: Array) -> Array:
        c = np.abs(c) if magnitude else c
        return -c if negate else c

    if op.is_constant:
        value = np.array(op.value & 0xFFFF_FFFF, dtype=np.uint32).view(np.float32)
        constant = modified(np.broadcast_to(value, (b.machine.waves, 16, 16)))
        return lambda: constant
    block = b.machine.vgpr[op.index : op.index + ACCUMULATORS].view(np.float32)
    return lambda: modified(matrix_of_accumulator(block.transpose(1, 0, 2)))


def _wmma(decode_a: Callable[[Array], Array], decode_b: Callable[[Array], Array]) -> Build:
    def build(b: Binder) -> None:
        machine = b.machine
        first, second, third = b.inst.src
        left, right = (machine.vgpr[op.index : op.index + 2].transpose(1, 0, 2) for op in (first, second))
        seed = _accumulator(b, third)
        target = b.inst.dst[0].index
        out = machine.vgpr[target : target + ACCUMULATORS]
        active, partial_waves = machine.active, b.variant is Variant.WAVES

        def act() -> None:
            rows, columns = matrix_of_operand(left, decode_a), matrix_of_operand(right, decode_b)
            product = wmma_16x16x16(rows, columns, seed(), machine.model)
            result = accumulator_of_matrix(product).view(np.uint32).transpose(1, 0, 2)
            if partial_waves:
                np.copyto(out, result, where=active[None, :, None])
            else:
                np.copyto(out, result)

        b.act.append(act)

    return build


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    decoders = {"fp8": decode_to_float, "bf8": decode_e5m2_to_float}
    return {f"v_wmma_f32_16x16x16_{a}_{c}": _wmma(decoders[a], decoders[c]) for a in decoders for c in decoders}
