"""Golden phases table of enc0 (seed 000 §6 with the corrections of the details page)."""

from itertools import pairwise

import pytest

from zluda_rr.analysis import Shared, Weights
from zluda_rr.contract import LayerContract
from zluda_rr.rewrite import LayerMatch
from zluda_rr.rewrite.report import weight_spans

# index: mma, (M, N, K), A, B, C
GOLDEN = """
 1 24  96 32  32 | shared                | weights 4096..5120   | columns 5120..5184
 2 24  96 32  32 | relu-pack(D1)         | weights 5184..6208   | columns 6208..6272
 3 24  96 32  32 | norm(D2, gain 6272)   | weights 6336..7360   | 0
 4 24  96 32  32 | norm(D2, gain 6272)   | weights 7360..8384   | 0
 5 48  64 96  32 | pack(D3)              | pack(D3)             | bias 8384..20672
 6 48  64 32  96 | softmax(D5)           | transpose(D4)        | 0
 7 16  64 32  32 | pack(D6)              | weights 20672..21696 | D2 + table 37056
 8 24  96 32  32 | norm(D2, gain 6272)   | weights 21696..22720 | 0
 9 24  96 32  32 | norm(D2, gain 6272)   | weights 22720..23744 | 0
10 48  64 96  32 | pack(D8)              | pack(D8)             | bias 23744..36032
11 48  64 32  96 | softmax(D10)          | transpose(D9)        | 0
12 16  64 32  32 | pack(D11)             | weights 36032..37056 | D7
13 16  64 32  32 | norm(D12, gain 37120) | weights 37184..38208 | columns 38208..38272
14 16  64 32  32 | activation(D13)       | weights 38272..39296 | D12 + table 39296
15 16  64 32  32 | norm(D12, gain 37120) | weights 39360..40384 | columns 40384..40448
16 16  64 32  32 | activation(D15)       | weights 40448..41472 | D14
17 16  64 32  32 | norm(D12, gain 37120) | weights 41472..42496 | columns 42496..42560
18 16  64 32  32 | activation(D17)       | weights 42560..43584 | D16
19 16  64 32  32 | norm(D12, gain 37120) | weights 43584..44608 | columns 44608..44672
20 16  64 32  32 | activation(D19)       | weights 44672..45696 | D18
21 32  16 64 128 | merge(D20)            | weights 45696..53888 | columns 53888..54016
22  8  64 16  32 | pack(D20)             | weights 54016..54528 | columns 54528..54560
"""


def golden_rows() -> list[tuple[list[int], list[str]]]:
    rows = []
    for line in GOLDEN.strip().splitlines():
        numbers, *sources = line.split("|")
        rows.append(([int(n) for n in numbers.split()], [source.strip() for source in sources]))
    return rows


@pytest.mark.parametrize(("numbers", "sources"), golden_rows())
def test_row(numbers: list[int], sources: list[str], match: LayerMatch) -> None:
    index, mma, *shape = numbers
    row = match.rows[index - 1].found
    assert row is not None
    assert (row.phase.index, len(row.phase.mmas), row.phase.shape) == (index, mma, tuple(shape))
    found = [str(row.a).split(" _Z")[0], str(row.b), str(row.c)]
    assert found == sources


def test_every_row_equals_the_contract(match: LayerMatch) -> None:
    assert match.equal
    assert match.first_difference() is None
    assert len(match.kernel.mmas) == 536


def test_the_phases_tile_the_weight_image(match: LayerMatch) -> None:
    """Every byte from 4096 to the end belongs to exactly one operand (a gain is read by several phases)."""
    spans = {(s.first, s.end) for row in match.rows if row.found is not None for s in weight_spans(row.found)}
    ordered = sorted(spans)
    assert ordered[0][0] == 4096
    assert ordered[-1][1] == 54560
    assert all(a[1] == b[0] for a, b in pairwise(ordered))
    assert (match.weights.first, match.weights.end, match.weights.unresolved) == (0, 54560, ())


def test_the_lent_array_is_found_by_what_it_feeds(match: LayerMatch) -> None:
    variable = match.arrays["input_tensor"]
    assert match.kernel.body.variables[variable].nbytes == 3200
    first = match.rows[0].found
    assert first is not None
    assert isinstance(first.a, Shared)
    assert first.a.array == variable


def test_tile_numbers_follow_the_weights(match: LayerMatch) -> None:
    """n-tile n of a weight phase reads words 2*(n&1), +1 of 16-column tile n>>1, whatever the order of the mma."""
    for row in match.rows:
        if row.found is None or not isinstance(row.found.b, Weights):
            continue
        phase, operands = row.found.phase, match.kernel
        for n in range(phase.n_tiles):
            for step in range(phase.k_steps):
                value = phase.b(n, step)[0]
                load = operands.body[value.defs[0]]
                access = operands.values.access(load)
                assert access is not None
                word = load.defs.index(value.register)
                tile = phase.k_steps * (n >> 1) + step
                assert access.offset.lanes[0] + 4 * word == row.found.b.at + 512 * tile + 8 * (n & 1)


def test_contract_rows_and_kernel_agree_on_mma(contract: LayerContract, match: LayerMatch) -> None:
    assert contract.mma == 536
    assert [row.expected.mma for row in match.rows] == [len(row.found.phase.mmas) for row in match.rows if row.found]
