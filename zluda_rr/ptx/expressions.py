"""Constant expressions: from `(3+4*2)<<1` to `22`, so that everything after the parser meets plain constants only.

Types and rules are those of the PTX ISA (4.5.4 to 4.5.6), and where it leaves room, those of ptxas 13: tests/ptx/probes
holds what it made of each expression. Integers are .s64 or .u64; remainders and `~` are .u64, comparisons and `!` .s64,
a shift has the type of its left side and counts modulo 64, `?:` has the type of the side that is taken.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from .constants import immediate

_WARP_SIZE = 32
_DEEPEST = 200
"""Expressions inside one another; a deeper one is left alone."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A value: `.s64` or `.u64` bits, kept in 0 to 2**64 - 1, or a double."""

    bits: int
    unsigned: bool = False
    real: float | None = None

    @property
    def integer(self) -> int:
        """As its own type says."""
        return self.bits if self.unsigned or self.bits >> 63 == 0 else self.bits - (1 << 64)

    def spelling(self) -> str:
        """A constant of PTX with these bits: signed decimal, or the bits of a double."""
        if self.real is not None:
            return f"0d{struct.unpack('<Q', struct.pack('<d', self.real))[0]:016X}"
        return str(Constant(self.bits).integer)


class Unfoldable(Exception):  # noqa: N818 - no error: the text stays as it is
    """An operand list without a meaning here."""


class NoList(Unfoldable):
    """A text that is no operand list at all."""


@cache
def expression_parser() -> Lark:
    """The parser of constants.lark; its start rule is a list of operands."""
    text = files(__package__).joinpath("constants.lark").read_text(encoding="utf-8")
    options = {"maybe_placeholders": False, "propagate_positions": True, "g_regex_flags": re.ASCII}
    return Lark(text, parser="lalr", start="list", **options)


ExpressionTree = Tree[Token]


def parse_list(text: str) -> ExpressionTree:
    """The tree of an operand list or an initialiser. Raises NoList where it is none."""
    try:
        return expression_parser().parse(text)
    except UnexpectedInput as error:
        raise NoList(str(error)) from None


def fold_operands(text: str, *, groups: bool) -> str:
    """Operands with every constant expression as one constant, `name+1+2` as `name+3`.

    `groups`: parentheses outside everything else are those of a call. Raises Unfoldable for a text that is no operand
    list or that divides by zero.
    """
    edits: list[tuple[int, int, str]] = []
    tree = parse_list(text)
    for item in _trees(tree):
        if groups and item.data == "round":
            for inner in _trees(_trees(item)[0]):
                _collect(inner, edits, 0)
        else:
            _collect(item, edits, 0)
    for start, end, spelling in sorted(edits, reverse=True):
        text = text[:start] + spelling + text[end:]
    return text


def _trees(tree: ExpressionTree) -> list[ExpressionTree]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _collect(tree: ExpressionTree, edits: list[tuple[int, int, str]], depth: int) -> None:
    if depth > _DEEPEST:
        raise Unfoldable("nested too deep")
    value = evaluate(tree, depth)
    if value is not None:
        if tree.data not in ("number", "float"):
            edits.append((tree.meta.start_pos, tree.meta.end_pos, value.spelling()))
        return
    offset = _offset(tree, depth) if tree.data == "sum" else None
    if offset is not None:
        edits.append((_trees(tree)[0].meta.end_pos, tree.meta.end_pos, f"+{offset}"))
        return
    for child in _trees(tree):
        _collect(child, edits, depth + 1)


def _offset(tree: ExpressionTree, depth: int) -> int | None:
    """What is added to the name that a sum begins with."""
    first, *rest = _trees(tree)
    values = [evaluate(child, depth + 1) for child in rest]
    if first.data != "word" or any(value is None or value.real is not None for value in values):
        return None
    signs = [1 if token == "+" else -1 for token in tree.children if isinstance(token, Token)]
    total = sum(sign * value.bits for sign, value in zip(signs, values, strict=True) if value is not None)
    return Constant(total & _MASK).integer


# ----------------------------------------------------------------------------------------------------------- evaluation


def evaluate(tree: ExpressionTree, depth: int = 0) -> Constant | None:
    """The value, None where a name or register takes part. Raises Unfoldable."""
    if depth > _DEEPEST:
        raise Unfoldable("nested too deep")
    rule = _RULES.get(str(tree.data))
    return None if rule is None else rule(tree, depth + 1)


def _number(tree: ExpressionTree, depth: int) -> Constant:
    text = str(tree.children[0])
    value = immediate(text).value
    if value > _MASK:
        raise Unfoldable("constant overflow")
    return Constant(value, unsigned=text.endswith("U") or value >> 63 == 1)


def _float(tree: ExpressionTree, depth: int) -> Constant | None:
    found = immediate(str(tree.children[0]))
    if found.kind == "f32":  # no sign or operator may stand at it
        return None
    return Constant(0, real=struct.unpack("<d", struct.pack("<Q", found.value))[0])


def _word(tree: ExpressionTree, depth: int) -> Constant | None:
    return Constant(_WARP_SIZE) if tree.children[0] == "WARP_SZ" else None


def _round(tree: ExpressionTree, depth: int) -> Constant | None:
    items = _trees(_trees(tree)[0])
    return evaluate(items[0], depth) if len(items) == 1 else None


def _signed(tree: ExpressionTree, depth: int) -> Constant | None:
    sign, inner = tree.children
    value = evaluate(inner, depth) if isinstance(inner, Tree) else None
    if value is None:
        return None
    if value.real is not None:
        if sign in ("!", "~"):
            raise Unfoldable("integer constant expected")
        return Constant(0, real=-value.real if sign == "-" else value.real)
    if sign == "!":
        return Constant(int(value.bits == 0))
    if sign == "~":
        return Constant(value.bits ^ _MASK, unsigned=True)
    return Constant(-value.bits & _MASK, value.unsigned) if sign == "-" else value


def _cast(tree: ExpressionTree, depth: int) -> Constant | None:
    kind, inner = tree.children
    value = evaluate(inner, depth) if isinstance(inner, Tree) else None
    if value is None:
        return None
    _whole(value)
    return Constant(value.bits, unsigned=kind == ".u64")


def _choice(tree: ExpressionTree, depth: int) -> Constant | None:
    values = [evaluate(child, depth) for child in _trees(tree)]
    if any(value is None for value in values):
        return None
    condition, first, second = (value for value in values if value is not None)
    return first if _whole(condition).bits else second


def _chain(tree: ExpressionTree, depth: int) -> Constant | None:
    """Operators of one precedence, from the left."""
    values = [evaluate(child, depth) for child in _trees(tree)]
    result, *rest = values
    if any(value is None for value in values) or result is None:
        return None
    words = [str(token) for token in tree.children if isinstance(token, Token)]
    words = words or [_SILENT[str(tree.data)]] * len(rest)
    for word, value in zip(words, rest, strict=True):
        if value is not None:
            result = _apply(word, result, value)
    return result


# Operators that are one string each leave no token in the tree.
_SILENT = {"either": "||", "both": "&&", "bits": "|", "odd": "^", "common": "&"}


def _apply(word: str, left: Constant, right: Constant) -> Constant:
    if left.real is not None and right.real is not None and word in _REAL:
        return Constant(0, real=_REAL[word](left.real, right.real))
    _whole(left), _whole(right)
    unsigned = left.unsigned or right.unsigned
    if word in _COMPARE:
        a, b = (left.bits, right.bits) if unsigned else (left.integer, right.integer)
        return Constant(int(_COMPARE[word](a, b)))
    if word in ("&&", "||"):
        both = bool(left.bits), bool(right.bits)
        return Constant(int(all(both) if word == "&&" else any(both)))
    if word in ("<<", ">>"):
        count = right.bits & 63
        shifted = left.bits << count if word == "<<" else left.integer >> count
        return Constant(shifted & _MASK, left.unsigned)
    if word in ("/", "%"):
        return _divide(word, left, right, unsigned)
    return Constant(_MODULO[word](left.bits, right.bits) & _MASK, unsigned)


def _divide(word: str, left: Constant, right: Constant, unsigned: bool) -> Constant:
    if right.bits == 0:
        raise Unfoldable("division by zero")
    if word == "%":
        return Constant(left.bits % right.bits, unsigned=True)
    if unsigned:
        return Constant(left.bits // right.bits, unsigned=True)
    quotient = abs(left.integer) // abs(right.integer)
    return Constant((quotient if (left.integer < 0) == (right.integer < 0) else -quotient) & _MASK)


def _whole(value: Constant) -> Constant:
    if value.real is not None:
        raise Unfoldable("integer constant expected")
    return value


_REAL: Mapping[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MODULO: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_RULES: Mapping[str, Callable[[ExpressionTree, int], Constant | None]] = {
    "number": _number,
    "float": _float,
    "word": _word,
    "round": _round,
    "signed": _signed,
    "cast": _cast,
    "choice": _choice,
    **dict.fromkeys(("either", "both", "bits", "odd", "common", "equal", "order", "shift", "sum", "product"), _chain),
}
