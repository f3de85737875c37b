"""Integer terms as the numbers they are: sums over the integers where ranges show that nothing wraps.

A 32-bit term is its value modulo 2^32; whether `x * y` extended is the extension of `x` times that of `y`, whether
`(2x - y) >> 1` is `x - (y >> 1)`, or an unsigned bound two signed ones, depends on the sizes and the evenness
of the unknowns. With these known (`ranges`, `even`) and conditions that are known to be false (`false`, in the normal
form of this module), every term gets a normal form in which such spellings are one. Nothing is assumed: a value whose
range is not proved stays the opaque term that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .lanes import LANES
from .terms import Lanes, Monomial, Term, Terms

Sum = dict[Monomial, Lanes]
"""Over the integers: one coefficient per lane for each product of unknowns."""
Range = tuple[int, int]
_ONES = (1,) * LANES
_ZEROS = (0,) * LANES


@dataclass(frozen=True, slots=True)
class _Unknown:
    bits: int
    range: Range


class Integers:
    """Normal forms under what is known of unknowns: 16-bit and 32-bit terms without sign."""

    def __init__(
        self, terms: Terms, ranges: Mapping[Term, Range], even: Iterable[Term] = (), false: Iterable[Term] = ()
    ) -> None:
        self._terms = terms
        self._ranges = ranges
        self._even = frozenset(even)
        self._false = frozenset(false)
        self._unknowns: dict[Term, _Unknown] = {}
        self._sums: dict[tuple[Term, int], Sum] = {}
        self._normal: dict[Term, Term] = {}

    def assuming(self, false: Iterable[Term]) -> Integers:
        """The same where these conditions, in normal form, are false as well."""
        return Integers(self._terms, self._ranges, self._even, self._false | frozenset(false))

    # ------------------------------------------------------------------------------------------------- normal forms

    def number(self, term: Term, bits: int) -> Term:
        """Normal form of an integer term."""
        return self._term(self._congruent(term, bits), bits)

    def condition(self, term: Term) -> Term:
        """Normal form of a predicate."""
        if term not in self._normal:
            self._normal[term] = self._condition(term)
        return self._normal[term]

    def _condition(self, term: Term) -> Term:
        terms = self._terms
        operation, *operands = terms.table[term]
        match operation:
            case "not":
                return terms.negation(self.condition(_term(operands[0])))
            case "any":
                return terms.disjunction(self.condition(_term(o)) for o in operands)
            case "<":
                kind, bits, a, b = operands
                return self._less(kind == "signed", int(str(bits)), _term(a), _term(b))
            case "==":
                a, b, bits = operands
                left, right = (self.number(_term(o), int(str(bits))) for o in (a, b))
                return terms.compare("eq", f"u{bits}", left, right, int(str(bits)))
        return term

    def _less(self, signed: bool, bits: int, a: Term, b: Term) -> Term:
        terms = self._terms
        c = terms.uniform(a)
        if signed and c is not None and c != (1 << bits - 1) - 1 and terms.lanes(b) is None:
            return terms.negation(self._less(True, bits, b, terms.constant(c + 1, bits)))  # c < b is not b < c + 1
        if signed and terms.uniform(b) == 0 and terms.operation(a) == f"or.{bits}":
            return terms.disjunction(self._less(True, bits, part, b) for part in terms.children(a))
        left, right = (self._value(t, bits) for t in (a, b))
        if left is None or right is None:
            kind = f"{'s' if signed else 'u'}{bits}"
            return terms.compare("lt", kind, self.number(a, bits), self.number(b, bits), bits)
        if not signed:
            return self._less_unsigned(bits, a, b, left, right)
        found = self._negative(_plus(left, right, -1), bits)
        if found is not None:
            return found
        return terms.compare("lt", f"s{bits}", self._term(left, bits), self._term(right, bits), bits)

    def _less_unsigned(self, bits: int, a: Term, b: Term, left: Sum, right: Sum) -> Term:
        """a <u b is 0 <= a and a < b where b is not negative."""
        terms = self._terms
        if not self._is_natural(right, bits):
            return terms.compare("lt", f"u{bits}", self._term(left, bits), self._term(right, bits), bits)
        below = self._less(True, bits, a, b)
        if self._is_natural(left, bits):
            return below
        return terms.conjunction((terms.negation(self._less(True, bits, a, terms.constant(0, bits))), below))

    def _negative(self, difference: Sum, bits: int) -> Term | None:
        """difference < 0, None where it may not fit."""
        low, high = self._range(difference)
        if low >= 0 or high < 0:
            return self._terms.truth((high < 0,) * LANES)
        if not _fits(low, high, bits):
            return None
        return self._terms.compare("lt", f"s{bits}", self._term(difference, bits), self._terms.constant(0, bits), bits)

    def _is_natural(self, value: Sum, bits: int) -> bool:
        if self._range(value)[0] >= 0:
            return True
        negative = self._negative(value, bits)
        return negative is not None and (negative in self._false or self._is_above_another(value, bits))

    def _is_above_another(self, value: Sum, bits: int) -> bool:
        """Is it at least as large as a number that is not negative by assumption."""
        for condition in self._false:
            content = self._terms.table[condition]
            if content[:3] == ("<", "signed", bits) and self._terms.uniform(_term(content[4])) == 0:
                other = self._value(_term(content[3]), bits)
                if other is not None and self._range(_plus(value, other, -1))[0] >= 0:
                    return True
        return False

    def _term(self, value: Sum, bits: int) -> Term:
        """A sum as a term of `bits` bits."""
        total = self._terms.constant(0, bits)
        for monomial, lanes in value.items():
            product = self._terms.known(lanes, bits)
            for factor in monomial:
                product = self._terms.multiply(product, self._held(factor, bits), bits)
            total = self._terms.add(total, product, bits)
        return total

    def _held(self, unknown: Term, bits: int) -> Term:
        held = self._unknowns[unknown]
        return self._terms.resized(unknown, held.bits, bits, held.range[0] < 0)

    # ------------------------------------------------------------------------------------------------- values

    def _value(self, term: Term, bits: int) -> Sum | None:
        """The signed number that a term is, None where its sum may leave the range of its bits."""
        found = self._congruent(term, bits)
        return found if _fits(*self._range(found), bits) else None

    def _natural(self, term: Term, bits: int) -> Sum | None:
        """The number that a term is, where it is not negative."""
        found = self._value(term, bits)
        return found if found is not None and self._is_natural(found, bits) else None

    def _congruent(self, term: Term, bits: int) -> Sum:
        """A sum that is the term modulo 2**bits."""
        key = (term, bits)
        if key not in self._sums:
            found = self._read(term, bits)
            self._sums[key] = found if found is not None else self._opaque(term, bits)
        return self._sums[key]

    def _read(self, term: Term, bits: int) -> Sum | None:
        terms = self._terms
        operation, *operands = terms.table[term]
        match operation:
            case "poly":
                return self._added(term, bits)
            case "sext" if operands[1] == bits:
                return self._value(_term(operands[2]), int(str(operands[0])))
            case "zext" if operands[1] == bits:
                return self._natural(_term(operands[2]), int(str(operands[0])))
            case "pair" if bits == 32 and terms.uniform(_term(operands[1])) == 0:
                return self._short(_term(operands[0]))
            case "select":
                return self._choice(term, bits)
            case "shr.s16" | "shr.s32" | "shr.s64" | "shr.u16" | "shr.u32" | "shr.u64" if operation[5:] == str(bits):
                return self._shifted(term, bits, operation[4] == "s")
            case "and.16" | "and.32" | "and.64" if operation[4:] == str(bits):
                return self._masked(term, bits)
        return None

    def _added(self, term: Term, bits: int) -> Sum:
        total: Sum = {}
        for monomial, lanes in self._terms.poly(term).items():
            product: Sum = {(): tuple(_signed(c, bits) for c in lanes)}
            for factor in monomial:
                product = _times(product, self._congruent(factor, bits))
            total = _plus(total, product)
        return total

    def _short(self, low: Term) -> Sum | None:
        """16 bits without sign in a word."""
        if low in self._ranges:
            return self._known(self._terms.pair(low, self._terms.constant(0, 16)), low, 32)
        return self._natural(low, 16)

    def _choice(self, term: Term, bits: int) -> Sum:
        terms = self._terms
        yes, no, condition = (_term(o) for o in terms.table[term][1:])
        condition = self.condition(condition)
        if self._is_false(condition):
            return self._congruent(no, bits)
        if self._is_false(terms.negation(condition)):
            return self._congruent(yes, bits)
        sides = [self._congruent(side, bits) for side in (yes, no)]
        spans = [self._range(side) for side in sides]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        chosen = terms.select(self._term(sides[0], bits), self._term(sides[1], bits), condition)
        if terms.operation(chosen) != "select":
            return sides[0] if chosen == self._term(sides[0], bits) else sides[1]
        return self._opaque(chosen, bits, (low, high) if _fits(low, high, bits) else None)

    def _is_false(self, condition: Term) -> bool:
        """Is a condition in normal form false by itself or by what is assumed."""
        parts = self._terms.children(condition) if self._terms.operation(condition) == "any" else [condition]
        return all(part in self._false or self._terms.uniform(part) == 0 for part in parts)

    def _shifted(self, term: Term, bits: int, signed: bool) -> Sum | None:
        inner, count = (_term(o) for o in self._terms.table[term][1:])
        k = self._terms.uniform(count)
        value = self._value(inner, bits) if signed else self._natural(inner, bits)
        return None if k is None or value is None or k >= bits else self._quotient(value, k, bits)

    def _masked(self, term: Term, bits: int) -> Sum | None:
        """v & (2^b - 2^a) is 2^a floor(v / 2^a) - 2^b floor(v / 2^b); the second is not there for the highest bit."""
        a, b = (_term(o) for o in self._terms.table[term][1:])
        mask, inner = (self._terms.uniform(a), b) if self._terms.uniform(a) is not None else (self._terms.uniform(b), a)
        value = self._value(inner, bits)
        if not mask or value is None:
            return None
        first, end = (mask & -mask).bit_length() - 1, mask.bit_length()
        if mask != (1 << end) - (1 << first):
            return None
        upper = {} if end == bits else self._multiple(value, end, bits)
        return _plus(self._multiple(value, first, bits), upper, -1)

    def _multiple(self, value: Sum, k: int, bits: int) -> Sum:
        """2^k floor(value / 2^k)."""
        return {m: tuple(x << k for x in c) for m, c in self._quotient(value, k, bits).items()}

    def _quotient(self, value: Sum, k: int, bits: int) -> Sum:
        """floor(value / 2^k); that of 2^k a + b is a where 0 <= b < 2^k."""
        terms = self._terms
        whole = {m: c for m, c in value.items() if not any(x % (1 << k) for x in c)}
        low, high = self._range({m: c for m, c in value.items() if m not in whole})
        if low >= 0 and high < 1 << k:
            return {m: tuple(x >> k for x in c) for m, c in whole.items()}
        low, high = self._range(value)
        moved = terms.shifted("shr", self._term(value, bits), terms.constant(k, 32), bits, low < 0)
        return self._opaque(moved, bits, (low >> k, high >> k))

    def _opaque(self, term: Term, bits: int, span: Range | None = None) -> Sum:
        if term in self._ranges:
            return self._known(term, term, bits) if bits != 16 else self._short(term) or {}
        if span is None:
            span = -(1 << bits - 1), (1 << bits - 1) - 1
        self._unknowns[term] = _Unknown(bits, span)
        return {(term,): _ONES}

    def _known(self, held: Term, named: Term, bits: int) -> Sum:
        """An unknown with a range; an even one is twice its half."""
        low, high = self._ranges[named]
        if named not in self._even:
            self._unknowns[held] = _Unknown(bits, (low, high))
            return {(held,): _ONES}
        half = self._terms.shifted("shr", held, self._terms.constant(1, 32), bits, False)
        self._unknowns[half] = _Unknown(bits, (low >> 1, high >> 1))
        return {(half,): (2,) * LANES}

    def _range(self, value: Sum) -> Range:
        lows, highs = [0] * LANES, [0] * LANES
        for monomial, lanes in value.items():
            low, high = 1, 1
            for factor in monomial:
                a, b = self._unknowns[factor].range
                corners = (low * a, low * b, high * a, high * b)
                low, high = min(corners), max(corners)
            for lane, c in enumerate(lanes):
                lows[lane] += min(c * low, c * high)
                highs[lane] += max(c * low, c * high)
        return min(lows), max(highs)


def _plus(a: Sum, b: Sum, sign: int = 1) -> Sum:
    total = dict(a)
    for monomial, lanes in b.items():
        old = total.get(monomial, _ZEROS)
        total[monomial] = tuple(x + sign * y for x, y in zip(old, lanes, strict=True))
    return {m: c for m, c in total.items() if any(c)}


def _times(a: Sum, b: Sum) -> Sum:
    total: Sum = {}
    for left, x in a.items():
        for right, y in b.items():
            product = {tuple(sorted((*left, *right))): tuple(p * q for p, q in zip(x, y, strict=True))}
            total = _plus(total, product)
    return total


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def _fits(low: int, high: int, bits: int) -> bool:
    return -(1 << bits - 1) <= low and high < 1 << bits - 1


def _term(value: object) -> Term:
    assert isinstance(value, Term)
    return value
