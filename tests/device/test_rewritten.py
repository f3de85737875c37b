"""enc0 rewritten with `--target nvptx`, in the oracle under `sm90`: what the H200 gave, without a GPU."""

from __future__ import annotations

from functools import cache

import pytest

from tests.corpus.build import read_module
from zluda_rr.contract import load_contract
from zluda_rr.hook import insert_bodies
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite import rewrite_module

from .golden import check
from .inputs import CASES, Case
from .oracle import launch

QUICK = tuple(case for case in CASES if case.kind == "hostile")
CUTS = {"layer": "zrr_swin_enc0", "phase8": "zrr_swin_phase"}


@cache
def rewritten_text(cut: str) -> str:
    contract = load_contract("enc0")
    result = rewrite_module(parse(read_module("enc0")), contract, (cut,))
    assert result.refused is None
    return insert_bodies(print_module(result.module))


def module(cut: str, old: str = "", new: str = "") -> Module:
    text = rewritten_text(cut)
    assert text.count(f".visible .func  (.param .b32 func_retval0) {CUTS[cut]}") >= 1
    assert old in text
    return parse(text.replace(old, new) if old else text)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_the_body_gives_what_the_gpu_gave(case: Case) -> None:
    outputs, stats = launch(module("layer"), case, "sm90")
    check(case, outputs)
    assert stats.executed["call"] == stats.warps == case.grid[0] * case.grid[1]


def test_one_wrong_instruction_of_the_body_shows() -> None:
    """The norm's root, in all copies."""
    broken = module("layer", "rsqrt.approx.ftz.f32", "sqrt.approx.ftz.f32")
    with pytest.raises(AssertionError, match="bytes of arena differ from the H200"):
        check(QUICK[0], launch(broken, QUICK[0], "sm90")[0])


@pytest.mark.soak
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_and_both_cuts(case: Case, cut: str) -> None:
    check(case, launch(module(cut), case, "sm90")[0])
