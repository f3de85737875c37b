"""Asks a device every question, and what the answers look like as text and as data."""

from __future__ import annotations

import importlib.metadata
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.errors import UserError
from zluda_rr.runtime.devices.hip import HipDevice, hip_device
from zluda_rr.runtime.devices.hip_calls import HipCallError
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.selftest.conversions import CONVERSION_CHECKS
from zluda_rr.runtime.selftest.forms import FORM_CHECKS
from zluda_rr.runtime.selftest.functions import FUNCTION_CHECKS
from zluda_rr.runtime.selftest.layers import layer_checks
from zluda_rr.runtime.selftest.matrix import MATRIX_CHECKS
from zluda_rr.runtime.selftest.rates import RATE_CHECKS
from zluda_rr.runtime.selftest.rig import DeviceFailedError, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.selftest.times import time_checks
from zluda_rr.toolchain import require_compilers

__all__ = ["SelftestReport", "checks", "run_selftest", "selftest_json", "selftest_text"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class SelftestReport:
    """All answers, in the registry's order. Nothing in it tells who ran it, on which machine or from which folder."""

    version: str
    device: str
    architecture: str
    emulated: bool
    driver: int
    """HIP's own number of the driver, 0 where it does not tell."""
    rows: tuple[tuple[Check, Row], ...]

    @property
    def failed(self) -> bool:
        return any(row.verdict is Verdict.FAIL for _, row in self.rows)


def checks() -> tuple[Check, ...]:
    """The registry."""
    functional = (*MATRIX_CHECKS, *CONVERSION_CHECKS, *FUNCTION_CHECKS, *FORM_CHECKS, *layer_checks())
    return (*functional, *time_checks(), *RATE_CHECKS)


def run_selftest(names: Sequence[str] = (), progress: Progress | None = None) -> SelftestReport:
    """Ask the rows that one of the patterns `names` fits (all without any).

    UserError without compilers, without a device for gfx1201, and where no row fits.
    """
    chosen = [check for check in checks() if not names or any(fnmatchcase(check.name, name) for name in names)]
    if not chosen:
        raise UserError(f"no row {', '.join(names)}; there are: {', '.join(check.name for check in checks())}")
    require_compilers()
    device = hip_device()
    rig = Rig(device, progress or Progress(quiet=True))
    rows = tuple((check, _ask(rig, check)) for check in chosen)
    runtime, version = device.runtime, importlib.metadata.version("zluda-rr")
    emulated, driver = device.is_emulated, _driver(device)
    return SelftestReport(version, runtime.device_name, runtime.architecture, emulated, driver, rows)


def _ask(rig: Rig, check: Check) -> Row:
    """The answer; a device that fails at a question is asked the next one all the same."""
    rig.choose_model("exact")
    with rig.progress.step(check.name):
        try:
            with np.errstate(all="ignore"):  # NaN and infinity are among the data
                return check.ask(rig)
        except (DeviceFailedError, HipCallError, MemoryFault, UserError) as failure:
            return Row(str(failure), "an answer", Verdict.FAIL)
        except Exception as error:  # our bug: the other answers of a card that someone lent are not lost with it
            traceback.print_exc()
            return Row(f"the self-test itself failed: {type(error).__name__}", "an answer", Verdict.FAIL)


def _driver(device: HipDevice) -> int:
    try:
        return int(device.runtime.call("hipDriverGetVersion"))
    except (HipCallError, RuntimeError):
        return 0


def selftest_json(report: SelftestReport) -> dict[str, Any]:
    """The report as plain data (docs/selftest.md)."""
    return {
        "schema": SCHEMA,
        "zluda_rr": report.version,
        "device": report.device,
        "architecture": report.architecture,
        "emulated": report.emulated,
        "driver": report.driver,
        "failed": report.failed,
        "rows": [
            {
                "name": check.name,
                "question": check.question,
                "verdict": row.verdict.value,
                "result": row.result,
                "expected": row.expected,
                "details": list(row.details),
                "numbers": dict(row.numbers),
            }
            for check, row in report.rows
        ],
    }


def selftest_text(report: SelftestReport) -> str:
    """A table, a line a row; details stand below it."""
    width = max(len(check.name) for check, _ in report.rows)
    lines = [
        f"zluda-rr {report.version} self-test on {report.device}, {report.architecture}, driver {report.driver}",
        *(f"{row.verdict.value:7}  {check.name:{width}}  {row.result}" for check, row in report.rows),
        _summary(report),
    ]
    for check, row in report.rows:
        if row.details or row.verdict is Verdict.FAIL:
            lines += ["", f"{check.name}: {check.question}", f"  expected: {row.expected}"]
            lines += [f"  {detail}" for detail in row.details]
    return "\n".join(lines)


def _summary(report: SelftestReport) -> str:
    counts = [
        f"{sum(row.verdict is verdict for _, row in report.rows)} {word}"
        for verdict, word in (
            (Verdict.PASS, "passed"),
            (Verdict.FAIL, "failed"),
            (Verdict.INFO, "findings"),
            (Verdict.SKIPPED, "skipped"),
        )
    ]
    return f"{len(report.rows)} rows: {', '.join(counts)}"
