"""Operands for the probes: adversarial values of every type, then random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zluda_rr.forms import Spelling
from zluda_rr.forms.probe import BITS, COLUMNS, FACT_BITS, PLACES, row_stride

Slots = NDArray[np.uint64]

_F16 = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7BFF, 0xFBFF,
    0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFDFF, 0x3800, 0xB800, 0x3E00, 0x4100, 0xC100, 0x57F8, 0x6400, 0x7800,
]  # fmt: skip
_F32 = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000,
    0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
    0x7F800001, 0xFFBFFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x4B000000, 0x4B800001,
    0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4F800000, 0x5EFFFFFF, 0x5F000000, 0xDF000000, 0x5F800000,
    0x477FE000, 0x477FF000, 0xC77FF000, 0x38800000, 0x387FC000, 0x33000000, 0x33000001, 0x0D000000, 0x7E800000,
    0x7F000000, 0x7E800001, 0x42FE0000, 0xC2FC0000, 0xC3150000, 0x43000000,
]  # fmt: skip
_F64 = [
    0x0, 0x8000000000000000, 0x1, 0x8000000000000001, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000,
    0xBFF0000000000000, 0x3FF0000000000001, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000012345678, 0x7FF0000000000001, 0x3FE0000000000000,
    0xBFE0000000000000, 0x3FF8000000000000, 0x4004000000000000, 0xC004000000000000, 0x41DFFFFFFFC00000,
    0x41E0000000000000, 0xC1E0000000000000, 0xC1E0000000200000, 0x41EFFFFFFFE00000, 0x41F0000000000000,
    0x43DFFFFFFFFFFFFF, 0x43E0000000000000, 0xC3E0000000000000, 0x43EFFFFFFFFFFFFF, 0x43F0000000000000,
    0x36A0000000000000, 0x3690000000000000, 0x3690000000000001, 0x3F10000000000001, 0x3E70000000000000,
    0x3E70000000000001, 0x40EFFC0000000000, 0x40EFFDFFFFFFFFFF, 0x40EFFE0000000000, 0x47EFFFFFE0000000,
    0x47EFFFFFF0000000, 0x380FFFFFC0000000, 0x3810000000000000,
]  # fmt: skip
_WIDTH_EDGES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256)


def _specials(kind: str) -> NDArray[np.uint64]:
    bits = BITS[kind]
    if kind in ("f16", "f32", "f64"):
        return np.array({"f16": _F16, "f32": _F32, "f64": _F64}[kind], np.uint64)
    if kind == "bf16":
        return np.array([word >> 16 for word in _F32] + [0x7F81, 0xFFFF, 0x0001], np.uint64)
    if kind in ("f16x2", "bf16x2", "f32x2"):
        halves = _specials(kind[:-2])
        return np.concatenate([halves | np.roll(halves, n) << np.uint64(bits // 2) for n in (0, 1, 5)])
    if kind == "pred":
        return np.array([0, 1], np.uint64)
    top = 1 << bits
    edges = [top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, 0x80 % top, 0xFF80 % top, 0x7FFF % top]
    wider = [0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0xFFFFFFFF80000000]
    return np.array([*_WIDTH_EDGES, *edges, *(word for word in wider if word < top)], np.uint64)


def _column(kind: str, place: int, count: int, rng: np.random.Generator) -> Slots:
    """All pairs of special values in the first two places, as far as the rows go; then special, random and ordinary
    ones mixed. The high bytes are random."""
    specials = _specials(kind)
    chosen = specials[rng.integers(0, len(specials), count)]
    anything = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    mixed = np.where(rng.integers(0, 3, count) == 0, anything, chosen)
    mixed = np.where(rng.integers(0, 4, count) == 0, _ordinary(kind, count, rng), mixed)
    pairs = min(len(specials) ** 2, 3 * count // 4)
    order = np.random.default_rng(len(specials)).permutation(len(specials) ** 2)[:pairs]
    if place < 2:
        mixed[:pairs] = specials[order % len(specials) if place == 0 else order // len(specials)]
    bits = BITS[kind]
    if kind == "pred":  # some warps have it in all lanes or in none
        warp = np.arange(count) // 32 % 4
        return np.where(warp == 1, np.uint64(1), np.where(warp == 2, np.uint64(0), mixed & np.uint64(1)))
    low = np.uint64((1 << bits) - 1)
    return (mixed & low) | (anything & ~low)


def _ordinary(kind: str, count: int, rng: np.random.Generator) -> Slots:
    """Floats of ordinary size, small integers."""
    values = rng.normal(0, 3, count)
    if kind in ("f16", "f16x2"):
        halves = values.astype(np.float16).view(np.uint16).astype(np.uint64)
        return halves | np.roll(halves, 1) << np.uint64(16)
    if kind in ("f32", "f32x2", "bf16x2"):
        singles = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return singles | np.roll(singles, 1) << np.uint64(32)
    if kind == "bf16":
        return values.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    if kind == "f64":
        return values.view(np.uint64)
    return rng.integers(-40, 40, count).astype(np.uint64)


def rows(count: int, seed: int) -> Slots:
    """Rows of `in` without the facts about surfaces: uint64[count, columns]."""
    rng = np.random.default_rng(seed)
    out = np.zeros((count, row_stride() // 8), np.uint64)
    columns = [(kind, place) for kind in COLUMNS for place in range(PLACES)]
    for index, (kind, place) in enumerate(columns):
        out[:, index] = _column(kind, place, count, rng)
    return out


def edge_constants(spelling: Spelling) -> list[int]:
    """Constants for the last operand of a form: special values of its type, always 24 of them."""
    kind = spelling.form.operands[-1].type if spelling.form.operands else "b32"
    known = kind if kind in ("f32", "f64") else f"b{max(16, BITS.get(kind, 32))}"
    specials = [int(value) for value in _specials(known if known in COLUMNS else "b64")]
    return [specials[index * len(specials) // 24] for index in range(24)]


WIDTH, TEXEL, PITCH = 12, 8, 128


def facts(out: Slots, descriptor: int, texels: int) -> None:
    """Fill in the columns about the surface of WIDTH texels of TEXEL bytes and one row per thread."""
    count = len(out)
    thread = np.arange(count)
    rng = np.random.default_rng(count)
    inside_x = rng.integers(0, WIDTH * TEXEL // 32, count) * 32
    x = rng.integers(-2, WIDTH * TEXEL // 32 + 2, count) * 32
    y = np.where(thread % 7 == 3, rng.choice([-1, count, 2**31 - 1, -(2**31)], count), thread)
    columns = {
        "handle": np.full(count, descriptor),
        "texels": texels + PITCH * thread + np.clip(x, 0, WIDTH * TEXEL - 32),
        "x": x,
        "y": y,
        "inside_x": inside_x,
        "inside_y": thread,
        "texel_x": rng.integers(-3, WIDTH + 3, count),
        "texel_y": rng.integers(-3, count + 3, count),
        "float_x": _floats(rng, count, WIDTH),
        "float_y": _floats(rng, count, count),
    }
    first = len(COLUMNS) * PLACES
    for index, name in enumerate(FACT_BITS):
        out[:, first + index] = columns[name].astype(np.int64).view(np.uint64)


def _floats(rng: np.random.Generator, count: int, size: int) -> NDArray[np.int64]:
    values = rng.uniform(-2, size + 2, count).astype(np.float32)
    values[::9] = np.float32(rng.integers(-1, size + 1))
    return values.view(np.uint32).astype(np.int64)
