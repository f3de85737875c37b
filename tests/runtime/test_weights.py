"""The generated weight images hold what their kinds promise."""

import ml_dtypes
import numpy as np
import pytest

from zluda_rr.numerics import layout
from zluda_rr.runtime.weights import CANCELLING, Region, RegionKind, WorkloadKind, weight_image

MATRIX = Region("m", 64, 2048, RegionKind.MATRIX)


def matrix(kind: WorkloadKind) -> np.ndarray:
    """[tile, n, k] values of the test matrix."""
    image = weight_image([MATRIX], 4096, kind, 7)[64 : 64 + 2048].reshape(4, 512)
    n, k = np.indices((16, 32))
    return image[:, layout.weight_offset(n, k)].view(ml_dtypes.float8_e4m3fn).astype(np.float64)


@pytest.mark.parametrize("kind", list(WorkloadKind))
def test_matrices_are_finite_and_reach_subnormals(kind: WorkloadKind) -> None:
    values = matrix(kind)
    assert np.isfinite(values).all()
    assert ((values != 0) & (np.abs(values) < 2.0**-6)).any()


def test_cancelling_pairs_are_large_opposite_and_in_different_wmmas() -> None:
    values = matrix(WorkloadKind.CANCELLATION)
    slot = {k: s for s, k in enumerate(layout.logical_of_slot(np.arange(32)))}
    for k in CANCELLING:
        assert (values[..., k] == -values[..., k + 8]).all()
        assert (np.abs(values[..., k]) >= 128).all()
        assert slot[k] // 16 != slot[k + 8] // 16, "the pair must straddle the two WMMAs of a k32 step"
        assert k // 16 == (k + 8) // 16, "grouping by logical k must put the pair into one WMMA"
    rest = [k for k in range(32) if k not in CANCELLING and k - 8 not in CANCELLING]
    assert np.abs(values[..., rest]).max() < 0.25


def test_same_seed_same_image_other_seed_other_image() -> None:
    images = [weight_image([MATRIX], 4096, WorkloadKind.RANDOM, seed) for seed in (1, 1, 2)]
    assert (images[0] == images[1]).all()
    assert (images[0] != images[2]).any()


def test_bounded_columns_stay_small_where_others_saturate() -> None:
    regions = [Region("free", 0, 1024, RegionKind.COLUMN), Region("norm", 1024, 1024, RegionKind.COLUMN, bounded=True)]
    values = np.abs(weight_image(regions, 2048, WorkloadKind.SATURATING, 3).view(np.float16).astype(float))
    assert values[:512].max() > 448
    assert values[512:].max() < 8
