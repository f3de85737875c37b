"""Normal forms keep the meaning: random expressions, built as terms and computed as numbers, agree in every lane."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.term_values import Lanes, value
from zluda_rr.analysis import Term, Terms, shuffle_sources

MASK = 2**32 - 1
EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFF7FFF, 0x80008000, 0xFFFF0000, MASK)


def signed(v: int, bits: int) -> int:
    return v - (1 << bits) if v >> bits - 1 else v


class Expression:
    """A term with its value, both built by the same random choices; widths 1, 16, 32."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.terms = Terms()
        self.leaves: dict[Term, Lanes] = {}

    def leaf(self, bits: int) -> tuple[Term, Lanes]:
        if bits == 1 or self.rng.random() < 0.4:
            lanes = (
                [self.rng.choice(EDGES) for _ in range(32)]
                if self.rng.random() < 0.5
                else [self.rng.choice(EDGES)] * 32
            )
            lanes = [v & (1 << bits) - 1 for v in lanes]
            return self.terms.known(lanes, bits), lanes
        name = self.rng.randrange(3)
        term = self.terms.make("leaf", name, bits)
        if term not in self.leaves:
            self.leaves[term] = [self.rng.getrandbits(bits) for _ in range(32)]
        return term, self.leaves[term]

    def build(self, depth: int, bits: int = 32) -> tuple[Term, Lanes]:
        if depth == 0:
            return self.leaf(bits)
        choices = {1: self.predicate, 16: self.half, 32: self.word}
        return choices[bits](depth - 1)

    def word(self, depth: int) -> tuple[Term, Lanes]:
        t, rng = self.terms, self.rng
        kind = rng.choice(
            ["add", "sub", "mul", "and", "or", "xor", "shl", "shr", "sar", "pair", "zext", "sext", "select", "gather"]
        )
        if kind == "pair":
            (a, x), (b, y) = self.build(depth, 16), self.build(depth, 16)
            return t.pair(a, b), [p | q << 16 for p, q in zip(x, y, strict=True)]
        if kind in ("zext", "sext"):
            a, x = self.build(depth, 16)
            grown = [signed(v, 16) & MASK for v in x] if kind == "sext" else x
            return t.resized(a, 16, 32, kind == "sext"), grown
        a, x = self.build(depth)
        if kind == "gather":
            mode = rng.choice(["up", "down", "bfly", "idx"])
            sources = shuffle_sources(mode, (rng.randrange(32),) * 32, rng.choice([31, 0, 0x1C1F]))
            return t.gathered(sources, a), [x[s] for s in sources]
        if kind == "select":
            (b, y), (p, z) = self.build(depth), self.build(depth, 1)
            return t.select(a, b, p), [u if w else v for u, v, w in zip(x, y, z, strict=True)]
        if kind in ("shl", "shr", "sar"):
            n = rng.choice([0, 1, 2, 5, 15, 16, 17, 31])
            opcode = "shl" if kind == "shl" else "shr"
            term = t.shifted(opcode, a, t.constant(n, 32), 32, kind == "sar")
            moved = [v << n if kind == "shl" else (signed(v, 32) if kind == "sar" else v) >> n for v in x]
            return term, [v & MASK for v in moved]
        b, y = self.build(depth)
        rows = list(zip(x, y, strict=True))
        if kind in ("add", "sub"):
            sign = 1 if kind == "add" else -1
            return t.add(a, b, 32, sign), [(u + sign * v) & MASK for u, v in rows]
        if kind == "mul":
            return t.multiply(a, b, 32), [u * v & MASK for u, v in rows]
        return t.bitwise(kind, a, b, 32), [{"and": u & v, "or": u | v, "xor": u ^ v}[kind] for u, v in rows]

    def half(self, depth: int) -> tuple[Term, Lanes]:
        t, rng = self.terms, self.rng
        kind = rng.choice(["half", "low", "neg", "abs", "and", "xor", "select"])
        if kind in ("half", "low"):
            a, x = self.build(depth)
            index = rng.randrange(2) if kind == "half" else 0
            term = t.half(a, index) if kind == "half" else t.resized(a, 32, 16, False)
            return term, [v >> 16 * index & 0xFFFF for v in x]
        a, x = self.build(depth, 16)
        if kind == "neg":
            return t.negative(a), [v ^ 0x8000 for v in x]
        if kind == "abs":
            return t.magnitude(a), [v & 0x7FFF for v in x]
        b, y = self.build(depth, 16)
        if kind == "select":
            p, z = self.build(depth, 1)
            return t.select(a, b, p), [u if w else v for u, v, w in zip(x, y, z, strict=True)]
        rows = zip(x, y, strict=True)
        return t.bitwise(kind, a, b, 16), [u & v if kind == "and" else u ^ v for u, v in rows]

    def predicate(self, depth: int) -> tuple[Term, Lanes]:
        t, rng = self.terms, self.rng
        kind = rng.choice(["lt", "le", "gt", "ge", "eq", "ne", "not", "any", "all"])
        if kind in ("not", "any", "all"):
            (a, x), (b, y) = self.build(depth, 1), self.build(depth, 1)
            if kind == "not":
                return t.negation(a), [1 - v for v in x]
            rows = zip(x, y, strict=True)
            joined = t.disjunction((a, b)) if kind == "any" else t.conjunction((a, b))
            return joined, [u | v if kind == "any" else u & v for u, v in rows]
        (a, x), (b, y) = self.build(depth), self.build(depth)
        sign = rng.choice("us")
        if sign == "s":
            x, y = ([signed(v, 32) for v in lanes] for lanes in (x, y))
        compared = {
            "lt": int.__lt__,
            "le": int.__le__,
            "gt": int.__gt__,
            "ge": int.__ge__,
            "eq": int.__eq__,
            "ne": int.__ne__,
        }[kind]
        return t.compare(kind, f"{sign}32", a, b, 32), [int(compared(u, v)) for u, v in zip(x, y, strict=True)]


@given(st.integers(0, 2**63), st.integers(1, 4), st.sampled_from([1, 16, 32]))
@settings(max_examples=400, deadline=None)
def test_terms_mean_what_they_were_built_from(seed: int, depth: int, bits: int) -> None:
    expression = Expression(random.Random(seed))
    term, expected = expression.build(depth, bits)
    assert value(expression.terms, term, expression.leaves, bits) == expected


@pytest.mark.soak
@pytest.mark.parametrize("start", range(20))
def test_many_terms(start: int) -> None:
    for seed in range(5000 * start, 5000 * (start + 1)):
        rng = random.Random(seed)
        expression = Expression(rng)
        bits = rng.choice([1, 16, 32])
        term, expected = expression.build(rng.randrange(1, 6), bits)
        assert value(expression.terms, term, expression.leaves, bits) == expected, seed


@given(st.integers(0, 2**63), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_possible_bits_are_an_upper_bound(seed: int, depth: int) -> None:
    expression = Expression(random.Random(seed))
    term, expected = expression.build(depth, 32)
    possible = expression.terms.possible(term, 32)
    assert not any(v & ~possible for v in expected)


def test_equal_meaning_gives_one_term() -> None:
    """Spellings of a pack, an unpack, a sign and a guard."""
    t = Terms()
    a, b = t.make("leaf", 0, 16), t.make("leaf", 1, 16)
    word = t.pair(a, b)
    shifted = t.shifted("shl", t.resized(b, 16, 32, False), t.constant(16, 32), 32, False)
    assert t.bitwise("or", shifted, t.resized(a, 16, 32, False), 32) == word
    assert t.add(shifted, t.resized(a, 16, 32, False), 32) == word
    assert t.half(t.shifted("shr", word, t.constant(16, 32), 32, False), 0) == b
    assert t.bitwise("and", word, t.constant(0xFFFF, 32), 32) == t.resized(a, 16, 32, False)
    assert t.bitwise("xor", word, t.constant(0x80008000, 32), 32) == t.pair(t.negative(a), t.negative(b))
    x = t.make("leaf", 2, 32)
    p = t.compare("lt", "s32", x, t.constant(0, 32), 32)
    flag = t.shifted("shr", x, t.constant(31, 32), 32, False)
    assert t.compare("ne", "s32", flag, t.constant(0, 32), 32) == p
    assert t.half_operation("sub", "sub", (a, b)) == t.half_operation("add", "add", (t.negative(b), a))
    assert t.half_operation("fma", "fma", (a, b, t.constant(0x8000, 16))) == t.half_operation("mul", "mul", (b, a))
    assert t.half_operation("fma", "fma", (a, b, t.constant(0, 16))) != t.half_operation("mul", "mul", (b, a))
