"""Layer cuts: from a rule to a plan with its proof, and the text that takes the region's place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from zluda_rr.contract import Argument, LayerContract, LayerCutRule
from zluda_rr.ptx import on_one_line

from . import layer_obligations as prove
from .layer_region import LayerRegion, find_layer_region
from .match import Kernel, LayerMatch
from .obligations import phases_equal
from .plan import Obligation, scope_of

_CAPTURE = "%zrr_capture_at"


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """A register of the last phase and its byte in the result image; `live` where code behind the cut reads it."""

    register: str
    offset: int
    live: bool


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """A layer cut that may be applied. `phases` are the contract's numbers of the phases that it replaces."""

    rule: LayerCutRule
    region: LayerRegion
    scratch: str
    outputs: tuple[LayerOutput, ...]

    @property
    def first(self) -> int:
        """First statement of the region."""
        return self.region.first

    @property
    def last(self) -> int:
        """Last statement of the region; the call takes its place."""
        return self.region.last

    @property
    def moved(self) -> tuple[int, ...]:
        """Statements that are emitted again behind the call."""
        return self.region.moved

    @property
    def phases(self) -> range:
        """Phases that the body computes."""
        return range(self.rule.first, self.rule.last + 1)


def examine_layer(match: LayerMatch, rule: LayerCutRule) -> tuple[LayerPlan | None, tuple[Obligation, ...]]:
    """All seven obligations of a layer cut, and the plan where they hold."""
    region = find_layer_region(match, rule) if match.equal else None
    if region is None:
        unknown = tuple(Obligation(n, None, "not examined: the phases were not recovered") for n in range(1, 7))
        return None, (*unknown, phases_equal(match))
    kernel = match.kernel
    variable = match.arrays.get(rule.lend_array)
    entry = prove.layer_entry(kernel, region)
    results = (
        entry,
        prove.layer_outputs(kernel, region),
        prove.layer_inputs(kernel, region),
        prove.layer_loads(kernel, region, match),
        prove.layer_stores(kernel, region, match),
        prove.layer_scratch(kernel, region, variable),
        phases_equal(match),
    )
    if variable is None or not all(result.holds for result in results):
        return None, results
    return LayerPlan(rule, region, variable, _outputs(match, rule, region)), results


def _outputs(match: LayerMatch, rule: LayerCutRule, region: LayerRegion) -> tuple[LayerOutput, ...]:
    row = match.rows[rule.last - 1]
    assert row.found is not None
    live = set(region.returned)
    image = rule.result
    outputs = []
    for (m, n), chain in row.found.phase.chains.items():
        for half, value in enumerate(chain[-1].d):
            offset = image.m * m + image.half * half + image.n * n
            outputs.append(LayerOutput(value.register, offset, (value.defs[0], value.register) in live))
    return tuple(outputs)


# ---------------------------------------------------------------------------------------------------------------- text


def layer_text(match: LayerMatch, plan: LayerPlan, capture: bool) -> str:
    """The lines that take the region's place: the call, the reloads, the statements emitted again."""
    contract, rule = match.contract, plan.rule
    parameter = match.kernel.function.params[0].name
    lines = [
        f"\t// zluda-rr: {rule.name}, {rule.symbol}: phases {rule.first} to {rule.last}",
        "\t{",
        "\t.reg .b16 %zrr_half;",
        "\t.reg .b32 %zrr_base, %zrr_lane, %zrr_image, %zrr_ex, %zrr_ey, %zrr_x0, %zrr_y0, %zrr_word;",
        "\t.reg .b64 %zrr_pointer;",
        *_geometry(contract, parameter),
        f"\tmov.u32 %zrr_base, {plan.scratch};",
    ]
    types: list[str] = []
    registers = iter(value.register for value in plan.region.arguments)
    for argument in rule.arguments:
        for register in _values(contract, argument, parameter, registers, lines):
            lines.append(f"\t.param .{argument.type} zrr_param{len(types)};")
            lines.append(f"\tst.param.{argument.type} [zrr_param{len(types)}], {register};")
            types.append(argument.type)
    if capture:
        lines += [
            "\tmov.u32 %zrr_lane, %laneid;",
            "\tmul.wide.u32 %zrr_pointer, %zrr_lane, 4;",
            f"\tsub.s64 %zrr_pointer, {_CAPTURE}, %zrr_pointer;",
            f"\t.param .b64 zrr_param{len(types)};",
            f"\tst.param.b64 [zrr_param{len(types)}], %zrr_pointer;",
        ]
        types.append("b64")
    lines += _call(plan, len(types), capture)
    lines += ["\t}", *_moved(match.kernel, plan)]
    return "\n".join(lines) + "\n"


def _geometry(contract: LayerContract, parameter: str) -> Iterable[str]:
    """Extents, and the block's first token: tile * block index - shift."""
    launch = contract.launch
    for axis, extent, origin, step in (("x", "%zrr_ex", "%zrr_x0", 0), ("y", "%zrr_ey", "%zrr_y0", 1)):
        yield f"\tld.param.u32 {extent}, [{parameter}+{launch.extents_offset + 4 * step}];"
        yield f"\tld.param.u16 %zrr_half, [{parameter}+{launch.shift_offset + 2 * step}];"
        yield "\tcvt.u32.u16 %zrr_word, %zrr_half;"
        yield f"\tmov.u32 {origin}, %ctaid.{axis};"
        if axis == "y":  # blocks are one thread high
            yield "\tmov.u32 %zrr_lane, %tid.y;"
            yield f"\tadd.s32 {origin}, {origin}, %zrr_lane;"
        yield f"\tmul.lo.s32 {origin}, {origin}, {launch.tile[step]};"
        yield f"\tsub.s32 {origin}, {origin}, %zrr_word;"


def _values(
    contract: LayerContract, argument: Argument, parameter: str, registers: Iterable[str], lines: list[str]
) -> Iterable[str]:
    """Registers of an argument, after the lines that load them."""
    if argument.role == "extents":
        yield from ("%zrr_ex", "%zrr_ey")
    elif argument.role == "origin":
        yield from ("%zrr_x0", "%zrr_y0")
    elif argument.role == "scratch":
        yield "%zrr_base"
    elif argument.role == "buffer":
        lines.append(f"\tld.param.u64 %zrr_pointer, [{parameter}+{contract.buffer(argument.buffer).offset}];")
        lines.append("\tcvta.to.global.u64 %zrr_pointer, %zrr_pointer;")
        yield "%zrr_pointer"
    else:
        for _, register in zip(range(argument.count), registers, strict=False):
            yield register


def _call(plan: LayerPlan, count: int, every_output: bool) -> Iterable[str]:
    rule, image = plan.rule, plan.rule.result
    yield f"\t.param .{image.type} zrr_result;"
    yield f"\tcall.uni (zrr_result), {rule.symbol}, ({', '.join(f'zrr_param{i}' for i in range(count))});"
    yield f"\tld.param.{image.type} %zrr_image, [zrr_result];"
    yield "\tmov.u32 %zrr_lane, %laneid;"
    yield "\tshr.u32 %zrr_word, %zrr_lane, 2;"
    yield f"\tmad.lo.u32 %zrr_image, %zrr_word, {image.row}, %zrr_image;"
    yield "\tand.b32 %zrr_word, %zrr_lane, 3;"
    yield f"\tmad.lo.u32 %zrr_image, %zrr_word, {image.column}, %zrr_image;"
    for output in plan.outputs:
        if output.live or every_output:
            place = f"%zrr_image+{output.offset}" if output.offset else "%zrr_image"
            yield f"\tld.shared.b32 {output.register}, [{place}];"


def _moved(kernel: Kernel, plan: LayerPlan) -> Iterable[str]:
    return emitted_again(kernel, plan.moved)


def emitted_again(kernel: Kernel, moved: Iterable[int]) -> Iterable[str]:
    """Statements in their old order; each scope is opened again with the registers it declared."""
    for scope, numbers in groupby(moved, key=lambda n: scope_of(kernel.body[n])):
        statements = [kernel.body[n] for n in numbers]
        if scope is not None:
            names = dict.fromkeys(r for s in statements for r in (*s.defs, *s.uses) if r.endswith(f"@{scope}"))
            yield "\t{"
            yield from (f"\t.reg .{kernel.body.registers[name]} {name.partition('@')[0]};" for name in names)
        yield from (f"\t{on_one_line(statement)}" for statement in statements)
        if scope is not None:
            yield "\t}"
