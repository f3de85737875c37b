"""The epilogue tables of both layers equal the documents' in kind and order, for every build."""

import re

import pytest

from tests.rewrite.reports import BUILDS, entry, report, text
from zluda_rr.analysis import Epilogue
from zluda_rr.rewrite import examine_module, module_json, module_text

LOADS, BIAS, PACK, NORM_PACK = "weight loads", "score-bias loads", "pack", "pack of the norm"
SOFTMAX, TRANSPOSE, NORM = "cubic-exponent softmax", "V transpose", "RMS norm with gain"
ACTIVATION, TABLE, RESIDUAL = "clamped-cubic activation", "per-column table add", "residual add"
SCATTER, MERGE = "plane scatter", "lane merge"
TEXTURE = ("row gather", "true softmax", "texture stencil", "surface store")
SHARED = ("row gather", "true softmax", "shared stencil", "surface store")

# Seed 001 §2.4, row by row. The weight loads of E15, E17, … are not in its summary but in §3 (s19341, s20334): LOADS.
ENC1 = {
    **dict.fromkeys((1, 2, 3, 7, 8, 9, 10), (LOADS,)),
    **dict.fromkeys((4, 11), (BIAS, PACK)),
    **dict.fromkeys((5, 12), (SOFTMAX, TRANSPOSE, PACK)),
    6: (RESIDUAL, TABLE, PACK, LOADS),
    13: (PACK, LOADS),
    14: (NORM, LOADS, NORM_PACK),
    15: (ACTIVATION, TABLE, PACK, LOADS),
    **dict.fromkeys(range(16, 29, 2), (LOADS, NORM_PACK)),
    **dict.fromkeys(range(17, 30, 2), (ACTIVATION, PACK, LOADS)),
    30: (PACK, SCATTER, MERGE, LOADS),
    31: (PACK, SCATTER, LOADS),
    32: TEXTURE,
}
# Seed 000 §6 and the reference module's page. E11: C of P12 is D7, which takes no statement; the table of E13 rides on
# the residual D12.
ENC0 = {
    1: ("relu-pack", LOADS),
    2: (NORM, LOADS, NORM_PACK),
    **dict.fromkeys((3, 7, 8), (LOADS,)),
    **dict.fromkeys((4, 9), (BIAS, PACK)),
    **dict.fromkeys((5, 10), (SOFTMAX, TRANSPOSE, PACK)),
    6: (RESIDUAL, TABLE, PACK, LOADS),
    11: (PACK, LOADS),
    12: (NORM, LOADS, NORM_PACK),
    13: (ACTIVATION, TABLE, PACK, LOADS),
    **dict.fromkeys((14, 16, 18), (LOADS, NORM_PACK)),
    **dict.fromkeys((15, 17, 19), (ACTIVATION, PACK, LOADS)),
    20: (PACK, SCATTER, MERGE, LOADS),
    21: (PACK, SCATTER, LOADS),
    22: SHARED,
}
ENC1_DETAILS = {
    1: "weight loads for P2",
    4: "score-bias loads for P5; pack of D3",
    5: "cubic-exponent softmax of D5, 96 columns; V transpose of D4; pack of transpose of D4; pack of softmax of D5",
    6: "residual add of the input, C of P7; per-column table add 36992 to the input, C of P7; pack of D6; "
    "weight loads for P7",
    11: "score-bias loads for P12; pack of D10",
    12: "cubic-exponent softmax of D12, 96 columns; V transpose of D11; pack of transpose of D11; "
    "pack of softmax of D12",
    13: "pack of D13; weight loads for P14",
    14: "RMS norm with gain of D14, 64 columns; weight loads for P15; pack of the norm of D14",
    15: "clamped-cubic activation of D15; per-column table add 41408 to D14, C of P16; pack of activation of D15; "
    "weight loads for P16",
    28: "weight loads for P29; pack of the norm of D14",
    29: "clamped-cubic activation of D29; pack of activation of D29; weight loads for P30",
    30: "pack of D30; plane scatter of D30 to +48; lane merge of D30; weight loads for P31",
    31: "pack of D31; plane scatter of D31 to +56; weight loads for P32",
    32: "row gather of D32; true softmax of D32, 9 logits with their maximum; "
    "texture stencil of 9 taps, weights of D32; surface store to +112; surface store to +120; surface store to +128",
}


def table(epilogues: tuple[Epilogue, ...]) -> dict[int, tuple[str, ...]]:
    return {epilogue.index: epilogue.kinds for epilogue in epilogues if epilogue.index}


@pytest.mark.parametrize("build", BUILDS)
def test_enc1_is_seed_001(build: str) -> None:
    found = entry(f"enc1{build}").epilogues
    assert table(found) == ENC1
    assert [epilogue.index for epilogue in found] == list(range(33))
    texts = {e.index: "; ".join(map(str, e.operations)) for e in found}
    assert {index: texts[index] for index in ENC1_DETAILS} == ENC1_DETAILS
    assert [e.uncharacterised for e in found] == [()] * 33
    assert found[0].kinds == ("input norm", LOADS, NORM_PACK)


@pytest.mark.parametrize("build", BUILDS)
def test_enc0_is_seed_000(build: str) -> None:
    found = entry(f"enc0{build}").epilogues
    assert table(found) == ENC0
    assert [e.uncharacterised for e in found[1:]] == [()] * 22
    assert found[0].kinds == ("shared tile loads", LOADS)
    assert sum(last - first + 1 for first, last in found[0].uncharacterised) > 1000  # the features: documented nowhere


def test_seed_order_of_statements() -> None:
    """Seed 001 §3 gives the order inside E6 (loads, table, pack), E14 and E30; statements stand in it."""
    rows = {e.index: {o.kind: (o.first, o.last) for o in e.operations} for e in entry("enc1").epilogues}
    assert rows[6][LOADS][1] < rows[6][TABLE][0] < rows[6][TABLE][1] < rows[6][PACK][0]
    assert rows[14][NORM][1] < rows[14][LOADS][0] < rows[14][LOADS][1] < rows[14][NORM_PACK][0]
    assert rows[30][PACK][1] < rows[30][SCATTER][0] < rows[30][SCATTER][1] < rows[30][MERGE][0]
    assert rows[30][MERGE][1] < rows[30][LOADS][0]


def test_statement_counts_of_the_seed() -> None:
    """§2.4's column of statements, where our compiler makes the same code (E5, E12: 3838 and 3843 there)."""
    counts = {e.index: e.statements for e in entry("enc1").epilogues}
    for index, count in {1: 7, 2: 7, 3: 7, 4: 171, 7: 7, 8: 7, 9: 7, 10: 7, 11: 171, 13: 59, 15: 813}.items():
        assert counts[index] == count


CHANGES = {
    "slope of the activation": ("0f3ED306EB", "0f3ED00000", 15, ACTIVATION),
    "bound of the activation": ("0f40000000", "0f3F800000", 15, ACTIVATION),
    "scale of the softmax": ("0f3C8CCB50", "0f3C000000", 5, SOFTMAX),
    "mask of the exponent": (", 2145419232;", ", 2145419231;", 5, SOFTMAX),
    "epsilon of the norm": ("0d3F20000000000000", "0d3F10000000000000", 14, NORM),
    "log2 e of the last softmax": ("0f3FB8AA3B", "0f3FB80000", 32, "true softmax"),
    "relu in a pack": ("cvt.rn.satfinite.e4m3x2.f16x2 %rs", "cvt.rn.satfinite.relu.e4m3x2.f16x2 %rs", 13, PACK),
    "transpose": ("movmatrix.sync.aligned.m8n8.trans.b16", "mov.b32", 5, TRANSPOSE),
    "row sum in one lane": ("shfl.sync.bfly.b32", "shfl.sync.up.b32", 5, SOFTMAX),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_formula_is_not_taken_for_it(name: str) -> None:
    old, new, index, kind = CHANGES[name]
    source = text("enc1")
    if name == "transpose":
        source = re.sub(r"movmatrix\.sync\.\S+", "mov.b32", source)
    else:
        assert old in source
        source = source.replace(old, new)
    (found,) = examine_module(source, contracts=()).entries
    epilogue = found.epilogues[index]
    assert kind in ENC1[index]
    assert kind not in epilogue.kinds


def test_what_is_not_recognised_is_listed() -> None:
    source = text("enc1").replace("0f3ED306EB", "0f3ED00000")
    module = examine_module(source, contracts=())
    (found,) = module.entries
    for index in range(15, 30, 2):
        spans = found.epilogues[index].uncharacterised
        assert sum(last - first + 1 for first, last in spans) > 500
        assert all(found.epilogues[index].first <= a <= b <= found.epilogues[index].last for a, b in spans)
    assert found.epilogues[16].uncharacterised == ()
    assert re.search(r"^15 .*\n( .*\n)*? .*uncharacterised: \d+ statements in s\d+-s\d+", module_text(module), re.M)


def test_text_and_json_have_the_table() -> None:
    lines = module_text(report("enc1")).splitlines()
    assert max(map(len, lines)) <= 100
    assert any(
        line.startswith(" 4  s2776-s2946") and line.endswith("score-bias loads for P5; pack of D3") for line in lines
    )
    (found,) = module_json(report("enc1"))["entries"]  # type: ignore[misc]
    assert len(found["epilogues"]) == 33
    assert found["uncharacterised_statements"] == 0
    assert found["epilogues"][6]["operations"][1]["kind"] == TABLE
    mix = found["instruction_mix"]
    assert mix["mma"] == 1072
    assert sum(mix.values()) + text("enc1").count("\n$L__") == found["statements"]
