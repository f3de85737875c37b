"""FP8 WMMA: where elements lie, special values, and the order of the additions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.numerics.e4m3 import decode_to_float, encode_half
from zluda_rr.numerics.f16 import round_half, sum_to_odd
from zluda_rr.numerics.mma import WMMA_MODELS, wmma_16x16x16, wmma_k16
from zluda_rr.runtime.selftest.rig import Argument, Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict, comparison, one_nan

__all__ = ["CANDIDATES", "MATRIX_CHECKS", "distinguishing_data"]

Array = NDArray[Any]
SEED = 20_251


def _operand(codes: Array) -> Array:
    """Bytes `[n, 16 rows or columns, 16 k]` to words `[n, 32 lanes, 2]`: lane r + 16h holds k = 8h + i of row r."""
    n = len(codes)
    return np.ascontiguousarray(codes.reshape(n, 16, 2, 8).transpose(0, 2, 1, 3)).view(np.uint32).reshape(n, 32, 2)


def _accumulator(matrix: Array) -> Array:
    """f32 `[n, 16 rows, 16 columns]` to `[n, 32 lanes, 8]`: register i of lane r + 16h is row i + 8h, column r."""
    n = len(matrix)
    return np.ascontiguousarray(matrix.reshape(n, 2, 8, 16).transpose(0, 1, 3, 2)).reshape(n, 32, 8)


def _matrix(registers: Array) -> Array:
    """Inverse of `_accumulator`."""
    n = len(registers)
    return np.ascontiguousarray(registers.reshape(n, 2, 16, 8).transpose(0, 1, 3, 2)).reshape(n, 16, 16)


def _multiply(rig: Rig, a: Array, b: Array, c: Array) -> Array:
    """D of codes `[n, 16, 16]` (slot last) and f32 C, on the device."""
    arguments: list[Argument] = [_operand(a), _operand(b), _accumulator(c), Out((len(a), 32, 8), np.float32)]
    return _matrix(rig.launch("matrix", "wmma", arguments, len(a), 32)[0])


def _layout(rig: Rig) -> Row:
    """Small whole numbers: every order of additions gives the same sums, so only the places matter."""
    rng = np.random.default_rng(SEED)
    a, b = (encode_half(round_half(rng.integers(-8, 9, (16, 16, 16)).astype(np.float32))) for _ in range(2))
    c = rng.integers(-999, 1000, (16, 16, 16)).astype(np.float32)
    found = _multiply(rig, a, b, c)
    expected = wmma_16x16x16(decode_to_float(a), decode_to_float(b), c, "exact")
    row = comparison([("D", expected.view(np.uint32), found.view(np.uint32), [c.view(np.uint32)])], "elements")
    if row.verdict is Verdict.PASS:
        return row
    fits = [name for name, values in _misplaced(a, b, c) if (values == found).all()]
    told = "fits instead: " + (", ".join(fits) or "none of the layouts that were tried")
    return Row(row.result, row.expected, row.verdict, (told, *row.details), row.numbers)


def _misplaced(a: Array, b: Array, c: Array) -> list[tuple[str, Array]]:
    """What other layouts would give."""

    def product(a: Array, b: Array, c: Array) -> Array:
        return wmma_16x16x16(decode_to_float(a), decode_to_float(b), c, "exact")

    halves, words = np.r_[8:16, 0:8], np.r_[4:8, 0:4, 12:16, 8:12]
    shared = np.r_[0:4, 8:12, 4:8, 12:16]
    return [
        ("k halves of A swapped", product(a[..., halves], b, c)),
        ("words of A swapped", product(a[..., words], b, c)),
        ("k = 4h + i, then 8 + 4h + i in A only", product(a[..., shared], b, c)),
        ("A and B exchanged", product(b, a, c)),
        ("D and C transposed", product(a, b, c.transpose(0, 2, 1)).transpose(0, 2, 1)),
        ("rows of D and C swapped by eight", product(a, b, c[:, halves])[:, halves]),
    ]


def _special(rig: Rig) -> Row:
    """NaN codes, infinite and denormal C, zeros of both signs, sums that leave f32: one product at a time."""
    cases = [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000001, 0x807FFFFF, 0x7F7FFFFF]
    c = np.broadcast_to(np.array(cases * 2, np.uint32)[:, None], (16, 16)).view(np.float32)
    codes = np.array([0x00, 0x80, 0x7F, 0xFF, 0x7E, 0xFE, 0x01, 0x81] * 2, np.uint8)
    n = len(codes)
    a, b = np.zeros((n, 16, 16), np.uint8), np.zeros((n, 16, 16), np.uint8)
    for index, code in enumerate(codes):
        a[index, :, index] = code
        b[index, :, :] = 0x80 if index >= 8 else 0x00
        b[index, :, index] = codes
    seeds = np.ascontiguousarray(np.broadcast_to(c, (n, 16, 16)))
    found = _multiply(rig, a, b, seeds).view(np.uint32)
    expected = wmma_16x16x16(decode_to_float(a), decode_to_float(b), seeds, "exact").view(np.uint32)
    chosen = np.broadcast_to(a.max(axis=(1, 2))[:, None, None], seeds.shape)
    other = np.broadcast_to(codes[None, None, :], seeds.shape)
    inputs = [seeds.view(np.uint32), chosen, other]
    return comparison([("C, A, B", one_nan(expected), one_nan(found), inputs)], "elements")


Candidate = Callable[[Array, Array], Array]


def _grouped(size: int, *, c_first: bool) -> Candidate:
    """Exact sums of `size` neighbouring products, each rounded to f32 into the running total."""

    def formula(products: Array, c: Array) -> Array:
        sums = products.astype(np.float64).reshape(*products.shape[:-1], -1, size).sum(axis=-1)
        total = c if c_first else np.zeros_like(c)
        for part in range(sums.shape[-1]):
            total = wmma_k16(_alone(sums[..., part]), total, "exact")
        return np.asarray(total if c_first else total + c)

    return formula


def _alone(value: Array) -> Array:
    """One term in a row of sixteen; f64, as the exact model sums in it."""
    row = np.zeros((*value.shape, 16))
    row[..., 0] = value
    return row


def _reversed(products: Array, c: Array) -> Array:
    return wmma_k16(np.ascontiguousarray(products[..., ::-1]), c, "sequential")


def _truncated(products: Array, c: Array) -> Array:
    """The exact sum cut toward zero."""
    total = sum_to_odd(products.astype(np.float64).sum(axis=-1), c)
    near = total.astype(np.float32)
    over = np.abs(near.astype(np.float64)) > np.abs(total)
    return np.asarray(np.where(over, np.nextafter(near, np.float32(0)), near))


def _aligned(bits: int) -> Candidate:
    """All terms aligned to the largest one and cut to `bits` bits below its leading one, then summed and rounded."""

    def formula(products: Array, c: Array) -> Array:
        terms = np.concatenate([products, c[..., None]], axis=-1).astype(np.float64)
        top = np.frexp(np.abs(terms).max(axis=-1))[1]
        unit = np.ldexp(1.0, top - bits)[..., None]
        return np.asarray((np.trunc(terms / unit) * unit).sum(axis=-1).astype(np.float32))

    return formula


def _model(name: str) -> Candidate:
    return lambda products, c: wmma_k16(products, c, name)


CANDIDATES: Mapping[str, Candidate] = {
    **{name: _model(name) for name in WMMA_MODELS},
    "sequential from slot 15": _reversed,
    "exact pairs, one after another": _grouped(2, c_first=True),
    "exact fours, one after another": _grouped(4, c_first=True),
    "exact eights, one after another": _grouped(8, c_first=True),
    "exact fours, c last": _grouped(4, c_first=False),
    "exact eights, c last": _grouped(8, c_first=False),
    "exact products, c last": _grouped(16, c_first=False),
    "exact, cut toward zero": _truncated,
    **{f"aligned to the largest, {bits} bits": _aligned(bits) for bits in (24, 25, 26, 27, 32)},
}
"""The project's models first, then orders that hardware is known to have elsewhere."""


def distinguishing_data(n: int = 24) -> tuple[Array, Array, Array]:
    """Codes A, B `[n, 16, 16]` without NaN and f32 C: wide exponents, sums that cancel, C far above and below."""
    rng = np.random.default_rng(SEED + 1)
    a, b = (rng.integers(0, 256, (n, 16, 16)).astype(np.uint8) for _ in range(2))
    for codes in (a, b):
        codes[(codes & 0x7F) == 0x7F] ^= 1
    exact = decode_to_float(a).astype(np.float64) @ decode_to_float(b).astype(np.float64).transpose(0, 2, 1)
    c = rng.normal(0, 1, exact.shape) * np.exp2(rng.integers(-16, 24, exact.shape))
    cancel = rng.random(exact.shape) < 0.4
    c = np.where(cancel, -exact * (1 + rng.normal(0, 1e-4, exact.shape)), c)
    return a, b, c.astype(np.float32)


def _accumulation(rig: Rig) -> Row:
    """Which order of additions gives the device's bits on every element."""
    a, b, c = distinguishing_data()
    products = decode_to_float(a)[:, :, None, :] * decode_to_float(b)[:, None, :, :]
    expected = {name: formula(products, c).view(np.uint32) for name, formula in CANDIDATES.items()}
    if not rig.is_emulated:
        found = _multiply(rig, a, b, c).view(np.uint32)
        return _card_order(rig, expected, found, (a, b, c))
    details, good, counts = [], [], {}
    for model in WMMA_MODELS:
        rig.choose_model(model)
        fits = _fitting(expected, _multiply(rig, a, b, c).view(np.uint32))
        counts[model] = fits
        own = {name: fits[name] for name in WMMA_MODELS}
        details.append(f"asked for {model}: {_counts(own, c.size)}")
        good.append([name for name, count in fits.items() if count == c.size] == [model])
    rig.accumulation[:] = WMMA_MODELS
    verdict = Verdict.PASS if all(good) else Verdict.FAIL
    result = f"{sum(good)} of {len(good)} models as asked for"
    numbers = {"elements": c.size, "fit": counts}
    return Row(result, "each model alone fits when asked for", verdict, tuple(details), numbers)


def _fitting(expected: Mapping[str, Array], found: Array) -> dict[str, int]:
    return {name: int((words == found).sum()) for name, words in expected.items()}


def _counts(fits: Mapping[str, int], total: int) -> str:
    return f"of {total} elements fit " + ", ".join(f"{name} {count}" for name, count in fits.items())


def _card_order(rig: Rig, expected: Mapping[str, Array], found: Array, data: tuple[Array, Array, Array]) -> Row:
    fits = _fitting(expected, found)
    whole = [name for name, count in fits.items() if count == found.size]
    rig.accumulation[:] = [name for name in whole if name in WMMA_MODELS]
    numbers: dict[str, Any] = {"elements": found.size, "fit": fits, "models": whole}
    details = [_counts(fits, found.size)]
    if whole:
        verdict = Verdict.PASS if rig.accumulation else Verdict.INFO
        return Row(f"fits {', '.join(whole)}", "one of the models", verdict, tuple(details), numbers)
    closest = max(fits, key=lambda name: fits[name])
    raw = _unexplained(expected[closest], found, data)
    numbers["unexplained"] = raw
    details += [f"not {closest}: A {r['a']} B {r['b']} C {r['c']} gives {r['d']}" for r in raw[:8]]
    return Row(f"no model fits; closest is {closest}", "one of the models", Verdict.FAIL, tuple(details), numbers)


def _unexplained(expected: Array, found: Array, data: tuple[Array, Array, Array]) -> list[dict[str, str]]:
    """Elements as raw bits, enough of them to find the order by."""
    a, b, c = data
    places = np.argwhere(expected != found)[:64]
    return [
        {
            "a": a[m, i].tobytes().hex(),
            "b": b[m, j].tobytes().hex(),
            "c": f"{int(c.view(np.uint32)[m, i, j]):08x}",
            "d": f"{int(found[m, i, j]):08x}",
        }
        for m, i, j in places
    ]


MATRIX_CHECKS = (
    Check("wmma-layout", "Do the operands and accumulators of FP8 WMMA lie where the bodies put them?", _layout),
    Check("wmma-special", "What do NaN, infinite, denormal and signed-zero terms of a WMMA give?", _special),
    Check("wmma-accumulation", "In which order does a WMMA add its sixteen products and C?", _accumulation),
)
