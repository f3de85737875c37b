"""Fragment-consumer fusion of a kernel: load the rules, plan, write, report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zluda_rr.errors import UserError
from zluda_rr.ptx import Body, ControlFlow, DefUse, Module, no_collection
from zluda_rr.resources import resource_dir

from .fusion_emit import Writer
from .fusion_plan import Plan, make_plan
from .fusion_view import KernelView
from .patterns import Rule, load_rules

RULE_FILE = "fragment-consumer.rule"
HELPERS = "fragment_consumer.hip"


@dataclass(frozen=True, slots=True)
class FusionResult:
    """A rewritten module with the plan behind it. `module` is the very same object where nothing was fused."""

    module: Module
    entry: str
    plan: Plan
    view: KernelView
    rules: tuple[Rule, ...]
    seconds: float

    @property
    def body_sources(self) -> tuple[str, ...]:
        """File names in `kernels/` of the functions that are called."""
        return (HELPERS,) if self.plan.steps else ()


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


def fuse_module(
    module: Module,
    entry: str,
    rules: Sequence[Rule] | None = None,
    *,
    write: bool = True,
    known: tuple[Body, ControlFlow, DefUse] | None = None,
) -> FusionResult:
    """Keep accumulators in WMMA order between the products of one kernel. Raises UserError for an unknown entry.

    `rules` replace those of rules/fragment-consumer.rule. Without `write` the module stays as it is, for a report.
    `known` are the kernel's statements, control flow and uses where they are known already.
    """
    function = module.function(entry)
    if function is None or function.body is None:
        raise UserError(f"{module.filename}: no entry {entry}")
    started = time.perf_counter()
    chosen = fusion_rules() if rules is None else tuple(rules)
    with no_collection():
        view = KernelView(module, function, known)
        plan = make_plan(view, chosen)
    edited = Writer(view, plan).write(module, entry) if plan.steps and write else module
    return FusionResult(edited, entry, plan, view, chosen, time.perf_counter() - started)
