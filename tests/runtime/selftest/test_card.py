"""What the rows make of a card's answers, with cards that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from zluda_rr.numerics.e4m3 import decode_to_float
from zluda_rr.numerics.mma import WMMA_MODELS
from zluda_rr.runtime.cost import ASSUMED_RATES
from zluda_rr.runtime.selftest import Check, Verdict, matrix, times
from zluda_rr.runtime.selftest.layers import LayerPrograms, _judged, layers_with_bodies
from zluda_rr.runtime.selftest.matrix import CANDIDATES, MATRIX_CHECKS, distinguishing_data
from zluda_rr.runtime.selftest.rates import RATE_CHECKS

ACCUMULATION = MATRIX_CHECKS[2]


@dataclass
class Card:
    """A card that adds as `order` says and takes `cycles` of each kernel's loop."""

    order: Callable[[Any, Any], Any] | None = None
    cycles: Callable[[str, int], float] = lambda kernel, threads: 1.0
    is_emulated: bool = False
    accumulation: list[str] = field(default_factory=list)
    progress: Any = None
    overhead: float = 7.0

    @property
    def device(self) -> Any:
        return SimpleNamespace(runtime=SimpleNamespace(timed=lambda start: start()))

    def launch(self, source: str, kernel: str, arguments: Sequence[Any], blocks: int, threads: int) -> list[Any]:
        a, b, c = distinguishing_data()
        products = decode_to_float(a)[:, :, None, :] * decode_to_float(b)[:, None, :, :]
        assert (arguments[2] == matrix._accumulator(c)).all()
        assert self.order is not None
        return [matrix._accumulator(self.order(products, c))]

    @contextmanager
    def prepared(self, source: str, kernel: str, arguments: Sequence[Any], blocks: int, threads: int) -> Iterator[Any]:
        taken = self.overhead + arguments[0] * self.cycles(kernel, threads) * 1e-3
        yield (lambda: taken), list


def ask(check: Check, card: Card) -> Any:
    return check.ask(card)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CANDIDATES)
def test_every_order_is_told_from_all_others(name: str) -> None:
    card = Card(CANDIDATES[name])
    row = ask(ACCUMULATION, card)
    assert row.result == f"fits {name}"
    assert row.verdict is (Verdict.PASS if name in WMMA_MODELS else Verdict.INFO)
    assert card.accumulation == ([name] if name in WMMA_MODELS else [])


def test_an_unknown_order_leaves_its_raw_bits() -> None:
    def odd(products: Any, c: Any) -> Any:
        return CANDIDATES["sequential"](products[..., np.random.default_rng(1).permutation(16)], c)

    row = ask(ACCUMULATION, Card(odd))
    assert row.verdict is Verdict.FAIL
    assert row.result.startswith("no model fits; closest is ")
    case = row.numbers["unexplained"][0]
    a, b = (decode_to_float(np.frombuffer(bytes.fromhex(case[key]), np.uint8)) for key in "ab")
    c, d = (np.array([int(case[key], 16)], np.uint32).view(np.float32) for key in "cd")
    assert odd((a * b)[None], c) == d


def test_operand_registers_hold_what_the_document_says() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    words = matrix._operand(codes)
    for lane in range(32):
        row, half = lane & 15, lane >> 4
        assert words[0, lane].tobytes() == codes[0, row, 8 * half : 8 * half + 8].tobytes()
    c = np.arange(256, dtype=np.float32).reshape(1, 16, 16)
    registers = matrix._accumulator(c)
    for lane in range(32):
        for register in range(8):
            assert registers[0, lane, register] == c[0, register + 8 * (lane >> 4), lane & 15]
    assert (matrix._matrix(registers) == c).all()


def test_rates_count_a_plain_instruction_as_one() -> None:
    """Whatever a launch costs beside its loop."""
    assumed = {rate.kernel: rate.cycles for rate in ASSUMED_RATES}
    card = Card(cycles=lambda kernel, threads: assumed.get(kernel, 1.0))
    rows = {check.name: ask(check, card) for check in RATE_CHECKS if check.name not in ("rate-base", "rate-stall")}
    assert {row.numbers["as_assumed"] for row in rows.values()} == {True}
    assert rows["rate-wmma"].result == "8.00 cycles, as assumed"
    slow = Card(cycles=lambda kernel, threads: 4.0 if kernel == "cvt_pk_fp8_f32" else 1.0)
    found = ask(next(c for c in RATE_CHECKS if c.name == "rate-cvt-fp8"), slow)
    assert (found.verdict, found.result) == (Verdict.INFO, "4.00 cycles, the model assumes 1")


def test_stalls_are_told_by_waves() -> None:
    def cycles(kernel: str, threads: int) -> float:
        waves = threads // 32
        return {"chain": 5.0 * waves, "chain_hinted": max(5.0, waves)}.get(kernel, 1.0)

    row = ask(RATE_CHECKS[-1], Card(cycles=cycles))
    assert row.details[0] == "1 waves: 5.00 cycles a step without the hint, 5.00 with it"
    assert row.result == "without the hint 5.00 times as long at 32 waves"


def test_times_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = []

    def taken(program: str, launch: Any, repeats: int, gap: float = 0.0) -> tuple[float, ...]:
        gaps.append(gap)
        return ({"t": 4.0, "r": 0.5}[program] + gap,) * repeats

    monkeypatch.setattr(LayerPrograms, "programs", lambda self, progress: ("t", "r"))
    monkeypatch.setattr(times, "_counts", lambda layer, program: {"wmma": 536.0})
    rig: Any = SimpleNamespace(is_emulated=False, progress=None, device=SimpleNamespace(times=taken))
    row = times._timed(rig, LayerPrograms(layers_with_bodies()[0]))
    assert (row.verdict, row.result) == (Verdict.INFO, "translated 4.000 ms, rewritten 0.500 ms, 8.00 times")
    assert row.numbers["waves"] == 14_973
    assert [gap > 0 for gap in gaps] == [False, True, False, True]
    assert row.details[1].startswith("rewritten: 0.500 ms (0.500 to 0.500) back to back; 0.550 ms")


@pytest.mark.parametrize(
    ("fitting", "details", "verdict"),
    [({"sequential"}, ("exact differs",), Verdict.PASS), (set(), ("all differ",), Verdict.FAIL)],
)
def test_one_model_must_fit_a_card_on_all_data(fitting: set[str], details: tuple[str, ...], verdict: Verdict) -> None:
    row = _judged(Card(), fitting, 100, details)  # type: ignore[arg-type]
    assert row.verdict is verdict
    assert row.verdict is Verdict.FAIL or row.result.endswith("equal to the model sequential")


def test_the_emulated_device_must_fit_the_model_that_was_asked_for() -> None:
    row = _judged(Card(is_emulated=True), {"sequential"}, 100, ("exact differs",))  # type: ignore[arg-type]
    assert row.verdict is Verdict.FAIL
