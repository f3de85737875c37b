"""Instructions whose result in a lane depends on that lane's operands only.

All of them are unknown functions of their spelling and operands, except where two spellings of one value must be
recognised: moves, halves of words, packed f16 arithmetic, operands that may change places, selection by a predicate,
and integer arithmetic on constants and addresses (PTX ISA 9.7.1, 9.7.4, 9.7.5, 9.7.8, 9.7.9).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from zluda_rr.ptx import Statement

from .joins import FLAG
from .machine import Handler, Machine, type_bits
from .operands import Layout
from .rows import Row
from .terms import Table, Terms

PURE = frozenset(
    """
    add sub mul mad fma mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a
    addc subc madc testp copysign rcp sqrt rsqrt sin cos lg2 ex2 tanh set setp selp slct and or xor not cnot lop3 shf
    shl shr mov prmt isspacep cvta cvt
    """.split()  # noqa: SIM905 - easier to read than a list
)
"""Opcodes without side effects and without a look at other lanes or memory."""

_COMMUTATIVE = frozenset(("add", "mul", "mad", "fma", "mul24", "mad24", "min", "max", "and", "or", "xor"))  # fmt: skip
_BY_HALVES = frozenset({"add", "sub", "mul", "fma"})
_FLAG_READERS = frozenset({"addc", "subc", "madc"})
_SIGNED = frozenset({"s8", "s16", "s32", "s64"})
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "bsu" for bits in (16, 32, 64))


def gather(machine: Machine, layout: Layout) -> Callable[[Statement], list[Row]]:
    """A function that looks up the rows of a statement's operands."""
    specs = tuple((i.word, i.negated, i.type) for i in layout.inputs)
    env, row_of, inverse = machine.env, machine.row, machine.inverse

    def rows(statement: Statement) -> list[Row]:
        words = statement.words
        found = []
        for word, negated, kind in specs:
            row = env.get(words[word])
            if row is None:
                row = row_of(words[word], kind, statement)
            found.append(inverse(row) if negated else row)
        return found

    return rows


def pure_handler(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """Handler of an instruction of `PURE`."""
    opcode = statement.opcode
    if opcode == "mov":
        special = _move(machine, statement, layout)
        if special is not None:
            return special
    if "cc" in statement.modifiers or opcode in _FLAG_READERS:
        return _with_flag(machine, statement, layout)
    form = statement.form
    if opcode == "cvt" and form is not None and form.operands[0].type in _SIGNED and len(layout.outputs) == 1:
        return _convert(machine, statement, layout, form.operands[0].type)
    rows, outputs, apply = gather(machine, layout), layout.outputs, machine.rows.apply
    tables = [_table(machine.terms, statement, layout, i) for i in range(len(outputs))]
    if len(outputs) == 1:
        (table,), (output,) = tables, outputs

        def one(statement: Statement) -> None:
            machine.assign(statement, statement.words[output], apply(table, rows(statement)))

        return one

    def several(statement: Statement) -> None:
        operands = rows(statement)
        results = [apply(table, operands) for table in tables]
        machine.assign_all(statement, list(zip([statement.words[o] for o in outputs], results, strict=True)))

    return several


def _convert(machine: Machine, statement: Statement, layout: Layout, kind: str) -> Handler:
    """cvt to a signed type: into a wider register it extends the sign (PTX ISA 9.7.9.21), another operation."""
    rows, (output,), apply = gather(machine, layout), layout.outputs, machine.rows.apply
    table = _table(machine.terms, statement, layout, 0)
    wide = machine.terms.table(("into a wider register", layout.spelling, layout.structure))
    bits, registers = type_bits(kind), machine.body.registers

    def run(statement: Statement) -> None:
        register = statement.words[output]
        same = type_bits(registers.get(register, "b32")) == bits
        machine.assign(statement, register, apply(table if same else wide, rows(statement)))

    return run


def _move(machine: Machine, statement: Statement, layout: Layout) -> Handler | None:
    rows, outputs, terms, apply = gather(machine, layout), layout.outputs, machine.terms, machine.rows.apply
    if layout.structure == "r r":

        def copy(statement: Statement) -> None:
            machine.assign(statement, statement.words[outputs[0]], rows(statement)[0])

        return copy
    if statement.modifiers != ("b32",):
        return None
    if layout.structure == "r {rr}":

        def join(statement: Statement) -> None:
            machine.assign(statement, statement.words[outputs[0]], apply(terms.join, rows(statement)))

        return join
    if layout.structure == "{rr} r":

        def split(statement: Statement) -> None:
            operands = rows(statement)
            results = [apply(table, operands) for table in (terms.low, terms.high)]
            machine.assign_all(statement, list(zip([statement.words[o] for o in outputs], results, strict=True)))

        return split
    return None


def _with_flag(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """add.cc and its kind: the condition code is a register that they read and write (PTX ISA 9.7.2)."""
    rows, terms, apply = gather(machine, layout), machine.terms, machine.rows.apply
    name = ("op", layout.spelling, layout.structure)
    result, flag = terms.table((*name, "result")), terms.table((*name, "flag"))
    reads, writes = statement.opcode in _FLAG_READERS, "cc" in statement.modifiers
    (output,) = layout.outputs

    def run(statement: Statement) -> None:
        operands = rows(statement)
        if reads:
            operands.append(machine.row(FLAG))
        value, carry = apply(result, operands), apply(flag, operands)
        results = [(statement.words[output], value)]
        machine.assign_all(statement, [*results, (FLAG, carry)] if writes else results)

    return run


def _table(terms: Terms, statement: Statement, layout: Layout, output: int) -> Table:
    opcode, modifiers = statement.opcode, statement.modifiers
    plain_structure = layout.structure.replace("!", "")
    if opcode == "cvt" and layout.structure == "r r":
        return convert_table(terms, modifiers)
    if opcode == "selp" and plain_structure == "r r r r":
        return _selection(terms)
    kind = modifiers[-1] if modifiers else ""
    simple = len(layout.outputs) == 1 and plain_structure in ("r r", "r r r", "r r r r")
    if simple and kind in _INTEGERS and all(i.type in _INTEGERS for i in layout.inputs):
        found = _integer(terms, opcode, modifiers[:-1], kind)
        if found is not None:
            return found
    alike = all(i.type == kind for i in layout.inputs[:2])
    commutes = opcode in _COMMUTATIVE and simple and (alike or "wide" in modifiers)
    if simple and kind == "f16x2" and opcode in _BY_HALVES:
        return terms.halves(("op", ".".join((opcode, *modifiers[:-1], "f16"))), commutes=commutes)
    if simple and kind == "f16" and opcode in _BY_HALVES and len(modifiers) <= 3 and "f32" not in modifiers:
        name: Hashable = ("op", layout.spelling)
    else:
        name = ("op", layout.spelling, plain_structure, output)
    return terms.commutative(name) if commutes else terms.table(name)


def convert_table(terms: Terms, modifiers: tuple[str, ...]) -> Table:
    """cvt with one operand: the modifiers that are no types in any order, then the types in order."""
    types = tuple(m for m in modifiers if type_bits(m) is not None or "x2" in m)
    others = tuple(sorted(set(modifiers) - set(types)))
    name = ("cvt", *others, *types)
    if not others and len(types) == 2 and all(t[0] in "us" for t in types):
        target, source = types

        def fold(value: int) -> int:
            bits = int(source[1:])
            number = value & (1 << bits) - 1
            if source[0] == "s" and number >> bits - 1:
                number -= 1 << bits
            return number & (1 << int(target[1:])) - 1

        return terms.folding(name, fold)
    return terms.table(name)


def _selection(terms: Terms) -> Table:
    """selp a, b, p is a where p is true."""
    choice = terms.choice

    def make(key: object) -> int:
        assert isinstance(key, tuple)
        return choice[key[2], key[0], key[1]]

    return terms.derived("selp", make)


def _integer(terms: Terms, opcode: str, modifiers: tuple[str, ...], kind: str) -> Table | None:
    """Integer instructions that addresses are made of, on constants too; None for all others."""
    bits = int(kind[1:])
    mask = (1 << bits) - 1
    name = ("op", opcode, *modifiers, bits)
    match opcode, modifiers:
        case "add", ():
            return terms.sum(bits)
        case "sub", ():
            return terms.difference(bits)
        case "mul", ("lo",):
            return terms.commutative(name, lambda a, b: a * b & mask)
        case "mad", ("lo",):
            product, total = terms.commutative(("op", "mul", "lo", bits), lambda a, b: a * b & mask), terms.sum(bits)
            return terms.derived(name, lambda key: total[product[key[0], key[1]], key[2]])  # type: ignore[index]
        case "mul", ("wide",):
            return terms.commutative((*name, kind[0]), lambda a, b: _wide(a, b, kind[0], bits))
        case "and", ():
            return terms.commutative(name, lambda a, b: a & b)
        case "or", ():
            return terms.commutative(name, lambda a, b: a | b)
        case "xor", ():
            return terms.commutative(name, lambda a, b: a ^ b)
        case "shl", ():
            return terms.folding(name, lambda a, b: (a << b) & mask if b < bits else 0)
        case "shr", () if kind[0] != "s":
            return terms.folding(name, lambda a, b: a >> b if b < bits else 0)
        case _:
            return None


def _wide(a: int, b: int, sign: str, bits: int) -> int:
    if sign == "s":
        a, b = (x - (1 << bits) if x >> bits - 1 else x for x in (a, b))
    return a * b & (1 << 2 * bits) - 1
