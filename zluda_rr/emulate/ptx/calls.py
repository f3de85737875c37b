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
from zluda_rr.ptx import Function, Group, Operand, Statement, Symbol

_NO_SCALARS = "a model takes scalars of 4 or 8 bytes and gives at most one"


def call(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """call{.uni} (results), name, (parameters): .param variables; of 4 or 8 bytes each for a Python model."""
    spec.allow(("uni",), ())
    results, name, arguments = _parts(statement)
    places = [_parameter(compiler, operand) for operand in arguments]
    returned = [_parameter(compiler, operand) for operand in results]
    scalars = len(returned) <= 1 and all(_is_scalar(compiler, operand) for operand in (*arguments, *results))
    function = compiler.defined(name)
    if function is not None:
        _check(function, [nbytes for _, nbytes in places], [nbytes for _, nbytes in returned])
    elif not scalars:
        raise Unsupported(_NO_SCALARS)
    line = statement.line

    def execute(machine: Machine, mask: Mask | None) -> None:
        model = machine.externs.get(name)
        if model is None and name in machine.functions:
            _enter(machine, machine.functions[name], places, returned, mask)
            return
        if model is None:
            raise OracleError(f"line {line}: call to {name}, which has no model; pass one in `externs`")
        if not scalars:
            raise OracleError(f"line {line}: call to {name}: {_NO_SCALARS}")
        values = tuple(_read(machine, place, nbytes) for place, nbytes in places)
        active = machine.full if mask is None else mask
        outcome = model(ExternCall(values, active, machine.shared, machine.block_of_warp, machine.memory))
        if returned:
            _write(machine, returned[0], outcome, mask)

    return execute


def _check(function: Function, arguments: list[int], results: list[int]) -> None:
    """Unsupported where a call is not one of that function; sizes are in bytes."""
    if function.kind == "entry":
        raise Unsupported(f"{function.name} is a kernel")
    for what, given, params in (("arguments", arguments, function.params), ("results", results, function.returns)):
        if given != [param.nbytes for param in params]:
            raise Unsupported(f"the {what} are not those of its definition")


def _enter(
    machine: Machine,
    function: Callee,
    places: Sequence[tuple[int, int]],
    returned: Sequence[tuple[int, int]],
    mask: Mask | None,
) -> None:
    """Copy the arguments to the function's frame, run it, copy its results back; zeros where it sets none."""
    chosen = slice(None) if mask is None else mask.reshape(-1)
    for target, nbytes in function.results:
        _columns(machine, target, nbytes)[chosen] = 0
    for (source, nbytes), (target, _) in zip(places, function.arguments, strict=True):
        _columns(machine, target, nbytes)[chosen] = _columns(machine, source, nbytes)[chosen]
    function.run(machine, mask)
    for (target, nbytes), (source, _) in zip(returned, function.results, strict=True):
        _columns(machine, target, nbytes)[chosen] = _columns(machine, source, nbytes)[chosen]


def callees(statements: Iterable[Statement]) -> Iterator[tuple[Statement, str]]:
    """Direct calls and the names of what they call."""
    for statement in statements:
        if statement.opcode == "call":
            yield from ((statement, operand.name) for operand in statement.operands if isinstance(operand, Symbol))


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


def _is_scalar(compiler: Compiler, operand: Operand) -> bool:
    declared = compiler.body.variables[operand.name] if isinstance(operand, Symbol) else None
    return declared is not None and declared.count == 1 and declared.nbytes in (4, 8)


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
