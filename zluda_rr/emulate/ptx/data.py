"""mov with packing and unpacking, cvta."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from zluda_rr.emulate.ptx.compiler import Compiler, Op, lift
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import DTYPES, Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import LOCAL_WINDOW, SHARED_WINDOW, Machine
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.ptx import Statement, Vector

_WINDOWS = MappingProxyType(
    {"global": 0, "const": 0, "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}
)


def move(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """mov of a scalar, of an address, of a vector into a scalar or the reverse (element 0 lowest)."""
    spec.allow(())
    destination, source = statement.operands
    name = spec.type
    if isinstance(destination, Vector):
        return _unpack(compiler, destination, compiler.reader(source, name), name)
    if isinstance(source, Vector):
        return _pack(compiler, statement, source, name)
    return lift(compiler, statement, lambda a: a, name, (name,))


def _element(name: str, count: int) -> str:
    """Type of one of `count` elements of a bit type."""
    bits = 8 * DTYPES[name].itemsize
    if name == "pred" or bits % count or f"b{bits // count}" not in DTYPES:
        raise Unsupported(f"a vector of {count} in .{name}")
    return f"b{bits // count}"


def _unpack(compiler: Compiler, destination: Vector, read: object, name: str) -> Op:
    element = _element(name, len(destination.elements))
    writes = [compiler.writer(operand, element) for operand in destination.elements]
    dtype = DTYPES[element]
    assert callable(read)

    def execute(machine: Machine, mask: Mask | None) -> None:
        value: Array = read(machine.r)
        parts = value.view(dtype).reshape(*machine.shape, len(writes))
        for index, write in enumerate(writes):
            write(machine, np.ascontiguousarray(parts[..., index]), mask)

    return execute


def _pack(compiler: Compiler, statement: Statement, source: Vector, name: str) -> Op:
    count = len(source.elements)
    element = _element(name, count)
    reads = [compiler.reader(operand, element) for operand in source.elements]
    write = compiler.writer(statement.operands[0], name)
    dtype, whole = DTYPES[element], DTYPES[name]

    def execute(machine: Machine, mask: Mask | None) -> None:
        parts = np.empty((*machine.shape, count), dtype=dtype)
        for index, read in enumerate(reads):
            parts[..., index] = read(machine.r)
        write(machine, parts.view(whole).reshape(machine.shape), mask)

    return execute


def convert_address(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """cvta{.to}: generic is the space's address plus its window; global needs nothing."""
    spaces = [flag for flag in spec.flags if flag in _WINDOWS]
    spec.allow(("to", *_WINDOWS), {"u64", "b64"})
    if len(spaces) != 1:
        raise Unsupported("one state space is expected")
    window = np.uint64(_WINDOWS[spaces[0]])
    if "to" in spec.flags:
        return lift(compiler, statement, lambda a: a - window, "u64", ("u64",))
    return lift(compiler, statement, lambda a: a + window, "u64", ("u64",))


HANDLERS: Mapping[str, Handler] = MappingProxyType({"mov": move, "cvta": convert_address})
