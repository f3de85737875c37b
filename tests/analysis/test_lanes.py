"""Forms against plain evaluation: for any values of the unknowns and every lane the result is the same number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zluda_rr.analysis import Atom, Form, describe, lanes
from zluda_rr.analysis.lanes import LANES, add, atom, bit_and, bit_or, constant, lane_index, multiply, resize, scale

UNKNOWNS = (Atom("parameter", "u64", 40), Atom("special", "%ctaid.x"), Atom("shared", "tile"))
WORD = (1 << 32) - 1


def value(form: Form, environment: dict[Atom, int], lane: int) -> int:
    total = form.lanes[lane] + sum(c * environment[name] for name, c in form.terms)
    return total & ((1 << form.bits) - 1)


@st.composite
def forms(draw: st.DrawFn) -> Form:
    """Sums of a lane multiple, a constant and multiples of unknowns, with low bits often clear."""
    form = add(scale(lane_index(32), draw(st.sampled_from((0, 1, 4, 16)))), constant(draw(st.integers(0, WORD)), 32))
    for unknown in draw(st.sets(st.sampled_from(UNKNOWNS))):
        form = add(form, scale(atom(unknown, 32), draw(st.sampled_from((1, 4, 16, 3)))))
    return scale(form, draw(st.sampled_from((1, 8))))


environments = st.fixed_dictionaries({unknown: st.integers(0, WORD) for unknown in UNKNOWNS})


@given(forms(), forms(), environments)
def test_sums_and_differences(a: Form, b: Form, environment: dict[Atom, int]) -> None:
    for lane in range(LANES):
        x, y = value(a, environment, lane), value(b, environment, lane)
        assert value(add(a, b), environment, lane) == (x + y) & WORD
        assert value(add(a, b, -1), environment, lane) == (x - y) & WORD


@given(forms(), forms(), environments)
def test_products_and_logic_are_right_where_they_are_known(a: Form, b: Form, environment: dict[Atom, int]) -> None:
    operations = (
        (multiply(a, b), lambda x, y: x * y),
        (bit_and(a, b), lambda x, y: x & y),
        (bit_or(a, b), lambda x, y: x | y),
    )
    for form, operation in operations:
        for lane in range(LANES) if form is not None else ():
            expected = operation(value(a, environment, lane), value(b, environment, lane)) & WORD
            assert value(form, environment, lane) == expected


@given(forms(), environments, st.booleans())
def test_widening_is_right_where_it_is_known(form: Form, environment: dict[Atom, int], signed: bool) -> None:
    wide = resize(form, 64, signed)
    if form.known:
        assert wide is not None
        assert wide.signed() == form.signed() if signed else wide.lanes == form.lanes
    narrow = resize(form, 16, False)
    assert narrow is not None
    assert all(value(narrow, environment, lane) == value(form, environment, lane) & 0xFFFF for lane in range(LANES))


def test_widening_a_sum_of_unknowns_is_not_known() -> None:
    assert resize(add(atom(UNKNOWNS[1], 32), constant(8, 32)), 64, False) is None


def test_an_address_in_shared_memory_widens() -> None:
    wide = resize(add(atom(UNKNOWNS[2], 32), constant(8, 32)), 64, False)
    assert wide is not None
    assert wide.terms == ((UNKNOWNS[2], 1),)


def test_mask_of_bits_the_unknowns_cannot_reach() -> None:
    aligned = add(scale(atom(UNKNOWNS[1], 32), 16), lane_index(32))
    masked = bit_and(aligned, constant(15, 32))
    assert masked is not None
    assert masked.lanes == tuple(lane & 15 for lane in range(LANES))
    assert bit_and(aligned, constant(31, 32)) is None


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (constant(0, 32), "0"),
        (add(atom(UNKNOWNS[0], 64), add(scale(lane_index(64), 16), constant(4096, 64))), "param[40] + 16*lane + 4096"),
        (scale(Form(tuple(lane & 3 for lane in range(LANES)), (), 32), 4), "4*(lane&3)"),
        (add(atom(UNKNOWNS[2], 32), constant(-8, 32)), "tile - 8"),
        (Form(tuple(lane >> 2 for lane in range(LANES)), (), 32), "(lane>>2)"),
    ],
)
def test_text(form: Form, text: str) -> None:
    assert describe(form) == text


def test_step() -> None:
    assert scale(lane_index(32), 16).step() == 16
    assert lanes.pointwise(lambda v: v >> 2, lane_index(32)).step() is None  # type: ignore[union-attr]
