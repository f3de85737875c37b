"""IEEE rounding in exact rational arithmetic, one value at a time: the independent model of the numeric tests."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: significand bits, exponent of the least quantum, first power of two that overflows."""

    precision: int
    least: int
    largest: int
    code: str  # struct's letters: float, integer of the same width


HALF = Format(11, -24, 16, "eH")
SINGLE = Format(24, -149, 128, "fI")
DOUBLE = Format(53, -1074, 1024, "dQ")


def value_of(bits: int, form: Format) -> float:
    """The number that bits encode."""
    return float(struct.unpack("<" + form.code[0], struct.pack("<" + form.code[1], bits))[0])


def bits_of(value: float, form: Format) -> int:
    """Bits of a value that the format holds exactly."""
    return int(struct.unpack("<" + form.code[1], struct.pack("<" + form.code[0], value))[0])


def round_exact(value: Fraction, form: Format, *, negative_zero: bool = False) -> float:
    """Nearest value of the format, ties to even, overflow to infinity; exact zeros take the sign asked for."""
    if value == 0:
        return -0.0 if negative_zero else 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    quantum = Fraction(2) ** max(exponent - form.precision + 1, form.least)
    rounded = round(magnitude / quantum) * quantum  # Fraction rounds ties to even
    result = math.inf if rounded >= Fraction(2) ** form.largest else float(rounded)
    return math.copysign(result, -1.0 if value < 0 else 1.0)


def evaluate(operation: Callable[..., object], form: Format, *values: float) -> float:
    """A rational function of finite values rounded once; NaN, infinities and zeros' signs as Python's floats."""
    try:
        plain = operation(*values)
    except ZeroDivisionError:
        left, right = values
        negative = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, negative)
    except OverflowError:
        plain = math.inf
    assert isinstance(plain, float)
    if not all(map(math.isfinite, values)):
        return plain
    exact = operation(*(Fraction(value) for value in values))
    assert isinstance(exact, Fraction)
    return round_exact(exact, form, negative_zero=math.copysign(1, plain) < 0)
