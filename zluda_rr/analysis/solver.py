"""Equality of integer and predicate terms as bit vectors, where their normal forms differ.

Every lane at once: the lane index is an unknown below 32, a number per lane a table over it. What has no meaning as
bits (floating-point results, loads) is an unknown of its own, and so is a product of unknowns: a proof holds whatever
they are. Resources are limited by steps, not by time, so that a verdict does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .lanes import LANES
from .terms import Monomial, Term, Terms

_STEPS = 4_000_000
_TRUE = 1


class Solver:
    """Proves under `facts`, terms of one bit that hold in every launch."""

    def __init__(self, terms: Terms, facts: Iterable[Term] = ()) -> None:
        import z3  # most kernels need no solver, and it is slow to load

        self._z3 = z3
        self._terms = terms
        self._lane = z3.BitVec("lane", 5)
        self._vectors: dict[tuple[Term, int], Any] = {}
        self._facts = [self.condition(fact) for fact in facts]

    def implied(self, goal: Term, under: Iterable[Term] = ()) -> bool:
        """Does `goal` hold wherever the facts and `under` do."""
        return self._valid(self.condition(goal), under)

    def equal(self, a: Term, b: Term, bits: int, under: Iterable[Term] = ()) -> bool:
        """Are two values of `bits` bits the same wherever the facts and `under` hold."""
        return self._valid(self.vector(a, bits) == self.vector(b, bits), under)

    def _valid(self, goal: Any, under: Iterable[Term]) -> bool:
        solver = self._z3.SolverFor("QF_BV")
        solver.set("rlimit", _STEPS)
        solver.add(*self._facts, *(self.condition(term) for term in under), self._z3.Not(goal))
        return bool(solver.check() == self._z3.unsat)

    # ------------------------------------------------------------------------------------------------- translation

    def condition(self, term: Term) -> Any:
        """A predicate."""
        operation, *operands = self._terms.table[term]
        match operation:
            case "not":
                return self._z3.Not(self.condition(_term(operands[0])))
            case "any":
                return self._z3.Or(*(self.condition(_term(o)) for o in operands))
            case "<":
                kind, bits, a, b = operands
                left, right = (self.vector(_term(o), int(str(bits))) for o in (a, b))
                return left < right if kind == "signed" else self._z3.ULT(left, right)
            case "==":
                a, b, bits = operands
                return self.vector(_term(a), int(str(bits))) == self.vector(_term(b), int(str(bits)))
        return self.vector(term, 1) == _TRUE

    def vector(self, term: Term, bits: int) -> Any:
        """A value of `bits` bits."""
        key = (term, bits)
        if key not in self._vectors:
            found = self._vector(term, bits)
            self._vectors[key] = self._opaque(term, bits) if found is None else found
        return self._vectors[key]

    def _opaque(self, term: Term, bits: int) -> Any:
        return self._z3.BitVec(f"t{term}:{bits}", bits)

    def _vector(self, term: Term, bits: int) -> Any | None:
        z3 = self._z3
        operation, *operands = self._terms.table[term]
        match operation:
            case "poly":
                parts = self._terms.poly(term).items()
                return sum((self._by_lane(c, bits) * self._product(m, bits) for m, c in parts), z3.BitVecVal(0, bits))
            case "sext" | "zext" if operands[1] == bits:
                inner = self.vector(_term(operands[2]), int(str(operands[0])))
                extend = z3.SignExt if operation == "sext" else z3.ZeroExt
                return extend(bits - inner.size(), inner)
            case "pair" if bits == 32:
                return z3.Concat(self.vector(_term(operands[1]), 16), self.vector(_term(operands[0]), 16))
            case "half" if bits == 16:
                at = 16 * int(str(operands[0]))
                return z3.Extract(at + 15, at, self.vector(_term(operands[1]), 32))
            case "select":
                yes, no, condition = map(_term, operands)
                return z3.If(self.condition(condition), self.vector(yes, bits), self.vector(no, bits))
            case "param":
                size = 8 * int(str(operands[1]))
                value = z3.BitVec(f"param{operands[0]}:{size}", size)
                return value if size == bits else z3.ZeroExt(bits - size, value) if size < bits else None
            case "not" | "any" | "<" | "==" if bits == 1:
                return z3.If(self.condition(term), z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
        return self._bitwise(str(operation), operands, bits)

    def _bitwise(self, operation: str, operands: list[object], bits: int) -> Any | None:
        name, _, kind = operation.partition(".")
        if kind.lstrip("us") != str(bits) or name not in ("and", "or", "xor", "shl", "shr"):
            return None
        a, b = (self.vector(_term(o), bits) for o in operands)
        if name in ("shl", "shr"):
            b = self.vector(_term(operands[1]), 32)
            b = self._z3.ZeroExt(bits - 32, b) if bits > 32 else self._z3.Extract(bits - 1, 0, b)
            return a << b if name == "shl" else a >> b if kind[0] == "s" else self._z3.LShR(a, b)
        return {"and": a & b, "or": a | b, "xor": a ^ b}[name]

    def _product(self, monomial: Monomial, bits: int) -> Any:
        if not monomial:
            return self._z3.BitVecVal(1, bits)
        if len(monomial) == 1:
            return self.vector(monomial[0], bits)
        return self._z3.BitVec(f"product{'*'.join(map(str, monomial))}:{bits}", bits)

    def _by_lane(self, values: tuple[int, ...], bits: int, bit: int = 4, first: int = 0) -> Any:
        """A table over the lane index as a tree of choices."""
        part = values[first : first + (2 << bit)] if bit >= 0 else values[first : first + 1]
        if len(set(part)) == 1:
            return self._z3.BitVecVal(part[0], bits)
        assert len(values) == LANES
        high = self._z3.Extract(bit, bit, self._lane) == _TRUE
        upper, lower = (self._by_lane(values, bits, bit - 1, first + (at << bit)) for at in (1, 0))
        return self._z3.If(high, upper, lower)


def _term(value: object) -> Term:
    assert isinstance(value, Term)
    return value
