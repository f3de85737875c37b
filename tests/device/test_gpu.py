"""On a machine with the GPU of the golden run: a fresh run gives the stored bytes."""

from __future__ import annotations

import pytest

from .cubins import build_cubin
from .driver import CudaError, Gpu
from .golden import OUTPUTS, load, record
from .inputs import CASES
from .run_enc0 import launch


@pytest.mark.device
def test_a_fresh_run_gives_the_stored_bytes(tmp_path):
    try:
        gpu = Gpu()
    except (OSError, CudaError) as problem:
        pytest.skip(f"no CUDA device: {problem}")
    if gpu.describe()["device"] != record()["versions"]["device"]:
        pytest.skip(f"the golden run is not from {gpu.describe()['device']}")
    build_cubin("enc0", tmp_path / "enc0.cubin")
    image = (tmp_path / "enc0.cubin").read_bytes()
    for case in CASES:
        outputs, expected = launch(gpu, image, case), load(case)
        assert [n for n in OUTPUTS if (outputs[n] != expected[n]).any()] == [], case.name
