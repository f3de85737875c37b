"""Canonical terms: equal arithmetic gives an equal term, whatever registers, order and spelling compute it.

Terms are hash-consed: equal operation and operands give the same `Term`, so equality is comparison of numbers. Integer
values are polynomials over opaque terms with one coefficient per lane (modulo 2**bits), words of two halves are pairs,
exchanges between lanes with known sources are gathers, disjunctions are sets. Floating-point operations stay as they
are written, operation by operation: only their commutative operands are ordered, conversions and sign changes of
constants are carried out, and forms that are equal for every operand (`a - b` and `a + (-b)`) become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from . import choices
from .lanes import LANES

Lanes = tuple[int, ...]


class Term(int):
    """The number of a term in its `Terms`."""

    __slots__ = ()


Monomial = tuple[Term, ...]
Poly = dict[Monomial, Lanes]
_ALL = (1,) * LANES
_NONE = (0,) * LANES
_SIGN = 0x8000


class Terms:
    """Every term by its number: (operation, operands...). Operands are terms, numbers, names or lanes."""

    def __init__(self) -> None:
        self.table: list[tuple[object, ...]] = []
        self._numbers: dict[tuple[object, ...], Term] = {}
        self._bits: dict[Term, int] = {}

    def make(self, operation: str, *operands: object) -> Term:
        """The term of an operation that has no rule of its own."""
        content = (operation, *operands)
        found = self._numbers.get(content)
        if found is None:
            found = self._numbers[content] = Term(len(self.table))
            self.table.append(content)
        return found

    def operation(self, term: Term) -> str:
        """Its operation."""
        return str(self.table[term][0])

    def children(self, term: Term) -> list[Term]:
        """Operands that are terms; of a polynomial its unknowns."""
        content = self.table[term]
        if content[0] == "poly":
            return [t for monomial in self.poly(term) for t in monomial]
        return [t for t in content[1:] if isinstance(t, Term)]

    def commutative(self, operation: str, operands: Iterable[Term], *rest: object) -> Term:
        """An operation whose operands may be exchanged."""
        return self.make(operation, *sorted(operands), *rest)

    # ------------------------------------------------------------------------------------------------- integers

    def known(self, lanes: Iterable[int], bits: int) -> Term:
        """One number per lane."""
        mask = (1 << bits) - 1
        values = tuple(v & mask for v in lanes)
        return self.make("poly", bits, (((), values),) if any(values) else ())

    def constant(self, value: int, bits: int) -> Term:
        """The same number in all lanes."""
        return self.known((value,) * LANES, bits)

    def lanes(self, term: Term) -> Lanes | None:
        """The numbers of a known term, None for any other."""
        content = self.table[term]
        if content[0] != "poly":
            return None
        parts = content[2]
        assert isinstance(parts, tuple)
        if not parts:
            return _NONE
        return parts[0][1] if len(parts) == 1 and parts[0][0] == () else None

    def uniform(self, term: Term) -> int | None:
        """The number that a known term is in all lanes."""
        lanes = self.lanes(term)
        return lanes[0] if lanes is not None and lanes.count(lanes[0]) == LANES else None

    def poly(self, term: Term) -> Poly:
        """A term as a polynomial: anything opaque is its own unknown."""
        content = self.table[term]
        if content[0] != "poly":
            return {(term,): _ALL}
        parts = content[2]
        assert isinstance(parts, tuple)
        return dict(parts)

    def _poly(self, parts: Mapping[Monomial, Lanes], bits: int) -> Term:
        mask = (1 << bits) - 1
        masked = {m: tuple(c & mask for c in lanes) for m, lanes in parts.items()}
        kept = tuple(sorted((m, lanes) for m, lanes in masked.items() if any(lanes)))
        if len(kept) == 1 and len(kept[0][0]) == 1:
            if kept[0][1] == _ALL:
                return kept[0][0][0]
            if bits == 32 and kept[0][1] == (1 << 16,) * LANES:
                return self.pair(self.constant(0, 16), self.half(kept[0][0][0], 0))
        if bits == 32 and len(kept) == 2 and all(lanes == _ALL and len(m) == 1 for m, lanes in kept):
            joined = self._joined(kept[0][0][0], kept[1][0][0])
            if joined is not None:
                return joined
        return self.make("poly", bits, kept)

    def _joined(self, a: Term, b: Term) -> Term | None:
        """A sum of a word without a high half and one without a low half."""
        first, second = self.table[a], self.table[b]
        if first[0] != "pair" or second[0] != "pair":
            return None
        zero = self.constant(0, 16)
        for low, high in ((first, second), (second, first)):
            if low[2] == zero and high[1] == zero:
                return self.pair(_term(low[1]), _term(high[2]))
        return None

    def add(self, a: Term, b: Term, bits: int, sign: int = 1) -> Term:
        """a + sign * b."""
        parts = dict(self.poly(a))
        for monomial, lanes in self.poly(b).items():
            old = parts.get(monomial, _NONE)
            parts[monomial] = tuple(x + sign * y for x, y in zip(old, lanes, strict=True))
        return self._poly(parts, bits)

    def multiply(self, a: Term, b: Term, bits: int) -> Term:
        """a * b."""
        parts: Poly = {}
        for left, x in self.poly(a).items():
            for right, y in self.poly(b).items():
                monomial = tuple(sorted((*left, *right)))
                old = parts.get(monomial, _NONE)
                parts[monomial] = tuple(o + p * q for o, p, q in zip(old, x, y, strict=True))
        return self._poly(parts, bits)

    def resized(self, term: Term, source: int, target: int, signed: bool) -> Term:
        """Conversion between integer widths."""
        lanes = self.lanes(term)
        if lanes is not None:
            half, full = 1 << (source - 1), 1 << source
            return self.known((v - full if signed and v & half else v for v in lanes), target)
        if target == source:
            return term
        if (source, target) == (32, 16):
            return self.half(term, 0)
        if (source, target) == (16, 32) and not signed:
            return self.pair(term, self.constant(0, 16))
        if target < source:
            return self._poly(self.poly(term), target) if self.operation(term) == "poly" else self._low(term, target)
        return self.make("sext" if signed else "zext", source, target, term)

    def _low(self, term: Term, target: int) -> Term:
        """The low bits of an opaque term: what was widened to it, where that has as many."""
        content = self.table[term]
        if content[0] in ("sext", "zext") and content[1] == target:
            return _term(content[3])
        if content[0] == "wide" and target == 32:
            return _term(content[1])
        if content[0] == "param" and content[2] == 8 and target == 32:
            return self.make("param", content[1], 4)
        return self.make("low", target, term)

    def rebuilt(self, term: Term, replace: Callable[[Term], Term | None]) -> Term:
        """The term with parts of its sums, extensions and choices replaced, from the outside in."""
        found = replace(term)
        if found is not None:
            return self.rebuilt(found, replace)
        content = self.table[term]
        if content[0] == "poly" and content[2]:
            bits = int(str(content[1]))
            total = self.constant(0, bits)
            for monomial, lanes in self.poly(term).items():
                product = self.known(lanes, bits)
                for factor in monomial:
                    product = self.multiply(product, self.rebuilt(factor, replace), bits)
                total = self.add(total, product, bits)
            return total
        if content[0] in ("sext", "zext"):
            source, target, inner = content[1:]
            rebuilt = self.rebuilt(_term(inner), replace)
            return self.resized(rebuilt, int(str(source)), int(str(target)), content[0] == "sext")
        if content[0] == "select":
            yes, no = (self.rebuilt(_term(side), replace) for side in content[1:3])
            return self.select(yes, no, _term(content[3]))
        return term

    def pointwise(self, operation: Callable[..., int], terms: Iterable[Term], bits: int) -> Term | None:
        """`operation` lane by lane on known terms, None where one is not known."""
        columns = [self.lanes(term) for term in terms]
        if any(column is None for column in columns):
            return None
        rows = zip(*(column for column in columns if column is not None), strict=True)
        return self.known((operation(*row) for row in rows), bits)

    def disjoint_or(self, a: Term, b: Term, bits: int) -> Term | None:
        """a | b as a sum where no bit can be set in both."""
        return self.add(a, b, bits) if not self.possible(a, bits) & self.possible(b, bits) else None

    def possible(self, term: Term, bits: int) -> int:
        """Bits that may be 1, whatever the unknowns are."""
        found = self._bits.get(term)
        if found is None:
            found = self._bits[term] = self._possible(term)
        return found & (1 << bits) - 1

    def _possible(self, term: Term) -> int:
        content = self.table[term]
        match content[0]:
            case "poly":
                return self._possible_sum(term)
            case "pair":
                return self.possible(_term(content[1]), 16) | self.possible(_term(content[2]), 16) << 16
            case "half":
                return 0xFFFF
            case "zext":
                return self.possible(_term(content[3]), int(str(content[1])))
            case "select":
                return self.possible(_term(content[1]), 64) | self.possible(_term(content[2]), 64)
            case "and.16" | "and.32" | "and.64":
                return self.possible(_term(content[1]), 64) & self.possible(_term(content[2]), 64)
            case "param" if content[2] != 8:
                return (1 << 8 * int(str(content[2]))) - 1
        return (1 << 64) - 1

    def _possible_sum(self, term: Term) -> int:
        total = 0
        carries = False
        for monomial, lanes in self.poly(term).items():
            if monomial == ():
                part = 0
                for value in lanes:
                    part |= value
            elif len(monomial) == 1 and lanes.count(lanes[0]) == LANES and lanes[0].bit_count() == 1:
                part = self.possible(monomial[0], 64) << lanes[0].bit_length() - 1
            else:
                part = -(min(v & -v for v in lanes if v)) & (1 << 64) - 1
            carries |= bool(total & part)
            total |= part
        lowest = total & -total
        return -lowest & (1 << 64) - 1 if carries else total & (1 << 64) - 1

    # ------------------------------------------------------------------------------------------------- halves

    def pair(self, low: Term, high: Term) -> Term:
        """A 32-bit word of two 16-bit halves."""
        first, second = self.lanes(low), self.lanes(high)
        if first is not None and second is not None:
            return self.known((x & 0xFFFF | y << 16 for x, y in zip(first, second, strict=True)), 32)
        a, b = self.table[low], self.table[high]
        if a[0] == b[0] == "half" and (a[1], b[1]) == (0, 1) and a[2] == b[2]:
            return _term(a[2])
        if a[0] == b[0] == "param" and a[2] == b[2] == 2 and b[1] == int(str(a[1])) + 2:
            return self.make("param", a[1], 4)
        return self.make("pair", low, high)

    def half(self, word: Term, index: int) -> Term:
        """Half 0 (low) or 1 of a 32-bit word."""
        content = self.table[word]
        if content[0] == "pair":
            return _term(content[1 + index])
        if content[0] == "select":
            yes, no = (self.half(_term(side), index) for side in content[1:3])
            return self.select(yes, no, _term(content[3]))
        lanes = self.lanes(word)
        if lanes is not None:
            return self.known((v >> 16 * index for v in lanes), 16)
        if content[0] == "param" and content[2] == 4:
            return self.make("param", int(str(content[1])) + 2 * index, 2)
        return self.make("half", index, word)

    def bitwise(self, operation: str, a: Term, b: Term, bits: int) -> Term:
        """and, or, xor: what masks, joins and flips halves and signs is named so; the rest stays opaque."""
        known = self.pointwise(BITWISE[operation], (a, b), bits)
        if known is not None:
            return known
        if a == b:
            return a if operation in ("and", "or") else self.constant(0, bits)
        if operation in ("or", "xor"):
            total = self.disjoint_or(a, b, bits)
            if total is not None:
                return total
        for value, mask in ((a, self.uniform(b)), (b, self.uniform(a))):
            found = self._masked(operation, value, mask, bits) if mask is not None else None
            if found is not None:
                return found
        flags = self._flags(operation, a, b, bits)
        return self.commutative(f"{operation}.{bits}", (a, b)) if flags is None else flags

    def _masked(self, operation: str, value: Term, mask: int, bits: int) -> Term | None:
        if operation == "and" and mask & (1 << bits) - 1 == 0:
            return self.constant(0, bits)
        if operation == "and" and not self.possible(value, bits) & ~mask:
            return value
        if bits == 16:
            if (operation, mask) == ("and", 0x7FFF):
                return self.magnitude(value)
            return self.negative(value) if (operation, mask) == ("xor", _SIGN) else None
        halves = (mask & 0xFFFF, mask >> 16)
        if bits == 32 and operation == "and" and all(h in (0, 0xFFFF, 0x7FFF) for h in halves):
            return self.pair(*(self.bitwise("and", self.half(value, i), self.constant(h, 16), 16)
                               for i, h in enumerate(halves)))  # fmt: skip
        if bits == 32 and operation == "xor" and all(h in (0, _SIGN) for h in halves):
            return self.pair(*(self.bitwise("xor", self.half(value, i), self.constant(h, 16), 16)
                               for i, h in enumerate(halves)))  # fmt: skip
        return None

    def _flags(self, operation: str, a: Term, b: Term, bits: int) -> Term | None:
        """Conditions kept as numbers: (p ? k : 0) | (q ? k : 0)."""
        first, second = self.table[a], self.table[b]
        zero = self.constant(0, bits)
        if first[0] != "select" or second[0] != "select" or first[1:3] != second[1:3] or zero not in first[1:3]:
            return None
        if self.uniform(_term(first[1])) is None or self.uniform(_term(first[2])) is None or operation == "xor":
            return None
        conditions = (_term(first[3]), _term(second[3]))
        both = (operation == "and") == (first[2] == zero)
        joined = self.conjunction(conditions) if both else self.disjunction(conditions)
        return self.select(_term(first[1]), _term(first[2]), joined)

    def shifted(self, opcode: str, value: Term, count: Term, bits: int, signed: bool) -> Term:
        """shl, shr."""
        amount = self.uniform(count)
        if opcode == "shl" and amount is not None and amount < bits:
            return self.multiply(value, self.constant(1 << amount, bits), bits)
        full = (1 << bits) - 1

        def shift(x: int, n: int) -> int:
            wide = x - full - 1 if signed and x >> (bits - 1) else x
            return x << min(n, bits) if opcode == "shl" else wide >> min(n, bits)

        known = self.pointwise(shift, (value, count), bits)
        if known is not None:
            return known
        if opcode == "shr" and (bits, amount, signed) == (32, 16, False):
            return self.pair(self.half(value, 1), self.constant(0, 16))
        if opcode == "shr" and amount == bits - 1:
            sign = self.compare("lt", f"s{bits}", value, self.constant(0, bits), bits)
            return self.select(self.constant(-1 if signed else 1, bits), self.constant(0, bits), sign)
        if opcode == "shr" and signed and amount is not None and not self.possible(value, bits) >> (bits - 1):
            signed = False
        return self.make(f"{opcode}.{'s' if signed else 'u'}{bits}", value, count)

    # ------------------------------------------------------------------------------------------------- f16

    def negative(self, value: Term) -> Term:
        """-x of a half: its sign bit changed."""
        lanes = self.lanes(value)
        if lanes is not None:
            return self.known((v ^ _SIGN for v in lanes), 16)
        content = self.table[value]
        return _term(content[1]) if content[0] == "neg.f16" else self.make("neg.f16", value)

    def magnitude(self, value: Term) -> Term:
        """|x| of a half: its sign bit cleared."""
        lanes = self.lanes(value)
        if lanes is not None:
            return self.known((v & 0x7FFF for v in lanes), 16)
        content = self.table[value]
        if content[0] == "abs.f16":
            return value
        return self.make("abs.f16", content[1] if content[0] == "neg.f16" else value)

    def half_operation(self, opcode: str, operation: str, sources: Sequence[Term]) -> Term:
        """An operation on halves; `operation` is the opcode with what changes its meaning. `a - b` is `a + (-b)`, and
        `a*b + (-0)` is `a*b`, both for every operand (IEEE 754, round to nearest).
        """
        if operation in ("neg", "abs"):
            return self.negative(sources[0]) if opcode == "neg" else self.magnitude(sources[0])
        if opcode == "sub":
            return self.commutative(f"add{operation[3:]}.f16", (sources[0], self.negative(sources[1])))
        if opcode == "fma" and self.uniform(sources[2]) == _SIGN:
            return self.commutative(f"mul{operation[3:]}.f16", sources[:2])
        if opcode in COMMUTATIVE:
            return self.commutative(f"{operation}.f16", sources[:2], *sources[2:])
        return self.make(f"{operation}.f16", *sources)

    # ------------------------------------------------------------------------------------------------- lanes

    def gathered(self, sources: Lanes, value: Term) -> Term:
        """The value of lane `sources[l]` in lane l."""
        if sources == tuple(range(LANES)):
            return value
        lanes = self.lanes(value)
        if lanes is not None:
            return self.known((lanes[s] for s in sources), int(str(self.table[value][1])))
        content = self.table[value]
        if content[0] == "pair":
            return self.pair(*(self.gathered(sources, _term(part)) for part in content[1:]))
        if content[0] == "gather":
            inner = content[1]
            assert isinstance(inner, tuple)
            return self.gathered(tuple(inner[s] for s in sources), _term(content[2]))
        if content[0] == "select" and self.lanes(_term(content[3])) is not None:
            below = choices.rows(self, value)
            return choices.chosen(self, [below[s] for s in sources])
        return self.make("gather", sources, value)

    # ------------------------------------------------------------------------------------------------- predicates

    def truth(self, lanes: Iterable[bool]) -> Term:
        """A predicate known in every lane."""
        return self.known(map(int, lanes), 1)

    def negation(self, term: Term) -> Term:
        """not term."""
        lanes = self.lanes(term)
        if lanes is not None:
            return self.truth(not v for v in lanes)
        content = self.table[term]
        return _term(content[1]) if content[0] == "not" else self.make("not", term)

    def disjunction(self, terms: Iterable[Term]) -> Term:
        """Any of them: nested ones flattened, what is false left out."""
        found: set[Term] = set()
        for term in terms:
            content = self.table[term]
            found.update(map(_term, content[1:]) if content[0] == "any" else (term,))
        if any(self.uniform(term) == 1 for term in found):
            return self.truth((True,) * LANES)
        kept = sorted(term for term in found if self.uniform(term) != 0)
        if not kept:
            return self.truth((False,) * LANES)
        return kept[0] if len(kept) == 1 else self.make("any", *kept)

    def conjunction(self, terms: Iterable[Term]) -> Term:
        """All of them."""
        return self.negation(self.disjunction(map(self.negation, terms)))

    def select(self, yes: Term, no: Term, condition: Term) -> Term:
        """condition ? yes : no."""
        lanes = self.lanes(condition)
        if yes == no or (lanes is not None and len(set(lanes)) == 1):
            return yes if yes == no or (lanes is not None and lanes[0]) else no
        if lanes is not None:
            return choices.chosen(self, choices.selected(self, yes, no, lanes))
        if self.table[condition][0] == "not":
            return self.make("select", no, yes, self.negation(condition))
        return self.make("select", yes, no, condition)

    def compare(self, relation: str, kind: str, a: Term, b: Term, bits: int) -> Term:
        """An integer comparison, as `<` or `==`, negated where it takes that."""
        if relation in ("lo", "ls", "hi", "hs"):
            relation, kind = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[relation], f"u{bits}"
        if relation in ("ne", "ge", "le"):
            inverse = {"ne": "eq", "ge": "lt", "le": "gt"}[relation]
            return self.negation(self.compare(inverse, kind, a, b, bits))
        if relation == "gt":
            a, b = b, a
        first, second = self.lanes(a), self.lanes(b)
        signed = kind.startswith("s")
        if first is not None and second is not None:
            rows = zip(_values(first, bits, signed), _values(second, bits, signed), strict=True)
            return self.truth(x == y if relation == "eq" else x < y for x, y in rows)
        relation = "eq" if relation == "eq" else "lt"
        for chosen, other, left in ((a, second, True), (b, first, False)):
            content = self.table[chosen]
            if content[0] == "select" and other is not None:
                yes, no = (
                    self.compare(relation, kind, *((side, b) if left else (a, side)), bits)
                    for side in map(_term, content[1:3])
                )
                return self._chosen(_term(content[3]), yes, no)
        if relation == "eq":
            return self.commutative("==", (a, b), bits)
        return self.make("<", "signed" if signed else "unsigned", bits, a, b)

    def _chosen(self, condition: Term, yes: Term, no: Term) -> Term:
        """(condition and yes) or (not condition and no)."""
        if self.uniform(yes) == 1:
            return self.disjunction((condition, no))
        if self.uniform(no) == 1:
            return self.disjunction((self.negation(condition), yes))
        return self.disjunction((self.conjunction((condition, yes)), self.conjunction((self.negation(condition), no))))


def _term(value: object) -> Term:
    assert isinstance(value, Term)
    return value


def _values(lanes: Lanes, bits: int, signed: bool) -> Iterable[int]:
    half, full = 1 << (bits - 1), 1 << bits
    return (v - full if signed and v & half else v for v in lanes)


COMMUTATIVE = ("add", "mul", "min", "max", "fma")
BITWISE: dict[str, Callable[[int, int], int]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


def lanes_text(lanes: Lanes) -> str:
    """One number per lane, as a formula where it is a simple one."""
    patterns = {"lane": tuple(range(LANES)), "(lane&3)": tuple(i & 3 for i in range(LANES)),
                "(lane>>2)": tuple(i >> 2 for i in range(LANES))}  # fmt: skip
    for text, pattern in patterns.items():
        step = lanes[4] - lanes[0] if pattern[1] == 0 else lanes[1] - lanes[0]
        if lanes == tuple(lanes[0] + step * p for p in pattern):
            return f"[{lanes[0]}+{step}*{text}]"
    return "[" + " ".join(map(str, lanes)) + "]"
