"""The oracle against the numpy model of enc0 on every kind of generated workload."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corpus.build import read_module
from tests.corpus.model_enc0 import Inputs, run
from tests.corpus.model_formats import ACCUMULATE
from tests.device.golden import differing_halves
from zluda_rr.contract import load_contract
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import Body, linearise, parse
from zluda_rr.runtime.workload import POISON, Shape, WorkloadKind, build_launch

SHAPE = Shape(20, 12, 4, 2)
BUFFERS = {"plane_arena": "arena", "merged_planes": "merged"}
SURFACES = {"blend": "blend", "gate": "gate", "half": "half"}


@pytest.fixture(scope="module")
def enc0() -> Body:
    module = parse(read_module("enc0"))
    return linearise(module.entries[0], module)


@pytest.mark.parametrize(("model", "seed"), [("pairwise", 3), ("sm90", 4)])
@pytest.mark.parametrize("kind", WorkloadKind)
def test_workload(enc0, kind, model, seed):
    contract = load_contract("enc0")
    launch = build_launch(contract, SHAPE, kind, seed)
    texels = launch.memory.view("color").copy().view(np.float16).reshape(SHAPE.ey, SHAPE.ex, 4)
    weights = launch.memory.view("weights").copy()
    inputs = Inputs(SHAPE.ex, SHAPE.ey, SHAPE.shift_x, SHAPE.shift_y, weights, texels)
    expected = run(inputs, ACCUMULATE[model], fill=POISON)
    where = {"grid": launch.grid, "block": launch.block, "params": launch.params, "memory": launch.memory}
    run_entry(enc0, contract.entry, model=model, **where)
    for name, field in BUFFERS.items():
        assert np.array_equal(launch.memory.view(name), getattr(expected, field).reshape(-1)), name
    for name, field in SURFACES.items():
        want = np.ascontiguousarray(getattr(expected, field)).view(np.uint8)
        assert differing_halves(launch.memory.view(name), want) == 0, name
