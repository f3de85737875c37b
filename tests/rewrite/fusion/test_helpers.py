"""kernels/fragment_consumer.hip: the exchange into WMMA order and out of it, every lane and word."""

from __future__ import annotations

import numpy as np

from tests.kernels.harness import compile_probe, run_probe

LANE = np.arange(32)
BIT = [LANE >> i & 1 for i in range(5)]


def wmma_order(words: np.ndarray) -> np.ndarray:
    """Words [2, 32] in WMMA order, from the definition: value x of lane b4..b0 is words[b1] of lane b3 b2 b0 b4 x."""
    lanes = [BIT[3] << 4 | BIT[2] << 3 | BIT[0] << 2 | BIT[4] << 1 | x for x in (0, 1)]
    return np.stack([words[BIT[1], lane] for lane in lanes])


def test_every_word_goes_to_its_place_and_back() -> None:
    compiled = compile_probe(
        "fragment_consumer.hip",
        """
    (void)lds;
    const uint32_t x0 = zrr_fc_lift0(in[l], in[32 + l]), x1 = zrr_fc_lift1(in[l], in[32 + l]);
    out[l] = x0; out[32 + l] = x1;
    out[64 + l] = zrr_fc_lower0(x0, x1); out[96 + l] = zrr_fc_lower1(x0, x1);
    """,
    )
    words = np.arange(64, dtype=np.uint32).reshape(2, 32)
    out = run_probe(compiled, words, 128).reshape(4, 32)
    assert (out[:2] == wmma_order(words)).all()
    assert (out[2:] == words).all()


def test_butterflies_in_wmma_order() -> None:
    """NVIDIA's exchange over t bit 0 swaps the registers, over t bit 1 the half-waves."""
    words = np.arange(64, dtype=np.uint32).reshape(2, 32)
    order = wmma_order(words)
    assert (wmma_order(words[:, LANE ^ 1]) == order[::-1]).all()
    assert (wmma_order(words[:, LANE ^ 2]) == order[:, LANE ^ 16]).all()


def test_half_is_the_other_half_wave() -> None:
    compiled = compile_probe("fragment_consumer.hip", "(void)lds; out[l] = zrr_fc_half(in[l]);")
    assert (run_probe(compiled, LANE.astype(np.uint32), 32) == (LANE ^ 16)).all()


def test_packs_equal_the_runtimes_conversions_for_every_half() -> None:
    """All 65,536 halves in every position, plain and relu, against the conversions that the lowering uses."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    pairs = halves | np.roll(halves, 12345) << 16
    body = """
    (void)lds;
    const uint32_t i = 32 * block + l, low = in[i], high = in[i + 2048 * 32];
    out[4 * i] = zrr_fc_pack(low, high);
    out[4 * i + 1] = zrt_cvt_e4m3x2_f16x2(low) | (uint32_t)zrt_cvt_e4m3x2_f16x2(high) << 16;
    out[4 * i + 2] = zrr_fc_pack_relu(low, high);
    out[4 * i + 3] = zrt_cvt_relu_e4m3x2_f16x2(low) | (uint32_t)zrt_cvt_relu_e4m3x2_f16x2(high) << 16;
    """
    include = 'fragment_consumer.hip"\n#define lane_id runtime_lane_id\n#include "ptx_runtime.hip'
    compiled = compile_probe(include, body)
    out = run_probe(compiled, np.concatenate([pairs, np.roll(pairs, 777)]), 4 << 16, blocks=2048).reshape(-1, 4)
    assert (out[:, 0] == out[:, 1]).all()
    assert (out[:, 2] == out[:, 3]).all()
