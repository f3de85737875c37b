"""The PTX text of a cut: calls of the body, reloads of what it returns, and the edit that puts them in place.

Body ABI (design.md §7): `call.uni (r), zrr_<body>, (p0, …)` with `.param` scalars only, one `.b32` result, the
shared address of a lane-major image. Everything a call needs is declared in a scope of its own, so no name of the
kernel can clash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zluda_rr.contract import AnyCutRule, Argument, LayerCutRule
from zluda_rr.ptx import Module, edit_function

from .layer_cut import LayerPlan, emitted_again, layer_text
from .match import Kernel, LayerMatch
from .plan import Call, CutPlan

_TEMPORARIES = ("%zrr_base", "%zrr_lane", "%zrr_image")


@dataclass(frozen=True, slots=True)
class Splice:
    """Edits of one function, by original statement numbers."""

    delete: frozenset[int]
    insert_before: Mapping[int, str]
    insert_after: Mapping[int, str]
    at_start: str = ""


def extern_declaration(rule: AnyCutRule, capture: bool = False) -> str:
    """`.extern .func (…) zrr_body (…);` with the argument types of the rule; a layer's body takes the capture buffer
    behind them where it is captured.
    """
    types = [
        argument.type
        for argument in (*rule.arguments, *_capture_argument(rule, capture))
        for _ in range(argument.count)
    ]
    parameters = ",\n".join(f"\t.param .{kind} {rule.symbol}_param_{i}" for i, kind in enumerate(types))
    return f".extern .func  (.param .{rule.result.type} {rule.symbol}_result) {rule.symbol}\n(\n{parameters}\n)\n;\n"


def _capture_argument(rule: AnyCutRule, capture: bool) -> tuple[Argument, ...]:
    return (Argument("capture", 1, "b64"),) if capture and isinstance(rule, LayerCutRule) else ()


def cut_text(kernel: Kernel, plan: CutPlan, every_output: bool) -> str:
    """The lines that take the place of a cut's last statement: the calls, then the statements moved behind them."""
    name = f"{plan.rule.name}, {plan.rule.symbol}"
    lines = []
    for number, call in enumerate(plan.calls, 1):
        lines.append(f"\t// zluda-rr: {name}, call {number} of {len(plan.calls)}")
        lines += _call(plan, call, every_output)
    lines += emitted_again(kernel, plan.moved)
    return "\n".join(lines) + "\n"


def _call(plan: CutPlan, call: Call, every_output: bool) -> Iterable[str]:
    rule = plan.rule
    base, lane, image = _TEMPORARIES
    types = [argument.type for argument in rule.arguments for _ in range(argument.count)]
    yield "\t{"
    yield f"\t.reg .b32 {base}, {lane}, {image};"
    yield f"\tmov.u32 {base}, {plan.scratch};"
    for i, (kind, register) in enumerate(zip(types, call.arguments, strict=True)):
        yield f"\t.param .{kind} zrr_param{i};"
        yield f"\tst.param.{kind} [zrr_param{i}], {register or base};"
    yield f"\t.param .{rule.result.type} zrr_result;"
    yield f"\tcall.uni (zrr_result), {rule.symbol}, ({', '.join(f'zrr_param{i}' for i in range(len(types)))});"
    yield f"\tld.param.{rule.result.type} {image}, [zrr_result];"
    yield f"\tmov.u32 {lane}, %laneid;"
    yield f"\tmad.lo.u32 {image}, {lane}, {rule.result.lane}, {image};"
    for output in call.outputs:
        if output.live or every_output:
            place = f"{image}+{output.offset}" if output.offset else image
            yield f"\tld.shared.b32 {output.register}, [{place}];"
    yield "\t}"


def cut_edits(match: LayerMatch, plans: Iterable[CutPlan | LayerPlan], capture: bool) -> Splice:
    """The edits of all cuts of one kernel; with `capture` every result is reloaded."""
    deleted: set[int] = set()
    before: dict[int, str] = {}
    for plan in plans:
        if isinstance(plan, LayerPlan):
            deleted |= set(plan.region.deleted)
            before[plan.last] = layer_text(match, plan, capture)
        else:
            deleted |= {*plan.region, *plan.moved}
            before[plan.last] = cut_text(match.kernel, plan, capture)
    return Splice(frozenset(deleted), before, {})


def apply_splice(
    module: Module, function: str, splice: Splice, rules: Collection[AnyCutRule], capture: bool = False
) -> Module:
    """Edit one kernel and declare the bodies it calls, each once."""
    declared = {f.name for f in module.functions}
    called = {rule.symbol: rule for rule in rules if rule.symbol not in declared}.values()
    return edit_function(
        module,
        function,
        delete=splice.delete,
        insert_before=splice.insert_before,
        insert_after=splice.insert_after,
        at_start=splice.at_start,
        in_front="".join(extern_declaration(rule, capture) for rule in called),
    )
