"""The solver proves what is equal, nothing else, and the same on every machine."""

import random
from itertools import pairwise

import pytest

from tests.analysis.term_values import value
from tests.analysis.test_terms import Expression
from zluda_rr.analysis import Solver, Term, Terms


@pytest.fixture
def terms() -> Terms:
    return Terms()


def unknown(terms: Terms, name: int, bits: int = 32) -> Term:
    return terms.make("leaf", name, bits)


def test_signed_guards_are_one_unsigned_comparison(terms: Terms) -> None:
    """(v < 0) or (v >= e) is v >= e unsigned where e stays below 2^31, and not where it does not."""
    v, half = unknown(terms, 0), terms.shifted("shr", unknown(terms, 1), terms.constant(1, 32), 32, False)
    for extent, holds in ((half, True), (unknown(terms, 1), False)):
        zero = terms.constant(0, 32)
        five = terms.disjunction((terms.compare("lt", "s32", v, zero, 32), terms.compare("ge", "s32", v, extent, 32)))
        one = terms.compare("ge", "u32", v, extent, 32)
        both = terms.disjunction((terms.conjunction((five, one)), terms.negation(terms.disjunction((five, one)))))
        assert Solver(terms).implied(both) == holds


def test_half_by_signed_division_needs_evenness(terms: Terms) -> None:
    v = unknown(terms, 0)
    sign = terms.shifted("shr", v, terms.constant(31, 32), 32, False)
    one = terms.constant(1, 32)
    divided = terms.shifted("shr", terms.add(v, sign, 32), one, 32, True)
    shifted = terms.shifted("shr", v, one, 32, True)
    assert not Solver(terms).equal(divided, shifted, 32)
    even = terms.compare("eq", "u32", terms.bitwise("and", v, one, 32), terms.constant(0, 32), 32)
    assert Solver(terms, (even,)).equal(divided, shifted, 32)


def test_a_number_per_lane_counts_in_every_lane(terms: Terms) -> None:
    lanes = list(range(32))
    a = terms.add(unknown(terms, 0), terms.known(lanes, 32), 32)
    lanes[31] = 30
    b = terms.add(unknown(terms, 0), terms.known(lanes, 32), 32)
    assert not Solver(terms).equal(a, b, 32)


def test_products_of_unknowns_are_not_understood(terms: Terms) -> None:
    """a * a is even or odd as a is, but a product is an unknown to the solver: unproved is refused."""
    a = unknown(terms, 0)
    one = terms.constant(1, 32)
    square = terms.bitwise("and", terms.multiply(a, a, 32), one, 32)
    assert not Solver(terms).equal(square, terms.bitwise("and", a, one, 32), 32)


@pytest.mark.parametrize("seed", range(40))
def test_what_differs_is_never_equal(seed: int) -> None:
    """Random expressions over the same unknowns: where the solver says equal, their numbers are."""
    rng = random.Random(seed)
    expression = Expression(rng)
    pairs = [expression.build(rng.randrange(1, 4), 32) for _ in range(4)]
    solver = Solver(expression.terms)
    for (a, x), (b, y) in pairwise(pairs):
        if x != y:
            assert not solver.equal(a, b, 32)
        assert solver.equal(a, expression.terms.bitwise("or", a, a, 32), 32)
        assert value(expression.terms, a, expression.leaves, 32) == x
