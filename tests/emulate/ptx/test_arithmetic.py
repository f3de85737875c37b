"""Every arithmetic, conversion, comparison and move form against an exact model, lane by lane."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulate.ptx.cases import FLOATING, INTEGER, Case, format_of
from tests.emulate.ptx.cases_convert import CONVERSIONS
from tests.emulate.ptx.harness import Snippet, register_bits, run
from tests.emulate.ptx.values import operands
from tests.numerics.exact import value_of

LANES = 256
CASES = INTEGER + FLOATING + CONVERSIONS


def distance(ours: int, expected: int, name: str) -> float:
    """Units in the last place between two floats of one sign; 0 for two NaNs."""
    x, y = value_of(ours, format_of(name)), value_of(expected, format_of(name))
    if math.isnan(x) or math.isnan(y):
        return 0 if math.isnan(x) and math.isnan(y) else math.inf
    return abs(ours - expected)


def check(case: Case, inputs: np.ndarray) -> np.ndarray:
    """Run the case and compare every lane; returns the outputs."""
    outcome = run(case.snippet, inputs)
    (result,) = case.snippet.outputs
    limit = (1 << register_bits(result)) - 1
    for row, slot in zip(inputs, outcome.slots[:, 0], strict=True):
        bits = [int(value) for value in row]
        ours, expected = int(slot) & limit, case.model(*bits) & limit
        if case.ulp or result == "f64":  # PTX does not say which NaN f64 operations give
            assert distance(ours, expected, result) <= case.ulp, (case.name, list(map(hex, bits)), hex(ours))
        else:
            assert ours == expected, (case.name, list(map(hex, bits)), hex(ours), hex(expected))
    return outcome.slots


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_form_agrees_with_its_model(case: Case) -> None:
    slots = check(case, operands(case.snippet.inputs, LANES, seed=sum(case.name.encode())))
    assert len(np.unique(slots)) > 1


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 2**32 - 1))
def test_forms_agree_on_other_operands(case: Case, seed: int) -> None:
    check(case, operands(case.snippet.inputs, 32, seed))


def test_immediates_are_operands_too() -> None:
    text = """add.s32 %d0, %a0, -5; mul.wide.u32 %d1, %d0, 4294967295; mov.b32 %d2, 0f3F800000;
    fma.rn.f32 %d2, %d2, 0f40000000, 0fBF000000; mov.f64 %d3, 0d3FF0000000000000; mov.u32 %d4, WARP_SZ;
    shl.b32 %d4, %d4, 8; setp.ne.s16 %d5, 1, 0;"""
    outcome = run(Snippet(text, ("u32",), ("u32", "u64", "f32", "f64", "u32", "pred")), np.full((32, 1), 7, np.uint64))
    expected = [2, 2 * 0xFFFFFFFF, 0x3FC00000, 0x3FF0000000000000, 32 << 8, 1]
    assert outcome.slots[0].tolist() == expected
    assert np.all(outcome.slots == outcome.slots[0])
