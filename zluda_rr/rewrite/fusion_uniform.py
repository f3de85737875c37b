"""Which values are equal in all lanes of a warp, and which of them are equal to one another.

Closed: an instruction, an operand or a register that is not named here is not uniform. Results of calls, loads,
atomics, votes and special registers of a lane, a warp or a moment are none of these.
"""

from __future__ import annotations

from collections.abc import Callable

from zluda_rr.ptx import Address, Body, Immediate, Negated, Operand, Pair, Register, Statement, Symbol, Vector

from .patterns import Term, Value

UniformKey = tuple[object, ...]
_SPECIAL = frozenset(f"%{name}.{axis}" for name in ("ctaid", "nctaid", "ntid") for axis in "xyz") | {"%gridid"}
_PURE = frozenset(
    "mov cvt cvta add sub mul mad fma min max neg abs and or xor not shl shr prmt lop3 bfe bfi selp setp".split()  # noqa: SIM905
)
_SPACES = ("shared", "global", "const")


class Uniform:
    """Keys of uniform values: equal keys are equal values. `read` gives the definition that a read sees."""

    def __init__(self, body: Body, read: Callable[[int, str], Value | None]) -> None:
        self._body = body
        self._read = read
        self._parameters = frozenset(p.name for p in body.function.params) - body.variables.keys()
        self._known: dict[Value, UniformKey | None] = {}
        self._expressions: dict[UniformKey, int] = {}

    def key(self, term: Term) -> UniformKey | None:
        """Identity of a term that is equal in all lanes; None where that is not known."""
        if isinstance(term, Value):
            if term not in self._known:
                self._resolve(term)
            return self._known[term]
        if isinstance(term, Immediate):
            return (term.kind, term.value)
        return ("WARP_SZ",) if term == Symbol("WARP_SZ") else None

    def _resolve(self, value: Value) -> None:
        """Enter a value's key behind those of its sources. There are no cycles: a definition dominates its readers."""
        pending = [value]
        while pending:
            last = pending[-1]
            missing = [source for source in self._sources(last) if source not in self._known]
            if missing:
                pending += missing
            else:
                self._known[last] = self._derive(last)
                pending.pop()

    def _sources(self, value: Value) -> list[Value]:
        statement = self._body[value.statement]
        if statement.opcode not in _PURE:
            return []
        return [s for s in (self._read(value.statement, name) for name in statement.uses) if s is not None]

    def _derive(self, value: Value) -> UniformKey | None:
        statement = self._body[value.statement]
        if statement.guard is not None or not statement.known or statement.instruction is None:
            return None
        place = _place(statement.operands[0], value.register)
        if place is None:
            return None
        sources: list[UniformKey | None]
        if statement.opcode == "ld":
            sources = [self._parameter(statement)]
        elif statement.opcode in _PURE:
            sources = [self._operand(value.statement, operand) for operand in statement.operands[1:]]
        else:
            return None
        if None in sources:
            return None
        expression = (statement.opcode, statement.modifiers, place, *sources)
        # A number stands for the whole expression, so that long ones stay cheap to compare.
        return ("value", self._expressions.setdefault(expression, len(self._expressions)))

    def _parameter(self, statement: Statement) -> UniformKey | None:
        """What an unconditional load of a kernel parameter reads; nothing else in the space `param` is uniform."""
        address = statement.operands[1]
        if {"param", "param::entry"}.isdisjoint(statement.modifiers) or "volatile" in statement.modifiers:
            return None
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return None
        name = address.base.name
        return ("parameter", name, address.offset) if name in self._parameters else None

    def _operand(self, number: int, operand: Operand) -> UniformKey | None:
        kind = type(operand)
        if isinstance(operand, Register):
            if operand.name not in self._body.registers:
                return ("special", operand.name) if operand.name in _SPECIAL else None
            source = self._read(number, operand.name)
            return None if source is None else self.key(source)
        if isinstance(operand, Immediate):
            return (operand.kind, operand.value)
        if isinstance(operand, Symbol):
            variable = self._body.variables.get(operand.name)
            if variable is not None and variable.space in _SPACES:
                return ("address", operand.name, operand.offset)
            return ("WARP_SZ",) if operand == Symbol("WARP_SZ") else None
        if isinstance(operand, Negated):
            inner = self._operand(number, operand.operand)
            return None if inner is None else ("not", inner)
        if isinstance(operand, Vector):
            elements = [self._operand(number, element) for element in operand.elements]
            return None if None in elements else (kind.__name__, *elements)
        return None


def _place(target: Operand, register: str) -> tuple[int, int] | None:
    """Which result of how many a register is; None where it is not one, or more than one of them."""
    results: tuple[Operand, ...] = (target,)
    if isinstance(target, Vector):
        results = target.elements
    elif isinstance(target, Pair):
        results = (target.first, target.second)
    found = [i for i, operand in enumerate(results) if operand == Register(register)]
    return (found[0], len(results)) if len(found) == 1 else None
