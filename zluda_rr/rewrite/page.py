"""`inspect --html`: one self-contained page, readable in light and dark, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from zluda_rr.analysis import Epilogue

from .entry_report import EntryReport, ModuleReport
from .page_figures import FAMILIES, SPAN_LEGEND, Span, colour, graph, image_map, image_spans, legend, mix_bars, timeline
from .page_style import STYLE
from .report import CutReport, short, weight_spans


def report_page(reports: Sequence[ModuleReport], title: str) -> str:
    """The page of the modules of a file."""
    body = "".join(map(_module, reports)) or "<section>No modules.</section>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>zluda-rr: {escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body><main>'
        f"{body}</main></body></html>\n"
    )


def _module(report: ModuleReport) -> str:
    module, count = report.module, len(report.entries) + len(report.refused)
    entries = "".join(map(_entry, report.entries)) or "<section>No entries.</section>"
    entries += "".join(
        _section(f"{entry.function.name}: refused", escape(entry.reason), "") for entry in report.refused
    )
    head = f"PTX {module.version or '?'}, {', '.join(module.target)}, {count} {'entry' if count == 1 else 'entries'}"
    return f"<h1>{escape(report.filename)}</h1><div class=soft>{escape(head)}</div>{entries}"


def _entry(entry: EntryReport) -> str:
    parts = [
        f'<div class="entry"><h1 class="mono">{escape(entry.function.name)}</h1>{_verdict(entry)}{_facts(entry)}',
        _section("Phase timeline", timeline(entry.found, entry.epilogues), _timeline_caption()),
        _section("Dataflow of phases", graph(entry.found), _graph_caption()) if entry.found else "",
        _section("Weight image", _image(entry), legend(SPAN_LEGEND)) if image_spans(entry.found) else "",
        _section("Instruction mix", mix_bars(entry.mix), ""),
        *[_section(f"Cut {cut.rule.name}", _obligations(cut), "") for cut in entry.cuts],
        _section("Phases", _phase_table(entry), ""),
        _section("Epilogues", _epilogue_table(entry.epilogues), ""),
        "</div>",
    ]
    return "".join(parts)


def _section(title: str, body: str, caption: str) -> str:
    return f"<section><h2>{escape(title)}</h2><figure>{body}{caption}</figure></section>"


def _timeline_caption() -> str:
    names = [("var(--k-mma)", "phase (mma)"), *((f"var(--k-{n})", text) for n, (text, _) in FAMILIES.items())]
    text = (
        "Program order; widths grow with the square root of the number of statements. The first part is the prologue."
    )
    return legend(names) + f"<figcaption>{text}</figcaption>"


def _graph_caption() -> str:
    names = [
        ("var(--k-pack)", "pack"),
        ("var(--k-norm)", "norm"),
        ("var(--k-activation)", "activation"),
        ("var(--k-softmax)", "softmax"),
        ("var(--k-exchange)", "transpose or merge"),
        ("var(--k-add)", "residual (C)"),
    ]
    text = "Right: A (solid) and B (dashed) made of earlier accumulators. Left: earlier accumulators as C."
    return legend(names) + f"<figcaption>{text}</figcaption>"


def _verdict(entry: EntryReport) -> str:
    if entry.match is None:
        return '<span class="pill soft">no rule names this entry</span>'
    match = entry.match
    if match.equal:
        return f'<span class="pill ok">{match.contract.layer}: all {len(match.rows)} phases equal the contract</span>'
    found = [*match.differences, *(f"phase {i}: {text}" for i, _, texts in entry.rows for text in texts)]
    items = "".join(f"<li>{escape(text)}</li>" for text in found)
    pill = f'<span class="pill bad">{match.contract.layer}: differs from the contract</span>'
    return f'{pill}<ul class="bad">{items}</ul>'


def _facts(entry: EntryReport) -> str:
    loose = sum(b - a + 1 for e in entry.epilogues for a, b in e.uncharacterised)
    facts = [
        ("phases", len(entry.rows)),
        ("mma", len(entry.kernel.mmas)),
        ("statements", len(entry.kernel.body.statements)),
        ("parameter bytes", sum(p.nbytes for p in entry.function.params)),
    ]
    if entry.match is not None:
        facts.append(("weight bytes read", entry.match.weights.end))
    facts.append(("uncharacterised statements", loose))
    cells = "".join(
        f'<div class="fact"><b>{value:,}</b><span class="soft">{name}</span></div>' for name, value in facts
    )
    return f'<div class="facts">{cells}</div>'


def _image(entry: EntryReport) -> str:
    spans: list[Span] = image_spans(entry.found)
    end = max(stop for _, stop, _, _ in spans)
    if entry.match is not None:
        end = max(end, entry.match.contract.weights_bytes)
        read = [(s.first, s.end) for row in entry.found for s in weight_spans(row)]
        for region in entry.match.contract.weights:
            inside = any(region.offset < stop and first < region.offset + region.nbytes for first, stop in read)
            if not inside and region.kind != "reserved":
                spans.append((region.offset, region.offset + region.nbytes, "region", region.name))
    return image_map(spans, end)


def _obligations(cut: CutReport) -> str:
    words = {True: '<span class="ok">pass</span>', False: '<span class="bad">FAIL</span>', None: "not examined"}
    state = "may be applied" if cut.plan is not None else f"refused: {cut.refused}"
    lines = "".join(
        f'<tr><td class="n">{o.number}</td><td>{words[o.holds]}</td><td>{escape(o.title)}</td>'
        f'<td class="soft">{escape(o.detail)}</td></tr>'
        for o in cut.obligations
    )
    head = '<tr><th class="n">#</th><th></th><th>obligation</th><th>evidence</th></tr>'
    what = f"{cut.rule.replaces.capitalize()} by <code>{cut.rule.symbol}</code>, {escape(state)}."
    return f'<p class="soft">{what}</p><table>{head}{lines}</table>'


def _phase_table(entry: EntryReport) -> str:
    head = (
        '<th class="n">#</th><th>statements</th><th class="n">mma</th><th>M×N×K</th><th class="n">k steps</th>'
        "<th>A</th><th>B</th><th>C</th><th>weight bytes</th>"
    )
    lines = []
    for index, row, differences in entry.rows:
        css = ' class="differs"' if differences else ""
        if row is None:
            lines.append(f'<tr{css}><td class="n">{index}</td><td colspan="8">not found</td></tr>')
            continue
        phase = row.phase
        shape = "×".join(map(str, phase.shape)) if phase.problem is None else phase.problem
        spans = ", ".join(f"{s.operand} {s.first}-{s.end}" for s in weight_spans(row))
        cells = [escape(short(source)) for source in (row.a, row.b, row.c)]
        lines.append(
            f'<tr{css}><td class="n">{index}</td><td class="mono">s{phase.first}-s{phase.last}</td>'
            f'<td class="n">{len(phase.mmas)}</td><td>{escape(shape)}</td><td class="n">{phase.k_steps}</td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + f'<td class="mono">{spans}</td></tr>'
        )
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _epilogue_table(epilogues: Sequence[Epilogue]) -> str:
    lines = []
    for epilogue in epilogues:
        operations = "".join(
            f'<span class="op"><i style="background:{colour(o.kind)}"></i>{escape(str(o))} '
            f'<span class="soft">({o.statements})</span></span>'
            for o in epilogue.operations
        )
        if epilogue.uncharacterised:
            places = ", ".join(f"s{first}-s{last}" for first, last in epilogue.uncharacterised)
            operations += f'<span class="op bad">uncharacterised: {places}</span>'
        name = f"E{epilogue.index}" if epilogue.index else "prologue"
        lines.append(
            f'<tr><td>{name}</td><td class="mono">s{epilogue.first}-s{epilogue.last}</td>'
            f'<td class="n">{epilogue.statements:,}</td><td>{operations}</td></tr>'
        )
    head = '<th></th><th>statements</th><th class="n">count</th><th>operations (statements of each)</th>'
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
