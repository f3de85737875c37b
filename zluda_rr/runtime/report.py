"""Text and JSON of verification and benchmark reports (keys are stable, docs/json.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from zluda_rr.runtime.bench import BenchReport, VariantCounts
from zluda_rr.runtime.cost import MEASURED_TRANSLATED_MS, REFERENCE_WAVES
from zluda_rr.runtime.verify import VerifyReport
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import EDGE_SHAPE

_CLASSES = ("valu", "transcendental", "wmma", "salu", "lds", "global", "scratch", "branch", "wait", "other")


def verify_text(report: VerifyReport) -> str:
    """Four or five lines; the last says `byte-identical: yes` or what differs first."""
    edges = any(WorkloadKind(kind).at_an_edge for kind in report.kinds)
    few = f" ({EDGE_SHAPE.blocks} where the data stands at an edge)" if edges else ""
    lines = [
        f"layer {report.layer}, cuts {', '.join(report.cuts) or 'none'}",
        f"data {', '.join(report.kinds)}; models {', '.join(report.models)}",
        f"{report.launches} launches of {report.blocks_per_launch} blocks{few}, {report.bytes_compared} bytes compared",
    ]
    if report.oracle_equal is not None:
        lines.append(f"{report.compiler} kernel equals the PTX oracle: {'yes' if report.oracle_equal else 'NO'}")
    lines.append(f"byte-identical: {'yes' if report.equal else 'NO'}")
    if report.first_difference is not None:
        lines.append(f"first difference: {report.first_difference}")
    return "\n".join(lines)


def bench_json(report: BenchReport) -> dict[str, Any]:
    """The report as plain data; one key per variant beside the description of the run."""
    return {
        "layer": report.layer,
        "cuts": list(report.cuts),
        "launch": report.launch,
        "waves": report.waves,
        "ratio_translated_to_rewritten": report.ratio,
        "ratios": dict(report.ratios),
        "ratio_zluda_to_zluda_rewritten": report.zluda_ratio,
        "measured_translated_ms": MEASURED_TRANSLATED_MS.get(report.layer),
        "estimated_ms_is_an_estimate": True,
        **{name: asdict(counts) for name, counts in report.variants.items()},
    }


def bench_text(report: BenchReport) -> str:
    """A table of the variants, one column each."""
    names = list(report.variants)
    rows = [("", *names)]
    columns = [report.variants[name] for name in names]
    rows.append(("instructions per wave", *(f"{c.instructions_per_wave:,.0f}" for c in columns)))
    marked = [c.body_instructions_per_wave > 0 for c in columns]  # ZLUDA's code has no markers around the cut
    rows.append(("  of them in the cut", *_where(marked, (c.body_instructions_per_wave for c in columns))))
    rows += [(f"  {name}", *(f"{c.by_class[name]:,.0f}" for c in columns)) for name in _CLASSES]
    rows.append(("in the cut, by class", *("" for _ in columns)))
    rows += [(f"  {name}", *_where(marked, (c.body_by_class[name] for c in columns))) for name in _CLASSES]
    rows.append(("  ds_bpermute_b32", *(f"{c.ds_bpermute:,.0f}" for c in columns)))
    rows += [_row(label, columns, key) for label, key in _RESOURCES]
    rows.append(("estimated ms (estimate)", *(f"{c.estimated_ms:.2f}" for c in columns)))
    width = [max(len(row[i]) for row in rows) for i in range(len(names) + 1)]
    table = "\n".join(
        "  ".join([row[0].ljust(width[0]), *(cell.rjust(width[i + 1]) for i, cell in enumerate(row[1:]))])
        for row in rows
    )
    return (
        f"{report.layer}, cuts {', '.join(report.cuts)}; {report.waves} waves in the gfx1201 emulator\n{table}\n"
        f"{_ratios(report)}\n"
        f"Estimated: issue-cost model for {REFERENCE_WAVES:,} waves on an RX 9070 XT; nothing was timed on a card.\n"
        f"{_measured(report)}"
    )


def _where(known: Sequence[bool], values: Iterable[float]) -> list[str]:
    """Counts, with a dash for what was not measured."""
    return [f"{value:,.0f}" if there else "-" for there, value in zip(known, values, strict=True)]


def _ratios(report: BenchReport) -> str:
    found = [f"translated / {name} = {ratio:.2f}" for name, ratio in report.ratios.items()]
    if report.zluda_ratio is not None:
        found.append(f"zluda / zluda_rewritten = {report.zluda_ratio:.2f}")
    return ", ".join(found)


def _measured(report: BenchReport) -> str:
    measured = MEASURED_TRANSLATED_MS.get(report.layer)
    if measured is None:
        return "No measured time is known for this layer."
    return (
        f"Measured (seed 000 §7), ZLUDA's own translation with 83,373 instructions per wave: {measured} ms per frame."
    )


_RESOURCES = (
    ("VGPRs", "vgprs"),
    ("SGPRs", "sgprs"),
    ("scratch bytes", "scratch_bytes"),
    ("LDS bytes", "lds_bytes"),
)


def _row(label: str, columns: list[VariantCounts], key: str) -> tuple[str, ...]:
    return (label, *(f"{getattr(c, key):,}" for c in columns))
