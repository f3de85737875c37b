"""Loads a code object and launches a kernel of it: memory image, kernel arguments, initial registers.

Source: LLVM AMDGPUUsage, "Kernel Descriptor", "Initial Kernel Execution State" and "Code Object V5 Metadata";
workgroup ids arrive in TTMP9 and TTMP7 on gfx12.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass

import numpy as np

from zluda_rr.emulate.gfx12.blocks import Compiler
from zluda_rr.emulate.gfx12.bus import LOADER_BASE, Bus
from zluda_rr.emulate.gfx12.decode import decode_program
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.elf import CodeObject, Kernel
from zluda_rr.emulate.gfx12.inst import Special
from zluda_rr.emulate.gfx12.machine import FIRST_TTMP, LANES, EmulationError, Machine
from zluda_rr.emulate.gfx12.scheduler import Scheduler
from zluda_rr.emulate.gfx12.stats import Stats
from zluda_rr.emulate.memory import AddressSpace, Memory

Dimensions = tuple[int, int, int]

WAVES_PER_BATCH = 128
"""Waves that run together: enough to hide the interpreter, few enough for the caches."""
MACHINES_KEPT = 8
"""Shapes of batches whose registers and compiled blocks an emulator keeps."""
BLOCK_LIMIT = 50_000_000
"""Blocks a batch may execute before it counts as an endless loop."""
DYNAMIC_STACK = 4096
"""Bytes of stack per lane where the compiler could not tell the depth."""
_PAGE = 4096
_PACKET_BYTES = 64


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


@dataclass(frozen=True, slots=True)
class Placement:
    """Addresses where a runtime has put a code object's relocated image and a launch's complete arguments."""

    code: int
    arguments: int


class Emulator:
    """One kernel of a code object, decoded once; launches of equal batch size share compiled blocks."""

    __slots__ = ("_bus", "_code_object", "_kernel", "_machines", "_program")

    def __init__(self, code_object: CodeObject, kernel_name: str) -> None:
        """KeyError for an unknown kernel; EmulationError for one that is not wave32."""
        self._code_object = code_object
        self._kernel = code_object.kernels[kernel_name]
        if not self._kernel.descriptor.is_wave32:
            raise EmulationError(f"kernel {kernel_name} is not compiled for wave32")
        self._program = decode_program(code_object, self._kernel)
        self._bus = Bus(AddressSpace(0), b"")
        self._machines: dict[tuple[int, int, int], tuple[Machine, Compiler]] = {}

    def run(
        self,
        grid: Dimensions,
        block: Dimensions,
        kernarg: bytes,
        memory: Memory,
        model: str,
        *,
        dynamic_lds: int = 0,
        waves_per_batch: int = WAVES_PER_BATCH,
        placement: Placement | None = None,
        block_limit: int = BLOCK_LIMIT,
    ) -> Stats:
        """Run the kernel over a grid of workgroups; `memory` changes in place.

        `kernarg` holds the explicit arguments at their offsets; the hidden ones are filled in here. `model` is
        the WMMA accumulation model (`numerics.mma`). Raises EmulationError for an instruction that is not
        known or a block larger than the code object allows, MemoryFault for a bad access; the exception's notes name
        the instruction. A batch that executes more than `block_limit` straight runs of instructions counts as an
        endless loop.

        Without `placement` the code object exists for this launch only, read-only. With it `memory` already holds the
        code object and the segment that `kernel_arguments` gives; `kernarg` does not count then.
        """
        kernel, launch = self._kernel, Launch(grid, block)
        if launch.items > kernel.max_workgroup_size:
            limit = kernel.max_workgroup_size
            raise EmulationError(f"a block of {launch.items} threads, at most {limit} in this code object")
        if placement is None:
            arguments = kernel_arguments(kernel, grid, block, kernarg, dynamic_lds)
            image, code_base, segment = _image(self._code_object, arguments)
        else:
            image, code_base, segment = b"", placement.code, placement.arguments
        self._bus.attach(memory, image)
        mode = kernel.descriptor.mode | int(kernel.descriptor.fp16_overflow) << 23
        total: Counter[int] = Counter()
        for first, count in _batches(launch, waves_per_batch):
            machine, compiler = self._machine(count, launch.waves_per_group, dynamic_lds)
            machine.code_base, machine.model = code_base, model
            machine.reset()
            _start(machine, kernel, launch, first, segment)
            Scheduler(machine, compiler, block_limit).run(kernel.entry, mode)
            total.update(compiler.take_counts())
        mnemonics = {address: inst.mnemonic for address, inst in self._program.items()}
        return Stats(launch.groups * launch.waves_per_group, dict(total), mnemonics)

    def _machine(self, groups: int, waves_per_group: int, dynamic_lds: int) -> tuple[Machine, Compiler]:
        key = (groups, waves_per_group, dynamic_lds)
        found = self._machines.get(key)
        if found is None:
            if len(self._machines) == MACHINES_KEPT:  # a long run with many shapes must not keep them all
                del self._machines[next(iter(self._machines))]
            machine = Machine(
                groups,
                waves_per_group,
                lds_bytes=self._kernel.lds_bytes + dynamic_lds,
                scratch_bytes=_scratch_bytes(self._kernel),
                bus=self._bus,
            )
            found = self._machines[key] = machine, Compiler(machine, self._program, operations())
        return found


def run_kernel(
    code_object: CodeObject,
    kernel_name: str,
    grid: Dimensions,
    block: Dimensions,
    kernarg: bytes,
    memory: Memory,
    model: str,
    *,
    dynamic_lds: int = 0,
    waves_per_batch: int = WAVES_PER_BATCH,
    block_limit: int = BLOCK_LIMIT,
) -> Stats:
    """Run a kernel once; see `Emulator`, which saves decoding and compiling when there are more launches."""
    emulator = Emulator(code_object, kernel_name)
    return emulator.run(
        grid,
        block,
        kernarg,
        memory,
        model,
        dynamic_lds=dynamic_lds,
        waves_per_batch=waves_per_batch,
        block_limit=block_limit,
    )


def _scratch_bytes(kernel: Kernel) -> int:
    """Scratch of a lane; a kernel with recursion or calls through pointers gets a stack besides."""
    return kernel.scratch_bytes + (DYNAMIC_STACK if kernel.descriptor.uses_dynamic_stack else 0)


def _batches(launch: Launch, waves: int) -> list[tuple[int, int]]:
    """(first workgroup, count) of batches of nearly equal size, the larger ones first."""
    most = max(1, waves // launch.waves_per_group)
    number = -(-launch.groups // most)
    small, larger = divmod(launch.groups, number) if number else (0, 0)
    sizes = [small + 1] * larger + [small] * (number - larger)
    return [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def code_image(code_object: CodeObject, base: int) -> bytes:
    """Every segment at its place, relocated for `base`, in whole pages."""
    size = max(segment.address + len(segment.data) for segment in code_object.segments)
    image = bytearray(size + -size % _PAGE)
    for segment in code_object.segments:
        image[segment.address : segment.address + len(segment.data)] = segment.data
    for word in code_object.relocations:
        image[word.address : word.address + 8] = (base + word.value).to_bytes(8, "little")
    return bytes(image)


def _image(code_object: CodeObject, arguments: bytes) -> tuple[bytes, int, int]:
    """The loader's region: code object, then kernel arguments; with the addresses of both."""
    image = code_image(code_object, LOADER_BASE)
    # Scalar loads fetch whole dwords and may prefetch; leave room behind the arguments.
    return bytes(image + arguments + bytes(64)), LOADER_BASE, LOADER_BASE + len(image)


def kernel_arguments(kernel: Kernel, grid: Dimensions, block: Dimensions, kernarg: bytes, dynamic_lds: int) -> bytes:
    """What a launch needs in memory, 64-byte aligned: the dispatch packet, then the kernarg segment with the explicit
    arguments as given and the hidden ones from the launch."""
    segment = bytearray(max(kernel.kernarg_size, len(kernarg)))
    segment[: len(kernarg)] = kernarg
    values = {"hidden_grid_dims": sum(1 for n in grid if n > 1) or 1, "hidden_dynamic_lds_size": dynamic_lds}
    for axis, name in enumerate("xyz"):
        values[f"hidden_block_count_{name}"] = grid[axis]
        values[f"hidden_group_size_{name}"] = block[axis]
        values[f"hidden_remainder_{name}"] = 0
        values[f"hidden_global_offset_{name}"] = 0
    for argument in kernel.args:
        if argument.value_kind in values:
            value = values[argument.value_kind].to_bytes(argument.size, "little")
            segment[argument.offset : argument.offset + argument.size] = value
    return _dispatch_packet(grid, block, kernel.scratch_bytes, kernel.lds_bytes + dynamic_lds) + bytes(segment)


def _dispatch_packet(grid: Dimensions, block: Dimensions, scratch: int, lds: int) -> bytes:
    """hsa_kernel_dispatch_packet_t as far as kernels read it: sizes in work items."""
    items = (g * b for g, b in zip(grid, block, strict=True))
    fields = struct.pack("<HH4H3III", 0, 3, *block, 0, *items, scratch, lds)
    return fields.ljust(_PACKET_BYTES, b"\0")


def _start(machine: Machine, kernel: Kernel, launch: Launch, first: int, segment: int) -> None:
    """Initial registers of the workgroups from `first` on."""
    per_group = launch.waves_per_group
    groups = np.repeat(np.arange(first, first + machine.groups), per_group)
    columns, rows = launch.grid[:2]
    machine.sgpr[FIRST_TTMP + 9] = groups % columns
    machine.sgpr[FIRST_TTMP + 7] = groups // columns % rows | groups // columns // rows << 16
    _user_registers(machine, kernel, segment)
    wave = np.tile(np.arange(per_group), machine.groups)
    item = wave[:, None] * LANES + np.arange(LANES)
    enabled = item < launch.items
    lane_bits = (enabled << np.arange(LANES)).sum(axis=1)
    machine.sgpr[Special.EXEC_LO] = lane_bits
    width, height = launch.block[:2]
    packed = item % width | item // width % height << 10 | item // width // height << 20
    machine.vgpr[0] = np.where(enabled, packed, 0)
    machine.refresh_lanes()


def _user_registers(machine: Machine, kernel: Kernel, segment: int) -> None:
    """`segment` is the address of what `kernel_arguments` gives."""
    kernarg_address = segment + _PACKET_BYTES
    pointers = {"dispatch_ptr": segment, "kernarg_segment_ptr": kernarg_address}
    register = 0
    for name, count in kernel.descriptor.user_sgprs:
        if name in pointers:
            machine.sgpr[register] = pointers[name] & 0xFFFF_FFFF
            machine.sgpr[register + 1] = pointers[name] >> 32
        elif name == "private_segment_size":
            machine.sgpr[register] = machine.scratch_bytes
        elif name == "kernarg_preload":
            _preload(machine, kernel, kernarg_address, register, count)
        register += count


def _preload(machine: Machine, kernel: Kernel, kernarg_address: int, register: int, count: int) -> None:
    start = kernarg_address + 4 * kernel.descriptor.preload_offset
    data = machine.bus.load(np.array([start], dtype=np.uint64), 4 * count).view(np.uint32)
    machine.sgpr[register : register + count] = data.T
