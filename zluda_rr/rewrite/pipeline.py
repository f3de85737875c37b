"""The one way from a kernel to what takes its place: recognise it, prove its cuts, apply them or refuse, then fuse.

Every kernel is analysed once and every cut proved once; who rewrites again (another body, captures, the fused kernel
beside the cut one) hands on the `Proofs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from zluda_rr.contract import AnyCutRule, LayerContract, LayerCutRule
from zluda_rr.errors import UserError
from zluda_rr.ptx import Module

from .driver import RewriteResult, apply_cuts, examine_cut, match_entry
from .fusion import FusionResult, fuse_module, fusion_rules
from .layer_cut import LayerPlan
from .match import LayerMatch
from .patterns import Rule
from .report import CutReport


class Fusion(StrEnum):
    """When fragment-consumer fusion of a kernel is tried."""

    OFF = "off"
    FOLLOWING = "following"
    """After the cuts, or without any."""
    INSTEAD = "instead"
    """Only of a kernel to which no cut was applied."""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """What to do to a kernel.

    `cuts` by name: all of them or none is applied; None asks for the largest that may be applied and do not overlap.
    `body` chooses among a layer cut's bodies. `has_body` says of a body's symbol whether the target has it (None: all).
    With `capture` the accumulators are stored for `verify`.
    """

    cuts: tuple[str, ...] | None = ()
    body: str | None = None
    fusion: Fusion = Fusion.OFF
    has_body: Callable[[str], bool] | None = None
    capture: bool = False


class KernelProofs:
    """A kernel compared with its layer's contract, and the obligations of its cuts: each made when it is asked for, and
    once.
    """

    def __init__(self, module: Module, contract: LayerContract) -> None:
        self.module = module
        self.contract = contract
        self._match: LayerMatch | None = None
        self._reports: dict[str, CutReport] = {}

    @property
    def match(self) -> LayerMatch:
        """UserError where the module does not have the entry."""
        if self._match is None:
            self._match = match_entry(self.module, self.contract)
        return self._match

    def report(self, name: str, body: str | None = None) -> CutReport:
        """The obligations of one cut; they are the same for all of its bodies."""
        if name not in self._reports:
            self._reports[name] = examine_cut(self.match, self.contract.cut(name))
        report = self._reports[name]
        if body is None or not isinstance(report.rule, LayerCutRule):
            return report
        rule = report.rule.using(body)
        plan = replace(report.plan, rule=rule) if isinstance(report.plan, LayerPlan) else report.plan
        return replace(report, rule=rule, plan=plan)


@dataclass(frozen=True, slots=True)
class Proofs:
    """The proofs of several kernels, kept by module and layer."""

    _known: list[KernelProofs] = field(default_factory=list)

    def of(self, module: Module, contract: LayerContract) -> KernelProofs:
        """Those of one kernel of this very module."""
        for proofs in self._known:
            if proofs.module is module and proofs.contract is contract:
                return proofs
        self._known.append(KernelProofs(module, contract))
        return self._known[-1]


@dataclass(frozen=True, slots=True)
class KernelRewrite:
    """What became of one kernel. `cuts` is None where none was asked for or `error` came first, `fusion` where it was
    not tried.
    """

    entry: str
    contract: LayerContract | None
    cuts: RewriteResult | None = None
    fusion: FusionResult | None = None
    error: UserError | None = None
    fusion_error: UserError | None = None

    @property
    def applied(self) -> tuple[str, ...]:
        """Names of the cuts that were applied."""
        return () if self.cuts is None else tuple(plan.rule.name for plan in self.cuts.plans)

    @property
    def refused(self) -> UserError | None:
        """Why the cuts that were asked for were not applied."""
        if self.error is not None or self.cuts is None or self.cuts.refused is None:
            return self.error
        return UserError(self.cuts.refused)

    def check(self, place: str) -> None:
        """UserError where something that was asked for was not done; `place` goes before an obligation that failed."""
        if self.error is None and self.refused is not None:
            raise UserError(f"{place}: {self.refused}")
        for error in (self.error, self.fusion_error):
            if error is not None:
                raise error


def rewrite_kernels(
    module: Module,
    contracts: Iterable[LayerContract],
    entries: Iterable[str],
    options: RewriteOptions,
    proofs: Proofs | None = None,
) -> tuple[Module, tuple[KernelRewrite, ...]]:
    """Rewrite kernels of a module: those of `contracts`, and `entries`, of which those without a contract can only be
    fused. Cuts come first, then fusion.

    Nothing that a user can cause raises: a kernel that stays as it was says why. With fusion FOLLOWING a refused cut
    leaves all kernels without fusion.
    """
    known = Proofs() if proofs is None else proofs
    by_entry = {contract.entry: contract for contract in contracts}
    results = [KernelRewrite(name, by_entry.get(name)) for name in dict.fromkeys((*entries, *by_entry))]
    for number, result in enumerate(results):
        if result.contract is not None and (options.capture or options.cuts != ()):
            module, results[number] = _cut(module, known, result, result.contract, options)
    stopped = options.fusion is Fusion.FOLLOWING and any(result.refused is not None for result in results)
    if options.fusion is Fusion.OFF or stopped:
        return module, tuple(results)
    rules = fusion_rules()
    for number, result in enumerate(results):
        if options.fusion is Fusion.FOLLOWING or not result.applied:
            module, results[number] = _fused(module, result, rules)
    return module, tuple(results)


def _cut(
    module: Module, known: Proofs, result: KernelRewrite, contract: LayerContract, options: RewriteOptions
) -> tuple[Module, KernelRewrite]:
    try:
        proofs = known.of(module, contract)
        reports = _chosen(proofs, options)
        cuts = apply_cuts(module, proofs.match, reports, capture=options.capture)
    except UserError as error:
        return module, replace(result, error=error)
    return cuts.module, replace(result, cuts=cuts)


def _chosen(proofs: KernelProofs, options: RewriteOptions) -> tuple[CutReport, ...]:
    if options.cuts is not None:
        return tuple(proofs.report(name, options.body) for name in dict.fromkeys(options.cuts))
    has_body = options.has_body
    rules = [rule for rule in proofs.contract.cuts if has_body is None or has_body(rule.symbol)]
    return _largest(proofs, rules, options.body)


def _largest(proofs: KernelProofs, rules: Iterable[AnyCutRule], body: str | None) -> tuple[CutReport, ...]:
    """The largest cuts that hold and share no phase; where none holds, all of them in the rule's order."""
    rules = tuple(rules)
    taken: list[CutReport] = []
    for rule in sorted(rules, key=lambda rule: -len(rule.phases)):
        if any(set(rule.phases) & set(other.rule.phases) for other in taken):
            continue
        report = proofs.report(rule.name, body)
        if report.plan is not None and all(_apart(report, other) for other in taken):
            taken.append(report)
    return tuple(taken) or tuple(proofs.report(rule.name, body) for rule in rules)


def _apart(a: CutReport, b: CutReport) -> bool:
    return a.plan is not None and b.plan is not None and (a.plan.last < b.plan.first or b.plan.last < a.plan.first)


def _fused(module: Module, result: KernelRewrite, rules: tuple[Rule, ...]) -> tuple[Module, KernelRewrite]:
    analysed = None
    cuts = result.cuts
    if cuts is not None and cuts.module is module and not cuts.plans and cuts.capture is None:
        kernel = cuts.match.kernel
        analysed = (kernel.body, kernel.flow, kernel.uses)
    try:
        fusion = fuse_module(module, result.entry, rules, known=analysed)
    except UserError as error:
        return module, replace(result, fusion_error=error)
    return fusion.module, replace(result, fusion=fusion)
