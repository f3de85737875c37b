"""From a module and the names of cuts to a rewritten module, or to the first obligation that does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from zluda_rr.contract import AnyCutRule, LayerContract, LayerCutRule
from zluda_rr.errors import UserError, listed
from zluda_rr.ptx import Body, Function, Module, PtxError, linearise, no_collection

from . import obligations as prove
from .capture import CaptureLayout, add_capture_parameter, capture_edits, capture_layout
from .hygiene import refuse_own_names, refuse_shadowed_calls
from .layer_cut import LayerPlan, examine_layer
from .match import LayerMatch, analyse, match_layer
from .plan import CutPlan, Obligation, build_calls, find_region
from .report import CutReport, rewrite_json, rewrite_text
from .splice import apply_splice, cut_edits


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A rewritten module and what was proved. When a cut is refused, `module` is the original and `plans` is empty.

    `region` spans the original statements that were replaced, (0, 0) for none; after its last statement nothing
    changes. `capture` is set where the accumulators are stored for `verify`.
    """

    module: Module
    contract: LayerContract
    match: LayerMatch
    plans: tuple[CutPlan | LayerPlan, ...]
    reports: tuple[CutReport, ...]
    capture: CaptureLayout | None = None

    @property
    def refused(self) -> str | None:
        """The first obligation that does not hold, None where all cuts are applied."""
        return next((report.refused for report in self.reports if report.refused is not None), None)

    @property
    def region(self) -> tuple[int, int]:
        """First and last original statement of all cuts."""
        if not self.plans:
            return 0, 0
        return min(plan.first for plan in self.plans), max(plan.last for plan in self.plans)

    @property
    def body_sources(self) -> tuple[str, ...]:
        """File names in `kernels/` of the bodies that are called."""
        return tuple(dict.fromkeys(plan.rule.body_file for plan in self.plans))

    def text(self) -> str:
        """What was replaced and why it may be, for people."""
        return rewrite_text(self.match, self.reports)

    def json(self) -> dict[str, object]:
        """The same for programs."""
        return rewrite_json(self.match, self.reports)


def rewrite_module(
    module: Module, contract: LayerContract, cuts: Sequence[str], *, capture: bool = False, body: str | None = None
) -> RewriteResult:
    """Apply the named cuts (none is allowed: then only `capture` has an effect). All of them or none.

    `body` chooses among the bodies of a layer cut; cuts must not overlap.
    """
    match = match_entry(module, contract)
    rules = {rule.name: rule for rule in (contract.cut(name) for name in cuts)}.values()
    return apply_cuts(module, match, tuple(examine_cut(match, _with_body(rule, body)) for rule in rules), capture)


def apply_cuts(
    module: Module, match: LayerMatch, reports: tuple[CutReport, ...], capture: bool = False
) -> RewriteResult:
    """Apply cuts that were examined: all of them, or none where one is refused."""
    contract = match.contract
    plans = tuple(report.plan for report in reports if report.plan is not None)
    if len(plans) != len(reports):
        return RewriteResult(module, contract, match, (), reports)
    if not plans and not capture:
        return RewriteResult(module, contract, match, (), ())
    _check_apart(plans)
    refuse_own_names(module)
    if capture and not match.equal:
        raise UserError(f"{module.filename}: cannot capture: {match.first_difference()}")
    edits = cut_edits(match, plans, capture)
    layout = None
    if capture:
        layout = capture_layout(row.found.phase for row in match.rows if row.found is not None)
        edits = capture_edits(match, plans, edits, layout)
    edited = apply_splice(module, contract.entry, edits, [plan.rule for plan in plans], capture)
    refuse_shadowed_calls(module.filename, _read_again(edited, contract.entry))
    if capture:
        edited = add_capture_parameter(edited, contract.entry)
        _read_again(edited, contract.entry)
    return RewriteResult(edited, contract, match, plans, reports, layout)


def _read_again(edited: Module, entry: str) -> Body:
    """The rewritten entry's statements. UserError where a rewritten entry, parsed by the edit, cannot be numbered."""
    function = edited.function(entry)
    assert function is not None
    try:
        return linearise(function, edited)
    except PtxError as error:
        raise UserError(f"the rewritten module cannot be read: {' '.join(str(error).split())}") from error


def _with_body(rule: AnyCutRule, body: str | None) -> AnyCutRule:
    return rule.using(body) if body is not None and isinstance(rule, LayerCutRule) else rule


def _check_apart(plans: Sequence[CutPlan | LayerPlan]) -> None:
    ordered = sorted(plans, key=lambda plan: plan.first)
    for before, after in pairwise(ordered):
        if before.last >= after.first:
            raise UserError(f"cuts {before.rule.name} and {after.rule.name} overlap: apply one of them")


def instrument_phases(module: Module, contract: LayerContract) -> tuple[Module, CaptureLayout]:
    """The module with every phase's accumulators stored to the capture buffer, and where they lie in it."""
    result = rewrite_module(module, contract, (), capture=True)
    assert result.capture is not None
    return result.module, result.capture


def match_entry(module: Module, contract: LayerContract) -> LayerMatch:
    """Analyse the contract's entry. UserError where the module does not have it."""
    with no_collection():
        return match_layer(analyse(module, _entry(module, contract), contract.launch.block), contract)


def _entry(module: Module, contract: LayerContract) -> Function:
    for function in module.entries:
        if function.name == contract.entry:
            return function
    names = listed(function.name for function in module.entries)
    wanted = f"no entry {contract.entry} (layer {contract.layer}; --layer names another)"
    raise UserError(f"{module.filename}: {wanted}; entries here: {names}")


def examine_cut(match: LayerMatch, rule: AnyCutRule) -> CutReport:
    """All seven obligations of one cut. Number 7 comes first: without the phases there is no region to examine."""
    if isinstance(rule, LayerCutRule):
        return CutReport(rule, *examine_layer(match, rule))
    seventh = prove.phases_equal(match)
    found = match.rows[rule.phase - 1].found
    if found is None or found.phase.problem is not None or not all(mma.supported for mma in found.phase.mmas):
        unknown = tuple(Obligation(n, None, "not examined: the phase was not recovered") for n in range(1, 7))
        return CutReport(rule, None, (*unknown, seventh))
    kernel, region = match.kernel, find_region(match.kernel, rule, found.phase)
    variable = match.arrays.get(rule.lend_array)
    results = (
        prove.single_entry(kernel, region),
        prove.outputs_returned(kernel, region),
        prove.inputs_defined(kernel, region),
        prove.loads_named(kernel, region, match),
        prove.stores_named(kernel, region, match),
        prove.scratch_dead(kernel, region, variable, rule),
        seventh,
    )
    if not all(result.holds for result in results) or variable is None:
        return CutReport(rule, None, results)
    plan = CutPlan(rule, found.phase, region.members, region.moved, variable, build_calls(kernel, region))
    return CutReport(rule, plan, results)
