"""Reference arithmetic on exact rationals: rounds a value to a binary format in any direction.

Independent of the emulator's numpy formulas: values are `Fraction`, formats are (bits, exponent width).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

NEAREST, UP, DOWN, TRUNCATE = range(4)


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754 binary interchange format."""

    exponent_bits: int
    fraction_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def size(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        return 1 << (self.size - 1)

    def is_nan(self, word: int) -> bool:
        return (word & ~self.sign) > self.infinity

    def is_infinite(self, word: int) -> bool:
        return (word & ~self.sign) == self.infinity

    def value(self, word: int) -> Fraction:
        """Value of a finite number."""
        exponent = (word & ~self.sign) >> self.fraction_bits
        fraction = word & ((1 << self.fraction_bits) - 1)
        if exponent:
            fraction |= 1 << self.fraction_bits
        scale = Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction_bits)
        return (-fraction if word & self.sign else fraction) * scale

    def round(self, exact: Fraction, mode: int = NEAREST) -> int:
        """Word of a nonzero rational, rounded once."""
        negative = exact < 0
        magnitude = abs(exact)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if Fraction(2) ** exponent > magnitude:
            exponent -= 1
        unit = Fraction(2) ** (max(exponent, 1 - self.bias) - self.fraction_bits)
        count, rest = divmod(magnitude, unit)
        rest /= unit
        away = {
            NEAREST: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and count % 2 == 1),
            UP: rest > 0 and not negative,
            DOWN: rest > 0 and negative,
            TRUNCATE: False,
        }[mode]
        count = int(count) + away
        word = self._encode(count, unit)
        if word >= self.infinity:
            keeps_finite = mode == TRUNCATE or (mode == UP and negative) or (mode == DOWN and not negative)
            word = self.infinity - 1 if keeps_finite else self.infinity
        return word | (self.sign if negative else 0)

    def _encode(self, count: int, unit: Fraction) -> int:
        shift = unit.numerator.bit_length() - unit.denominator.bit_length()
        exponent = shift + self.fraction_bits + self.bias
        hidden = 1 << self.fraction_bits
        if count >= 2 * hidden:  # rounding carried into the next binade
            count //= 2
            exponent += 1
        return count if count < hidden else (exponent << self.fraction_bits) + (count - hidden)


F16 = Format(5, 10)
F32 = Format(8, 23)


def fused(format_: Format, a: int, b: int, c: int, mode: int = NEAREST) -> int | None:
    """Word of a * b + c rounded once; None where the result is a NaN or its sign of zero is a matter of mode."""
    words = (a, b, c)
    if any(format_.is_nan(w) for w in words):
        return None
    product_sign = (a ^ b) & format_.sign
    if format_.is_infinite(a) or format_.is_infinite(b):
        zero = (a & ~format_.sign) == 0 or (b & ~format_.sign) == 0
        if zero or (format_.is_infinite(c) and (c & format_.sign) != product_sign):
            return None
        return product_sign | format_.infinity
    if format_.is_infinite(c):
        return c
    exact = format_.value(a) * format_.value(b) + format_.value(c)
    if exact:
        return format_.round(exact, mode)
    if product_sign == (c & format_.sign):
        return product_sign
    return 0 if mode == NEAREST else None
