"""The oracle against a real H200 (stored run), and against the numpy model of the kernel, phase by phase."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corpus.build import VARIANTS, read_module
from tests.corpus.model_enc0 import Inputs, run
from tests.corpus.model_formats import ACCUMULATE
from tests.device.golden import check, differing_halves, names
from tests.device.inputs import CASES, Case, texels, weight_image
from tests.device.layer import ENC0, ENC1, POISON
from tests.device.oracle import launch
from tests.emulate.ptx.tiles import final_tiles
from zluda_rr.ptx import Body, linearise, parse

SMALL = next(c for c in CASES if c.kind == "cancel")


def body_of(name: str) -> Body:
    module = parse(read_module(name), filename=name)
    function = module.function(f"cuda_dldn_engine_swin_{name.split('-')[0]}_kernel")
    assert function is not None
    return linearise(function, module)


@pytest.fixture(scope="module")
def enc0() -> Body:
    return body_of("enc0")


def model_of(case: Case, accumulation: str):
    inputs = Inputs(case.ex, case.ey, case.shift_x, case.shift_y, weight_image(case), texels(case))
    return run(inputs, ACCUMULATE[accumulation], fill=POISON)


def phase_statements(body: Body) -> list[list[int]]:
    """Statement numbers of the runs of adjacent mma."""
    runs: list[list[int]] = []
    for statement in body.statements:
        if statement.opcode == "mma":
            if not runs or runs[-1][-1] != statement.number - 1:
                runs.append([])
            runs[-1].append(statement.number)
    return runs


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_oracle_equals_the_gpu(enc0, case):
    outputs, stats = launch(enc0, case, "sm90")
    assert stats.blocks == case.grid[0] * case.grid[1]
    check(case, outputs)


@pytest.mark.parametrize("case", CASES[1:], ids=lambda c: c.name)
def test_oracle_equals_the_gpu_on_enc1(case):
    outputs, _ = launch(body_of("enc1"), case, "sm90", layer=ENC1)
    check(case, outputs, ENC1)


@pytest.mark.parametrize("model", ACCUMULATE)
def test_oracle_equals_the_numpy_model(enc0, model):
    outputs, _ = launch(enc0, SMALL, model)
    expected = model_of(SMALL, model)
    for name in names(ENC0):
        want = np.ascontiguousarray(getattr(expected, name)).view(np.uint8)
        if name in ENC0.surfaces:
            assert differing_halves(outputs[name], want) == 0, name
        else:
            assert np.array_equal(outputs[name], want), name


def test_every_phase_equals_the_numpy_model(enc0):
    runs = phase_statements(enc0)
    columns = {5: 96, 10: 96, 21: 64, 22: 16}
    k_steps = {6: 3, 11: 3, 21: 4}
    _, stats = launch(enc0, SMALL, "sm90", tuple(n for run_ in runs for n in run_))
    expected = model_of(SMALL, "sm90").d
    row = np.arange(16)  # merged row r is X = (r & 7) >> 1, Y = 2*(r >> 3) + (r & 1); the model counts 4*Y + X
    expected[21] = expected[21][:, 4 * (2 * (row >> 3) + (row & 1)) + (row >> 1 & 3)]
    for phase, statements in enumerate(runs, 1):
        captured = [stats.captured[n] for n in statements]
        got = final_tiles(len(statements), columns.get(phase, 32), k_steps.get(phase, 1), captured)
        assert np.array_equal(got, expected[phase]), f"phase {phase}"


@pytest.mark.parametrize("name", [v.name for v in VARIANTS if v.name.startswith("enc0-")])
def test_other_modules_give_the_same(name):
    outputs, _ = launch(body_of(name), SMALL, "sm90")
    check(SMALL, outputs)
