"""The golden runs are complete, belong to the committed modules, and equal the numpy models under `sm90`."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.corpus import model_enc0, model_enc1
from tests.corpus.build import VARIANTS, read_module
from tests.corpus.model_formats import ACCUMULATE

from .golden import check, digest, input_digest, load, names, record
from .inputs import CASES, Case, texels, weight_image
from .inputs_enc1 import planes
from .inputs_enc1 import weight_image as weight_image_enc1
from .layer import LAYERS, POISON, Layer

EACH = [pytest.param(layer, case, id=f"{layer.name}-{case.name}") for layer in LAYERS.values() for case in CASES]


def model(layer: Layer, case: Case, accumulation: str) -> dict[str, np.ndarray]:
    size, mma = (case.ex, case.ey, case.shift_x, case.shift_y), ACCUMULATE[accumulation]
    outputs: model_enc0.Outputs | model_enc1.Outputs
    if layer.name == "enc0":
        outputs = model_enc0.run(model_enc0.Inputs(*size, weight_image(case), texels(case)), mma, fill=POISON)
    else:
        inputs = model_enc1.Inputs(*size, weight_image_enc1(case), planes(case), texels(case))
        outputs = model_enc1.run(inputs, mma, fill=POISON)
    return {name: np.ascontiguousarray(getattr(outputs, name)).view(np.uint8) for name in names(layer)}


@pytest.fixture(params=LAYERS)
def layer(request) -> Layer:
    return LAYERS[request.param]


def test_record_belongs_to_the_committed_module(layer):
    entry = record(layer)
    assert entry["ptx_sha256"] == hashlib.sha256(read_module(layer.name).encode()).hexdigest()
    own = [v.name for v in VARIANTS if v.source == f"{layer.name}.cu"]
    assert sorted(entry["modules_with_equal_outputs"]) == sorted(own)
    assert entry["poison"] == POISON
    assert {"device", "driver", "cuda_driver_api"} <= set(entry["versions"])


@pytest.mark.parametrize(("layer", "case"), EACH)
def test_inputs_and_outputs_have_the_recorded_digests(layer, case):
    entry = record(layer)["cases"][case.name]
    assert input_digest(case, layer) == entry["inputs"]
    outputs = load(case, layer)
    assert {name: digest(outputs[name]) for name in names(layer)} == {name: entry[name] for name in names(layer)}


def test_launches_have_edges_on_all_sides(layer):
    assert record(layer)["cases"][CASES[0].name]["blocks"] >= 60
    for case in CASES:
        assert case.shift_x > 0
        assert case.shift_y > 0
        assert (case.ex + case.shift_x) % 8 or (case.ey + case.shift_y) % 8
        assert case.ex % 2 == case.ey % 2 == 0


@pytest.mark.parametrize(("layer", "case"), EACH)
def test_model_equals_the_gpu(layer, case):
    check(case, model(layer, case, "sm90"), layer)


def test_other_accumulation_is_noticed(layer):
    case = next(c for c in CASES if c.kind == "wide")
    other = model(layer, case, "exact")
    with pytest.raises(AssertionError, match="bytes of arena differ"):
        check(case, other, layer)


@pytest.mark.parametrize("name", ["arena", "merged"])
def test_one_wrong_byte_is_noticed(layer, name):
    outputs = load(CASES[1], layer)
    outputs[name].reshape(-1)[77] ^= 1
    with pytest.raises(AssertionError, match=f"1 of .* bytes of {name}"):
        check(CASES[1], outputs, layer)
