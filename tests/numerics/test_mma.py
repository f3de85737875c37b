"""mma against a direct computation, element by element, from the layout table of docs/engine.md."""

import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from zluda_rr.numerics import mma

ROWS, COLUMNS, SLOTS = 16, 8, 32


def e4m3_value(code: int) -> float:
    return float(np.uint8([code]).view(ml_dtypes.float8_e4m3fn).astype(np.float64)[0])


def f32(value: float | Fraction) -> np.float32:
    """Correct for the values used here: at most 53 bits, so f64 holds them exactly."""
    exact = float(value)
    assert Fraction(exact) == value
    return np.float32(exact)


def half_value(word: int, half: int) -> float:
    return struct.unpack("<e", struct.pack("<H", (word >> (16 * half)) & 0xFFFF))[0]


def round_half(value: float | np.float32 | Fraction) -> float:
    """Nearest even f16 of an exactly representable value, overflow to infinity."""
    wide = float(value)
    try:
        return struct.unpack("<e", struct.pack("<e", wide))[0]
    except OverflowError:
        return float("inf") if wide > 0 else float("-inf")


def matrices(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[dict, dict, dict]:
    """The three operands by (row, slot), (slot, column), (row, column); every element is defined exactly
    once."""
    left: dict[tuple[int, int], float] = {}
    right: dict[tuple[int, int], float] = {}
    seed: dict[tuple[int, int], float] = {}
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for i in range(4):
            for j in range(4):
                place = (g + 8 * (i & 1), 4 * t + j + 16 * (i >> 1))
                assert place not in left
                left[place] = e4m3_value((int(a[i, lane]) >> (8 * j)) & 0xFF)
        for i in range(2):
            for j in range(4):
                place = (4 * t + j + 16 * i, g)
                assert place not in right
                right[place] = e4m3_value((int(b[i, lane]) >> (8 * j)) & 0xFF)
            for half in range(2):
                place = (g + 8 * i, 2 * t + half)
                assert place not in seed
                seed[place] = half_value(int(c[i, lane]), half)
    assert (len(left), len(right), len(seed)) == (ROWS * SLOTS, SLOTS * COLUMNS, ROWS * COLUMNS)
    return left, right, seed


def wmma(products: list[float], c: np.float32, model: str) -> np.float32:
    if model == "exact":
        return f32(sum((Fraction(p) for p in products), Fraction(float(c))))
    if model == "sequential":
        for product in products:
            c = np.float32(c + np.float32(product))
        return c
    level = [np.float32(p) for p in products]
    while len(level) > 1:
        level = [np.float32(level[i] + level[i + 1]) for i in range(0, len(level), 2)]
    return np.float32(c + level[0])


def element(products: list[float], c: float, model: str) -> float:
    if model == "sm90":
        early = sum((Fraction(p) for slot, p in enumerate(products) if slot & 3 < 2), Fraction(0))
        late = sum((Fraction(p) for slot, p in enumerate(products) if slot & 3 >= 2), Fraction(0))
        return round_half(round_half(round_half(early) + late) + Fraction(c))
    return round_half(wmma(products[16:], wmma(products[:16], np.float32(c), model), model))


def finite_codes(rng: np.random.Generator, registers: int, spread: int) -> np.ndarray:
    """Random e4m3 words; the exponent field stays in a window of `spread`, so that f16 sums rarely
    overflow."""
    exponent = rng.integers(7 - spread, 7 + spread // 2, (registers, 32, 4))
    codes = (rng.integers(0, 2, exponent.shape) << 7) | (exponent.clip(0, 15) << 3) | rng.integers(0, 7, exponent.shape)
    return codes.astype(np.uint8).view(np.uint32)[..., 0]


@pytest.mark.parametrize("model", mma.MODELS)
@pytest.mark.parametrize("spread", [1, 4, 7])
def test_mma_equals_the_direct_computation(model: str, spread: int) -> None:
    rng = np.random.default_rng(spread)
    a, b = finite_codes(rng, 4, spread), finite_codes(rng, 2, spread)
    c = rng.normal(0, 4, (2, 32, 2)).astype(np.float16).view(np.uint32)[..., 0]
    left, right, seed = matrices(a, b, c)
    d = mma.mma_m16n8k32(a, b, c, model)
    for lane in range(32):
        for i in range(2):
            for half in range(2):
                row, column = (lane >> 2) + 8 * i, 2 * (lane & 3) + half
                products = [left[row, slot] * right[slot, column] for slot in range(SLOTS)]
                assert half_value(int(d[i, lane]), half) == element(products, seed[row, column], model)


@pytest.mark.parametrize("model", mma.MODELS)
def test_warps_are_independent(model: str) -> None:
    rng = np.random.default_rng(7)
    a = np.stack([finite_codes(rng, 4, 4) for _ in range(6)]).reshape(2, 3, 4, 32)
    b = np.stack([finite_codes(rng, 2, 4) for _ in range(6)]).reshape(2, 3, 2, 32)
    c = np.zeros((2, 3, 2, 32), dtype=np.uint32)
    together = mma.mma_m16n8k32(a, b, c, model)
    for index in np.ndindex(2, 3):
        assert np.array_equal(together[index], mma.mma_m16n8k32(a[index], b[index], c[index], model))


def test_the_models_differ_on_sums_that_cancel() -> None:
    """The two WMMAs of a step have large, opposite sums here; on plain random data the models seldom differ."""
    rng = np.random.default_rng(11)
    a = np.stack([finite_codes(rng, 4, 7) for _ in range(50)])
    b = np.stack([finite_codes(rng, 2, 7) for _ in range(50)])
    a[:, 2:] = a[:, :2] ^ 0x80808080 ^ (rng.integers(0, 2, a[:, 2:].shape, dtype=np.uint32) << 8)
    b[:, 1] = b[:, 0]
    c = np.zeros((50, 2, 32), dtype=np.uint32)
    results = {model: mma.mma_m16n8k32(a, b, c, model) for model in mma.WMMA_MODELS}
    for one in mma.WMMA_MODELS:
        for other in mma.WMMA_MODELS:
            assert np.array_equal(results[one], results[other]) == (one == other), (one, other)
    a, b = finite_codes(rng, 4, 3), finite_codes(rng, 2, 3)
    plain = {model: mma.mma_m16n8k32(a, b, c[0], model) for model in mma.MODELS}
    assert not np.array_equal(plain["sm90"], plain["exact"])


@pytest.mark.parametrize("model", mma.WMMA_MODELS)
def test_matrix_and_product_forms_agree(model: str) -> None:
    rng = np.random.default_rng(3)
    a = finite_codes(rng, 4, 7).view(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32).reshape(2, 16, 16)
    b = finite_codes(rng, 4, 7).view(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32).reshape(2, 16, 16)
    c = rng.normal(0, 1000, (2, 16, 16)).astype(np.float32)
    products = a[:, :, None, :] * b[:, None, :, :]
    by_product = mma.wmma_k16(products, c, model)
    assert np.array_equal(mma.wmma_16x16x16(a, b, c, model), by_product)
    for index in [(0, 0, 0), (1, 15, 7), (0, 9, 14)]:
        if model != "exact":
            assert by_product[index] == wmma(products[index].tolist(), c[index], model)


def test_exact_rounds_once_even_when_f64_cannot_hold_the_sum() -> None:
    products = np.zeros(16, dtype=np.float32)
    products[:2] = [1.0, 2.0**-18]
    # 2^24 + 1 is a tie of f32; the small product, 42 bits below, must break it. 2^60 swamps f64 as well.
    assert mma.wmma_k16(products, np.float32(2.0**24), "exact") == np.float32(2.0**24 + 2)
    assert mma.wmma_k16(products, np.float32(2.0**24), "sequential") == np.float32(2.0**24)
    tie = np.float32(2.0**60)
    assert mma.wmma_k16(-products, tie, "exact") == tie


@pytest.mark.parametrize("model", mma.MODELS)
def test_nan_and_infinity(model: str) -> None:
    a = np.full((4, 32), 0x38383838, dtype=np.uint32)  # ones
    b = np.full((2, 32), 0x38383838, dtype=np.uint32)
    a[0, 0] = 0xFF383838  # NaN in row 0
    c = np.zeros((2, 32), dtype=np.uint32)
    c[1, 31] = 0x7C00FC00  # row 15, columns 6 and 7
    d = mma.mma_m16n8k32(a, b, c, model).view(np.uint16).reshape(16, 8)
    assert np.all(d[0] == 0x7FFF)
    assert d[15].tolist() == [0x5000] * 6 + [0xFC00, 0x7C00]
    assert np.all(d[1:15] == 0x5000)


def test_unknown_models_are_refused() -> None:
    words = np.zeros((4, 32), dtype=np.uint32)
    with pytest.raises(ValueError, match="no WMMA accumulation model 'fast'"):
        mma.mma_m16n8k32(words, words[:2], words[:2], "fast")
    with pytest.raises(ValueError, match="sm90"):
        mma.wmma_k16(np.zeros(16, np.float32), np.float32(0), "sm90")
