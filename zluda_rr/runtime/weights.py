"""Seeded weight images: which bytes of a layer's image hold what, and data that shows what a rewrite can break.

An image is described by regions (read from the layer's contract). All values are generated; none is NVIDIA's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np
import numpy.typing as npt

from zluda_rr.numerics.layout import weight_offset

F16 = npt.NDArray[np.float16]

# Channels (c, c + 8) of one 32-block sit in different WMMAs of a k32 step but in the same k16 half by logical k
# (engine.md §1, §2). Equal activations with opposite weights there make two half sums large and opposite.
CANCELLING = (0, 3, 6, 16, 19, 22)


class RegionKind(StrEnum):
    """What a region of the weight image holds."""

    MATRIX = "matrix"  # e4m3 B fragments, blocks of 32 k x 16 n, 512 bytes each
    COLUMN = "column"  # f16 per output column: C seeds
    TABLE = "table"  # f16 per output column, added to a residual
    GAIN = "gain"  # f16 per column, multiplied into a norm
    SCORE_BIAS = "score_bias"  # f16, 64 queries x 96 keys
    FEATURES = "features"  # f16 x 4 per prologue feature
    RESERVED = "reserved"


class WorkloadKind(StrEnum):
    """What the generated data is meant to show."""

    RANDOM = "random"
    CANCELLATION = "cancellation"
    SATURATING = "saturating"
    SPECIAL = "special"  # denormals, both zeros, NaN and infinity in the input surface
    SMALL = "small"  # accumulators as small as the norm's epsilon; this and the next two: runtime/edges.py
    BOUNDS = "bounds"  # gains, seeds and tables just inside and just outside of each range proof
    SINGLE = "single"  # one weight or column out of range, everything else within

    @property
    def at_an_edge(self) -> bool:
        """Whether the data stands at the edge of a body's condition: many images, few blocks of each."""
        return self in (WorkloadKind.SMALL, WorkloadKind.BOUNDS, WorkloadKind.SINGLE)


@dataclass(frozen=True, slots=True)
class Region:
    """`nbytes` bytes at `offset` of the weight image.

    `bounded`: the column reaches an f16 sum of squares, so it stays small in every kind of data.
    """

    name: str
    offset: int
    nbytes: int
    kind: RegionKind
    bounded: bool = False


def weight_image(regions: Iterable[Region], nbytes: int, kind: WorkloadKind, seed: int) -> npt.NDArray[np.uint8]:
    """A whole weight image, `nbytes` bytes; bytes no region claims are random (nothing may read them)."""
    rng = np.random.default_rng([seed, 0x5EED])
    image = rng.integers(0, 256, nbytes, dtype=np.uint8)
    for region in regions:
        image[region.offset : region.offset + region.nbytes] = _fill(region, kind, rng)
    return image


def _fill(region: Region, kind: WorkloadKind, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    match region.kind:
        case RegionKind.MATRIX:
            return _matrix(region.nbytes, kind, rng)
        case RegionKind.COLUMN | RegionKind.TABLE:
            return _column(region, kind, rng)
        case RegionKind.GAIN:
            return _gain(region.nbytes, kind, rng)
        case RegionKind.SCORE_BIAS:
            return _bytes(rng.normal(0.0, 12.0, region.nbytes // 2).astype(np.float16))
        case RegionKind.FEATURES:
            return _features(region.nbytes, kind, rng)
        case RegionKind.RESERVED:
            return rng.integers(0, 256, region.nbytes, dtype=np.uint8)
        case _:
            assert_never(region.kind)


def _matrix(nbytes: int, kind: WorkloadKind, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """e4m3 codes in tiles of 16 columns; a partial pattern per kind is laid over the random ground."""
    tiles = nbytes // 512
    codes = e4m3_normal(rng, (tiles, 16, 32), 0.03 if kind is WorkloadKind.SATURATING else 0.35)
    if kind is WorkloadKind.CANCELLATION:
        codes = _cancelling(codes, rng)
    image = np.empty((tiles, 512), np.uint8)
    n, k = np.indices((16, 32))
    image[:, weight_offset(n, k)] = codes
    return image.reshape(-1)


def _cancelling(codes: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Large opposite weights on (k, k + 8), small ones elsewhere; columns c and c + 8 of a tile equal."""
    codes = codes.copy()
    small = e4m3_normal(rng, codes.shape, 0.02)
    large = np.zeros(32, bool)
    for k in CANCELLING:
        large[[k, k + 8]] = True
    codes[..., ~large] = small[..., ~large]
    for k in CANCELLING:
        codes[..., k] = rng.integers(0x70, 0x7F, codes.shape[:2], dtype=np.uint8)  # 128 .. 448
        codes[..., k + 8] = codes[..., k] | 0x80
    for n in (0, 3, 6):
        codes[:, n + 8] = codes[:, n]
    return codes


def e4m3_normal(rng: np.random.Generator, shape: tuple[int, ...], sigma: float) -> npt.NDArray[np.uint8]:
    """e4m3 codes of normal values: drawn by magnitude, so that subnormal codes and both zeros occur."""
    values = np.abs(rng.normal(0.0, sigma, shape))
    exponent = np.clip(np.floor(np.log2(np.maximum(values, 2.0**-12))), -6, 8)
    steps = np.clip(np.rint(values / 2.0 ** (exponent - 3)), 0, 15)
    code = np.where(steps < 8, steps, steps - 8 + 8 * (exponent + 7)).clip(0, 0x7E).astype(np.uint8)
    signs = rng.integers(0, 2, shape, dtype=np.uint8) * np.uint8(0x80)
    codes: npt.NDArray[np.uint8] = code | signs
    return codes


def _column(region: Region, kind: WorkloadKind, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    values = rng.normal(0.0, 0.5, region.nbytes // 2).astype(np.float16)
    values[rng.random(values.size) < 0.05] = np.float16(-0.0)
    if kind is WorkloadKind.CANCELLATION:
        _equal_pairs(values)
    if kind is WorkloadKind.SATURATING and not region.bounded:
        values[rng.random(values.size) < 0.1] = np.float16(600.0)  # beyond e4m3's 448
        values[rng.random(values.size) < 0.1] = np.float16(-600.0)
    return _bytes(values)


def _gain(nbytes: int, kind: WorkloadKind, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    high = {WorkloadKind.SATURATING: 3000.0, WorkloadKind.CANCELLATION: 16.0}.get(kind, 8.0)
    values = rng.uniform(1.0, high, nbytes // 2).astype(np.float16)
    if kind is WorkloadKind.CANCELLATION:
        _equal_pairs(values)
    return _bytes(values)


def _features(nbytes: int, kind: WorkloadKind, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    values = rng.normal(0.0, 1.5, (nbytes // 8, 4)).astype(np.float16)
    if kind is WorkloadKind.CANCELLATION:
        for k in CANCELLING:
            values[k + 8] = values[k]
    return _bytes(values.reshape(-1))


def _equal_pairs(values: F16) -> None:
    for block in range(0, values.size - 31, 32):
        for c in CANCELLING:
            values[block + c + 8] = values[block + c]


def _bytes(values: F16) -> npt.NDArray[np.uint8]:
    return values.view(np.uint8)
