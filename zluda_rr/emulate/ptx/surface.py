"""tex, suld and sust by descriptor.

A handle is the address of 32 bytes: base (u64), width in texels, height, pitch in bytes, bytes per texel (u32
each), 8 unused. The runtime and the lowering use the same descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.access import spread
from zluda_rr.emulate.ptx.compiler import Compiler, Op, Reader
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import DTYPES, Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import ExecutionFault, Unsupported
from zluda_rr.numerics.f16 import half_to_float
from zluda_rr.ptx import Coordinates, Operand, Statement, Vector

_MODES = ("zero", "clamp", "trap")


@dataclass(frozen=True, slots=True)
class _Surface:
    """Descriptors of the lanes in question, [N] each."""

    base: NDArray[np.uint64]
    width: NDArray[np.int64]
    height: NDArray[np.int64]
    pitch: NDArray[np.int64]
    texel: NDArray[np.int64]


def _surfaces(machine: Machine, handles: NDArray[np.uint64], mask: Mask | None) -> _Surface:
    raw = machine.load("global", handles & ~np.uint64(15), 16, mask)
    rest = machine.load("global", (handles & ~np.uint64(15)) + np.uint64(16), 16, mask)
    words = np.concatenate([raw, rest], axis=1).view(np.uint32).astype(np.int64)
    base = np.ascontiguousarray(raw[:, :8]).view(np.uint64)[:, 0]
    return _Surface(base, words[:, 2], words[:, 3], words[:, 4], words[:, 5])


def _picked(values: Array, mask: Mask | None) -> Array:
    return values.reshape(-1) if mask is None else values[mask]


def _place(compiler: Compiler, operand: Operand) -> tuple[Reader, Reader, Reader]:
    """Readers of the handle (u64), x and y (s32)."""
    if not isinstance(operand, Coordinates) or operand.sampler is not None:
        raise Unsupported("a handle with coordinates is expected")
    if len(operand.elements) < 2:
        raise Unsupported("two coordinates are expected")
    handle = compiler.reader(operand.handle, "u64")
    x, y = (compiler.reader(element, "s32") for element in operand.elements[:2])
    return handle, x, y


def _surface_form(compiler: Compiler, spec: Spec, place: Operand, data: Operand) -> tuple[str, tuple[Operand, ...]]:
    """Out-of-range mode and the data registers of suld.b.2d / sust.b.2d."""
    spec.allow(("b", "2d", "v2", "v4", "ca", "cg", "cs", "cv", "wb", "wt", *_MODES), {"b8", "b16", "b32", "b64"})
    modes = [flag for flag in spec.flags if flag in _MODES]
    if not {"b", "2d"} <= spec.flags or len(modes) > 1:
        raise Unsupported("only .b.2d surfaces have semantics here")
    elements = data.elements if isinstance(data, Vector) else (data,)
    if len(elements) != spec.vector:
        raise Unsupported("vector length")
    return (modes[0] if modes else "trap"), elements


def _locate(
    machine: Machine, place: tuple[Reader, Reader, Reader], nbytes: int, mode: str, mask: Mask | None
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Addresses [N] and which of them lie inside the surface; x counts bytes."""
    handle, read_x, read_y = place
    surface = _surfaces(machine, handle(machine.r), mask)
    x = _picked(read_x(machine.r), mask).astype(np.int64)
    y = _picked(read_y(machine.r), mask).astype(np.int64)
    if (x % nbytes).any():
        raise ExecutionFault(f"surface x coordinate {int(x[x % nbytes != 0][0])} is no multiple of {nbytes} bytes")
    if mode == "clamp":
        x = np.clip(x, 0, surface.width * surface.texel - nbytes)
        y = np.clip(y, 0, surface.height - 1)
    inside = (x >= 0) & (x + nbytes <= surface.width * surface.texel) & (y >= 0) & (y < surface.height)
    if mode == "trap" and not inside.all():
        raise ExecutionFault(f"surface access outside at x {int(x[~inside][0])} bytes, y {int(y[~inside][0])}")
    return surface.base + (y * surface.pitch + x).astype(np.uint64), inside


def surface_load(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """suld.b.2d: zeros outside with `.zero`."""
    data, source = statement.operands
    mode, elements = _surface_form(compiler, spec, source, data)
    name = spec.type
    writes = [compiler.writer(element, name) for element in elements]
    place = _place(compiler, source)
    nbytes = DTYPES[name].itemsize * len(writes)

    def execute(machine: Machine, mask: Mask | None) -> None:
        where, inside = _locate(machine, place, nbytes, mode, mask)
        octets = np.zeros((len(where), nbytes), dtype=np.uint8)
        if inside.any():
            octets[inside] = machine.memory.load(where[inside], nbytes)
        values = octets.view(DTYPES[name])
        for index, write in enumerate(writes):
            write(machine, spread(machine, values[:, index], mask), mask)

    return execute


def surface_store(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """sust.b.2d: dropped outside with `.zero`."""
    target, data = statement.operands
    mode, elements = _surface_form(compiler, spec, target, data)
    name = spec.type
    reads = [compiler.reader(element, name) for element in elements]
    place = _place(compiler, target)
    nbytes = DTYPES[name].itemsize * len(reads)

    def execute(machine: Machine, mask: Mask | None) -> None:
        where, inside = _locate(machine, place, nbytes, mode, mask)
        values = np.stack([_picked(read(machine.r), mask) for read in reads], axis=1)
        if inside.any():
            machine.memory.store(where[inside], np.ascontiguousarray(values[inside]).view(np.uint8))

    return execute


def texture(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """tex{.base}.2d.v4.{f16,f32}.s32: four halves at integer texel coordinates, clamped to the edge."""
    spec.allow(("base", "2d", "v4"), {"f16", "f32", "s32"})
    data, source = statement.operands
    if spec.types not in (("f16", "s32"), ("f32", "s32")) or not {"2d", "v4"} <= spec.flags:
        raise Unsupported("only .2d.v4 with .f16 or .f32 texels and .s32 coordinates has semantics here")
    if not isinstance(data, Vector) or len(data.elements) != 4:
        raise Unsupported("vector length")
    name = spec.types[0]
    writes = [compiler.writer(element, name) for element in data.elements]
    handle, read_x, read_y = _place(compiler, source)

    def execute(machine: Machine, mask: Mask | None) -> None:
        surface = _surfaces(machine, handle(machine.r), mask)
        if (surface.texel != 8).any():
            raise ExecutionFault("a texture of four halves is expected: 8 bytes per texel")
        x = np.clip(_picked(read_x(machine.r), mask), 0, surface.width - 1)
        y = np.clip(_picked(read_y(machine.r), mask), 0, surface.height - 1)
        texels = machine.memory.load(surface.base + (y * surface.pitch + 8 * x).astype(np.uint64), 8).view(np.uint16)
        for index, write in enumerate(writes):
            value = spread(machine, texels[:, index], mask)
            write(machine, half_to_float(value) if name == "f32" else value, mask)

    return execute


HANDLERS: Mapping[str, Handler] = MappingProxyType({"suld": surface_load, "sust": surface_store, "tex": texture})
