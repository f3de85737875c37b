"""Seeded launches of enc0 for a golden run: what the GPU, the oracle and the numpy model all receive.

Everything is generated. Kinds:
  plain    mid-range data with saturating features, -0 and f16 denormals
  wide     weights over many e4m3 exponents, so that the order of accumulation shows
  cancel   large opposite sums in the slot groups that an accumulation may separate
  special  NaN, infinities and denormals in the input texels
  hostile  random bytes everywhere, NaN codes and overflow included
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]

IMAGE_BYTES = 54560
BLOCKS_32 = (4096, 5184, 6336, 7360, 20672, 21696, 22720, 36032, 37184, 38272, 39360, 40448, 41472, 42560, 43584, 44672)
# Offsets of f16 vectors per column: seeds and tables, and the gains.
VECTORS = {5120: 32, 6208: 32, 37056: 32, 38208: 32, 39296: 32, 40384: 32, 42496: 32, 44608: 32, 53888: 64, 54528: 16}
GAINS = (6272, 37120)
SCORE_BIAS = (8384, 23744)


@dataclass(frozen=True, slots=True)
class Case:
    """One launch: name of its data, extents and shift in tokens."""

    kind: str
    ex: int
    ey: int
    shift_x: int
    shift_y: int

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks (rr-details.md 26)."""
        return (self.ex + self.shift_x + 7) // 8, (self.ey + self.shift_y + 7) // 8, 1

    @property
    def name(self) -> str:
        """Key of the launch in the golden files."""
        return f"{self.kind}-{self.ex}x{self.ey}-{self.shift_x}-{self.shift_y}"


CASES = (
    Case("plain", 76, 60, 2, 4),
    Case("wide", 44, 28, 6, 2),
    Case("cancel", 44, 28, 4, 6),
    Case("special", 30, 22, 2, 6),
    Case("hostile", 20, 12, 6, 4),
)


def _rng(case: Case) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(case.name.encode()))


def _codes(values: npt.NDArray[np.float64]) -> U8:
    """The nearest e4m3 codes of |v| < 448, truncating: exactness does not matter here, only range."""
    exponent = np.clip(np.floor(np.log2(np.maximum(np.abs(values), 2.0**-12))), -6, 8)
    mantissa = np.floor(np.abs(values) / 2.0 ** (exponent - 3))
    code = np.where(mantissa < 8, mantissa, (exponent + 6) * 8 + mantissa)
    sign = np.where(values < 0, 128, 0)
    return (np.minimum(code, 126).astype(np.int64) | sign).astype(np.uint8)


def _matrix(rng: np.random.Generator, kind: str, nbytes: int) -> U8:
    values = rng.normal(0.0, 0.25, nbytes)
    if kind == "wide":
        values = rng.choice([-1.0, 1.0], nbytes) * 2.0 ** rng.uniform(-9.5, 0.0, nbytes)
    if kind == "cancel":
        # Byte v*4 + j of a lane's 16: word v & 1 is the k16 half, j >> 1 the pair that NVIDIA sums apart.
        lane = values.reshape(-1, 2, 2, 2, 2)
        large = np.round(rng.normal(0.0, 0.6, (*lane.shape[:2], 1, 1, 2)) * 32) / 32
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])[None, None, :, :, None]
        values = np.where(rng.random(lane.shape) < 0.2, lane / 16, large * signs).reshape(nbytes)
    return _codes(values)


def weight_image(case: Case) -> U8:
    """The 54,560 bytes of a case."""
    rng = _rng(case)
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    if case.kind == "hostile":
        return image
    for offset, nbytes in (*((b, 1024) for b in BLOCKS_32), (45696, 8192), (54016, 512)):
        image[offset : offset + nbytes] = _matrix(rng, case.kind, nbytes)
    spread = 0.05 if case.kind == "cancel" else 0.3
    for offset, columns in VECTORS.items():
        vector = rng.normal(0.0, 1.0 if columns == 16 else spread, columns)
        vector[:2] = 6e-8, -0.0
        image[offset : offset + 2 * columns] = vector.astype(np.float16).view(np.uint8)
    for offset in GAINS:
        gain = rng.normal(2.0, 1.0, 32)
        image[offset : offset + 64] = gain.astype(np.float16).view(np.uint8)
    for offset in SCORE_BIAS:
        image[offset : offset + 12288] = rng.normal(0.0, 12.0, 6144).astype(np.float16).view(np.uint8)
    image[:256] = rng.normal(0.0, 2.5, 128).astype(np.float16).view(np.uint8)
    return image


def texels(case: Case) -> F16:
    """Input texels f16 [ey, ex, 4]."""
    rng = _rng(case)
    shape = (case.ey, case.ex, 4)
    values = rng.normal(0.0, 1.0, shape).astype(np.float16)
    values[rng.random(shape) < 0.03] = np.float16(-0.0)
    values[rng.random(shape) < 0.03] = np.float16(-6e-8)
    if case.kind in ("special", "hostile"):
        bits = np.array([0x0001, 0x83FF, 0x8000, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFD55], np.uint16)
        where = rng.random(shape) < 0.1
        values.view(np.uint16)[where] = rng.choice(bits, int(where.sum()))
    return values
