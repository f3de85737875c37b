"""Parts of conditions exchanged: the rest stays, and equal parts give equal conditions."""

from zluda_rr.analysis import Term, Terms, replaced


def test_unknowns_of_sums_on_both_sides_of_comparisons() -> None:
    terms = Terms()
    a, b, c, d = (terms.make("leaf", name, 32) for name in range(4))

    def guard(x: Term, y: Term) -> Term:
        three = terms.add(terms.multiply(x, terms.constant(8, 32), 32), terms.constant(3, 32), 32)
        parts = [terms.compare("lt", "s32", three, c, 32), terms.compare("ge", "u32", c, terms.add(x, y, 32), 32)]
        return terms.conjunction((*parts, terms.compare("eq", "s32", y, d, 32)))

    assert replaced(terms, guard(a, b), {a: d}) == guard(d, b)
    assert replaced(terms, guard(a, b), {a: d, b: c}) == guard(d, c)
    assert replaced(terms, guard(a, b), {}) == guard(a, b)
    assert guard(a, b) != guard(d, b)


def test_signedness_is_kept() -> None:
    terms = Terms()
    a, b, c = (terms.make("leaf", name, 32) for name in range(3))
    for kind in ("s32", "u32"):
        condition = terms.compare("lt", kind, a, b, 32)
        assert replaced(terms, condition, {a: c}) == terms.compare("lt", kind, c, b, 32)
