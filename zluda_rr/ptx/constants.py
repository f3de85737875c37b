"""Constants as PTX writes them (PTX ISA 4.5)."""

import re
import struct

from .nodes import Immediate

NUMBER_START = frozenset("-.0123456789")
"""What a constant can begin with, and no name or register."""
_WHOLE = re.compile(r"-?(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|[0-9]+)U?")


class DeclarationError(ValueError):
    """A declaration that the grammar takes and that cannot be; the parser adds the place."""


class NotIntegerError(DeclarationError):
    """A number of another kind where only an integer can stand; the parser adds the place."""


def immediate(word: str) -> Immediate:
    """Value of a constant: a signed integer, or the IEEE bits of `0f…` (32 bits), `0d…` and decimal floats (64
    bits)."""
    negative = word[0] == "-"
    digits = word[1:] if negative else word
    prefix = digits[:2].lower()
    if prefix == "0f":
        return Immediate(word, "f32", int(digits[2:], 16) ^ (negative << 31))
    if prefix == "0d":
        return Immediate(word, "f64", int(digits[2:], 16) ^ (negative << 63))
    if prefix != "0x" and not digits.isdigit() and any(c in digits for c in ".eE"):
        return Immediate(word, "f64", struct.unpack("<Q", struct.pack("<d", float(word)))[0])
    value = integer(digits)
    return Immediate(word, "int", -value if negative else value)


def is_integer(word: str) -> bool:
    """Whether a word that the grammar took for a number is an integer: `1.5` and `0f3F800000` are numbers too."""
    return _WHOLE.fullmatch(word) is not None


def integer(digits: str) -> int:
    """`12`, `0x1F`, `0b101`, `017` (octal), each with an optional `U`; a sign may lead. Raises NotIntegerError."""
    if not is_integer(digits):
        raise NotIntegerError(f'expected an integer, found "{digits}"')
    if digits[0] == "-":
        return -integer(digits[1:])
    digits = digits.rstrip("U")
    prefix = digits[:2].lower()
    if prefix == "0x":
        return int(digits[2:], 16)
    if prefix == "0b":
        return int(digits[2:], 2)
    return int(digits, 8) if digits[0] == "0" and digits.isdigit() and len(digits) > 1 else int(digits)
