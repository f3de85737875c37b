"""The parser against ptxas: what it accepts is read, what it makes of constants is what we make of them."""

import random
from functools import cache

import pytest

from tests.ptx.probes import Probe, Verdict, read_probes, read_verdicts
from tests.ptx.probes.support import opaque, understand
from zluda_rr.ptx import PtxError, parse, print_module
from zluda_rr.ptx.expressions import Unfoldable, fold_operands

PROBES = read_probes()
VERDICTS = read_verdicts()

# Accepted by ptxas and kept as opaque statements: elements of arrays, whose size a statement does not tell, and a
# constant of more than 64 bits.
KEPT_OPAQUE = {"g[4]", "g[%r2]", "sh[%r2]", "tab[1]", "g[2]", "0x1FFFFFFFFFFFFFFFF"}


@cache
def verdicts(probe: Probe) -> tuple[Verdict, ...]:
    return tuple(VERDICTS[probe.digest].values())


def legal(probe: Probe) -> bool:
    """Some version of ptxas accepts it."""
    return any(verdict.accepted for verdict in verdicts(probe))


def test_there_are_many_probes_of_both_kinds_with_a_verdict_each() -> None:
    accepted = sum(map(legal, PROBES))
    print(f"{len(PROBES)} probes, {accepted} legal, ptxas {', '.join(VERDICTS[PROBES[0].digest])}")
    assert accepted >= 1000
    assert len(PROBES) - accepted >= 350
    assert {probe.kind for probe in PROBES} == {"body", "module", "header", "text", "value"}
    assert {probe.digest for probe in PROBES} == VERDICTS.keys()


def test_every_legal_text_is_read_and_none_is_lost() -> None:
    refused, kept = [], []
    for probe in PROBES:
        try:
            module = parse(probe.module)
        except PtxError as error:
            check_message(error, probe.module)
            refused += [f"{probe.name}: {error}"] if legal(probe) else []
            continue
        assert print_module(module) == probe.module, probe.name
        if legal(probe) and opaque(module):
            kept.append(probe)
    assert refused == []
    assert all(any(form in probe.text for form in KEPT_OPAQUE) for probe in kept), [probe.text for probe in kept]
    assert len(kept) == len(KEPT_OPAQUE)


def check_message(error: PtxError, text: str) -> None:
    """One line with the place, the source line, a caret."""
    assert str(error).count("\n") == 2
    assert 1 <= error.line <= text.count("\n") + 1


def test_what_is_legal_is_understood_or_refused_in_one_line() -> None:
    """Illegal texts, too: `linearise` gives a body or says what and where."""
    refused = set()
    for probe in PROBES:
        try:
            understand(parse(probe.module))
        except PtxError as error:
            check_message(error, probe.module)
            refused |= {probe.text} if legal(probe) else set()
    others = {text for text in refused if not any(form in text for form in KEPT_OPAQUE)}
    assert others <= {"mov.u32 %r1, %tid.a;", ".visible .entry e() { .reg .b32 a<99999999>; ret; }"}, others


@pytest.mark.parametrize("probe", [p for p in PROBES if p.kind == "value"], ids=lambda probe: probe.text)
def test_constants_have_the_values_that_ptxas_gives_them(probe: Probe) -> None:
    (verdict, *_) = verdicts(probe)
    try:
        folded = fold_operands(probe.text, groups=False)
    except Unfoldable:
        assert verdict.value is None or probe.text in ("1.0<2.0", "0x1FFFFFFFFFFFFFFFF", "18446744073709551616")
    else:
        assert verdict.value is None or folded == str(verdict.value)


PIECES = [
    *";{}()[],.:|@!%$_-+*/~?=<>#&^\"'\\",
    "\n",
    "//",
    "/*",
    "*/",
    "\x00",
    "\x01",
    "é",
    ".reg .v4 .b32 v;",
    ".x",
    "0f",
    "1e",
    "L: ",
    "@%p1 ",
    '# 7 "x"\n',
    ".loc 1 2 3 ",
    ".section .x {",
    "{{{{",
    "((((",
    " = {1,,2}",
    ".version 9.0.1\n",
    "WARP_SZ",
]


def mutants(count: int, seed: int) -> None:
    """Texts with a few pieces put in, cut out, doubled or moved: read or refused with a place, never lost."""
    chooser = random.Random(seed)
    for _ in range(count):
        probe = chooser.choice(PROBES)
        text = probe.module
        inside = text.find(probe.text)
        for _ in range(chooser.randint(1, 3)):
            at = chooser.randrange(inside, inside + len(probe.text) + 1) if chooser.random() < 0.7 else None
            at = chooser.randrange(len(text) + 1) if at is None else at
            length = chooser.choice([0, 0, 1, 2, 5, 20])
            piece = chooser.choice([*PIECES, "", text[at : at + 12], chooser.choice(PROBES).text])
            text = text[:at] + piece + text[at + length :]
        try:
            module = parse(text)
            assert print_module(module) == text
            understand(module)
        except PtxError as error:
            check_message(error, text)


def test_mutated_probes() -> None:
    mutants(2_000, 11)


@pytest.mark.soak
def test_many_mutated_probes() -> None:
    mutants(20_000, 12)
