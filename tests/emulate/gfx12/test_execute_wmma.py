"""FP8 WMMA: the layout element by element, then values under each accumulation model."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.emulate.gfx12.rounding import F32
from tests.emulate.gfx12.snippet import execute, floats, machine
from zluda_rr.emulate.gfx12.machine import Machine

ONE = 0x38
"""1.0 as e4m3."""
LINE = "v_wmma_f32_16x16x16_fp8_fp8 v[16:23], v[0:1], v[2:3], v[8:15]"


def operand(matrix: np.ndarray) -> np.ndarray:
    """Registers `[waves, 2, 32]` of codes `[waves, 16, 16]` (row or column, k), by engine.md section 2."""
    waves = matrix.shape[0]
    raw = np.zeros((waves, 2, 32, 4), dtype=np.uint8)
    for lane in range(32):
        r, h = lane & 15, lane >> 4
        for byte in range(8):
            raw[:, byte // 4, lane, byte % 4] = matrix[:, r, 8 * h + byte]
    return raw.view(np.uint32)[..., 0]


def accumulator(matrix: np.ndarray) -> np.ndarray:
    """Registers `[waves, 8, 32]` of f32 `[waves, 16, 16]` (row, column)."""
    registers = np.zeros((matrix.shape[0], 8, 32), dtype=np.float32)
    for lane in range(32):
        for i in range(8):
            registers[:, i, lane] = matrix[:, i + 8 * (lane >> 4), lane & 15]
    return registers.view(np.uint32)


def prepare(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Machine:
    target = machine(a.shape[0])
    target.vgpr[0:2] = operand(a).transpose(1, 0, 2)
    target.vgpr[2:4] = operand(b).transpose(1, 0, 2)
    target.vgpr[8:16] = accumulator(c).transpose(1, 0, 2)
    return target


def result(target: Machine, first: int = 16) -> np.ndarray:
    """f32 `[waves, 16, 16]` read back element by element."""
    d = np.zeros((target.waves, 16, 16), dtype=np.float32)
    for lane in range(32):
        for i in range(8):
            d[:, i + 8 * (lane >> 4), lane & 15] = floats(target.vgpr[first + i, :, lane])
    return d


def test_every_element_of_a_meets_its_k_of_b() -> None:
    """One wave per (row, k): A has a single one; B holds 1 + (column + k) mod 8 so that places differ."""
    a = np.zeros((256, 16, 16), dtype=np.uint8)
    for wave in range(256):
        a[wave, wave // 16, wave % 16] = ONE
    values = 1.0 + (np.arange(16)[:, None] * 3 + np.arange(16) * 5) % 15
    b = np.broadcast_to(values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), a.shape)
    target = execute(prepare(a, b, np.zeros((256, 16, 16))), [LINE])
    d = result(target)
    for wave in range(256):
        row, k = divmod(wave, 16)
        expected = np.zeros((16, 16))
        expected[row] = values[:, k]
        assert (d[wave] == expected).all(), (row, k)


def test_every_element_of_b_and_of_c() -> None:
    b = np.zeros((256, 16, 16), dtype=np.uint8)
    c = np.zeros((256, 16, 16))
    for wave in range(256):
        b[wave, wave // 16, wave % 16] = ONE
        c[wave, wave // 16, wave % 16] = 1000.0
    values = 1.0 + (np.arange(16)[:, None] * 7 + np.arange(16) * 3) % 15
    a = np.broadcast_to(values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), b.shape)
    d = result(execute(prepare(a, b, c), [LINE]))
    for wave in range(256):
        column, k = divmod(wave, 16)
        expected = c[wave].copy()
        expected[:, column] += values[:, k]
        assert (d[wave] == expected).all(), (column, k)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray, model: str) -> np.ndarray:
    """One wave, element by element, with products from exact rationals and f32 additions in the stated order."""
    left = a.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    right = b.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    d = np.zeros((16, 16), dtype=np.float32)
    for row in range(16):
        for column in range(16):
            products = [np.float32(left[row, k] * right[column, k]) for k in range(16)]
            seed = np.float32(c[row, column])
            if model == "exact":
                exact = Fraction(float(seed)) + sum(Fraction(float(p)) for p in products)
                word = F32.round(exact) if exact else 0
                d[row, column] = np.uint32(word).view(np.float32)
            elif model == "sequential":
                for product in products:
                    seed = np.float32(seed + product)
                d[row, column] = seed
            else:
                while len(products) > 1:
                    products = [np.float32(products[i] + products[i + 1]) for i in range(0, len(products), 2)]
                d[row, column] = np.float32(seed + products[0])
    return d


@pytest.mark.parametrize("model", ["exact", "sequential", "pairwise"])
def test_models_on_wide_ranges(model: str) -> None:
    rng = np.random.default_rng(12)
    a, b = (rng.integers(0, 256, (3, 16, 16), dtype=np.uint8) for _ in range(2))
    for codes in (a, b):
        codes[(codes & 0x7F) == 0x7F] = ONE
    c = (rng.normal(0, 1000, (3, 16, 16)) * rng.choice([1e-6, 1, 1e3], (3, 16, 16))).astype(np.float32)
    target = prepare(a, b, c)
    target.model = model
    d = result(execute(target, [LINE]))
    for wave in range(3):
        assert (d[wave] == reference(a[wave], b[wave], c[wave], model)).all()


def test_models_differ_on_cancellation() -> None:
    """Large and opposite products around a small one: each order of additions keeps a different part."""
    row = np.array([448.0, 2.0**-9, -448.0, 1.0] * 4)
    b = np.broadcast_to(row.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), (1, 16, 16))
    a = np.broadcast_to(np.where(np.arange(16) % 2 == 0, 0x7E, ONE).astype(np.uint8), (1, 16, 16))
    c = np.full((1, 16, 16), 2.0**-13)
    found = set()
    for model in ("exact", "sequential", "pairwise"):
        target = prepare(a, b, c)
        target.model = model
        found.add(float(result(execute(target, [LINE]))[0, 0, 0]))
    assert len(found) > 1


def test_inline_constant_c_overlapping_registers_and_nan() -> None:
    a = np.full((2, 16, 16), ONE, dtype=np.uint8)
    target = prepare(a, a, np.full((2, 16, 16), 5.0))
    execute(
        target,
        [
            "v_wmma_f32_16x16x16_fp8_fp8 v[16:23], v[0:1], v[2:3], 0",
            "v_wmma_f32_16x16x16_fp8_fp8 v[24:31], v[0:1], v[2:3], 1.0",
            "v_wmma_f32_16x16x16_fp8_fp8 v[8:15], v[0:1], v[2:3], v[8:15]",
            "v_wmma_f32_16x16x16_fp8_fp8 v[32:39], v[0:1], v[2:3], v[16:23] neg_lo:[0,0,1]",
        ],
    )
    for first, value in ((16, 16.0), (24, 17.0), (8, 21.0), (32, 0.0)):
        assert (result(target, first) == value).all()
    a[0, 3, 7] = 0x7F
    d = result(execute(prepare(a, np.full_like(a, ONE), np.zeros((2, 16, 16))), [LINE]))
    assert np.isnan(d[0, 3]).all()
    assert not np.isnan(np.delete(d[0], 3, axis=0)).any()
    assert not np.isnan(d[1]).any()


def test_bf8_operands() -> None:
    rng = np.random.default_rng(4)
    values = rng.choice([0.5, -1.0, 1.5, 3.0], (1, 16, 16))
    a = values.astype(ml_dtypes.float8_e5m2).view(np.uint8)
    b = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    target = execute(
        prepare(a, b, np.zeros((1, 16, 16))), ["v_wmma_f32_16x16x16_bf8_fp8 v[16:23], v[0:1], v[2:3], v[8:15]"]
    )
    assert (result(target)[0] == values[0] @ values[0].T).all()
