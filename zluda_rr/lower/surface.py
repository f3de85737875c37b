"""Surfaces and textures, through the descriptor documented in kernels/ptx_runtime.hip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zluda_rr.lower.emitter import Emitter, operand_elements
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import width
from zluda_rr.ptx import Coordinates, Operand, Register, Statement, Vector

_OUTSIDE = {"zero": 0, "clamp": 1, "trap": 2}
_LOAD_HINTS = ("ca", "cg", "cs", "cv")
_STORE_HINTS = ("wb", "cg", "cs", "wt")
# Bytes of an access: the runtime functions' suffix and LLVM type.
_SHAPES = {1: ("i8", "i8"), 2: ("i16", "i16"), 4: ("i32", "i32"), 8: ("v2i32", "<2 x i32>"), 16: ("v4i32", "<4 x i32>")}

Argument = tuple[str, str]


def _place(e: Emitter, s: Statement, operand: Operand, axes: int, kind: str = "s32") -> list[Argument]:
    """Handle and coordinates as call arguments."""
    if not isinstance(operand, Coordinates) or not isinstance(operand.handle, Register) or operand.sampler:
        raise e.refuse(s, "only bindless handles")
    if operand.handle.name not in e.body.registers or e.register_width(operand.handle.name) != 64:
        raise e.refuse(s, "handle")
    # A third dimension may be written as padding of the coordinate vector.
    parts = operand.elements[:axes]
    if len(parts) != axes:
        raise e.refuse(s, "coordinates")
    for part in parts:
        if isinstance(part, Register) and part.name in e.body.registers and e.register_width(part.name) != 32:
            raise e.refuse(s, "coordinates")
    return [("i64", e.integer(operand.handle, 64)), *(("i32", e.integer_of(part, kind)) for part in parts)]


def _form(e: Emitter, s: Statement, data: Operand, hints: Sequence[str]) -> tuple[str, int, int]:
    """Element type, number of elements and what to do outside, of suld.b.2d and sust.b.2d."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("b8", "b16", "b32", "b64"))
    plain = mods.flag("b") and mods.flag("2d")
    vector, outside = mods.take("v2", "v4"), mods.take(*_OUTSIDE)
    mods.take(*hints)
    e.finish(s, mods)
    count = int(vector[1:]) if vector else 1
    if not plain or isinstance(data, Vector) != bool(vector) or len(operand_elements(data)) != count:
        raise e.refuse(s, "only .b.2d")
    if count * width(kind) // 8 not in _SHAPES:
        raise e.refuse(s, "more than 16 bytes")
    return kind, count, _OUTSIDE[outside or "trap"]


def surface_load(e: Emitter, s: Statement) -> None:
    """suld.b.2d: zeros outside with .zero."""
    target, place = s.operands
    kind, count, outside = _form(e, s, target, _LOAD_HINTS)
    bits = width(kind)
    suffix, shape = _SHAPES[count * bits // 8]
    texel = e.call(shape, f"zrt_suld_2d_{suffix}", *_place(e, s, place, 2), ("i32", str(outside)))
    if count == 1:
        e.set(target, e.op(f"bitcast {shape} {texel} to i{bits}"), kind)
        return
    parts = e.elements(e.op(f"bitcast {shape} {texel} to <{count} x i{bits}>"), f"i{bits}", count)
    for register, part in zip(operand_elements(target), parts, strict=True):
        e.set(register, part, kind)


def surface_store(e: Emitter, s: Statement) -> None:
    """sust.b.2d: dropped outside with .zero."""
    place, source = s.operands
    kind, count, outside = _form(e, s, source, _STORE_HINTS)
    bits = width(kind)
    suffix, shape = _SHAPES[count * bits // 8]
    values = tuple(e.integer(part, bits) for part in operand_elements(source))
    whole = values[0] if count == 1 else e.vector(values, f"i{bits}")
    have = f"i{bits}" if count == 1 else f"<{count} x i{bits}>"
    texel = e.op(f"bitcast {have} {whole} to {shape}")
    e.call("void", f"zrt_sust_2d_{suffix}", *_place(e, s, place, 2), ("i32", str(outside)), (shape, texel))


def texture_load(e: Emitter, s: Statement) -> None:
    """tex{.base}.2d.v4.{f16,f32}.s32: integer texel coordinates, clamped to the edge; texels of four halves."""
    mods = e.modifiers(s)
    kinds = mods.types()
    plain = mods.flag("2d") and mods.flag("v4")
    mods.flag("base")
    e.finish(s, mods)
    target, place, *more = s.operands
    if not plain or more or kinds not in (["f16", "s32"], ["f32", "s32"]):
        raise e.refuse(s, "this form")
    if not isinstance(target, Vector) or len(target.elements) != 4:
        raise e.refuse(s, "number of elements")
    texel = e.call("<4 x i16>", "zrt_tex_2d_v4_f16_s32", *_place(e, s, place, 2))
    for register, part in zip(target.elements, e.elements(texel, "i16", 4), strict=True):
        if kinds[0] == "f16":
            e.set(register, part, "b16")
        else:
            half = e.op(f"bitcast i16 {part} to half")
            e.set(register, e.op(f"fpext half {half} to float"), "f32")


HANDLERS: Mapping[str, Handler] = {
    "suld": surface_load,
    "sust": surface_store,
    "tex": texture_load,
}
