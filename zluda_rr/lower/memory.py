"""Loads, stores, surfaces, textures and fences.

Generic addresses equal global ones; shared addresses are 32-bit LDS offsets, whatever the register's width.
Surfaces and textures go through the descriptor documented in kernels/ptx_runtime.hip.
"""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower import calls
from zluda_rr.lower.emitter import Emitter, operand_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.modifiers import Modifiers
from zluda_rr.lower.scalar import is_float, width
from zluda_rr.ptx import Address, Coordinates, Register, Statement, Symbol, Vector

_SPACES = {"global": 1, "shared": 3, "shared::cta": 3, "param": 4, "const": 4}
_CACHE_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "weak",
    "L1::evict_normal", "L1::evict_last", "L1::evict_first", "L1::no_allocate",
    "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip


def pointer(e: Emitter, s: Statement, address: Address, space: int) -> str:
    """An LLVM pointer of address space `space` for `[base+offset]`."""
    base, offset = address.base, address.offset
    if base is None:
        raise e.refuse(s, "absolute address")
    if isinstance(base, Symbol):
        offset += base.offset
        kind = {3: "shared", 4: "param"}.get(space, "")
        variable = e.body.variables.get(base.name)
        if kind == "shared" and variable is not None and variable.space == "shared":
            start = f'@"{base.name}"'
        elif kind == "param" and any(param.name == base.name for param in e.body.function.params):
            start = f'%"{base.name}"'
        else:
            raise e.refuse(s, f"address of {base.name}")
    else:
        bits = 32 if space == 3 else 64
        start = e.op(f"inttoptr i{bits} {e.integer(base, bits)} to ptr addrspace({space})")
    if offset:
        start = e.op(f"getelementptr i8, ptr addrspace({space}) {start}, i32 {offset}")
    return start


def _access(e: Emitter, s: Statement, mods: Modifiers) -> tuple[int, str, bool, bool]:
    """(address space, type, volatile, read only) of a load or store; all its modifiers are taken."""
    (kind,) = mods.types()
    volatile, constant = mods.flag("volatile"), mods.flag("nc")
    space = mods.take(*_SPACES)
    mods.take("v2", "v4")
    while mods.take(*_CACHE_HINTS):
        pass
    e.finish(s, mods)
    return _SPACES.get(space, 1), kind, volatile, constant or space in ("param", "const")


def load(e: Emitter, s: Statement) -> None:
    """ld from global, shared, param; scalar, .v2, .v4."""
    if calls.load_result(e, s):
        return
    space, kind, volatile, constant = _access(e, s, e.modifiers(s))
    target, address = s.operands
    if not isinstance(address, Address):
        raise e.refuse(s, "address")
    targets, bits = operand_elements(target), width(kind)
    element = f"b{bits}" if is_float(kind) else kind
    shape = f"i{bits}" if len(targets) == 1 else f"<{len(targets)} x i{bits}>"
    source = pointer(e, s, address, space)
    suffix = ", !invariant.load !0" if constant else ""
    word = "load volatile" if volatile else "load"
    align = len(targets) * bits // 8
    value = e.op(f"{word} {shape}, ptr addrspace({space}) {source}, align {align}{suffix}")
    values = [value] if len(targets) == 1 else e.elements(value, f"i{bits}", len(targets))
    for register, part in zip(targets, values, strict=True):
        e.set(register, part, element)


def store(e: Emitter, s: Statement) -> None:
    """st to global and shared; scalar, .v2, .v4."""
    if calls.store_argument(e, s):
        return
    space, kind, volatile, _ = _access(e, s, e.modifiers(s))
    address, source = s.operands
    if not isinstance(address, Address) or space == 4:
        raise e.refuse(s, "address")
    bits = width(kind)
    values = tuple(e.integer(part, bits) for part in operand_elements(source))
    shape, value = f"i{bits}", values[0]
    if len(values) > 1:
        shape, value = f"<{len(values)} x i{bits}>", e.vector(values, f"i{bits}")
    target = pointer(e, s, address, space)
    word = "store volatile" if volatile else "store"
    align = len(values) * bits // 8
    e.line(f"{word} {shape} {value}, ptr addrspace({space}) {target}, align {align}")


def _coordinates(e: Emitter, s: Statement, operand: object, axes: int) -> list[tuple[str, str]]:
    """Handle and coordinates as call arguments."""
    if not isinstance(operand, Coordinates) or not isinstance(operand.handle, Register) or operand.sampler:
        raise e.refuse(s, "only bindless handles")
    # A third dimension may be written as padding of the coordinate vector.
    parts = operand.elements[:axes]
    return [("i64", e.integer(operand.handle, 64)), *(("i32", e.integer(part, 32)) for part in parts)]


def surface_load(e: Emitter, s: Statement) -> None:
    """suld.b.2d.v4.b16.zero."""
    if s.modifiers != ("b", "2d", "v4", "b16", "zero"):
        raise e.refuse(s)
    target, place = s.operands
    _texels(e, s, target, e.call("<4 x i16>", "zrt_suld_2d_v4_b16_zero", *_coordinates(e, s, place, 2)))


def texture_load(e: Emitter, s: Statement) -> None:
    """tex.base.2d.v4.f16.s32 (integer texel coordinates)."""
    if s.modifiers not in (("base", "2d", "v4", "f16", "s32"), ("2d", "v4", "f16", "s32")):
        raise e.refuse(s)
    target, place = s.operands
    _texels(e, s, target, e.call("<4 x i16>", "zrt_tex_2d_v4_f16_s32", *_coordinates(e, s, place, 2)))


def _texels(e: Emitter, s: Statement, target: object, value: str) -> None:
    if not isinstance(target, Vector):
        raise e.refuse(s)
    for register, part in zip(target.elements, e.elements(value, "i16", 4), strict=True):
        e.set(register, part, "b16")


def surface_store(e: Emitter, s: Statement) -> None:
    """sust.b.2d.v4.b16.zero."""
    if s.modifiers != ("b", "2d", "v4", "b16", "zero"):
        raise e.refuse(s)
    place, source = s.operands
    texel = e.vector(tuple(e.integer(part, 16) for part in operand_elements(source)), "i16")
    arguments = [*_coordinates(e, s, place, 2), ("<4 x i16>", texel)]
    e.call("void", "zrt_sust_2d_v4_b16_zero", *arguments)


def fence(e: Emitter, s: Statement) -> None:
    """membar, fence: an LLVM fence of the scope."""
    scopes = {"cta": "workgroup", "gl": "agent", "gpu": "agent", "sys": ""}
    mods = e.modifiers(s)
    scope = scopes[mods.take(*scopes) or "sys"]
    mods.take("sc", "acq_rel")
    e.finish(s, mods)
    e.line(f'fence syncscope("{scope}") acq_rel' if scope else "fence acq_rel")


HANDLERS: Mapping[str, Handler] = {
    "ld": load,
    "st": store,
    "suld": surface_load,
    "sust": surface_store,
    "tex": texture_load,
    "membar": fence,
    "fence": fence,
}
