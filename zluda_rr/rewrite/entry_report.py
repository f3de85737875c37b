"""Everything that is known about the kernels of a module, before it becomes text, JSON or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zluda_rr.analysis import Epilogue, Operands, Row, find_epilogues, group_adjacent, instruction_mix
from zluda_rr.contract import LayerContract, load_contracts
from zluda_rr.ptx import Function, Module, PtxError, no_collection, parse

from .driver import examine_cut
from .match import Kernel, LayerMatch, analyse, match_layer
from .report import CutReport


@dataclass(frozen=True, slots=True, eq=False)
class EntryReport:
    """One kernel. `match` is None where no rule names its entry; `rows` are the recovered phases in program order, with
    the differences of each from the contract.
    """

    function: Function
    kernel: Kernel
    match: LayerMatch | None
    rows: tuple[tuple[int, Row | None, tuple[str, ...]], ...]
    cuts: tuple[CutReport, ...]
    epilogues: tuple[Epilogue, ...]
    mix: Mapping[str, int]

    @property
    def layer(self) -> str | None:
        """Name of the layer whose rule names the entry."""
        return self.match.contract.layer if self.match is not None else None

    @property
    def found(self) -> list[Row]:
        """The recovered phases."""
        return [row for _, row, _ in self.rows if row is not None]


@dataclass(frozen=True, slots=True, eq=False)
class RefusedEntry:
    """A kernel that holds something that is not understood, or that something such in the module may concern."""

    function: Function
    error: PtxError

    @property
    def reason(self) -> str:
        """One line: what and where."""
        return f"line {self.error.line}: {self.error.message}"


@dataclass(frozen=True, slots=True, eq=False)
class ModuleReport:
    """A parsed module and its kernels."""

    module: Module
    filename: str
    entries: tuple[EntryReport, ...]
    refused: tuple[RefusedEntry, ...] = ()


def examine_module(
    text: str, *, filename: str = "<ptx>", contracts: Sequence[LayerContract] | None = None
) -> ModuleReport:
    """Analyse every kernel of a PTX module, against its layer's contract where there is one.

    A kernel that is not understood is among `refused`. PtxError: not PTX, or none of its kernels is understood.
    """
    module = parse(text, filename=filename)
    known = load_contracts() if contracts is None else contracts
    by_entry = {contract.entry: contract for contract in known}
    with no_collection():
        found = [_examined(module, function, by_entry.get(function.name)) for function in module.entries]
    entries = tuple(entry for entry in found if isinstance(entry, EntryReport))
    refused = tuple(entry for entry in found if isinstance(entry, RefusedEntry))
    if refused and not entries:
        raise refused[0].error
    return ModuleReport(module, filename, entries, refused)


def _examined(module: Module, function: Function, contract: LayerContract | None) -> EntryReport | RefusedEntry:
    try:
        return _examine(module, function, contract)
    except PtxError as error:
        return RefusedEntry(function, error)


def _examine(module: Module, function: Function, contract: LayerContract | None) -> EntryReport:
    match: LayerMatch | None = None
    cuts: tuple[CutReport, ...] = ()
    rows: tuple[tuple[int, Row | None, tuple[str, ...]], ...]
    if contract is not None:
        kernel = analyse(module, function, contract.launch.block)
        match = match_layer(kernel, contract)
        cuts = tuple(examine_cut(match, rule) for rule in contract.cuts)
        rows = tuple((row.expected.index, row.found, row.differences) for row in match.rows)
    else:
        kernel = analyse(module, function)
        operands = Operands(kernel.body, kernel.values, kernel.origins)
        found = [operands.add(phase) for phase in group_adjacent(kernel.body, kernel.mmas)]
        rows = tuple((row.phase.index, row, (row.phase.problem,) if row.phase.problem else ()) for row in found)
    phases = [row for _, row, _ in rows if row is not None]
    epilogues = find_epilogues(kernel.body, kernel.values, kernel.origins, phases)
    return EntryReport(function, kernel, match, rows, cuts, epilogues, instruction_mix(kernel.body))
