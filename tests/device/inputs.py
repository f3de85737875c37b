"""Seeded launches of enc0 for a golden run: what the GPU, the oracle and the numpy model all receive.

Everything is generated, with integer and exact f64 arithmetic only, so that every numpy gives the same bytes. Kinds:
  plain    mid-range data with -0 and f16 denormals
  wide     weights over many e4m3 exponents, so that the order of accumulation shows
  cancel   large opposite sums in the slot groups that an accumulation may separate
  special  NaN, infinities and denormals in the input texels
  hostile  NaN codes, infinities and saturating values in the weight image as well
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
F16 = npt.NDArray[np.float16]
F64 = npt.NDArray[np.float64]

IMAGE_BYTES = 54560
BLOCKS_32 = (4096, 5184, 6336, 7360, 20672, 21696, 22720, 36032, 37184, 38272, 39360, 40448, 41472, 42560, 43584, 44672)
# Offsets of f16 vectors per column: seeds and tables, and the gains.
VECTORS = {5120: 32, 6208: 32, 37056: 32, 38208: 32, 39296: 32, 40384: 32, 42496: 32, 44608: 32, 53888: 64, 54528: 16}
GAINS = (6272, 37120)
SCORE_BIAS = (8384, 23744)
# hostile: f16 bits poked into column vectors and the score bias, and NaN codes into P8's B (offset -> value).
INFINITY, NAN, LARGE = 0x7C00, 0x7E00, 0x7BFF
HOSTILE_HALVES = {
    5120 + 2 * 2: INFINITY | 0x8000,
    8384 + 2 * 77: NAN,
    8384 + 2 * 501: INFINITY | 0x8000,
    23744 + 2 * 12: INFINITY,
    38208 + 2 * 1: LARGE,
    44608 + 2 * 5: INFINITY,
    53888 + 2 * 7: NAN,
    53888 + 2 * 8: INFINITY | 0x8000,
    54528 + 2 * 0: INFINITY | 0x8000,
    54528 + 2 * 10: INFINITY,
}
HOSTILE_CODES = {21696 + 64: 0x7F, 21696 + 512: 0xFF}


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
    Case("wide", 36, 20, 6, 2),
    Case("cancel", 36, 20, 4, 6),
    Case("special", 20, 12, 2, 6),
    Case("hostile", 20, 12, 6, 4),
)


@dataclass(slots=True)
class Stream:
    """splitmix64 by counter."""

    seed: int
    used: int = field(default=0)

    def words(self, count: int) -> U64:
        """The next `count` 64-bit words."""
        z = np.arange(self.used + 1, self.used + count + 1, dtype=np.uint64)
        self.used += count
        z = np.uint64(self.seed) + z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)

    def uniform(self, shape: tuple[int, ...]) -> F64:
        """Multiples of 2**-53 in [0, 1)."""
        count = int(np.prod(shape))
        return ((self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def normal(self, scale: float, shape: tuple[int, ...]) -> F64:
        """Nearly normal: twelve uniforms, less six, times `scale`."""
        total = np.full(shape, -6.0)
        for _ in range(12):
            total = total + self.uniform(shape)
        return total * scale


def stream_of(case: Case) -> Stream:
    """The case's own random stream."""
    return Stream(zlib.crc32(case.name.encode()))


def codes(values: F64) -> U8:
    """e4m3 codes of |v| < 448, truncated: exactness does not matter here, only range."""
    mantissa, exponent = np.frexp(np.abs(values))  # 0.5 <= mantissa < 1
    normal = (exponent + 6) * 8 + np.floor(mantissa * 16).astype(np.int64) - 8
    code = np.where(exponent < -5, np.floor(np.abs(values) * 2.0**9).astype(np.int64), normal)
    return (np.minimum(code, 126) | np.where(values < 0, 128, 0)).astype(np.uint8)


def matrix(stream: Stream, kind: str, nbytes: int) -> U8:
    """e4m3 weights of a case's kind."""
    if kind == "wide":
        # Codes of magnitude below 1: exponent field up to 6, every mantissa.
        words = stream.words(nbytes)
        return (words % np.uint64(56) | (words >> np.uint64(40) & np.uint64(1)) << np.uint64(7)).astype(np.uint8)
    values = stream.normal(0.25, (nbytes,))
    if kind == "cancel":
        # Byte 4v + j of a lane's 16: v & 1 is the 16-slot half of the k step, j >> 1 the pair that NVIDIA sums apart.
        lane = values.reshape(-1, 2, 2, 2, 2)
        large = stream.normal(0.6, (lane.shape[0], 2, 1, 1, 2))
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])[None, None, :, :, None]
        values = np.where(stream.uniform(lane.shape) < 0.2, lane / 16, large * signs).reshape(nbytes)
    return codes(values)


def halves(values: F64) -> U8:
    """f16 bytes."""
    return values.astype(np.float16).view(np.uint8)


def weight_image(case: Case) -> U8:
    """The 54,560 bytes of a case."""
    stream = stream_of(case)
    image = (stream.words(IMAGE_BYTES) >> np.uint64(56)).astype(np.uint8)
    image[:256] = halves(stream.normal(2.5, (128,)))
    for offset, nbytes in (*((b, 1024) for b in BLOCKS_32), (45696, 8192), (54016, 512)):
        image[offset : offset + nbytes] = matrix(stream, case.kind, nbytes)
    for offset, columns in VECTORS.items():
        vector = stream.normal(1.0 if columns == 16 else 0.3, (columns,))
        vector[3:5] = 6e-8, -0.0
        image[offset : offset + 2 * columns] = halves(vector)
    for offset in GAINS:
        image[offset : offset + 64] = halves(2.0 + stream.normal(1.0, (32,)))
    for offset in SCORE_BIAS:
        image[offset : offset + 12288] = halves(stream.normal(12.0, (6144,)))
    if case.kind == "hostile":
        for offset, bits in HOSTILE_HALVES.items():
            image[offset : offset + 2] = bits & 0xFF, bits >> 8
        for offset, code in HOSTILE_CODES.items():
            image[offset] = code
    return image


def texels(case: Case) -> F16:
    """Input texels f16 [ey, ex, 4]."""
    stream = stream_of(case)
    shape = (case.ey, case.ex, 4)
    values = stream.normal(1.0, shape).astype(np.float16)
    values[stream.uniform(shape) < 0.03] = np.float16(-0.0)
    values[stream.uniform(shape) < 0.03] = np.float16(-6e-8)
    if case.kind in ("special", "hostile"):
        bits = np.array([0x0001, 0x83FF, 0x8000, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFD55], np.uint16)
        chosen = bits[(stream.uniform(shape) * len(bits)).astype(np.int64)]
        values = np.where(stream.uniform(shape) < 0.05, chosen.view(np.float16), values)
    return values
