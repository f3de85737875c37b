"""Loads, stores, call parameters and calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from zluda_rr.ptx import Address, Statement

from .arithmetic import gather
from .joins import FLAG
from .machine import Handler, Machine, type_bits
from .operands import Layout
from .problem import NotShown
from .rows import Row
from .terms import LANES

_HINTS = frozenset({"weak", "ca", "cg", "cs", "nc"})
"""Modifiers of a load that do not change its value, besides L1::… and L2::… (PTX ISA 9.7.9.1, 9.7.9.8)."""
_ADDRESSES = (1 << 64) - 1
Helper = Callable[[Machine, Statement, Sequence[Row]], Row]


def _address(machine: Machine, layout: Layout) -> Callable[[Statement, int], Row]:
    """The address of a statement's address operand, `extra` bytes further."""
    assert layout.address is not None
    base_word, offset_word = layout.address
    offsets: dict[str, int] = {}

    def row(statement: Statement, extra: int) -> Row:
        base = statement.words[base_word]
        offset = extra
        if offset_word >= 0:
            word = statement.words[offset_word]
            if word not in offsets:
                offsets[word] = next(o.offset for o in statement.operands if isinstance(o, Address))
            offset += offsets[word]
        bits = 32 if machine.body.registers.get(base, "b64").endswith("32") else 64
        place = machine.row(base, "b64", statement)
        if not offset:
            return place
        constant = machine.terms.constant(offset & (1 << bits) - 1)
        return machine.rows.apply(machine.terms.sum(bits), (place, constant))

    return row


def load_handler(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """ld: from memory, from the kernel's parameters, or from a parameter of a call."""
    form = statement.form
    assert form is not None
    space, kind = form.fields.get("S", "generic"), form.fields["T"]
    bits = type_bits(kind)
    plain = layout.structure.partition(" ")[2] in ("[]", "[+]") and bits is not None
    vectors = {form.fields.get("S"), form.fields.get("V"), kind}
    others = {
        m for m in statement.modifiers if m not in vectors and m not in _HINTS and not m.startswith(("L1::", "L2::"))
    }
    if not plain or others:
        return effect_handler(machine, statement, layout)
    assert bits is not None
    memory = _memory_load(machine, layout, space, kind, constant="nc" in statement.modifiers)
    if not space.startswith("param"):
        return memory
    return _parameter_load(machine, layout, kind, memory)


def _memory_load(machine: Machine, layout: Layout, space: str, kind: str, *, constant: bool) -> Handler:
    rows, address, bits = machine.rows, _address(machine, layout), type_bits(kind)
    assert bits is not None
    fixed = space.startswith(("param", "const"))
    own = space in ("local", "generic")  # local memory is the thread's, and a generic address may lead there

    def run(statement: Statement) -> None:
        # All addresses and the guard are those before the statement, which may overwrite them.
        place = address(statement, 0)
        guard = None if statement.guard is None else rows.items(machine.guard(statement))
        version = None if fixed else machine.version * LANES
        apart = not fixed and (own or not machine.together[machine.block])
        results = []
        for i, word in enumerate(layout.outputs):
            register, extra = statement.words[word], i * bits // 8
            if register == "_":
                continue
            keys: list[Hashable] = [
                (base, offset + extra & _ADDRESSES, version) for base, offset in machine.places(place)
            ]
            if apart:
                keys = list(zip(keys, rows.items(rows.lane), strict=True))
            wider = kind[0] == "s" and (type_bits(machine.body.registers[register]) or 0) > bits
            name = f"load {space} {bits}{' signed' if wider else ''}"
            row = rows.named(machine.loaded.setdefault(name, {}), keys, name)
            results.append((register, row))
            items = rows.items(row)
            seen: list[Hashable] = list(items if guard is None else zip(items, guard, strict=True))
            machine.trace.loads.update(seen)
            if constant:
                machine.trace.constant_loads.update(seen)
        machine.assign_all(statement, results)

    return run


def _parameter_load(machine: Machine, layout: Layout, kind: str, memory: Handler) -> Handler:
    bits, signed = type_bits(kind), kind[0] == "s"
    assert layout.address is not None
    assert bits is not None
    base = layout.address[0]

    def run(statement: Statement) -> None:
        name = statement.words[base]
        if name not in machine.body.variables or machine.body.variables[name].space != "param":
            memory(statement)
            return
        start = _offset(statement)
        results = []
        for i, word in enumerate(layout.outputs):
            register, offset = statement.words[word], start + i * bits // 8
            row = machine.parameters.get(name, {}).get((offset, bits))
            if row is None and name in machine.returned:
                table = machine.terms.table(("returned", offset, bits))
                row = machine.rows.apply(table, (machine.returned[name],))
            if row is None:
                raise NotShown(f"s{statement.number} reads a parameter of a call that its block does not set")
            if signed and (type_bits(machine.body.registers.get(register, "")) or 0) > bits:
                row = machine.rows.apply(machine.terms.table(("sign extended", bits)), (row,))
            results.append((register, row))
        machine.assign_all(statement, results)

    return run


def _offset(statement: Statement) -> int:
    return next(o.offset for o in statement.operands if isinstance(o, Address))


def store_handler(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """st: to a parameter of a call, or an effect with its address and values."""
    form = statement.form
    assert form is not None
    if not form.fields.get("S", "").startswith("param") or layout.address is None:
        return effect_handler(machine, statement, layout)
    base, bits = layout.address[0], type_bits(form.fields["T"]) or 0
    values = layout.groups[1]
    kind = form.fields["T"]

    def run(statement: Statement) -> None:
        name = statement.words[base]
        if name not in machine.body.variables:
            raise NotShown(f"s{statement.number} stores to a parameter that is not a call's")
        if statement.guard is not None:
            raise NotShown(f"s{statement.number} stores to a call's parameter under a guard")
        content = machine.parameters.setdefault(name, {})
        start = 0 if layout.address is not None and layout.address[1] < 0 else _offset(statement)
        for i, word in enumerate(values):
            row = machine.row(statement.words[word], kind, statement)
            if (type_bits(machine.body.registers.get(statement.words[word], kind)) or 0) > bits:
                row = machine.rows.apply(machine.terms.table(("truncated", bits)), (row,))
            _store(content, start + i * bits // 8, bits, row)

    return run


def _store(content: dict[tuple[int, int], Row], offset: int, bits: int, row: Row) -> None:
    """Put a value into a parameter; what it overlaps is gone."""
    for other, width in [*content]:
        if other < offset + bits // 8 and offset < other + width // 8:
            del content[other, width]
    content[offset, bits] = row


def effect_handler(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """Anything with an effect, or that is not understood: its operands are compared, its results are unknown."""
    rows = gather(machine, layout)
    known = statement.known
    name: tuple[object, ...] = (layout.spelling, layout.structure)
    first = layout.address if known and layout.structure.partition(" ")[0] in ("[]", "[+]") else None
    address = _address(machine, layout) if first is not None else None
    skip = 0 if first is None else (2 if first[1] >= 0 else 1)
    if first is not None:
        name = (layout.spelling, layout.structure.replace("[+]", "[]"))

    def run(statement: Statement) -> None:
        operands = rows(statement)
        if address is not None:
            operands = [address(statement, 0), *operands[skip:]]
        outputs = [statement.words[word] for word in layout.outputs] if known else list(statement.uses)
        results = machine.effect(statement, name, operands, len(outputs))
        machine.assign_all(statement, list(zip(outputs, results, strict=True)))

    return run


def read_handler(machine: Machine, statement: Statement, layout: Layout) -> Handler:
    """Reads of textures, surfaces and the like: an unknown function of the operands of all lanes, and of memory."""
    rows, terms, outputs = gather(machine, layout), machine.terms, layout.outputs
    name = ("read", layout.spelling, layout.structure)

    def run(statement: Statement) -> None:
        operands = rows(statement)
        if statement.guard is not None:
            operands.append(machine.guard(statement))
        whole = terms.atom(*name, *(tuple(machine.rows.items(row)) for row in operands), uniform=True)
        machine.trace.loads.add(whole)
        results = [terms.table((*name, i))[whole, machine.version, machine.rows.lane] for i in range(len(outputs))]
        machine.assign_all(statement, list(zip([statement.words[word] for word in outputs], results, strict=True)))

    return run


def call_handler(
    machine: Machine, statement: Statement, layout: Layout, helpers: dict[str, tuple[int, Helper]]
) -> Handler:
    """A call: of a helper with a known meaning, or of anything else, which is an effect."""
    returns = layout.groups[0] if layout.structure.startswith("(") else ()
    rest = layout.groups[1:] if returns else layout.groups
    if not rest:
        raise NotShown(f"s{statement.number}: a call without a function")
    function_words, argument_words = rest[0], rest[1] if len(rest) > 1 else ()
    more = tuple(word for group in rest[2:] for word in group)

    def run(statement: Statement) -> None:
        words = statement.words
        target = words[function_words[0]]
        rows: list[Row] = []
        places: list[tuple[tuple[int, int], ...]] = []
        for word in argument_words:
            content = machine.parameters.get(words[word])
            if content is None:
                content = {(0, 32): machine.row(words[word], "", statement)}
            places.append(tuple(sorted(content)))
            rows += [content[place] for place in sorted(content)]
        name: tuple[object, ...] = ("call", target, tuple(places), tuple(words[w] for w in more))
        if target in machine.body.registers:
            rows.append(machine.row(target, "", statement))
            name = ("call", "register", *name[2:])
        machine.set(FLAG, machine.terms.atom("flag behind a call", statement.number, uniform=False))
        helper = helpers.get(target)
        if helper is not None and target not in machine.functions and len(returns) == 1:
            count, meaning = helper
            if [((0, 32),)] * count != places:
                raise NotShown(f"s{statement.number}: {target} takes {count} words")
            results = [meaning(machine, statement, rows)]
            _give(machine, statement, [words[w] for w in returns], results, known=True)
            return
        results = machine.effect(statement, name, rows, len(returns))
        _give(machine, statement, [words[w] for w in returns], results, known=False)

    return run


def _give(machine: Machine, statement: Statement, names: list[str], rows: list[Row], *, known: bool) -> None:
    """Results of a call, into registers or into parameters."""
    for name, row in zip(names, rows, strict=True):
        if name in machine.body.registers:
            machine.assign(statement, name, row)
        elif known:
            machine.returned.pop(name, None)
            machine.parameters[name] = {(0, 32): row}
        else:
            machine.parameters.pop(name, None)
            machine.returned[name] = row
