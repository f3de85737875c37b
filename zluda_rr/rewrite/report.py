"""What `inspect` and `rewrite` print: the entry, the phases table, the cuts with their obligations; as text and as
JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zluda_rr.analysis import (
    Bias,
    Columns,
    Derived,
    InputNorm,
    InputResidual,
    Phase,
    Residual,
    Row,
    Shared,
    Source,
    Weights,
)
from zluda_rr.contract import AnyCutRule, LayerCutRule

from .layer_cut import LayerPlan
from .match import LayerMatch, RowMatch
from .plan import CutPlan, Obligation

SCHEMA = "zluda-rr.inspect/1"
WIDTH = 100
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class CutReport:
    """A cut with its obligations; `plan` is set where all of them hold."""

    rule: AnyCutRule
    plan: CutPlan | LayerPlan | None
    obligations: tuple[Obligation, ...]

    @property
    def refused(self) -> str | None:
        """`cut phase8 refused: obligation 2 (…): …` with the first failed obligation. Number 7 is examined first,
        since the
        others are about phases it has recovered."""
        order = sorted(self.obligations, key=lambda o: (o.number != 7, o.number))
        for failed in order:
            if failed.holds is False:
                return f"cut {self.rule.name} refused: obligation {failed.number} ({failed.title}): {failed.detail}"
        return None


# ---------------------------------------------------------------------------------------------------------------- text


def layer_text(match: LayerMatch, reports: Sequence[CutReport], epilogues: str = "") -> str:
    """The whole report on one recognised entry; `epilogues` is its epilogue table."""
    kernel, contract = match.kernel, match.contract
    lines = [
        *clip(f"entry     {kernel.function.name}"),
        f"layer     {contract.layer}: {_verdict(match)}",
        f"size      {_size(match)}",
        "",
        *phase_table([_of_row(row) for row in match.rows]),
    ]
    for text in _all_differences(match):
        lines += clip(f"  differs: {text}")
    lines += ["", *epilogues.splitlines()] if epilogues else []
    for report in reports:
        lines += ["", *cut_lines(report)]
    return "\n".join(lines) + "\n"


def _size(match: LayerMatch) -> str:
    kernel = match.kernel
    counts = f"{len(kernel.body.statements)} statements, {len(kernel.mmas)} mma"
    parameters = sum(parameter.nbytes for parameter in kernel.function.params)
    return f"{counts}, parameters {parameters} bytes, weight image read up to byte {match.weights.end}"


def _verdict(match: LayerMatch) -> str:
    differing = sum(bool(row.differences) for row in match.rows)
    if match.equal:
        return f"all {len(match.rows)} phases equal the contract"
    return f"{differing} of {len(match.rows)} phases differ from the contract"


def _all_differences(match: LayerMatch) -> list[str]:
    found = list(match.differences)
    for row in match.rows:
        found += [f"phase {row.expected.index}: {text}" for text in row.differences]
    return found


def _of_row(row: RowMatch) -> tuple[int, Row | None, str]:
    return row.expected.index, row.found, "" if not row.differences else "!"


def phase_table(rows: Sequence[tuple[int, Row | None, str]]) -> list[str]:
    """The phases table: index, statements, mma, M x N x K, A, B and C source, weight bytes. `!` marks a differing
    row.
    """
    cells = [("#", "statements", "mma", "MxNxK", "A", "B", "C", "weight bytes")]
    for index, row, mark in rows:
        if row is None:
            cells.append((f"{index}{mark}", "-", "0", "-", "-", "-", "-", "-"))
            continue
        phase = row.phase
        shape = "x".join(map(str, phase.shape)) if phase.problem is None else "no product"
        where = f"s{phase.first}-s{phase.last}"
        sources = (short(row.a), short(row.b), short(row.c))
        cells.append((f"{index}{mark}", where, str(len(phase.mmas)), shape, *sources, _bytes(row)))
    widths = [max(len(line[i]) for line in cells) for i in range(8)]
    lines = [
        "  ".join(
            text.rjust(w) if i in (0, 2) else text.ljust(w)
            for i, (text, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
    return [line.rstrip()[:WIDTH] for line in lines]


def short(source: Source) -> str:
    """A source in a table cell; offsets of B and C stand in the column of weight bytes, a gain stands behind `*`."""
    match source:
        case Weights():
            return "W"
        case Columns():
            return "W columns"
        case Bias():
            return "W bias"
        case Shared():
            return "shared"
        case Derived(kind, phase, gain):
            return f"{kind} D{phase}" + (f"*{gain}" if gain is not None else "")
        case Residual(phase, table):
            return f"D{phase}+table" if table is not None else f"D{phase}"
        case InputNorm(_, plane, gain):
            return f"norm in.{plane}*{gain}"
        case InputResidual():
            return "in+table"
    text = str(source)
    return text if len(text) <= 12 else "unknown"


class WeightSpan(NamedTuple):
    """Bytes [first, end) of the weight image, and the operand they are for."""

    operand: str
    first: int
    end: int


def weight_spans(row: Row) -> list[WeightSpan]:
    """The bytes of the weight image that go into a phase: B, seeds or bias or table of C, gain of A."""
    spans = []
    columns = 2 * row.phase.shape[1]
    match row.b:
        case Weights(at, nbytes):
            spans.append(WeightSpan("B", at, at + nbytes))
    match row.c:
        case Columns(at, nbytes) | Bias(at, nbytes):
            spans.append(WeightSpan("C", at, at + nbytes))
        case InputResidual(_, table):
            spans.append(WeightSpan("C", table, table + columns))
        case Residual(_, table) if table is not None:
            spans.append(WeightSpan("C", table, table + columns))
    match row.a:
        case Derived("norm", _, gain) if gain is not None:
            spans.append(WeightSpan("A", gain, gain + 2 * row.phase.shape[2]))
        case InputNorm(_, plane, gain):
            start = gain + 64 * plane
            spans.append(WeightSpan("A", start, start + 2 * row.phase.shape[2]))
    return spans


def _bytes(row: Row) -> str:
    return " ".join(f"{span.first}-{span.end}" for span in weight_spans(row) if span.operand != "A") or "-"


def cut_lines(report: CutReport) -> list[str]:
    """A cut: what it is, and the seven obligations with their evidence."""
    rule, plan = report.rule, report.plan
    state = "may be applied" if plan is not None else "refused"
    lines = [f"cut {rule.name}: {rule.replaces} by {rule.symbol}, {state}"]
    if isinstance(plan, LayerPlan):
        live = sum(output.live for output in plan.outputs)
        lines.append(
            f"  s{plan.first}-s{plan.last}: {len(plan.region.replaced)} statements become one call, {live} registers"
            f" reloaded, {len(plan.moved)} statements emitted again"
        )
    elif plan is not None:
        moved = f", {len(plan.moved)} statements moved" if plan.moved else ""
        outputs = sum(output.live for call in plan.calls for output in call.outputs)
        lines.append(
            f"  s{plan.first}-s{plan.last}: {len(plan.region)} mma become {len(plan.calls)} calls of {plan.rule.rows}"
            f" rows, {outputs} registers reloaded{moved}"
        )
    for obligation in report.obligations:
        word = {True: "pass", False: "FAIL", None: "  - "}[obligation.holds]
        lines.append(f"  {obligation.number} {word}  {obligation.title}")
        lines += clip(f"          {obligation.detail}")
    return lines


def clip(text: str) -> list[str]:
    """Lines of at most WIDTH columns, continuations indented like the first."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = []
    while len(text) > WIDTH:
        cut = text.rfind(" ", len(indent), WIDTH + 1)
        cut = cut if cut > len(indent) else WIDTH
        lines.append(text[:cut])
        text = indent + text[cut:].lstrip()
    return [*lines, text]


def rewrite_text(match: LayerMatch, reports: Sequence[CutReport]) -> str:
    """What a rewrite did."""
    head = f"{match.contract.layer}: {match.kernel.function.name}: {_verdict(match)}"
    lines = clip(head)
    for report in reports:
        lines += cut_lines(report)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------------------------------------- JSON


def layer_json(match: LayerMatch, reports: Sequence[CutReport]) -> Json:
    """The report on one recognised entry."""
    kernel = match.kernel
    return {
        "entry": kernel.function.name,
        "layer": match.contract.layer,
        "equal": match.equal,
        "differences": _all_differences(match),
        "statements": len(kernel.body.statements),
        "mma": len(kernel.mmas),
        "parameter_bytes": sum(parameter.nbytes for parameter in kernel.function.params),
        "weight_image": {
            "bytes": match.contract.weights_bytes,
            "read": [match.weights.first, match.weights.end],
            "loads": match.weights.loads,
            "unresolved": list(match.weights.unresolved),
        },
        "phases": [phase_json(*_of_row(row)[:2]) for row in match.rows],
        "cuts": [cut_json(report) for report in reports],
    }


def phase_json(index: int, row: Row | None) -> Json:
    """One row of the phases table."""
    if row is None:
        return {"index": index, "mma": 0}
    phase: Phase = row.phase
    m, n, k = phase.shape
    return {
        "index": index,
        "statements": [phase.first, phase.last],
        "contiguous": phase.last - phase.first + 1 == len(phase.mmas),
        "mma": len(phase.mmas),
        "M": m,
        "N": n,
        "K": k,
        "k_steps": phase.k_steps,
        "m_tiles": phase.m_tiles,
        "n_tiles": phase.n_tiles,
        "problem": phase.problem,
        "A": source_json(row.a),
        "B": source_json(row.b),
        "C": source_json(row.c),
        "weight_bytes": [span._asdict() for span in weight_spans(row)],
    }


def source_json(source: Source) -> Json:
    """An operand's source: `text`, `kind` and its numbers."""
    fields: Json = {"kind": type(source).__name__.lower(), "text": str(source)}
    for name in type(source).__dataclass_fields__:
        value = getattr(source, name)
        fields["rows" if name == "rows" else name] = [list(v) for v in value] if isinstance(value, tuple) else value
    return fields


def cut_json(report: CutReport) -> Json:
    """A cut with its obligations; `calls` only where it may be applied."""
    plan = report.plan
    result: Json = {
        "name": report.rule.name,
        "phase": None if isinstance(report.rule, LayerCutRule) else report.rule.phase,
        "phases": list(report.rule.phases),
        "body": report.rule.symbol,
        "applicable": plan is not None,
        "refused": report.refused,
        "obligations": [
            {
                "number": o.number,
                "title": o.title,
                "holds": o.holds,
                "detail": o.detail,
                "evidence": list(o.evidence),
            }
            for o in report.obligations
        ],
    }
    if plan is not None:
        result["statements"] = [plan.first, plan.last]
        result["moved"] = list(plan.moved)
        result["calls"] = 1 if isinstance(plan, LayerPlan) else len(plan.calls)
    return result


def rewrite_json(match: LayerMatch, reports: Sequence[CutReport]) -> Json:
    """What a rewrite did."""
    return {
        "schema": "zluda-rr.rewrite/1",
        "layer": match.contract.layer,
        "entry": match.kernel.function.name,
        "equal": match.equal,
        "cuts": [cut_json(report) for report in reports],
    }
