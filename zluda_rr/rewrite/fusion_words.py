"""Which values can stay in WMMA order: the analysis behind rules/fragment-consumer.rule.

A *word* is a value with a sibling, kept in WMMA order in the registers of both. The analysis goes through the
statements in order: products make words, `carry` and exchange rules hand them on where the sibling's statement is the
same instruction on the siblings, and whatever else reads a word makes NVIDIA's order necessary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from zluda_rr.ptx import Statement

from .fusion_scopes import sets_flag
from .fusion_view import KernelView
from .patterns import CAPTURE_USE, Match, Rule, RuleIndex, Term, Value, find


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One application of a rule, to both members of a pair.

    `matches` are the match at each sibling (one match for a rule that takes both). `lifts` are pairs of values that
    go into WMMA order for it, `words` values that it reads in that order already; a value can be in both. `at` is the
    statement in front of which it needs its operands.
    """

    rule: Rule
    matches: tuple[Match, ...]
    lifts: tuple[tuple[Value, Value], ...]
    words: tuple[Value, ...]
    at: int

    @property
    def statements(self) -> tuple[int, ...]:
        """Statements that the step stands for, ascending."""
        return tuple(sorted({n for match in self.matches for n in match.replaced}))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a value could not stay in WMMA order: the statement that made it impossible."""

    statement: int
    reason: str


@dataclass(slots=True)
class Words:
    """Result of the analysis. `siblings` has both members of every pair; side 0 is the lower row half or n-tile."""

    siblings: dict[Value, Value] = field(default_factory=dict)
    side: dict[Value, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    step_of: dict[int, Step] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent on matching, by rule."""

    def join(self, first: Value, second: Value) -> None:
        """Make two values a pair."""
        self.siblings[first], self.siblings[second] = second, first
        self.side[first], self.side[second] = 0, 1

    def add(self, step: Step, taken: Iterable[int]) -> None:
        """Enter a step that stands for statements `taken`."""
        self.steps.append(step)
        for number in taken:
            self.step_of[number] = step


class Analysis:
    """One pass over a kernel. `banned` are statements that must stay in NVIDIA's order, with the reason."""

    def __init__(self, view: KernelView, rules: Sequence[Rule], banned: dict[int, str]) -> None:
        self._view = view
        self._banned = banned
        self._whole = RuleIndex([rule for rule in rules if rule.template and rule.of_kind("siblings")])
        self._single = RuleIndex([rule for rule in rules if not rule.of_kind("siblings") and len(rule.lines) == 1])
        self._registers: set[str] = set()  # those of words
        self.words = Words()

    def run(self) -> Words:
        """All steps, in statement order of their first statement."""
        for statement in self._view.body.statements:
            if statement.instruction is None or statement.number in self.words.step_of:
                continue
            if not self._whole_step(statement) and self._reads_word(statement):
                self._carry(statement)
        return self.words

    def _find(self, rule: Rule, number: int, accept: Callable[[Match], bool]) -> Match | None:
        started = time.perf_counter()
        match = find(rule, self._view, number, accept)
        self.words.seconds[rule.name] = self.words.seconds.get(rule.name, 0.0) + time.perf_counter() - started
        return match

    def _reads_word(self, statement: Statement) -> bool:
        if self._registers.isdisjoint(statement.uses):
            return False
        return any(self._view.value(statement.number, r) in self.words.siblings for r in statement.uses)

    def _join(self, first: Term, second: Term) -> None:
        assert isinstance(first, Value)
        assert isinstance(second, Value)
        self.words.join(first, second)
        self._registers.update((first.register, second.register))

    def _refuse(self, statement: Statement, reason: str) -> None:
        self.words.refusals.append(Refusal(statement.number, reason))

    # ----------------------------------------------------------------------------------- rules that take both siblings

    def _whole_step(self, statement: Statement) -> bool:
        rules = self._whole.at(statement.spelling)
        if not rules:
            return False
        if statement.number in self._banned:
            self._refuse(statement, self._banned[statement.number])
            return False
        for rule in rules:
            for strict in (True, False):
                accept = self._fits_strictly if strict else self._fits_loosely
                match = self._find(rule, statement.number, accept)
                if match is not None:
                    self._enter_whole(rule, match)
                    return True
        if not all(self._view.is_steady(Value(register, statement.number)) for register in statement.defs):
            self._refuse(statement, "partial update: its result's register is written again")
        elif statement.opcode == "mma":
            self._refuse(statement, "unpaired m16n8 tile: no other mma beside it has its A fragment")
        else:
            self._refuse(statement, "transpose of something other than accumulators of one or two k steps with C = 0")
        return False

    def _fits_strictly(self, match: Match) -> bool:
        return self._fits(match, True)

    def _fits_loosely(self, match: Match) -> bool:
        return self._fits(match, False)

    def _fits(self, match: Match, strict: bool) -> bool:
        """Can the match's lines become one step: operands there at the first, siblings where the rule wants them."""
        own = match.replaced
        first = min(own)
        written = set(match.rule.results)
        if any(n in self.words.step_of or not self._view.same_block(n, first) for n in own):
            return False
        if not self._view.is_together(first) or first in self._view.flag_alive:
            return False
        if len({match.captures[name] for name in match.rule.results}) != len(match.rule.results):
            return False
        if not all(self._view.dominates(n, first) for n in match.statements if n not in own):
            return False
        for condition in match.rule.of_kind("siblings"):
            terms = [match.captures[name] for name in condition.names]
            if condition.names[0] in written:
                if not all(isinstance(t, Value) and self._view.is_steady(t) for t in terms):
                    return False
            elif not all(self._is_there(t, first) for t in terms) or not self._pair_fits(terms, strict):
                return False
        return True

    def _is_there(self, term: Term, first: int) -> bool:
        if not isinstance(term, Value):
            return self._view.same_for_all(term) is not None
        # A register of an inner scope has no name in the text of another one.
        return "@" not in term.register and self._view.value(first, term.register) == term

    def _pair_fits(self, terms: Sequence[Term], strict: bool) -> bool:
        first, second = terms
        words = self.words.siblings
        if self._aligned(first, second):
            return True
        if self._same(first, second):
            return True
        if strict and (first in words or second in words):
            return False
        return all(
            isinstance(t, Value) and self._view.is_steady(t) and self._view.width(t.register) == 32 for t in terms
        )

    def _aligned(self, first: Term, second: Term) -> bool:
        """Are two terms a pair in WMMA order, the members in this order."""
        words, side = self.words.siblings, self.words.side
        return isinstance(first, Value) and words.get(first) == second and side[first] == 0

    def _same(self, first: Term, second: Term) -> bool:
        one, other = self._view.same_for_all(first), self._view.same_for_all(second)
        return one is not None and one == other

    def _enter_whole(self, rule: Rule, match: Match) -> None:
        own = match.replaced
        written = set(rule.results)
        lifts: list[tuple[Value, Value]] = []
        words: list[Value] = []
        for condition in rule.of_kind("siblings"):
            first, second = (match.captures[name] for name in condition.names)
            if condition.names[0] in written:
                self._join(first, second)
            elif isinstance(first, Value) and isinstance(second, Value):
                if self._aligned(first, second):
                    words += (first, second)
                elif not self._same(first, second):
                    lifts.append((first, second))
        self.words.add(Step(rule, (match,), tuple(lifts), tuple(words), min(own)), own)

    # ---------------------------------------------------------------------------------- rules applied at each sibling

    def _carry(self, statement: Statement) -> None:
        if statement.number in self._banned:
            self._refuse(statement, self._banned[statement.number])
            return
        if statement.guard is not None:
            self._refuse(statement, "partial update: the instruction is guarded")
            return
        match = self._first_match(statement)
        if match is None:
            self._refuse(statement, f"{statement.spelling} is not proved to work on each word alone")
            return
        if sets_flag(statement):
            self._refuse(statement, "it sets the carry flag, which stays in NVIDIA's order")
            return
        if not self._view.is_together(statement.number):
            self._refuse(statement, "not every lane of the warp is sure to execute it")
            return
        found = self._sibling(statement, match)
        if isinstance(found, str):
            self._refuse(statement, found)
            return
        other, lifts, side = found
        at = min(match.statements[0], other.statements[0])
        if match.rule.template and not self._both_there(match, at):
            self._refuse(statement, "the sibling of its operand is defined later")
            return
        pair = (match, other) if side == 0 else (other, match)
        read = [m.captures[name] for m in pair for name in self._inputs(m)]
        words = tuple([term for term in read if isinstance(term, Value) and term in self.words.siblings])
        for name in match.rule.results:
            first, second = (m.captures[name] for m in pair)
            self._join(first, second)
        self.words.add(Step(match.rule, pair, lifts, words, at), (match.statements[0], other.statements[0]))

    def _both_there(self, match: Match, at: int) -> bool:
        """Can the siblings that the template reads (`$v~`) be read at a statement."""
        names = {found[1] for line in match.rule.template for found in CAPTURE_USE.finditer(line) if found[2]}
        terms = [match.captures[name] for name in names]
        both = [w for t in terms if isinstance(t, Value) for w in (t, self.words.siblings.get(t)) if w is not None]
        return all(self._view.is_steady(w) and self._view.dominates(w.statement, at) for w in both)

    def _first_match(self, statement: Statement) -> Match | None:
        for rule in self._single.at(statement.spelling):
            match = self._find(rule, statement.number, _anything)
            if match is not None and self._only_results(statement, match):
                return match
        return None

    def _only_results(self, statement: Statement, match: Match) -> bool:
        """Nobody reads a result that the rule does not name (the predicate of a shuffle)."""
        named = {match.captures[name] for name in match.rule.results}
        values = [Value(register, statement.number) for register in statement.defs]
        return all(value in named or not self._view.readers(value) for value in values)

    def _sibling(self, statement: Statement, match: Match) -> tuple[Match, tuple[tuple[Value, Value], ...], int] | str:
        """The same instruction on the siblings: (match, pairs to lift, side of `statement`), or why none."""
        inputs = self._inputs(match)
        words = [match.captures[name] for name in inputs if match.captures[name] in self.words.siblings]
        sides = {self.words.side[word] for word in words if isinstance(word, Value)}
        if len(sides) != 1:
            return "mixes both members of a pair"
        anchor = words[0]
        assert isinstance(anchor, Value)
        best: tuple[Match, tuple[tuple[Value, Value], ...]] | None = None
        near = ""
        for number in self._view.readers(self.words.siblings[anchor]):
            if number == statement.number or number in self.words.step_of or number in self._banned:
                continue
            candidate = self._view.statement(number)
            if candidate.spelling != statement.spelling:
                if candidate.opcode == statement.opcode:
                    near = _mismatch(statement, candidate)
                continue
            if not self._view.same_block(number, statement.number):
                near = "its sibling is in another basic block"
                continue
            found: list[tuple[tuple[Value, Value], ...]] = []

            def consistent(other: Match, found: list[tuple[tuple[Value, Value], ...]] = found) -> bool:
                lifts = self._lifts(match, other, inputs)
                if lifts is not None:
                    found[:] = [lifts]
                return lifts is not None and self._only_results(candidate, other)  # noqa: B023 - used at once

            other = self._find(match.rule, number, consistent)
            if other is not None and (best is None or len(found[0]) < len(best[1])):
                best = other, found[0]
                if not found[0]:
                    break
        if best is None:
            return near or "no instruction does the same to the sibling"
        side = sides.pop()
        lifts = best[1] if side == 0 else tuple((second, first) for first, second in best[1])
        return best[0], lifts, side

    @staticmethod
    def _inputs(match: Match) -> list[str]:
        return [name for name in dict.fromkeys(match.rule.lines[0].captures) if name not in match.rule.results]

    def _lifts(self, match: Match, other: Match, inputs: Sequence[str]) -> tuple[tuple[Value, Value], ...] | None:
        """Pairs that must be brought into WMMA order for the two to be one step; None where they cannot be."""
        lifts = []
        at = min(match.statements[0], other.statements[0])
        instead: tuple[dict[Term, object], dict[Term, object]] = {}, {}
        for name in inputs:
            first, second = match.captures[name], other.captures[name]
            if first in self.words.siblings or second in self.words.siblings:
                if not isinstance(first, Value) or self.words.siblings.get(first) != second:
                    return None
            elif not self._same(first, second):
                if not isinstance(first, Value) or not isinstance(second, Value):
                    return None
                if not all(self._liftable(value, at) for value in (first, second)):
                    return None
                lifts.append((first, second))
            # The text names a value once for all its places, so it must mean one thing in all of them.
            meaning = (first, second) if (first, second) in lifts else None
            for term, known in zip((first, second), instead, strict=True):
                if known.setdefault(term, meaning) != meaning:
                    return None
        return tuple(dict.fromkeys(lifts))

    def _liftable(self, value: Value, at: int) -> bool:
        wide = self._view.width(value.register) in (16, 32)
        return wide and self._view.is_steady(value) and self._view.dominates(value.statement, at)


def _anything(match: Match) -> bool:
    return True


def _mismatch(statement: Statement, candidate: Statement) -> str:
    if statement.opcode == "cvt" and "e4m3x2" in statement.modifiers and "e4m3x2" in candidate.modifiers:
        return "mixed conversion variants in one fragment"
    return f"the sibling has {candidate.spelling}"
