"""Numbers that do not wrap: a normal form is worth what its term is, and spellings of one number are one term."""

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from zluda_rr.analysis import Integers, Term, Terms

E, S, B = ("param", 0, 4), ("param", 80, 2), ("special", "%ctaid.x")
RANGES = {E: (2, 8192), S: (0, 6), B: (0, 1024)}
EVEN = (E, S)


def integers(terms: Terms) -> Integers:
    made = {terms.make(*name): span for name, span in RANGES.items()}
    return Integers(terms, made, [terms.make(*name) for name in EVEN])


def worth(terms: Terms, term: Term, bits: int, at: Mapping[Term, int], lane: int) -> int:
    """The bits of a term for one launch and lane, by the meaning of each operation alone."""
    mask = (1 << bits) - 1

    def signed(value: int, width: int) -> int:
        return value - (1 << width) if value >> width - 1 & 1 else value

    def get(part: object, width: int) -> int:
        assert isinstance(part, Term)
        return worth(terms, part, width, at, lane)

    operation, *rest = terms.table[term]
    name, _, kind = operation.partition(".") if isinstance(operation, str) else ("", "", "")
    match name:
        case "poly":
            total = 0
            for monomial, lanes in terms.poly(term).items():
                product = lanes[lane]
                for factor in monomial:
                    product *= get(factor, bits)
                total += product
            return total & mask
        case "pair":
            return get(rest[0], 16) | get(rest[1], 16) << 16
        case "half":
            return get(rest[1], 32) >> 16 * int(str(rest[0])) & 0xFFFF
        case "sext":
            return signed(get(rest[2], int(str(rest[0]))), int(str(rest[0]))) & mask
        case "zext":
            return get(rest[2], int(str(rest[0])))
        case "low":
            return get(rest[1], 64) & mask
        case "select":
            return get(rest[0] if get(rest[2], 1) else rest[1], bits)
        case "shr":
            inner, count = get(rest[0], bits), get(rest[1], 32)
            return (signed(inner, bits) if kind[0] == "s" else inner) >> count & mask
        case "and" | "or":
            a, b = (get(part, bits) for part in rest)
            return a & b if name == "and" else a | b
        case "not":
            return 1 - get(rest[0], 1)
        case "any":
            return int(any(get(part, 1) for part in rest))
        case "<":
            width = int(str(rest[1]))
            a, b = (get(part, width) for part in rest[2:])
            return int(signed(a, width) < signed(b, width) if rest[0] == "signed" else a < b)
        case "==":
            width = int(str(rest[2]))
            return int(get(rest[0], width) == get(rest[1], width))
    if name == "param" and rest[:2] != [80, 2] and rest[1] == 2:  # half of a parameter of four bytes
        at_word = int(str(rest[0])) & ~3
        return at[terms.make("param", at_word, 4)] >> 8 * (int(str(rest[0])) - at_word) & 0xFFFF
    return at[term]


def anything(terms: Terms, rng: random.Random, depth: int) -> Term:
    """A 32-bit term of index arithmetic."""
    if depth == 0:
        shift = terms.pair(terms.make(*S), terms.constant(0, 16))
        small = terms.known((rng.choice((0, 1, 7, -1, 8)) * (i >> 2 & 3) for i in range(32)), 32)
        leaves = (terms.make(*E), shift, terms.make(*B), small, terms.constant(rng.choice((1, 2, 8, -1, -2)), 32))
        return rng.choice(leaves)
    a, b = (anything(terms, rng, depth - 1) for _ in range(2))
    count = terms.constant(rng.choice((1, 1, 3, 31)), 32)
    match rng.randrange(7):
        case 0 | 1:
            return terms.add(a, b, 32, rng.choice((1, -1)))
        case 2:
            return terms.multiply(a, b, 32)
        case 3:
            return terms.shifted("shr", a, count, 32, rng.random() < 0.7)
        case 4:
            mask = rng.choice((1, 7, 0x1FFFFFFE, 0xFFFFFFFE, 0xFFFFFFF8, 5))
            return terms.bitwise("and", a, terms.constant(mask, 32), 32)
        case 5:
            return terms.select(a, b, comparison(terms, rng, depth - 1))
        case _:
            return terms.add(a, terms.multiply(b, terms.constant(8, 32), 32), 32)


def comparison(terms: Terms, rng: random.Random, depth: int) -> Term:
    a, b = (anything(terms, rng, depth) for _ in range(2))
    if rng.random() < 0.3:
        a, b = terms.bitwise("or", a, b, 32), terms.constant(0, 32)
    return terms.compare(rng.choice(("lt", "ge", "gt", "le", "eq")), rng.choice(("s32", "u32")), a, b, 32)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_normal_form_is_worth_what_its_term_is(seed: int) -> None:
    rng = random.Random(seed)
    terms = Terms()
    numbers = integers(terms)
    term = anything(terms, rng, rng.randrange(1, 4))
    wide = terms.resized(term, 32, 64, rng.random() < 0.5)
    condition = comparison(terms, rng, rng.randrange(3))
    pairs = [(term, numbers.number(term, 32), 32), (wide, numbers.number(wide, 64), 64)]
    pairs.append((condition, numbers.condition(condition), 1))
    for _ in range(8):
        at = {terms.make(*name): rng.choice((low, high, rng.randrange(low, high + 1) & ~1))
              for name, (low, high) in RANGES.items()}  # fmt: skip
        for before, after, bits in pairs:
            for lane in (0, 5, 31):
                assert worth(terms, before, bits, at, lane) == worth(terms, after, bits, at, lane)


def origin(terms: Terms) -> Term:
    shift = terms.pair(terms.make(*S), terms.constant(0, 16))
    return terms.add(terms.multiply(terms.make(*B), terms.constant(8, 32), 32), shift, 32, -1)


def test_halved_by_shift_by_division_and_before_the_difference() -> None:
    terms = Terms()
    numbers = integers(terms)
    one, x = terms.constant(1, 32), origin(terms)
    shifted = terms.shifted("shr", x, one, 32, True)
    sign = terms.shifted("shr", x, terms.constant(31, 32), 32, False)
    divided = terms.shifted("shr", terms.add(x, sign, 32), one, 32, True)
    half = terms.pair(terms.shifted("shr", terms.make(*S), one, 16, False), terms.constant(0, 16))
    before = terms.add(terms.multiply(terms.make(*B), terms.constant(4, 32), 32), half, 32, -1)
    assert numbers.number(shifted, 32) == numbers.number(divided, 32) == numbers.number(before, 32)
    odd = terms.shifted("shr", terms.add(x, one, 32), terms.constant(2, 32), 32, True)
    assert numbers.number(odd, 32) != numbers.number(before, 32)


def test_without_evenness_halves_differ() -> None:
    terms = Terms()
    numbers = Integers(terms, {terms.make(*name): span for name, span in RANGES.items()})
    one, x = terms.constant(1, 32), origin(terms)
    sign = terms.shifted("shr", x, terms.constant(31, 32), 32, False)
    divided = terms.shifted("shr", terms.add(x, sign, 32), one, 32, True)
    assert numbers.number(divided, 32) != numbers.number(terms.shifted("shr", x, one, 32, True), 32)


def test_an_unsigned_bound_is_two_signed_ones() -> None:
    terms = Terms()
    numbers = integers(terms)
    x, e, zero = origin(terms), terms.make(*E), terms.constant(0, 32)
    unsigned = terms.compare("lt", "u32", x, e, 32)
    low = terms.compare("gt", "s32", x, terms.constant(-1, 32), 32)
    signed = terms.conjunction((low, terms.compare("lt", "s32", x, e, 32)))
    assert numbers.condition(unsigned) == numbers.condition(signed)
    assert numbers.condition(unsigned) != numbers.condition(terms.compare("lt", "s32", x, e, 32))
    joined = terms.compare("lt", "s32", terms.bitwise("or", x, terms.make("y"), 32), zero, 32)
    assert numbers.condition(joined) == numbers.condition(
        terms.disjunction((terms.compare("lt", "s32", x, zero, 32),
                           terms.compare("lt", "s32", terms.make("y"), zero, 32)))
    )  # fmt: skip


def test_an_extension_is_taken_apart_only_where_nothing_wraps() -> None:
    """zext(x) * zext(e) is sext(x * e) where x is known not to be negative; with an unknown of any size it is not."""
    terms = Terms()
    numbers = integers(terms)
    x, e, zero = origin(terms), terms.make(*E), terms.constant(0, 32)
    narrow = terms.resized(terms.multiply(x, e, 32), 32, 64, True)
    wide = terms.multiply(*(terms.resized(v, 32, 64, False) for v in (x, e)), 64)
    assert numbers.number(narrow, 64) != numbers.number(wide, 64)
    inside = numbers.assuming((numbers.condition(terms.compare("lt", "s32", x, zero, 32)),))
    assert inside.number(narrow, 64) == inside.number(wide, 64)
    y = terms.make("y")
    for signed in (True, False):
        narrow = terms.resized(terms.multiply(y, e, 32), 32, 64, signed)
        wide = terms.multiply(*(terms.resized(v, 32, 64, signed) for v in (y, e)), 64)
        assert inside.number(narrow, 64) != inside.number(wide, 64)
