"""Times of the layers on a card, against the estimates of the cost model."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from zluda_rr.runtime.cost import MEASURED_TRANSLATED_MS, estimated_ms
from zluda_rr.runtime.device import EmulatorDevice, Program
from zluda_rr.runtime.selftest.layers import LayerPrograms, layers_with_bodies
from zluda_rr.runtime.selftest.rig import Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Shape, build_launch

__all__ = ["EMULATED_TIMES", "spread", "time_checks"]

EMULATED_TIMES = "skipped: times of the emulated device say nothing about a card"
FRAME = Shape(ex=1280, ey=736, shift_x=4, shift_y=4)
"""Tokens of enc0 in a frame of the reference size: 14,973 waves (runtime/cost.py)."""
_REPEATS, _GAPPED, _GAP_SECONDS = 40, 10, 0.05


def time_checks() -> tuple[Check, ...]:
    """One row a layer."""
    return tuple(
        Check(
            f"{contract.layer}-times",
            f"How long does {contract.layer} take, translated and rewritten, back to back and after idle gaps?",
            _asking(LayerPrograms(contract)),
        )
        for contract in layers_with_bodies()
    )


def _asking(layer: LayerPrograms) -> Callable[[Rig], Row]:
    return lambda rig: _timed(rig, layer)


def spread(times: Sequence[float]) -> dict[str, float]:
    """Median, least, most, and the quarter and three-quarter points."""
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {"median": quarters[1], "least": min(times), "most": max(times), "q1": quarters[0], "q3": quarters[2]}


def _timed(rig: Rig, layer: LayerPrograms) -> Row:
    if rig.is_emulated:
        return Row(EMULATED_TIMES, "a time", Verdict.SKIPPED)
    contract = layer.contract
    launch = build_launch(contract, FRAME)
    waves = launch.grid[0] * launch.grid[1] * -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
    numbers: dict[str, Any] = {"waves": waves}
    details = []
    for variant, program in zip(("translated", "rewritten"), layer.programs(rig.progress), strict=True):
        busy = spread(rig.device.times(program, launch, _REPEATS))
        idle = spread(rig.device.times(program, launch, _GAPPED, gap=_GAP_SECONDS))
        guess = estimated_ms(_counts(layer, program), waves)
        numbers[variant] = {"busy_ms": busy, "after_idle_ms": idle, "estimated_ms": guess}
        details.append(f"{variant}: {_line(busy)} back to back; {_line(idle)} after idle; estimate {guess:.3f}")
    known = MEASURED_TRANSLATED_MS.get(contract.layer)
    expected = "an estimate, see details" if known is None else f"translated {known} ms, measured before"
    medians = [numbers[name]["busy_ms"]["median"] for name in ("translated", "rewritten")]
    result = f"translated {medians[0]:.3f} ms, rewritten {medians[1]:.3f} ms, {medians[0] / medians[1]:.2f} times"
    return Row(result, expected, Verdict.INFO, tuple(details), numbers)


def _line(found: dict[str, float]) -> str:
    return f"{found['median']:.3f} ms ({found['least']:.3f} to {found['most']:.3f})"


def _counts(layer: LayerPrograms, program: Program) -> dict[str, float]:
    """Instructions per wave by class, as the emulator executes them."""
    launch = layer.launch(WorkloadKind.RANDOM)
    stats = EmulatorDevice().run(program, launch, "exact").stats
    if stats is None:
        raise ValueError("the emulator counts")
    return stats.by_class
