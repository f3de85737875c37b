"""The bodies on data at the edges of their conditions, and the faults that only such data shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import edges, enc0
from tests.kernels.mutations import BOUND_MUTATIONS, Mutation
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.toolchain import Compiled

BUDGET = 9_620  # instructions per wave: half a per cent more
KINDS = (WorkloadKind.SMALL, WorkloadKind.BOUNDS, WorkloadKind.SINGLE)
# The cases that show each fault: a few, so that a test of all of them needs seconds.
SHOWN_BY = {
    "epsilon": (WorkloadKind.SMALL, ""),
    "gain_bound": (WorkloadKind.BOUNDS, "D2.gain="),
    "byte_left_out": (WorkloadKind.SINGLE, "weight "),
    "half_of_the_columns": (WorkloadKind.SINGLE, "P13.c"),
    "branch_gain_bound": (WorkloadKind.BOUNDS, "D12.gain="),
    "residual_not_looked_at": (WorkloadKind.BOUNDS, "P7.table"),
}


def chosen(kind: WorkloadKind, start: str) -> edges.Suite:
    return edges.suite(kind, {name: image for name, image in edges.edges(kind).items() if name.startswith(start)})


def wrong(compiled: Compiled, suite: edges.Suite) -> list[str]:
    result, _ = enc0.run(compiled, suite.image, suite.codes, suite.model, extents=suite.extents)
    return suite.differences(result)


@pytest.mark.parametrize("kind", KINDS)
def test_no_case_differs(kind: WorkloadKind) -> None:
    assert wrong(enc0.compile_body(), edges.suite(kind, edges.edges(kind))) == []


def test_the_staged_body_has_no_conditions_but_an_epsilon() -> None:
    assert wrong(enc0.compile_body(enc0.STAGED), chosen(WorkloadKind.SMALL, "")) == []


def test_numbers_that_are_none() -> None:
    """NaN tokens, NaN weights, infinities in vectors and biases; several images of each ordinary kind."""
    suite = edges.suite("plain", edges.plain(), "sequential")
    assert wrong(enc0.compile_body(), suite) == []


def test_at_a_limit_from_inside_the_clamps_are_left_out() -> None:
    """A limit too low, or a clamp too many, costs time and no byte shows it: 9,572 as this is written."""
    inside = edges.suite("inside", edges.inside())
    _, stats = enc0.run(enc0.compile_body(), inside.image, inside.codes, "exact", extents=inside.extents)
    assert stats.instructions_per_wave <= BUDGET


@pytest.mark.parametrize("mutation", BOUND_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_wrong_condition_shows(mutation: Mutation, tmp_path: Path) -> None:
    compiled = enc0.compile_body(kernels=mutation.apply(tmp_path / "kernels"))
    assert wrong(compiled, chosen(*SHOWN_BY[mutation.name])), mutation.breaks
