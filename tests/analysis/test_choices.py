"""Choices by lane: whatever the order of exchanges and choices, equal rows are equal terms."""

import random

from hypothesis import given
from hypothesis import strategies as st

from zluda_rr.analysis import Term, Terms

LANES = range(32)


def value(terms: Terms, term: Term, lane: int) -> tuple[Term, int] | int:
    """What a term is in a lane, worked out without the normal forms."""
    operation, *rest = terms.table[term]
    known = terms.lanes(term)
    if known is not None:
        return known[lane]
    if operation == "gather":
        assert isinstance(rest[0], tuple)
        return value(terms, terms.children(term)[0], rest[0][lane])
    if operation == "select":
        yes, no, condition = terms.children(term)
        lanes = terms.lanes(condition)
        assert lanes is not None
        return value(terms, yes if lanes[lane] else no, lane)
    return term, lane


def test_one_exchange_in_place_of_two() -> None:
    """Send what the other lane needs, then choose: both directions of a merge by one exchange."""
    terms = Terms()
    upper, lower = (terms.pair(terms.make("x", n), terms.make("y", n)) for n in (0, 1))
    first = terms.truth(not lane & 4 for lane in LANES)
    other = terms.gathered(tuple(lane ^ 4 for lane in LANES), terms.select(lower, upper, first))
    left = tuple(max(lane - 4, lane & 3) for lane in LANES)
    right = tuple(min(lane + 4, 28 | lane & 3) for lane in LANES)
    assert terms.select(upper, other, first) == terms.select(upper, terms.gathered(left, lower), first)
    assert terms.select(other, lower, first) == terms.select(terms.gathered(right, upper), lower, first)
    assert terms.select(other, lower, first) != terms.select(terms.gathered(left, upper), lower, first)
    assert terms.select(lower, other, first) != terms.select(upper, other, first)


@given(st.integers(0, 2**32 - 1))
def test_any_tree_of_choices_means_what_it_is_made_of(seed: int) -> None:
    """Terms built at random have the value of their parts in every lane, and equal rows give the same term."""
    rng = random.Random(seed)
    terms = Terms()
    pool = [terms.make("x", n) for n in range(3)]
    seen: dict[tuple[object, ...], Term] = {}
    for _ in range(6):
        a, b = rng.choice(pool), rng.choice(pool)
        before = [[value(terms, term, lane) for lane in LANES] for term in (a, b)]
        if rng.random() < 0.5:
            lanes = [rng.random() < 0.5 for _ in LANES]
            made = terms.select(a, b, terms.truth(lanes))
            wanted = tuple(before[0 if chosen else 1][lane] for lane, chosen in enumerate(lanes))
        else:
            sources = tuple(rng.randrange(32) for _ in LANES)
            made = terms.gathered(sources, a)
            wanted = tuple(before[0][source] for source in sources)
        assert tuple(value(terms, made, lane) for lane in LANES) == wanted
        assert seen.setdefault(wanted, made) == made
        pool.append(made)
