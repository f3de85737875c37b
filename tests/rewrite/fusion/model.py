"""The functions of kernels/fragment_consumer.hip in numpy, from the definition of WMMA order and the oracle's mma.

They share no code with the HIP source; test_helpers.py and test_products.py compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from zluda_rr.emulate.ptx.machine import Extern, ExternCall
from zluda_rr.numerics import e4m3, mma

LANE = np.arange(32)
_BIT = [LANE >> i & 1 for i in range(5)]
_SOURCE = [_BIT[3] << 4 | _BIT[2] << 3 | _BIT[0] << 2 | _BIT[4] << 1 | x for x in (0, 1)]
"""NVIDIA's lane of value x of each lane in WMMA order; the member of the pair is lane bit 1."""
Words = np.ndarray


def to_wmma(v0: Words, v1: Words) -> tuple[Words, Words]:
    """A pair [warps, 32] in WMMA order."""
    second = _BIT[1].astype(bool)
    first, other = (np.where(second, v1[:, source], v0[:, source]) for source in _SOURCE)
    return first, other


def to_nvidia(x0: Words, x1: Words) -> tuple[Words, Words]:
    """A pair [warps, 32] in NVIDIA's order: the inverse, by filling what `to_wmma` reads."""
    pair = np.zeros((2, *x0.shape), x0.dtype)
    for x, values in enumerate((x0, x1)):
        pair[_BIT[1], :, _SOURCE[x]] = values.T
    return pair[0], pair[1]


def _product(words: tuple[Words, ...], model: str) -> tuple[Words, ...]:
    """The four results of a product in WMMA order; `words` as in zrr_fc_product0."""
    r0, r1, r2, r3, c0, c1, c2, c3, s0, s1, s2, s3 = words
    (b0, f0), (b1, f1) = to_nvidia(r0, r1), to_nvidia(r2, r3)
    a = np.stack([*to_nvidia(c0, c1), *to_nvidia(c2, c3)], axis=1)
    (first0, first1), (second0, second1) = to_nvidia(s0, s2), to_nvidia(s1, s3)
    d = mma.mma_m16n8k32(a, np.stack([b0, b1], axis=1), np.stack([first0, first1], axis=1), model)
    e = mma.mma_m16n8k32(a, np.stack([f0, f1], axis=1), np.stack([second0, second1], axis=1), model)
    low, high = to_wmma(d[:, 0], d[:, 1]), to_wmma(e[:, 0], e[:, 1])
    return low[0], high[0], low[1], high[1]


def _pack(x: Words, y: Words, relu: bool) -> Words:
    low, high = (e4m3.encode_half_pairs(word, relu=relu).astype(np.uint32) for word in (x, y))
    packed: Words = low | high << np.uint32(16)
    return packed


def externs(model: str, after: Callable[[], None] = lambda: None) -> Mapping[str, Extern]:
    """Models of all functions for the oracle under an accumulation model; `after` follows every call."""
    known: dict[bytes, tuple[Words, ...]] = {}

    def product(number: int) -> Extern:
        def run(call: ExternCall) -> Words:
            after()
            words = (*call.arguments, *[np.zeros_like(call.arguments[0])] * (12 - len(call.arguments)))
            key = np.stack(words).tobytes()
            if key not in known:
                known[key] = _product(words, model)
            return known[key][number]

        return run

    def simple(function: Callable[..., Words]) -> Extern:
        def run(call: ExternCall) -> Words:
            after()
            return function(*call.arguments)

        return run

    return {
        **{f"zrr_fc_product{i}": product(i) for i in range(4)},
        **{f"zrr_fc_product_zero{i}": product(i) for i in range(4)},
        "zrr_fc_lift0": simple(lambda v0, v1: to_wmma(v0, v1)[0]),
        "zrr_fc_lift1": simple(lambda v0, v1: to_wmma(v0, v1)[1]),
        "zrr_fc_lower0": simple(lambda x0, x1: to_nvidia(x0, x1)[0]),
        "zrr_fc_lower1": simple(lambda x0, x1: to_nvidia(x0, x1)[1]),
        "zrr_fc_half": simple(lambda v: v[:, LANE ^ 16]),
        "zrr_fc_pack": simple(lambda x, y: _pack(x, y, False)),
        "zrr_fc_pack_relu": simple(lambda x, y: _pack(x, y, True)),
    }
