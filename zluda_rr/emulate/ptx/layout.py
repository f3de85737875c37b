"""Where a body's variables and parameters lie."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx.problem import OracleError
from zluda_rr.ptx import Body, Param, VarDecl, immediate, type_bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """`addresses`: name -> (space, address); sizes in bytes. Dynamic shared memory starts at
    `shared_bytes`."""

    addresses: Mapping[str, tuple[str, int]]
    param_bytes: int
    shared_bytes: int
    local_bytes: int


def lay_out(body: Body, memory: AddressSpace, outer: Layout | None = None) -> Layout:
    """Place everything a body names; `outer` is the layout of what calls it, for a function.

    Shared variables in order of declaration from offset 0, arrays without a size behind them; local variables
    and the parameters of calls in a thread's local memory; module-scope global and constant variables are
    allocated in `memory` as `ptx:<name>` unless an earlier run did so. A function's parameters, result and local
    variables lie behind its caller's in the thread's local memory, its shared variables behind all others.
    """
    addresses: dict[str, tuple[str, int]] = {}
    if outer is None:
        param_bytes, shared_start, local_start = _parameters(body.function.params, addresses), 0, 0
    else:
        param_bytes, shared_start = outer.param_bytes, outer.shared_bytes
        local_start = _frame(body, -(-outer.local_bytes // 16) * 16, addresses)
    sized = [(name, declared) for name, declared in body.variables.items() if declared.count is not None]
    dynamic = [(name, declared) for name, declared in body.variables.items() if declared.count is None]
    known = {} if outer is None else {n: a for n, a in outer.addresses.items() if a[0] == "shared"}
    own = [(n, d) for n, d in sized if d.space.startswith("shared") and n not in known]
    shared = _stack(own, "shared", shared_start, addresses)
    addresses.update(known)
    for name, declared in dynamic:
        if not declared.space.startswith("shared"):
            raise OracleError(f"variable {name} of .{declared.space} memory has no size")
        shared = _aligned(shared, declared)
    addresses.update({name: ("shared", shared) for name, _ in dynamic if name not in known})
    own = [(n, d) for n, d in sized if d.space in ("local", "param")]
    local = _stack(own, "local", local_start, addresses)
    for name, declared in sized:
        if declared.space in ("global", "const"):
            addresses[name] = ("global", _module_variable(name, declared, memory))
    return Layout(MappingProxyType(addresses), param_bytes, shared, local)


def _frame(body: Body, start: int, addresses: dict[str, tuple[str, int]]) -> int:
    """A function's parameters and results in the thread's local memory, from `start` on; returns their end."""
    for param in (*body.function.params, *body.function.returns):
        align = param.align or type_bytes(param.type)
        start = -(-start // align) * align
        addresses[param.name] = ("local", start)
        start += param.nbytes
    return start


def _parameters(params: Iterable[Param], addresses: dict[str, tuple[str, int]]) -> int:
    """Parameters follow one another, each at its alignment, as in CUDA's parameter buffer."""
    offset = 0
    for param in params:
        align = param.align or type_bytes(param.type)
        offset = -(-offset // align) * align
        addresses[param.name] = ("param", offset)
        offset += param.nbytes
    return offset


def _aligned(offset: int, declared: VarDecl) -> int:
    align = declared.align or type_bytes(declared.type)
    return -(-offset // align) * align


def _stack(
    variables: Iterable[tuple[str, VarDecl]], space: str, offset: int, addresses: dict[str, tuple[str, int]]
) -> int:
    for name, declared in variables:
        offset = _aligned(offset, declared)
        addresses[name] = (space, offset)
        offset += declared.nbytes or 0
    return offset


def _module_variable(name: str, declared: VarDecl, memory: AddressSpace) -> int:
    key = f"ptx:{name}"
    if key in memory.allocations:
        return memory.allocations[key].address
    nbytes = declared.nbytes or 0
    data = _initial_bytes(name, declared) if declared.init is not None else b""
    return memory.allocate(key, nbytes, data=data, writable=declared.space == "global")


def _initial_bytes(name: str, declared: VarDecl) -> bytes:
    """Bytes of an initialiser that lists plain numbers."""
    init = declared.init or ""
    words = re.findall(r"[^\s{},]+", init)
    # Rows of their own are filled up with zeros one by one, and the number of rows is not known here.
    if init.count("{") > 1 and len(words) != declared.count:
        raise OracleError(f"variable {name}: the oracle does not evaluate an initialiser with open rows")
    return b"".join(_initial_word(name, word, type_bytes(declared.type)) for word in words)


def _initial_word(name: str, word: str, size: int) -> bytes:
    try:
        value = immediate(word)
        if value.kind == "int":
            return (value.value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        if value.kind == "f32" and size == 4:
            return value.value.to_bytes(size, "little")
        if value.kind == "f64" and size in (4, 8):
            bits = value.value.to_bytes(8, "little")
            return bits if size == 8 else struct.pack("<f", *struct.unpack("<d", bits))
    except (ValueError, OverflowError):
        pass
    raise OracleError(f"variable {name}: the oracle does not evaluate the initialiser {word!r}")
