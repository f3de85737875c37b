"""`inspect`: every kernel of a module, against its layer's contract where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.analysis import Operands, Row, group_adjacent
from zluda_rr.ptx import Function, Module, parse

from .contract import LayerContract
from .contract_reader import load_contracts
from .driver import examine_cut
from .match import LayerMatch, analyse, match_layer
from .report import SCHEMA, CutReport, Json, layer_json, layer_text, phase_json, phase_table


def inspect_text(text: str, *, filename: str = "<ptx>", contracts: Sequence[LayerContract] | None = None) -> str:
    """Report on a PTX module, at most 100 columns wide. PtxError where it is not PTX."""
    module = parse(text, filename=filename)
    parts = [f"file      {filename}\n" + _header(module)]
    for function in module.entries:
        known = _contract_of(function, contracts)
        if known is None:
            parts.append(_plain_text(module, function))
        else:
            parts.append(layer_text(*_recognised(module, function, known)))
    return "\n".join(parts)


def inspect_json(text: str, *, filename: str = "<ptx>", contracts: Sequence[LayerContract] | None = None) -> Json:
    """The same report for programs; `schema` changes when keys change their meaning."""
    module = parse(text, filename=filename)
    entries = []
    for function in module.entries:
        known = _contract_of(function, contracts)
        if known is None:
            entries.append(_plain_json(module, function))
        else:
            entries.append(layer_json(*_recognised(module, function, known)))
    return {
        "schema": SCHEMA,
        "file": filename,
        "version": module.version,
        "target": list(module.target),
        "entries": entries,
    }


def _header(module: Module) -> str:
    return f"module    PTX {module.version}, {', '.join(module.target)}, {len(module.entries)} entries\n"


def _contract_of(function: Function, contracts: Sequence[LayerContract] | None) -> LayerContract | None:
    known = load_contracts() if contracts is None else contracts
    return next((contract for contract in known if contract.entry == function.name), None)


def _recognised(module: Module, function: Function, contract: LayerContract) -> tuple[LayerMatch, list[CutReport]]:
    match = match_layer(analyse(module, function, contract.launch.block), contract)
    return match, [examine_cut(match, rule) for rule in contract.cuts]


def _plain_rows(module: Module, function: Function) -> tuple[int, list[Row]]:
    kernel = analyse(module, function)
    operands = Operands(kernel.body, kernel.values, kernel.origins)
    return len(kernel.body.statements), [operands.add(phase) for phase in group_adjacent(kernel.body, kernel.mmas)]


def _plain_text(module: Module, function: Function) -> str:
    statements, rows = _plain_rows(module, function)
    lines = [f"entry     {function.name}", f"layer     no rule; {statements} statements, {len(rows)} phases", ""]
    if rows:
        lines += phase_table([(row.phase.index, row, "!" if row.phase.problem else "") for row in rows])
    lines += [f"  phase {row.phase.index}: {row.phase.problem}" for row in rows if row.phase.problem]
    return "\n".join(lines) + "\n"


def _plain_json(module: Module, function: Function) -> Json:
    statements, rows = _plain_rows(module, function)
    return {
        "entry": function.name,
        "layer": None,
        "statements": statements,
        "mma": sum(len(row.phase.mmas) for row in rows),
        "phases": [phase_json(row.phase.index, row) for row in rows],
        "cuts": [],
    }
