"""Integer instructions on `Form`s. A missing opcode only makes a value unknown, never wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from . import lanes
from .lanes import Form

Extend = Callable[[Form, bool], Form]
_PLAIN = re.compile(r"[busp]\d+|pred|lo|hi|wide")
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")


def supported(opcode: str, modifiers: Sequence[str]) -> bool:
    """Whether `compute` may know the result, so that operands of float code are not evaluated in vain."""
    if opcode == "cvt":
        return True
    return opcode in ("mov", "cvta") or (opcode in _HANDLERS and not any(m in _FLOATS for m in modifiers))


def compute(opcode: str, modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    """Result of an integer instruction, None where it is not known.

    `width` is the result's width in bits, `extend` makes the unknown for a widened sum of unknowns.
    """
    if opcode in ("mov", "cvta"):
        return lanes.resize(forms[0], width, False) or forms[0]
    if any(m in _FLOATS for m in modifiers):
        # The only float conversion that matters for an address or a constant operand: 0 stays 0.
        zero = opcode == "cvt" and len(forms) == 1 and forms[0].is_zero
        return lanes.constant(0, width) if zero else None
    if not all(_PLAIN.fullmatch(m) for m in modifiers):
        return None  # .sat, .relu, .s16x2 and the like
    handler = _HANDLERS.get(opcode)
    return handler(modifiers, forms, width, extend) if handler is not None else None


def _same(forms: Sequence[Form], width: int) -> list[Form]:
    return [lanes.resize(form, width, False) or form for form in forms]


def _signed(modifiers: Sequence[str]) -> bool:
    return modifiers[-1].startswith("s")


def _add(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    a, b = _same(forms[:2], width)
    return lanes.add(a, b) if a.bits == b.bits else None


def _sub(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    a, b = _same(forms[:2], width)
    return lanes.add(a, b, -1) if a.bits == b.bits else None


def _product(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    if "wide" in modifiers:
        source = int(modifiers[-1][1:])
        narrow = _same(forms[:2], source)
        return lanes.multiply(*(_widen(form, width, _signed(modifiers), extend) for form in narrow))
    if "lo" not in modifiers:
        return None
    return lanes.multiply(*_same(forms[:2], width))


def _mad(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    product = _product(modifiers, forms[:2], width, extend)
    addend = lanes.resize(forms[2], width, False)
    return lanes.add(product, addend) if product is not None and addend is not None else None


def _widen(form: Form, width: int, signed: bool, extend: Extend) -> Form:
    return lanes.resize(form, width, signed) or extend(form, signed)


def _cvt(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    target, source = modifiers[-2], modifiers[-1]
    if not (target[1:].isdigit() and source[1:].isdigit()) or "sat" in modifiers:
        return None
    narrow = lanes.resize(forms[0], int(source[1:]), False) or forms[0]
    wide = _widen(narrow, int(target[1:]), source.startswith("s"), extend)
    return _widen(wide, width, target.startswith("s"), extend)


def _shl(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    value, amount = lanes.resize(forms[0], width, False) or forms[0], forms[1]
    if amount.uniform and 0 <= amount.lanes[0] < 64:
        return lanes.scale(value, 1 << amount.lanes[0])
    return lanes.pointwise(lambda x, n: x << _amount(n), value, amount)


def _shr(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    value = lanes.resize(forms[0], width, False) or forms[0]
    signed = _signed(modifiers)
    return lanes.pointwise(lambda x, n: x >> _amount(n), value, forms[1], signed=signed, bits=width)


def _amount(n: int) -> int:
    """A shift amount: an unsigned 32-bit number, all beyond the width alike."""
    return min(n & 0xFFFF_FFFF, 64)


def _logic(operation: str) -> Callable[[Sequence[str], Sequence[Form], int, Extend], Form | None]:
    def handler(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
        a, b = _same(forms[:2], width)
        if operation == "and":
            return lanes.bit_and(a, b)
        if operation == "or":
            return lanes.bit_or(a, b)
        return lanes.pointwise(lambda x, y: x ^ y, a, b)

    return handler


def _not(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    return lanes.pointwise(lambda x: ~x, *_same(forms[:1], width))


def _neg(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    return lanes.scale(_same(forms[:1], width)[0], -1)


def _bfe(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    if _signed(modifiers):
        return None
    return lanes.pointwise(
        lambda x, at, n: (x >> (at & 255)) & ((1 << (n & 255)) - 1), *_same(forms[:1], width), *forms[1:3], bits=width
    )


def _bfi(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    def insert(source: int, into: int, at: int, count: int) -> int:
        mask = ((1 << (count & 255)) - 1) << (at & 255)
        return into & ~mask | source << (at & 255) & mask

    return lanes.pointwise(insert, *_same(forms[:2], width), *forms[2:4], bits=width)


def _lop3(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
    """A table over three operands; `and` and `or` of two may have unknowns."""
    if len(forms) != 4 or not forms[3].uniform:
        return None
    lut = forms[3].lanes[0]
    a, b, c = _same(forms[:3], width)
    pairs = {0xC0: (lanes.bit_and, a, b), 0xA0: (lanes.bit_and, a, c), 0x88: (lanes.bit_and, b, c)}
    pairs |= {0xFC: (lanes.bit_or, a, b), 0xFA: (lanes.bit_or, a, c), 0xEE: (lanes.bit_or, b, c)}
    if lut in pairs:
        join, x, y = pairs[lut]
        return join(x, y)

    def looked_up(x: int, y: int, z: int) -> int:
        rows = (i for i in range(8) if lut >> i & 1)
        return functools.reduce(
            lambda t, i: t | (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z), rows, 0
        )

    return lanes.pointwise(looked_up, a, b, c, bits=width)


def _minmax(pick: Callable[..., int]) -> Callable[[Sequence[str], Sequence[Form], int, Extend], Form | None]:
    def handler(modifiers: Sequence[str], forms: Sequence[Form], width: int, extend: Extend) -> Form | None:
        return lanes.pointwise(pick, *_same(forms[:2], width), signed=_signed(modifiers), bits=width)

    return handler


_HANDLERS: dict[str, Callable[[Sequence[str], Sequence[Form], int, Extend], Form | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _product,
    "mad": _mad,
    "cvt": _cvt,
    "shl": _shl,
    "shr": _shr,
    "and": _logic("and"),
    "or": _logic("or"),
    "xor": _logic("xor"),
    "not": _not,
    "neg": _neg,
    "bfe": _bfe,
    "bfi": _bfi,
    "lop3": _lop3,
    "min": _minmax(min),
    "max": _minmax(max),
}
