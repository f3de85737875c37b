"""The phase tables of both layers, from the PTX alone: seed 001 §2.1 and the reference module's page."""

import pytest

from tests.rewrite.reports import BUILDS, entry
from zluda_rr.analysis import Bias, Columns, Row, Values, Weights, read_extent

Shape = tuple[int, int, int, int, int]  # M, N, K, k steps, mma


def _shapes(rows: list[Row]) -> list[Shape]:
    return [(*row.phase.shape, row.phase.k_steps, len(row.phase.mmas)) for row in rows]


QKV, SCORE, VALUE = (96, 32, 32, 1, 24), (64, 96, 32, 1, 48), (64, 32, 96, 3, 48)
OUT, EXPAND = (64, 64, 32, 1, 32), (64, 32, 64, 2, 32)
ENC1 = [
    *[QKV] * 4,
    *(SCORE, VALUE, OUT),
    *[QKV] * 4,
    *(SCORE, VALUE, OUT),
    *(EXPAND, OUT) * 8,
    (16, 96, 256, 8, 96),
    (64, 16, 64, 2, 16),
]
SMALL = (64, 32, 32, 1, 16)
ENC0 = [
    *[QKV] * 4,
    *(SCORE, VALUE, SMALL),
    *[QKV] * 2,
    *(SCORE, VALUE),
    *[SMALL] * 9,
    (16, 64, 128, 4, 32),
    (64, 16, 32, 1, 8),
]
# Offsets of B, then of the seeds: rr-details B 29 (tiles of [0, 96480)).
ENC1_B = {
    1: 128,
    3: 1152,
    2: 2176,
    4: 3200,
    7: 16512,
    8: 18560,
    10: 19584,
    9: 20608,
    11: 21632,
    14: 34944,
    15: 37248,
    16: 39360,
    **{17 + 2 * i: 41536 + 4160 * i for i in range(7)},
    **{18 + 2 * i: 43648 + 4160 * i for i in range(7)},
    31: 70656,
    32: 95424,
}
ENC1_C = {5: 4224, 12: 22656, 15: 39296, **{17 + 2 * i: 43584 + 4160 * i for i in range(7)}, 31: 95232, 32: 96448}
ENC0_B = {
    1: 4096,
    2: 5184,
    3: 6336,
    4: 7360,
    7: 20672,
    8: 21696,
    9: 22720,
    12: 36032,
    13: 37184,
    14: 38272,
    15: 39360,
    16: 40448,
    17: 41472,
    18: 42560,
    19: 43584,
    20: 44672,
    21: 45696,
    22: 54016,
}
ENC0_C = {1: 5120, 2: 6208, 5: 8384, 10: 23744, 13: 38208, 15: 40384, 17: 42496, 19: 44608, 21: 53888, 22: 54528}


def _offsets(rows: list[Row]) -> tuple[dict[int, int], dict[int, int]]:
    b = {row.phase.index: row.b.at for row in rows if isinstance(row.b, Weights)}
    c = {row.phase.index: row.c.at for row in rows if isinstance(row.c, Columns | Bias)}
    return b, c


def _extent(name: str) -> tuple[int, int, tuple[int, ...]]:
    """With the per-lane table base, which seed 001 §2.2 shows adds 12 bytes to the highest immediate."""
    kernel = entry(name).kernel
    extent = read_extent(Values(kernel.body, kernel.uses, (32, 1, 1)), 40)
    return extent.first, extent.end, extent.unresolved


@pytest.mark.parametrize("build", BUILDS)
def test_enc1(build: str) -> None:
    rows = entry(f"enc1{build}").found
    assert _shapes(rows) == ENC1
    assert sum(len(row.phase.mmas) for row in rows) == 1072
    assert _offsets(rows) == (ENC1_B, ENC1_C)
    assert {row.phase.index for row in rows} - ENC1_B.keys() == {5, 6, 12, 13}
    assert [row.phase.index for row in rows if isinstance(row.c, Bias)] == [5, 12]
    assert _extent(f"enc1{build}") == (0, 96480, ())


@pytest.mark.parametrize("build", BUILDS)
def test_enc0(build: str) -> None:
    rows = entry(f"enc0{build}").found
    assert _shapes(rows) == ENC0
    assert sum(len(row.phase.mmas) for row in rows) == 536
    assert _offsets(rows) == (ENC0_B, ENC0_C)
    first, end, unresolved = _extent(f"enc0{build}")
    assert (first, end, unresolved) == (0, 54560, ())


@pytest.mark.parametrize("rows", [ENC0, ENC1])
def test_the_tables_are_products(rows: list[Shape]) -> None:
    for m, n, k, steps, mma in rows:
        assert m // 16 * n // 8 * k // 32 == mma
        assert k == 32 * steps
