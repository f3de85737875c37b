"""Symbolic values of registers, and the addresses of memory instructions.

`Values` evaluates on demand, through `DefUse`, whatever integer arithmetic leads to an address or a constant
operand. A register with several reaching definitions has a value only where all of them agree; anything else is an
unknown of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from zluda_rr.ptx import (
    Address,
    Body,
    DefUse,
    Immediate,
    Operand,
    Param,
    Register,
    Statement,
    Symbol,
    Vector,
    type_bytes,
)

from . import lanes
from .arithmetic import compute, supported
from .lanes import Atom, Form

_BITS = {
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "pred": 1,
}
_SPACES = ("global", "shared", "param", "const", "local")


@dataclass(frozen=True, slots=True)
class Value:
    """A register at a use: its name and the statements whose definition reaches it (copies are looked through)."""

    register: str
    defs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """One memory instruction. `root` is the pointer the address is built on, `offset` what is added to it.

    `kind` is "load", "store" or "atomic"; `space` "generic" where the instruction names none; `nbytes` per lane.
    `root` is None where the address is not one pointer plus an offset.
    """

    statement: int
    kind: str
    space: str
    root: Atom | None
    offset: Form
    nbytes: int

    @property
    def exact(self) -> bool:
        """The offset of every lane is known."""
        return self.root is not None and self.offset.known

    def extent(self) -> tuple[int, int] | None:
        """First byte and end over all lanes, where exact."""
        if not self.exact:
            return None
        offsets = self.offset.signed()
        return min(offsets), max(offsets) + self.nbytes


class Values:
    """Evaluator over one body. `block` is the launch's block size where a contract states it."""

    def __init__(self, body: Body, uses: DefUse, block: tuple[int, int, int] | None = None) -> None:
        self.body = body
        self._uses = uses
        self._block = block
        self._parameters = {p.name: offset for p, offset in _parameter_offsets(body)}
        self._memo: dict[tuple[int, str], Form] = {}
        self._active: set[tuple[int, str]] = set()
        self._extended: dict[tuple[Form, bool], int] = {}
        self._single: dict[str, int | None] = {}

    # ------------------------------------------------------------------------------------------------- definitions

    def reaching(self, statement: int, register: str) -> tuple[int, ...]:
        """Definitions of `register` that reach the use in `statement`, ascending."""
        if register not in self._single:
            defs = self._uses.defs(register)
            self._single[register] = next(iter(defs)) if len(defs) == 1 else None
        only = self._single[register]
        if only is not None:
            return (only,)
        return tuple(sorted(self._uses.reaching(statement, register)))

    def value(self, statement: int, register: str) -> Value:
        """The value read by `statement`, looking through plain copies."""
        while True:
            defs = self.reaching(statement, register)
            if len(defs) != 1:
                return Value(register, defs)
            source = self._copied(self.body[defs[0]])
            if source is None:
                return Value(register, defs)
            statement, register = defs[0], source

    @staticmethod
    def _copied(statement: Statement) -> str | None:
        if statement.opcode != "mov" or statement.guard is not None or len(statement.uses) != 1:
            return None
        target, source = statement.operands
        return source.name if isinstance(source, Register) and isinstance(target, Register) else None

    # ------------------------------------------------------------------------------------------------- evaluation

    def form(self, statement: int, operand: Operand) -> Form:
        """Value of an operand as `statement` reads it."""
        if isinstance(operand, Immediate):
            if operand.kind == "f64" and "f32" in self.body[statement].modifiers:
                return lanes.constant(f32_bits(operand.value), 32)  # `1.5` or `0d…` where an f32 is meant
            return lanes.constant(operand.value, 32 if operand.kind == "f32" else 64)
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        if isinstance(operand, Address):
            return self.address(statement, operand)
        if isinstance(operand, Register):
            return self.register(statement, operand.name)
        return lanes.atom(Atom("value", f"?{operand}", statement), 64)  # two such operands are not one unknown

    def register(self, statement: int, name: str) -> Form:
        """Value of a register as `statement` reads it."""
        if name not in self.body.registers:
            return self._special(name)
        defs = self.reaching(statement, name)
        if len(defs) == 1:
            return self._defined(defs[0], name)
        forms = {self._defined(d, name) for d in defs}
        joined = "|".join(map(str, defs))
        return forms.pop() if len(forms) == 1 else lanes.atom(Atom("value", f"{name}:{joined}"), self._width(name))

    def of(self, value: Value) -> Form:
        """Form of a `Value`."""
        forms = {self._defined(d, value.register) for d in value.defs}
        return (
            forms.pop()
            if len(forms) == 1
            else lanes.atom(Atom("value", f"{value.register}:{value.defs}"), self._width(value.register))
        )

    def address(self, statement: int, operand: Address) -> Form:
        """Address of a memory operand, 64 bits (32 for a base of 32 bits)."""
        if operand.base is None:
            return lanes.constant(operand.offset, 64)
        base = self.form(statement, operand.base)
        return lanes.add(base, lanes.constant(operand.offset, base.bits))

    def _width(self, register: str) -> int:
        return _BITS.get(self.body.registers.get(register, "b32"), 32)

    def _special(self, name: str) -> Form:
        if name == "%laneid":
            return lanes.lane_index(32)
        if self._block is not None and name in ("%tid.x", "%tid.y", "%tid.z"):
            axis = "xyz".index(name[-1])
            if self._block[axis] == 1:
                return lanes.constant(0, 32)
            if axis == 0 and self._block == (lanes.LANES, 1, 1):
                return lanes.lane_index(32)
        return lanes.atom(Atom("special", name), 32)

    def _symbol(self, operand: Symbol) -> Form:
        if operand.name == "WARP_SZ":
            return lanes.constant(lanes.LANES, 32)
        if operand.name in self._parameters:
            base = lanes.atom(Atom("block", "param"), 64)
            return lanes.add(base, lanes.constant(self._parameters[operand.name] + operand.offset, 64))
        variable = self.body.variables.get(operand.name)
        kind = "shared" if variable is not None and variable.space == "shared" else "variable"
        return lanes.add(lanes.atom(Atom(kind, operand.name), 64), lanes.constant(operand.offset, 64))

    def _defined(self, number: int, register: str) -> Form:
        key = (number, register)
        known = self._memo.get(key)
        if known is not None:
            return known
        width = self._width(register)
        unknown = lanes.atom(Atom("value", register, number), width)
        if key in self._active:  # a loop: the value depends on itself
            return unknown
        self._active.add(key)
        try:
            found = self._compute(self.body[number], register, width)
        finally:
            self._active.discard(key)
        form = found if found is not None else unknown
        self._memo[key] = form
        return form

    def _compute(self, statement: Statement, register: str, width: int) -> Form | None:
        if statement.guard is not None or not statement.known:
            return None
        if statement.opcode == "ld":
            return self._parameter_load(statement, register, width)
        target, *sources = statement.operands
        if isinstance(target, Vector):  # mov.b64 {lo, hi}, x
            return self._unpack(statement, target, sources, register, width)
        if not isinstance(target, Register):
            return None
        if len(sources) == 1 and isinstance(sources[0], Vector):
            return self._pack(statement, sources[0], width)
        if not supported(statement.opcode, statement.modifiers):
            return None
        forms = [self.form(statement.number, source) for source in sources]
        return compute(statement.opcode, statement.modifiers, forms, width, self._extend)

    def _extend(self, form: Form, signed: bool) -> Form:
        """A 32-bit sum widened to 64 bits, as an unknown that equal sums share."""
        number = self._extended.setdefault((form, signed), len(self._extended))
        return lanes.atom(Atom("extended", "s" if signed else "u", number), 64)

    def _pack(self, statement: Statement, parts: Vector, width: int) -> Form | None:
        size = width // len(parts.elements)
        forms = [lanes.resize(self.form(statement.number, part), size, False) for part in parts.elements]
        if any(form is None or form.terms for form in forms):
            return None
        columns = [form.lanes for form in forms if form is not None]
        values = tuple(sum(v << (size * i) for i, v in enumerate(row)) for row in zip(*columns, strict=True))
        return Form(values, (), width)

    def _unpack(
        self, statement: Statement, target: Vector, sources: list[Operand], register: str, width: int
    ) -> Form | None:
        if statement.opcode != "mov" or len(sources) != 1:
            return None
        names = [e.name if isinstance(e, Register) else "_" for e in target.elements]
        whole = self.form(statement.number, sources[0])
        return lanes.pointwise(lambda v: v >> (width * names.index(register)), whole, bits=width)

    def _parameter_load(self, statement: Statement, register: str, width: int) -> Form | None:
        target, place = statement.operands
        if not isinstance(place, Address) or space_of(statement) not in ("param", "generic"):
            return None
        address = self.address(statement.number, place)
        if [name.kind for name, _ in address.terms] != ["block"] or address.step() != 0:
            return None
        names = (
            [e.name if isinstance(e, Register) else "_" for e in target.elements]
            if isinstance(target, Vector)
            else [register]
        )
        size = element_bytes(statement)
        offset = address.signed()[0] + size * names.index(register)
        sign = "s" if statement.modifiers[-1].startswith("s") and 8 * size < width else "u"
        return lanes.atom(Atom("parameter", f"{sign}{8 * size}", offset), width)

    # ------------------------------------------------------------------------------------------------- memory

    def access(self, statement: Statement) -> Access | None:
        """The memory access of a statement (ld, st, atom, red, and ldu), None for anything else."""
        kind = _ACCESS_KINDS.get(statement.opcode)
        if kind is None or not statement.known:
            return None
        places = [o for o in statement.operands if isinstance(o, Address)]
        if not places:
            return None
        address = self.address(statement.number, places[0])
        pointers = [name for name, c in address.terms if c == 1 and _is_pointer(name)]
        root = pointers[0] if len(pointers) == 1 else None
        rest = tuple(t for t in address.terms if root is None or t[0] != root)
        space = space_of(statement)
        nbytes = element_bytes(statement) * element_count(statement)
        return Access(statement.number, kind, space, root, Form(address.lanes, rest, address.bits), nbytes)


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes [first, end) of a buffer that the loads of a kernel read, over all lanes.

    `unresolved` are loads from it whose offset is not known, so that the extent may be too small.
    """

    first: int
    end: int
    loads: int
    unresolved: tuple[int, ...]


def read_extent(values: Values, parameter: int) -> Extent:
    """What a kernel reads through the pointer parameter at a byte offset; (0, 0) where it reads nothing."""
    found, unresolved = [], []
    for statement in values.body.statements:
        access = values.access(statement)
        if access is None or access.kind == "store" or access.root != Atom("parameter", "u64", parameter):
            continue
        extent = access.extent()
        if extent is None:
            unresolved.append(statement.number)
        else:
            found.append(extent)
    first, end = min((f for f, _ in found), default=0), max((e for _, e in found), default=0)
    return Extent(first, end, len(found), tuple(unresolved))


_ACCESS_KINDS = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def _is_pointer(name: Atom) -> bool:
    return name.kind in ("shared", "variable", "block") or (name.kind == "parameter" and name.name == "u64")


def space_of(statement: Statement) -> str:
    """State space of a memory instruction, "generic" where it names none."""
    for modifier in statement.modifiers:
        base = modifier.split("::")[0]
        if base in _SPACES:
            return base
    return "generic"


def f32_bits(double_bits: int) -> int:
    """An f64 constant as the f32 that PTX makes of it."""
    (value,) = struct.unpack("<d", struct.pack("<Q", double_bits & (1 << 64) - 1))
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F80_0000 | int(value < 0) << 31


def element_bytes(statement: Statement) -> int:
    """Bytes of one element of a memory instruction."""
    return type_bytes(statement.modifiers[-1])


def element_count(statement: Statement) -> int:
    """Elements of a memory instruction: 4 for `.v4`."""
    vector = next((m for m in statement.modifiers if m in ("v2", "v4", "v8")), "v1")
    return int(vector[1:])


def _parameter_offsets(body: Body) -> list[tuple[Param, int]]:
    """(parameter, byte offset in the parameter block) of an entry."""
    placed: list[tuple[Param, int]] = []
    offset = 0
    for parameter in body.function.params:
        align = parameter.align or type_bytes(parameter.type)
        offset = -(-offset // align) * align
        placed.append((parameter, offset))
        offset += parameter.nbytes
    return placed
