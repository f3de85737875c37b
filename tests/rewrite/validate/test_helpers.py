"""The meaning that the validation gives to layouts and helpers: against the layout maps, and the machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels.harness import compile_probe, run_probe
from tests.rewrite.fusion.cases import PRODUCE, consume, convert, module
from zluda_rr.numerics import layout
from zluda_rr.numerics.e4m3 import decode_to_float, encode_half_pairs
from zluda_rr.ptx import ControlFlow, Module, Statement, linearise
from zluda_rr.rewrite import fuse_module
from zluda_rr.rewrite.validate import layouts, validate_fusion, warp
from zluda_rr.rewrite.validate.machine import Machine
from zluda_rr.rewrite.validate.rows import Row, Rows
from zluda_rr.rewrite.validate.terms import LANES, Terms

from .kernels import SAMPLES, SMALL, read

WORDS = 12


class Meaning:
    """Helpers on unknown words, and the numbers that come out for given ones."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.rows = Rows(self.terms)
        self.warp = warp.Warp(self.terms, self.rows)
        body = linearise(SMALL["chain"].functions[0])
        flow = ControlFlow(body)
        self.machine = Machine(self.terms, self.rows, {}, body, flow, [True], frozenset())
        self.statement: Statement = body[1]

    def of(self, name: str) -> tuple[int, Row]:
        """(number of words, result) of a helper on the words 0, 1, …"""
        count, meaning = self.warp.helpers[name]
        words = [self.terms.atom("in", i, uniform=False) for i in range(count)]
        return count, meaning(self.machine, self.statement, words)

    def number(self, item: int, words: np.ndarray) -> int:
        """Value of an item for input words [n, 32]. Sums are exact, then rounded to f16 once."""
        name, operands = self.terms.operands(item)
        if name.startswith("in:"):
            index, lane = name.removeprefix("in:").split("@")
            return int(words[int(index), int(lane)])
        if not operands:
            return int(name, 0)
        if name == "join":
            return self.number(operands[0], words) | self.number(operands[1], words) << 16
        if name in ("low", "high"):
            return self.number(operands[0], words) >> (0 if name == "low" else 16) & 0xFFFF
        if name.startswith("cvt"):
            packed = np.array([self.number(operands[0], words)], np.uint32)
            return int(encode_half_pairs(packed, relu="relu" in name)[0])
        assert name.startswith("k32 product"), name
        lines = [[self.number(i, words) for i in self.terms.operands(line)[1]] for line in operands[:2]]
        a, b = (decode_to_float(np.array(line, np.uint32).view(np.uint8)).astype(np.float64) for line in lines)
        seed = np.array([self.number(operands[2], words)], np.uint16).view(np.float16)[0]
        return int(np.array([a @ b + float(seed)]).astype(np.float16).view(np.uint16)[0])


def small_words(seed: int) -> np.ndarray:
    """Words [12, 32]: e4m3 codes of small integers, so that a wrong lane shows; f16 integers from word 8 on."""
    generator = np.random.default_rng(seed)
    codes = generator.choice(np.array([0x00, 0x38, 0x40, 0x44, 0xB8, 0xC0, 0xC4], np.uint8), (8, 32, 4))
    seeds = generator.integers(-512, 512, (4, 32, 2)).astype(np.float16).view(np.uint32)
    return np.concatenate([codes.view(np.uint32)[..., 0], seeds[..., 0]])


def probed(names: list[str], words: np.ndarray) -> np.ndarray:
    """What the compiled helpers return for words [n, 32]: [helper, 32]."""
    meaning = Meaning()
    lines = []
    for i, name in enumerate(names):
        arguments = ", ".join(f"in[{32 * k} + l]" for k in range(meaning.of(name)[0]))
        lines.append(f"out[{32 * i} + l] = {name}({arguments});")
    compiled = compile_probe("fragment_consumer.hip", "(void)lds;\n" + "\n".join(lines))
    return run_probe(compiled, np.ascontiguousarray(words), 32 * len(names)).reshape(-1, 32)


NAMES = sorted(Meaning().warp.helpers)


def test_every_helper_of_the_file_has_a_meaning_and_the_machine_agrees() -> None:
    """All words of all lanes of the 15 functions; three sets of data."""
    assert len(NAMES) == 15
    meaning = Meaning()
    results = {name: meaning.rows.items(meaning.of(name)[1]) for name in NAMES}
    for seed in range(3):
        words = small_words(seed)
        out = probed(NAMES, words)
        for name, lanes in zip(NAMES, out, strict=True):
            expected = [meaning.number(item, words) for item in results[name]]
            assert lanes.tolist() == expected, name


def test_places_of_words_are_those_of_the_layout_maps() -> None:
    """Every row, column, lane, k and half, against numerics.layout."""
    for lane in range(LANES):
        for word in range(4):
            row, slot = layout.nv_a_element(np.int64(lane), np.int64(word), np.int64(0))
            assert layouts.nvidia_row(int(row))[int(slot) // 4] == (word, lane)
        for word in range(2):
            slot, column = layout.nv_b_element(np.int64(lane), np.int64(word), np.int64(0))
            assert layouts.nvidia_column(int(column))[int(slot) // 4] == (word, lane)
            for side in range(2):
                place = layout.nv_d_element(np.int64(lane), np.int64(word), np.int64(side))
                assert layouts.nvidia_accumulator(word, lane, side) == tuple(map(int, place))
        for dword in range(2):
            line, k = layout.wmma_operand_element(np.int64(lane), np.int64(4 * dword))
            for step in range(2):
                assert layouts.wmma_line(int(line))[4 * step + int(k) // 4] == (2 * step + dword, lane)
        for register in range(8):
            row, column = layout.wmma_d_element(np.int64(lane), np.int64(register))
            assert layouts.wmma_result(register // 2, lane, register % 2) == (int(row), int(column))


def test_orders_are_inverse() -> None:
    for member in (0, 1):
        for lane in range(LANES):
            assert layouts.out_of_order(*layouts.into_order(member, lane)) == (member, lane)
            assert layouts.transposed(*layouts.transposed(lane, member)) == (lane, member)


# ---------------------------------------------------------------------------------------------- a wrong meaning is seen


@functools.cache
def fused_pair(name: str) -> tuple[Module, Module, str]:
    """(original, fused, entry)."""
    original = module(RELU) if name == "relu" else read(SAMPLES / f"{name}.ptx.xz")
    entry = original.entries[0].name
    return original, fuse_module(original, entry).module, entry


RELU = PRODUCE + convert("u", "x", [".relu"] * 4) + consume()


def wrong_order(member: int, lane: int) -> tuple[int, int]:
    pair, source = layouts.into_order(member, lane)
    return pair, source ^ 8


def swapped_result(pair: int, lane: int, side: int) -> tuple[int, int]:
    return layouts.wmma_result(pair ^ 1, lane, side)


def swapped_line(index: int) -> tuple[tuple[int, int], ...]:
    words = layouts.wmma_line(index)
    return words[1], words[0], *words[2:]


def wrong_column(column: int) -> tuple[tuple[int, int], ...]:
    return layouts.nvidia_column(column ^ 1)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("into_order", wrong_order),
        ("out_of_order", lambda member, lane: layouts.out_of_order(1 - member, lane)),
        ("wmma_result", swapped_result),
        ("wmma_line", swapped_line),
        ("nvidia_column", wrong_column),
        ("nvidia_accumulator", lambda half, lane, side: layouts.nvidia_accumulator(half, lane, 1 - side)),
    ],
)
def test_a_wrong_table_turns_the_acceptance_red(
    place: str, wrong: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SMALL["chain"]
    fused = fuse_module(original, "probe").module
    assert validate_fusion(original, fused, "probe").equal
    monkeypatch.setattr(warp, place, wrong)
    assert not validate_fusion(original, fused, "probe").equal


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("zrr_fc_pack",)])
def test_a_helper_taken_for_another_turns_the_acceptance_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each helper in turn is taken for another one with as many words."""
    plain, other = Meaning().warp.helpers, {}
    count = plain[name][0]
    other[name] = next((n for n in NAMES if n != name and plain[n][0] == count), "")
    original, fused, entry = fused_pair("relu" if "relu" in name else "attention48")
    helpers = warp.Warp._helpers

    def misdeclared(self: warp.Warp) -> dict[str, object]:
        found = helpers(self)
        if other[name]:
            return {**found, name: found[other[name]]}
        return {**found, name: (1, lambda machine, statement, rows: rows[0])}

    monkeypatch.setattr(warp.Warp, "_helpers", misdeclared)
    assert not validate_fusion(original, fused, entry).equal
