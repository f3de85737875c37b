"""Every form of the instruction table: equal to the oracle, or refused by its name; and the page says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forms.rows import edge_constants
from tests.forms.sweep import SLOW, batches, compare
from zluda_rr.forms import Probe, Spelling, Support, probe_of, spellings, support
from zluda_rr.forms.page import page_of
from zluda_rr.lower import compare as lowered_comparisons
from zluda_rr.lower import floating, integer

DOCS = Path(__file__).resolve().parents[2] / "docs/instructions.md"
BATCH = 600
_FLUSHING = "add sub mul fma mad min max div rcp rsqrt ex2 lg2 sqrt neg abs".split()  # noqa: SIM905 - a table
_WIDENING = ("ld", "st", "cvt")
# Results that are the same for every thread.
_UNIFORM = ("param", "activemask")


def third_outcomes(answers: Sequence[Support]) -> list[str]:
    """Forms that the lowering takes and the oracle does not have, and refusals that do not name the form."""
    unchecked = [f"{a.probe.name}: taken, but {a.oracle}" for a in answers if a.oracle and not a.lowering]
    unnamed = [
        f"{a.probe.name}: {a.lowering}"
        for a in answers
        if a.lowering and (f": {a.probe.spelling.name} is not" not in a.lowering or "\n" in a.lowering)
    ]
    return unchecked + unnamed


def taken(answers: Sequence[Support]) -> list[Probe]:
    return [answer.probe for answer in answers if not answer.lowering]


def silent_differences(probes: Sequence[Probe], *, count: int = 1024, seed: int = 1) -> list[str]:
    """Compare all probes; every difference, and every probe that shows nothing because its result never varies."""
    found: list[str] = []
    slow = [probe for probe in probes if probe.spelling.pattern.opcode in SLOW]
    quick = [probe for probe in probes if probe.spelling.pattern.opcode not in SLOW]
    for batch in (*batches(quick, BATCH), *batches(slow, BATCH)):
        comparison = compare(batch, count=64 if batch[0] in slow else count, seed=seed)
        found += map(str, comparison.differences())
        if seed == 1:
            found += [f"{name}: constant" for name in comparison.constant() if not any(w in name for w in _UNIFORM)]
    return found


@pytest.mark.parametrize("forms", [pytest.param(spellings(), id=f"{len(spellings())} forms")])
def test_every_form_is_equal_to_the_oracle_or_refused_by_name(
    forms: Sequence[Spelling], capsys: pytest.CaptureFixture[str]
) -> None:
    answers = support([probe_of(form) for form in forms])
    equal = taken(answers)
    wide = support([probe_of(probe.spelling, wide=True) for probe in equal if _widens(probe.spelling)])
    problems = third_outcomes(answers) + third_outcomes(wide)
    differences = silent_differences(equal + taken(wide))
    with capsys.disabled():
        print(
            f"\n{len(forms)} forms: {len(equal)} equal to the oracle, {len(forms) - len(equal)} refused by name, "
            f"{len(differences)} silent differences; with wide registers {len(taken(wide))} equal, "
            f"{len(wide) - len(taken(wide))} refused"
        )
    assert not problems
    assert not differences
    assert DOCS.read_text(encoding="utf-8") == page_of(answers), (
        "stale: python -m zluda_rr.forms.page > docs/instructions.md"
    )


def _widens(spelling: Spelling) -> bool:
    return spelling.pattern.opcode in _WIDENING


@pytest.mark.parametrize("bits", [0x00000000, 0x3F800000, 0x007FFFFF])
def test_constants_that_llvm_folds_where_the_mode_flushes(bits: int) -> None:
    """x - 0 and x * 1 are no instruction that could flush x; a function of a denormal constant is none at all."""
    forms = [form for form in spellings() if "ftz" in form.modifiers and form.pattern.opcode in _FLUSHING]
    plain = [probe.spelling for probe in taken(support([probe_of(form) for form in forms]))]
    probes = [probe for probe in (probe_of(form, constant=bits) for form in plain) if probe.variant]
    assert len(probes) > 30
    assert not compare(probes, count=256, seed=2).differences()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_every_form_on_more_operands(seed: int) -> None:
    answers = support([probe_of(form) for form in spellings()])
    assert not silent_differences(taken(answers), count=8192, seed=seed)


@pytest.mark.soak
def test_every_form_with_constants() -> None:
    """LLVM computes with constants itself: the last source as a constant of every kind. `set` is setp's test."""
    forms = [form for form in spellings() if form.pattern.opcode not in ("set", "ld", "st", "suld", *SLOW)]
    plain = [probe.spelling for probe in taken(support([probe_of(form) for form in forms]))]
    for edge in range(24):
        constants = [probe_of(spelling, constant=edge_constants(spelling)[edge]) for spelling in plain]
        answers = support([probe for probe in constants if probe.variant])
        assert not third_outcomes(answers)
        assert not silent_differences(taken(answers), count=256, seed=2)


MUTANTS = {
    "a comparison that is false for NaN": (
        lambda m: m.setitem(floating._COMPARE, "ltu", "olt"),
        {"setp.ltu.f32", "setp.ltu.f16x2"},
    ),
    "a modifier that is taken and forgotten": (
        lambda m: m.setattr(floating, "saturated", lambda e, value, kind, sat: value),
        {"add.sat.f32", "cvt.rn.sat.f16.f32", "fma.rn.sat.f16x2"},
    ),
    "no flushing where no mode does it": (
        lambda m: m.setattr(floating, "flushed", lambda e, value, kind, ftz, always=False: value),
        {"neg.ftz.f32", "abs.ftz.f16", "add.ftz.f16x2"},
    ),
    "an unsigned shift for a signed one": (
        lambda m: m.setattr(integer, "is_signed", lambda kind: False),
        {"shr.s32", "div.s64", "mul.hi.s16", "bfind.s32"},
    ),
    "the wrong half": (
        lambda m: m.setattr(lowered_comparisons, "_pair", lambda e, words: e.resize(words[0], 16, 32)),
        {"set.lt.f16x2.f16x2"},
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_sweep_sees_a_broken_rule(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, names = MUTANTS[mutant]
    probes = [probe_of(form) for form in spellings() if form.name in names]
    assert {probe.spelling.name for probe in probes} == names
    assert not compare(probes).differences()
    change(monkeypatch)
    assert {difference.probe.spelling.name for difference in compare(probes).differences()} == names
