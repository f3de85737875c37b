"""The mutator: what it changes and what it leaves alone; a sample of mutants, judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import enc0
from tests.kernels.mutants.judge import GREEN, RED, REFUSED, SAME, SLOWER, Judge
from tests.kernels.mutants.operators import Mutant, mutants
from tests.kernels.mutants.report import REASONS, UNEXPLAINED, reason
from tests.kernels.mutants.sources import FILES, all_mutants
from zluda_rr.resources import resource_dir

SOURCE = """// a comment: 5 + 6
#define TWO 2
typedef int word __attribute__((ext_vector_type(2)));
half2 f(half2 a, uint32_t n) {
    const half2 sum = (a + b) + (c + d);
    if (n < 0x30u && !ready) store(n, a);
    x = mix(a, n) * 0.5f;
    return flag ? a : b;
}
"""


def texts(operator: str) -> set[tuple[str, str]]:
    return {(m.old, m.text) for m in mutants("x.h", SOURCE, frozenset([operator]))}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (
            "constant",
            {("0x30u", "0x20u"), ("0x30u", "0x10u"), ("0.5f", "1.0f"), ("0.5f", "0.25f"), ("0.5f", "0.50048828125f")},
        ),
        ("sum", {("(a + b) + (c + d)", "(a + c) + (b + d)"), ("(a + b) + (c + d)", "((a + b) + c) + d")}),
        (
            "condition",
            {("n < 0x30u && !ready", "true"), ("n < 0x30u && !ready", "false"), ("!", ""), ("a : b", "b : a")},
        ),
        ("arguments", {("n, a", "a, n"), ("a, n", "n, a")}),
        ("deletion", {("x = mix(a, n) * 0.5f;", ";")}),
    ],
)
def test_operators(operator: str, expected: set[tuple[str, str]]) -> None:
    """Comments, `#` lines, typedefs and parameter lists stay as they are."""
    assert texts(operator) == expected


def test_comparisons_and_operations_are_exchanged() -> None:
    assert {("<", "<="), ("<", ">="), ("&&", "||"), ("+", "-"), ("*", "+")} <= texts("operation")


def test_every_mutant_is_another_text_and_has_its_own_name() -> None:
    found = all_mutants("direct")
    assert len({m.name for m in found}) == len(found) > 2000
    for name in FILES["direct"]:
        source = (resource_dir("kernels") / name).read_text()
        own = [m.apply(source) for m in found if m.file == name]
        assert source not in own
        assert len(set(own)) == len(own)


def test_every_condition_of_the_bodies_has_mutants() -> None:
    """What a program overlooks is never judged: every `if`, `?`, `&&`, `||` and comparison with blanks around it."""
    for name in FILES["direct"]:
        source = (resource_dir("kernels") / name).read_text()
        lines = {m.line for m in mutants(name, source)}
        for number, line in enumerate(source.splitlines(), 1):
            code = re.sub(r"//.*", "", line)
            if re.search(r"\bif \(| (?:<|<=|&&|\|\||==|!=) ", code) and not code.lstrip().startswith("#"):
                assert number in lines, f"{name}:{number}: {line}"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        found = Judge.of(enc0.DIRECT)
        yield found
        found.close()


@pytest.mark.parametrize(
    ("file", "old", "text", "outcome"),
    [
        ("zrr_norm.h", "0x1p-13f", "0x1p-14f", RED),
        pytest.param("zrr_direct.h", "-448.0f", "-448.25f", GREEN, marks=pytest.mark.soak),
        pytest.param("swin_enc0.hip", "beyond(gain, 32.0f)", "beyond(gain, 8.0f)", SLOWER, marks=pytest.mark.soak),
        ("zrr_staged.h", "512", "513", SAME),
        ("zrr_norm.h", "x[tile], gain", "gain, x[tile]", REFUSED),
    ],
)
def test_each_verdict_once(judge: Judge, file: str, old: str, text: str, outcome: str) -> None:
    """Red, green (448.25 is still 448 as e4m3), slower, code that the body does not use, and what no compiler takes."""
    source = (resource_dir("kernels") / file).read_text()
    start = source.index(old)
    mutant = Mutant(file, source.count("\n", 0, start) + 1, "constant", start, start + len(old), old, text)
    verdict = judge.judge(mutant)
    assert verdict.outcome == outcome, verdict.why
    assert (judge.folder / file).read_text() == source


def test_every_reason_is_in_use() -> None:
    """A survivor without a reason, or a reason that explains no mutant any more, is out of date."""
    names = [m.name for body in FILES for m in all_mutants(body)]
    for pattern, why in REASONS:
        assert why
        assert any(re.search(pattern, name) for name in names), pattern


def test_the_page_lists_the_survivors_with_their_reasons() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text()
    listed = re.findall(r"^\| `(\w+\.h[^`]+)` \| (\w+) \| (.+) \|$", page, re.M)
    assert listed
    current = {m.name: m for body in FILES for m in all_mutants(body)}
    for name, outcome, why in listed:
        assert name.replace("\\|", "|") in current, f"{name}: not a mutant of the sources as they are; make mutants"
        if outcome != SLOWER:
            assert why == reason(name.replace("\\|", "|")) != UNEXPLAINED
