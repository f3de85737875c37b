"""Every functional row is green on the emulated device, and red under a fault of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.selftest.faults import FAULTS, LAYER_FAULTS
from zluda_rr.emulate.hip import library_folder
from zluda_rr.runtime.selftest import checks
from zluda_rr.runtime.selftest.layers import layer_checks

ROOT = Path(__file__).parents[3]
RATES = ["rate-*", "*-times"]
LAYERS = [check.name for check in layer_checks()]
QUICK = [c.name for c in checks() if c.name not in LAYERS and not c.name.startswith("rate-") and "-times" not in c.name]


def under(faults: list[str], rows: list[str], folder: Path) -> dict[str, Any]:
    """Failed rows and report by fault."""
    environ = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library_folder()),
        "ZLUDA_RR_HIP_HELPER": "tests.runtime.selftest.faulty_helper",
        "ZLUDA_RR_TEST_FAULT": str(folder / "fault"),
    }
    command = [sys.executable, "-m", "tests.runtime.selftest.program", ",".join(rows), *faults]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return under(list(FAULTS), QUICK, tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_turns_its_rows_red_and_no_others(quick: dict[str, Any], fault: str) -> None:
    assert set(quick[fault]["failed"]) == FAULTS[fault].red


def test_every_row_has_a_fault() -> None:
    red = frozenset().union(*(fault.red for fault in FAULTS.values()), *LAYER_FAULTS.values())
    answering = {check.name for check in checks() if not check.name.startswith("rate-")}
    assert red == {name for name in answering if not name.endswith("-times")}


def test_a_swapped_half_is_named(quick: dict[str, Any]) -> None:
    row = quick["operand half swapped"]["report"]["rows"][0]
    assert (row["name"], row["details"][0]) == ("wmma-layout", "fits instead: k halves of A swapped")


def test_the_order_that_fits_is_named(quick: dict[str, Any]) -> None:
    row = next(r for r in quick["products cut, not rounded"]["report"]["rows"] if r["name"] == "wmma-accumulation")
    fit = row["numbers"]["fit"]["exact"]
    assert fit["exact, cut toward zero"] == row["numbers"]["elements"] > fit["exact"]


def test_times_are_not_told(tmp_path: Path) -> None:
    """Nor are workloads of a frame's size built; the kernels that measure rates are executed."""
    rows = under(["none"], RATES, tmp_path)["none"]["report"]["rows"]
    told = "skipped: times of the emulated device say nothing about a card"
    assert {(row["verdict"], row["result"]) for row in rows} == {
        ("skipped", told),
        ("skipped", f"{told}; the kernels ran"),
    }


def test_layers_are_green(tmp_path: Path) -> None:
    assert under(["none"], LAYERS, tmp_path)["none"]["failed"] == []


@pytest.mark.soak
def test_layers_turn_red(tmp_path: Path) -> None:
    found = under(list(LAYER_FAULTS), LAYERS, tmp_path)
    assert {fault: frozenset(result["failed"]) for fault, result in found.items()} == dict(LAYER_FAULTS)
