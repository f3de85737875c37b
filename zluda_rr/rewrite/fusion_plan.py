"""From words to a plan: which steps pay, where NVIDIA's order is needed besides, and what can be written shorter."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from .fusion_view import KernelView
from .fusion_words import Analysis, Step, Words
from .patterns import Match, Rule, RuleIndex, Value, find

_MOST_ROUNDS = 40


@dataclass(slots=True)
class Plan:
    """What is rewritten.

    `steps` by statement; `lowered` are word pairs (side 0, side 1) that other code reads in NVIDIA's order, with the
    readers; `packs` are shorter forms of carried statements (rules with several lines), by the statement that stays.
    """

    words: Words
    steps: Mapping[int, Step]
    lowered: dict[tuple[Value, Value], tuple[int, ...]] = field(default_factory=dict)
    packs: dict[int, Match] = field(default_factory=dict)

    @property
    def products(self) -> tuple[Step, ...]:
        """Steps of the rules that take both siblings, in order."""
        return tuple(step for step in self.words.steps if len(step.matches) == 1)


def make_plan(view: KernelView, rules: Sequence[Rule]) -> Plan:
    """Analyse, and analyse again without whatever turned out to be impossible, until nothing does."""
    banned: dict[int, str] = {}
    for _ in range(_MOST_ROUNDS):
        words = Analysis(view, rules, banned).run()
        plan = Plan(words, _useful(view, words))
        _lower(view, plan)
        wrong = _impossible(view, plan)
        if not wrong:
            _shorten(view, plan, [r for r in rules if len(r.lines) > 1 and not r.of_kind("siblings")])
            return plan
        banned.update(wrong)
    # Whatever is still impossible is given up together with everything else.
    return Plan(Words(refusals=words.refusals), {})


def _useful(view: KernelView, words: Words) -> dict[int, Step]:
    """Steps that lead to a product: the others would only move the point at which values leave WMMA order."""
    wanted: set[Value] = set()
    kept: list[Step] = []
    for step in reversed(_in_order(words)):
        if len(step.matches) > 1 and wanted.isdisjoint(_results(step)):
            continue
        wanted.update(step.words)
        wanted.update(words.siblings[value] for value in step.words)
        kept.append(step)
    alive = set(map(id, kept))
    return {number: step for number, step in words.step_of.items() if id(step) in alive}


def _in_order(words: Words) -> list[Step]:
    return sorted(words.steps, key=lambda step: step.statements[-1])


def _results(step: Step) -> list[Value]:
    own = set(step.statements)
    terms = [m.captures[name] for m in step.matches for name in m.rule.results]
    return [term for term in terms if isinstance(term, Value) and term.statement in own]


def _lower(view: KernelView, plan: Plan) -> None:
    """Find who reads words in NVIDIA's order: statements that are no steps, and lifts of words.

    A step's own statements read words as words, and lifts in front of them.
    """
    words = plan.words
    lifted: dict[Value, list[int]] = {}
    for step in dict.fromkeys(plan.steps.values()):
        for pair in step.lifts:
            for value in pair:
                lifted.setdefault(value, []).append(step.at)
    for value in words.siblings:
        if value.statement not in plan.steps or words.side[value] == 1:
            continue
        other = words.siblings[value]
        readers = {n for v in (value, other) for n in view.readers(v) if n not in plan.steps}
        readers.update(n for v in (value, other) for n in lifted.get(v, ()))
        if readers:
            plan.lowered[value, other] = tuple(sorted(readers))


def _impossible(view: KernelView, plan: Plan) -> dict[int, str]:
    """Statements whose words cannot be lowered where that is needed, with the reason."""
    wrong: dict[int, str] = {}
    for (value, other), readers in plan.lowered.items():
        step = plan.steps[value.statement]
        place = _defined(plan, value, other)
        reason = ""
        if not all(view.is_steady(v) for v in (value, other)):
            reason = "partial update: the register is written again, and other code reads this value"
        elif not all(view.width(v.register) in (16, 32) for v in (value, other)):
            reason = "other code reads a value that is neither 16 nor 32 bits"
        elif not all(view.dominates(place, reader) or reader == place for reader in readers):
            reason = "other code reads it before its sibling is defined"
        elif not _seen_everywhere(view, value, other):
            reason = "other code reads it where another definition may be meant"
        elif place in view.flag_alive:
            reason = CARRY_FLAG
        if reason:
            wrong.update(dict.fromkeys(step.statements, reason))
    for step in dict.fromkeys(plan.steps.values()):
        for pair in step.lifts:
            place = max(value.statement for value in pair)
            if not view.dominates(place, step.at):
                wrong.update(dict.fromkeys(step.statements, "an operand is defined after its first use"))
        if (step.lifts or step.rule.template) and not view.flag_alive.isdisjoint(step.statements):
            wrong.update(dict.fromkeys(step.statements, CARRY_FLAG))
    return wrong


CARRY_FLAG = "no call can stand here: the carry flag is alive"


def _seen_everywhere(view: KernelView, *pair: Value) -> bool:
    """Does every reader of both see this definition and no other, nor a register that was not written yet."""
    return all(view.value(reader, v.register) == v for v in pair for reader in view.readers(v))


def _defined(plan: Plan, value: Value, other: Value) -> int:
    """The statement behind which both registers of a pair hold their words."""
    step = plan.steps[value.statement]
    return step.at if len(step.matches) == 1 else max(value.statement, other.statement)


def lower_place(plan: Plan, value: Value, other: Value) -> int:
    """Statement after whose new text a pair is brought into NVIDIA's order."""
    return _defined(plan, value, other)


def _shorten(view: KernelView, plan: Plan, rules: Sequence[Rule]) -> None:
    """Apply the rules with several lines to carried statements."""
    lowered = {value for pair in plan.lowered for value in pair}
    index = RuleIndex(rules)
    for number, step in plan.steps.items():
        if number in plan.packs or len(step.matches) == 1:
            continue
        for rule in index.at(view.statement(number).spelling):
            started = time.perf_counter()
            match = find(rule, view, number, lambda m: _shortens(view, plan, lowered, m))
            spent = plan.words.seconds.get(rule.name, 0.0) + time.perf_counter() - started
            plan.words.seconds[rule.name] = spent
            if match is not None:
                plan.packs[number] = match
                break


def _shortens(view: KernelView, plan: Plan, lowered: Container[object], match: Match) -> bool:
    place = match.statements[match.rule.anchor]
    for number in match.replaced:
        step = plan.steps.get(number)
        if step is None or step.lifts or not view.same_block(number, place):
            return False
    private = [match.captures[c.names[0]] for c in match.rule.of_kind("private")]
    if any(value in lowered for value in private):
        return False
    if place in view.flag_alive:
        return False
    own = set(match.replaced)
    inputs = [t for t in match.captures.values() if not (isinstance(t, Value) and t.statement in own)]
    return all(isinstance(t, Value) and view.value(place, t.register) == t and view.is_steady(t) for t in inputs)
