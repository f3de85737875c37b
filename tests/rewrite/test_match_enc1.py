"""The matcher on the second layer: every build equals its contract, which tiles the weight image."""

import re

import pytest

from tests.rewrite.conftest import corpus
from zluda_rr.analysis import InputNorm, InputResidual
from zluda_rr.contract import LayerContract, load_contract
from zluda_rr.image import read_ptx
from zluda_rr.ptx import parse
from zluda_rr.rewrite import inspect_json, match_entry

# Seed 001 section 2.1: mma, k steps, M, N, K.
_PROJECTION, _SCORES, _VALUES = (24, 1, 96, 32, 32), (48, 1, 64, 96, 32), (48, 3, 64, 32, 96)
_UP, _DOWN = (32, 2, 64, 32, 64), (32, 1, 64, 64, 32)
SHAPES = [
    *([_PROJECTION] * 4 + [_SCORES, _VALUES, _DOWN]) * 2,
    *[_UP, _DOWN] * 8,
    (96, 8, 16, 96, 256),
    (16, 2, 64, 16, 64),
]
MODULES = ("enc1", "enc1-reordered", "enc1-parambase", "enc1-nvcc13.5", "enc1-nvrtc12.9")


@pytest.fixture(scope="module")
def enc1() -> LayerContract:
    return load_contract("enc1")


@pytest.mark.parametrize("name", MODULES)
def test_all_32_phases_equal_the_contract(name: str, enc1: LayerContract) -> None:
    match = match_entry(parse(read_ptx(corpus(name))), enc1)
    assert [row.differences for row in match.rows] == [()] * 32
    assert match.equal
    assert (match.weights.first, match.weights.end, match.weights.unresolved) == (0, 96480, ())
    assert enc1.mma == len(match.kernel.mmas) == 1072


def test_phases_without_weights(enc1: LayerContract) -> None:
    """Seed 001 section 2.3: 6 and 13 read none, 5 and 12 only their score bias."""
    (entry,) = inspect_json(read_ptx(corpus("enc1")))["entries"]
    spans = {row["index"]: row["weight_bytes"] for row in entry["phases"]}
    without_b = [index for index, read in spans.items() if not any(span["operand"] == "B" for span in read)]
    assert without_b == [5, 6, 12, 13]
    assert spans[6] == spans[13] == []
    assert [(s["operand"], s["first"], s["end"]) for s in spans[5] + spans[12]] == [
        ("C", 4224, 16512),
        ("C", 22656, 34944),
    ]
    shapes = [(row["mma"], row["k_steps"], row["M"], row["N"], row["K"]) for row in entry["phases"]]
    assert shapes == SHAPES


def test_weight_regions_tile_the_image(enc1: LayerContract) -> None:
    end = 0
    for region in enc1.weights:
        assert region.offset == end, region
        end += region.nbytes
    assert end == enc1.weights_bytes == 96480
    assert enc1.weights[0].name == "input.gain"
    assert {r.name for r in enc1.weights if r.bounded} == {"P7.table"}


def test_operands_from_the_input_planes(enc1: LayerContract) -> None:
    planes = {row.index: row.a.plane for row in enc1.phases if isinstance(row.a, InputNorm)}
    assert planes == {1: 0, 2: 0, 3: 1, 4: 1, 8: 0, 9: 0, 10: 1, 11: 1}
    assert [row.index for row in enc1.phases if isinstance(row.c, InputResidual)] == [7]


def test_combined_module_is_recognised_entry_by_entry() -> None:
    report = inspect_json(read_ptx(corpus("rr")))
    assert [(entry["layer"], entry["equal"]) for entry in report["entries"]] == [("enc0", True), ("enc1", True)]


WEIGHTS = "B of n-tile 2, k step 0, word 0: expected W [1664+16*lane], found W [1696+16*lane]"
GAIN = "A of m-tile 0, k step 0, word 2: expected W [16+4*(lane&3)], found W [20+4*(lane&3)]"
INPUT = "A of m-tile 0: expected norm(input 8 plane 0, gain 0), each word decoded once"


@pytest.mark.parametrize(
    ("pattern", "new", "place"),
    [
        (r"add\.s64 (\s*%rd\d+, %rd\d+), 1664;", r"add.s64 \1, 1696;", (3, WEIGHTS)),
        (r"(ld\.global\.v2\.u16 .*)\+16\];", r"\1+20];", (1, GAIN)),
        (r"(cvt\.rn\.f16x2\.e4m3x2 %r\d+), %rs(\d+);", None, (1, INPUT)),
    ],
    ids=["weights", "gain", "input word"],
)
def test_a_changed_operand_is_named(pattern: str, new: str | None, place: tuple[int, str], enc1: LayerContract) -> None:
    text = read_ptx(corpus("enc1"))
    if new is None:  # the first two input words become one
        first, second = list(re.finditer(pattern, text))[:2]
        changed = text[: second.start()] + f"{second[1]}, %rs{first[2]};" + text[second.end() :]
    else:
        changed = re.sub(pattern, new, text, count=1)
    match = match_entry(parse(changed), enc1)
    assert not match.equal
    differences = match.rows[place[0] - 1].differences
    assert any(difference.startswith(place[1]) for difference in differences), differences
