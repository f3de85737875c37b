"""Canonical terms: equal arithmetic gives an equal term, whatever registers, order and spelling compute it.

A term is named by the digest of its operation and operands, so terms of different kernels compare by name. Integer
values are polynomials over opaque terms with one coefficient per lane (modulo 2**bits), packed halves are pairs,
disjunctions are sets. Floating-point operations stay as they are written, operation by operation: only their
commutative operands are ordered, and conversions and sign changes of constants are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from .lanes import LANES

Term = str
Lanes = tuple[int, ...]
Monomial = tuple[Term, ...]
Poly = dict[Monomial, Lanes]
_DIGEST = 12


class Terms:
    """Every term of a body by its name: (operation, operands...)."""

    def __init__(self) -> None:
        self.table: dict[Term, tuple[object, ...]] = {}

    def make(self, operation: str, *operands: object) -> Term:
        """The term of an operation that has no rule of its own."""
        content = (operation, *operands)
        name = blake2b(repr(content).encode(), digest_size=_DIGEST).hexdigest()
        self.table[name] = content
        return name

    def commutative(self, operation: str, operands: Iterable[Term], *rest: object) -> Term:
        """An operation whose operands may be exchanged."""
        return self.make(operation, *sorted(operands), *rest)

    # ------------------------------------------------------------------------------------------------- integers

    def known(self, lanes: Iterable[int], bits: int) -> Term:
        """One number per lane."""
        mask = (1 << bits) - 1
        return self._poly({(): tuple(v & mask for v in lanes)}, bits)

    def constant(self, value: int, bits: int) -> Term:
        """The same number in all lanes."""
        return self.known((value,) * LANES, bits)

    def lanes(self, term: Term) -> Lanes | None:
        """The numbers of a known term, None for any other."""
        content = self.table[term]
        if content[0] != "poly":
            return None
        parts = self.poly(term)
        return parts.get((), (0,) * LANES) if set(parts) <= {()} else None

    def uniform(self, term: Term) -> int | None:
        """The number that a known term is in all lanes."""
        lanes = self.lanes(term)
        return lanes[0] if lanes is not None and len(set(lanes)) == 1 else None

    def poly(self, term: Term) -> Poly:
        """A term as a polynomial: anything opaque is its own unknown."""
        content = self.table[term]
        if content[0] != "poly":
            return {(term,): (1,) * LANES}
        parts = content[2]
        assert isinstance(parts, tuple)
        return dict(parts)

    def _poly(self, parts: Mapping[Monomial, Lanes], bits: int) -> Term:
        mask = (1 << bits) - 1
        masked = {m: tuple(c & mask for c in lanes) for m, lanes in parts.items()}
        kept = tuple(sorted((m, lanes) for m, lanes in masked.items() if any(lanes)))
        if len(kept) == 1 and len(kept[0][0]) == 1 and set(kept[0][1]) == {1}:
            return kept[0][0][0]
        return self.make("poly", bits, kept)

    def add(self, a: Term, b: Term, bits: int, sign: int = 1) -> Term:
        """a + sign * b."""
        parts = dict(self.poly(a))
        for monomial, lanes in self.poly(b).items():
            old = parts.get(monomial, (0,) * LANES)
            parts[monomial] = tuple(x + sign * y for x, y in zip(old, lanes, strict=True))
        return self._poly(parts, bits)

    def multiply(self, a: Term, b: Term, bits: int) -> Term:
        """a * b."""
        parts: Poly = {}
        for left, x in self.poly(a).items():
            for right, y in self.poly(b).items():
                monomial = tuple(sorted((*left, *right)))
                old = parts.get(monomial, (0,) * LANES)
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
        if target < source:
            return (
                self._poly(self.poly(term), target) if self.table[term][0] == "poly" else self.make("low", target, term)
            )
        return self.make("sext" if signed else "zext", source, target, term)

    def pointwise(self, operation: Callable[..., int], terms: Iterable[Term], bits: int) -> Term | None:
        """`operation` lane by lane on known terms, None where one is not known."""
        columns = [self.lanes(term) for term in terms]
        if any(column is None for column in columns):
            return None
        rows = zip(*(column for column in columns if column is not None), strict=True)
        return self.known((operation(*row) for row in rows), bits)

    def disjoint_or(self, a: Term, b: Term, bits: int) -> Term | None:
        """a | b as a sum where a known side stays below every bit the other can have."""
        for known, other in ((a, b), (b, a)):
            lanes = self.lanes(known)
            if lanes is None:
                continue
            room = self.low_zero_bits(other, bits)
            if max(lanes) < 1 << room:
                return self.add(a, b, bits)
        return None

    def low_zero_bits(self, term: Term, bits: int) -> int:
        """How many low bits are 0 whatever the unknowns are."""
        values = [c for lanes in self.poly(term).values() for c in lanes]
        return next((i for i in range(bits) if any(v >> i & 1 for v in values)), bits)

    # ------------------------------------------------------------------------------------------------- halves

    def pair(self, low: Term, high: Term) -> Term:
        """A 32-bit word of two 16-bit halves."""
        first, second = self.lanes(low), self.lanes(high)
        if first is not None and second is not None:
            return self.known((x & 0xFFFF | y << 16 for x, y in zip(first, second, strict=True)), 32)
        a, b = self.table[low], self.table[high]
        if a[0] == b[0] == "half" and (a[1], b[1]) == (0, 1) and a[2] == b[2]:
            return str(a[2])
        return self.make("pair", low, high)

    def half(self, word: Term, index: int) -> Term:
        """Half 0 (low) or 1 of a 32-bit word."""
        content = self.table[word]
        if content[0] == "pair":
            return str(content[1 + index])
        lanes = self.lanes(word)
        if lanes is not None:
            return self.known((v >> 16 * index for v in lanes), 16)
        return self.make("half", index, word)

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
        return str(content[1]) if content[0] == "not" else self.make("not", term)

    def disjunction(self, terms: Iterable[Term]) -> Term:
        """Any of them: nested ones flattened, what is false left out."""
        found: set[Term] = set()
        for term in terms:
            content = self.table[term]
            found.update(map(str, content[1:]) if content[0] == "any" else (term,))
        if any(self.uniform(term) == 1 for term in found):
            return self.truth((True,) * LANES)
        kept = sorted(term for term in found if self.uniform(term) != 0)
        if not kept:
            return self.truth((False,) * LANES)
        return kept[0] if len(kept) == 1 else self.make("any", *kept)

    def select(self, yes: Term, no: Term, condition: Term) -> Term:
        """condition ? yes : no."""
        lanes = self.lanes(condition)
        if yes == no or (lanes is not None and len(set(lanes)) == 1):
            return yes if yes == no or (lanes is not None and lanes[0]) else no
        if self.table[condition][0] == "not" or (lanes is not None and not lanes[0]):
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
        if relation == "eq":
            return self.commutative("==", (a, b))
        return self.make("<", "signed" if signed else "unsigned", a, b)

    # ------------------------------------------------------------------------------------------------- reports

    def listing(self, roots: Mapping[str, Term]) -> list[str]:
        """Terms as text, one operation a line, shared ones once: `t3 = add.f16 t1 t2`."""
        names: dict[Term, str] = {}
        lines: list[str] = []
        for title, root in roots.items():
            lines.append(f"{title} = {self._listed(root, names, lines)}")
        return lines

    def _listed(self, term: Term, names: dict[Term, str], lines: list[str]) -> str:
        if term in names:
            return names[term]
        operation, *operands = self.table[term]
        if operation == "poly":
            text = self._poly_text(term, names, lines)
        else:
            parts = [self._listed(o, names, lines) if o in self.table else _short(o) for o in map(_hashable, operands)]
            text = " ".join([str(operation), *parts])
        if operation in ("D", "param", "special", "W") or (operation == "poly" and self.uniform(term) is not None):
            names[term] = text if operation == "poly" else f"({text})"
            return names[term]
        names[term] = f"t{sum(n.startswith('t') for n in names.values()) + 1}"
        lines.append(f"  {names[term]} = {text}")
        return names[term]

    def _poly_text(self, term: Term, names: dict[Term, str], lines: list[str]) -> str:
        bits = self.table[term][1]
        parts = []
        for monomial, lanes in self.poly(term).items():
            factor = f"0x{lanes[0]:x}" if len(set(lanes)) == 1 else _lanes_text(lanes)
            parts.append("*".join([factor, *(self._listed(m, names, lines) for m in monomial)]))
        return f"{' + '.join(parts) or '0'}:{bits}"


def _values(lanes: Lanes, bits: int, signed: bool) -> Iterable[int]:
    half, full = 1 << (bits - 1), 1 << bits
    return (v - full if signed and v & half else v for v in lanes)


def _hashable(value: object) -> Term:
    return value if isinstance(value, str) else repr(value)


def _short(text: str) -> str:
    if text.startswith("(") and text.count(",") == LANES - 1:
        return _lanes_text(tuple(int(v) for v in text.strip("()").split(",")))
    return text


def _lanes_text(lanes: Lanes) -> str:
    patterns = {"lane": tuple(range(LANES)), "(lane&3)": tuple(i & 3 for i in range(LANES)),
                "(lane>>2)": tuple(i >> 2 for i in range(LANES))}  # fmt: skip
    for text, pattern in patterns.items():
        step = lanes[4] - lanes[0] if pattern[1] == 0 else lanes[1] - lanes[0]
        if lanes == tuple(lanes[0] + step * p for p in pattern):
            return f"[{lanes[0]}+{step}*{text}]"
    return "[" + " ".join(map(str, lanes)) + "]"
