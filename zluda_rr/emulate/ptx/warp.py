"""Instructions in which the lanes of a warp work together: shfl, vote, activemask, movmatrix, mma.

The oracle demands what PTX leaves to the program: an executing lane is in its member mask, what is
read from a lane that does not execute reaches nothing (poison.py), and `.aligned` instructions find the whole warp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.compiler import Compiler, Op, Reader, Writer
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Array, Mask, Spec
from zluda_rr.emulate.ptx.machine import LANES, Machine
from zluda_rr.emulate.ptx.poison import mark, shuffled
from zluda_rr.emulate.ptx.problem import ExecutionFault, Unsupported
from zluda_rr.numerics import mma
from zluda_rr.ptx import Negated, Operand, Pair, Register, Statement, Vector

_BITS = np.uint32(1) << np.arange(LANES, dtype=np.uint32)
_MMA = ["sync", "aligned", "m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16"]


def shuffle_sources(mode: str, b: NDArray[np.uint32], c: NDArray[np.uint32]) -> tuple[NDArray[np.int64], Mask]:
    """Source lane and predicate of each lane, [warps, 32], as the manual's pseudo code for shfl.sync has
    it."""
    lane = np.arange(LANES, dtype=np.int64)[None, :]
    distance = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = ((c >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
    least = lane & segment
    most = least | (clamp & ~segment)
    if mode == "up":
        source = lane - distance
        inside = source >= most
    else:
        choices = {"down": lane + distance, "bfly": lane ^ distance, "idx": least | (distance & ~segment)}
        source = choices[mode]
        inside = source <= most
    return np.where(inside, source, lane), inside


def _members(machine: Machine, members: NDArray[np.uint32], mask: Mask | None) -> Mask:
    """The executing lanes; ExecutionFault if one is missing from its own member mask."""
    active = machine.full if mask is None else mask
    included = (members & _BITS) != 0
    if (active & ~included).any():
        raise ExecutionFault("a lane executes a warp-wide instruction whose member mask lacks it")
    return active


def shuffle(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """shfl.sync: d|p, a, b, c, membermask."""
    spec.allow(("sync", "up", "down", "bfly", "idx"), {"b32"})
    modes = [flag for flag in spec.flags if flag != "sync"]
    if "sync" not in spec.flags or len(modes) != 1:
        raise Unsupported("only shfl.sync has semantics here")
    target, *sources = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    write = compiler.writer(first, "b32")
    write_p = compiler.writer(second, "pred") if second is not None else None
    value, b, c, members = (compiler.reader(operand, "b32") for operand in sources)
    slots = [compiler.slot(o.name) if isinstance(o, Register) else None for o in (*sources[:3], first, second)]
    return _shuffle_op(modes[0], (value, b, c, members), (write, write_p), slots)


def _shuffle_op(
    mode: str,
    reads: tuple[Reader, Reader, Reader, Reader],
    writes: tuple[Writer, Writer | None],
    slots: Sequence[int | None],
) -> Op:
    value, b, c, members = reads
    write, write_p = writes
    of_value, *others = slots[:3]
    controls = tuple(slot for slot in others if slot is not None)
    results = tuple(slot for slot in slots[3:] if slot is not None)

    def execute(machine: Machine, mask: Mask | None) -> None:
        r = machine.r
        active = _members(machine, members(r), mask)
        source, inside = shuffle_sources(mode, b(r), c(r))
        if mask is not None or machine.poison:
            missing = active & ~np.take_along_axis(active, source, axis=1)
            marked = shuffled(machine, (of_value, controls), source, missing)
            for slot in results:
                mark(machine, slot, marked, active)
        write(machine, np.take_along_axis(value(r), source, axis=1), mask)
        if write_p is not None:
            write_p(machine, inside, mask)

    return execute


def vote(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """vote.sync.{all,any,uni,ballot}: d, {!}p, membermask."""
    spec.allow(("sync", "all", "any", "uni", "ballot"), {"pred", "b32"})
    modes = [flag for flag in spec.flags if flag != "sync"]
    if "sync" not in spec.flags or len(modes) != 1:
        raise Unsupported("only vote.sync has semantics here")
    (mode,) = modes
    target, condition, mask_operand = statement.operands
    write = compiler.writer(target, "b32" if mode == "ballot" else "pred")
    read = _condition(compiler, condition)
    members = compiler.reader(mask_operand, "b32")
    outcome = _VOTES[mode]

    def execute(machine: Machine, mask: Mask | None) -> None:
        active = _members(machine, members(machine.r), mask)
        result = outcome(read(machine.r), active)
        write(machine, np.repeat(result, LANES, axis=1), mask)

    return execute


def _condition(compiler: Compiler, operand: Operand) -> Reader:
    if isinstance(operand, Negated):
        read = compiler.reader(operand.operand, "pred")
        return lambda r: ~read(r)
    return compiler.reader(operand, "pred")


def _ballot(chosen: Mask) -> Array:
    words: Array = np.where(chosen, _BITS, np.uint32(0)).sum(axis=1, keepdims=True, dtype=np.uint32)
    return words


def _all(p: Mask, active: Mask) -> Array:
    return np.logical_and.reduce(p | ~active, axis=1, keepdims=True)


def _any(p: Mask, active: Mask) -> Array:
    return np.logical_or.reduce(p & active, axis=1, keepdims=True)


_VOTES: Mapping[str, Callable[[Mask, Mask], Array]] = MappingProxyType(
    {
        "ballot": lambda p, active: _ballot(p & active),
        "all": _all,
        "any": _any,
        "uni": lambda p, active: _all(p, active) | ~_any(p, active),
    }
)


def active_mask(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """activemask.b32."""
    spec.allow((), {"b32"})
    (target,) = statement.operands
    write = compiler.writer(target, "b32")

    def execute(machine: Machine, mask: Mask | None) -> None:
        active = machine.full if mask is None else mask
        write(machine, np.repeat(_ballot(active), LANES, axis=1), mask)

    return execute


def whole_warps(machine: Machine, mask: Mask | None) -> None:
    """ExecutionFault unless each warp executes with all its lanes or with none."""
    if mask is not None and not np.array_equal(mask.any(axis=1), mask.all(axis=1)):
        raise ExecutionFault("an .aligned instruction is executed by a part of a warp")


def move_matrix(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """movmatrix.sync.aligned.m8n8.trans.b16: lane 4g+t holds elements 2t and 2t+1 of row g."""
    if spec.types != ("b16",) or spec.flags != {"sync", "aligned", "m8n8", "trans"}:
        raise Unsupported("this form of movmatrix")
    target, source = statement.operands
    write, read = compiler.writer(target, "b32"), compiler.reader(source, "b32")

    def execute(machine: Machine, mask: Mask | None) -> None:
        whole_warps(machine, mask)
        rows = read(machine.r).view(np.uint16).reshape(-1, 8, 8)
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
        write(machine, columns.reshape(-1, 2 * LANES).view(np.uint32), mask)

    return execute


def _fragment(compiler: Compiler, operand: Operand, count: int) -> list[Reader]:
    if not isinstance(operand, Vector) or len(operand.elements) != count:
        raise Unsupported(f"a fragment of {count} registers is expected")
    return [compiler.reader(element, "b32") for element in operand.elements]


def matrix_multiply(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 under the machine's accumulation model."""
    if list(spec.modifiers) != _MMA:
        raise Unsupported("this form of mma")
    target, first, second, third = statement.operands
    if not isinstance(target, Vector) or len(target.elements) != 2:
        raise Unsupported("a fragment of 2 registers is expected")
    writes = [compiler.writer(element, "b32") for element in target.elements]
    reads = [_fragment(compiler, operand, count) for operand, count in ((first, 4), (second, 2), (third, 2))]

    def execute(machine: Machine, mask: Mask | None) -> None:
        whole_warps(machine, mask)
        r = machine.r
        a, b, c = (np.stack([read(r) for read in fragment], axis=1) for fragment in reads)
        d = mma.mma_m16n8k32(a, b, c, machine.model)
        for index, write in enumerate(writes):
            write(machine, np.ascontiguousarray(d[:, index]), mask)

    return execute


def synchronise_warp(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """bar.warp.sync: accesses are in order already, so only its conditions are checked."""
    if spec.flags != {"warp", "sync"} or spec.types:
        raise Unsupported("this form of bar")
    (operand,) = statement.operands
    read = compiler.reader(operand, "b32")

    def execute(machine: Machine, mask: Mask | None) -> None:
        members = read(machine.r)
        active = _members(machine, members, mask)
        for lane in range(LANES):  # each executing lane waits for the live lanes of its own mask
            waits = active[:, lane : lane + 1] & ((members[:, lane : lane + 1] & _BITS) != 0) & machine.live
            if (waits & ~active).any():
                raise ExecutionFault("bar.warp.sync waits for a lane that is elsewhere")

    return execute


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **dict.fromkeys(("bar", "barrier"), synchronise_warp),
        "shfl": shuffle,
        "vote": vote,
        "activemask": active_mask,
        "movmatrix": move_matrix,
        "mma": matrix_multiply,
    }
)
