"""Floating-point values as shared expressions.

One forward pass gives every register the expression it holds. Equal expressions are one node, so "is this value the
activation of x?" is: build the activation of x, compare node numbers. A 32-bit register is looked at in halves (f16x2
arithmetic acts on each half alone), so packing, unpacking and scalar detours leave no trace, and constants are folded
to the bits they have in f16. Accumulators and loaded words are leaves; whatever is not followed (integer arithmetic,
control-flow joins, guarded instructions) is an opaque leaf that remembers its register.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from zluda_rr.ptx import Body, Immediate, Operand, Pair, Register, Statement, Vector

from .values import Values

Node = tuple[Any, ...]
Parts = tuple[int, ...]  # one node for a whole register, two for its halves

_COMMUTATIVE = frozenset(("add", "mul", "max", "min"))
_ARITHMETIC = frozenset(("add", "sub", "mul", "fma", "max", "min", "neg", "abs", "ex2", "rcp", "rsqrt", "div"))
_LEAVES = frozenset(("ld", "ldu", "tex", "suld", "mma", "ldmatrix", "atom"))
_FLOATS = ("f16x2", "f16", "f32")


class Expressions:
    """Expressions of all single definitions of a body. `nodes[i]` is (operator, operand numbers or data...)."""

    def __init__(self, body: Body, values: Values) -> None:
        self.nodes: list[Node] = []
        self._index: dict[Node, int] = {}
        self._table: dict[tuple[int, str], Parts] = {}
        self._body = body
        self._values = values
        for statement in body.statements:
            if statement.defs:
                self._define(statement)

    # --------------------------------------------------------------------------------------------- nodes

    def make(self, operator: str, *operands: Any) -> int:
        """The node of an operator; operands of commutative ones in any order."""
        if operator in _COMMUTATIVE and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        elif operator == "fma" and operands[0] > operands[1]:
            operands = (operands[1], operands[0], operands[2])
        node = (operator, *operands)
        known = self._index.get(node)
        if known is None:
            known = self._index[node] = len(self.nodes)
            self.nodes.append(node)
        return known

    def constant(self, bits: int) -> int:
        """An f16 constant by its bits."""
        return self.make("f16", bits)

    def operator(self, node: int) -> str:
        """First element of a node."""
        return str(self.nodes[node][0])

    def operands(self, node: int) -> tuple[int, ...]:
        """The nodes a node is made of; none for a leaf or a constant."""
        operator, *rest = self.nodes[node]
        if operator in ("acc", "word", "opaque", "f16", "bits"):
            return ()
        if operator in ("half", "trans", "shl", "and", "decode"):
            return (rest[0],)
        if operator == "shfl":
            return (rest[-1],)
        return tuple(rest)

    # --------------------------------------------------------------------------------------------- registers

    def parts(self, statement: int, register: str) -> Parts:
        """What `statement` reads in a register."""
        defs = self._values.reaching(statement, register)
        if len(defs) == 1:
            known = self._table.get((defs[0], register))
            if known is not None:
                return known
        return (self.make("opaque", register, defs),)

    def defined(self, statement: int, register: str) -> Parts:
        """What a definition holds."""
        known = self._table.get((statement, register))
        return known if known is not None else (self.make("opaque", register, (statement,)),)

    def halves(self, parts: Parts) -> Parts:
        """Low and high 16 bits."""
        if len(parts) == 2:
            return parts
        node = self.nodes[parts[0]]
        if node[0] == "bits":
            word = int(node[1])
            return self.constant(word & 0xFFFF), self.constant(word >> 16 & 0xFFFF)
        return self.make("half", parts[0], 0), self.make("half", parts[0], 1)

    def whole(self, parts: Parts) -> int:
        """The register as one node."""
        if len(parts) == 1:
            return parts[0]
        low, high = self.nodes[parts[0]], self.nodes[parts[1]]
        if low[0] == high[0] == "half" and low[1] == high[1] and (low[2], high[2]) == (0, 1):
            return int(low[1])
        return self.make("pack", *parts)

    # --------------------------------------------------------------------------------------------- definitions

    def _define(self, statement: Statement) -> None:
        opcode = statement.opcode
        if opcode in _LEAVES:
            leaf = "acc" if opcode == "mma" else "word"
            for word, register in enumerate(statement.defs):
                self._table[statement.number, register] = (self.make(leaf, statement.number, word),)
            return
        handler = _HANDLERS.get(opcode)
        if handler is None and opcode in _ARITHMETIC:
            handler = Expressions._arithmetic
        if handler is None or statement.guard is not None:
            return
        result = handler(self, statement)
        if result is not None:
            self._table[statement.number, statement.defs[0]] = result

    def _read(self, statement: Statement, operand: Operand) -> Parts:
        if isinstance(operand, Register):
            return self.parts(statement.number, operand.name)
        if isinstance(operand, Immediate):
            return (self.make("bits", operand.value & 0xFFFFFFFF if operand.kind != "f64" else _single(operand.value)),)
        return (self.make("opaque", str(operand), (statement.number,)),)

    def _arithmetic(self, statement: Statement) -> Parts | None:
        kind = next((m for m in reversed(statement.modifiers) if m in _FLOATS), None)
        if kind is None:
            return None
        sources = [self._read(statement, operand) for operand in statement.operands[1:]]
        opcode = statement.opcode
        if kind == "f16x2":
            pairs = [self.halves(parts) for parts in sources]
            return self._fold(opcode, [p[0] for p in pairs]), self._fold(opcode, [p[1] for p in pairs])
        if kind == "f16":
            return (self._fold(opcode, [self._scalar(parts) for parts in sources]),)
        return (self.make(f"{opcode}.f32", *self._sorted(opcode, [self.whole(parts) for parts in sources])),)

    @staticmethod
    def _sorted(opcode: str, nodes: list[int]) -> Iterable[int]:
        return sorted(nodes) if opcode in _COMMUTATIVE else nodes

    def _scalar(self, parts: Parts) -> int:
        node = self.nodes[parts[0]]
        return self.constant(int(node[1])) if node[0] == "bits" else parts[0]

    def _fold(self, opcode: str, nodes: list[int]) -> int:
        node = self.nodes[nodes[0]]
        if opcode == "neg" and node[0] == "f16":
            return self.constant(int(node[1]) ^ 0x8000)
        return self.make(opcode, *nodes)

    def _mov(self, statement: Statement) -> Parts | None:
        target, source = statement.operands
        if isinstance(target, Vector):
            parts = self._read(statement, source)
            if len(target.elements) == 2 and statement.modifiers[-1].endswith("32"):
                for element, half in zip(target.elements, self.halves(parts), strict=True):
                    if isinstance(element, Register):
                        self._table[statement.number, element.name] = (half,)
            return None
        if isinstance(source, Vector):
            if len(source.elements) != 2 or not statement.modifiers[-1].endswith("32"):
                return None
            low, high = (self._scalar(self._read(statement, element)) for element in source.elements)
            whole = self.whole((low, high))
            return (low, high) if self.nodes[whole][0] == "pack" else (whole,)
        if isinstance(source, Register | Immediate):
            return self._read(statement, source)
        return None

    def _cvt(self, statement: Statement) -> Parts | None:
        target, source = statement.modifiers[-2:]
        parts = self._read(statement, statement.operands[1])
        if target == "e4m3x2" and source == "f16x2":
            relu = "relu." if "relu" in statement.modifiers else ""
            return (self.make(relu + "e4m3", *self.halves(parts)),)
        if source == "e4m3x2":
            return self.make("decode", parts[0], 0), self.make("decode", parts[0], 1)
        if target == "f16" and source in ("f32", "f64"):
            node = self.nodes[parts[0]]
            return (self.constant(_half(int(node[1]))) if node[0] == "bits" else self.make("round", parts[0]),)
        if target == "f32" and source == "f16":
            return (self.make("widen", self._scalar(parts)),)
        if target[1:] == "16" and source[1:] == "32" and source[0] in "usb":
            return (self.halves(parts)[0],)
        return None

    def _shfl(self, statement: Statement) -> Parts | None:
        target, source, *rest = statement.operands
        first = target.first if isinstance(target, Pair) else target
        if not isinstance(first, Register):
            return None
        lanes = self._values.form(statement.number, rest[0])
        amount = lanes.lanes[0] if lanes.uniform else f"lanes of s{statement.number}"
        mode = next((m for m in statement.modifiers if m in ("bfly", "up", "down", "idx")), "?")
        parts = self._read(statement, source)
        moved = tuple(self.make("shfl", mode, amount, node) for node in parts)
        self._table[statement.number, first.name] = moved
        return None

    def _movmatrix(self, statement: Statement) -> Parts | None:
        return (self.make("trans", self.whole(self._read(statement, statement.operands[1]))),)

    def _selp(self, statement: Statement) -> Parts | None:
        _, first, second, chosen = statement.operands
        one, other = (self.whole(self._read(statement, operand)) for operand in (first, second))
        return (self.make("select", one, other, self.whole(self._read(statement, chosen))),)

    def _shift(self, statement: Statement) -> Parts | None:
        """`shl.b32` by n; the bits that cross from the low half are only right once they are masked off."""
        _, source, amount = statement.operands
        if not isinstance(amount, Immediate) or statement.modifiers[-1] != "b32" or not 0 < amount.value < 16:
            return None
        low, high = self.halves(self._read(statement, source))
        return self.make("shl", low, amount.value, 0), self.make("shl", high, amount.value, amount.value)

    def _and(self, statement: Statement) -> Parts | None:
        _, source, mask = statement.operands
        if not isinstance(mask, Immediate) or statement.modifiers[-1] != "b32":
            return None
        parts = self._read(statement, source)
        if len(parts) != 2:
            return None
        halves = []
        for node, bits in zip(parts, (mask.value & 0xFFFF, mask.value >> 16 & 0xFFFF), strict=True):
            operator, *rest = self.nodes[node]
            if operator == "shl" and not bits & ((1 << int(rest[2])) - 1):
                node = self.make("shl", rest[0], rest[1], 0)
            halves.append(self.make("and", node, bits))
        return tuple(halves)


_HANDLERS: dict[str, Callable[[Expressions, Statement], Parts | None]] = {
    "mov": Expressions._mov,
    "cvt": Expressions._cvt,
    "shfl": Expressions._shfl,
    "movmatrix": Expressions._movmatrix,
    "selp": Expressions._selp,
    "shl": Expressions._shift,
    "and": Expressions._and,
}


def _single(bits: int) -> int:
    """The f32 nearest to an f64: exact for the constants that end in an f16."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0]))[0])
    except OverflowError:
        return 0x7F800000 | bits >> 63 << 31


def _half(bits: int) -> int:
    """The f16 nearest to an f32."""
    try:
        return int(struct.unpack("<H", struct.pack("<e", struct.unpack("<f", struct.pack("<I", bits))[0]))[0])
    except OverflowError:
        return 0x7C00 | bits >> 31 << 15
