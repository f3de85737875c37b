"""`inspect`: every kernel of a module, against its layer's contract where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.contract import LayerContract
from zluda_rr.ptx import no_collection

from .entry_report import EntryReport, ModuleReport, examine_module
from .epilogue_report import epilogue_json, epilogue_lines
from .fusion import FusionResult, fuse_module
from .fusion_report import report as fusion_report
from .report import SCHEMA, Json, layer_json, layer_text, phase_json, phase_table


def inspect_text(
    text: str, *, filename: str = "<ptx>", contracts: Sequence[LayerContract] | None = None, fusion: bool = False
) -> str:
    """Report on a PTX module, at most 100 columns wide. PtxError where it is not PTX. `fusion`: its chains, too."""
    found = examine_module(text, filename=filename, contracts=contracts)
    if not fusion:
        return module_text(found)
    with no_collection():
        chains = [fusion_report(_fused(found, entry)).text() for entry in found.entries]
    return "\n".join((module_text(found), *chains))


def inspect_json(
    text: str, *, filename: str = "<ptx>", contracts: Sequence[LayerContract] | None = None, fusion: bool = False
) -> Json:
    """The same report for programs; `schema` changes when keys change their meaning."""
    found = examine_module(text, filename=filename, contracts=contracts)
    document = module_json(found)
    if not fusion:
        return document
    with no_collection():
        chains = {entry.function.name: fusion_report(_fused(found, entry)).json() for entry in found.entries}
    return {**document, "fusion": chains}


def _fused(found: ModuleReport, entry: EntryReport) -> FusionResult:
    kernel = entry.kernel
    known = (kernel.body, kernel.flow, kernel.uses)
    return fuse_module(found.module, entry.function.name, write=False, known=known)


def module_text(report: ModuleReport) -> str:
    """A module's report as text."""
    module = report.module
    head = f"file      {report.filename}\nmodule    PTX {module.version}, {', '.join(module.target)}, "
    parts = [f"{head}{len(module.entries)} entries\n"]
    for entry in report.entries:
        epilogues = "\n".join(epilogue_lines(entry)) + "\n"
        if entry.match is None:
            parts.append(f"{_plain_text(entry)}\n{epilogues}")
        else:
            parts.append(layer_text(entry.match, entry.cuts, epilogues))
    parts += [f"entry     {entry.function.name}\nrefused   {entry.reason}\n" for entry in report.refused]
    return "\n".join(parts)


def module_json(report: ModuleReport) -> Json:
    """A module's report as a JSON document."""
    refused = [
        {"entry": entry.function.name, "line": entry.error.line, "reason": entry.error.message}
        for entry in report.refused
    ]
    return {
        **({"refused": refused} if refused else {}),
        "schema": SCHEMA,
        "file": report.filename,
        "version": report.module.version,
        "target": list(report.module.target),
        "entries": [_entry_json(entry) for entry in report.entries],
    }


def _entry_json(entry: EntryReport) -> Json:
    found = layer_json(entry.match, entry.cuts) if entry.match is not None else _plain_json(entry)
    return {**found, **epilogue_json(entry)}


def _plain_text(entry: EntryReport) -> str:
    statements = len(entry.kernel.body.statements)
    lines = [
        f"entry     {entry.function.name}",
        f"layer     no rule; {statements} statements, {len(entry.rows)} phases",
        "",
    ]
    if entry.rows:
        lines += phase_table([(index, row, "!" if problems else "") for index, row, problems in entry.rows])
    lines += [f"  phase {index}: {problem}" for index, _, problems in entry.rows for problem in problems]
    return "\n".join(lines) + "\n"


def _plain_json(entry: EntryReport) -> Json:
    return {
        "entry": entry.function.name,
        "layer": None,
        "statements": len(entry.kernel.body.statements),
        "mma": len(entry.kernel.mmas),
        "phases": [phase_json(index, row) for index, row, _ in entry.rows],
        "cuts": [],
    }
