"""Finds a rule's lines among the statements of one function, following definitions and uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from zluda_rr.ptx import Immediate, Operand, Pair, Register, Statement, Symbol, Vector

from .language import Anything, Capture, Number, OperandPattern, PairPattern, Rule


class Value(NamedTuple):
    """A register as one statement defined it."""

    register: str
    statement: int


Term = Value | Operand
"""What a capture stands for: a value, or an operand that is no register with one reaching definition."""


class Source(Protocol):
    """What the matcher asks about a function."""

    def statement(self, number: int) -> Statement:
        """Statement by number."""

    def value(self, number: int, register: str) -> Value | None:
        """The one definition that reaches a read, None where there is none or several."""

    def readers(self, value: Value) -> tuple[int, ...]:
        """Statements that read the value, ascending."""

    def constant(self, number: int, operand: Operand) -> int | None:
        """An operand's value modulo 2**32 where it is the same known constant in all lanes."""

    def dominates(self, first: int, second: int) -> bool:
        """Is statement `first` executed before `second` on every path."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """One place where a rule's lines were found: what its captures are, and the statement of each line."""

    rule: Rule
    captures: Mapping[str, Term]
    statements: tuple[int, ...]

    @property
    def replaced(self) -> tuple[int, ...]:
        """Statements of the lines that are not `given`."""
        both = zip(self.statements, self.rule.lines, strict=True)
        return tuple(number for number, line in both if not line.given)


_MOST_STEPS = 20_000  # of one search


class SearchLimitError(RuntimeError):
    """A rule needs more steps at a place than is sensible: a mistake in the rule, or a kernel made for it."""


def find(rule: Rule, source: Source, number: int, accept: Callable[[Match], bool] = lambda match: True) -> Match | None:
    """The first match (ascending statement numbers) with the rule's anchor at statement `number` that is accepted."""
    search = _Search(rule, source, accept)
    for captures in search.line(rule.anchor, number, {}):
        found = search.complete(captures, {rule.anchor: number})
        if found is not None:
            return found
    return None


class RuleIndex:
    """Rules by the spelling of the instruction at their anchor, so that most are never tried at a statement."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._known: dict[str, tuple[Rule, ...]] = {}

    def at(self, name: str) -> tuple[Rule, ...]:
        """Rules whose anchor can be an instruction spelled so, in order of precedence."""
        known = self._known.get(name)
        if known is None:
            known = tuple([rule for rule in self._rules if rule.lines[rule.anchor].expression.match(name)])
            self._known[name] = known
        return known


class _Search:
    def __init__(self, rule: Rule, source: Source, accept: Callable[[Match], bool]) -> None:
        self._rule = rule
        self._source = source
        self._accept = accept
        self._steps = 0

    def complete(self, captures: dict[str, Term], placed: dict[int, int]) -> Match | None:
        """Place the remaining lines, nearest first, and check the conditions."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise SearchLimitError(f"{self._rule.place}: rule {self._rule.name}: more than {_MOST_STEPS} steps")
        if len(placed) == len(self._rule.lines):
            match = Match(self._rule, captures, tuple(placed[i] for i in range(len(placed))))
            return match if self._holds(match) and self._accept(match) else None
        index, candidates = self._next(captures, placed)
        for number in candidates:
            if number in placed.values():
                continue
            for extended in self.line(index, number, captures):
                found = self.complete(extended, {**placed, index: number})
                if found is not None:
                    return found
        return None

    def _next(self, captures: dict[str, Term], placed: dict[int, int]) -> tuple[int, tuple[int, ...]]:
        """A line that shares a capture with what is placed, and where it can be."""
        nowhere: tuple[int, tuple[int, ...]] | None = None
        for index, line in enumerate(self._rule.lines):
            if index in placed:
                continue
            for name in line.captures:
                term = captures.get(name)
                if term is not None:
                    nowhere = index, ()  # unless a register leads on: a constant has no readers to look among
                if isinstance(term, Value):
                    return index, (term.statement,) if name in line.written else self._source.readers(term)
        if nowhere is not None:
            return nowhere
        raise RuntimeError(f"{self._rule.place}: rule {self._rule.name}: its lines share no capture")

    # ------------------------------------------------------------------------------------------------------- one line

    def line(self, index: int, number: int, captures: dict[str, Term]) -> Iterator[dict[str, Term]]:
        """Captures extended by a line at a statement, one for each order of the operands that commute."""
        line, statement = self._rule.lines[index], self._source.statement(number)
        if statement.instruction is None or statement.guard is not None or not statement.known:
            return
        if not line.expression.match(statement.spelling):
            return
        operands = statement.operands
        if len(operands) != len(line.operands):
            return
        for patterns in self._rule.orders[index]:
            extended = dict(captures)
            for position, operand in enumerate(operands):
                if not self._operand(patterns[position], operand, number, position < line.results, extended):
                    break
            else:
                yield extended

    def _operand(
        self, pattern: OperandPattern, operand: Operand, number: int, result: bool, captures: dict[str, Term]
    ) -> bool:
        if isinstance(pattern, Capture):
            term = self._term(operand, number, result)
            return term is not None and captures.setdefault(pattern.name, term) == term
        if isinstance(pattern, Anything):
            return True
        if isinstance(pattern, Number):
            value = self._source.constant(number, operand)
            return value is not None and value == pattern.value & 0xFFFF_FFFF
        if isinstance(pattern, PairPattern):
            if not isinstance(operand, Pair):
                return isinstance(pattern.second, Anything) and self._operand(
                    pattern.first, operand, number, result, captures
                )
            parts = ((pattern.first, operand.first), (pattern.second, operand.second))
            return all(self._operand(p, o, number, result, captures) for p, o in parts)
        if not isinstance(operand, Vector) or len(operand.elements) != len(pattern.elements):
            return False
        both = zip(pattern.elements, operand.elements, strict=True)
        return all(self._operand(p, o, number, result, captures) for p, o in both)

    def _term(self, operand: Operand, number: int, result: bool) -> Term | None:
        """What a capture stands for. None, so no match, for every operand that is not just a register or a constant: a
        negated predicate is not the predicate, a sink (`_`) is no result.
        """
        if result:
            return Value(operand.name, number) if isinstance(operand, Register) else None
        if isinstance(operand, Register):
            return self._source.value(number, operand.name) or operand
        return operand if isinstance(operand, Immediate | Symbol) else None

    # ----------------------------------------------------------------------------------------------------- conditions

    def _holds(self, match: Match) -> bool:
        if not self._rule.conditions:
            return True
        labels = {line.label: match.statements[i] for i, line in enumerate(self._rule.lines)}
        for condition in self._rule.conditions:
            if condition.kind == "uses":
                term = match.captures[condition.names[0]]
                count = len(self._source.readers(term)) if isinstance(term, Value) else 0
                if not (count == condition.number if condition.comparison == "==" else count <= condition.number):
                    return False
            elif condition.kind == "before":
                if not self._source.dominates(labels[condition.names[0]], labels[condition.names[1]]):
                    return False
            elif condition.kind == "zero" and not all(self._is_zero(match, name) for name in condition.names):
                return False
        return True

    def _is_zero(self, match: Match, name: str) -> bool:
        term = match.captures[name]
        operand = Register(term.register) if isinstance(term, Value) else term
        reader = next(n for n, line in zip(match.statements, self._rule.lines, strict=True) if name in line.captures)
        return self._source.constant(reader, operand) == 0
