"""The PTX text of a cut: calls of the body, reloads of what it returns, and the edit that puts them in place.

Body ABI (design.md §7): `call.uni (r), zrr_<body>, (p0, …)` with `.param` scalars only, one `.b32` result, the
shared address of a lane-major image. Everything a call needs is declared in a scope of its own, so no name of the
kernel can clash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from zluda_rr.ptx import Module, add_module_item, edit_function

from .contract import CutRule
from .match import Kernel
from .plan import Call, CutPlan, scope_of

_TEMPORARIES = ("%zrr_base", "%zrr_lane", "%zrr_image")


@dataclass(frozen=True, slots=True)
class Splice:
    """Edits of one function, by original statement numbers."""

    delete: frozenset[int]
    insert_before: Mapping[int, str]
    insert_after: Mapping[int, str]
    at_start: str = ""


def extern_declaration(rule: CutRule) -> str:
    """`.extern .func (…) zrr_body (…);` with the argument types of the rule."""
    types = [argument.type for argument in rule.arguments for _ in range(argument.count)]
    parameters = ",\n".join(f"\t.param .{kind} {rule.symbol}_param_{i}" for i, kind in enumerate(types))
    return f".extern .func  (.param .{rule.result.type} {rule.symbol}_result) {rule.symbol}\n(\n{parameters}\n)\n;\n"


def cut_text(kernel: Kernel, plan: CutPlan, every_output: bool) -> str:
    """The lines that take the place of a cut's last statement: the calls, then the statements moved behind them."""
    name = f"{plan.rule.name}, {plan.rule.symbol}"
    lines = []
    for number, call in enumerate(plan.calls, 1):
        lines.append(f"\t// zluda-rr: {name}, call {number} of {len(plan.calls)}")
        lines += _call(plan, call, every_output)
    lines += _moved(kernel, plan)
    return "\n".join(lines) + "\n"


def _moved(kernel: Kernel, plan: CutPlan) -> Iterable[str]:
    """The statements behind the calls, in their old order; each scope is opened again with the registers it
    declared.
    """
    for scope, numbers in groupby(plan.moved, key=lambda n: scope_of(kernel.body[n])):
        statements = [kernel.body[n] for n in numbers]
        if scope is not None:
            names = dict.fromkeys(r for s in statements for r in (*s.defs, *s.uses) if r.endswith(f"@{scope}"))
            yield "\t{"
            yield from (f"\t.reg .{kernel.body.registers[name]} {name.partition('@')[0]};" for name in names)
        yield from (f"\t{' '.join(statement.text.split())}" for statement in statements)
        if scope is not None:
            yield "\t}"


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


def cut_edits(kernel: Kernel, plans: Iterable[CutPlan], every_output: bool) -> Splice:
    """The edits of all cuts of one kernel."""
    deleted: set[int] = set()
    before: dict[int, str] = {}
    for plan in plans:
        deleted |= {*plan.region, *plan.moved}
        before[plan.last] = cut_text(kernel, plan, every_output)
    return Splice(frozenset(deleted), before, {})


def apply_splice(module: Module, function: str, splice: Splice, rules: Collection[CutRule]) -> Module:
    """Edit one kernel and declare the bodies it calls, each once."""
    edited = edit_function(
        module,
        function,
        delete=splice.delete,
        insert_before=splice.insert_before,
        insert_after=splice.insert_after,
        at_start=splice.at_start,
    )
    declared = {f.name for f in module.functions}
    for rule in {rule.symbol: rule for rule in rules}.values():
        if rule.symbol not in declared:
            edited = add_module_item(edited, extern_declaration(rule), before=function)
    return edited
