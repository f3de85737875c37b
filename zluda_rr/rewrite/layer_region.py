"""The region of a layer cut: which statements a body replaces, which of them stay, and what crosses the border.

The region spans everything from the first product of the first phase to the last product, or named store, of the last
one. All of it is deleted, except what the call's arguments need (*kept*, it stays in front of the call) and what code
behind the region needs without depending on the cut's results being anything but returned (*moved*, it is emitted
again behind the call). The call stands where the region's last statement stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zluda_rr.analysis import Phase
from zluda_rr.contract import LayerCutRule

from .match import Kernel, LayerMatch
from .plan import fragment_register


@dataclass(frozen=True, slots=True)
class Crossing:
    """A register that carries a value over the border of the region: who reads it, and who defines it."""

    register: str
    reader: int
    defs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerRegion:
    """A layer cut before its obligations are examined. Statement numbers are the original's.

    `spine`: blocks that every path through the region passes. `arguments`: fragment registers in the order of the
    contract, each with the product that reads it. `returned`: results of the last phase that are read outside, as
    (statement, register). `leaks`: other values of deleted statements that are read outside.
    """

    rule: LayerCutRule
    first: int
    last: int
    spine: frozenset[int]
    stores: tuple[int, ...]
    kept: tuple[int, ...]
    moved: tuple[int, ...]
    arguments: tuple[Crossing, ...]
    returned: tuple[tuple[int, str], ...]
    leaks: tuple[Crossing, ...]

    @property
    def deleted(self) -> tuple[int, ...]:
        """Statements that are not where they were afterwards."""
        kept = set(self.kept)
        return tuple(n for n in range(self.first, self.last + 1) if n not in kept)

    @property
    def replaced(self) -> tuple[int, ...]:
        """Statements whose work the body does."""
        moved = set(self.moved)
        return tuple(n for n in self.deleted if n not in moved)


def find_layer_region(match: LayerMatch, rule: LayerCutRule) -> LayerRegion | None:
    """The region of a cut, None where one of its phases was not recovered."""
    phases = _phases(match, rule)
    if phases is None:
        return None
    kernel = match.kernel
    stores = _named_stores(match, rule)
    members = [mma.statement for phase in phases for mma in phase.mmas]
    first, last = min(members), max((*members, *stores))
    spine = _spine(kernel, first, last)
    results = _results(phases[-1])
    arguments = tuple(_arguments(kernel, rule, phases[0]))
    kept, _, _ = _needed(kernel, arguments, first, last, frozenset())
    moved, returned, leaks = _needed(kernel, _after(kernel, first, last), first, last, results)
    return LayerRegion(
        rule=rule,
        first=first,
        last=last,
        spine=spine,
        stores=stores,
        kept=tuple(sorted(kept)),
        moved=tuple(sorted(moved - kept)),
        arguments=arguments,
        returned=tuple(sorted(returned)),
        leaks=leaks,
    )


def _phases(match: LayerMatch, rule: LayerCutRule) -> list[Phase] | None:
    phases = []
    for row in match.rows[rule.first - 1 : rule.last]:
        if row.found is None or row.found.phase.problem is not None:
            return None
        if not all(mma.supported for mma in row.found.phase.mmas):
            return None
        phases.append(row.found.phase)
    return phases


def _named_stores(match: LayerMatch, rule: LayerCutRule) -> tuple[int, ...]:
    """Every store of the kernel to a buffer that the body writes."""
    wanted = {match.contract.buffer(store.buffer).offset for store in rule.stores}
    found = []
    for statement in match.kernel.body.statements:
        access = match.kernel.values.access(statement)
        if access is None or access.kind == "load" or access.root is None:
            continue
        if access.root.kind == "parameter" and access.root.number in wanted:
            found.append(statement.number)
    return tuple(found)


def _spine(kernel: Kernel, first: int, last: int) -> frozenset[int]:
    flow = kernel.flow
    entry, end = flow.block_of(first), flow.block_of(last)
    between = range(min(entry, end), max(entry, end) + 1)
    return frozenset(b for b in between if flow.dominates(entry, b) and flow.dominates(b, end))


def _results(phase: Phase) -> frozenset[int]:
    return frozenset(chain[-1].statement for chain in phase.chains.values())


def _arguments(kernel: Kernel, rule: LayerCutRule, phase: Phase) -> Iterable[Crossing]:
    """Fragment registers of the first phase, in the order of the rule's arguments."""
    for argument in rule.arguments:
        if argument.role == "a":
            places = [(m, 0, 1, i) for m in range(phase.m_tiles) for i in range(4)]
        elif argument.role == "b":
            places = [(0, n, 2, w) for n in range(phase.n_tiles) for w in range(2)]
        elif argument.role == "c":
            places = [(0, n, 3, 0) for n in range(phase.n_tiles)]
        else:
            continue
        for m, n, position, word in places:
            number = phase.chains[m, n][0].statement
            register = fragment_register(kernel, number, position, word)
            yield Crossing(register, number, kernel.values.reaching(number, register))


def _after(kernel: Kernel, first: int, last: int) -> Iterable[Crossing]:
    """Values of the region that statements outside it read."""
    body = kernel.body
    for number in (*range(1, first), *range(last + 1, len(body.statements) + 1)):
        for register in body[number].uses:
            if register not in body.registers:
                continue
            defs = kernel.values.reaching(number, register)
            if any(first <= d <= last for d in defs):
                yield Crossing(register, number, defs)


def _needed(
    kernel: Kernel, values: Iterable[Crossing], first: int, last: int, results: frozenset[int]
) -> tuple[set[int], set[tuple[int, str]], tuple[Crossing, ...]]:
    """Statements of the region that compute these values, the results of the cut they start from, and the values of
    products that are no results.
    """
    needed: set[int] = set()
    returned: set[tuple[int, str]] = set()
    leaks: dict[tuple[int, str], Crossing] = {}
    work = list(values)
    while work:
        value = work.pop()
        for number in value.defs:
            if not first <= number <= last:
                continue
            statement = kernel.body[number]
            if number in results:
                returned.add((number, value.register))
            elif statement.opcode == "mma":
                leaks.setdefault((number, value.register), value)
            elif number not in needed:
                needed.add(number)
                for register in statement.uses:
                    if register in kernel.body.registers:
                        work.append(Crossing(register, number, kernel.values.reaching(number, register)))
    return needed, returned, tuple(leaks.values())
