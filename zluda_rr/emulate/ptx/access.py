"""ld, st, atom, red and the instructions that only order or prefetch memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.emulate.ptx.compiler import Compiler, Op, Reader
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import BITS, DTYPES, INTEGERS, Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import Machine, out_of_range
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.ptx import Address, Operand, Register, Statement, Symbol, Vector

_SPACES = MappingProxyType(
    {
        "global": "global",
        "const": "global",
        "shared": "shared",
        "shared::cta": "shared",
        "local": "local",
        "param": "param",
        "param::entry": "param",
        "param::func": "param",
    }
)
# One thread after the other, so every ordering holds; cache hints change no value.
_IGNORED = frozenset(
    [
        "weak",
        "volatile",
        "relaxed",
        "acquire",
        "release",
        "acq_rel",
        "cta",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "v2",
        "v4",
    ]
)


def space_of(spec: Spec) -> str:
    """global, shared, local, param, or generic when the instruction names none."""
    named = [_SPACES[flag] for flag in spec.flags if flag in _SPACES]
    if len(named) > 1:
        raise Unsupported("more than one state space")
    return named[0] if named else "generic"


def _allow(spec: Spec, extra: tuple[str, ...] = ()) -> None:
    hints = [flag for flag in spec.flags if flag.startswith(("L1::", "L2::"))]
    spec.allow((*_IGNORED, *_SPACES, *hints, *extra))


def addresses(compiler: Compiler, operand: Operand) -> tuple[str | None, Reader]:
    """The space of a symbol base (None for a register) and a reader of the lanes' addresses, u64."""
    if not isinstance(operand, Address):
        raise Unsupported("an address is expected")
    if isinstance(operand.base, Register):
        width = compiler.body.registers.get(operand.base.name, "")[1:]
        if width not in ("32", "64"):
            raise Unsupported("address in a register that is not 32 or 64 bits wide")
        read = compiler.reader(operand.base, f"u{width}")
        offset = DTYPES[f"u{width}"].type(operand.offset & ((1 << int(width)) - 1))
        return None, lambda r: (read(r) + offset).astype(np.uint64)
    space, address = compiler.symbol(operand.base) if isinstance(operand.base, Symbol) else (None, 0)
    slot = compiler.constant(np.uint64((address + operand.offset) & ((1 << 64) - 1)))
    return space, lambda r: r[slot]


def load(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """ld and ldu, scalar or vector; narrow types are extended to the register."""
    _allow(spec)
    destination, source = statement.operands
    targets = destination.elements if isinstance(destination, Vector) else (destination,)
    if len(targets) != spec.vector:
        raise Unsupported("vector length")
    name = spec.type
    writes = [compiler.writer(target, name) for target in targets]
    symbol_space, where = addresses(compiler, source)
    space = _resolved(space_of(spec), symbol_space)
    dtype, nbytes = DTYPES[name], DTYPES[name].itemsize * len(writes)

    def execute(machine: Machine, mask: Mask | None) -> None:
        values = fetch(machine, space, where(machine.r), nbytes, mask).view(dtype)
        for index, write in enumerate(writes):
            write(machine, spread(machine, values[:, index], mask), mask)

    return execute


def _resolved(space: str, symbol_space: str | None) -> str:
    """A call's parameters are per-thread memory, an entry's are the parameter block: the symbol tells."""
    if space == "param" and symbol_space is not None:
        return symbol_space
    return space


def fetch(machine: Machine, space: str, where: NDArray[np.uint64], nbytes: int, mask: Mask | None) -> NDArray[np.uint8]:
    """Bytes [N, nbytes] of the lanes of `mask`; the parameter block is one for the whole grid."""
    if space != "param":
        return machine.load(space, where, nbytes, mask)
    chosen = where.reshape(-1) if mask is None else where[mask]
    beyond = out_of_range(chosen, nbytes, len(machine.params))
    if beyond.any():
        raise MemoryFault(
            f"{nbytes}-byte load at offset {int(chosen[beyond][0])} of a parameter block of {len(machine.params)} bytes"
        )
    data: NDArray[np.uint8] = machine.params[chosen.astype(np.int64)[:, None] + np.arange(nbytes)]
    return data


def spread(machine: Machine, values: Array, mask: Mask | None) -> Array:
    """Values [N] of the lanes of `mask` as a contiguous array [warps, 32]; other lanes hold zeros."""
    if mask is None:
        return np.ascontiguousarray(values).reshape(machine.shape)
    full = np.zeros(machine.shape, dtype=values.dtype)
    full[mask] = values
    return full


def store(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """st, scalar or vector."""
    _allow(spec)
    destination, source = statement.operands
    sources = source.elements if isinstance(source, Vector) else (source,)
    if len(sources) != spec.vector:
        raise Unsupported("vector length")
    name = spec.type
    reads = [compiler.reader(operand, name) for operand in sources]
    symbol_space, where = addresses(compiler, destination)
    space = _resolved(space_of(spec), symbol_space)
    if space == "param":
        raise Unsupported("store to the parameter block")
    dtype = DTYPES[name]

    def execute(machine: Machine, mask: Mask | None) -> None:
        rows = [read(machine.r) for read in reads]
        data = np.empty((machine.full.size if mask is None else int(mask.sum()), len(rows)), dtype=dtype)
        for index, row in enumerate(rows):
            data[:, index] = row.reshape(-1) if mask is None else row[mask]
        machine.store(space, where(machine.r), data.view(np.uint8), mask)

    return execute


_ATOMIC: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda old, new: new,
    }
)


_ATOMIC_TYPES = MappingProxyType(
    {"add": INTEGERS | {"f32", "f64"}, **dict.fromkeys(("and", "or", "xor", "exch"), INTEGERS | BITS)}
)


def atomic(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """atom and red of 32- and 64-bit integers (add also of f32): lanes one after the other, in warp and lane
    order."""
    _allow(spec, tuple(_ATOMIC))
    operations = [flag for flag in spec.flags if flag in _ATOMIC]
    name = spec.type
    if len(operations) != 1 or name not in _ATOMIC_TYPES.get(operations[0], INTEGERS) or DTYPES[name].itemsize < 4:
        raise Unsupported("this atomic operation")
    function = _ATOMIC[operations[0]]
    *destination, place, value = statement.operands
    write = compiler.writer(destination[0], name) if destination else None
    read = compiler.reader(value, name)
    _, where = addresses(compiler, place)
    space, dtype = space_of(spec), DTYPES[name]

    def execute(machine: Machine, mask: Mask | None) -> None:
        lanes = np.argwhere(machine.full if mask is None else mask)
        old = np.zeros(machine.shape, dtype=dtype)
        target, operand = where(machine.r), read(machine.r)
        for warp, lane in lanes:
            one = np.zeros(machine.shape, dtype=np.bool_)
            one[warp, lane] = True
            before = machine.load(space, target, dtype.itemsize, one).view(dtype)[:, 0]
            old[warp, lane] = before[0]
            after = function(before, operand[warp : warp + 1, lane]).astype(dtype)
            machine.store(space, target, after[:, None].view(np.uint8), one)
        if write is not None:
            write(machine, old, mask)

    return execute


def nothing(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """Fences and prefetches: nothing to do when every access is done in order."""
    return lambda machine, mask: None


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "ld": load,
        "ldu": load,
        "st": store,
        "atom": atomic,
        "red": atomic,
        **dict.fromkeys(
            ("membar", "fence", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pmevent"), nothing
        ),
    }
)
