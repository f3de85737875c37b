"""The HIP device on the emulated library: what each case checks stands in hip_program.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zluda_rr.emulate.hip import library_folder
from zluda_rr.errors import UserError
from zluda_rr.runtime.devices.hip import HipDevice, hip_device
from zluda_rr.toolchain import compile_hip_kernel

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "emulate" / "hip" / "kernels.hip"


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hip") / "kernels.co"
    path.write_bytes(compile_hip_kernel(KERNELS).code_object)
    return path


def run(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(library_folder()), **environ}
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def case(name: str, code_object: Path) -> list[str]:
    done = run(sys.executable, "-m", "tests.runtime.hip_program", name, code_object)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_layer_gives_the_same_bytes_as_in_the_emulator(code_object: Path) -> None:
    assert case("one_launch", code_object) == ["1 launches"]


@pytest.mark.soak
def test_every_layer_kind_and_model(code_object: Path) -> None:
    assert case("all_launches", code_object) == ["24 launches"]


def test_a_kernel_that_leaves_its_buffers_is_a_fault(code_object: Path) -> None:
    first, second, unnamed, read_only = case("faults", code_object)
    assert first == second == "the kernel failed on the device (hipErrorLaunchFailure)"
    assert unnamed == "ok"
    assert read_only == "store to read-only 'a'"


def test_surfaces_are_arrays_of_hip(code_object: Path) -> None:
    assert case("surfaces", code_object) == ["ok"]


def test_times_come_from_events(code_object: Path) -> None:
    assert case("times", code_object) == ["HIP: AMD Radeon RX 9070 XT (emulated)"]


def cli(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", "from zluda_rr.cli import main; main()", *arguments, **environ)


@pytest.mark.parametrize(
    "command", ["verify", pytest.param("bench", marks=pytest.mark.soak), pytest.param("demo", marks=pytest.mark.soak)]
)
def test_no_library_is_one_line_with_the_remedy(command: str, tmp_path: Path) -> None:
    done = cli(command, "--device", "hip", LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "zluda-rr: no HIP library (libamdhip64.so) on the loader's path; install ROCm, or use the emulated device: "
        "zluda-rr hip-emulated -- zluda-rr ...\n"
    )


def test_no_device_is_one_line_too() -> None:
    done = cli("verify", "--device", "hip", ZLUDA_RR_HIP_MEMORY="much")
    assert (done.returncode, done.stdout) == (2, "")
    assert "HIP finds no device (hipErrorNoDevice); install ROCm, or" in done.stderr.splitlines()[-1]


class FakeHip(SimpleNamespace):
    """hip-python on a card of some architecture."""

    def __init__(self, architecture: str, count: int = 1) -> None:
        good = SimpleNamespace(name="hipSuccess")
        properties = SimpleNamespace(name=b"Some Card", gcnArchName=architecture)
        super().__init__(
            hipError_t=SimpleNamespace(hipSuccess=good),
            hipGetDeviceCount=lambda: (good, count),
            hipGetDeviceProperties=lambda device: (good, properties),
            has_symbol=lambda name: False,
        )


def found(monkeypatch: pytest.MonkeyPatch, fake: FakeHip) -> HipDevice:
    monkeypatch.setattr("importlib.import_module", lambda name: SimpleNamespace(hip=fake))
    return hip_device()


def test_a_card_has_its_own_order_of_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    device = found(monkeypatch, FakeHip("gfx1201:sramecc-:xnack-"))
    assert (device.name, device.models, device.is_emulated) == ("HIP: Some Card", ("exact",), False)


def test_the_smaller_card_gets_code_in_its_name(monkeypatch: pytest.MonkeyPatch, code_object: Path) -> None:
    fake, loaded = FakeHip("gfx1200"), []
    fake.hipModuleLoadData = lambda data: (loaded.append(data), (fake.hipError_t.hipSuccess, "module"))[1]
    assert found(monkeypatch, fake).runtime.load(code_object.read_bytes()) == "module"
    assert b"amdgcn-amd-amdhsa--gfx1200" in loaded[0]
    assert b"gfx1201" not in loaded[0].split(b"amdgcn-amd-amdhsa--")[1]


@pytest.mark.parametrize(
    ("fake", "text"),
    [(FakeHip("gfx1100"), "Some Card is gfx1100; the kernels are compiled for gfx1201"), (FakeHip("", 0), "no device")],
)
def test_other_cards_are_refused(monkeypatch: pytest.MonkeyPatch, fake: FakeHip, text: str) -> None:
    with pytest.raises(UserError, match=text):
        found(monkeypatch, fake)


def test_a_broken_emulator_is_found(code_object: Path) -> None:
    """The comparison with the emulator in this process can fail: a helper that adds one to every f32 sum."""
    command = (sys.executable, "-m", "tests.runtime.hip_program", "sums", code_object)
    assert run(*command).stdout == "ok\n"
    done = run(*command, ZLUDA_RR_HIP_HELPER="tests.runtime.hip_broken_helper")
    assert done.returncode == 1
    assert "AssertionError: ('add', 'exact', 'c')" in done.stderr


def test_hip_emulated_runs_a_program(code_object: Path) -> None:
    done = cli("hip-emulated", "--", sys.executable, "-m", "tests.runtime.hip_program", "times", str(code_object))
    assert (done.returncode, done.stdout) == (0, "HIP: AMD Radeon RX 9070 XT (emulated)\n"), done.stderr
    missing = cli("hip-emulated", "--", "no-such-program")
    assert (missing.returncode, missing.stderr) == (2, "zluda-rr: no-such-program: no such program\n")
    nothing = cli("hip-emulated")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("zluda-rr: no program named; give it after --")
