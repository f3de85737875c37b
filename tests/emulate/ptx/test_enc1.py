"""The whole enc1 kernel in the oracle equals the numpy model of the layer: all outputs, and D of every phase."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corpus.build import VARIANTS, read_module
from tests.corpus.model_enc1 import Inputs, Outputs, run
from tests.corpus.model_formats import ACCUMULATE
from tests.device.golden import differing_halves
from tests.emulate.ptx.tiles import final_tiles
from zluda_rr.contract import load_contract
from zluda_rr.emulate.ptx import OracleStats, run_entry
from zluda_rr.ptx import Body, linearise, parse
from zluda_rr.runtime.workload import POISON, Launch, Shape, WorkloadKind, build_launch

SHAPE = Shape(20, 12, 4, 2)
SMALL = Shape(10, 6, 4, 6)  # four blocks, cut on all sides
CONTRACT = load_contract("enc1")
BUFFERS = {"plane_arena": "arena", "merged_planes": "merged", "blend": "blend", "gate": "gate", "half": "half"}


def body_of(name: str) -> Body:
    module = parse(read_module(name))
    return linearise(next(e for e in module.entries if e.name == CONTRACT.entry), module)


@pytest.fixture(scope="module")
def enc1() -> Body:
    return body_of("enc1")


def inputs_of(launch: Launch, shape: Shape) -> Inputs:
    """What the kernel finds in memory, for the model."""
    size = shape.ex, shape.ey, shape.shift_x, shape.shift_y
    planes = launch.memory.view("input_planes").copy().reshape(2, shape.ey, shape.ex, 32)
    texels = launch.memory.view("color").copy().view(np.float16).reshape(shape.ey, shape.ex, 4)
    return Inputs(*size, launch.memory.view("weights").copy(), planes, texels)


def both(
    body: Body, shape: Shape, kind: WorkloadKind, seed: int, model: str, capture: tuple[int, ...] = ()
) -> tuple[Launch, OracleStats, Outputs]:
    """The launch after the oracle ran it, the oracle's counts, and the model's outputs."""
    launch = build_launch(CONTRACT, shape, kind, seed)
    expected = run(inputs_of(launch, shape), ACCUMULATE[model], fill=POISON)
    where = {"grid": launch.grid, "block": launch.block, "params": launch.params, "memory": launch.memory}
    return launch, run_entry(body, CONTRACT.entry, model=model, capture=capture, **where), expected


def compare(launch: Launch, expected: Outputs) -> None:
    for name, field in BUFFERS.items():
        got, want = launch.memory.view(name), np.ascontiguousarray(getattr(expected, field)).view(np.uint8).reshape(-1)
        if name in launch.halves:
            assert differing_halves(got, want) == 0, name
        else:
            assert np.array_equal(got, want), name
        assert (got == POISON).mean() < 0.1, f"{name} was hardly written"


@pytest.mark.parametrize(("model", "seed"), [("pairwise", 3), ("sm90", 4)])
@pytest.mark.parametrize("kind", WorkloadKind)
def test_workload(enc1: Body, kind: WorkloadKind, model: str, seed: int) -> None:
    launch, stats, expected = both(enc1, SHAPE, kind, seed, model)
    assert stats.executed["mma"] == CONTRACT.mma * stats.warps
    compare(launch, expected)
    texels = expected.d[30][np.isfinite(expected.d[30])]
    assert len(np.unique(texels)) > 1000, "the data shows nothing"


@pytest.mark.parametrize("name", [v.name for v in VARIANTS if v.name.startswith("enc1-") or v.name == "rr"])
def test_other_modules_give_the_same(name: str) -> None:
    launch, _, expected = both(body_of(name), SMALL, WorkloadKind.RANDOM, 9, "pairwise")
    compare(launch, expected)


@pytest.mark.parametrize("model", ["pairwise", "sm90"])
def test_every_phase_equals_the_model(enc1: Body, model: str) -> None:
    numbers = [s.number for s in enc1.statements if s.opcode == "mma"]
    _, stats, outputs = both(enc1, SMALL, WorkloadKind.RANDOM, 7, model, tuple(numbers))
    row = np.arange(16)  # merged row r is X = (r & 7) >> 1, Y = 2*(r >> 3) + (r & 1); the model counts 4*Y + X
    merged = 4 * (2 * (row >> 3) + (row & 1)) + (row >> 1 & 3)
    at = 0
    for phase in CONTRACT.phases:
        captured = [stats.captured[n] for n in numbers[at : at + phase.mma]]
        at += phase.mma
        got = final_tiles(phase.mma, phase.shape[1], phase.shape[2] // 32, captured)
        want = outputs.d[phase.index]
        want = want[:, merged] if phase.index == 31 else want
        assert np.array_equal(got, want), f"phase {phase.index}"
    assert at == len(numbers) == 1072
