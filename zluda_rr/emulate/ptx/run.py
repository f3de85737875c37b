"""Runs a kernel over a grid: warps in lockstep, divergence by lane masks, the least segment first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.emulate.ptx.compiler import Constant, RegisterSlot, Special
from zluda_rr.emulate.ptx.kinds import Array, Mask
from zluda_rr.emulate.ptx.linked import Linked, link
from zluda_rr.emulate.ptx.machine import LANES, Extern, Launch, Machine
from zluda_rr.emulate.ptx.poison import check_guard, follow
from zluda_rr.emulate.ptx.problem import ExecutionFault, OracleError
from zluda_rr.emulate.ptx.program import Program, Segment
from zluda_rr.numerics import mma
from zluda_rr.ptx import Body, Module, Param

CHUNK_WARPS = 128
"""Warps executed together: enough to hide Python, few enough for a register to stay in the cache."""
SEGMENT_LIMIT = 2_000_000
"""Straight runs of statements that a chunk may execute before it counts as an endless loop."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class OracleStats:
    """What a run did.

    `executed` counts statements by opcode, once per warp that executes them with any lane. `captured` holds,
    for each statement asked for, the registers it defines: arrays [warps of the grid, 32] of their bits after
    its last execution.
    """

    blocks: int
    warps: int
    executed: Mapping[str, int]
    captured: Mapping[int, tuple[Array, ...]]


def run_entry(
    source: Module | Body | Linked,
    entry: str,
    *,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    params: bytes,
    memory: AddressSpace,
    model: str,
    externs: Mapping[str, Extern] | None = None,
    capture: Collection[int] = (),
    dynamic_shared: int = 0,
    chunk_warps: int = CHUNK_WARPS,
    segment_limit: int = SEGMENT_LIMIT,
    progress: Progress | None = None,
) -> OracleStats:
    """Execute kernel `entry` of a module over a grid; `memory` is changed in place.

    Instead of the module its linearised body will do, which then calls no function of the module, or what `link` made
    of it: with many launches that saves compiling it each time.

    `params` is the kernel's parameter buffer, `model` one of `numerics.mma.MODELS`, `externs` Python models
    of called functions, `capture` statement numbers. `progress` is called with blocks done and blocks in all.
    Blocks run in chunks, lowest first, so kernels whose blocks wait for each other are not supported. A chunk
    that executes more than `segment_limit` segments counts as an endless loop.

    Raises OracleError for what has no semantics (naming the line), ExecutionFault and MemoryFault for what
    the program does wrong (naming the statement).
    """
    if model not in mma.MODELS:
        raise OracleError(f"no accumulation model {model!r}; there are {', '.join(mma.MODELS)}")
    linked = link(source, entry, memory, frozenset(capture)) if isinstance(source, Module | Body) else source
    program = linked.program
    if len(params) < program.layout.param_bytes:
        raise OracleError(f"{entry} takes {program.layout.param_bytes} bytes of parameters, {len(params)} were given")
    launch = Launch(grid, block, dynamic_shared)
    counts: Counter[str] = Counter()
    parts: dict[int, list[tuple[Array, ...]]] = {number: [] for number in capture}
    blocks_per_chunk = max(1, chunk_warps // launch.warps_per_block)
    with np.errstate(all="ignore"):
        for first in range(0, launch.blocks, blocks_per_chunk):
            blocks = np.arange(first, min(first + blocks_per_chunk, launch.blocks))
            machine = _machine(linked, launch, blocks, params, memory, model, externs or {})
            machine.functions = {
                name: _Function(function, counts, segment_limit) for name, function in linked.functions.items()
            }
            _Run(program, machine, counts, segment_limit).execute()
            _collect(program, machine, parts)
            if progress is not None:
                progress(int(blocks[-1]) + 1, launch.blocks)
    captured = {number: _joined(rows) for number, rows in parts.items()}
    warps = launch.blocks * launch.warps_per_block
    return OracleStats(launch.blocks, warps, MappingProxyType(dict(counts)), MappingProxyType(captured))


def _joined(rows: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(columns) for columns in zip(*rows, strict=True))


def _machine(
    linked: Linked,
    launch: Launch,
    blocks: NDArray[np.int64],
    params: bytes,
    memory: AddressSpace,
    model: str,
    externs: Mapping[str, Extern],
) -> Machine:
    """Registers at zero, constants and special registers filled in, for some blocks of the grid."""
    per_block = launch.warps_per_block
    shape = (len(blocks) * per_block, LANES)
    thread = np.tile(np.arange(per_block * LANES, dtype=np.int64).reshape(per_block, LANES), (len(blocks), 1))
    special = _special_registers(launch, np.repeat(blocks, per_block), thread)
    shared_bytes = linked.shared_bytes + launch.dynamic_shared
    return Machine(
        shape=shape,
        r=_registers(linked.program, shape, special),
        special=special,
        memory=memory,
        params=np.frombuffer(params, dtype=np.uint8),
        shared=np.zeros((len(blocks), -(-shared_bytes // 16) * 16), dtype=np.uint8),
        local=np.zeros((shape[0] * LANES, -(-linked.local_bytes // 16) * 16), dtype=np.uint8),
        block_of_warp=np.repeat(np.arange(len(blocks)), per_block),
        live=thread < launch.threads,
        model=model,
        externs=externs,
        shared_limit=shared_bytes,
        local_limit=linked.local_bytes,
    )


def _registers(program: Program, shape: tuple[int, int], special: Mapping[str, Array]) -> list[Array]:
    """The slots of a body before it runs."""
    zeros: dict[np.dtype[np.generic], Array] = {}
    r: list[Array] = []
    for slot in program.slots:
        if isinstance(slot, Constant):
            r.append(np.full(shape, slot.value))
        elif isinstance(slot, Special):
            r.append(np.ascontiguousarray(np.broadcast_to(special[slot.name], shape), dtype=np.uint32))
        else:
            r.append(zeros.setdefault(slot.dtype, np.zeros(shape, dtype=slot.dtype)))
    return r


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the module, called on a machine: it has registers of its own and shares everything else."""

    program: Program
    counts: Counter[str]
    limit: int

    @property
    def arguments(self) -> tuple[tuple[int, int], ...]:
        return self._places(self.program.body.function.params)

    @property
    def results(self) -> tuple[tuple[int, int], ...]:
        return self._places(self.program.body.function.returns)

    def _places(self, params: Sequence[Param]) -> tuple[tuple[int, int], ...]:
        return tuple((self.program.layout.addresses[param.name][1], param.nbytes) for param in params)

    def run(self, machine: Machine, mask: Mask | None) -> None:
        live = machine.full if mask is None else mask
        r = _registers(self.program, machine.shape, machine.special)
        awaited = machine.live if machine.awaited is None else machine.awaited
        inside = replace(machine, r=r, live=live, captured={}, awaited=awaited)
        _Run(self.program, inside, self.counts, self.limit).execute()


def _special_registers(launch: Launch, block: NDArray[np.int64], thread: NDArray[np.int64]) -> dict[str, Array]:
    """Values of the special registers, broadcastable to [warps, 32]; `block` is the warp's block in the
    grid."""
    lane = np.arange(LANES, dtype=np.int64)[None, :]
    one = np.int64(1)
    below = (one << lane) - 1
    everything = (one << LANES) - 1
    values: dict[str, Array] = {
        "%laneid": lane,
        "%warpid": thread[:, :1] // LANES,
        "%nwarpid": np.full((1, 1), launch.warps_per_block),
        "%lanemask_eq": one << lane,
        "%lanemask_lt": below,
        "%lanemask_le": below | (one << lane),
        "%lanemask_gt": everything & ~(below | (one << lane)),
        "%lanemask_ge": everything & ~below,
    }
    for axis, (size, count) in enumerate(zip(launch.block, launch.grid, strict=True)):
        name = "xyz"[axis]
        values[f"%ntid.{name}"] = np.full((1, 1), size)
        values[f"%nctaid.{name}"] = np.full((1, 1), count)
        values[f"%tid.{name}"] = thread // int(np.prod(launch.block[:axis], dtype=np.int64)) % size
        values[f"%ctaid.{name}"] = (block // int(np.prod(launch.grid[:axis], dtype=np.int64)) % count)[:, None]
    return {name: value.astype(np.uint32) for name, value in values.items()}


def _collect(program: Program, machine: Machine, parts: Mapping[int, list[tuple[Array, ...]]]) -> None:
    for number, rows in parts.items():
        if number in machine.captured:
            rows.append(machine.captured[number])
        else:  # no warp of this chunk came here
            rows.append(tuple(np.zeros(machine.shape, dtype=np.uint32) for _ in program.body[number].defs))


class _Run:
    """One chunk on its way through a program: which lanes are at which segment."""

    def __init__(self, program: Program, machine: Machine, counts: Counter[str], limit: int) -> None:
        self.program = program
        self.machine = machine
        self.counts = counts
        self.limit = limit
        self.pending: dict[int, Mask] = {0: machine.live}
        self.waiting: dict[int, Mask] = {}

    def execute(self) -> None:
        """Run until every lane has ended. The least segment goes first: lanes that left a loop or an arm
        early wait at the join until the others arrive, since compilers lay joins out behind their arms."""
        budget = self.limit
        while self.pending or self.waiting:
            budget -= 1
            if not budget:
                raise ExecutionFault(f"more than {self.limit} segments executed: endless loop {self._where()}?")
            if not self.pending:
                together = "" if self.machine.awaited is None else " in the same call of its function"
                raise ExecutionFault(f"a barrier is not reached by every live thread of its block{together}")
            index = min(self.pending)
            mask = self.pending.pop(index)
            segment = self.program.segments[index]
            self._count(segment, mask)
            self._steps(segment, None if mask.all() else mask)
            self._leave(index, segment, mask)

    def _where(self) -> str:
        """The statement that runs next."""
        steps = self.program.segments[min(self.pending)].steps if self.pending else ()
        return f"at {self._place(steps[0].number)}" if steps else "of jumps alone"

    def _count(self, segment: Segment, mask: Mask) -> None:
        warps = int(mask.any(axis=1).sum())
        for opcode, count in segment.opcodes.items():
            self.counts[opcode] += count * warps

    def _steps(self, segment: Segment, mask: Mask | None) -> None:
        machine = self.machine
        registers, captured = machine.r, machine.captured
        step = None
        try:
            for step in segment.steps:
                if machine.poison:
                    follow(machine, self.program.body[step.number], self.slots, mask)
                step.op(machine, mask)
                if step.records:
                    captured[step.number] = tuple(registers[slot] for slot in step.records)
                for slot in step.frees:
                    registers[slot] = machine.blank[slot]
        except (MemoryFault, ExecutionFault) as fault:
            assert step is not None
            text = f"{self._place(step.number)}: {fault}"
            if isinstance(fault, MemoryFault):
                raise MemoryFault(text, fault.access) from fault
            raise ExecutionFault(text) from fault

    def _place(self, number: int) -> str:
        statement = self.program.body[number]
        return f"line {statement.line}, s{number}: {' '.join(statement.text.split())}"

    def _leave(self, index: int, segment: Segment, mask: Mask) -> None:
        """Send the lanes of a finished segment on their way."""
        end = segment.end
        if end.kind == "fall":
            self._enter(index + 1, mask)
            return
        if self.machine.poison:
            self._decided(segment, mask)
        chosen = mask if end.guard is None else mask & end.guard(self.machine.r)
        if end.kind == "branch":
            self._enter(end.target, chosen)
        elif end.kind == "exit":
            self.machine.live = self.machine.live & ~chosen
            self._release()
        else:
            self._wait(index + 1, chosen)
        if end.guard is not None:
            self._enter(index + 1, mask & ~chosen)

    @cached_property
    def slots(self) -> Mapping[str, int]:
        """Slots of registers by name."""
        kinds = enumerate(self.program.slots)
        return {kind.name: slot for slot, kind in kinds if isinstance(kind, RegisterSlot)}

    def _decided(self, segment: Segment, mask: Mask) -> None:
        """ExecutionFault where the end of a segment is decided by an undefined value."""
        end = segment.end.statement
        if end is None or end.guard is None:
            return
        try:
            check_guard(self.machine, self.slots[end.guard.register], mask)
        except ExecutionFault as fault:
            raise ExecutionFault(f"{self._place(end.number)}: {fault}") from fault

    def _enter(self, index: int, mask: Mask) -> None:
        if not mask.any():
            return
        if index >= len(self.program.segments):
            # Running off the end of a body is a return.
            self.machine.live = self.machine.live & ~mask
            self._release()
            return
        self.pending[index] = self.pending[index] | mask if index in self.pending else mask

    def _wait(self, index: int, mask: Mask) -> None:
        self.waiting[index] = self.waiting[index] | mask if index in self.waiting else mask
        self._release()

    def _release(self) -> None:
        """Let the blocks go on whose live threads all wait."""
        if not self.waiting:
            return
        arrived = np.logical_or.reduce(list(self.waiting.values()))
        awaited = self.machine.live if self.machine.awaited is None else self.machine.awaited
        missing = (awaited & ~arrived).any(axis=1)
        held = np.zeros(len(self.machine.shared), dtype=np.bool_)
        np.logical_or.at(held, self.machine.block_of_warp, missing)
        free = ~held[self.machine.block_of_warp][:, None]
        waiting, self.waiting = self.waiting, {}
        for index, mask in waiting.items():
            self._enter(index, mask & free)
            kept = mask & ~free
            if kept.any():
                self.waiting[index] = kept
