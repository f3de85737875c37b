"""Canonical terms of registers: what a value is, down to accumulators, loaded words and parameters.

Copies, packing, unpacking and scoped temporaries leave no trace; f16x2 instructions are their two halves. What has
no rule becomes an opaque term of its own statement, which equals nothing else: a comparison with a contract then
fails, it never passes by mistake.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import numpy as np

from zluda_rr.ptx import Address, Body, Immediate, Operand, Register, Statement, Symbol, Vector

from .lanes import LANES
from .terms import Term, Terms
from .values import Value, Values, element_bytes

Accumulators = Mapping[tuple[int, str], tuple[int, int, int, int]]
_BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16}
_BITS |= {"b64": 64, "u64": 64, "s64": 64, "f64": 64}
_HALF = ("f16", "f16x2")
_FLOATS = (*_HALF, "f32", "f64", "bf16", "bf16x2")
_COMMUTATIVE = ("add", "mul", "min", "max", "fma")
_IGNORED = ("rn", "sync", "aligned")


class Canonical:
    """Terms of one body. `cells` names the accumulators that are leaves, by (statement, register): phase, m-tile, half,
    n-tile. `arrays` gives the contract's name of a shared variable, `weights` is the parameter offset of the weight
    image's pointer.
    """

    def __init__(
        self, body: Body, values: Values, cells: Accumulators, arrays: Mapping[str, str], weights: int
    ) -> None:
        self.terms = Terms()
        self._body = body
        self._values = values
        self._cells = cells
        self._arrays = arrays
        self._weights = weights
        self._memo: dict[tuple[int, str], Term] = {}
        self._active: set[tuple[int, str]] = set()

    def of(self, value: Value) -> Term:
        """Term of a value at a use."""
        found = {self._defined(number, value.register) for number in value.defs}
        return found.pop() if len(found) == 1 else self._opaque(value.register, value.defs)

    def register(self, statement: int, name: str) -> Term:
        """Term of a register as `statement` reads it."""
        if name not in self._body.registers:
            return self._special(name)
        return self.of(Value(name, self._values.reaching(statement, name)))

    def operand(self, statement: Statement, operand: Operand, bits: int) -> Term:
        """Term of an operand."""
        if isinstance(operand, Immediate):
            return self.terms.constant(operand.value, bits)
        if isinstance(operand, Register):
            return self.register(statement.number, operand.name)
        if isinstance(operand, Symbol):
            if operand.name == "WARP_SZ":
                return self.terms.constant(LANES, bits)
            form = self._values.form(statement.number, operand)
            return self._form(form.lanes, form.terms, 64)
        return self._opaque("operand", (statement.number,))

    def address(self, statement: Statement) -> Term:
        """Term of the address of a memory instruction, 64 bits."""
        place = next(o for o in statement.operands if isinstance(o, Address))
        offset = self.terms.constant(place.offset, 64)
        if place.base is None:
            return offset
        return self.terms.add(self.operand(statement, place.base, 64), offset, 64)

    def _form(self, lanes: tuple[int, ...], terms: object, bits: int) -> Term:
        total = self.terms.known(lanes, bits)
        for atom, coefficient in terms:  # type: ignore[attr-defined]
            name = self.terms.make("special", atom.kind, self._arrays.get(atom.name, atom.name))
            scaled = self.terms.multiply(name, self.terms.constant(coefficient, bits), bits)
            total = self.terms.add(total, scaled, bits)
        return total

    def _opaque(self, name: str, defs: tuple[int, ...]) -> Term:
        return self.terms.make("unknown", name, defs)

    def _special(self, name: str) -> Term:
        if name == "%laneid":
            return self.terms.known(range(LANES), 32)
        return self.terms.make("special", name)

    # ------------------------------------------------------------------------------------------------- definitions

    def _defined(self, number: int, register: str) -> Term:
        key = (number, register)
        known = self._memo.get(key)
        if known is not None:
            return known
        if key in self._active:
            return self._opaque(register, (number,))
        self._active.add(key)
        try:
            found = self._compute(self._body[number], register)
        finally:
            self._active.discard(key)
        self._memo[key] = found if found is not None else self._opaque(register, (number,))
        return self._memo[key]

    def _width(self, register: str) -> int:
        return _BITS.get(self._body.registers.get(register, "b32"), 32)

    def _compute(self, statement: Statement, register: str) -> Term | None:
        cell = self._cells.get((statement.number, register))
        if cell is not None:
            return self.terms.make("D", *cell)
        if statement.guard is not None or statement.opcode == "mma" or not statement.known:
            return None
        if statement.opcode in ("ld", "ldu"):
            return self._loaded(statement, register)
        if statement.opcode in ("mov", "cvta"):
            return self._moved(statement, register)
        handler = _HANDLERS.get(statement.opcode)
        if handler is not None:
            return handler(self, statement, register)
        return None

    def _sources(self, statement: Statement, bits: int) -> list[Term]:
        return [self.operand(statement, operand, bits) for operand in statement.operands[1:]]

    # ------------------------------------------------------------------------------------------------- moves, loads

    def _moved(self, statement: Statement, register: str) -> Term | None:
        target, source = statement.operands[:2]
        terms = self.terms
        if isinstance(target, Vector):
            if len(target.elements) != 2 or self._width(register) != 16:
                return None
            names = [e.name if isinstance(e, Register) else "_" for e in target.elements]
            return terms.half(self.operand(statement, source, 32), names.index(register))
        if isinstance(source, Vector):
            if len(source.elements) != 2 or self._width(register) != 32:
                return None
            low, high = (self.operand(statement, part, 16) for part in source.elements)
            return terms.pair(low, high)
        return self.operand(statement, source, self._width(register))

    def _loaded(self, statement: Statement, register: str) -> Term | None:
        access = self._values.access(statement)
        target = statement.operands[0]
        if access is None:
            return None
        names = [target] if not isinstance(target, Vector) else target.elements
        position = [e.name if isinstance(e, Register) else "_" for e in names].index(register)
        size = element_bytes(statement)
        if access.root is None or not access.exact:
            return None
        offsets = tuple(o + size * position for o in access.offset.signed())
        if access.root.kind == "block":
            return self.terms.make("param", offsets[0], size) if len(set(offsets)) == 1 else None
        if access.root.kind == "shared" and access.root.name in self._arrays:
            return self.terms.make("shared", self._arrays[access.root.name], size, offsets)
        if access.root.kind == "parameter" and access.root.number == self._weights and size in (2, 4):
            halves = [self.terms.make("W", tuple(o + at for o in offsets)) for at in range(0, size, 2)]
            return halves[0] if size == 2 else self.terms.pair(*halves)
        return None

    # ------------------------------------------------------------------------------------------------- arithmetic

    def _arithmetic(self, statement: Statement, register: str) -> Term | None:
        if any(m in _FLOATS for m in statement.modifiers):
            return self._floating(statement, register)
        return self._integer(statement)

    def _floating(self, statement: Statement, register: str) -> Term | None:
        kind = next(m for m in statement.modifiers if m in _FLOATS)
        if kind.startswith("bf16"):
            return None
        rest = [m for m in statement.modifiers if m not in _IGNORED and m != kind]
        operation = ".".join([statement.opcode, *rest])
        if kind in _HALF:
            words = self._sources(statement, 32 if kind == "f16x2" else 16)
            if kind == "f16":
                return self._half_operation(statement.opcode, operation, words)
            low, high = (
                self._half_operation(statement.opcode, operation, [self.terms.half(w, i) for w in words])
                for i in (0, 1)
            )
            return self.terms.pair(low, high)
        sources = self._sources(statement, self._width(register))
        return self._operation(statement.opcode, f"{operation}.{kind}", sources)

    def _half_operation(self, opcode: str, operation: str, sources: list[Term]) -> Term:
        value = self.terms.uniform(sources[0]) if opcode in ("neg", "abs") else None
        if value is not None:
            return self.terms.constant(value ^ 0x8000 if opcode == "neg" else value & 0x7FFF, 16)
        return self._operation(opcode, f"{operation}.f16", sources)

    def _operation(self, opcode: str, operation: str, sources: list[Term]) -> Term:
        if opcode in _COMMUTATIVE:
            return self.terms.commutative(operation, sources[:2], *sources[2:])
        return self.terms.make(operation, *sources)

    def _integer(self, statement: Statement) -> Term | None:
        kind = statement.modifiers[-1]
        bits = int(kind[1:])
        terms = self.terms
        if statement.opcode in ("add", "sub") and len(statement.modifiers) == 1:
            a, b = self._sources(statement, bits)
            return terms.add(a, b, bits, 1 if statement.opcode == "add" else -1)
        if statement.opcode in ("mul", "mad") and statement.modifiers[0] in ("lo", "wide"):
            wide = 2 * bits if statement.modifiers[0] == "wide" else bits
            a, b = (self.operand(statement, o, bits) for o in statement.operands[1:3])
            if wide != bits:
                a, b = (terms.resized(x, bits, wide, kind.startswith("s")) for x in (a, b))
            product = terms.multiply(a, b, wide)
            addend = [self.operand(statement, o, wide) for o in statement.operands[3:]]
            return terms.add(product, addend[0], wide) if addend else product
        if statement.opcode == "neg":
            return terms.add(terms.constant(0, bits), self._sources(statement, bits)[0], bits, -1)
        if statement.opcode in ("min", "max"):
            return terms.commutative(f"{statement.opcode}.{kind}", self._sources(statement, bits))
        return None

    def _cvt(self, statement: Statement, register: str) -> Term | None:
        target, source = statement.modifiers[-2:]
        if target == "e4m3x2" and source == "f16x2":
            (word,) = self._sources(statement, 32)
            relu = ".relu" if "relu" in statement.modifiers else ""
            return self.terms.make(f"e4m3x2{relu}", self.terms.half(word, 0), self.terms.half(word, 1))
        bits = {"e4m3x2": 16, "f16x2": 32}.get(source, int(source[1:]) if source[1:].isdigit() else 0)
        if not bits:
            return None
        (term,) = self._sources(statement, bits)
        if target[1:].isdigit() and source[0] in "sub" and target[0] in "sub":
            return self._resize(statement, target, source, term)
        value = self.terms.uniform(term)
        if target == "f16" and source in ("f32", "f64") and value is not None and "rn" in statement.modifiers:
            return self.terms.constant(_to_half(value, source), 16)
        rounding = [m for m in statement.modifiers[:-2] if m != "rn"]
        return self.terms.make(".".join(["cvt", *rounding, target, source]), term)

    def _resize(self, statement: Statement, target: str, source: str, term: Term) -> Term | None:
        (operand,) = statement.operands[1:]
        held = self._width(operand.name) if isinstance(operand, Register) else int(source[1:])
        if "sat" in statement.modifiers or held < int(source[1:]):
            return None
        narrow = self.terms.resized(term, held, int(source[1:]), False)
        return self.terms.resized(narrow, int(source[1:]), int(target[1:]), source.startswith("s"))

    # ------------------------------------------------------------------------------------------------- bits

    def _logic(self, statement: Statement, register: str) -> Term | None:
        opcode, kind = statement.opcode, statement.modifiers[-1]
        terms = self.terms
        if kind == "pred":
            sources = self._sources(statement, 1)
            if opcode == "or":
                return terms.disjunction(sources)
            if opcode == "and":
                return terms.negation(terms.disjunction(map(terms.negation, sources)))
            return terms.negation(sources[0]) if opcode == "not" else terms.commutative("xor.pred", sources)
        bits = int(kind[1:])
        sources = self._sources(statement, bits)
        operation = _POINTWISE[opcode]
        known = terms.pointwise(operation, sources, bits)
        if known is not None:
            return known
        if opcode == "or":
            total = terms.disjoint_or(sources[0], sources[1], bits)
            if total is not None:
                return total
        return terms.commutative(f"{opcode}.{bits}", sources)

    def _shift(self, statement: Statement, register: str) -> Term | None:
        kind = statement.modifiers[-1]
        bits, signed = int(kind[1:]), kind.startswith("s")
        value = self.operand(statement, statement.operands[1], bits)
        count = self.operand(statement, statement.operands[2], 32)
        amount = self.terms.uniform(count)
        if statement.opcode == "shl" and amount is not None and amount < bits:
            return self.terms.multiply(value, self.terms.constant(1 << amount, bits), bits)
        full = (1 << bits) - 1

        def shifted(x: int, n: int) -> int:
            wide = x - full - 1 if signed and x >> (bits - 1) else x
            return x << min(n, bits) if statement.opcode == "shl" else wide >> min(n, bits)

        known = self.terms.pointwise(shifted, (value, count), bits)
        return known if known is not None else self.terms.make(f"{statement.opcode}.{kind}", value, count)

    def _bfi(self, statement: Statement, register: str) -> Term | None:
        bits = int(statement.modifiers[-1][1:])
        source, into = (self.operand(statement, o, bits) for o in statement.operands[1:3])
        at, count = (self.terms.uniform(self.operand(statement, o, 32)) for o in statement.operands[3:5])
        if at is None or count is None:
            return None
        mask = ((1 << count) - 1) << at & (1 << bits) - 1
        known = self.terms.pointwise(lambda s, i: i & ~mask | s << at & mask, (source, into), bits)
        below = self.terms.lanes(into)
        if known is None and below is not None and max(below) < 1 << at and at + count >= bits:
            moved = self.terms.multiply(source, self.terms.constant(1 << at, bits), bits)
            return self.terms.add(moved, into, bits)
        return known

    # ------------------------------------------------------------------------------------------------- predicates

    def _setp(self, statement: Statement, register: str) -> Term | None:
        relation, kind = statement.modifiers[0], statement.modifiers[-1]
        if len(statement.modifiers) != 2 or kind[0] not in "sub" or len(statement.operands) != 3:
            return None
        bits = int(kind[1:])
        a, b = self._sources(statement, bits)
        return self.terms.compare(relation, kind, a, b, bits)

    def _selp(self, statement: Statement, register: str) -> Term | None:
        bits = self._width(register)
        yes, no = (self.operand(statement, o, bits) for o in statement.operands[1:3])
        return self.terms.select(yes, no, self.operand(statement, statement.operands[3], 1))

    def _shfl(self, statement: Statement, register: str) -> Term | None:
        _, *sources = statement.operands
        words = [self.operand(statement, operand, 32) for operand in sources]
        mode = next(m for m in statement.modifiers if m in ("up", "down", "bfly", "idx"))
        part = "" if register == statement.defs[0] else ".inside"
        return self.terms.make(f"shfl.{mode}{part}", *words)

    def _movmatrix(self, statement: Statement, register: str) -> Term | None:
        (word,) = self._sources(statement, 32)
        rest = [m for m in statement.modifiers if m not in _IGNORED]
        return self.terms.make(".".join(["movmatrix", *rest]), word)


def _to_half(bits: int, kind: str) -> int:
    packed = bits.to_bytes(8, "little")[: 4 if kind == "f32" else 8]
    (value,) = struct.unpack("<f" if kind == "f32" else "<d", packed)
    with np.errstate(over="ignore"):
        return int(np.float64(value).astype(np.float16).view(np.uint16))


_POINTWISE: dict[str, Callable[..., int]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: ~x,
}
_HANDLERS: dict[str, Callable[[Canonical, Statement, str], Term | None]] = {
    **dict.fromkeys(("add", "sub", "mul", "mad", "fma", "neg", "abs", "min", "max"), Canonical._arithmetic),
    **dict.fromkeys(("rcp", "rsqrt", "sqrt", "ex2", "lg2", "div", "tanh"), Canonical._floating),
    **dict.fromkeys(("and", "or", "xor", "not"), Canonical._logic),
    **dict.fromkeys(("shl", "shr"), Canonical._shift),
    "bfi": Canonical._bfi,
    "cvt": Canonical._cvt,
    "setp": Canonical._setp,
    "selp": Canonical._selp,
    "shfl": Canonical._shfl,
    "movmatrix": Canonical._movmatrix,
}
