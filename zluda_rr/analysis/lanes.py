"""Values as a warp sees them: one number per lane plus multiples of unknowns.

A `Form` stands for `lanes[l] + sum(coefficient * atom)` modulo 2**bits in lane l. Whatever depends on the lane
index and on constants only is computed exactly for all 32 lanes, so `(laneid << 2) & 12` followed by a conversion
and the conversion followed by the mask are the same value without any rewriting of expressions. Everything else
stays a sum of atoms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

LANES = 32


class Atom(NamedTuple):
    """An unknown that is the same wherever it appears.

    `kind` is "parameter" (value loaded from byte `number` of the kernel's parameters), "block" (address of
    parameter `name`), "shared" / "variable" (address of a variable), "special" (special register), "value" (result
    `name` of statement `number`), "extended" (a 32-bit sum widened to 64 bits; `number` identifies the sum).
    """

    kind: str
    name: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """`lanes[l] + sum(coefficient * atom)` modulo 2**bits; `terms` are sorted by atom, coefficients never 0."""

    lanes: tuple[int, ...]
    terms: tuple[tuple[Atom, int], ...]
    bits: int

    @property
    def known(self) -> bool:
        """Nothing but the lane index and constants."""
        return not self.terms

    @property
    def uniform(self) -> bool:
        """The same known number in all lanes."""
        return not self.terms and self.lanes.count(self.lanes[0]) == LANES

    @property
    def is_zero(self) -> bool:
        """Known to be 0 in all lanes."""
        return not self.terms and not any(self.lanes)

    def signed(self) -> tuple[int, ...]:
        """`lanes` read as two's complement."""
        half, full = 1 << (self.bits - 1), 1 << self.bits
        return tuple(v - full if v >= half else v for v in self.lanes)

    def step(self) -> int | None:
        """Difference between neighbouring lanes where it is constant."""
        steps = {b - a for a, b in zip(self.signed(), self.signed()[1:], strict=False)}
        return steps.pop() if len(steps) == 1 else None


def constant(value: int, bits: int) -> Form:
    """The same number in every lane."""
    return Form((value & ((1 << bits) - 1),) * LANES, (), bits)


def lane_index(bits: int) -> Form:
    """0..31."""
    return Form(tuple(range(LANES)), (), bits)


def atom(unknown: Atom, bits: int) -> Form:
    """One unknown."""
    return Form((0,) * LANES, ((unknown, 1),), bits)


def _masked(terms: dict[Atom, int], bits: int) -> tuple[tuple[Atom, int], ...]:
    mask = (1 << bits) - 1
    kept = ((name, coefficient & mask) for name, coefficient in terms.items())
    return tuple(sorted((name, coefficient) for name, coefficient in kept if coefficient))


def add(a: Form, b: Form, sign: int = 1) -> Form:
    """a + sign * b, modulo 2**a.bits."""
    mask = (1 << a.bits) - 1
    lanes = tuple((x + sign * y) & mask for x, y in zip(a.lanes, b.lanes, strict=True))
    if not b.terms:
        return Form(lanes, a.terms, a.bits)
    terms = dict(a.terms)
    for name, coefficient in b.terms:
        terms[name] = terms.get(name, 0) + sign * coefficient
    return Form(lanes, _masked(terms, a.bits), a.bits)


def scale(a: Form, factor: int) -> Form:
    """a * factor, modulo 2**a.bits."""
    mask = (1 << a.bits) - 1
    lanes = tuple(x * factor & mask for x in a.lanes)
    return Form(lanes, _masked({name: c * factor for name, c in a.terms}, a.bits), a.bits)


def multiply(a: Form, b: Form) -> Form | None:
    """a * b where one side is known well enough, else None."""
    if b.uniform:
        return scale(a, b.lanes[0])
    if a.uniform:
        return scale(b, a.lanes[0])
    return pointwise(lambda x, y: x * y, a, b)


def pointwise(
    operation: Callable[..., int], *forms: Form, bits: int | None = None, signed: bool = False
) -> Form | None:
    """`operation` lane by lane on known values, None where an operand is not known."""
    if any(form.terms for form in forms):
        return None
    width = bits if bits is not None else forms[0].bits
    mask = (1 << width) - 1
    columns = [form.signed() if signed else form.lanes for form in forms]
    return Form(tuple(operation(*row) & mask for row in zip(*columns, strict=True)), (), width)


def low_zero_bits(form: Form) -> int:
    """How many low bits are 0 whatever the unknowns are."""
    values = [c for _, c in form.terms]
    count = 0
    while count < form.bits and not any(v >> count & 1 for v in values):
        count += 1
    return count


def bit_and(a: Form, b: Form) -> Form | None:
    """a & b; also where the mask keeps only bits that the unknowns cannot reach."""
    if not a.uniform and b.uniform:
        a, b = b, a
    if a.uniform and a.lanes[0] >> low_zero_bits(b) == 0:
        return Form(tuple(x & y for x, y in zip(a.lanes, b.lanes, strict=True)), (), a.bits)
    return pointwise(lambda x, y: x & y, a, b)


def bit_or(a: Form, b: Form) -> Form | None:
    """a | b; with unknowns only where the two cannot share a bit, so that it is a sum."""
    if a.known and b.known:
        return pointwise(lambda x, y: x | y, a, b)
    if a.known:
        a, b = b, a
    room = 1 << low_zero_bits(a)
    disjoint = b.known and all(y < room and x % room & y == 0 for x, y in zip(a.lanes, b.lanes, strict=True))
    return add(a, b) if disjoint else None


def resize(form: Form, bits: int, signed: bool) -> Form | None:
    """Conversion between integer widths; None where widening unknowns could wrap."""
    if bits <= form.bits:
        mask = (1 << bits) - 1
        return Form(tuple(v & mask for v in form.lanes), _masked(dict(form.terms), bits), bits)
    if form.terms:
        # A 32-bit address of a variable widens without loss: it is an offset inside a small window.
        if all(name.kind in ("shared", "variable") and c == 1 for name, c in form.terms) and not signed:
            return Form(form.signed(), form.terms, bits) if min(form.signed()) >= 0 else None
        return None
    mask = (1 << bits) - 1
    source = form.signed() if signed else form.lanes
    return Form(tuple(v & mask for v in source), (), bits)


def describe(form: Form) -> str:
    """Text for reports: `param[40] + 16*lane + 4096`."""
    parts = []
    for name, coefficient in form.terms:
        text = {"parameter": f"param[{name.number}]", "shared": name.name, "block": "param"}.get(name.kind, name.name)
        parts.append(text if coefficient == 1 else f"{coefficient}*{text}")
    base = form.signed()[0]
    moving = tuple(v - base for v in form.signed())
    for text, pattern in _PATTERNS:
        for factor in {moving[1], moving[4] if moving[1] == 0 else moving[1]} - {0}:
            if moving == tuple(factor * p for p in pattern):
                parts.append(f"{factor}*{text}" if factor != 1 else text)
                moving = (0,) * LANES
    if any(moving):
        parts.append("f(lane)")
    if base or not parts:
        parts.append(str(base))
    return " + ".join(parts).replace("+ -", "- ")


_PATTERNS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("lane", tuple(range(LANES))),
    ("(lane&3)", tuple(lane & 3 for lane in range(LANES))),
    ("(lane>>2)", tuple(lane >> 2 for lane in range(LANES))),
)
