"""atom and red of 32- and 64-bit integers, as LLVM's atomic read-modify-write operations.

f32 is left out: PTX flushes denormals in global memory and not in shared memory, gfx12's instructions go by the mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.memory import pointer
from zluda_rr.lower.scalar import is_signed, width
from zluda_rr.ptx import Address, Statement

_SPACES = {"global": 1, "shared": 3, "shared::cta": 3}
_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
SCOPES = {"cta": 'syncscope("workgroup") ', "gpu": 'syncscope("agent") ', "sys": ""}
_NUMBERS = ("u32", "s32", "u64", "s64")
_ALL = (*_NUMBERS, "b32", "b64")
# Operation: what LLVM calls it, its types.
_OPERATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "add": ("add", _NUMBERS),
    "min": ("min", _NUMBERS),
    "max": ("max", _NUMBERS),
    "and": ("and", _ALL),
    "or": ("or", _ALL),
    "xor": ("xor", _ALL),
    "exch": ("xchg", _ALL),
}


def atomic(e: Emitter, s: Statement) -> None:
    """atom: the old value to d; red: no result."""
    mods = e.modifiers(s)
    operation = mods.take(*_OPERATIONS)
    if not operation:
        raise e.refuse(s, "operation")
    name, kinds = _OPERATIONS[operation]
    kind = e.kind(s, mods, kinds)
    order = _ORDERS[mods.take(*_ORDERS) or "relaxed"]
    scope, space = SCOPES[mods.take(*SCOPES) or "gpu"], mods.take(*_SPACES)
    e.finish(s, mods)
    target, operands = (None, s.operands) if s.opcode == "red" else (s.operands[0], s.operands[1:])
    if len(operands) != 2 or not isinstance(operands[0], Address):
        raise e.refuse(s, "operands")
    if operation in ("min", "max") and not is_signed(kind):
        name = f"u{name}"
    number = _SPACES.get(space, 1)
    place = f"ptr addrspace({number}) {pointer(e, s, operands[0], number)}"
    bits = width(kind)
    value = e.value(operands[1], kind)
    old = e.op(f"atomicrmw {name} {place}, i{bits} {value} {scope}{order}, align {bits // 8}")
    if target is not None:
        e.set(target, old, kind)


HANDLERS: Mapping[str, Handler] = {"atom": atomic, "red": atomic}
