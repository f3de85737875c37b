"""One protocol for everything that can run a launch: the PTX oracle and the gfx12 emulator."""

from dataclasses import dataclass, field, replace
from typing import Protocol

from zluda_rr.emulate.gfx12 import Emulator, Stats, load_code_object
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import Linked, link, run_entry
from zluda_rr.lower import CompiledKernel
from zluda_rr.ptx import Module
from zluda_rr.runtime.faults import named_faults
from zluda_rr.runtime.images import image_objects
from zluda_rr.runtime.workload import Launch

MODELS = ("exact", "sequential", "pairwise")
"""Orders in which a matrix product may be summed (numerics/mma.py)."""
BLOCK_LIMIT = 500_000
"""Straight runs of instructions of a batch before it counts as an endless loop: half a minute, layers need hundreds."""


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in both of its forms: the PTX module, and its gfx1201 code object once compiled."""

    name: str
    module: Module
    entry: str
    compiled: CompiledKernel | None = None

    def code(self) -> CompiledKernel:
        """The compiled form; a program without one was never meant for this device."""
        if self.compiled is None:
            raise ValueError(f"{self.name} was not compiled")
        return self.compiled


@dataclass(frozen=True, slots=True)
class Execution:
    """Memory after a launch, and instruction counts where the device has them."""

    memory: AddressSpace
    stats: Stats | None = None


class Device(Protocol):
    """Runs one launch; the launch's own memory is never changed."""

    @property
    def name(self) -> str:
        """How reports call this device."""

    @property
    def models(self) -> tuple[str, ...]:
        """The accumulation models that a verification asks for unless told otherwise."""

    def run(self, program: Program, launch: Launch, model: str) -> Execution:
        """Memory after the launch, with mma sums in the given accumulation model.

        Raises DeviceFault for what the program does wrong, UserError for what the device cannot execute.
        """


@dataclass(frozen=True, slots=True)
class OracleDevice:
    """The PTX interpreter: executes the PTX itself. Keeps what it compiled for further launches."""

    name: str = "ptx-oracle"
    models: tuple[str, ...] = MODELS
    _linked: dict[tuple[Module, str], Linked] = field(default_factory=dict)

    def run(self, program: Program, launch: Launch, model: str) -> Execution:
        """See Device."""
        memory = launch.memory.copy()
        with named_faults(self.name, program.name, memory):
            key = program.module, program.entry
            linked = self._linked.get(key) or link(*key, memory)
            if linked.movable:
                self._linked[key] = linked
            run_entry(
                linked,
                program.entry,
                grid=launch.grid,
                block=launch.block,
                params=launch.params,
                memory=memory,
                model=model,
            )
        return Execution(memory)


@dataclass(frozen=True, slots=True)
class EmulatorDevice:
    """The gfx12 machine-code emulator: executes the code object. Keeps what it decoded for further launches."""

    name: str = "gfx1201-emulator"
    models: tuple[str, ...] = MODELS
    _loaded: dict[bytes, Emulator] = field(default_factory=dict)

    def run(self, program: Program, launch: Launch, model: str) -> Execution:
        """See Device."""
        return self._run(program, replace(launch, memory=launch.memory.copy()), model)

    def _run(self, program: Program, launch: Launch, model: str) -> Execution:
        """Run in the launch's own memory."""
        binary = program.code().code_object
        with named_faults(self.name, program.name, launch.memory):
            if binary not in self._loaded:
                self._loaded[binary] = Emulator(load_code_object(binary), program.entry)
            stats = self._loaded[binary].run(
                launch.grid, launch.block, launch.params, launch.memory, model, block_limit=BLOCK_LIMIT
            )
        return Execution(launch.memory, stats)


@dataclass(frozen=True, slots=True)
class ZludaDevice(EmulatorDevice):
    """The emulator for ZLUDA's code objects: handles of surfaces and textures point at hardware descriptors."""

    name: str = "gfx1201-emulator-zluda"

    def run(self, program: Program, launch: Launch, model: str) -> Execution:
        """See Device."""
        with image_objects(replace(launch, memory=launch.memory.copy())) as attached:
            return self._run(program, attached, model)
