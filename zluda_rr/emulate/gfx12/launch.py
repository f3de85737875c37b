"""Loads a code object and launches a kernel of it: memory image, kernel arguments, initial registers.

Source: LLVM AMDGPUUsage, "Kernel Descriptor", "Initial Kernel Execution State" and "Code Object V5 Metadata";
workgroup ids arrive in TTMP9 and TTMP7 on gfx12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zluda_rr.emulate.gfx12.blocks import Compiler, executed
from zluda_rr.emulate.gfx12.bus import LOADER_BASE, Bus
from zluda_rr.emulate.gfx12.decode import decode_program
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.elf import CodeObject, Kernel
from zluda_rr.emulate.gfx12.inst import Inst
from zluda_rr.emulate.gfx12.machine import FIRST_TTMP, LANES, EmulationError, Machine, Special
from zluda_rr.emulate.gfx12.scheduler import Scheduler
from zluda_rr.emulate.gfx12.stats import Stats
from zluda_rr.emulate.memory import AddressSpace

Dimensions = tuple[int, int, int]

WAVES_PER_BATCH = 128
"""Waves that run together: enough to hide the interpreter, few enough for the caches."""
BLOCK_LIMIT = 50_000_000
"""Blocks a batch may execute before it counts as an endless loop."""
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: sizes in workgroups and in work items."""

    grid: Dimensions
    block: Dimensions

    @property
    def items(self) -> int:
        """Work items of a workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves_per_group(self) -> int:
        return (self.items + LANES - 1) // LANES

    @property
    def groups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def run_kernel(
    code_object: CodeObject,
    kernel_name: str,
    grid: Dimensions,
    block: Dimensions,
    kernarg: bytes,
    memory: AddressSpace,
    model: str,
    *,
    dynamic_lds: int = 0,
    waves_per_batch: int = WAVES_PER_BATCH,
    program: Mapping[int, Inst] | None = None,
) -> Stats:
    """Run a kernel over a grid of workgroups; `memory` changes in place.

    `kernarg` holds the explicit arguments at their offsets; the hidden ones are filled in here. `model` is the
    WMMA accumulation model (`numerics.mma`). `program` saves decoding the code object again. Raises KeyError
    for an unknown kernel, EmulationError for an instruction that is not known, MemoryFault for a bad access;
    the exception's notes name the instruction.
    """
    kernel = code_object.kernels[kernel_name]
    launch = Launch(grid, block)
    if not kernel.descriptor.is_wave32:
        raise EmulationError(f"kernel {kernel_name} is not compiled for wave32")
    image, code_base, kernarg_address = _image(code_object, _arguments(kernel, launch, kernarg, dynamic_lds))
    bus = Bus(memory, image)
    instructions = decode_program(code_object, kernel) if program is None else program
    mode = kernel.descriptor.mode | int(kernel.descriptor.fp16_overflow) << 23
    total: Counter[str] = Counter()
    machine: Machine | None = None
    for first, count in _batches(launch, waves_per_batch):
        if machine is None or machine.groups != count:
            machine = Machine(
                count,
                launch.waves_per_group,
                lds_bytes=kernel.lds_bytes + dynamic_lds,
                scratch_bytes=kernel.scratch_bytes,
                bus=bus,
                model=model,
            )
            machine.code_base = code_base
            compiler = Compiler(machine, instructions, operations())
        else:
            machine.reset()
        _start(machine, kernel, launch, first, kernarg_address)
        Scheduler(machine, compiler, BLOCK_LIMIT).run(kernel.entry, mode)
        total.update(executed(compiler.blocks))
        for compiled in compiler.blocks:
            compiled.executed = 0
    return Stats(launch.groups * launch.waves_per_group, dict(total))


def _batches(launch: Launch, waves: int) -> list[tuple[int, int]]:
    """(first workgroup, count) of batches of nearly equal size, the larger ones first."""
    most = max(1, waves // launch.waves_per_group)
    number = -(-launch.groups // most)
    small, larger = divmod(launch.groups, number) if number else (0, 0)
    sizes = [small + 1] * larger + [small] * (number - larger)
    return [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def _image(code_object: CodeObject, arguments: bytes) -> tuple[bytes, int, int]:
    """The loader's region: code object, then kernel arguments; with the addresses of both."""
    size = max(segment.address + len(segment.data) for segment in code_object.segments)
    image = bytearray(size)
    for segment in code_object.segments:
        image[segment.address : segment.address + len(segment.data)] = segment.data
    image += bytes(-len(image) % _PAGE)
    # Scalar loads fetch whole dwords and may prefetch; leave room behind the arguments.
    return bytes(image + arguments + bytes(64)), LOADER_BASE, LOADER_BASE + len(image)


def _arguments(kernel: Kernel, launch: Launch, kernarg: bytes, dynamic_lds: int) -> bytes:
    """The kernarg segment: explicit arguments as given, hidden ones from the launch."""
    segment = bytearray(max(kernel.kernarg_size, len(kernarg)))
    segment[: len(kernarg)] = kernarg
    values = {"hidden_grid_dims": sum(1 for n in launch.grid if n > 1) or 1, "hidden_dynamic_lds_size": dynamic_lds}
    for axis, name in enumerate("xyz"):
        values[f"hidden_block_count_{name}"] = launch.grid[axis]
        values[f"hidden_group_size_{name}"] = launch.block[axis]
        values[f"hidden_remainder_{name}"] = 0
        values[f"hidden_global_offset_{name}"] = 0
    for argument in kernel.args:
        if argument.value_kind in values:
            value = values[argument.value_kind].to_bytes(argument.size, "little")
            segment[argument.offset : argument.offset + argument.size] = value
    return bytes(segment)


def _start(machine: Machine, kernel: Kernel, launch: Launch, first: int, kernarg_address: int) -> None:
    """Initial registers of the workgroups from `first` on."""
    per_group = launch.waves_per_group
    groups = np.repeat(np.arange(first, first + machine.groups), per_group)
    x, y, z = groups % launch.grid[0], groups // launch.grid[0] % launch.grid[1], groups // launch.grid[0] // launch.grid[1]
    machine.sgpr[FIRST_TTMP + 9] = x
    machine.sgpr[FIRST_TTMP + 7] = y | z << 16
    _user_registers(machine, kernel, kernarg_address)
    wave = np.tile(np.arange(per_group), machine.groups)
    item = wave[:, None] * LANES + np.arange(LANES)
    enabled = item < launch.items
    lane_bits = (enabled << np.arange(LANES)).sum(axis=1)
    machine.sgpr[Special.EXEC_LO] = lane_bits
    width, height = launch.block[:2]
    packed = item % width | item // width % height << 10 | item // width // height << 20
    machine.vgpr[0] = np.where(enabled, packed, 0)
    machine.refresh_lanes()


def _user_registers(machine: Machine, kernel: Kernel, kernarg_address: int) -> None:
    register = 0
    for name, count in kernel.descriptor.user_sgprs:
        if name == "kernarg_segment_ptr":
            machine.sgpr[register] = kernarg_address & 0xFFFF_FFFF
            machine.sgpr[register + 1] = kernarg_address >> 32
        elif name == "private_segment_size":
            machine.sgpr[register] = machine.scratch_bytes
        elif name == "kernarg_preload":
            _preload(machine, kernel, kernarg_address, register, count)
        register += count


def _preload(machine: Machine, kernel: Kernel, kernarg_address: int, register: int, count: int) -> None:
    start = kernarg_address + 4 * kernel.descriptor.preload_offset
    data = machine.bus.load(np.array([start], dtype=np.uint64), 4 * count).view(np.uint32)
    machine.sgpr[register : register + count] = data.T
