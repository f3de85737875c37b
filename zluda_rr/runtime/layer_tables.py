"""The tables of `verify FILE` and `bench FILE`, and the same as JSON (docs/json.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zluda_rr.image import one_line
from zluda_rr.runtime.bench import BenchReport
from zluda_rr.runtime.layers import LayerRow, Result
from zluda_rr.runtime.report import bench_json
from zluda_rr.runtime.timing import TimingReport, timing_json
from zluda_rr.runtime.verify import VerifyReport

AnyBench = BenchReport | TimingReport
_KERNELS = ("translated", "rewritten", "fused", "zluda", "zluda_rewritten")


def verify_table(path: Path, rows: Sequence[LayerRow[VerifyReport]]) -> str:
    """One line per layer, and under it the reason or the first difference."""
    cells = [("layer", "module", "cuts", "result", "launches", "bytes", "oracle")]
    for row in rows:
        report = row.report
        numbers = ("-", "-", "-")
        if report is not None:
            oracle = {None: "-", True: "equal", False: "differs"}[report.oracle_equal]
            numbers = (f"{report.launches}", f"{report.bytes_compared:,}", oracle)
        cells.append((row.found.layer, f"{row.found.module}", _cuts(row), str(row.result), *numbers))
    notes = [_note(row, None if row.report is None else row.report.first_difference) for row in rows]
    return _table(path, cells, notes)


def bench_table(path: Path, rows: Sequence[LayerRow[AnyBench]]) -> str:
    """Instructions per wave (with HIP's device milliseconds) of every kernel of a layer, one line each."""
    values = [_values(row) for row in rows]
    names = [name for name in _KERNELS if any(name in found for found in values)]
    cells = [("layer", "module", "cuts", *names, "ratio")]
    for row, found in zip(rows, values, strict=True):
        numbers = [_number(row, found[name]) if name in found else "-" for name in names]
        after = found.get("rewritten", found.get("fused"))
        ratio = f"{found['translated'] / after:.2f}" if after and "translated" in found else "-"
        what = _cuts(row) if row.report is not None else str(row.result)
        cells.append((row.found.layer, f"{row.found.module}", what, *numbers, ratio))
    timed = any(isinstance(row.report, TimingReport) for row in rows)
    unit = "median milliseconds" if timed else "instructions per wave"
    return f"{unit}\n{_table(path, cells, [_note(row, None) for row in rows])}"


def verify_rows_json(path: Path, rows: Sequence[LayerRow[VerifyReport]]) -> dict[str, Any]:
    """The table for programs; `report` is what `verify --json` prints of one layer."""
    return {
        "schema": "zluda-rr.verify-file/1",
        "file": one_line(path),
        "equal": all(row.result is Result.EQUAL for row in rows),
        "layers": [{**_row_json(row), "report": None if row.report is None else asdict(row.report)} for row in rows],
    }


def bench_rows_json(path: Path, rows: Sequence[LayerRow[AnyBench]]) -> dict[str, Any]:
    """The table for programs; `report` is what `bench --json` prints of one layer."""
    layers = []
    for row in rows:
        report = row.report
        document = None
        if report is not None:
            document = timing_json(report) if isinstance(report, TimingReport) else bench_json(report)
        layers.append({**_row_json(row), "report": document})
    return {"schema": "zluda-rr.bench-file/1", "file": one_line(path), "layers": layers}


def _row_json(row: LayerRow[Any]) -> dict[str, Any]:
    found = row.found
    return {
        "layer": found.layer,
        "entry": found.entry,
        "module": found.module,
        "origin": found.origin,
        "result": str(row.result),
        "reason": row.reason or None,
    }


def _cuts(row: LayerRow[Any]) -> str:
    subject = row.found.subject
    if subject is None:
        return "-"
    return ", ".join((*subject.cuts, *(["fusion"] if subject.fusion else []))) or "none"


def _values(row: LayerRow[AnyBench]) -> Mapping[str, float]:
    """A number per kernel under the table's names; `rewritten` is what a player gets."""
    report = row.report
    if report is None:
        return {}
    if isinstance(report, TimingReport):
        found = {name: times.median_ms for name, times in report.variants.items()}
    else:
        found = {name: counts.instructions_per_wave for name, counts in report.variants.items()}
    if "direct" in found:
        found["rewritten"] = found["direct"]
    if not report.cuts:
        found.pop("rewritten", None)
    return found


def _number(row: LayerRow[AnyBench], value: float) -> str:
    return f"{value:.3f}" if isinstance(row.report, TimingReport) else f"{value:,.0f}"


def _note(row: LayerRow[Any], difference: object) -> str:
    if difference is not None:
        return f"first difference: {difference}"
    return row.reason


def _table(path: Path, cells: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [one_line(path)]
    for number, row in enumerate(cells):
        left = [cell.ljust(width) for cell, width in zip(row[:4], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(row[4:], widths[4:], strict=True)]
        lines.append("  ".join((*left, *right)).rstrip())
        if number and notes[number - 1]:
            lines.append(f"    {notes[number - 1]}")
    return "\n".join(lines)
