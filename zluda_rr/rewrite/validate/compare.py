"""Are two kernels equal: effects, branches, loads and values at meeting points, block by block."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from zluda_rr.ptx import (
    Body,
    ControlFlow,
    Function,
    Module,
    ModuleItem,
    PtxError,
    Statement,
    VarDecl,
    linearise,
    no_collection,
    print_module,
)

from .arithmetic import PURE, pure_handler
from .joins import together
from .machine import BlockTrace, Effect, Handler, Machine
from .memory import call_handler, effect_handler, load_handler, read_handler, store_handler
from .operands import Layout
from .problem import NotShown
from .rows import Row, Rows
from .terms import Terms
from .warp import Warp

_READS = frozenset({"tex", "tld4", "txq", "istypep", "suld", "suq", "ldu", "ldmatrix"})


_REASON = 400


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is None exactly where the kernels are equal; it names statements (`s12 / s40` is original / fused).

    `effects` and `branches` were compared in all lanes, `values` are the registers at meeting points of paths.
    """

    equal: bool
    reason: str | None
    blocks: int = 0
    effects: int = 0
    branches: int = 0
    values: int = 0
    terms: int = 0


def validate_fusion(original: Module, fused: Module, entry: str) -> Verdict:
    """Is the kernel `entry` of `fused` equal to that of `original`, for every input and every lane.

    Equal means: the same stores, calls, barriers and other effects in the same order with the same operands, under the
    same guards and the same branches; no load of an address that the original does not load. Everything else of the
    two modules must be the same text. A False verdict says that this was not shown, not that it is wrong.
    """
    with no_collection():
        comparison = None
        try:
            comparison = _Comparison(original, fused, entry)
            return comparison.run()
        except NotShown as problem:
            return Verdict(equal=False, reason=_short(str(problem)))
        except PtxError as problem:
            return Verdict(equal=False, reason=_short(f"not a kernel: {problem}"))
        finally:
            if comparison is not None:
                comparison.release()


def _short(text: str) -> str:
    """One line that fits into a log."""
    line = " ".join(text.split())
    return line if len(line) <= _REASON else line[: _REASON - 1] + "…"


class _Comparison:
    def __init__(self, original: Module, fused: Module, entry: str) -> None:
        functions = _same_surroundings(original, fused, entry)
        self.terms = Terms()
        self.rows = Rows(self.terms)
        self.warp = Warp(self.terms, self.rows)
        self.bodies = [linearise(f, m) for f, m in zip(functions, (original, fused), strict=True)]
        self.flows = [ControlFlow(body) for body in self.bodies]
        _same_shape(self.bodies, self.flows)
        # The original says where the warp is together: its mma are the fused kernel's calls.
        everywhere = together(self.bodies[0], self.flows[0])
        defined = [frozenset(f.name for f in m.functions if f.body is not None) for m in (original, fused)]
        loaded: dict[str, dict[Hashable, int]] = {}
        self.machines = [
            Machine(self.terms, self.rows, loaded, body, flow, everywhere, names)
            for body, flow, names in zip(self.bodies, self.flows, defined, strict=True)
        ]

    def run(self) -> Verdict:
        for machine in self.machines:
            machine.run(self._handler)
        first, second = self.machines
        effects = branches = values = 0
        for block, one in first.traces.items():
            other = second.traces[block]
            self._same_effects(one.effects, other.effects)
            self._same_effects(one.leaves, other.leaves)
            self._no_new_loads(block, one, other)
            effects, branches = effects + len(one.effects), branches + len(one.leaves)
            values += self._same_values(block, one, other)
        return Verdict(
            equal=True,
            reason=None,
            blocks=len(first.traces),
            effects=effects,
            branches=branches,
            values=values,
            terms=len(self.terms.nodes),
        )

    def release(self) -> None:
        """Break the cycles between machines, handlers and terms."""
        for machine in self.machines:
            machine.release()
        self.warp.helpers.clear()
        self.terms.release()

    # -------------------------------------------------------------------------------------------------------- handlers

    def _handler(self, machine: Machine, statement: Statement, layout: Layout) -> Handler:
        opcode = statement.opcode
        if opcode == "call":
            return call_handler(machine, statement, layout, self.warp.helpers)
        if not statement.known:
            return effect_handler(machine, statement, layout)
        if opcode in PURE:
            return pure_handler(machine, statement, layout)
        if opcode == "ld":
            return load_handler(machine, statement, layout)
        if opcode == "st":
            return store_handler(machine, statement, layout)
        if opcode in _READS:
            return read_handler(machine, statement, layout)
        return self.warp.handler(machine, statement, layout) or effect_handler(machine, statement, layout)

    # ------------------------------------------------------------------------------------------------------ comparison

    def _same_effects(self, first: Sequence[Effect], second: Sequence[Effect]) -> None:
        for one, other in zip(first, second, strict=False):
            where = f"s{one.statement} / s{other.statement}"
            if one.name != other.name or len(one.rows) != len(other.rows):
                raise NotShown(f"{where}: {_name(one)} against {_name(other)}")
            for index, (a, b) in enumerate(zip(one.rows, other.rows, strict=True)):
                if not self.rows.same(a, b):
                    raise NotShown(f"{where}: {_name(one)}, operand {index}: {self._difference(a, b)}")
        if len(first) != len(second):
            longer = max(first, second, key=len)
            extra = longer[min(len(first), len(second))]
            side = "original" if longer is first else "fused"
            raise NotShown(f"s{extra.statement}: {_name(extra)} is in the {side} kernel only")

    def _same_values(self, block: int, one: BlockTrace, other: BlockTrace) -> int:
        count = 0
        for successor, registers in one.values.items():
            for register, row in registers.items():
                here = other.values[successor].get(register)
                if here is None:
                    continue
                count += 1
                if not self.rows.same(here, row):
                    end = self.flows[0].blocks[block].end, self.flows[1].blocks[block].end
                    where = f"s{end[0]} / s{end[1]}: {register}, read behind a meeting of paths"
                    raise NotShown(f"{where}: {self._difference(row, here)}")
        return count

    def _no_new_loads(self, block: int, one: BlockTrace, other: BlockTrace) -> None:
        start = self.flows[1].blocks[block].start
        if not other.loads <= one.loads:
            raise NotShown(f"the block of s{start} (fused) loads an address that the original does not load")
        if not other.constant_loads <= one.constant_loads:
            raise NotShown(f"the block of s{start} (fused) reads by .nc what the original does not")

    def _difference(self, first: Row, second: Row) -> str:
        pairs = list(zip(self.rows.items(first), self.rows.items(second), strict=True))
        lane = next(i for i, (a, b) in enumerate(pairs) if a != b)
        one, other = self.terms.first_difference(*pairs[lane])
        return f"lane {lane} depends on {self.terms.text(other)}, not on {self.terms.text(one)}"


def _name(effect: Effect) -> str:
    return " ".join(str(part) for part in effect.name if part not in ("", ()))


def _same_shape(bodies: Sequence[Body], flows: Sequence[ControlFlow]) -> None:
    """Both kernels have the same blocks and edges, and the fused one all registers and variables of the original."""
    first, second = flows
    if first.successors != second.successors or first.exits != second.exits:
        raise NotShown("the kernels have different control flow")
    one, other = bodies
    for name, kind in one.registers.items():
        if "@" not in name and other.registers.get(name) != kind:
            raise NotShown(f"register {name} has another type")
    for name, variable in one.variables.items():
        if variable.space == "param" or "@" in name:
            continue
        twin = other.variables.get(name)
        if twin is None or _declared(twin) != _declared(variable):
            raise NotShown(f"variable {name} is declared differently")


def _declared(variable: VarDecl) -> tuple[object, ...]:
    return variable.space, variable.type, variable.align, variable.count, variable.init


def _same_surroundings(original: Module, fused: Module, entry: str) -> list[Function]:
    """The entry in both modules, when everything around it is the same and declarations were only added."""
    functions = []
    for module in (original, fused):
        found = [f for f in module.functions if f.name == entry and f.body is not None]
        if len(found) != 1:
            raise NotShown(f"{len(found)} definitions of {entry}")
        functions.append(found[0])
    one, other = functions
    if _header(one) != _header(other):
        raise NotShown(f"the header of {entry} is different")
    before = [_text(item) for item in original.items if item is not one]
    known = set(before)
    # Only declarations without a body may be added: of the helpers that are called.
    after = [_text(i) for i in fused.items if i is not other and (_text(i) in known or not _is_declaration(i))]
    if before != after:
        raise NotShown(f"something outside {entry} is different")
    return functions


def _is_declaration(item: ModuleItem) -> bool:
    return isinstance(item, Function) and item.body is None and item.kind == "func"


def _header(function: Function) -> tuple[object, ...]:
    parameters = tuple((p.name, p.type, p.align, p.count) for p in function.params)
    return function.kind, function.linkage, parameters, function.returns, function.directives


def _text(item: ModuleItem) -> str:
    if isinstance(item, Function):
        text = print_module(Module("", (item,), ""))
        return text[len(item.trivia) :]
    return item.text
