"""Accumulation models of FP8 matrix instructions, and NVIDIA's m16n8k32 built from them.

No vendor documents the order in which a matrix unit adds its products, so the project computes under several
models and demands that a rewrite agree with the original under each:

- `exact`: c plus the exact sum, rounded once to f32;
- `sequential`: c, then one product after the other in slot order, each addition rounded to f32;
- `pairwise`: the products summed as a balanced binary tree of f32 additions, adjacent ones first, then added
  to c;
- `sm90`: what an H200 does (measured on 524,288 elements): two f16 steps over the slots of a k32 step whose
  `slot & 3` is 0 or 1, then the rest, and C added last: `f16(f16(f16(p1) + p2) + C)`, each sum in parentheses
  exact.

The first three describe gfx12's 16x16x16 WMMA with f32 accumulators. An m16n8k32 is then two of them, slots
0..15 and 16..31, with f32 in between and one rounding to f16 after the second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.e4m3 import decode_to_float
from zluda_rr.numerics.f16 import F32, F64, Half, canonical_half, half_to_float, round_half, sum_to_odd

MODELS = ("exact", "sequential", "pairwise", "sm90")
WMMA_MODELS = MODELS[:3]

Words = NDArray[np.uint32]


def wmma_k16(products: F32, c: F32, model: str) -> F32:
    """Accumulate 16 products per element: `products` is f32[..., 16] in slot order, `c` f32[...]; returns
    f32[...].

    Products of two e4m3 are exact in f32. `model` is one of `WMMA_MODELS`; ValueError otherwise.
    """
    with np.errstate(all="ignore"):
        if model == "exact":
            return _round_exact(products.astype(np.float64).sum(axis=-1), c)
        if model == "sequential":
            total = c
            for slot in range(16):
                total = total + products[..., slot]
            return total
        if model == "pairwise":
            tree = products
            while tree.shape[-1] > 1:
                tree = tree[..., 0::2] + tree[..., 1::2]
            result: F32 = c + tree[..., 0]
            return result
    raise ValueError(f"no WMMA accumulation model {model!r}; there are {', '.join(WMMA_MODELS)}")


def wmma_16x16x16(a: F32, b: F32, c: F32, model: str) -> F32:
    """One FP8 WMMA on matrices: a f32[..., rows, 16], b f32[..., columns, 16] (both with the slot last), c
    and the result f32[..., rows, columns]. The operands must be e4m3 or e5m2 values."""
    if model == "exact":
        return _round_exact(_exact_dot(a, b), c)
    # The same as wmma_k16, one slot at a time: [..., rows, columns, 16] would not stay in the cache.
    left = np.ascontiguousarray(np.moveaxis(a, -1, 0))[..., :, None]
    right = np.ascontiguousarray(np.moveaxis(b, -1, 0))[..., None, :]
    with np.errstate(all="ignore"):
        if model == "sequential":
            total = c
            for slot in range(16):
                total = total + left[slot] * right[slot]
            return total
        if model == "pairwise":
            result: F32 = c + _tree(left, right, 0, 16)
            return result
    raise ValueError(f"no WMMA accumulation model {model!r}; there are {', '.join(WMMA_MODELS)}")


def mma_m16n8k32(a: Words, b: Words, c: Words, model: str) -> Words:
    """`mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16` on whole warps.

    a u32[..., 4, 32], b u32[..., 2, 32], c and the result u32[..., 2, 32]: register, then lane, as PTX
    defines the fragments. NaN results are 0x7fff. ValueError for an unknown model.
    """
    rows = _rows_of_a(a)
    columns = _columns_of_b(b)
    seed = half_to_float(_matrix_of_c(c))
    if model == "sm90":
        return _fragment_of_d(_sm90(rows, columns, seed))
    lower = wmma_16x16x16(rows[..., :16], columns[..., :16], seed, model)
    return _fragment_of_d(round_half(wmma_16x16x16(rows[..., 16:], columns[..., 16:], lower, model)))


def _exact_dot(a: F32, b: F32) -> F64:
    """Sums of products over the last axis, exact for FP8 operands.

    Products of two e4m3 are multiples of 2^-18 below 2^18 (e5m2: 2^-32, 2^32), so sums of up to 32 of them
    need at most 18 + 18 + 5 (32 + 32 + 5: only when extremes mix) bits. In f64 every partial e4m3 sum is
    exact, whatever order BLAS takes.
    """
    with np.errstate(all="ignore"):
        result: F64 = a.astype(np.float64) @ np.swapaxes(b, -1, -2).astype(np.float64)
    return result


def _round_exact(total: F64, c: F32) -> F32:
    with np.errstate(all="ignore"):
        result: F32 = sum_to_odd(total, c).astype(np.float32)
    return result


def _tree(left: F32, right: F32, first: int, count: int) -> F32:
    """f32 sum of `count` products from slot `first` on, as a balanced tree."""
    if count == 1:
        result: F32 = left[first] * right[first]
        return result
    half = count // 2
    return _tree(left, right, first, half) + _tree(left, right, first + half, half)


def _sm90(rows: F32, columns: F32, seed: F32) -> Half:
    """f16 bits [..., 16, 8]; the exact sums of 16 products round to f16 straight from f64."""
    early = (np.arange(32) & 3) < 2
    first = round_half(_exact_dot(rows[..., early], columns[..., early]))
    second = _exact_dot(rows[..., ~early], columns[..., ~early])
    with np.errstate(all="ignore"):
        # f16 + exact sum: both multiples of 2^-24 below 2^23, exact in f64.
        product = round_half(half_to_float(first).astype(np.float64) + second)
        return round_half(half_to_float(product) + seed)


def _bytes_of(fragment: Words) -> NDArray[np.uint8]:
    return np.ascontiguousarray(fragment).view(np.uint8)


def _rows_of_a(a: Words) -> F32:
    """[..., 16 rows, 32 slots]: register i, lane 4g+t, byte j is row g + 8*(i&1), slot 4t + j + 16*(i>>1)."""
    batch = a.shape[:-2]
    parts = _bytes_of(a).reshape(*batch, 2, 2, 8, 4, 4)  # i>>1, i&1, g, t, j
    n = len(batch)
    order = (*range(n), n + 1, n + 2, n, n + 3, n + 4)
    return decode_to_float(parts.transpose(order).reshape(*batch, 16, 32))


def _columns_of_b(b: Words) -> F32:
    """[..., 8 columns, 32 slots]: register i, lane 4g+t, byte j is column g, slot 4t + j + 16*i."""
    batch = b.shape[:-2]
    parts = _bytes_of(b).reshape(*batch, 2, 8, 4, 4)  # i, g, t, j
    n = len(batch)
    return decode_to_float(parts.transpose(*range(n), n + 1, n, n + 2, n + 3).reshape(*batch, 8, 32))


def _matrix_of_c(c: Words) -> Half:
    """f16 bits [..., 16 rows, 8 columns]: register i, lane 4g+t, half h is row g + 8i, column 2t + h. That is
    the order the halves have in memory."""
    return np.ascontiguousarray(c).view(np.uint16).reshape(*c.shape[:-2], 16, 8)


def _fragment_of_d(matrix: Half) -> Words:
    packed = np.ascontiguousarray(canonical_half(matrix)).view(np.uint32)
    return packed.reshape(*matrix.shape[:-2], 2, 32)
