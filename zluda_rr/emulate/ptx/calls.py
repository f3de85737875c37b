"""call: functions that the module defines, and extern ones whose Python model the caller of the oracle supplies."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.compiler import Compiler, Op
from zluda_rr.emulate.ptx.functions import Callee
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import ExternCall, Machine
from zluda_rr.emulate.ptx.problem import OracleError, Unsupported
from zluda_rr.ptx import Group, Operand, Statement, Symbol


def call(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """call{.uni} (result), name, (parameters): each a .param variable of 4 or 8 bytes."""
    spec.allow(("uni",), ())
    results, name, arguments = _parts(statement)
    callee = compiler.callee(name)
    if callee is not None:
        return _defined(compiler, callee, results, arguments)
    places = [_parameter(compiler, operand) for operand in arguments]
    result = _parameter(compiler, results[0]) if results else None
    if len(results) > 1:
        raise Unsupported("more than one result")
    line = statement.line

    def execute(machine: Machine, mask: Mask | None) -> None:
        model = machine.externs.get(name)
        if model is None:
            raise OracleError(f"line {line}: call to {name}, which has no model; pass one in `externs`")
        values = tuple(_read(machine, place, nbytes) for place, nbytes in places)
        active = machine.full if mask is None else mask
        outcome = model(ExternCall(values, active, machine.shared, machine.block_of_warp, machine.memory))
        if result is not None:
            _write(machine, result, outcome, mask)

    return execute


def _defined(compiler: Compiler, callee: Callee, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Op:
    """Copy the arguments to the callee's parameters, run it, copy its results."""
    sources, targets = ([_variable(compiler, operand) for operand in part] for part in (arguments, results))
    if [size for _, size in sources] != [size for _, size in callee.parameters]:
        raise Unsupported("arguments of other sizes than the function's parameters")
    if [size for _, size in targets] != [size for _, size in callee.results]:
        raise Unsupported("a result of another size than the function's")

    def copy(machine: Machine, pairs: list[tuple[int, int, int]], mask: Mask | None) -> None:
        chosen = slice(None) if mask is None else mask.reshape(-1)
        for source, target, size in pairs:
            machine.local[chosen, target : target + size] = machine.local[chosen, source : source + size]

    passed = [(source, target, size) for (source, size), (target, _) in zip(sources, callee.parameters, strict=True)]
    returned = [(source, target, size) for (source, size), (target, _) in zip(callee.results, targets, strict=True)]

    def execute(machine: Machine, mask: Mask | None) -> None:
        copy(machine, passed, mask)
        callee.run(machine, mask)
        copy(machine, returned, mask)

    return execute


def _parts(statement: Statement) -> tuple[tuple[Operand, ...], str, tuple[Operand, ...]]:
    """Result variables, callee, argument variables."""
    operands = statement.operands
    at = next((i for i, operand in enumerate(operands) if isinstance(operand, Symbol)), None)
    if at is None:
        raise Unsupported("only direct calls have semantics here")
    before, name, after = operands[:at], operands[at], operands[at + 1 :]
    assert isinstance(name, Symbol)
    groups = []
    for part in (before, after):
        if len(part) > 1 or (part and not isinstance(part[0], Group)):
            raise Unsupported("this form of call")
        groups.append(part[0].elements if part and isinstance(part[0], Group) else ())
    return groups[0], name.name, groups[1]


def _variable(compiler: Compiler, operand: Operand) -> tuple[int, int]:
    """Offset in a thread's local memory and size of a call's parameter."""
    if not isinstance(operand, Symbol):
        raise Unsupported("call operands must be .param variables")
    declared = compiler.body.variables.get(operand.name)
    if declared is None or declared.space != "param" or declared.nbytes is None:
        raise Unsupported(f"{operand.name} is no .param variable")
    return compiler.symbol(operand)[1], declared.nbytes


def _parameter(compiler: Compiler, operand: Operand) -> tuple[int, int]:
    """The same for an extern function: a scalar of 4 or 8 bytes."""
    place, size = _variable(compiler, operand)
    if compiler.body.variables[str(getattr(operand, "name", ""))].count != 1 or size not in (4, 8):
        raise Unsupported("a .param variable that is no scalar of 4 or 8 bytes")
    return place, size


def _columns(machine: Machine, place: int, nbytes: int) -> NDArray[np.uint8]:
    return machine.local[:, place : place + nbytes]


def _read(machine: Machine, place: int, nbytes: int) -> Array:
    dtype = np.dtype(f"u{nbytes}")
    return np.ascontiguousarray(_columns(machine, place, nbytes)).view(dtype).reshape(machine.shape)


def _write(machine: Machine, place: tuple[int, int], value: Array | None, mask: Mask | None) -> None:
    offset, nbytes = place
    if value is None or value.shape != machine.shape or value.dtype != np.dtype(f"u{nbytes}"):
        raise TypeError(f"the model must return uint{8 * nbytes}[warps, 32]")
    rows = np.ascontiguousarray(value).reshape(-1, 1).view(np.uint8)
    chosen = slice(None) if mask is None else mask.reshape(-1)
    _columns(machine, offset, nbytes)[chosen] = rows[chosen]


HANDLERS: Mapping[str, Handler] = MappingProxyType({"call": call})
