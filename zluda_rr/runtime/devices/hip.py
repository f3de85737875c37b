"""A card, or the emulated one, behind the Device protocol: every launch with fresh memory, through HIP."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.errors import UserError
from zluda_rr.runtime.device import MODELS, Execution, Program
from zluda_rr.runtime.devices.hip_calls import HipCallError, HipRuntime, open_hip
from zluda_rr.runtime.workload import TEXEL_BYTES, Launch, Surface, descriptor_name

__all__ = ["HipDevice", "hip_device"]


@dataclass(frozen=True, slots=True)
class HipDevice:
    """HIP's device 0. With `images` handles of surfaces are HIP's own, as ZLUDA's code objects expect them."""

    runtime: HipRuntime
    images: bool = False
    _modules: dict[bytes, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See Device."""
        return f"HIP: {self.runtime.device_name}"

    @property
    def is_emulated(self) -> bool:
        """Whether the library is this project's own (zluda_rr.emulate.hip)."""
        return self.runtime.set_model is not None

    @property
    def models(self) -> tuple[str, ...]:
        """See Device. A card accumulates in its own order: one run, compared with the oracle's exact sums."""
        return MODELS if self.is_emulated else ("exact",)

    def run(self, program: Program, launch: Launch, model: str) -> Execution:
        """See Device. A card accumulates in its own order, whatever `model` says.

        MemoryFault where the kernel failed, or wrote to what it may only read.
        """
        after = launch.memory.copy()
        with self._prepared(program, launch, model) as prepared:
            self._guarded(prepared.start)
            prepared.fetch(after)
        return Execution(after)

    def times(self, program: Program, launch: Launch, repeats: int, *, gap: float = 0.0) -> tuple[float, ...]:
        """Milliseconds of each of `repeats` launches, after one that is not counted; `gap` idle seconds before each."""
        found = []
        with self._prepared(program, launch, "exact") as prepared:
            self._guarded(prepared.start)
            for _ in range(repeats):
                time.sleep(gap)
                found.append(self.runtime.timed(prepared.start))
        return tuple(found)

    def forget(self) -> None:
        """Make the device usable after a kernel failed: everything that was on it is gone."""
        self._modules.clear()
        self.runtime.reset()

    @contextmanager
    def _prepared(self, program: Program, launch: Launch, model: str) -> Iterator[_Prepared]:
        runtime = self.runtime
        if runtime.set_model is not None:
            runtime.set_model(model)
        function = runtime.function(self._module(program), program.entry)
        names = launch.memory.allocations
        blocks = {name: runtime.allocate(max(a.nbytes, 1)) for name, a in names.items()}
        surfaces: dict[str, tuple[Any, Any]] = {}
        try:
            if self.images:
                surfaces = {s.name: runtime.surface(_rows(launch.memory, s)) for s in launch.surfaces}
            moved = _Moved(launch, {name: int(block) for name, block in blocks.items()})
            for name, block in blocks.items():
                runtime.upload(block, np.frombuffer(moved.content(name), np.uint8))
            handles = {name: int(handle) for name, (_, handle) in surfaces.items()}
            yield _Prepared(runtime, function, launch, moved.params(handles), blocks, surfaces)
        except _KernelFailed as failure:
            self.forget()
            blocks, surfaces = {}, {}
            raise MemoryFault(str(failure)) from failure
        finally:
            for array, handle in surfaces.values():
                runtime.call("hipDestroySurfaceObject", handle)
                runtime.call("hipArrayDestroy", array)
            for block in blocks.values():
                runtime.free(block)

    def _guarded(self, start: Any) -> None:
        try:
            start()
            self.runtime.synchronize()
        except HipCallError as error:
            if error.is_launch_failure:
                raise _KernelFailed("the kernel failed on the device (hipErrorLaunchFailure)") from error
            raise

    def _module(self, program: Program) -> Any:
        binary = program.code().code_object
        if binary not in self._modules:
            try:
                self._modules[binary] = self.runtime.load(binary)
            except HipCallError as error:
                raise UserError(f"{self.name} does not take {program.name}'s code object: {error}") from error
        return self._modules[binary]


class _KernelFailed(Exception):  # noqa: N818 - becomes a MemoryFault once the device is usable again
    """A launch failed, and with it everything on the device."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A launch whose memory is on the device."""

    runtime: HipRuntime
    function: Any
    launch: Launch
    params: bytes
    blocks: Mapping[str, Any]
    surfaces: Mapping[str, tuple[Any, Any]]

    def start(self) -> None:
        self.runtime.launch(self.function, self.launch.grid, self.launch.block, self.params)

    def fetch(self, memory: AddressSpace) -> None:
        """Bring back what kernels may write. MemoryFault where anything else has changed."""
        for name, allocation in memory.allocations.items():
            if not allocation.nbytes:
                continue
            data = np.empty(allocation.nbytes, np.uint8)
            self.runtime.download(self.blocks[name], data)
            if allocation.writable:
                memory.view(name)[:] = data
            elif not _is_descriptor(self.launch, name) and (data != memory.view(name)).any():
                raise MemoryFault(f"store to read-only {name!r}")
        for surface in self.launch.surfaces:
            if surface.name in self.surfaces:
                rows = np.empty((surface.height, surface.width * TEXEL_BYTES), np.uint8)
                self.runtime.surface_texels(self.surfaces[surface.name][0], rows)
                memory.view(surface.name)[:] = rows.reshape(-1)


def _is_descriptor(launch: Launch, name: str) -> bool:
    return any(name == descriptor_name(surface.name) for surface in launch.surfaces)


def _rows(memory: AddressSpace, surface: Surface) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return memory.view(surface.name).reshape(surface.height, surface.width * TEXEL_BYTES)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A launch's addresses where its memory lies on the device."""

    launch: Launch
    addresses: Mapping[str, int]

    def params(self, handles: Mapping[str, int]) -> bytes:
        """The parameter block; `handles` of surfaces stand in place of their descriptors' addresses."""
        params = bytearray(self.launch.params)
        for offset in self.launch.pointers:
            self._move(params, offset)
        for surface in self.launch.surfaces:
            if surface.name in handles:
                params[surface.parameter : surface.parameter + 8] = handles[surface.name].to_bytes(8, "little")
        return bytes(params)

    def content(self, name: str) -> bytes:
        """An allocation's bytes; a descriptor begins with an address."""
        data = bytearray(self.launch.memory.view(name).tobytes())
        if _is_descriptor(self.launch, name):
            self._move(data, 0)
        return bytes(data) or b"\0"

    def _move(self, data: bytearray, offset: int) -> None:
        address = int.from_bytes(data[offset : offset + 8], "little")
        name = self.launch.memory.name_of(address)
        if name is None:
            raise ValueError(f"{self.launch.name}: no allocation at {address:#x}, byte {offset}")
        data[offset : offset + 8] = self.addresses[name].to_bytes(8, "little")


def hip_device(*, images: bool = False) -> HipDevice:
    """The device that the loader's HIP library has. UserError where there is none for gfx1201."""
    return HipDevice(open_hip(), images)
