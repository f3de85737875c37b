"""Canonical terms of registers: what a value is, down to accumulators, loaded words and parameters.

Copies, packing, unpacking and scoped temporaries leave no trace; f16x2 instructions are their two halves. What has
no rule becomes an opaque term of its own statement, which equals nothing else: a comparison with a contract then
fails, it never passes by mistake.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, MutableMapping, Sequence

import numpy as np

from zluda_rr.ptx import Address, Body, Immediate, Negated, Operand, Register, Statement, Symbol, Vector

from .lanes import LANES, Atom
from .predicated import predicated
from .terms import COMMUTATIVE, Term, Terms
from .values import Value, Values, element_bytes, f32_bits

Accumulators = MutableMapping[tuple[int, str], Term]
_BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16}
_BITS |= {"b64": 64, "u64": 64, "s64": 64, "f64": 64}
_HALF = ("f16", "f16x2")
_FLOATS = (*_HALF, "f32", "f64", "bf16", "bf16x2")
_IGNORED = ("rn", "sync", "aligned")


class Canonical:
    """Terms of one body. `cells` has the terms of accumulators by (statement, register); more may be named while values
    that do not depend on them are asked for. `weights` is the parameter offset of the weight image's pointer. `block`
    is the launch's: with 32 threads along x `%tid.x` is the lane index.
    """

    def __init__(
        self, body: Body, values: Values, terms: Terms, weights: int, block: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        self.terms = terms
        self.cells: Accumulators = {}
        self.origin: dict[Term, int] = {}
        """The first statement that computes a term, for reports."""
        self._body = body
        self._values = values
        self._weights = weights
        self._block = block
        self._memo: dict[tuple[int, str], Term] = {}
        self._active: set[tuple[int, str]] = set()

    def fresh(self) -> Canonical:
        """The same body and terms with no accumulator named and nothing computed yet."""
        return Canonical(self._body, self._values, self.terms, self._weights, self._block)

    def of(self, value: Value) -> Term:
        """Term of a value at a use."""
        found = {self._defined(number, value.register) for number in value.defs}
        if len(found) == 1:
            return found.pop()
        chosen = predicated(self._body, value.defs)
        return self._opaque(value.register, value.defs) if chosen is None else self._select(value.register, chosen)

    def _select(self, register: str, chosen: Sequence[int]) -> Term:
        """A register that predicated statements may each have written anew."""
        term = self._defined(chosen[0], register)
        for number in chosen[1:]:
            statement = self._body[number]
            assert statement.guard is not None
            condition = self.register(number, statement.guard.register)
            other = self._unguarded(statement, register)
            yes, no = (term, other) if statement.guard.negated else (other, term)
            term = self.terms.select(yes, no, condition)
        return term

    def register(self, statement: int, name: str) -> Term:
        """Term of a register as `statement` reads it."""
        if name not in self._body.registers:
            return self._special(name)
        return self.of(Value(name, self._values.reaching(statement, name)))

    def operand(self, statement: Statement, operand: Operand, bits: int) -> Term:
        """Term of an operand."""
        if isinstance(operand, Immediate):
            return self.terms.constant(self._bits(statement, operand), bits)
        if isinstance(operand, Register):
            return self.register(statement.number, operand.name)
        if isinstance(operand, Symbol):
            if operand.name == "WARP_SZ":
                return self.terms.constant(LANES, bits)
            form = self._values.form(statement.number, operand)
            return self._form(form.lanes, form.terms, 64)
        if isinstance(operand, Vector):
            return self._joined(statement, operand, bits)
        if isinstance(operand, Negated):
            return self.terms.negation(self.operand(statement, operand.operand, 1))
        return self._opaque("operand", (statement.number,))

    @staticmethod
    def _bits(statement: Statement, operand: Immediate) -> int:
        """A constant's bits: `1.5` and `0d…` are doubles, whatever type the instruction makes of them."""
        kinds = [m for m in statement.modifiers if m in _FLOATS]
        if operand.kind == "f64" and "f32" in kinds:
            return f32_bits(operand.value)
        return operand.value

    def halves(self, statement: Statement, operand: Operand, nbytes: int) -> list[Term] | None:
        """What a store of elements of `nbytes` writes, 16 bits at a time in ascending order; None: in other pieces."""
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        found: list[Term] = []
        for element in elements:
            term = self.operand(statement, element, 8 * nbytes)
            if isinstance(element, Register) and self._width(element.name) > 8 * nbytes:
                term = self.terms.resized(term, self._width(element.name), 8 * nbytes, False)
            words = {2: None, 4: [term], 8: self._words(term)}.get(nbytes, [])
            if words == []:
                return None
            found += [term] if words is None else [self.terms.half(w, i) for w in words for i in (0, 1)]
        return found

    def _words(self, term: Term) -> list[Term]:
        """The two 32-bit words of 64 bits."""
        content = self.terms.table[term]
        if content[0] == "wide":
            return [t for t in content[1:] if isinstance(t, Term)]
        low = self.terms.resized(term, 64, 32, False)
        if content[0] == "param" and content[2] == 8:
            return [low, self.terms.make("param", int(str(content[1])) + 4, 4)]
        return [low, self.terms.make("high", term)]

    def _joined(self, statement: Statement, parts: Vector, bits: int) -> Term:
        """`{a, b}` as one value, the first element in the low bits."""
        if len(parts.elements) == 2 and bits in (32, 64):
            low, high = (self.operand(statement, part, bits // 2) for part in parts.elements)
            return self.terms.pair(low, high) if bits == 32 else self.terms.make("wide", low, high)
        return self._opaque("vector", (statement.number,))

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
            name = self.terms.make("special", atom.kind, atom.name)
            scaled = self.terms.multiply(name, self.terms.constant(coefficient, bits), bits)
            total = self.terms.add(total, scaled, bits)
        return total

    def _opaque(self, name: str, defs: tuple[int, ...]) -> Term:
        return self.terms.make("unknown", name, defs)

    def _special(self, name: str) -> Term:
        if name == "%laneid" or (name == "%tid.x" and self._block[0] == LANES):
            return self.terms.known(range(LANES), 32)
        if name in ("%tid.y", "%tid.z") and self._block["xyz".index(name[-1])] == 1:
            return self.terms.constant(0, 32)
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
        term = self._memo[key] = found if found is not None else self._opaque(register, (number,))
        self.origin.setdefault(term, number)
        return term

    def _width(self, register: str) -> int:
        return _BITS.get(self._body.registers.get(register, "b32"), 32)

    def _compute(self, statement: Statement, register: str) -> Term | None:
        cell = self.cells.get((statement.number, register))
        if cell is not None:
            return cell
        if statement.guard is not None or statement.opcode == "mma" or not statement.known:
            return None
        if statement.opcode in ("ld", "ldu"):
            return self._loaded(statement, register)
        return self._result(statement, register)

    def _unguarded(self, statement: Statement, register: str) -> Term:
        """What a predicated statement writes where it does."""
        found = self._result(statement, register) if statement.known else None
        return self._opaque(register, (statement.number,)) if found is None else found

    def _result(self, statement: Statement, register: str) -> Term | None:
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
        width = self._width(register)
        if not isinstance(target, Vector):
            return self.operand(statement, source, width)
        if len(target.elements) != 2 or width not in (16, 32):
            return None
        index = [e.name if isinstance(e, Register) else "_" for e in target.elements].index(register)
        whole = self.operand(statement, source, 2 * width)
        return self.terms.half(whole, index) if width == 16 else self._words(whole)[index]

    def _loaded(self, statement: Statement, register: str) -> Term | None:
        access = self._values.access(statement)
        target = statement.operands[0]
        if access is None:
            return None
        names = [target] if not isinstance(target, Vector) else target.elements
        position = [e.name if isinstance(e, Register) else "_" for e in names].index(register)
        size = element_bytes(statement)
        if access.root is None:
            return None
        if not access.exact or (access.root.kind == "parameter" and access.root.number != self._weights):
            return self._buffer_word(statement, access.root, position, size, self._width(register))
        offsets = tuple(o + size * position for o in access.offset.signed())
        if access.root.kind == "block":
            if len(set(offsets)) != 1:
                return None
            return self._extended(statement, self.terms.make("param", offsets[0], size), size, register)
        if access.root.kind != "parameter" or access.root.number != self._weights or size not in (2, 4, 8):
            return None
        halves = [self.terms.make("W", tuple(o + at for o in offsets)) for at in range(0, size, 2)]
        words = [self.terms.pair(*halves[i : i + 2]) for i in range(0, len(halves) - 1, 2)]
        term = self.terms.make("wide", *words) if size == 8 else (words or halves)[0]
        return self._extended(statement, term, size, register)

    def _extended(self, statement: Statement, term: Term, size: int, register: str) -> Term | None:
        """A loaded value in its register, which may be wider."""
        held = self._width(register)
        signed = statement.modifiers[-1].startswith("s")
        return None if held < 8 * size else self.terms.resized(term, 8 * size, held, signed)

    def _buffer_word(self, statement: Statement, root: Atom, position: int, size: int, held: int) -> Term | None:
        """What a plain load reads from another buffer: the word at an address, since the kernel only reads it."""
        plain = statement.opcode == "ld" and "volatile" not in statement.modifiers
        if root.kind != "parameter" or held != 8 * size or not plain:
            return None
        return self.terms.make("load", root.number, size, self.address(statement), position)

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
                return self.terms.half_operation(statement.opcode, operation, words)
            low, high = (
                self.terms.half_operation(statement.opcode, operation, [self.terms.half(w, i) for w in words])
                for i in (0, 1)
            )
            return self.terms.pair(low, high)
        sources = self._sources(statement, self._width(register))
        return self._operation(statement.opcode, f"{operation}.{kind}", sources)

    def _operation(self, opcode: str, operation: str, sources: list[Term]) -> Term:
        if opcode in COMMUTATIVE:
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
        if opcode == "not":
            return terms.bitwise("xor", sources[0], terms.constant(-1, bits), bits)
        return terms.bitwise(opcode, sources[0], sources[1], bits)

    def _lop3(self, statement: Statement, register: str) -> Term | None:
        """A table over three operands, as a sum of products of those that are masks; None where it is another."""
        *sources, table = (self.operand(statement, o, 32) for o in statement.operands[1:5])
        lut = self.terms.uniform(table)
        if lut is None or "pred" in statement.modifiers or len(statement.operands) != 5:
            return None
        return lookup(self.terms, sources, lut & 0xFF)

    def _shift(self, statement: Statement, register: str) -> Term | None:
        kind = statement.modifiers[-1]
        bits, signed = int(kind[1:]), kind.startswith("s")
        value = self.operand(statement, statement.operands[1], bits)
        count = self.operand(statement, statement.operands[2], 32)
        return self.terms.shifted(statement.opcode, value, count, bits, signed)

    def _bfe(self, statement: Statement, register: str) -> Term | None:
        bits = int(statement.modifiers[-1][1:])
        value = self.operand(statement, statement.operands[1], bits)
        at, count = (self.operand(statement, o, 32) for o in statement.operands[2:4])
        width, first = self.terms.uniform(count), self.terms.uniform(at)
        if width is None or first is None or not statement.modifiers[-1].startswith("u") or first + width > bits:
            return None
        moved = self.terms.shifted("shr", value, at, bits, False)
        return self.terms.bitwise("and", moved, self.terms.constant((1 << width) - 1, bits), bits)

    def _prmt(self, statement: Statement, register: str) -> Term | None:
        """Bytes chosen from two words, where they are whole halves."""
        low, high, choice = (self.operand(statement, o, 32) for o in statement.operands[1:4])
        selector = self.terms.uniform(choice)
        halves = {0x10: (low, 0), 0x32: (low, 1), 0x54: (high, 0), 0x76: (high, 1)}
        if selector is None or len(statement.modifiers) != 1:
            return None
        chosen = [halves.get(selector >> at & 0xFF) for at in (0, 8)]
        if None in chosen or selector >> 16:
            return None
        return self.terms.pair(*(self.terms.half(*pick) for pick in chosen if pick is not None))

    def _bfi(self, statement: Statement, register: str) -> Term | None:
        bits = int(statement.modifiers[-1][1:])
        source, into = (self.operand(statement, o, bits) for o in statement.operands[1:3])
        at, count = (self.terms.uniform(self.operand(statement, o, 32)) for o in statement.operands[3:5])
        if at is None or count is None or at >= bits:
            return None
        terms = self.terms
        mask = ((1 << count) - 1) << at & (1 << bits) - 1
        moved = terms.shifted("shl", source, terms.constant(at, 32), bits, False)
        fresh = terms.bitwise("and", moved, terms.constant(mask, bits), bits)
        return terms.bitwise("or", fresh, terms.bitwise("and", into, terms.constant(~mask, bits), bits), bits)

    # ------------------------------------------------------------------------------------------------- predicates

    def _setp(self, statement: Statement, register: str) -> Term | None:
        relation, *combine, kind = statement.modifiers
        if kind[0] not in "sub" or len(combine) > 1 or statement.defs[0] != register:
            return None
        bits = int(kind[1:])
        a, b = (self.operand(statement, o, bits) for o in statement.operands[1:3])
        found = self.terms.compare(relation, kind, a, b, bits)
        if not combine:
            return found if len(statement.operands) == 3 else None
        other = self.operand(statement, statement.operands[3], 1)
        if combine[0] not in ("and", "or"):
            return None
        return (self.terms.conjunction if combine[0] == "and" else self.terms.disjunction)((found, other))

    def _selp(self, statement: Statement, register: str) -> Term | None:
        bits = self._width(register)
        yes, no = (self.operand(statement, o, bits) for o in statement.operands[1:3])
        return self.terms.select(yes, no, self.operand(statement, statement.operands[3], 1))

    def _shfl(self, statement: Statement, register: str) -> Term | None:
        _, *sources = statement.operands
        words = [self.operand(statement, operand, 32) for operand in sources]
        mode = next(m for m in statement.modifiers if m in ("up", "down", "bfly", "idx"))
        value, distance, clamp, members = (*words, self.terms.constant(-1, 32))[:4]
        steps, limit = self.terms.lanes(distance), self.terms.uniform(clamp)
        if register != statement.defs[0] or steps is None or limit is None or self.terms.uniform(members) != 2**32 - 1:
            part = "" if register == statement.defs[0] else ".inside"
            return self.terms.make(f"shfl.{mode}{part}", *words)
        return self.terms.gathered(shuffle_sources(mode, steps, limit), value)

    def _movmatrix(self, statement: Statement, register: str) -> Term | None:
        (word,) = self._sources(statement, 32)
        rest = sorted(m for m in statement.modifiers if m not in _IGNORED)
        return self.terms.make(".".join(["movmatrix", *rest]), word)


def _to_half(bits: int, kind: str) -> int:
    packed = bits.to_bytes(8, "little")[: 4 if kind == "f32" else 8]
    (value,) = struct.unpack("<f" if kind == "f32" else "<d", packed)
    with np.errstate(over="ignore"):
        return int(np.float64(value).astype(np.float16).view(np.uint16))


def shuffle_sources(mode: str, steps: tuple[int, ...], clamp: int) -> tuple[int, ...]:
    """The lane that each lane of shfl.sync reads (PTX ISA 9.7.9.6): its own where the source is out of range."""
    segment, limit = clamp >> 8 & 31, clamp & 31
    found = []
    for lane, step in enumerate(steps):
        low, distance = lane & segment, step & 31
        high = low | limit & ~segment
        source = {"up": lane - distance, "down": lane + distance, "bfly": lane ^ distance}.get(
            mode, low | distance & ~segment
        )
        inside = source >= high if mode == "up" else source <= high
        found.append(source if inside else lane)
    return tuple(found)


def lookup(terms: Terms, sources: list[Term], lut: int) -> Term | None:
    """lop3 with masks among its operands: the table with these filled in is and, or or xor of what is left."""
    masks = [terms.uniform(source) for source in sources]
    left = [i for i, mask in enumerate(masks) if mask is None]
    if len(left) != 1:
        return _two(terms, sources, lut, left)
    (free,) = left
    keep, flip = 0, 0  # result bit = (value & keep) ^ flip
    for bit in range(32):
        rows = []
        for value in (0, 1):
            index = 0
            for i, mask in enumerate(masks):
                index |= (value if i == free else (mask or 0) >> bit & 1) << (2 - i)
            rows.append(lut >> index & 1)
        keep |= (rows[0] ^ rows[1]) << bit
        flip |= rows[0] << bit
    kept = terms.bitwise("and", sources[free], terms.constant(keep, 32), 32)
    return terms.bitwise("xor", kept, terms.constant(flip, 32), 32)


def _two(terms: Terms, sources: list[Term], lut: int, left: list[int]) -> Term | None:
    """The same with two unknown operands, where one plain operation is meant."""
    names = {0xC0: ("and", 0, 1), 0xFC: ("or", 0, 1), 0x3C: ("xor", 0, 1), 0xA0: ("and", 0, 2), 0xFA: ("or", 0, 2)}
    names |= {0x5A: ("xor", 0, 2), 0x88: ("and", 1, 2), 0xEE: ("or", 1, 2), 0x66: ("xor", 1, 2)}
    if lut in names:
        operation, a, b = names[lut]
        return terms.bitwise(operation, sources[a], sources[b], 32)
    return _masked_join(terms, sources, lut, left)


def _masked_join(terms: Terms, sources: list[Term], lut: int, left: list[int]) -> Term | None:
    """(x & mask) | y and the like: 0xEA, 0xF8, 0xEC name which pair is masked."""
    order = {0xF8: (1, 2, 0), 0xEA: (0, 1, 2), 0xEC: (0, 2, 1)}.get(lut)
    if order is None or len(left) != 2:
        return None
    a, b, c = (sources[i] for i in order)
    return terms.bitwise("or", terms.bitwise("and", a, b, 32), c, 32)


_HANDLERS: dict[str, Callable[[Canonical, Statement, str], Term | None]] = {
    **dict.fromkeys(("add", "sub", "mul", "mad", "fma", "neg", "abs", "min", "max"), Canonical._arithmetic),
    **dict.fromkeys(("rcp", "rsqrt", "sqrt", "ex2", "lg2", "div", "tanh"), Canonical._floating),
    **dict.fromkeys(("and", "or", "xor", "not"), Canonical._logic),
    **dict.fromkeys(("shl", "shr"), Canonical._shift),
    "bfi": Canonical._bfi,
    "bfe": Canonical._bfe,
    "lop3": Canonical._lop3,
    "prmt": Canonical._prmt,
    "cvt": Canonical._cvt,
    "setp": Canonical._setp,
    "selp": Canonical._selp,
    "shfl": Canonical._shfl,
    "movmatrix": Canonical._movmatrix,
}
