"""The few CUDA driver calls that a golden run needs, through ctypes: no toolkit, no torch."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]

FORMAT_HALF = 0x10  # CU_AD_FORMAT_HALF
SURFACE_LDST = 0x02  # CUDA_ARRAY3D_SURFACE_LDST
HOST, ARRAY = 1, 3  # CUmemorytype
CLAMP = 1  # CU_TR_ADDRESS_MODE_CLAMP; filter mode 0 is the nearest texel
TEXEL_BYTES = 8  # four f16


class ArrayDescriptor(c.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR; depth 0 makes it two-dimensional."""

    _fields_ = [
        ("width", c.c_size_t),
        ("height", c.c_size_t),
        ("depth", c.c_size_t),
        ("format", c.c_int),
        ("channels", c.c_uint),
        ("flags", c.c_uint),
    ]


class ResourceDescriptor(c.Structure):
    """CUDA_RESOURCE_DESC for an array (resType 0); the union is 128 bytes."""

    _fields_ = [
        ("type", c.c_int),
        ("array", c.c_void_p),
        ("rest", c.c_byte * 120),
        ("flags", c.c_uint),
    ]


class TextureDescriptor(c.Structure):
    """CUDA_TEXTURE_DESC; flags 0: coordinates in texels, values as the format has them."""

    _fields_ = [
        ("address_mode", c.c_int * 3),
        ("filter_mode", c.c_int),
        ("flags", c.c_uint),
        ("max_anisotropy", c.c_uint),
        ("mipmap_filter_mode", c.c_int),
        ("mipmap_levels", c.c_float * 3),  # bias, lowest, highest
        ("border_color", c.c_float * 4),
        ("reserved", c.c_int * 12),
    ]


class Copy2D(c.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (prefix + name, kind)
        for prefix in ("src_", "dst_")
        for name, kind in (
            ("x", c.c_size_t),
            ("y", c.c_size_t),
            ("type", c.c_int),
            ("host", c.c_void_p),
            ("device", c.c_uint64),
            ("array", c.c_void_p),
            ("pitch", c.c_size_t),
        )
    ] + [("width_bytes", c.c_size_t), ("height", c.c_size_t)]


class CudaError(RuntimeError):
    """A driver call failed; names the call and its code."""


@dataclass(frozen=True, slots=True)
class Surface:
    """A two-dimensional array of half4 texels bound to a surface or texture handle."""

    handle: int
    array: int
    width: int
    height: int


class Gpu:
    """The first device's primary context."""

    def __init__(self) -> None:
        self._cuda = c.CDLL("libcuda.so.1")
        self._device = c.c_int()
        context = c.c_void_p()
        self._call("cuInit", c.c_uint(0))
        self._call("cuDeviceGet", c.byref(self._device), c.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", c.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise CudaError(f"{name}: error {status}")

    def describe(self) -> dict[str, str]:
        """Device name and driver version (as CUDA counts it, e.g. 13000)."""
        name, version = c.create_string_buffer(100), c.c_int()
        self._call("cuDeviceGetName", name, c.c_int(100), self._device)
        self._call("cuDriverGetVersion", c.byref(version))
        return {"device": name.value.decode(), "cuda_driver_api": str(version.value)}

    def function(self, image: bytes, name: str) -> c.c_void_p:
        """Entry `name` of a cubin or PTX image."""
        module, function = c.c_void_p(), c.c_void_p()
        self._call("cuModuleLoadData", c.byref(module), image)
        self._call("cuModuleGetFunction", c.byref(function), module, name.encode())
        return function

    def upload(self, data: U8) -> int:
        """Device address of a copy of `data`."""
        address = c.c_uint64()
        host = np.ascontiguousarray(data)
        self._call("cuMemAlloc_v2", c.byref(address), c.c_size_t(host.nbytes))
        self._call("cuMemcpyHtoD_v2", address, c.c_void_p(host.ctypes.data), c.c_size_t(host.nbytes))
        return address.value

    def download(self, address: int, nbytes: int) -> U8:
        """Bytes at a device address."""
        out = np.empty(nbytes, np.uint8)
        self._call("cuMemcpyDtoH_v2", c.c_void_p(out.ctypes.data), c.c_uint64(address), c.c_size_t(nbytes))
        return out

    def surface(self, texels: U8) -> Surface:
        """A surface holding texels u8 [height, width, 8]."""
        handle = c.c_uint64()
        resource = self._array(texels)
        self._call("cuSurfObjectCreate", c.byref(handle), c.byref(resource))
        return Surface(handle.value, resource.array, texels.shape[1], texels.shape[0])

    def texture(self, texels: U8) -> Surface:
        """A texture of texels u8 [height, width, 8]: nearest texel, coordinates clamped to the edge."""
        handle = c.c_uint64()
        resource = self._array(texels)
        sampling = TextureDescriptor(address_mode=(CLAMP, CLAMP, CLAMP))
        self._call("cuTexObjectCreate", c.byref(handle), c.byref(resource), c.byref(sampling), None)
        return Surface(handle.value, resource.array, texels.shape[1], texels.shape[0])

    def _array(self, texels: U8) -> ResourceDescriptor:
        """An array with a copy of `texels`."""
        height, width = texels.shape[:2]
        array = c.c_void_p()
        shape = ArrayDescriptor(width, height, 0, FORMAT_HALF, 4, SURFACE_LDST)
        self._call("cuArray3DCreate_v2", c.byref(array), c.byref(shape))
        assert array.value is not None
        host = np.ascontiguousarray(texels)
        to_array = Copy2D(src_type=HOST, src_host=host.ctypes.data, src_pitch=width * TEXEL_BYTES, dst_type=ARRAY)
        to_array.dst_array, to_array.width_bytes, to_array.height = array.value, width * TEXEL_BYTES, height
        self._call("cuMemcpy2D_v2", c.byref(to_array))
        return ResourceDescriptor(type=0, array=array.value, flags=0)

    def read_surface(self, surface: Surface) -> U8:
        """Texels u8 [height, width, 8]."""
        out = np.empty((surface.height, surface.width, TEXEL_BYTES), np.uint8)
        pitch = surface.width * TEXEL_BYTES
        to_host = Copy2D(src_type=ARRAY, src_array=surface.array, dst_type=HOST, dst_host=out.ctypes.data)
        to_host.dst_pitch, to_host.width_bytes, to_host.height = pitch, pitch, surface.height
        self._call("cuMemcpy2D_v2", c.byref(to_host))
        return out

    def launch(self, function: c.c_void_p, grid: Sequence[int], block: Sequence[int], params: bytes) -> None:
        """Run one by-value parameter block to completion."""
        struct = c.create_string_buffer(params, len(params))
        pointers = (c.c_void_p * 1)(c.addressof(struct))
        sizes = [c.c_uint(v) for v in (*grid, *block)]
        self._call("cuLaunchKernel", function, *sizes, c.c_uint(0), None, pointers, None)
        self._call("cuCtxSynchronize")
