"""Modules of one program: code objects in device memory, their kernels and variables."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import count

from zluda_rr.emulate.gfx12 import (
    CodeObject,
    CodeObjectError,
    EmulationError,
    Emulator,
    Kernel,
    Placement,
    code_image,
    kernel_arguments,
    load_code_object,
)
from zluda_rr.emulate.hip.bundle import device_code
from zluda_rr.emulate.hip.memory import DeviceMemory
from zluda_rr.emulate.hip.protocol import Refusal, Status
from zluda_rr.emulate.memory import MemoryFault

__all__ = ["Modules"]

Dimensions = tuple[int, int, int]

_ARGUMENT_BYTES = 65536 - 256
"""Room of the segment for kernel arguments (native/helper.c); scalar loads may run a little over the end."""
_FUNCTION = struct.Struct("<8I")


@dataclass(slots=True)
class _Module:
    code: CodeObject
    address: int = 0
    """Where the image lies; 0 until it is placed."""
    emulators: dict[str, Emulator] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Function:
    module: _Module
    kernel: Kernel


class Modules:
    """Loads, places, looks up, launches. Refusal for what the program got wrong."""

    def __init__(self, memory: DeviceMemory, arguments: int) -> None:
        """`arguments` is the address of the segment that kernel arguments go to."""
        self._memory = memory
        self._arguments = arguments
        self._modules: dict[int, _Module] = {}
        self._functions: dict[int, _Function] = {}
        self._numbers = count(1)
        memory.protect(arguments, _ARGUMENT_BYTES + 256)

    def load(self, data: bytes) -> tuple[int, int]:
        """Number of a new module and the bytes of its image."""
        try:
            code = load_code_object(device_code(data))
        except CodeObjectError as error:
            raise Refusal(Status.INVALID_IMAGE, f"module: {error}") from error
        number = next(self._numbers)
        self._modules[number] = _Module(code)
        return number, len(code_image(code, 0))

    def place(self, number: int, address: int) -> None:
        """Write the relocated image at `address`, a whole page; kernels cannot write what a loader maps read-only."""
        module = self._module(number)
        module.address = address
        self._memory.write(address, code_image(module.code, address))
        for segment in module.code.segments:
            if not segment.writable:
                self._memory.protect(address + segment.address, len(segment.data))

    def unload(self, number: int) -> None:
        """Forget a module and its functions."""
        gone = self._module(number)
        del self._modules[number]
        self._functions = {n: f for n, f in self._functions.items() if f.module is not gone}

    def function(self, number: int, name: str) -> bytes:
        """Number and properties of a kernel, then offset and size of its explicit arguments."""
        module = self._module(number)
        kernel = module.code.kernels.get(name)
        if kernel is None:
            raise Refusal(Status.NOT_FOUND)
        function = next(self._numbers)
        self._functions[function] = _Function(module, kernel)
        explicit = [a for a in kernel.args if not a.is_hidden]
        fixed = _FUNCTION.pack(
            function,
            len(explicit),
            kernel.kernarg_size,
            kernel.vgprs,
            kernel.sgprs,
            kernel.lds_bytes,
            kernel.scratch_bytes,
            kernel.max_workgroup_size,
        )
        return fixed + b"".join(struct.pack("<II", a.offset, a.size) for a in explicit)

    def variable(self, number: int, name: str) -> tuple[int, int]:
        """Address and bytes of a global variable."""
        module = self._module(number)
        found = module.code.variables.get(name)
        if found is None:
            raise Refusal(Status.NOT_FOUND)
        return module.address + found.address, found.size

    def launch(self, function: int, grid: Dimensions, block: Dimensions, lds: int, kernarg: bytes, model: str) -> None:
        """Run a kernel to its end."""
        chosen = self._functions.get(function)
        if chosen is None:
            raise Refusal(Status.INVALID_HANDLE)
        kernel, module = chosen.kernel, chosen.module
        arguments = kernel_arguments(kernel, grid, block, kernarg, lds)
        if len(arguments) > _ARGUMENT_BYTES:
            raise Refusal(Status.INVALID_VALUE, f"kernel {kernel.name}: {len(arguments)} bytes of arguments")
        self._memory.write(self._arguments, arguments)
        try:
            emulator = module.emulators.get(kernel.name)
            if emulator is None:
                emulator = module.emulators[kernel.name] = Emulator(module.code, kernel.name)
            place = Placement(module.address, self._arguments)
            emulator.run(grid, block, b"", self._memory, model, dynamic_lds=lds, placement=place)
        except (MemoryFault, EmulationError) as error:
            notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
            raise Refusal(Status.LAUNCH_FAILURE, f"kernel {kernel.name}: {error}{notes}") from error

    def _module(self, number: int) -> _Module:
        module = self._modules.get(number)
        if module is None:
            raise Refusal(Status.INVALID_HANDLE)
        return module
