"""The body `zrr_swin_enc0` in the emulator against the numpy model of the layer, byte for byte."""

from pathlib import Path

import numpy as np
import pytest

from tests.kernels import enc0
from tests.kernels.mutations import DIRECT_MUTATIONS, Mutation
from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.numerics.mma import WMMA_MODELS
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.toolchain import Compiled

# What the probe adds around the body: argument and result transfers, a few scalar instructions.
PROBE_INSTRUCTIONS = 80


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return enc0.compile_body()


def same(result: enc0.Result, expected: enc0.Result) -> bool:
    return (
        np.array_equal(result.arena, expected.arena)
        and np.array_equal(result.planes, expected.planes)
        and np.array_equal(result.d22.view(np.uint16), expected.d22.view(np.uint16))
    )


@pytest.mark.parametrize("model", WMMA_MODELS)
@pytest.mark.parametrize("kind", [WorkloadKind.RANDOM, WorkloadKind.CANCELLATION, WorkloadKind.SATURATING])
def test_byte_identical(compiled: Compiled, kind: WorkloadKind, model: str) -> None:
    """Twelve blocks, partial ones on all four sides; arena, merged planes and D22."""
    image, codes = enc0.workload(kind)
    result, stats = enc0.run(compiled, image, codes, model)
    assert same(result, enc0.expected(image, codes, model))
    assert stats.by_class["wmma"] == 536
    assert stats.by_class["scratch"] == 0
    assert stats.instructions_per_wave <= 10_500 + PROBE_INSTRUCTIONS


def test_bounded_weights_need_fewer_instructions(compiled: Compiled) -> None:
    """Random weights are below 2 and gains below 32: the copies without clamps run; cancelling weights are not."""
    counts = {}
    for kind in (WorkloadKind.RANDOM, WorkloadKind.CANCELLATION):
        image, codes = enc0.workload(kind)
        counts[kind] = enc0.run(compiled, image, codes, "exact")[1].instructions_per_wave
    assert counts[WorkloadKind.RANDOM] + 500 < counts[WorkloadKind.CANCELLATION]


def test_resources(compiled: Compiled) -> None:
    resources = compiled.resources("probe")
    assert resources.vgprs <= 192
    assert resources.scratch_bytes == 0
    assert resources.vgpr_spills == 0
    assert resources.lds_bytes == 3200
    assert "bpermute" not in compiled.assembly


@pytest.mark.parametrize("mutation", DIRECT_MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutations_show(mutation: Mutation, tmp_path: Path) -> None:
    compiled = enc0.compile_body(kernels=mutation.apply(tmp_path / "kernels"))
    image, codes = enc0.workload(WorkloadKind.RANDOM)
    try:
        result, _ = enc0.run(compiled, image, codes, "exact")
    except MemoryFault:  # a store outside the extents may also leave the buffer
        return
    assert not same(result, enc0.expected(image, codes, "exact")), mutation.breaks
