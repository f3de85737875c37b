"""What fusion did to a kernel, for people and programs: chains, refusals, exchanges, rules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zluda_rr.analysis import collect_mma, group_adjacent

from .fusion import FusionResult
from .fusion_plan import Plan
from .fusion_view import KernelView
from .fusion_words import Words
from .patterns import Value

_COLUMNS = 100
_WORD_EXCHANGES = 2  # ds_bpermute per word that the translated code moves into or out of an operand
_ROLES: Mapping[str, tuple[str, ...]] = {
    "A": ("a0", "a1", "a2", "a3"),
    "B": ("b0", "f0", "b1", "f1"),
    "C": ("c0", "c1", "g0", "g1"),
}


@dataclass(frozen=True, slots=True)
class Chain:
    """Accumulators of a phase that reach an operand of another in WMMA order.

    `words` are distinct operand registers; `exchanges_saved` the lane exchanges per wave that the consumer would need
    for them. `operations` are the instructions on the way.
    """

    producer: int
    consumer: int
    operand: str
    operations: tuple[str, ...]
    words: int
    exchanges_saved: int


@dataclass(frozen=True, slots=True)
class RefusedChain:
    """Accumulators that go back to NVIDIA's order: the reason, the first statement, how many, what they would feed.

    `consumers` is empty where only other code (stores, reports) reads them.
    """

    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    reason: str
    statement: int
    count: int


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """Where a rule was applied (statement numbers), and how long matching it took."""

    rule: str
    reason: str
    source: str
    places: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class FusionReport:
    """All of it. `lowered_pairs` go back to NVIDIA's order, `lifted_pairs` came from it (two exchanges each).

    `left` says why the kernel was left as it was; then there are no chains. None: it is fused, or would be.
    """

    entry: str
    left: str | None
    products: int
    chains: tuple[Chain, ...]
    refused: tuple[RefusedChain, ...]
    lowered_pairs: int
    lifted_pairs: int
    rules: tuple[RuleRecord, ...]

    def text(self) -> str:
        """At most 100 columns."""
        lines = [f"fusion    {self.products} products in WMMA order, {len(self.chains)} chains"]
        if self.left is not None:
            lines = _wrapped(f"fusion    left as it was: {self.left}", 10)
        for chain in self.chains:
            head = f"  P{chain.producer} -> P{chain.consumer} {chain.operand}"
            way = ", ".join(chain.operations) or "nothing"
            saved = f"{chain.words} words, {chain.exchanges_saved} exchanges saved"
            lines += _wrapped(f"{head:<15}{saved}; between: {way}")
        for refused in self.refused:
            ends = "/".join(f"P{p}" for p in refused.consumers) or "other code"
            start = "/".join(f"P{p}" for p in refused.producers) or "-"
            place = f"s{refused.statement}" + (f" and {refused.count - 1} more" if refused.count > 1 else "")
            lines += _wrapped(f"  {start} -> {ends} in NVIDIA's order: {refused.reason} ({place})")
        if self.left is None:
            lines.append(f"  {self.lifted_pairs} pairs brought into WMMA order, {self.lowered_pairs} out of it")
        return "\n".join(lines) + "\n"

    def json(self) -> dict[str, object]:
        """Plain data; keys are the field names."""
        return {
            "fused": self.left is None,
            "left": self.left,
            "products": self.products,
            "chains": [{name: getattr(c, name) for name in Chain.__slots__} for c in self.chains],
            "refused": [{name: getattr(r, name) for name in RefusedChain.__slots__} for r in self.refused],
            "lowered_pairs": self.lowered_pairs,
            "lifted_pairs": self.lifted_pairs,
            "rules": [{"rule": r.rule, "applied": len(r.places), "seconds": round(r.seconds, 4)} for r in self.rules],
        }


def fusion_text(results: Iterable[FusionResult]) -> str:
    """What fusion did to each kernel of a module, at most 100 columns wide."""
    parts = [f"kernel    {result.entry}\n{report(result).text()}" for result in results]
    return "\n".join(parts) or "fusion    nothing to do: the module has no kernel\n"


def fusion_json(results: Iterable[FusionResult]) -> dict[str, object]:
    """The same for programs, by kernel."""
    found: dict[str, object] = {}
    for result in results:
        seconds = {"seconds": round(result.seconds, 4), "validation_seconds": round(result.validation_seconds, 4)}
        found[result.entry] = {**report(result).json(), **seconds}
    return found


def _wrapped(line: str, indent: int = 15) -> list[str]:
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=" " * indent, break_long_words=False, drop_whitespace=True)


def report(result: FusionResult) -> FusionReport:
    """Describe a fusion."""
    view, plan = result.view, result.plan
    if result.left is not None:  # what was planned is not in the module
        plan = Plan(Words(refusals=plan.words.refusals if not plan.steps else []), {})
    phase_of = _phases(view)
    origins = _Origins(plan, view, phase_of)
    lifted = {pair for step in set(plan.steps.values()) for pair in step.lifts}
    products = [step for step in plan.products if not step.rule.lines[0].given]
    return FusionReport(
        result.entry,
        result.left,
        len(products),
        tuple(_chains(plan, origins, phase_of)),
        tuple(_refused(view, plan, origins, phase_of)),
        len(plan.lowered),
        len(lifted),
        tuple(_records(result, plan)),
    )


def _phases(view: KernelView) -> dict[int, int]:
    """Phase of each mma statement."""
    phases = group_adjacent(view.body, collect_mma(view.body, view.values))
    return {mma.statement: phase.index for phase in phases for mma in phase.mmas}


class _Origins:
    """Producing phases and operations on the way, of every word."""

    def __init__(self, plan: Plan, view: KernelView, phase_of: Mapping[int, int]) -> None:
        self._known: dict[Value, tuple[frozenset[int], tuple[str, ...]]] = {}
        for step in sorted(plan.words.steps, key=lambda s: s.statements[-1]):
            for match in step.matches:
                if len(step.matches) == 1:
                    phases = frozenset(phase_of[n] for n in match.statements if n in phase_of)
                    way: tuple[str, ...] = ("movmatrix",) if step.rule.lines[0].given else ()
                else:
                    inputs = [self.of(t) for name, t in match.captures.items() if name not in match.rule.results]
                    phases = frozenset(p for found, _ in inputs for p in found)
                    here = view.statement(match.statements[0]).spelling
                    way = tuple(dict.fromkeys((*(o for _, found in inputs for o in found), here)))
                for name in match.rule.results:
                    value = match.captures[name]
                    if isinstance(value, Value):
                        self._known[value] = phases, way

    def of(self, term: object) -> tuple[frozenset[int], tuple[str, ...]]:
        """(phases, operations); empty for what is no word."""
        return self._known.get(term, (frozenset(), ())) if isinstance(term, Value) else (frozenset(), ())


def _chains(plan: Plan, origins: _Origins, phase_of: Mapping[int, int]) -> Iterable[Chain]:
    found: dict[tuple[int, int, str], tuple[set[Value], dict[str, None]]] = {}
    for step in plan.products:
        consumer = phase_of[step.matches[0].statements[0]]
        for role, names in _ROLES.items():
            for name in names:
                value = step.matches[0].captures[name]
                phases, way = origins.of(value)
                if not isinstance(value, Value) or value not in step.words:
                    continue
                for producer in phases:
                    words, operations = found.setdefault((producer, consumer, role), (set(), {}))
                    words.add(value)
                    operations.update(dict.fromkeys(way))
    for (producer, consumer, role), (words, operations) in sorted(found.items()):
        if producer != consumer:
            yield Chain(producer, consumer, role, tuple(operations), len(words), _WORD_EXCHANGES * len(words))


def _refused(view: KernelView, plan: Plan, origins: _Origins, phase_of: Mapping[int, int]) -> Iterable[RefusedChain]:
    groups: dict[tuple[tuple[int, ...], tuple[int, ...], str], list[int]] = {}
    for refusal in plan.words.refusals:
        statement = view.statement(refusal.statement)
        values = [view.value(refusal.statement, register) for register in statement.uses]
        producers = {p for value in values for p in origins.of(value)[0]}
        consumers = _reached(view, refusal.statement, phase_of)
        key = tuple(sorted(producers)), tuple(sorted(consumers)), refusal.reason
        groups.setdefault(key, []).append(refusal.statement)
    for (producers_key, consumers_key, reason), statements in sorted(groups.items(), key=lambda item: item[1][0]):
        yield RefusedChain(producers_key, consumers_key, reason, statements[0], len(statements))


def _reached(view: KernelView, start: int, phase_of: Mapping[int, int]) -> set[int]:
    """Phases of the first products that a statement's results get to; its own phase where it is one."""
    if start in phase_of:
        return {phase_of[start]}
    found: set[int] = set()
    seen = {start}
    pending = [start]
    while pending:
        number = pending.pop()
        for register in view.statement(number).defs:
            for reader in view.readers(Value(register, number)):
                if reader in phase_of:
                    found.add(phase_of[reader])
                elif reader not in seen:
                    seen.add(reader)
                    pending.append(reader)
    return found


def _records(result: FusionResult, plan: Plan) -> Iterable[RuleRecord]:
    places: dict[str, list[int]] = {}
    for step in dict.fromkeys(plan.steps.values()):
        places.setdefault(step.rule.name, []).append(step.at)
    for number, match in plan.packs.items():
        places.setdefault(match.rule.name, []).append(number)
    for rule in result.rules:
        seconds = plan.words.seconds.get(rule.name, 0.0)
        yield RuleRecord(rule.name, rule.reason, rule.source, tuple(sorted(places.get(rule.name, ()))), seconds)
