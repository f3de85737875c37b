"""The golden run is complete, belongs to the committed module, and equals the numpy model under `sm90`."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.corpus.build import VARIANTS, read_module
from tests.corpus.model_enc0 import Inputs, Outputs, run
from tests.corpus.model_formats import ACCUMULATE

from .golden import EXACT, OUTPUTS, check, digest, input_digest, load, record
from .inputs import CASES, Case, texels, weight_image
from .run_enc0 import POISON

RECORD = record()


def model(case: Case, accumulation: str) -> Outputs:
    image, source = weight_image(case), texels(case)
    return run(
        Inputs(case.ex, case.ey, case.shift_x, case.shift_y, image, source), ACCUMULATE[accumulation], fill=POISON
    )


def as_bytes(outputs: Outputs) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(getattr(outputs, name)).view(np.uint8) for name in OUTPUTS}


def test_record_belongs_to_the_committed_module():
    assert RECORD["ptx_sha256"] == hashlib.sha256(read_module("enc0").encode()).hexdigest()
    assert sorted(RECORD["modules_with_equal_outputs"]) == sorted(v.name for v in VARIANTS if v.source == "enc0.cu")
    assert RECORD["poison"] == POISON
    assert {"device", "driver", "cuda_driver_api"} <= set(RECORD["versions"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_inputs_and_outputs_have_the_recorded_digests(case):
    entry = RECORD["cases"][case.name]
    assert input_digest(case) == entry["inputs"]
    outputs = load(case)
    assert {name: digest(outputs[name]) for name in OUTPUTS} == {name: entry[name] for name in OUTPUTS}


def test_launches_have_edges_on_all_sides():
    assert RECORD["cases"][CASES[0].name]["blocks"] >= 60
    for case in CASES:
        assert case.shift_x > 0
        assert case.shift_y > 0
        assert (case.ex + case.shift_x) % 8 or (case.ey + case.shift_y) % 8
        assert case.ex % 2 == case.ey % 2 == 0


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_model_equals_the_gpu(case):
    check(case, as_bytes(model(case, "sm90")))


def test_other_accumulation_is_noticed():
    case = next(c for c in CASES if c.kind == "wide")
    other = as_bytes(model(case, "exact"))
    with pytest.raises(AssertionError, match="bytes of arena differ"):
        check(case, other)


@pytest.mark.parametrize("name", EXACT)
def test_one_wrong_byte_is_noticed(name):
    outputs = load(CASES[1])
    outputs[name].reshape(-1)[77] ^= 1
    with pytest.raises(AssertionError, match=f"1 of .* bytes of {name}"):
        check(CASES[1], outputs)
