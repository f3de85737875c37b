"""What a self-test's row is: a question to the device, what is expected, what came, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.runtime.selftest.rig import Rig

__all__ = ["Check", "Row", "Verdict", "comparison", "one_nan", "one_nan_half"]

Array = NDArray[Any]
EXAMPLES = 6


class Verdict(StrEnum):
    """`info`: a finding that is neither right nor wrong, as a time is; `skipped`: not asked, the result says why."""

    PASS = "pass"
    FAIL = "fail"
    INFO = "info"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Row:
    """One answer. `numbers` are for programs: counts, medians, raw words as hexadecimal text."""

    result: str
    expected: str
    verdict: Verdict
    details: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the registry: its name, the question in words, and the function that asks the device."""

    name: str
    question: str
    ask: Callable[[Rig], Row]


def one_nan(words: Array) -> Array:
    """f32 words with every NaN as one: no document says which payload arithmetic returns."""
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, np.uint32(0x7FC00000), words)


def one_nan_half(words: Array) -> Array:
    """Pairs of halves, likewise."""
    halves = np.ascontiguousarray(words).view(np.uint16)
    nan = (halves & np.uint16(0x7FFF)) > np.uint16(0x7C00)
    return np.where(nan, np.uint16(0x7E00), halves).view(words.dtype)


def comparison(parts: Sequence[tuple[str, Array, Array, Sequence[Array]]], what: str) -> Row:
    """Compare integers by parts `(name, expected, actual, inputs)`; the inputs of a difference are shown with it.

    All arrays of a part have one shape; counts per part and the first differences go to the report.
    """
    details: list[str] = []
    wrong: dict[str, int] = {}
    total = 0
    for name, expected, actual, inputs in parts:
        total += expected.size
        places = np.flatnonzero(expected.ravel() != actual.ravel())
        wrong[name] = len(places)
        for at in places[:EXAMPLES]:
            given = " ".join(_hex(values.ravel()[at]) for values in inputs)
            pair = f"expected {_hex(expected.ravel()[at])}, got {_hex(actual.ravel()[at])}"
            details.append(f"{name} [{at}] of {given}: {pair}")
    bad = sum(wrong.values())
    result = f"{total} {what}, all as expected" if not bad else f"{bad} of {total} {what} differ"
    if bad:
        details.insert(0, "differences: " + ", ".join(f"{n} {count}" for n, count in wrong.items() if count))
    verdict = Verdict.FAIL if bad else Verdict.PASS
    return Row(result, f"{total} {what}", verdict, tuple(details), {"differences": wrong, "compared": total})


def _hex(value: Any) -> str:
    return f"0x{int(value):0{2 * value.dtype.itemsize}x}"
