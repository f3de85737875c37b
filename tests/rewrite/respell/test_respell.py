"""The reference modules as others would write them: accepted, and executed equal to the original."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.rewrite.conftest import corpus
from tests.rewrite.respell import DOCUMENTED, INPUTS, UNDOCUMENTED, respelled
from zluda_rr.contract import LayerContract, load_contract
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.image import read_ptx
from zluda_rr.ptx import linearise, parse
from zluda_rr.rewrite import match_entry, rewrite_module
from zluda_rr.rewrite.driver import examine_cut
from zluda_rr.runtime.workload import Shape, WorkloadKind, build_launch

PAGE = Path(__file__).parents[3] / "docs" / "respellings.md"
ALTERNATIVES = {"barrier_sync", "selp_to_skip", "no_cvta", "laneid_once"}
"""Documented, but each of them excludes another one or is the other habit of two."""
AT_ONCE = tuple(name for name in DOCUMENTED if name not in ALTERNATIVES and name != "crlf")
NOT_IN_ENC1 = {"index_8ex", "x_per_group", "bar_warp_sync", "barrier_sync"}
"""enc1 has its index and its columns so already, and no barrier."""
REFUSED = {"clamp_swapped": "phase 6: A", "relu_max": "phase 2: A", "mask_add": "phase 6: A"}
ACCEPTED = tuple(name for name in UNDOCUMENTED if name not in REFUSED)
OTHER = (
    *("guard_no_minus1", "predicated_stores", "guard_bounds", "mad_apart", "bfi_or", "setp_swapped", "v4_u64"),
    *("table_u32", "scopes_flat", "operands_swapped", "or_pred_de_morgan", "selp_predicated_mov", "sub_add"),
    *("mul_fma", "bfly_idx", "bfe_lane", "pack_shl_or", "unpack_shr", "neg_xor", "abs_and", "and_lop3", "zero_xor"),
)  # fmt: skip
"""Undocumented ones that can be carried out one after the other, guards as predicates."""
Outputs = dict[str, np.ndarray]


@cache
def text_of(layer: str) -> str:
    return read_ptx(corpus(layer))


def spelled(layer: str, names: Sequence[str]) -> str:
    return respelled(text_of(layer), names, DOCUMENTED, INPUTS, UNDOCUMENTED)


def executed(layer: str, text: str) -> Outputs:
    """Every buffer and surface after a launch with partial blocks at both far edges."""
    contract = load_contract(layer)
    module = parse(text)
    function = module.function(contract.entry)
    assert function is not None
    launch = build_launch(contract, Shape(14, 10, 4, 2), WorkloadKind.RANDOM, 3)
    where = {"grid": launch.grid, "block": launch.block, "params": launch.params, "memory": launch.memory}
    run_entry(linearise(function, module), contract.entry, model="sm90", **where)
    names = [b.name for b in contract.buffers] + [s.name for s in contract.surfaces]
    return {name: launch.memory.view(name).copy() for name in names}


@cache
def original(layer: str) -> Outputs:
    return executed(layer, text_of(layer))


def assert_executed_equal(layer: str, text: str) -> None:
    found = executed(layer, text)
    assert {name for name, data in original(layer).items() if not np.array_equal(data, found[name])} == set()


def assert_accepted(text: str, contract: LayerContract) -> None:
    """Every obligation of both cuts holds."""
    match = match_entry(parse(text), contract)
    for rule in contract.cuts:
        for obligation in examine_cut(match, rule).obligations:
            assert obligation.holds, f"{rule.name}: {obligation.number}: {obligation.detail}"


def test_every_documented_statement_at_once(contract: LayerContract) -> None:
    text = spelled("enc0", (*AT_ONCE, "shared_a_v2u16", "crlf"))
    assert_accepted(text, contract)
    assert_executed_equal("enc0", text)


def test_other_compilers_habits_at_once(contract: LayerContract) -> None:
    assert_accepted(spelled("enc0", OTHER), contract)


@pytest.mark.soak
def test_other_compilers_habits_at_once_executed() -> None:
    assert_executed_equal("enc0", spelled("enc0", OTHER))


def test_enc1_at_once() -> None:
    names = [name for name in (*AT_ONCE, *OTHER, "crlf") if name not in NOT_IN_ENC1]
    match = match_entry(parse(spelled("enc1", names)), load_contract("enc1"))
    assert match.equal, match.first_difference()


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_not_the_same_for_every_input_is_refused(name: str, contract: LayerContract) -> None:
    match = match_entry(parse(spelled("enc0", [name])), contract)
    assert str(match.first_difference()).startswith(REFUSED[name])


def test_the_page_lists_every_respelling_and_its_verdict() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (accepted|refused)[^|]*\|$", PAGE.read_text(), re.MULTILINE))
    every = {*DOCUMENTED, *INPUTS, *UNDOCUMENTED}
    assert rows == {name: "refused" if name in REFUSED else "accepted" for name in every}


# One wrong statement in a respelling: each has to be refused, so the proofs of the right ones say something.
Wrong = Callable[[str], str]
WRONG: dict[str, tuple[str, str, str]] = {
    "half_division: rounds up": ("half_division", r"(shr\.u32 %r\d+, %r\d+, )31(;\s+add\.s32)", r"\g<1>30\2"),
    "guard_signed: one below": ("guard_signed", r"(setp\.lt\.s32 %p\d+, %r\d+, )0(; *\s+setp\.ge\.s32)", r"\g<1>1\2"),
    "guard_signed: without x < 0": ("guard_signed", r"setp\.lt\.s32 (%p\d+), %r\d+, 0;(\s+or)", r"mov.pred \1, 0;\2"),
    "store_v2u16: halves exchanged": (
        "store_v2u16",
        r"(st\.global\.v2\.u16\s+\[%rd\d+\], )\{(%rs\d+), (%rs\d+)\}",
        r"\1{\3, \2}",
    ),
    "x_per_group: of another group": ("x_per_group", r"(and\.b32 %r\d+, %r\d+, )7(;\s+add)", r"\g<1>6\2"),
    "predicated move: negated": ("selp_predicated_mov", r"@(%p39|%p10) mov", r"@!\1 mov"),
    "lop3: or": ("and_lop3", r"(?s)(, 12, 0, 0xC0;.*?, 12, 0, )0xC0", r"\g<1>0xFC"),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_respelling_is_refused(name: str, contract: LayerContract) -> None:
    respelling, pattern, change = WRONG[name]
    text, count = re.subn(pattern, change, spelled("enc0", [respelling]), count=1)
    assert count == 1
    assert rewrite_module(parse(text), contract, ("layer",)).refused is not None


@pytest.mark.soak
@pytest.mark.parametrize("name", [*DOCUMENTED, *INPUTS, *ACCEPTED])
def test_each_alone(name: str, contract: LayerContract) -> None:
    text = spelled("enc0", [name])
    assert_accepted(text, contract)
    assert_executed_equal("enc0", text)


@pytest.mark.soak
@pytest.mark.parametrize("name", INPUTS)
def test_every_form_of_phase_1_with_all_documented_statements(name: str, contract: LayerContract) -> None:
    text = spelled("enc0", (*AT_ONCE, name, "crlf"))
    assert_accepted(text, contract)
    assert_executed_equal("enc0", text)


@pytest.mark.soak
@pytest.mark.parametrize("name", [n for n in (*DOCUMENTED, *ACCEPTED) if n not in NOT_IN_ENC1])
def test_each_alone_in_enc1(name: str) -> None:
    text = spelled("enc1", [name])
    assert match_entry(parse(text), load_contract("enc1")).equal
    assert_executed_equal("enc1", text)
