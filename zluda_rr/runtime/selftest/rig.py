"""The self-test's kernels on HIP's device: compiled once, launched with arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.resources import resource_dir
from zluda_rr.runtime.devices.hip import HipDevice
from zluda_rr.runtime.devices.hip_calls import HipCallError
from zluda_rr.runtime.progress import Progress
from zluda_rr.toolchain import compile_hip_kernel

__all__ = ["Argument", "DeviceFailedError", "Handle", "Out", "Rig"]

Array = NDArray[Any]


class DeviceFailedError(RuntimeError):
    """A kernel that the device did not finish; the device is usable again."""


@dataclass(frozen=True, slots=True)
class Out:
    """A buffer that a kernel fills; it starts as bytes 0xcd."""

    shape: tuple[int, ...]
    dtype: type[Any]


@dataclass(frozen=True, slots=True)
class Handle:
    """A 64-bit argument that is no buffer."""

    value: int


Argument = Array | Out | Handle | int
"""Inputs, outputs, handles, and 32-bit numbers."""


@dataclass(frozen=True, slots=True)
class Rig:
    """A device with the kernels of `kernels/selftest`."""

    device: HipDevice
    progress: Progress
    accumulation: list[str] = field(default_factory=list)
    """The models that the device's matrix products fit, once the row that finds out was asked."""
    _modules: dict[str, Any] = field(default_factory=dict)

    @property
    def is_emulated(self) -> bool:
        return self.device.is_emulated

    def choose_model(self, model: str) -> None:
        """The emulated device's order of sums; a card has its own."""
        if self.device.runtime.set_model is not None:
            self.device.runtime.set_model(model)

    def launch(self, source: str, kernel: str, arguments: Sequence[Argument], blocks: int, threads: int) -> list[Array]:
        """Run a kernel once and return its `Out` arrays. DeviceFailedError where it did not end well."""
        with self.prepared(source, kernel, arguments, blocks, threads) as (start, fetch):
            start()
            return fetch()

    @contextmanager
    def prepared(
        self, source: str, kernel: str, arguments: Sequence[Argument], blocks: int, threads: int
    ) -> Iterator[tuple[Callable[[], None], Callable[[], list[Array]]]]:
        """A launch that can be started again and again, and a function that waits and returns its outputs."""
        runtime = self.device.runtime
        function = runtime.function(self._module(source), kernel)
        held: list[tuple[Any, Array | Out]] = []
        try:
            packed = b""
            for argument in arguments:
                if isinstance(argument, int):
                    packed += struct.pack("<I", argument)
                    continue
                packed += bytes(-len(packed) % 8)
                if isinstance(argument, Handle):
                    packed += struct.pack("<Q", argument.value)
                    continue
                held.append((self._buffer(argument), argument))
                packed += struct.pack("<Q", int(held[-1][0]))

            def start() -> None:
                runtime.launch(function, (blocks, 1, 1), (threads, 1, 1), packed)

            def fetch() -> list[Array]:
                runtime.synchronize()
                results = []
                for memory, argument in held:
                    if isinstance(argument, Out):
                        results.append(np.empty(argument.shape, argument.dtype))
                        runtime.download(memory, results[-1].reshape(-1).view(np.uint8))
                return results

            yield start, fetch
        except HipCallError as error:
            if not error.is_launch_failure:
                raise
            self._forget()
            held.clear()
            raise DeviceFailedError(f"kernel {kernel} failed on the device") from error
        finally:
            for memory, _ in held:
                runtime.free(memory)

    def _buffer(self, argument: Array | Out) -> Any:
        if isinstance(argument, Out):
            count = int(np.prod(argument.shape)) * np.dtype(argument.dtype).itemsize
            data = np.full(count, 0xCD, np.uint8)
        else:
            data = np.ascontiguousarray(argument).reshape(-1).view(np.uint8)
        memory = self.device.runtime.allocate(max(data.nbytes, 1))
        self.device.runtime.upload(memory, data)
        return memory

    def _module(self, source: str) -> Any:
        if source not in self._modules:
            kernels = resource_dir("kernels")
            compiled = compile_hip_kernel(kernels / "selftest" / f"{source}.hip", includes=[kernels])
            self._modules[source] = self.device.runtime.load(compiled.code_object)
        return self._modules[source]

    def _forget(self) -> None:
        """Modules are gone with the reset that makes a failed device usable."""
        self._modules.clear()
        self.device.forget()
