"""Where a value comes from: which accumulators and loaded words it depends on, and through which kinds of operation.

One forward pass over a body gives every definition a `Summary` of bit sets over `Leaf`s. Accumulators (results of
an mma) and words loaded from memory are leaves; nothing behind them is followed. `direct` leaves reach the value
without passing a reciprocal or a reciprocal square root: of a normalised value `x * (1/norm(row))` the direct
accumulator is x alone, while `full` holds the whole row. This tells the operand of a norm or a softmax from what it
was reduced with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zluda_rr.ptx import Body, Statement

from .values import Value, Values

E4M3, RELU, TRANSPOSE, SHUFFLE, SELECT, MULTIPLY, ADD, CLAMP, RECIPROCAL, RSQRT, EXPONENT, BITS, OTHER, DECODE = (
    1 << i for i in range(14)
)

_FLAGS = {
    "movmatrix": TRANSPOSE,
    "shfl": SHUFFLE,
    "selp": SELECT,
    "setp": SELECT,
    "mul": MULTIPLY,
    "fma": MULTIPLY | ADD,
    "mad": MULTIPLY | ADD,
    "add": ADD,
    "sub": ADD,
    "neg": ADD,
    "min": CLAMP,
    "max": CLAMP,
    "abs": CLAMP,
    "rcp": RECIPROCAL,
    "div": RECIPROCAL,
    "rsqrt": RSQRT,
    "ex2": EXPONENT,
    "tanh": EXPONENT,
    "and": BITS,
    "or": BITS,
    "xor": BITS,
    "shl": BITS,
    "shr": BITS,
    "bfi": BITS,
    "bfe": BITS,
    "lop3": BITS,
    "prmt": 0,
    "mov": 0,
    "cvta": 0,
}
_STOPS = RECIPROCAL | RSQRT
_FLOATS = frozenset(("f16", "f16x2", "f32", "f64"))
_MEMORY = frozenset(("ld", "ldu", "tex", "tld4", "suld", "atom", "ldmatrix"))
_NUMERIC = frozenset(("mul", "fma", "mad", "add", "sub", "neg", "min", "max"))


class Leaf(NamedTuple):
    """Result `word` of statement `statement`: an accumulator register of an mma or one loaded element."""

    kind: str  # "accumulator" or "load"
    statement: int
    word: int


class Summary(NamedTuple):
    """Leaves as bit sets (bit i = `Origins.leaves[i]`) and operation flags, on direct paths and on all."""

    direct: int
    full: int
    direct_ops: int
    ops: int


EMPTY = Summary(0, 0, 0, 0)


def _merge(a: Summary, b: Summary) -> Summary:
    return Summary(a.direct | b.direct, a.full | b.full, a.direct_ops | b.direct_ops, a.ops | b.ops)


def operation(statement: Statement) -> int:
    """Flags of one statement. Integer arithmetic counts as `BITS`: it can only rearrange or mask a packed value."""
    opcode, modifiers = statement.opcode, statement.modifiers
    if opcode == "cvt":
        if "e4m3x2" not in modifiers:
            return 0
        if modifiers[-1] == "e4m3x2":
            return DECODE
        return RELU if "relu" in modifiers else E4M3
    flags = _FLAGS.get(opcode, OTHER)
    if opcode in _NUMERIC and not _FLOATS.intersection(modifiers):
        return BITS
    return flags


class Origins:
    """Summaries of all definitions of a body."""

    def __init__(self, body: Body, values: Values) -> None:
        self.leaves: list[Leaf] = []
        self._index: dict[Leaf, int] = {}
        self._values = values
        self._seen: int | None = None
        self._table: dict[tuple[int, str], Summary] = {}
        for _ in range(4):  # more than once only where a loop carries a value
            if not self._sweep(body):
                break

    def _sweep(self, body: Body) -> bool:
        """One pass in statement order; whether a pass with other inputs could differ."""
        loops = False
        table = self._table
        for statement in body.statements:
            if statement.instruction is None or not statement.defs:
                continue
            number = statement.number
            if statement.opcode in _MEMORY or statement.opcode == "mma":
                self._leaf(statement)
                continue
            summary = EMPTY
            for register in statement.uses:
                for definition in self._values.reaching(number, register):
                    known = table.get((definition, register))
                    if known is not None:
                        summary = _merge(summary, known)
                    loops |= definition >= number
            summary = self._through(summary, operation(statement))
            for register in statement.defs:
                table[number, register] = summary
        before, after = self._seen, hash(tuple(table.values())) if loops else 0
        self._seen = after
        return loops and before != after

    @staticmethod
    def _through(summary: Summary, flags: int) -> Summary:
        if flags & _STOPS:
            return Summary(0, summary.full, 0, summary.ops | flags)
        if not flags:
            return summary
        return Summary(summary.direct, summary.full, summary.direct_ops | flags, summary.ops | flags)

    def _leaf(self, statement: Statement) -> None:
        kind = "accumulator" if statement.opcode == "mma" else "load"
        for word, register in enumerate(statement.defs):
            bit = 1 << self._number(Leaf(kind, statement.number, word))
            self._table[statement.number, register] = Summary(bit, bit, 0, 0)

    def _number(self, leaf: Leaf) -> int:
        if leaf not in self._index:
            self._index[leaf] = len(self.leaves)
            self.leaves.append(leaf)
        return self._index[leaf]

    def of(self, value: Value) -> Summary:
        """Summary of a value at a use."""
        summary = EMPTY
        for definition in value.defs:
            summary = _merge(summary, self._table.get((definition, value.register), EMPTY))
        return summary

    def expand(self, bits: int) -> Iterator[Leaf]:
        """The leaves of a bit set, in the order in which the body makes them."""
        while bits:
            low = bits & -bits
            yield self.leaves[low.bit_length() - 1]
            bits ^= low
