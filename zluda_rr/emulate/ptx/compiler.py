"""Turns the operands of a statement into readers and writers of machine slots, once per statement."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zluda_rr.emulate.ptx.kinds import DTYPES, STORAGE, Array, Mask
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.ptx import Body, Function, Immediate, Operand, Register, Statement, Symbol

Reader = Callable[[list[Array]], Array]
Writer = Callable[[Machine, Array, Mask | None], None]
Op = Callable[[Machine, Mask | None], None]

SPECIAL_REGISTERS = frozenset(
    [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + ["%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le"]
    + ["%lanemask_gt", "%lanemask_ge"]
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A slot that holds the same value in every lane."""

    value: np.generic


@dataclass(frozen=True, slots=True)
class Special:
    """A slot that the launch fills in: `%tid.x`, `%laneid`."""

    name: str


@dataclass(frozen=True, slots=True)
class RegisterSlot:
    """A register and the dtype of its bits."""

    name: str
    dtype: np.dtype[np.generic]


SlotKind = Constant | Special | RegisterSlot


Defined = Callable[[str], Function | None]


def _no_function(name: str) -> Function | None:
    return None


@dataclass(slots=True)
class Compiler:
    """Slots of one body. `addresses` maps variable and parameter names to (space, address), `defined` the name of a
    function with a body in the module to the function."""

    body: Body
    addresses: dict[str, tuple[str, int]]
    defined: Defined = _no_function
    slots: list[SlotKind] = field(default_factory=list)
    _index: dict[object, int] = field(default_factory=dict)

    def slot(self, register: str) -> int:
        """The slot of a register or special register."""
        if register in self._index:
            return self._index[register]
        kind: SlotKind
        if register in self.body.registers:
            declared = self.body.registers[register]
            if declared not in STORAGE:
                raise Unsupported(f"register {register} of type .{declared}")
            kind = RegisterSlot(register, STORAGE[declared])
        elif register in SPECIAL_REGISTERS:
            kind = Special(register)
        else:
            raise Unsupported(f"register {register} is not declared, or is a special register without semantics")
        return self._slot_of(register, kind)

    def constant(self, value: np.generic) -> int:
        """The slot of a constant, told apart by its dtype and bits."""
        return self._slot_of((value.dtype, value.tobytes()), Constant(value))

    def _slot_of(self, key: object, kind: SlotKind) -> int:
        if key not in self._index:
            self._index[key] = len(self.slots)
            self.slots.append(kind)
        return self._index[key]

    def reader(self, operand: Operand, type_name: str) -> Reader:
        """Reads the operand as an array of `DTYPES[type_name]`, [warps, 32]."""
        dtype = DTYPES[type_name]
        if isinstance(operand, Register):
            slot = self.slot(operand.name)
            return _register_reader(slot, self._stored(slot), dtype)
        return operator.itemgetter(self.constant(self._constant_value(operand, dtype, type_name)))

    def _stored(self, slot: int) -> np.dtype[np.generic]:
        kind = self.slots[slot]
        return kind.dtype if isinstance(kind, RegisterSlot) else np.dtype(np.uint32)

    def _constant_value(self, operand: Operand, dtype: np.dtype[np.generic], type_name: str) -> Any:
        """A numpy scalar of `dtype`."""
        if isinstance(operand, Symbol):
            value = 32 if operand.name == "WARP_SZ" else self.symbol(operand)[1]
            return np.array(value).astype(dtype)[()]
        if not isinstance(operand, Immediate):
            raise Unsupported("operand kind")
        if operand.kind == "int":
            if dtype.kind == "f":
                raise Unsupported(f"integer constant for a .{type_name} operand")
            if dtype.kind == "b":
                return np.bool_(operand.value != 0)
            wrapped = operand.value & ((1 << (8 * dtype.itemsize)) - 1)
            return np.frombuffer(wrapped.to_bytes(dtype.itemsize, "little"), dtype=dtype)[0]
        width = 4 if operand.kind == "f32" else 8
        raw: Array = np.array(operand.value, dtype=np.dtype(f"u{width}"))
        if dtype.itemsize == raw.itemsize:
            return raw.view(dtype)[()]
        if dtype.kind != "f":
            raise Unsupported(f"floating-point constant for a .{type_name} operand")
        return raw.view(np.dtype(f"f{width}")).astype(dtype)[()]

    def symbol(self, operand: Symbol) -> tuple[str, int]:
        """State space and address of a variable or parameter, with the operand's offset."""
        if operand.name not in self.addresses:
            raise Unsupported(f"{operand.name} has no address here")
        space, address = self.addresses[operand.name]
        return space, address + operand.offset

    def writer(self, operand: Operand, type_name: str) -> Writer:
        """Writes an array of `DTYPES[type_name]` to a register; a wider register gets the value extended by
        sign or zeros as the type says, as ld and cvt do. The sink `_` takes anything."""
        if isinstance(operand, Symbol) and operand.name == "_":
            return lambda machine, value, mask: None
        if not isinstance(operand, Register) or operand.name not in self.body.registers:
            raise Unsupported("destination is no register")
        slot = self.slot(operand.name)
        stored = self._stored(slot)
        dtype = DTYPES[type_name]
        if (stored.kind == "b") != (dtype.kind == "b"):
            raise Unsupported(f".{type_name} written to {operand.name}")
        if stored == dtype:
            return lambda machine, value, mask: machine.put(slot, value, mask)
        if stored.itemsize == dtype.itemsize:
            return lambda machine, value, mask: machine.put(slot, value.view(stored), mask)
        if stored.itemsize < dtype.itemsize or dtype.kind == "f":
            raise Unsupported(f".{type_name} written to {operand.name}, which is narrower or of another kind")
        return lambda machine, value, mask: machine.put(slot, value.astype(stored), mask)


def _register_reader(slot: int, stored: np.dtype[np.generic], dtype: np.dtype[np.generic]) -> Reader:
    if stored == dtype:
        return operator.itemgetter(slot)
    if (stored.kind == "b") != (dtype.kind == "b"):
        raise Unsupported("a predicate where a value is expected, or the reverse")
    if stored.itemsize == dtype.itemsize:
        return lambda r: r[slot].view(dtype)
    if stored.itemsize < dtype.itemsize or dtype.kind == "f":
        raise Unsupported("register narrower than the operand's type")
    return lambda r: r[slot].astype(dtype)


def lift(
    compiler: Compiler,
    statement: Statement,
    function: Callable[..., Array],
    result: str,
    sources: Sequence[str],
) -> Op:
    """`d = function(a, b, …)` with `result` and `sources` as types; the operand count must fit."""
    operands = statement.operands
    if len(operands) != 1 + len(sources):
        raise Unsupported(f"{len(operands)} operands instead of {1 + len(sources)}")
    write = compiler.writer(operands[0], result)
    reads = [compiler.reader(operand, name) for operand, name in zip(operands[1:], sources, strict=True)]
    if len(reads) == 1:
        (first,) = reads
        return lambda machine, mask: write(machine, function(first(machine.r)), mask)
    if len(reads) == 2:
        first, second = reads
        return lambda machine, mask: write(machine, function(first(machine.r), second(machine.r)), mask)

    def execute(machine: Machine, mask: Mask | None) -> None:
        write(machine, function(*[read(machine.r) for read in reads]), mask)

    return execute
