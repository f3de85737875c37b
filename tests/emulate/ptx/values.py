"""Random operand bits in which special values are frequent."""

from __future__ import annotations

import numpy as np

from tests.emulate.ptx.harness import Slots, register_bits

_HALVES = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3C01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]
_HALVES += [0x5F00, 0xDF00, 0x5F01, 0x5F40, 0x1400, 0x1000, 0x0C00]
_SINGLES = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x7F7FFFFF, 0xFF7FFFFF]
_SINGLES += [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001]
_SINGLES += [0x4B000000, 0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0x43000000, 0xC3000000, 0x3F000000, 0xBFC00000]
_DOUBLES = [0, 1 << 63, 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000]
_DOUBLES += [0xFFF0000000000000, 0x7FF8000000000000, 0x3FF0020000000000, 0x3FF0020000000001, 0x40EFFC0000000000]
_DOUBLES += [0x36A0000000000000, 0x3690000000000001, 0x43E0000000000000, 0xC3E0000000000000, 0x41E0000000000000]


def operands(types: tuple[str, ...], count: int, seed: int) -> Slots:
    """Raw bits [count, operands] in 8-byte slots."""
    rng = np.random.default_rng(seed)
    columns = [_column(name, count, rng) for name in types]
    if len(types) > 1 and types[0] == types[1]:
        columns[1][::7] = columns[0][::7]  # equal operands now and then
    return np.stack(columns, axis=1).astype(np.uint64)


def _column(name: str, count: int, rng: np.random.Generator) -> Slots:
    if name == "pred":
        return rng.integers(0, 2, count).astype(np.uint64)
    if name == "f16x2":
        return _column("f16", count, rng) | (_column("f16", count, rng) << np.uint64(16))
    bits = register_bits(name)
    anything = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    special = np.array(_specials(name, bits), dtype=np.uint64)[rng.integers(0, len(_specials(name, bits)), count)]
    middling = _middling(name, count, rng)
    kind = rng.integers(0, 3, count)
    chosen = np.where(kind == 0, anything, np.where(kind == 1, special, middling))
    return chosen & np.uint64((1 << bits) - 1)


def _specials(name: str, bits: int) -> list[int]:
    floats = {"f16": _HALVES, "f32": _SINGLES, "f64": _DOUBLES}
    if name in floats:
        return floats[name]
    top = 1 << bits
    return [0, 1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 63, 64, 255, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]


def _middling(name: str, count: int, rng: np.random.Generator) -> Slots:
    """Floats of ordinary size, small integers."""
    values = rng.normal(0, 3, count)
    if name == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    if name == "f32":
        return values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if name == "f64":
        return values.view(np.uint64)
    return rng.integers(-40, 40, count).astype(np.uint64)
