"""Loads, stores and fences.

Generic addresses equal global ones; shared addresses are 32-bit LDS offsets, whatever the register's width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zluda_rr.lower import calls
from zluda_rr.lower.emitter import Emitter, operand_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import BITS, INTEGERS, width
from zluda_rr.ptx import Address, Operand, Statement, Symbol, Vector

_SPACES = {"global": 1, "shared": 3, "shared::cta": 3, "param": 4, "const": 4}
_LOAD_HINTS = ("ca", "cg", "cs", "lu", "cv")
_STORE_HINTS = ("wb", "cg", "cs", "wt")
_EVICTION = ("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
_EVICTION_L2 = ("L2::evict_normal", "L2::evict_first", "L2::evict_last")
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
_ELEMENTS = ("b8", "u8", "s8", *BITS, *INTEGERS, "f32", "f64")


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store: LLVM's address space, type and number of the elements, `volatile `, whether nobody writes."""

    space: int
    kind: str
    count: int
    volatile: str
    constant: bool

    @property
    def shape(self) -> str:
        """LLVM's type of the whole."""
        element = f"i{width(self.kind)}"
        return element if self.count == 1 else f"<{self.count} x {element}>"

    @property
    def align(self) -> int:
        """PTX demands natural alignment of the whole."""
        return self.count * width(self.kind) // 8


def pointer(e: Emitter, s: Statement, address: Address, space: int) -> str:
    """An LLVM pointer of address space `space` for `[base+offset]`."""
    base, offset = address.base, address.offset
    if base is None:
        raise e.refuse(s, "absolute address")
    if isinstance(base, Symbol):
        offset += base.offset
        if space == 3 and e.shared_variable(base.name):
            start = e.shared_variable(base.name)
        elif space == 4 and base.name in e.params and e.body.function.kind == "entry" and "param" in s.modifiers:
            start = e.params[base.name]
        else:
            raise e.refuse(s, f"address of {base.name}")
    else:
        # Addresses are extended by zeros or cut to the space's width (PTX ISA, Addresses as Operands).
        bits = 32 if space == 3 else 64
        if base.name not in e.body.registers or e.register_width(base.name) < 32:
            raise e.refuse(s, f"address in {base.name}")
        start = e.op(f"inttoptr i{bits} {e.integer(base, bits)} to ptr addrspace({space})")
    if offset:
        start = e.op(f"getelementptr i8, ptr addrspace({space}) {start}, i32 {offset}")
    return start


def _access(e: Emitter, s: Statement, data: Operand) -> _Access:
    """What a load or store accesses; all its modifiers are taken."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, _ELEMENTS)
    space = mods.take(*_SPACES)
    volatile = "volatile " if mods.flag("volatile") else ""
    constant = mods.flag("nc") or space in ("param", "const")
    vector = mods.take("v2", "v4")
    if s.opcode != "ldu":
        mods.flag("weak")
        mods.take(*(_LOAD_HINTS if s.opcode == "ld" else _STORE_HINTS))
        mods.take(*_EVICTION)
        mods.take(*_EVICTION_L2)
    if s.opcode == "ld":
        mods.take(*_PREFETCH)
    e.finish(s, mods)
    count = int(vector[1:]) if vector else 1
    if isinstance(data, Vector) != bool(vector) or len(operand_elements(data)) != count:
        raise e.refuse(s, "number of elements")
    return _Access(_SPACES.get(space, 1), kind, count, volatile, constant)


def load(e: Emitter, s: Statement) -> None:
    """ld from global, shared, param, and ldu; scalar, .v2, .v4."""
    target, address, *policy = s.operands
    if policy or not isinstance(address, Address):
        raise e.refuse(s, "operands")
    if calls.load_result(e, s):
        return
    access = _access(e, s, target)
    source = pointer(e, s, address, access.space)
    suffix = ", !invariant.load !0" if access.constant and not access.volatile else ""
    place = f"ptr addrspace({access.space}) {source}, align {access.align}"
    value = e.op(f"load {access.volatile}{access.shape}, {place}{suffix}")
    bits = width(access.kind)
    element = access.kind if access.kind[0] in "su" else f"b{bits}"
    values = [value] if access.count == 1 else e.elements(value, f"i{bits}", access.count)
    for register, part in zip(operand_elements(target), values, strict=True):
        e.set(register, part, element)


def store(e: Emitter, s: Statement) -> None:
    """st to global and shared; scalar, .v2, .v4."""
    address, source, *policy = s.operands
    if policy or not isinstance(address, Address):
        raise e.refuse(s, "operands")
    if calls.store_argument(e, s):
        return
    access = _access(e, s, source)
    if access.space == 4:
        raise e.refuse(s, "space")
    bits = width(access.kind)
    values = tuple(e.integer_of(part, access.kind) for part in operand_elements(source))
    value = values[0] if access.count == 1 else e.vector(values, f"i{bits}")
    place = f"ptr addrspace({access.space}) {pointer(e, s, address, access.space)}, align {access.align}"
    e.line(f"store {access.volatile}{access.shape} {value}, {place}")


def fence(e: Emitter, s: Statement) -> None:
    """membar, fence: an LLVM fence of the scope."""
    scopes = {"cta": "workgroup", "gl": "agent", "gpu": "agent", "sys": ""}
    mods = e.modifiers(s)
    named = mods.take(*scopes)
    if not named:
        raise e.refuse(s, "scope")
    scope = scopes[named]
    mods.take("sc", "acq_rel")
    e.finish(s, mods)
    e.line(f'fence syncscope("{scope}") acq_rel' if scope else "fence acq_rel")


def hint(e: Emitter, s: Statement) -> None:
    """prefetch, prefetchu, applypriority, discard, nanosleep: they change no value."""


HANDLERS: Mapping[str, Handler] = {
    "ld": load,
    "ldu": load,
    "st": store,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "nanosleep"), hint),
    "membar": fence,
    "fence": fence,
}
