"""Transcendental instructions over all halves, and arithmetic under every denormal mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.approx import approx_ex2, approx_rcp, approx_rsqrt
from zluda_rr.numerics.f16 import flush, half_to_float, round_half
from zluda_rr.runtime.selftest.rig import Argument, Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict, comparison, one_nan, one_nan_half

__all__ = ["FUNCTION_CHECKS"]

Array = NDArray[Any]
HALVES = 1 << 16


def _function(index: int, name: str, formula: Callable[..., Array]) -> Callable[[Rig], Row]:
    """A row for one instruction: the halves of its results must be the model's, f32 bits are counted."""

    def ask(rig: Rig) -> Row:
        bits = np.arange(HALVES, dtype=np.uint16)
        x = half_to_float(bits)
        out = Out((HALVES,), np.float32)
        found = rig.launch("functions", "functions", [x, out, out, out], HALVES // 256, 256)[index]
        expected = formula(x, ftz=True)
        want, got = (one_nan_half(round_half(values)) for values in (expected, found))
        row = comparison([(name, want, got, [bits])], "results as halves")
        distance = _ulps(expected, found)
        within = f"f32 results: {int((distance == 0).sum())} as rounded correctly, {int((distance == 1).sum())} one ulp"
        details = (f"{within} off, largest distance {int(distance.max())} ulp", *row.details)
        numbers = {**row.numbers, "f32_differences": int((distance != 0).sum()), "largest_ulp": int(distance.max())}
        verdict = Verdict.FAIL if distance.max() > 1 else row.verdict
        return Row(row.result, "equal as halves, within 1 ulp as f32", verdict, details, numbers)

    return ask


def _ulps(a: Array, b: Array) -> Array:
    """Distance in representable f32 values; NaN equals NaN."""

    def place(values: Array) -> Array:
        words = one_nan(np.ascontiguousarray(values).view(np.uint32)).astype(np.int64)
        return np.where(words >> 31, -(words & 0x7FFFFFFF), words)

    return np.asarray(np.abs(place(a) - place(b)))


_NAMES = ("v_mul_f32", "v_add_f32", "v_fma_f32", "v_pk_mul_f16", "v_pk_add_f16", "v_fma_mix_f32", "v_fma_mixlo/hi")
_COUNT = 256


def _denormal_inputs() -> tuple[Array, Array, Array, Array]:
    """f32 whose inputs, products or sums are denormal, and pairs of halves likewise."""
    rng = np.random.default_rng(7)
    words = rng.integers(0, 1 << 31, (2, _COUNT)).astype(np.uint32)
    words[:, : _COUNT // 2] &= np.uint32(0x007FFFFF)
    words[1, : _COUNT // 4] = (rng.integers(0x3E, 0x48, _COUNT // 4) << 24).astype(np.uint32)
    small = slice(_COUNT // 2, 3 * _COUNT // 4)
    words[:, small] = rng.integers(0x18, 0x26, (2, _COUNT // 4)) << 24 | rng.integers(0, 1 << 23, (2, _COUNT // 4))
    words ^= (rng.integers(0, 2, words.shape) << 31).astype(np.uint32)
    halves = rng.integers(0, 1 << 14, (2, _COUNT, 2)).astype(np.uint16)
    halves[:, : _COUNT // 2] &= np.uint16(0x03FF)
    halves[1, : _COUNT // 4] = rng.integers(0x3800, 0x4800, (_COUNT // 4, 2)).astype(np.uint16)
    halves ^= (rng.integers(0, 2, halves.shape) << 15).astype(np.uint16)
    x, y = words.view(np.float32)
    return x, y, halves[0], halves[1]


def _flush_half(bits: Array) -> Array:
    return np.where(bits & np.uint16(0x7C00), bits, bits & np.uint16(0x8000))


def _denormal_results(mode: int, data: tuple[Array, Array, Array, Array]) -> Array:
    """`uint32[7, n]`: bits 0 and 1 of `mode` keep f32 inputs and outputs, 2 and 3 those of halves."""
    x, y, p, q = data
    if not mode & 1:
        x, y = flush(x), flush(y)
    if not mode & 4:
        p, q = _flush_half(p), _flush_half(q)

    def single(values: Array) -> Array:
        rounded = values.astype(np.float32)
        return (rounded if mode & 2 else flush(rounded)).view(np.uint32)

    def half(values: Array) -> Array:
        rounded = round_half(values)
        return rounded if mode & 8 else _flush_half(rounded)

    def packed(values: Array) -> Array:
        return np.ascontiguousarray(half(values)).view(np.uint32)[:, 0]

    with np.errstate(all="ignore"):
        wide = [values.astype(np.float64) for values in (x, y, half_to_float(p), half_to_float(q))]
        product = single(wide[0] * wide[1])
        mixed = half(wide[0] * wide[1]).astype(np.uint32)
        return np.stack([
            product, single(wide[0] + wide[1]), product, packed(wide[2] * wide[3]), packed(wide[2] + wide[3]),
            single(wide[2][:, 0] * wide[1]), mixed | mixed << np.uint32(16),
        ])  # fmt: skip


def _denormals(rig: Rig) -> Row:
    data = _denormal_inputs()
    x, y, p, q = data
    parts = []
    for mode in range(16):
        words = [np.ascontiguousarray(pair).view(np.uint32)[:, 0] for pair in (p, q)]
        arguments: list[Argument] = [mode, x, y, *words, Out((_COUNT, len(_NAMES)), np.uint32)]
        (found,) = rig.launch("functions", "denormals", arguments, 1, _COUNT)
        for index, name in enumerate(_NAMES):
            expected = _denormal_results(mode, data)[index]
            parts.append((f"{name} in mode {mode:04b}", expected, found[:, index].copy(), [*words]))
    return comparison(parts, "results")


FUNCTION_CHECKS = (
    Check("rcp", "Is v_rcp_f32 of every half the rounded reciprocal?", _function(0, "rcp", approx_rcp)),
    Check("rsq", "Is v_rsq_f32 of every half the rounded inverse root?", _function(1, "rsq", approx_rsqrt)),
    Check("exp2", "Is v_exp_f32 of every half the rounded power of two?", _function(2, "exp2", approx_ex2)),
    Check("denormals", "Do the four denormal bits of MODE flush inputs and results as assumed?", _denormals),
)
