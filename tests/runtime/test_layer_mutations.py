"""Faults in the layer's body turn verification red, and the phase in which they show is named."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tests.kernels.mutations import MUTATIONS
from zluda_rr.runtime import Progress, Shape, Subject, WorkloadKind, build_launch, phase_probe, subject, verify

SHAPE = Shape(ex=26, ey=18, shift_x=4, shift_y=2)
QUIET = Progress(quiet=True)
UNTIL = 5  # the translated kernel ends there: quick to compile, the same for every fault


def mutant(name: str, folder: Path) -> Subject:
    return replace(subject("enc0", ()), bodies=(MUTATIONS[name].apply(folder) / "swin_enc0.hip",))


@pytest.mark.parametrize(
    ("name", "phase"),
    [("row_order", 1), ("no_half_wave_exchange", 3), ("addition_order", 3), ("bias_slot", 5)],
)
def test_the_first_differing_phase_is_named(name: str, phase: int, tmp_path: Path) -> None:
    """A norm's fault shows in the next product: phase 3 reads what E2 made of D2."""
    probe = phase_probe(mutant(name, tmp_path), QUIET, UNTIL)
    found = probe.compare(build_launch(subject("enc0", ()).contract, SHAPE, WorkloadKind.RANDOM), "exact")
    assert found is not None
    assert found.phase == phase


@pytest.mark.parametrize("body", ["direct", "staged"])
def test_the_unbroken_bodies_agree_phase_by_phase(body: str) -> None:
    what = subject("enc0", (), body=body)
    probe = phase_probe(what, QUIET, UNTIL)
    launch = build_launch(what.contract, SHAPE, WorkloadKind.CANCELLATION)
    assert probe.bytes_per_launch(launch) == SHAPE.blocks * 2 * (4 * 96 * 32 + 64 * 96)
    assert probe.compare(launch, "sequential") is None


def test_a_missing_guard_is_found_and_blamed_on_the_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every accumulator is right (so the search, which costs minutes, is left out): phase 20 is stored wrongly."""
    module = import_module("zluda_rr.runtime.verify")  # the package's `verify` is the function
    monkeypatch.setattr(module, "first_differing_phase", lambda *_: None)
    report = verify(
        mutant("no_guard", tmp_path), shape=SHAPE, kinds=(WorkloadKind.RANDOM,), models=("exact",), oracle=False
    )
    assert not report.equal
    assert report.first_difference is not None
    assert report.first_difference.output in {"plane_arena", "memory fault"}
    assert report.first_difference.phase == 20
