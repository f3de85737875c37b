"""Faults in the layer's body turn verification red, and the phase in which they show is named."""

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.kernels.mutations import MUTATIONS
from zluda_rr.cli import main
from zluda_rr.runtime import (
    EmulatorDevice,
    Progress,
    Shape,
    Subject,
    WorkloadKind,
    build_launch,
    first_differing_phase,
    phase_probe,
    subject,
)
from zluda_rr.runtime.explain import Explainer
from zluda_rr.runtime.faults import GAP, DeviceFault
from zluda_rr.runtime.variants import Request, compile_all
from zluda_rr.runtime.workload import Recipe

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


SOAK = pytest.mark.soak
FAULTS = [
    ("no_guard", 20, r"8-byte store at 0x\w+, \d+ bytes before the start of plane_arena.*at 0x\w+: global_store_b64"),
    ("no_merged_guard", 21, r"8-byte store at 0x\w+, \d+ bytes (before|past) .*merged_planes.*global_store_b64"),
    ("no_end", None, "endless loop at 0x"),
    (
        "shared_beyond",
        None,
        r"16-byte LDS access at offset 0x\w+ of \d+ bytes \(wave \d+, .*, at 0x\w+: ds_store",
    ),
    ("weights_beyond", None, r"load at 0x\w+, \d+ bytes past the end of weights \(54560 bytes\), at 0x\w+: "),
    ("trap", None, "s_trap: the program gave up"),
]


@pytest.mark.parametrize(
    ("name", "phase", "said"),
    [pytest.param(*fault, id=fault[0], marks=SOAK if fault in FAULTS[4:] else ()) for fault in FAULTS],
)
def test_a_fault_is_explained_without_a_search(
    name: str, phase: int | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which access, in which instruction, how far outside of which buffer, and whose store."""
    monkeypatch.setattr("zluda_rr.runtime.device.BLOCK_LIMIT", 3000)
    what, device = mutant(name, tmp_path), EmulatorDevice()
    result = what.rewrite()
    request = Request("rewritten", result.module, what.body_sources(result))
    (program,) = compile_all((request,), what.contract.entry, QUIET)
    recipe = Recipe(what.contract, SHAPE, WorkloadKind.RANDOM, 1)
    with pytest.raises(DeviceFault) as caught:
        device.run(program, recipe.launch(GAP), "exact")
    found = Explainer(what, recipe, "exact", QUIET, search=False).fault("here", program, device, caught.value)
    assert found.fault is not None
    assert re.search(rf"^rewritten kernel: .*{said}", found.fault)
    assert (found.phase, found.stored) == (phase, phase is not None)
    assert str(found).endswith(f"; phase {phase}'s store" if phase else found.fault)


def test_the_command_calls_a_fault_a_difference(tmp_path: Path) -> None:
    folder = MUTATIONS["no_guard"].apply(tmp_path)
    command = ["verify", "--quiet", "--no-oracle", "--kernels", str(folder), "--kind", "random", "--model", "exact"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.output.splitlines()[-1].endswith("; phase 20's store")


def test_a_folder_without_the_bodies_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["verify", "--quiet", "--kernels", str(tmp_path)])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert "swin_enc0.hip: no such file" in result.output


@SOAK
def test_the_search_compiles_the_rewritten_kernel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs minutes is the original with captures: the oracle runs it as it is."""
    compiled: list[str] = []
    module = import_module("zluda_rr.runtime.stages")
    compile_all = module.compile_all

    def recording(requests: Sequence[Request], *rest: object) -> object:
        compiled.extend(request.name for request in requests)
        return compile_all(requests, *rest)

    monkeypatch.setattr(module, "compile_all", recording)
    launch = build_launch(subject("enc0", ()).contract, SHAPE, WorkloadKind.RANDOM)
    found = first_differing_phase(mutant("bias_slot", tmp_path), launch, "exact", QUIET)
    assert found is not None
    assert found.phase == 5
    assert compiled == ["rewritten, phases 1-22"]
