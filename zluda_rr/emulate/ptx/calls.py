"""call: functions that the module defines, and extern ones whose Python model the caller of the oracle supplies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.compiler import Compiler, Op
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import Callee, ExternCall, Machine
from zluda_rr.emulate.ptx.problem import OracleError, Unsupported
from zluda_rr.ptx import Group, Operand, Statement, Symbol


def call(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """call{.uni} (results), name, (parameters): .param variables; of 4 or 8 bytes each for a Python model."""
    spec.allow(("uni",), ())
    results, name, arguments = _parts(statement)
    places = [_parameter(compiler, operand) for operand in arguments]
    returned = [_parameter(compiler, operand) for operand in results]
    line = statement.line

    def execute(machine: Machine, mask: Mask | None) -> None:
        model = machine.externs.get(name)
        if model is None and name in machine.functions:
            _enter(machine, machine.functions[name], places, returned, mask, f"line {line}: call to {name}")
            return
        if model is None:
            raise OracleError(f"line {line}: call to {name}, which has no model; pass one in `externs`")
        if len(returned) > 1 or any(nbytes not in (4, 8) for _, nbytes in (*places, *returned)):
            raise OracleError(f"line {line}: call to {name}: a model takes and gives scalars of 4 or 8 bytes")
        values = tuple(_read(machine, place, nbytes) for place, nbytes in places)
        active = machine.full if mask is None else mask
        outcome = model(ExternCall(values, active, machine.shared, machine.block_of_warp, machine.memory))
        if returned:
            _write(machine, returned[0], outcome, mask)

    return execute


def _enter(
    machine: Machine,
    function: Callee,
    places: Sequence[tuple[int, int]],
    returned: Sequence[tuple[int, int]],
    mask: Mask | None,
    where: str,
) -> None:
    """Copy the arguments to the function's frame, run it, copy its results back."""
    for what, given, wanted in (("arguments", places, function.arguments), ("results", returned, function.results)):
        if [nbytes for _, nbytes in given] != [nbytes for _, nbytes in wanted]:
            raise OracleError(f"{where}: the {what} are not those of its definition")
    chosen = slice(None) if mask is None else mask.reshape(-1)
    for (source, nbytes), (target, _) in zip(places, function.arguments, strict=True):
        _columns(machine, target, nbytes)[chosen] = _columns(machine, source, nbytes)[chosen]
    function.run(machine, mask)
    for (target, nbytes), (source, _) in zip(returned, function.results, strict=True):
        _columns(machine, target, nbytes)[chosen] = _columns(machine, source, nbytes)[chosen]


def callees(statements: Iterable[Statement]) -> Iterator[str]:
    """Names of the functions that are called directly."""
    for statement in statements:
        if statement.opcode == "call":
            yield from (operand.name for operand in statement.operands if isinstance(operand, Symbol))


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


def _parameter(compiler: Compiler, operand: Operand) -> tuple[int, int]:
    """Offset in a thread's local memory and size of a call's parameter."""
    if not isinstance(operand, Symbol):
        raise Unsupported("call operands must be .param variables")
    declared = compiler.body.variables.get(operand.name)
    if declared is None or declared.space != "param" or declared.nbytes is None:
        raise Unsupported(f"{operand.name} is no .param variable of known size")
    return compiler.symbol(operand)[1], declared.nbytes


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
