"""Times of the translated and the rewritten kernels on HIP's device, by its own events."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from zluda_rr.runtime.backend import HipBackend, LoweringBackend
from zluda_rr.runtime.bench import DEFAULT_SHAPE, bench_requests
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.variants import Request, Subject, compile_all
from zluda_rr.runtime.workload import Shape, build_launch

__all__ = ["TimingReport", "VariantTimes", "time_variants", "timing_json", "timing_text"]


@dataclass(frozen=True, slots=True)
class VariantTimes:
    """One kernel: milliseconds over the launches, and what its code object needs."""

    median_ms: float
    least_ms: float
    most_ms: float
    vgprs: int
    scratch_bytes: int
    lds_bytes: int


@dataclass(frozen=True, slots=True)
class TimingReport:
    """Every variant by name, from launches of one workload."""

    layer: str
    cuts: tuple[str, ...]
    launch: str
    device: str
    emulated: bool
    """Whether the times are those of the emulated device, which say nothing about a card."""
    repeats: int
    variants: Mapping[str, VariantTimes]


def time_variants(
    what: Subject,
    *,
    shape: Shape = DEFAULT_SHAPE,
    fused: bool = False,
    repeats: int | None = None,
    progress: Progress | None = None,
) -> TimingReport:
    """Compile all variants and time each, `repeats` launches (default 20; 2 on the emulated device, which is slow).

    UserError without HIP's device.
    """
    show = progress or Progress(quiet=True)
    backend = what.backend if isinstance(what.backend, HipBackend) else HipBackend(LoweringBackend())
    device = backend.device()
    count = repeats or (2 if device.is_emulated else 20)
    launch = build_launch(what.contract, shape)
    requests: tuple[Request, ...] = bench_requests(what, fused=fused)
    found = {}
    for program in compile_all(requests, what.contract.entry, show, backend):
        with show.step(f"time {program.name}"):
            times = device.times(program, launch, count)
        code = program.code()
        found[program.name] = VariantTimes(
            statistics.median(times), min(times), max(times), code.vgprs, code.scratch_bytes, code.lds_bytes
        )
    return TimingReport(what.contract.layer, what.cuts, launch.name, device.name, device.is_emulated, count, found)


def timing_json(report: TimingReport) -> dict[str, Any]:
    """The report as plain data."""
    return asdict(report)


def timing_text(report: TimingReport) -> str:
    """A table, one line a variant."""
    rows: list[tuple[str, ...]] = [("", "median ms", "least", "most", "VGPRs", "scratch", "LDS")]
    for name, times in report.variants.items():
        spread = (f"{ms:.3f}" for ms in (times.median_ms, times.least_ms, times.most_ms))
        rows.append((name, *spread, str(times.vgprs), str(times.scratch_bytes), str(times.lds_bytes)))
    width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    table = "\n".join(
        "  ".join([row[0].ljust(width[0]), *(cell.rjust(width[i + 1]) for i, cell in enumerate(row[1:]))])
        for row in rows
    )
    caution = "\nThese are the emulator's times: they say nothing about a card." if report.emulated else ""
    return (
        f"{report.layer}, cuts {', '.join(report.cuts)}; {report.launch}\n"
        f"{report.repeats} launches each on {report.device}, by events\n{table}{caution}"
    )
