"""Random changes of a kernel's meaning, as edits of single statements of its text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zluda_rr.ptx import Body, ControlFlow, Module, PtxError, Statement, linearise, parse, print_module

_REGISTER = re.compile(r"%[\w]+\b(?!\.)")
_NUMBER = re.compile(r"(?<![\w%.$@<])(0x[0-9A-Fa-f]+|\d+)(?![\w.>])")
_EFFECTS = frozenset({"st", "bar", "red", "atom", "sust"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed module: what was done, and to which statement."""

    kind: str
    statement: int
    before: str
    after: str
    module: Module

    def __str__(self) -> str:
        return f"{self.kind} s{self.statement}: {self.before.split(chr(10))[0]} -> {self.after.split(chr(10))[0]}"


Edits = list[tuple[Statement, str]]
Change = Callable[["Mutator", Statement], Edits | None]


class Mutator:
    """Makes mutants of one entry."""

    def __init__(self, module: Module, entry: str, seed: int) -> None:
        self.module = module
        self.entry = entry
        function = module.function(entry)
        assert function is not None
        self.body: Body = linearise(function, module)
        self.flow = ControlFlow(self.body)
        self.random = random.Random(seed)
        self.text = print_module(module)
        self._starts = [0]
        for line in self.text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._by_kind: dict[str, list[str]] = {}
        for name, kind in self.body.registers.items():
            if "@" not in name and name.startswith("%"):
                self._by_kind.setdefault(kind, []).append(name)
        self._written = {r for s in self.body.statements for r in s.defs}

    def mutants(self, count: int) -> Iterator[Mutant]:
        """At most `count` different ones, the kinds in turn as long as the kernel has places for them."""
        orders = {}
        for name in CHANGES:
            statements = [s for s in self.body.statements if s.instruction is not None]
            self.random.shuffle(statements)
            orders[name] = statements * 3
        seen: set[tuple[int, str]] = set()
        while len(seen) < count and any(orders.values()):
            for name, change in CHANGES.items():
                mutant = self._next(name, change, orders[name], seen)
                if mutant is not None and len(seen) < count:
                    seen.add((mutant.statement, mutant.after))
                    yield mutant

    def _next(self, name: str, change: Change, left: list[Statement], seen: set[tuple[int, str]]) -> Mutant | None:
        while left:
            statement = left.pop()
            edits = change(self, statement)
            if not edits or (statement.number, edits[0][1]) in seen:
                continue
            try:
                return Mutant(name, statement.number, statement.text, edits[0][1], self._edited(edits))
            except PtxError:
                continue
        return None

    def place(self, statement: Statement) -> tuple[int, int]:
        """Offsets of a statement in the text."""
        assert statement.instruction is not None
        span = statement.instruction.span
        begin = self._starts[span.line - 1] + span.column - 1
        assert self.text.startswith(statement.text, begin)
        return begin, begin + len(statement.text)

    def _edited(self, edits: Edits) -> Module:
        text = self.text
        for statement, new in sorted(edits, key=lambda e: -e[0].number):
            begin, end = self.place(statement)
            text = text[:begin] + new + text[end:]
        module = parse(text, filename="mutant")
        function = module.function(self.entry)
        assert function is not None
        linearise(function, module)
        return module

    # --------------------------------------------------------------------------------------------------------- changes

    def other_register(self, statement: Statement) -> str | None:
        """One operand that is read becomes another register of its type."""
        reads = [r for r in statement.uses if "@" not in r and r.startswith("%")]
        if not reads:
            return None
        register = self.random.choice(reads)
        others = [r for r in self._by_kind[self.body.registers[register]] if r != register and r in self._written]
        places = [m for m in _REGISTER.finditer(statement.text) if m[0] == register]
        if not others or not places:
            return None
        chosen = self.random.choice(places)
        if register in statement.defs and chosen is places[0]:
            return None
        return statement.text[: chosen.start()] + self.random.choice(others) + statement.text[chosen.end() :]

    def other_constant(self, statement: Statement) -> str | None:
        """One number in the operands becomes another."""
        if statement.opcode in ("bra", "bar"):
            return None
        offset = statement.text.find(" ")
        places = [m for m in _NUMBER.finditer(statement.text) if m.start() > offset]
        if not places:
            return None
        chosen = self.random.choice(places)
        value = int(chosen[0], 0) ^ (1 << self.random.randrange(3))
        return statement.text[: chosen.start()] + str(value) + statement.text[chosen.end() :]

    def dropped(self, statement: Statement) -> str | None:
        """The statement is gone."""
        if statement.opcode in ("bra", "ret", "call") or "param" in statement.modifiers:
            return None
        return "{ }" if statement.guard is None else None

    def other_opcode(self, statement: Statement) -> str | None:
        """Another operation on the same operands."""
        for one, other in _OPCODES:
            if statement.spelling.startswith(one):
                return statement.text.replace(one, other, 1)
        return None

    def other_helper(self, statement: Statement) -> str | None:
        """Another word of a product, another member of a pair."""
        if statement.opcode != "call":
            return None
        found = re.search(r"(zrr_fc_\w*?)(\d)", statement.text)
        if found is None:
            return None
        choices = "0123" if "product" in found[1] else "01"
        digit = self.random.choice([c for c in choices if c != found[2]])
        return statement.text.replace(found[0], found[1] + digit, 1)

    def other_direction(self, statement: Statement) -> str | None:
        """lift for lower, a plain pack for one with relu (declared or not: it is the validation that is asked)."""
        if statement.opcode != "call":
            return None
        for one, other in (("lift", "lower"), ("lower", "lift"), ("pack_relu", "pack"), ("pack,", "pack_relu,")):
            if one in statement.text:
                return statement.text.replace(one, other, 1)
        return None

    def swapped_arguments(self, statement: Statement) -> str | None:
        """Two words of a call change places."""
        if statement.opcode != "call":
            return None
        head, _, tail = statement.text.rpartition("(")
        names = [n.strip() for n in tail.rstrip(");").split(",")]
        if len(names) < 2:
            return None
        i, j = self.random.sample(range(len(names)), 2)
        names[i], names[j] = names[j], names[i]
        return f"{head}({', '.join(names)});"

    def negated_predicate(self, statement: Statement) -> str | None:
        """A guard or a predicate operand is negated."""
        text = statement.text
        if statement.guard is not None:
            return text.replace("@!", "@", 1) if statement.guard.negated else text.replace("@", "@!", 1)
        if statement.opcode == "selp":
            head, _, last = text.rpartition(",")
            return f"{head}, !{last.strip()}" if "!" not in last else None
        return None

    def guarded(self, statement: Statement) -> str | None:
        """An instruction gets a guard."""
        predicates = [r for r in self._by_kind.get("pred", []) if r in self._written]
        if statement.guard is not None or not predicates or statement.opcode in ("bra", "ret", "mma", "bar"):
            return None
        return f"@{self.random.choice(predicates)} {statement.text}"

    def exchanged(self, statement: Statement) -> Edits | None:
        """Two effects of one block, next to each other, change places."""
        if statement.opcode not in _EFFECTS or "param" in statement.modifiers:
            return None
        end = self.flow.blocks[self.flow.block_of(statement.number)].end
        for number in range(statement.number + 1, end + 1):
            later = self.body[number]
            if later.opcode in _EFFECTS and "param" not in later.modifiers:
                return None if later.text == statement.text else [(statement, later.text), (later, statement.text)]
        return None

    def other_value(self, statement: Statement) -> str | None:
        """A store writes what another store writes."""
        if statement.opcode != "st" or "param" in statement.modifiers:
            return None
        stores = [
            s for s in self.body.statements if s.spelling == statement.spelling and s.words[-1] != statement.words[-1]
        ]
        if not stores or "{" in statement.text or "@" in statement.words[-1]:
            return None
        head, _, _ = statement.text.rpartition(",")
        other = self.random.choice(stores).words[-1]
        return None if "@" in other else f"{head}, {other};"


_OPCODES = (
    ("add.", "sub."), ("sub.", "add."), ("min.", "max."), ("max.", "min."), ("mul.f16", "add.f16"), ("and.", "or."),
    ("or.", "and."), ("shl.", "shr."), ("setp.lt", "setp.le"), ("setp.eq", "setp.ne"), ("abs.", "neg."),
    ("cvt.rn.satfinite.e4m3x2", "cvt.rn.satfinite.relu.e4m3x2"), ("cvt.rn.satfinite.relu", "cvt.rn.satfinite"),
    ("cvt.rn.f16.f32", "cvt.rz.f16.f32"), ("shfl.sync.bfly", "shfl.sync.up"),
)  # fmt: skip


def _alone(change: Callable[[Mutator, Statement], str | None]) -> Change:
    """A change of one statement's text."""

    def edits(mutator: Mutator, statement: Statement) -> Edits | None:
        new = change(mutator, statement)
        return None if new is None or new == statement.text else [(statement, new)]

    return edits


CHANGES: dict[str, Change] = {
    "another register": _alone(Mutator.other_register),
    "another constant": _alone(Mutator.other_constant),
    "dropped": _alone(Mutator.dropped),
    "another operation": _alone(Mutator.other_opcode),
    "another word of a helper": _alone(Mutator.other_helper),
    "another direction": _alone(Mutator.other_direction),
    "swapped arguments": _alone(Mutator.swapped_arguments),
    "negated predicate": _alone(Mutator.negated_predicate),
    "a guard": _alone(Mutator.guarded),
    "effects exchanged": Mutator.exchanged,
    "another value stored": _alone(Mutator.other_value),
}
