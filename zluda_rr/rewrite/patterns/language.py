"""The pattern language of `rules/*.rule`: nodes, reader, errors (docs/rules.md describes it)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lark import Lark, Token, Tree, UnexpectedInput

from zluda_rr.errors import UserError


class RuleError(UserError):
    """A place in a rule file that cannot be understood: `file:line:column: message`, the line and a caret under it."""

    def __init__(self, filename: str, text: str, line: int, column: int, message: str) -> None:
        self.line, self.column, self.message = line, column, message
        lines = text.splitlines()
        source = lines[line - 1].replace("\t", " ") if 0 < line <= len(lines) else ""
        super().__init__(f"{filename}:{line}:{column}: {message}\n  {source}\n  {' ' * (column - 1)}^")


@dataclass(frozen=True, slots=True)
class Capture:
    """`$x`: any register or constant; the same name stands for the same value everywhere in a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """An operand that is this constant, written out or held in a register. Compared modulo 2**32."""

    value: int


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: any operand."""


@dataclass(frozen=True, slots=True)
class VectorPattern:
    """`{$a, $b}`."""

    elements: tuple[OperandPattern, ...]


@dataclass(frozen=True, slots=True)
class PairPattern:
    """`$a|_`: two results of one instruction."""

    first: OperandPattern
    second: OperandPattern


OperandPattern = Capture | Number | Anything | VectorPattern | PairPattern


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction pattern: `label: results = opcode operands;`. `operands` begin with the results."""

    label: str
    opcode: str
    expression: re.Pattern[str]
    operands: tuple[OperandPattern, ...]
    results: int
    given: bool = field(init=False, compare=False)
    """The line is looked at and stays: its label begins with `given`."""
    captures: tuple[str, ...] = field(init=False, compare=False)
    """Names in textual order, results first."""
    written: tuple[str, ...] = field(init=False, compare=False)
    """Names among the results."""

    def __post_init__(self) -> None:
        names = [_names(operand) for operand in self.operands]
        object.__setattr__(self, "given", self.label.startswith("given"))
        object.__setattr__(self, "captures", tuple(name for part in names for name in part))
        object.__setattr__(self, "written", tuple(name for part in names[: self.results] for name in part))


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a `where`: `kind` is the word in the file, `names` its captures or labels."""

    kind: str
    names: tuple[str, ...]
    comparison: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite: lines that must be found, conditions, and what takes their place.

    `template` is empty for a `carry` rule: the instruction stays as it is, on values in WMMA order.
    """

    name: str
    reason: str
    source: str
    lines: tuple[Line, ...]
    conditions: tuple[Condition, ...]
    template: tuple[str, ...]
    place: str  # file:line
    anchor: int = field(init=False, compare=False)
    """Index of the line where a search begins: the one labelled `at`, else the first."""
    results: tuple[str, ...] = field(init=False, compare=False)
    """Captures that the replaced lines write."""
    orders: tuple[tuple[tuple[OperandPattern, ...], ...], ...] = field(init=False, compare=False)
    """For each line its operands, then once more for every two of them that commute, exchanged."""

    def __post_init__(self) -> None:
        anchor = next((i for i, line in enumerate(self.lines) if line.label == "at"), 0)
        results = tuple(name for line in self.lines if not line.given for name in line.written)
        swaps = [condition.names for condition in self.of_kind("commutes")]
        object.__setattr__(self, "anchor", anchor)
        object.__setattr__(self, "results", results)
        object.__setattr__(self, "orders", tuple(tuple(_orders(line.operands, swaps)) for line in self.lines))

    def of_kind(self, kind: str) -> tuple[Condition, ...]:
        """Conditions of one kind."""
        return tuple([condition for condition in self.conditions if condition.kind == kind])


def _orders(
    operands: tuple[OperandPattern, ...], swaps: Sequence[tuple[str, ...]]
) -> Iterator[tuple[OperandPattern, ...]]:
    yield operands
    at = {o.name: i for i, o in enumerate(operands) if isinstance(o, Capture)}
    for first, second in swaps:
        if first in at and second in at:
            swapped = list(operands)
            i, j = at[first], at[second]
            swapped[i], swapped[j] = swapped[j], swapped[i]
            yield tuple(swapped)


def _names(operand: OperandPattern) -> tuple[str, ...]:
    if isinstance(operand, Capture):
        return (operand.name,)
    if isinstance(operand, VectorPattern):
        return tuple(name for element in operand.elements for name in _names(element))
    if isinstance(operand, PairPattern):
        return (*_names(operand.first), *_names(operand.second))
    return ()


# ------------------------------------------------------------------------------------------------------------- reading


def load_rules(path: Path) -> tuple[Rule, ...]:
    """Rules of a file, in order. UserError where it cannot be read, RuleError where it is no rule file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read the rule file: {error}") from error
    return read_rules(text, filename=str(path))


def read_rules(text: str, *, filename: str = "<rules>") -> tuple[Rule, ...]:
    """Rules of a text. Raises RuleError."""
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        wanted = sorted({_SPOKEN.get(name, name) for name in _expected(error)})
        line, column = (error.line, error.column) if error.line > 0 else _end(text)
        raise RuleError(filename, text, line, column, f"expected {' or '.join(wanted)}") from error
    reader = _Reader(filename, text)
    rules = tuple(reader.rule(child) for child in tree.children if isinstance(child, Tree))
    reader.check_names()
    return rules


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


_SPOKEN = {
    "LBRACE": "{", "RBRACE": "}", "SEMICOLON": ";", "COMMA": ",", "EQUAL": "=", "COLON": ":", "VBAR": "|",
    "CAPTURE": "a capture ($name)", "NUMBER": "a number", "OPCODE": "an instruction", "NAME": "a name",
    "STRING": "a quoted text", "TEMPLATE": "a template line (| …)", "UNDERSCORE": "_", "__ANON_0": "_",
    "COMPARE": "== or <=", "$END": "the end of the file", "BEFORE": "before", "RULE": "rule",
    "WHERE": "where", "CARRY": "carry", "EMIT": "emit", "MATCH": "match", "REASON": "reason", "SOURCE": "source",
    "COMMUTES": "commutes", "USES": "uses", "SIBLINGS": "siblings", "PRIVATE": "private", "ZERO": "zero",
}  # fmt: skip


def _expected(error: UnexpectedInput) -> set[str]:
    for attribute in ("expected", "allowed"):
        found = getattr(error, attribute, None)
        if found:
            return set(found)
    return set()


def _end(text: str) -> tuple[int, int]:
    lines = text.splitlines() or [""]
    return len(lines), len(lines[-1]) + 1


class _Reader:
    def __init__(self, filename: str, text: str) -> None:
        self._filename = filename
        self._text = text
        self._seen: dict[str, Token] = {}

    def _error(self, where: Token, message: str) -> RuleError:
        return RuleError(self._filename, self._text, where.line or 1, where.column or 1, message)

    def rule(self, tree: Tree[Token]) -> Rule:
        name, reason, source, match, *rest = tree.children
        assert isinstance(name, Token)
        if str(name) in self._seen:
            raise self._error(name, f"rule {name} is defined twice, first in line {self._seen[str(name)].line}")
        self._seen[str(name)] = name
        assert isinstance(match, Tree)
        lines = tuple(self._line(child) for child in match.children if isinstance(child, Tree))
        known = {capture for line in lines for capture in line.captures}
        labels = {line.label for line in lines}
        conditions = [
            self._condition(child, known, labels)
            for where in rest[:-1]
            if isinstance(where, Tree)
            for child in where.children
            if isinstance(child, Tree)
        ]
        outcome = rest[-1]
        assert isinstance(outcome, Tree)
        template = tuple(self._template(child.children[0], known) for child in outcome.children)  # type: ignore[union-attr]
        if outcome.data == "carry" and len(lines) != 1:
            raise self._error(name, "a carry rule has one line")
        place = f"{self._filename}:{name.line}"
        return Rule(str(name), _unquote(reason), _unquote(source), lines, tuple(conditions), template, place)

    def _line(self, tree: Tree[Token]) -> Line:
        label, results, opcode, operands = tree.children
        written = [] if results is None else [self._operand(child) for child in results.children]  # type: ignore[union-attr]
        read = [self._operand(child) for child in operands.children if child is not None]  # type: ignore[union-attr]
        name = str(opcode.children[0])  # type: ignore[union-attr]
        return Line(str(label or ""), name, _expression(name), (*written, *read), len(written))

    def _operand(self, tree: object) -> OperandPattern:
        assert isinstance(tree, Tree)
        if tree.data == "capture":
            return Capture(str(tree.children[0])[1:])
        if tree.data == "number":
            return Number(int(str(tree.children[0]), 0))
        if tree.data == "anything":
            return Anything()
        parts = tuple(self._operand(child) for child in tree.children)
        return VectorPattern(parts) if tree.data == "vector" else PairPattern(parts[0], parts[1])

    def _condition(self, tree: Tree[Token], known: set[str], labels: set[str]) -> Condition:
        kind = str(tree.data)
        tokens = [child for child in tree.children if isinstance(child, Token)]
        names = tuple(str(token).removeprefix("$") for token in tokens if token.type in ("CAPTURE", "NAME"))
        for token in tokens:
            if token.type == "CAPTURE" and str(token)[1:] not in known:
                raise self._error(token, f"{token} is in no line of the match")
            if token.type == "NAME" and str(token) not in labels:
                raise self._error(token, f"no line of the match is labelled {token}")
        if kind == "uses":
            return Condition(kind, names, str(tokens[1]), int(str(tokens[2]), 0))
        return Condition(kind, names)

    def _template(self, token: object, known: set[str]) -> str:
        assert isinstance(token, Token)
        for found in CAPTURE_USE.finditer(token):
            if found[1] not in known:
                here = Token("TEMPLATE", str(token))
                here.line, here.column = token.line, (token.column or 1) + found.start()
                raise self._error(here, f"${found[1]} is in no line of the match")
        return str(token)[1:].strip()

    def check_names(self) -> None:
        """An empty file has no rules, which is never meant."""
        if not self._seen:
            raise RuleError(self._filename, self._text, *_end(self._text), "expected a rule")


CAPTURE_USE = re.compile(r"\$([a-z][a-z0-9_]*)(~?)")
"""`$x` or `$x~` (the other value of x's pair) in a template."""


def _unquote(token: object) -> str:
    return str(token)[1:-1]


def _expression(opcode: str) -> re.Pattern[str]:
    """`add|sub.*.f16x2`: alternatives of the opcode, then modifiers; `.x?` may be missing, `.*` is any number."""
    first, *modifiers = opcode.split(".")
    parts = [f"(?:{first})"]
    for modifier in modifiers:
        if modifier == "*":
            parts.append(r"(?:\.[a-z0-9_:]+)*")
        elif modifier.endswith("?"):
            parts.append(rf"(?:\.{modifier[:-1]})?")
        else:
            parts.append(rf"\.{modifier}")
    return re.compile("".join(parts) + r"\Z")


def rule_names(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Names in order of precedence."""
    return tuple(rule.name for rule in rules)
