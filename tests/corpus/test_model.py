"""The numpy model's own foundations: formats against ml_dtypes, layouts by enumeration, trees and merges by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from . import model_formats as fmt
from .model_enc0 import (
    Inputs,
    block_origins,
    halo_grid,
    merge,
    mirror,
    rows_of_grid,
    scatter,
    score_bias,
    tile_address,
    tree_sum,
)

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
FINITE = ~np.isnan(HALVES)


def test_requantise_equals_a_clamped_e4m3_cast():
    clamped = np.clip(HALVES[FINITE].astype(np.float32), -448, 448)
    assert np.array_equal(fmt.requantise(HALVES)[FINITE], clamped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert set(fmt.requantise(HALVES[~FINITE])) == {0x7F, 0xFF}


def test_relu_clears_negatives_and_keeps_nan():
    relu, plain = fmt.requantise(HALVES, relu=True), fmt.requantise(HALVES)
    assert np.array_equal(relu, np.where(FINITE & np.signbit(HALVES), 0, plain))


def test_decode_equals_ml_dtypes():
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert np.array_equal(fmt.decode(codes), expected, equal_nan=True)


def test_slots_are_a_permutation_with_channel_pairs_adjacent():
    assert sorted(fmt.SLOT_CHANNEL) == list(range(32))
    assert list(fmt.SLOT_CHANNEL[:8]) == [0, 1, 16, 17, 2, 3, 18, 19]
    assert list(fmt.SLOT_CHANNEL[16:20]) == [8, 9, 24, 25]


@pytest.mark.parametrize(("columns", "channels"), [(32, 32), (64, 128), (16, 32)])
def test_weight_blocks_are_tiled_without_gaps(columns, channels):
    n, k = np.mgrid[0:columns, 0:channels]
    assert sorted(tile_address(n, k, channels // 32).ravel()) == list(range(columns * channels))


def test_score_bias_reads_every_half_once():
    image = np.arange(6144, dtype=np.uint16).view(np.uint8)
    assert sorted(score_bias(image, 0).view(np.uint16).ravel()) == list(range(6144))


@pytest.mark.parametrize("name", fmt.ACCUMULATE)
def test_accumulations_agree_where_everything_is_exact(name):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (2, 16, 32)).astype(np.float64), rng.integers(-4, 5, (2, 8, 32)).astype(np.float64)
    c = rng.integers(-4, 5, (2, 16, 8)).astype(np.float16)
    assert np.array_equal(fmt.ACCUMULATE[name](a, b, c), (a @ b.swapaxes(1, 2) + c).astype(np.float16))


def test_accumulations_differ_where_order_matters():
    a = np.ones((1, 32))
    b = np.zeros((1, 32))
    # 2**14 cancels inside slots 0..15; 2**-12 is lost where it is added to the large part alone.
    b[0, [0, 1, 2]] = 16384.0, 2.0**-12, -16384.0
    got = {name: float(f(a, b, np.zeros((1, 1), np.float16))[0, 0]) for name, f in fmt.ACCUMULATE.items()}
    assert got == {"exact": 2.0**-12, "sequential": 0.0, "pairwise": 0.0, "sm90": 0.0}


def test_mirror():
    assert list(mirror(np.array([-9, -1, 0, 5, 6, 7, 20]), 6)) == [1, 1, 0, 5, 4, 3, 0]


def test_rows_and_patches_follow_the_documented_order():
    texels = np.zeros((10, 12, 4), np.float16)
    texels[..., 0], texels[..., 1] = np.arange(12), np.arange(10)[:, None]
    inputs = Inputs(12, 10, 2, 4, np.zeros(0, np.uint8), texels)
    x0, y0 = block_origins(inputs)
    assert list(zip(x0, y0, strict=True)) == [(-2, -4), (6, -4), (-2, 4), (6, 4)]
    rows = rows_of_grid(halo_grid(inputs, texels))[2].astype(int)
    assert tuple(rows[8 * 3 + 5, :2]) == (3, 7)
    assert [tuple(rows[64 + 8 * side + 4, :2]) for side in range(4)] == [(2, 3), (2, 6), (3, 8), (6, 8)]


def test_tree_is_the_documented_order():
    values = np.full((1, 32), np.float16(2.0**-11))
    values[0, 0] = 1.0
    # n-tiles 0 and 2 of column 0 lose one small value; everything else adds up before it meets the large one.
    lone = np.float16(1.0)
    pair = np.float16(2.0**-10)
    expected = (((lone + pair) + np.float16(2.0**-9)) + np.float16(2.0**-8)) + np.float16(2.0**-7)
    assert tree_sum(values)[0] == expected


def test_merge_takes_the_four_tokens_of_each_pair():
    codes = np.zeros((1, 8, 8, 32), np.uint8)
    codes[0, ..., 0], codes[0, ..., 1] = np.arange(8)[:, None], np.arange(8)
    row = merge(codes)[0, 4 * 2 + 3]
    assert [tuple(row[32 * s : 32 * s + 2]) for s in range(4)] == [(4, 6), (4, 7), (5, 6), (5, 7)]


def test_scatter_drops_what_is_outside():
    plane = np.zeros((3, 3, 1), np.uint8)
    scatter(np.arange(1, 5, dtype=np.uint8).reshape(1, 2, 2, 1), plane, np.array([2]), np.array([-1]))
    assert plane[..., 0].tolist() == [[0, 0, 3], [0, 0, 0], [0, 0, 0]]
