"""HIP through hip-python: the calls that a launch needs, as functions that return values and raise errors.

Which library answers, a card's or the emulated one, the loader decides.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zluda_rr.errors import UserError
from zluda_rr.runtime.devices.siblings import ARCHITECTURES, for_architecture
from zluda_rr.toolchain import TARGET_CPU

__all__ = ["HipCallError", "HipRuntime", "open_hip"]

Dimensions = tuple[int, int, int]
Bytes = npt.NDArray[np.uint8]

_REMEDY = "install ROCm, or use the emulated device: zluda-rr hip-emulated -- zluda-rr ..."
_MODEL_CALL = "zludaRrHipSetModel"
_LAUNCH_FAILURE = "hipErrorLaunchFailure"
_HALF, _CHANNELS = 0x10, 4  # hipArray_Format of a surface's texels
_LOAD_STORE = 2  # hipArraySurfaceLoadStore
_POINTER, _SIZE, _END = 1, 2, 3  # HIP_LAUNCH_PARAM_*


class HipCallError(RuntimeError):
    """A call of HIP that failed."""

    def __init__(self, call: str, status: str) -> None:
        super().__init__(f"{call}: {status}")
        self.is_launch_failure = status == _LAUNCH_FAILURE


@dataclass(frozen=True, slots=True)
class HipRuntime:
    """Device 0. Pointers are plain addresses; modules, functions, arrays and events are hip-python's objects."""

    hip: Any
    device_name: str
    set_model: Callable[[str], None] | None
    """Chooses the accumulation model; a card has its own and no such call."""
    architecture: str = TARGET_CPU

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function returns beside its status: nothing, a value, or a tuple. HipCallError where it fails."""
        status, *values = getattr(self.hip, name)(*arguments)
        if status != self.hip.hipError_t.hipSuccess:
            raise HipCallError(name, status.name)
        return values[0] if len(values) == 1 else tuple(values) or None

    def allocate(self, nbytes: int) -> Any:
        """Device memory; the result converts to its address by `int`."""
        return self.call("hipMalloc", nbytes)

    def free(self, memory: Any) -> None:
        self.call("hipFree", memory)

    def upload(self, memory: Any, data: Bytes) -> None:
        kind = self.hip.hipMemcpyKind.hipMemcpyHostToDevice
        self.call("hipMemcpy", memory, np.ascontiguousarray(data), data.nbytes, kind)

    def download(self, memory: Any, data: Bytes) -> None:
        """Fill `data`, which is contiguous."""
        kind = self.hip.hipMemcpyKind.hipMemcpyDeviceToHost
        self.call("hipMemcpy", data, memory, data.nbytes, kind)

    def load(self, code_object: bytes) -> Any:
        """A module, of code for TARGET_CPU. HipCallError where the card does not take it."""
        return self.call("hipModuleLoadData", for_architecture(code_object, self.architecture))

    def function(self, module: Any, name: str) -> Any:
        return self.call("hipModuleGetFunction", module, name.encode())

    def launch(self, function: Any, grid: Dimensions, block: Dimensions, params: bytes) -> None:
        """Start a kernel with the bytes of its explicit arguments."""
        buffer = ctypes.create_string_buffer(params, len(params))
        size = ctypes.c_size_t(len(params))
        extra = (ctypes.c_void_p * 5)(_POINTER, ctypes.addressof(buffer), _SIZE, ctypes.addressof(size), _END)
        self.call("hipModuleLaunchKernel", function, *grid, *block, 0, None, None, ctypes.addressof(extra))

    def synchronize(self) -> None:
        self.call("hipDeviceSynchronize")

    def reset(self) -> None:
        """Give everything back, also after a kernel failed."""
        self.call("hipDeviceReset")

    def timed(self, start: Callable[[], None]) -> float:
        """Milliseconds between two events around what `start` starts."""
        events = [self.call("hipEventCreate") for _ in range(2)]
        try:
            self.call("hipEventRecord", events[0], None)
            start()
            self.call("hipEventRecord", events[1], None)
            self.call("hipEventSynchronize", events[1])
            return float(self.call("hipEventElapsedTime", *events))
        finally:
            for event in events:
                self.call("hipEventDestroy", event)

    def surface(self, texels: Bytes) -> tuple[Any, Any]:
        """An array of `uint8[height, row bytes]`, four f16 a texel, and a surface object for it."""
        height, row = texels.shape
        shape = self.hip.HIP_ARRAY3D_DESCRIPTOR()
        shape.Width, shape.Height, shape.Depth = row // 8, height, 0
        shape.Format, shape.NumChannels, shape.Flags = self.hip.hipArray_Format(_HALF), _CHANNELS, _LOAD_STORE
        array = self.call("hipArray3DCreate", shape)
        kind = self.hip.hipMemcpyKind.hipMemcpyHostToDevice
        self.call("hipMemcpy2DToArray", array, 0, 0, np.ascontiguousarray(texels), row, row, height, kind)
        resource = self.hip.hipResourceDesc()
        resource.resType = self.hip.hipResourceType.hipResourceTypeArray
        resource.res.array.array = array
        return array, self.call("hipCreateSurfaceObject", resource)

    def surface_texels(self, array: Any, texels: Bytes) -> None:
        """Fill `texels`, `uint8[height, row bytes]`, from an array."""
        height, row = texels.shape
        kind = self.hip.hipMemcpyKind.hipMemcpyDeviceToHost
        self.call("hipMemcpy2DFromArray", texels, row, array, 0, 0, row, height, kind)


def open_hip() -> HipRuntime:
    """The runtime that the loader finds. UserError without a library, a device, or gfx1201 or gfx1200."""
    hip: Any
    try:
        hip = importlib.import_module("hip").hip
    except ImportError as error:
        raise UserError("hip-python is missing; install it with: pip install 'hip-python>=10,<11'") from error
    try:
        status, count = hip.hipGetDeviceCount()
    except RuntimeError as error:
        raise UserError(f"no HIP library (libamdhip64.so) on the loader's path; {_REMEDY}") from error
    if status != hip.hipError_t.hipSuccess or not count:
        raise UserError(f"HIP finds no device ({status.name}); {_REMEDY}")
    status, properties = hip.hipGetDeviceProperties(0)
    name, architecture = (_text(properties.name), _text(properties.gcnArchName).split(":")[0])
    if status != hip.hipError_t.hipSuccess or architecture not in ARCHITECTURES:
        raise UserError(f"{name or 'device 0'} is {architecture}; the kernels are compiled for {TARGET_CPU}. {_REMEDY}")
    return HipRuntime(hip, name, _model_switch() if hip.has_symbol(_MODEL_CALL) else None, architecture)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _model_switch() -> Callable[[str], None]:
    """The emulated library's own function, from the library that is already loaded."""
    function = ctypes.CDLL("libamdhip64.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)[_MODEL_CALL]

    def choose(model: str) -> None:
        status = function(model.encode())
        if status:
            raise HipCallError(_MODEL_CALL, str(status))

    return choose
