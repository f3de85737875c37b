"""Independent numpy models of the engine's arithmetic: plain matrices, no fragments, no lanes."""

import ml_dtypes
import numpy as np

E4M3 = ml_dtypes.float8_e4m3fn


def decode(codes: np.ndarray) -> np.ndarray:
    """e4m3 bytes as f64."""
    return codes.astype(np.uint8).view(E4M3).astype(np.float64)


def encode(values: np.ndarray, *, relu: bool = False) -> np.ndarray:
    """f16 to e4m3 bytes as PTX `cvt.rn.satfinite{.relu}.e4m3x2.f16x2` does; a NaN keeps its sign."""
    half = values.astype(np.float16)
    if relu:
        half = np.where(half <= 0, np.float16(0), half)
    nan = np.isnan(half)
    clamped = np.clip(np.where(nan, 0, half).astype(np.float32), -448, 448)
    codes = clamped.astype(E4M3).view(np.uint8)
    sign = (half.view(np.uint16) >> 8).astype(np.uint8) & 0x80
    return np.where(nan, sign | 0x7F, codes).astype(np.uint8)


def activation(x: np.ndarray) -> np.ndarray:
    """The clamped cubic on f16, every operation rounded."""
    with np.errstate(all="ignore"):
        y = np.fmin(np.fmax(x, np.float16(-2)), np.float16(2))
        slope = np.float16(0.412109375) - np.float16(0.0810546875) * np.abs(y)
        return x * (np.float16(0.5) + y * slope)


def step(a: np.ndarray, b: np.ndarray, c: np.ndarray, model: str) -> np.ndarray:
    """One k32 step. a u8[M, 32], b u8[N, 32] in slot order, c f16[M, N]; f16 result, one rounding at the end."""
    acc = c.astype(np.float32)
    for first in (0, 16):
        products = decode(a[:, None, first : first + 16]) * decode(b[None, :, first : first + 16])
        acc = accumulate(acc, products, model)
    with np.errstate(over="ignore"):
        return acc.astype(np.float16)


def accumulate(acc: np.ndarray, products: np.ndarray, model: str) -> np.ndarray:
    """One WMMA: f32 accumulator plus 16 products (last axis), under a gfx12 model."""
    single = products.astype(np.float32)
    if model == "exact":  # 16 products and an f32 of this range fit f64's 53 bits
        return (acc.astype(np.float64) + products.sum(axis=-1)).astype(np.float32)
    if model == "sequential":
        for slot in range(16):
            acc = acc + single[..., slot]
        return acc
    assert model == "pairwise"
    while single.shape[-1] > 1:
        single = single[..., ::2] + single[..., 1::2]
    return acc + single[..., 0]


def random_codes(rng: np.random.Generator, shape: tuple[int, ...], low: int = 0, high: int = 0x77) -> np.ndarray:
    """Finite e4m3 bytes with magnitudes code `low`..`high` and random signs."""
    magnitude = rng.integers(low, high + 1, shape)
    return (magnitude | rng.integers(0, 2, shape) << 7).astype(np.uint8)


def cancelling_codes(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands a u8[rows, 32], b u8[columns, 32] whose two half sums are large and opposite.

    Slots 16..31 repeat slots 0..15 of `a` negated, and `b` nearly: what is left over is small against the partial
    sums, so that their f32 rounding, and with it the grouping of K, shows in the result.
    """
    a, b = random_codes(rng, (rows, 32), 0x38), random_codes(rng, (columns, 32), 0x20)
    a[:, 16:] = a[:, :16] ^ 0x80
    b[:, 16:] = b[:, :16]
    place = rng.integers(0, 32, columns)
    b[np.arange(columns), place] = rng.integers(1, 8, columns)
    return a, b
