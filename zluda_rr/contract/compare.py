"""Where two terms differ first, and terms as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zluda_rr.analysis import Term, Terms, lanes_text

_DEEPEST = 3
_COMMUTATIVE = ("add", "mul", "min", "max", "any", "==", "and", "or", "xor")


@dataclass(frozen=True, slots=True)
class TermDifference:
    """The smallest subterms that differ, as text; `found` and its statement, 0 where none computes it."""

    expected: str
    found: str
    statement: int

    def __str__(self) -> str:
        place = f" (s{self.statement})" if self.statement else ""
        return f"expected {self.expected}, found {self.found}{place}"


def smallest_difference(terms: Terms, expected: Term, found: Term) -> tuple[Term, Term]:
    """The deepest pair of subterms, one below each, in which alone the two differ."""
    while True:
        deeper = _descend(terms, expected, found)
        if deeper is None:
            return expected, found
        expected, found = deeper


def _descend(terms: Terms, expected: Term, found: Term) -> tuple[Term, Term] | None:
    a, b = terms.table[expected], terms.table[found]
    if a[0] == b[0] == "poly":
        return _descend_sum(terms, expected, found)
    if a[0] != b[0] or len(a) != len(b):
        return None
    if any(x != y and not (isinstance(x, Term) and isinstance(y, Term)) for x, y in zip(a, b, strict=True)):
        return None
    ours, theirs = terms.children(expected), terms.children(found)
    if str(a[0]).split(".")[0] in _COMMUTATIVE:
        first, second = _only(ours, theirs), _only(theirs, ours)
        if len(first) == len(second) == 1:
            return first[0], second[0]
        pairs = [(x, y) for x in first for y in second if terms.operation(x) == terms.operation(y)]
        return pairs[0] if pairs else None
    differing = [(x, y) for x, y in zip(ours, theirs, strict=True) if x != y]
    return differing[0] if differing else None


def _descend_sum(terms: Terms, expected: Term, found: Term) -> tuple[Term, Term] | None:
    """Sums of the same numbers times unknowns, one of which differs."""
    ours, theirs = terms.poly(expected), terms.poly(found)
    first = [(m, c) for m, c in ours.items() if theirs.get(m) != c]
    second = [(m, c) for m, c in theirs.items() if ours.get(m) != c]
    if len(first) != 1 or len(second) != 1 or first[0][1] != second[0][1]:
        return None
    factors = _only(first[0][0], second[0][0]), _only(second[0][0], first[0][0])
    return (factors[0][0], factors[1][0]) if len(factors[0]) == len(factors[1]) == 1 else None


def _only(these: Iterable[Term], those: Iterable[Term]) -> list[Term]:
    left = list(those)
    found = []
    for term in these:
        if term in left:
            left.remove(term)
        else:
            found.append(term)
    return found


def term_text(terms: Terms, term: Term, depth: int = _DEEPEST) -> str:
    """A term as nested text, cut at a depth: `add.f16(half 0 (D 2 0 0 1), W [37056+4*(lane&3)])`."""
    operation, *operands = terms.table[term]
    if operation == "poly":
        return _sum_text(terms, term, depth)
    if operation in ("W", "gather", "shared"):
        operands = [lanes_text(o) if isinstance(o, tuple) else o for o in operands]
    if operation in ("D", "partial D", "W", "param", "special", "unknown"):
        return " ".join([str(operation), *(str(o) for o in operands)])
    if depth == 0:
        return f"{operation}(…)"
    parts = [term_text(terms, o, depth - 1) if isinstance(o, Term) else str(o) for o in operands]
    return f"{operation}({', '.join(parts)})"


def _sum_text(terms: Terms, term: Term, depth: int) -> str:
    bits = terms.table[term][1]
    known = terms.uniform(term)
    if known is not None:
        return f"0x{known:x}"
    if depth == 0:
        return "(…)"
    parts = []
    for monomial, lanes in terms.poly(term).items():
        factor = f"0x{lanes[0]:x}" if len(set(lanes)) == 1 else lanes_text(lanes)
        names = [term_text(terms, m, depth - 1) for m in monomial]
        parts.append("*".join(names if factor == "0x1" and names else [factor, *names]))
    return f"{' + '.join(parts)}:{bits}"
