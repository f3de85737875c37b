"""The enc0 bodies, direct and staged, in the emulator against the numpy model of the layer, byte for byte."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels import enc0
from tests.kernels.mutations import DIRECT_MUTATIONS, Mutation
from zluda_rr.emulate.gfx12.ports import BankPort
from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.numerics.mma import WMMA_MODELS
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.toolchain import Compiled

# What the probe adds around the body: argument and result transfers, a few scalar instructions.
PROBE_INSTRUCTIONS = 80


@pytest.fixture(scope="module")
def direct() -> Compiled:
    return enc0.compile_body(enc0.DIRECT)


@pytest.fixture(scope="module")
def staged() -> Compiled:
    return enc0.compile_body(enc0.STAGED)


def same(result: enc0.Result, expected: enc0.Result) -> bool:
    return (
        np.array_equal(result.arena, expected.arena)
        and np.array_equal(result.planes, expected.planes)
        and np.array_equal(result.d22.view(np.uint16), expected.d22.view(np.uint16))
    )


@pytest.mark.parametrize("model", WMMA_MODELS)
@pytest.mark.parametrize("kind", [WorkloadKind.RANDOM, WorkloadKind.CANCELLATION, WorkloadKind.SATURATING])
def test_byte_identical(direct: Compiled, kind: WorkloadKind, model: str) -> None:
    """Twelve blocks, partial ones on all four sides; arena, merged planes and D22."""
    image, codes = enc0.workload(kind)
    result, stats = enc0.run(direct, image, codes, model)
    assert same(result, enc0.expected(image, codes, model))
    assert stats.by_class["wmma"] == 536
    assert stats.by_class["scratch"] == 0
    assert stats.instructions_per_wave <= 10_500 + PROBE_INSTRUCTIONS


@pytest.mark.parametrize("model", WMMA_MODELS)
@pytest.mark.parametrize("kind", [WorkloadKind.RANDOM, WorkloadKind.CANCELLATION, WorkloadKind.SATURATING])
def test_staged_is_byte_identical(staged: Compiled, kind: WorkloadKind, model: str) -> None:
    image, codes = enc0.workload(kind)
    result, stats = enc0.run(staged, image, codes, model)
    assert same(result, enc0.expected(image, codes, model))
    assert stats.by_class["wmma"] == 536


def test_saturating_mode_gives_the_same_bytes() -> None:
    """As the emulator models MODE.FP16_OVFL; the mode is off again at the end, or the results would show it."""
    compiled = enc0.compile_body(enc0.SATURATING)
    assert compiled.assembly.count("s_setreg") >= 2
    for kind in (WorkloadKind.RANDOM, WorkloadKind.SATURATING):
        image, codes = enc0.workload(kind)
        assert same(enc0.run(compiled, image, codes, "exact")[0], enc0.expected(image, codes, "exact"))


@pytest.mark.parametrize("body", [enc0.DIRECT, enc0.STAGED], ids=lambda body: body.function)
def test_shared_memory_stays_in_the_lent_bytes(body: enc0.Body, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every LDS access lies in the first 3072 of the 3200 lent bytes, and only what was written is read."""
    base = 512
    compiled = enc0.compile_body(body, lds_bytes=base + enc0.LENT_BYTES + 512, lds_offset=base)
    image, codes = enc0.workload(WorkloadKind.RANDOM)
    written = np.zeros((len(codes), base + enc0.LENT_BYTES), bool)
    load, store = BankPort.load, BankPort.store

    def cells(lanes: np.ndarray, addresses: np.ndarray, nbytes: int) -> tuple[np.ndarray, np.ndarray]:
        local = addresses.astype(np.int64)
        assert local.min() >= base
        assert local.max() + nbytes <= base + 3072
        return lanes[:, None] // 32, local[:, None] + np.arange(nbytes)

    def checked_load(port: BankPort, lanes: np.ndarray, addresses: np.ndarray, nbytes: int) -> np.ndarray:
        assert written[cells(lanes, addresses, nbytes)].all()
        return load(port, lanes, addresses, nbytes)

    def checked_store(port: BankPort, lanes: np.ndarray, addresses: np.ndarray, data: np.ndarray) -> None:
        written[cells(lanes, addresses, data.shape[1])] = True
        store(port, lanes, addresses, data)

    def lds_only(checked: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda port, *access: (checked if port._name == "LDS" else plain)(port, *access)

    monkeypatch.setattr(BankPort, "load", lds_only(checked_load, load))
    monkeypatch.setattr(BankPort, "store", lds_only(checked_store, store))
    enc0.run(compiled, image, codes, "exact")
    assert written.any()


def test_bounded_weights_need_fewer_instructions(direct: Compiled) -> None:
    """Random weights are below 2 and gains below 32: the copies without clamps run; cancelling weights are not."""
    counts = {}
    for kind in (WorkloadKind.RANDOM, WorkloadKind.CANCELLATION):
        image, codes = enc0.workload(kind)
        counts[kind] = enc0.run(direct, image, codes, "exact")[1].instructions_per_wave
    assert counts[WorkloadKind.RANDOM] + 500 < counts[WorkloadKind.CANCELLATION]


@pytest.mark.parametrize("part", ["heads", "branches"])
def test_bounds_hold_at_their_edge(direct: Compiled, part: str) -> None:
    """Largest weights that still take the copies without clamps: nothing overflows a conversion."""
    image, codes = enc0.workload_at_the_bounds(part)
    result, stats = enc0.run(direct, image, codes, "exact")
    assert same(result, enc0.expected(image, codes, "exact"))
    plain = enc0.run(direct, *enc0.workload(WorkloadKind.RANDOM), "exact")[1]
    extra = stats.instructions_per_wave - plain.instructions_per_wave
    assert extra == 0 if part == "branches" else extra < 200


def test_resources(direct: Compiled) -> None:
    resources = direct.resources("probe")
    assert resources.vgprs <= 192
    assert resources.scratch_bytes == 0
    assert resources.vgpr_spills == 0
    assert resources.lds_bytes == 3200
    assert "bpermute" not in direct.assembly


@pytest.mark.parametrize("mutation", DIRECT_MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutations_show(mutation: Mutation, tmp_path: Path) -> None:
    compiled = enc0.compile_body(kernels=mutation.apply(tmp_path / "kernels"))
    image, codes = enc0.workload(WorkloadKind.RANDOM)
    try:
        result, _ = enc0.run(compiled, image, codes, "exact")
    except MemoryFault:  # a store outside the extents may also leave the buffer
        return
    assert not same(result, enc0.expected(image, codes, "exact")), mutation.breaks
