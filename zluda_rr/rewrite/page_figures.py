"""Figures of the report page as inline SVG: timeline, dataflow graph, instruction mix, weight-image map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import sqrt

from zluda_rr.analysis import Bias, Columns, Derived, Epilogue, Operation, Residual, Row, Shared, Source

from .report import weight_spans

WIDTH = 1120

FAMILIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "softmax": ("softmax", ("cubic-exponent softmax", "true softmax")),
    "norm": ("norm", ("RMS norm with gain", "input norm")),
    "activation": ("activation", ("clamped-cubic activation",)),
    "add": ("residual and table adds", ("residual add", "per-column table add")),
    "pack": ("packs", ("pack", "relu-pack", "pack of the norm")),
    "exchange": ("transposes and lane exchanges", ("V transpose", "lane merge", "row gather")),
    "stencil": ("stencil", ("texture stencil", "shared stencil", "global stencil", "mixed stencil")),
    "store": ("stores", ("plane scatter", "surface store")),
    "loads": ("loads", ("weight loads", "score-bias loads", "shared tile loads")),
    "loose": ("uncharacterised", ()),
}
"""CSS colour name -> (legend, kinds of operations)."""
_COLOUR = {kind: name for name, (_, kinds) in FAMILIES.items() for kind in kinds}


def colour(kind: str) -> str:
    """CSS colour of an operation's kind."""
    return f"var(--k-{_COLOUR.get(kind, 'loose')})"


def _svg(width: float, height: float, parts: Iterable[str], label: str) -> str:
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(label)}">{body}</svg>'
    )


def _rect(x: float, y: float, w: float, h: float, fill: str, title: str = "", radius: float = 2) -> str:
    tip = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}" fill="{fill}">{tip}</rect>'


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(text)}</text>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """(CSS colour, text) pairs."""
    return (
        '<div class="legend">'
        + "".join(f'<span><i style="background:{fill}"></i>{escape(text)}</span>' for fill, text in names)
        + "</div>"
    )


# ------------------------------------------------------------------------------------------------------------- timeline


def timeline(rows: Sequence[Row], epilogues: Sequence[Epilogue], lines: int = 2) -> str:
    """Phases and epilogues in program order. Widths grow with the square root of the statement count, so that a load of
    seven statements and a softmax of 3,800 fit one picture.
    """
    by_index = {row.phase.index: row for row in rows}
    steps: list[tuple[float, Row | None, Epilogue]] = []
    for epilogue in epilogues:
        steps.append((sqrt(epilogue.statements), by_index.get(epilogue.index), epilogue))
    lines = max(lines, -(-len(steps) // 20))
    box = 26.0
    share = (lines * WIDTH - box * len(steps)) / (sum(s[0] for s in steps) or 1) * 0.97
    parts: list[str] = []
    x = y = 0.0
    for size, row, epilogue in steps:
        width = box * (row is not None) + share * size
        if x and x + width > WIDTH + 1:
            x, y = 0.0, y + 78
        if row is not None:
            shape = "×".join(map(str, row.phase.shape))
            tip = f"phase {epilogue.index}: {len(row.phase.mmas)} mma, {shape}, s{row.phase.first}-s{row.phase.last}"
            parts.append(_rect(x, y + 4, box - 3, 46, "var(--k-mma)", tip, 4))
            parts.append(_text(x + (box - 3) / 2, y + 31, str(epilogue.index), "on", "middle"))
            x += box
        parts += _segments(x, y, share * size, epilogue)
        x += share * size
    return _svg(WIDTH, y + 66, parts, "Phases and epilogues in program order")


def _segments(x: float, y: float, width: float, epilogue: Epilogue) -> list[str]:
    pieces = [
        (o.statements, colour(o.kind), f"E{epilogue.index}: {o}, {o.statements} statements") for o in _placed(epilogue)
    ]
    loose = sum(last - first + 1 for first, last in epilogue.uncharacterised)
    if loose:
        pieces.append((loose, "var(--k-loose)", f"E{epilogue.index}: uncharacterised, {loose} statements"))
    total = sum(sqrt(count) for count, _, _ in pieces) or 1
    parts = []
    for count, fill, tip in pieces:
        size = max(1.5, (width - 3) * sqrt(count) / total)
        parts.append(_rect(x, y + 12, max(1.0, size - 1), 30, fill, tip))
        x += size
    return parts


def _placed(epilogue: Epilogue) -> list[Operation]:
    return sorted((o for o in epilogue.operations if o.statements), key=lambda o: o.first)


# --------------------------------------------------------------------------------------------------------------- graph

_STEP, _BOX, _LEFT = 30, 190, 190

_REACH = 205.0  # of a Bezier arc's control points; the arc itself reaches three quarters of it


def graph(rows: Sequence[Row]) -> str:
    """Phases from top to bottom; to the right A and B of each come from earlier accumulators, to the left C does."""
    place = {row.phase.index: number for number, row in enumerate(rows)}
    parts: list[str] = []
    for row in rows:
        y = place[row.phase.index] * _STEP + 22
        for source, side, style in ((row.a, 1, ""), (row.b, 1, "5 4"), (row.c, -1, "")):
            origin = _producer(source)
            if origin in place:
                start = place[origin] * _STEP + 22
                parts.append(_arc(start, y, side, style, _edge_colour(source), f"{source} into P{row.phase.index}"))
    for row in rows:
        parts += _box(row, place[row.phase.index] * _STEP + 22)
    height = len(rows) * _STEP + 30
    return _svg(WIDTH, height, parts, "Dataflow between phases")


def _producer(source: Source) -> int | None:
    return source.phase if isinstance(source, Derived | Residual) else None


def _edge_colour(source: Source) -> str:
    kinds = {"pack": "pack", "relu-pack": "pack", "softmax": "softmax", "norm": "norm", "activation": "activation"}
    name = kinds.get(source.kind, "exchange") if isinstance(source, Derived) else "add"
    return f"var(--k-{name})"


def _arc(start: float, end: float, side: int, style: str, stroke: str, tip: str) -> str:
    x = _LEFT + (_BOX if side > 0 else 0)
    reach = side * min(_REACH, 14 + 7.5 * sqrt(end - start))
    dash = f' stroke-dasharray="{style}"' if style else ""
    inner = end - 4 if end - start > _STEP else end
    return (
        f'<path d="M{x} {start} C{x + reach:.0f} {start} {x + reach:.0f} {inner} {x + side * 4} {inner}" fill="none" '
        f'stroke="{stroke}" stroke-width="1.6" opacity=".85"{dash}><title>{escape(tip)}</title></path>'
        f'<circle cx="{x + side * 3}" cy="{inner}" r="2.6" fill="{stroke}"/>'
    )


def _box(row: Row, y: float) -> list[str]:
    phase = row.phase
    shape = "×".join(map(str, phase.shape)) if phase.problem is None else "no product"
    a = "shared tile" if isinstance(row.a, Shared) else row.a
    text = f"A {a} · B {row.b} · C {row.c}".replace("unknown: ", "? ")
    return [
        _rect(_LEFT, y - 11, _BOX, 22, "var(--track)", text, 5),
        _text(_LEFT + 8, y + 4, f"P{phase.index}"),
        _text(_LEFT + 42, y + 4, shape),
        _text(_LEFT + _BOX - 8, y + 4, f"{len(phase.mmas)} mma", "soft", "end"),
        _text(_LEFT + _BOX + 180, y + 4, _clipped(text, 104), "soft"),
    ]


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


# ----------------------------------------------------------------------------------------------------------------- mix


def mix_bars(mix: Mapping[str, int]) -> str:
    """Instructions by class."""
    total = sum(mix.values()) or 1
    most = max(mix.values(), default=1)
    parts = []
    for line, (name, count) in enumerate(sorted(mix.items(), key=lambda item: -item[1])):
        y = line * 24
        size = 640 * count / most
        parts += [
            _text(176, y + 16, name, "", "end"),
            _rect(188, y + 4, 640, 16, "var(--track)", "", 4),
            _rect(188, y + 4, max(2.0, size), 16, "var(--k-mma)", f"{name}: {count}", 4),
            _text(840, y + 16, f"{count:,}  ({100 * count / total:.1f} %)", "soft"),
        ]
    return _svg(WIDTH, 24 * len(mix) + 6, parts, "Instruction mix")


# ------------------------------------------------------------------------------------------------------- weight image

_SPAN_COLOURS = {
    "B": "mma",
    "bias": "softmax",
    "columns": "activation",
    "table": "add",
    "gain": "norm",
    "region": "store",
}
SPAN_LEGEND = (
    ("var(--k-mma)", "B (matrix)"),
    ("var(--k-softmax)", "score bias"),
    ("var(--k-activation)", "per-column seeds"),
    ("var(--k-add)", "per-column table"),
    ("var(--k-norm)", "norm gain"),
    ("var(--k-store)", "read outside the phases"),
)

Span = tuple[int, int, str, str]


def image_spans(rows: Sequence[Row]) -> list[Span]:
    """(first, end, colour kind, label) of the bytes that the phases read."""
    spans: set[Span] = set()
    for row in rows:
        for span in weight_spans(row):
            kind = {"A": "gain", "B": "B"}.get(span.operand) or _seed_kind(row.c)
            label = "gain" if kind == "gain" else f"P{row.phase.index} {kind}"
            spans.add((span.first, span.end, kind, label))
    return sorted(spans)


def _seed_kind(source: Source) -> str:
    if isinstance(source, Columns):
        return "columns"
    return "bias" if isinstance(source, Bias) else "table"


def image_map(spans: Sequence[Span], end: int) -> str:
    """The weight image in lines of equal length, byte 0 at the left of the first line."""
    lines = max(1, min(12, -(-end // 8192)))
    per_line = max(512, -(-end // (lines * 512)) * 512)
    left, width = 64, WIDTH - 70
    parts = [
        _rect(left, n * 34 + 4, width * min(per_line, end - n * per_line) / per_line, 24, "var(--track)", "", 3)
        for n in range(lines)
    ]
    parts += [_text(left - 8, n * 34 + 20, f"{n * per_line:,}", "soft", "end") for n in range(lines)]
    for first, stop, kind, label in spans:
        parts += _span(first, stop, kind, label, per_line, left, width)
    return _svg(WIDTH, lines * 34 + 4, parts, "Weight image by byte offset")


def _span(first: int, stop: int, kind: str, label: str, per_line: int, left: float, width: float) -> list[str]:
    parts = []
    at = first
    while at < stop:
        line = at // per_line
        cut = min(stop, (line + 1) * per_line)
        x, size = left + width * (at - line * per_line) / per_line, width * (cut - at) / per_line
        fill = f"var(--k-{_SPAN_COLOURS[kind]})"
        parts.append(_rect(x, line * 34 + 4, max(1.5, size - 0.8), 24, fill, f"{label}: {first}-{stop}", 2))
        if size > 8 * len(label):
            parts.append(_text(x + size / 2, line * 34 + 20, label, "on", "middle"))
        at = cut
    return parts
