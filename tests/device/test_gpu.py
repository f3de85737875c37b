"""On a machine with the GPU of the golden run: a fresh run gives the stored bytes."""

from __future__ import annotations

import pytest

from .cubins import build_cubin
from .driver import CudaError, Gpu
from .golden import load, names, record
from .inputs import CASES
from .layer import LAYERS
from .run import launch


@pytest.mark.device
@pytest.mark.parametrize("name", LAYERS)
def test_a_fresh_run_gives_the_stored_bytes(name, tmp_path):
    layer = LAYERS[name]
    try:
        gpu = Gpu()
    except (OSError, CudaError) as problem:
        pytest.skip(f"no CUDA device: {problem}")
    if gpu.describe()["device"] != record(layer)["versions"]["device"]:
        pytest.skip(f"the golden run is not from {gpu.describe()['device']}")
    build_cubin(name, tmp_path / "module.cubin")
    image = (tmp_path / "module.cubin").read_bytes()
    for case in CASES:
        outputs, expected = launch(gpu, image, layer, case), load(case, layer)
        assert [n for n in names(layer) if (outputs[n] != expected[n]).any()] == [], case.name
