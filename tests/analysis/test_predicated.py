"""Predicated statements as choices, only where the choice is certain."""

import pytest

from tests.analysis.snippets import Snippet
from zluda_rr.analysis import Canonical, Terms

TEST = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; setp.lt.s32 %p1, %r1, 5; setp.lt.s32 %p2, %r2, 7;\n"
STORE = "\nst.global.u32 [%rd1], %r9;"


def stored(lines: str, terms: Terms) -> object:
    snippet = Snippet(TEST + lines + STORE)
    canonical = Canonical(snippet.body, snippet.values, terms, 40)
    return canonical.register(snippet.number("st.global"), "%r9")


@pytest.mark.parametrize(
    ("predicated", "plain"),
    [
        ("mov.u32 %r9, %r2; @%p1 mov.u32 %r9, %r1;", "selp.b32 %r9, %r1, %r2, %p1;"),
        ("mov.u32 %r9, %r2; @!%p1 mov.u32 %r9, %r1;", "selp.b32 %r9, %r2, %r1, %p1;"),
        ("mov.u32 %r9, %r2; @%p1 add.u32 %r9, %r9, 1;", "add.u32 %r8, %r2, 1; selp.b32 %r9, %r8, %r2, %p1;"),
        (
            "mov.u32 %r9, %r2; @%p1 mov.u32 %r9, %r1; @%p2 mov.u32 %r9, 3;",
            "selp.b32 %r8, %r1, %r2, %p1; selp.b32 %r9, 3, %r8, %p2;",
        ),
        ("mov.u32 %r9, 1; mov.u32 %r9, %r2; @%p1 mov.u32 %r9, %r1;", "selp.b32 %r9, %r1, %r2, %p1;"),
    ],
)
def test_a_predicated_move_is_a_choice(predicated: str, plain: str) -> None:
    terms = Terms()
    assert stored(predicated, terms) == stored(plain, terms)


@pytest.mark.parametrize(
    "lines",
    [
        "@%p1 mov.u32 %r9, %r1; @!%p1 mov.u32 %r9, %r2;",  # no first value that is certain
        "mov.u32 %r9, %r2; @%p2 bra OVER; @%p1 mov.u32 %r9, %r1; OVER:",  # a path leaves the move out
        "mov.u32 %r9, %r2; @%p2 bra OVER; mov.u32 %r9, 4; OVER: @%p1 mov.u32 %r9, %r1;",  # two first values
        "mov.u32 %r9, %r2; LOOP: @%p1 mov.u32 %r9, %r1; @%p2 bra LOOP;",
        "mov.u32 %r9, %r2; @%p1 shfl.sync.up.b32 %r9, %r1, 1, 0, -1;",  # depends on the lanes that execute it
        "mov.u32 %r9, %r2; @%p1 ld.global.u32 %r9, [%rd1];",
    ],
)
def test_anything_else_is_unknown(lines: str) -> None:
    terms = Terms()
    term = stored(lines, terms)
    text = str(terms.table[term])  # type: ignore[call-overload]
    assert "unknown" in text or any("unknown" in str(terms.table[child]) for child in terms.children(term))  # type: ignore[arg-type]


def test_the_guard_is_the_one_that_the_move_reads() -> None:
    """The predicate is written again behind the move."""
    terms = Terms()
    late = "mov.u32 %r9, %r2; @%p1 mov.u32 %r9, %r1; setp.lt.s32 %p1, %r2, 9;"
    assert stored(late, terms) == stored("selp.b32 %r9, %r1, %r2, %p1;", terms)
    assert stored(late, terms) != stored("setp.lt.s32 %p1, %r2, 9; selp.b32 %r9, %r1, %r2, %p1;", terms)
