"""Number formats and mma accumulation of the numpy model, written from the documents alone.

Arrays are logical matrices; nothing here knows about lanes or registers. "Slots" are the positions along K inside one
k step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]

# Channel that slot s holds: s = 16w + 4t + j is channel 2t + (j & 1) + 16*(j >> 1) + 8w (engine.md 1).
SLOT_CHANNEL = np.array([2 * (s >> 2 & 3) + (s & 1) + 16 * (s >> 1 & 1) + 8 * (s >> 4) for s in range(32)])

# An mma of one k step: (products [..., M, N, 32 slots] as factors a, b) -> see `k_step`.
Accumulate = Callable[[F64, F64, F16], F16]


def e4m3_values() -> F64:
    """Value of each of the 256 e4m3 (fn) codes; codes 0x7f and 0xff are NaN."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    magnitude[code & 0x7F == 0x7F] = np.nan
    return np.where(code & 0x80, -magnitude, magnitude)


def _requantise_table(relu: bool) -> U8:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    grid = e4m3_values()[:127]
    size = np.where(np.isnan(halves), 0.0, np.minimum(np.abs(halves), 448.0))
    above = np.clip(np.searchsorted(grid, size), 0, 126)
    below = np.maximum(above - 1, 0)
    to_above, to_below = grid[above] - size, size - grid[below]
    nearer_above = (to_above < to_below) | ((to_above == to_below) & (above % 2 == 0))
    codes = np.where(nearer_above, above, below)
    sign = np.arange(65536) >> 15
    codes = np.where(np.isnan(halves), 0x7F, codes)
    if relu:
        return np.where(sign & ~np.isnan(halves), 0, codes | sign << 7).astype(np.uint8)
    return (codes | sign << 7).astype(np.uint8)


_TABLES = {relu: _requantise_table(relu) for relu in (False, True)}
_VALUES = e4m3_values()


def requantise(x: F16, *, relu: bool = False) -> U8:
    """f16 -> e4m3 codes, saturating at 448, nearest even, NaN to 0x7f with its sign; relu clears negatives and -0."""
    return _TABLES[relu][np.ascontiguousarray(x).view(np.uint16)]


def decode(codes: U8) -> F64:
    """e4m3 codes -> values."""
    return _VALUES[codes]


def fma16(a: F16, b: F16, c: F16) -> F16:
    """f16(a*b + c) with one rounding: the product is exact in f64, the sum's error far below half an f16 step."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)


def max16(a: F16, b: F16 | np.float16) -> F16:
    """PTX max: the number if the other is NaN."""
    return np.fmax(a, b)


def min16(a: F16, b: F16 | np.float16) -> F16:
    """PTX min, likewise."""
    return np.fmin(a, b)


def f32_approx(exact: F64) -> F32:
    """An approximate f32 function: the exact value rounded once, denormals flushed."""
    value = exact.astype(np.float32)
    return np.where(np.abs(value) < np.float32(2.0**-126), np.copysign(np.float32(0), value), value)


def rsqrt16(x: F16) -> F16:
    """f16(rsqrt.approx.ftz.f32(x))."""
    return f32_approx(1.0 / np.sqrt(x.astype(np.float64))).astype(np.float16)


def rcp16(x: F16) -> F16:
    """f16(rcp.approx.ftz.f32(x))."""
    return f32_approx(1.0 / x.astype(np.float64)).astype(np.float16)


def expf(x: F16, factor: float) -> F32:
    """ex2.approx.ftz.f32(mul.ftz.f32(x, factor)); factor = +-log2(e) as f32."""
    scaled = x.astype(np.float32) * np.float32(factor)
    return f32_approx(np.exp2(scaled.astype(np.float64)))


def rcp32(x: F32) -> F32:
    """div.approx.ftz.f32(1, x)."""
    return f32_approx(1.0 / x.astype(np.float64))


def accumulate_exact(a: F64, b: F64, c: F16) -> F16:
    """gfx12, each 16-slot half summed exactly and rounded to f32 once."""
    acc = c.astype(np.float32)
    for half in (slice(0, 16), slice(16, 32)):
        acc = (acc + _dot(a[..., half], b[..., half])).astype(np.float32)
    return acc.astype(np.float16)


def accumulate_sequential(a: F64, b: F64, c: F16) -> F16:
    """gfx12, one product after another in f32."""
    acc = c.astype(np.float32)
    for s in range(32):
        acc = acc + (a[..., :, None, s] * b[..., None, :, s]).astype(np.float32)
    return acc.astype(np.float16)


def accumulate_pairwise(a: F64, b: F64, c: F16) -> F16:
    """gfx12, each half as a balanced tree of f32 sums, adjacent slots first, then added to the accumulator."""
    acc = c.astype(np.float32)
    for h in (0, 16):
        level = [(a[..., :, None, h + s] * b[..., None, :, h + s]).astype(np.float32) for s in range(16)]
        while len(level) > 1:
            level = [level[i] + level[i + 1] for i in range(0, len(level), 2)]
        acc = acc + level[0]
    return acc.astype(np.float16)


def accumulate_sm90(a: F64, b: F64, c: F16) -> F16:
    """NVIDIA H200 (facts.md): exact sums over slots with slot & 3 in {0, 1} and over the rest, f16 each, C last."""
    first = np.arange(32) & 3 < 2
    p1 = _dot(a[..., first], b[..., first]).astype(np.float16)
    both = (p1.astype(np.float64) + _dot(a[..., ~first], b[..., ~first])).astype(np.float16)
    return both + c


def _dot(a: F64, b: F64) -> F64:
    """Exact: e4m3 products are multiples of 2**-18 below 2**18, so 32 of them fit an f64 significand."""
    return a @ np.swapaxes(b, -1, -2)


ACCUMULATE: dict[str, Accumulate] = {
    "exact": accumulate_exact,
    "sequential": accumulate_sequential,
    "pairwise": accumulate_pairwise,
    "sm90": accumulate_sm90,
}


def gemm(a: U8, b: U8, c: F16, accumulate: Accumulate) -> F16:
    """D[.., m, n] = A[.., m, k] * B[.., n, k] + C over k steps of 32 channels, f16 after each.

    `a` and `b` are codes by channel; each step is put into slot order before it is accumulated.
    """
    steps = a.shape[-1] // 32
    acc = c
    for s in range(steps):
        channels = 32 * s + SLOT_CHANNEL
        acc = accumulate(decode(a[..., channels]), decode(b[..., channels]), acc)
    return acc
