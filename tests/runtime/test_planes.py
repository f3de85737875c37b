"""Input planes: mid-range codes whose rows survive a norm, and the special codes where they are asked for."""

import ml_dtypes
import numpy as np
import pytest

from zluda_rr.numerics.layout import slot_of_logical
from zluda_rr.runtime.planes import plane_codes
from zluda_rr.runtime.weights import CANCELLING, WorkloadKind

NBYTES = 64 * 40 * 36


@pytest.mark.parametrize("kind", WorkloadKind)
def test_most_rows_have_a_finite_sum_of_squares(kind: WorkloadKind) -> None:
    values = plane_codes(NBYTES, kind, 3).view(ml_dtypes.float8_e4m3fn).astype(np.float64).reshape(-1, 64)
    total = (values**2).sum(axis=1)
    assert np.mean((total > 1) & (total < 65504)) > 0.95


KINDS = [kind for kind in WorkloadKind if not kind.at_an_edge]  # the others have the planes of `random`


def test_seeds_and_kinds_differ_and_repeat() -> None:
    images = {(kind, seed): plane_codes(4096, kind, seed).tobytes() for kind in KINDS for seed in (1, 2)}
    assert len(set(images.values())) == len(images)
    assert images[WorkloadKind.SPECIAL, 2] == plane_codes(4096, WorkloadKind.SPECIAL, 2).tobytes()


def test_special_codes_occur() -> None:
    assert {0x7F, 0xFF, 0x80, 0x01} <= set(plane_codes(NBYTES, WorkloadKind.SPECIAL, 1).tolist())
    plain = set(plane_codes(NBYTES, WorkloadKind.RANDOM, 1).tolist())
    assert {0x80, 0x01} <= plain
    assert not {0x7F, 0xFF} & plain
    assert 0x7E in set(plane_codes(NBYTES, WorkloadKind.SATURATING, 1).tolist())


def test_cancelling_channels_are_mostly_equal() -> None:
    rows = plane_codes(NBYTES, WorkloadKind.CANCELLATION, 1).reshape(-1, 32)
    k = np.array(CANCELLING)
    assert np.mean(rows[:, slot_of_logical(k)] == rows[:, slot_of_logical(k + 8)]) > 0.9
