"""The words in which the page says what is taken."""

import pytest

from zluda_rr.forms.summary import summarise


def forms(*taken: str) -> dict[tuple[str, ...], bool]:
    """All forms of `.{lo hi}[.sat].T{u16 u32}`, of which those named are taken."""
    every = [(part, sat, kind) for part in ("lo", "hi") for sat in ("", "sat") for kind in ("u16", "u32")]
    return {words: ".".join(word for word in words if word) in taken for words in every}


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        ((), "no"),
        (("lo.u16", "hi.u16", "lo.u32", "hi.u32", "lo.sat.u16", "hi.sat.u16", "lo.sat.u32", "hi.sat.u32"), "yes"),
        (("lo.u16", "hi.u16", "lo.u32", "hi.u32"), "4 of 8: not .sat"),
        (("lo.u16", "lo.sat.u16"), "2 of 8: not .hi; T not .u32"),
        (("lo.sat.u16", "hi.sat.u16", "lo.sat.u32", "hi.sat.u32"), "4 of 8: only .sat"),
        (("lo.u16", "hi.u16", "lo.u32", "hi.u32", "lo.sat.u32", "hi.sat.u32"), "6 of 8: not .sat with .u16"),
        (("lo.u16", "hi.sat.u32"), "2 of 8: not .lo with .sat; not .hi with –; not .lo with .u32; not .hi with .u16"),
    ],
)
def test_summary(taken: tuple[str, ...], text: str) -> None:
    assert summarise(("", "", "T"), forms(*taken)) == text


def test_what_no_pair_explains_is_more() -> None:
    taken = {words: words != ("hi", "sat", "u32") for words in forms()}
    assert summarise(("", "", "T"), taken) == "7 of 8: and more"
