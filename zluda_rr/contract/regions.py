"""The parts of the weight image that the phases read."""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.analysis import Bias, Columns, Derived, InputNorm, InputResidual, Residual, Weights

from .model import PhaseRow, WeightRegion


def weight_regions(phases: Sequence[PhaseRow]) -> tuple[WeightRegion, ...]:
    """The parts of the weight image that the phases read: B, seeds, bias, tables and gains (a gain once)."""
    bounded = _normed(phases)
    planes = max((row.a.plane + row.shape[2] // 32 for row in phases if isinstance(row.a, InputNorm)), default=0)
    regions: dict[WeightRegion, None] = {}
    for row in phases:
        inside = row.index in bounded
        for source in (row.a, row.b, row.c):
            columns = 2 * row.shape[1]
            match source:
                case Weights(at, nbytes):
                    region = WeightRegion(f"P{row.index}.b", at, nbytes, "matrix")
                case Columns(at, nbytes):
                    region = WeightRegion(f"P{row.index}.c", at, nbytes, "column", inside)
                case Bias(at, nbytes):
                    region = WeightRegion(f"P{row.index}.bias", at, nbytes, "score_bias")
                case InputNorm(_, _, gain):
                    region = WeightRegion("input.gain", gain, 64 * planes, "gain")
                case InputResidual(_, table):
                    region = WeightRegion(f"P{row.index}.table", table, columns, "table", inside)
                case Residual(_, table) if table is not None:
                    region = WeightRegion(f"P{row.index}.table", table, columns, "table", inside)
                case Derived("norm", phase, gain) if gain is not None:
                    region = WeightRegion(f"D{phase}.gain", gain, 2 * phases[phase - 1].shape[1], "gain")
                case _:
                    continue
            regions[region] = None
    return tuple(regions)


def _normed(phases: Sequence[PhaseRow]) -> set[int]:
    """Phases whose D reaches a norm, themselves or as a residual of one that does."""
    found = {row.a.phase for row in phases if isinstance(row.a, Derived) and row.a.kind == "norm"}
    for row in reversed(phases):
        if row.index in found and isinstance(row.c, Residual):
            found.add(row.c.phase)
    return found
