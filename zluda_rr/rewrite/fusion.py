"""Fragment-consumer fusion, the one way in: load the rules, plan, write, read again, have it validated, report.

A kernel is fused whole or left as it was, whatever becomes of the others of its module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zluda_rr.errors import UserError
from zluda_rr.ptx import Body, ControlFlow, DefUse, Module, linearise, no_collection
from zluda_rr.resources import resource_dir

from .fusion_emit import UnwritableError, Writer, unwritable
from .fusion_plan import Plan, make_plan
from .fusion_view import KernelView
from .fusion_words import Words
from .patterns import Rule, SearchLimitError, load_rules
from .validate import Verdict, validate_fusion

RULE_FILE = "fragment-consumer.rule"
HELPERS = "fragment_consumer.hip"
_LONGEST = 240  # characters of a validator's reason: it is one line in reports and the hook's log


Validator = Callable[[Module, Module, str], Verdict]
"""(original, fused, entry): do both compute the same."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """What fusion did to one kernel. Where it was left as it was, `module` is the very same object and `left` says why.

    `seconds` is for planning and writing, `validation_seconds` for the validator.
    """

    module: Module
    entry: str
    plan: Plan
    view: KernelView
    rules: tuple[Rule, ...]
    seconds: float
    left: str | None = None
    validation_seconds: float = 0.0

    @property
    def fused(self) -> bool:
        """Is `module` another one."""
        return self.left is None

    @property
    def body_sources(self) -> tuple[str, ...]:
        """File names in `kernels/` of the functions that are called."""
        return (HELPERS,) if self.fused else ()


def fusion_wanted(switch: bool | None, environment: Mapping[str, str], *, default: bool) -> bool:
    """Is fusion on: the command's switch, else ZLUDA_RR_FUSION (1 or 0), else `default`."""
    if switch is not None:
        return switch
    return {"1": True, "0": False}.get(environment.get("ZLUDA_RR_FUSION", ""), default)


def fusion_rules() -> tuple[Rule, ...]:
    """The rules of rules/fragment-consumer.rule."""
    return load_rules(resource_dir("rules") / RULE_FILE)


def calls_helpers(module: Module) -> bool:
    """Does a module call functions of HELPERS."""
    return any(function.name.startswith("zrr_fc_") for function in module.functions)


def fuse_entries(
    module: Module,
    entries: Sequence[str] | None = None,
    rules: Sequence[Rule] | None = None,
    *,
    validate: Validator | None = None,
) -> tuple[Module, tuple[FusionResult, ...]]:
    """Fuse several kernels of a module, all of them where none is named, each for itself: the module with those that
    could be, and what became of each.
    """
    rules = fusion_rules() if rules is None else rules
    results = []
    for name in [f.name for f in module.entries] if entries is None else entries:
        result = fuse_module(module, name, rules, validate=validate)
        module = result.module
        results.append(result)
    return module, tuple(results)


def fuse_module(
    module: Module,
    entry: str,
    rules: Sequence[Rule] | None = None,
    *,
    write: bool = True,
    known: tuple[Body, ControlFlow, DefUse] | None = None,
    validate: Validator | None = None,
) -> FusionResult:
    """Keep accumulators in WMMA order between the products of one kernel. Raises UserError for an unknown entry.

    `rules` replace those of rules/fragment-consumer.rule. Without `write` the module stays as it is, for a report of
    the plan. `known` are the kernel's statements, control flow and uses where they are known already. `validate`
    replaces `zluda_rr.rewrite.validate.validate_fusion`, whose consent every fused kernel needs.
    """
    function = next((f for f in module.entries if f.name == entry), None)
    if function is None:
        raise UserError(f"{module.filename}: no entry {entry}")
    started = time.perf_counter()
    chosen = fusion_rules() if rules is None else tuple(rules)
    with no_collection():
        view = KernelView(module, function, known)
        plan, left = _planned(view, chosen)
    edited = module
    if left is None and write:
        edited, left = _written(module, entry, view, plan)
    seconds = time.perf_counter() - started
    if edited is not module:
        left = _not_shown(module, edited, entry, validate)
    spent = time.perf_counter() - started - seconds
    result = module if left is not None else edited
    return FusionResult(result, entry, plan, view, chosen, seconds, left, spent)


def _planned(view: KernelView, rules: Sequence[Rule]) -> tuple[Plan, str | None]:
    """The plan, and why there is nothing to write."""
    unknown = next((s for s in view.body.statements if not s.known), None)
    if unknown is not None:
        return Plan(Words(), {}), f"line {unknown.line}: {unknown.spelling} is not in the instruction table"
    try:
        plan = make_plan(view, rules)
    except SearchLimitError as error:
        return Plan(Words(), {}), str(error)
    except RecursionError:
        return Plan(Words(), {}), "its expressions are nested too deeply to be examined"
    if not plan.steps:
        products = sum(statement.opcode == "mma" for statement in view.body.statements)
        reasons = dict.fromkeys(refusal.reason for refusal in plan.words.refusals)
        first = f": {next(iter(reasons))}" if reasons else ""
        return plan, f"none of its {products} products can be fused{first}" if products else "it has no products"
    return plan, unwritable(view)


def _written(module: Module, entry: str, view: KernelView, plan: Plan) -> tuple[Module, str | None]:
    """The rewritten module, parsed and numbered again, or the original and why."""
    try:
        edited = Writer(view, plan).write(module, entry)
        function = edited.function(entry)
        assert function is not None
        linearise(function, edited)
    except UnwritableError as error:
        return module, str(error)
    except UserError as error:
        return module, f"the rewritten kernel cannot be read: {' '.join(str(error).split())}"
    return edited, None


def _not_shown(module: Module, edited: Module, entry: str, validate: Validator | None) -> str | None:
    """Why a fused kernel is not shown to be equal to the original; None where it is."""
    verdict = (validate or validate_fusion)(module, edited, entry)
    if verdict.equal:
        return None
    reason = " ".join((verdict.reason or "no reason given").split())
    return f"not shown equal: {reason if len(reason) <= _LONGEST else reason[:_LONGEST] + ' …'}"
