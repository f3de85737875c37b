"""Bookkeeping of input rows: the same words must be the same place wherever they are read."""

from __future__ import annotations

from zluda_rr.analysis.inputs import InputRows, Part
from zluda_rr.analysis.origins import ADD, DECODE, E4M3, MULTIPLY, RSQRT, Leaf
from zluda_rr.analysis.phases import Phase
from zluda_rr.analysis.sources import InputNorm, InputResidual, Unknown

NORM, PARAMETER, GAIN, TABLE = DECODE | MULTIPLY | E4M3, 8, 640, 4096
Halves = dict[tuple[int, int, int], tuple[Part, Part]]


def phase(m_tiles: int = 2) -> Phase:
    return Phase(1, (), {}, m_tiles, 4, 1, None)


def word(m: int, half: int, n: int) -> Leaf:
    """The loaded word of a cell: one statement per row and pair of n-tiles."""
    return Leaf("load", 100 * m + 10 * half + n % 2 + 2 * (n // 4), n % 4 >> 1)


def row(m: int, half: int) -> frozenset[Leaf]:
    return frozenset(word(m, half, n) for n in range(8))


def normed(plane: int, rows: tuple[int, ...] = (0, 1)) -> Halves:
    """The A words of one k step: fragment position -> row block `rows[position]`."""
    halves: Halves = {}
    for at, m in enumerate(rows):
        for i in range(4):
            tiles = 4 * plane + (i >> 1), 4 * plane + (i >> 1) + 2
            low, high = (Part((word(m, i & 1, n),), (), row(m, i & 1), NORM, NORM | RSQRT) for n in tiles)
            halves[at, 0, i] = low, high
    return halves


def residual(ops: int = DECODE | ADD) -> dict[tuple[int, int, int], Part]:
    cells = [(m, n, half) for m in (0, 1) for n in range(8) for half in (0, 1)]
    return {(m, n, half): Part((word(m, half, n),), (), frozenset(), ops, ops) for m, n, half in cells}


def both_planes() -> InputRows:
    rows = InputRows()
    assert rows.norm(phase(), normed(0), PARAMETER, GAIN) == (InputNorm(PARAMETER, 0, GAIN), [0, 1])
    assert rows.norm(phase(), normed(1), PARAMETER, GAIN + 64) == (InputNorm(PARAMETER, 1, GAIN), [0, 1])
    return rows


def test_planes_are_told_apart_by_their_gain() -> None:
    both_planes()


def test_rows_keep_their_names_in_another_order() -> None:
    assert both_planes().norm(phase(), normed(0, (1, 0)), PARAMETER, GAIN)[1] == [1, 0]


def test_residual_of_the_same_places() -> None:
    assert both_planes().residual(residual(), PARAMETER, TABLE) == InputResidual(PARAMETER, TABLE)


def test_residual_of_other_places_is_refused() -> None:
    seeds = residual()
    seeds[0, 0, 0], seeds[1, 0, 0] = seeds[1, 0, 0], seeds[0, 0, 0]
    assert both_planes().residual(seeds, PARAMETER, TABLE) == Unknown(
        "C of tile (0, 0) is an input word of another place"
    )


def test_residual_with_more_than_an_addition_is_refused() -> None:
    assert isinstance(both_planes().residual(residual(DECODE | ADD | MULTIPLY), PARAMETER, TABLE), Unknown)


def test_a_gain_off_the_planes_is_refused() -> None:
    source, labels = both_planes().norm(phase(), normed(0), PARAMETER, GAIN + 32)
    assert (source, labels) == (Unknown(f"norm of the input with gain {GAIN + 32}, another phase has {GAIN}"), None)


def test_the_other_plane_s_words_are_refused() -> None:
    source, _ = both_planes().norm(phase(), normed(1), PARAMETER, GAIN)
    assert isinstance(source, Unknown)
    assert "in two places" in source.reason


def test_a_row_block_used_twice_is_refused() -> None:
    source, _ = InputRows().norm(phase(), normed(0, (0, 0)), PARAMETER, GAIN)
    assert isinstance(source, Unknown)
