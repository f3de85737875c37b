"""HIP through hip-python, for a process whose loader path has the emulated library. Prints a line for each case.

usage: python_program.py CODE_OBJECT
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hip import hip, hiprtc

TO_DEVICE, TO_HOST = hip.hipMemcpyKind.hipMemcpyHostToDevice, hip.hipMemcpyKind.hipMemcpyDeviceToHost
UNSIGNED = hip.hipChannelFormatKind.hipChannelFormatKindUnsigned
RANDOM = np.random.default_rng(3)


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert status == hip.hipError_t.hipSuccess, status
    return values[0] if len(values) == 1 else values


class Kernels:
    """A module and launches of its kernels; arguments are ctypes values and device memory."""

    def __init__(self, path: Path) -> None:
        self.module = check(hip.hipModuleLoadData(path.read_bytes()))

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any, lds: int = 0, stream: Any = None) -> None:
        function = check(hip.hipModuleGetFunction(self.module, name.encode()))
        check(hip.hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, lds, stream, None, arguments))


def on_device(data: np.ndarray[Any, Any]) -> Any:
    memory = check(hip.hipMalloc(data.nbytes))
    check(hip.hipMemcpy(memory, data, data.nbytes, TO_DEVICE))
    return memory


def fetch(memory: Any, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = np.empty_like(like)
    check(hip.hipMemcpy(out, memory, out.nbytes, TO_HOST))
    return out


def vector_add(kernels: Kernels) -> None:
    a, b = RANDOM.normal(size=(2, 1000)).astype(np.float32)
    c = on_device(np.zeros_like(a))
    kernels.launch("vector_add", 8, 128, on_device(a), on_device(b), c, ctypes.c_uint(1000))
    assert (fetch(c, a) == a + b).all()


def reduction(kernels: Kernels) -> None:
    values = RANDOM.integers(0, 1 << 32, (4, 256), dtype=np.uint32)
    sums = on_device(np.zeros(4, np.uint32))
    kernels.launch("block_sums", 4, 256, on_device(values), sums)
    assert (fetch(sums, np.zeros(4, np.uint32)) == values.sum(axis=1, dtype=np.uint32)).all()


def atomics(kernels: Kernels) -> None:
    values = RANDOM.integers(0, 9, 2000, dtype=np.uint8)
    bins = on_device(np.zeros(256, np.uint32))
    kernels.launch("histogram", 8, 256, on_device(values), bins, ctypes.c_uint(2000))
    assert (fetch(bins, np.zeros(256, np.uint32)) == np.bincount(values, minlength=256)).all()


def module_global(kernels: Kernels) -> None:
    out = on_device(np.zeros(2, np.uint32))
    for count in range(3):
        kernels.launch("count_launches", 1, 32, out)
        assert fetch(out, np.zeros(2, np.uint32)).tolist() == [41 + count, 4]
    address, size = check(hip.hipModuleGetGlobal(kernels.module, b"launches"))
    assert (size, fetch(address, np.zeros(1, np.uint32))[0]) == (4, 43)


def image_formats() -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    """Arrays of 5 x 7 texels by name: (bits and kind of the channels, texels [y, x, channel])."""
    kinds = hip.hipChannelFormatKind
    float_kind, unsigned, signed = (
        kinds.hipChannelFormatKindFloat,
        kinds.hipChannelFormatKindUnsigned,
        kinds.hipChannelFormatKindSigned,
    )
    random = RANDOM
    return {
        "r16f": (((16, 0, 0, 0), float_kind), random.normal(size=(5, 7, 1)).astype(np.float16)),
        "rg16f": (((16, 16, 0, 0), float_kind), random.normal(size=(5, 7, 2)).astype(np.float16)),
        "rgba16f": (((16, 16, 16, 16), float_kind), random.normal(size=(5, 7, 4)).astype(np.float16)),
        "r32f": (((32, 0, 0, 0), float_kind), random.normal(size=(5, 7, 1)).astype(np.float32)),
        "rgba32f": (((32, 32, 32, 32), float_kind), random.normal(size=(5, 7, 4)).astype(np.float32)),
        "rgba8u": (((8, 8, 8, 8), unsigned), random.integers(0, 256, (5, 7, 4), dtype=np.uint8)),
        "rgba8s": (((8, 8, 8, 8), signed), random.integers(-128, 128, (5, 7, 4), dtype=np.int8)),
    }


def channel_description(bits: tuple[int, ...], kind: Any) -> Any:
    found = hip.hipChannelFormatDesc()
    found.x, found.y, found.z, found.w = bits
    found.f = kind
    return found


def expected_texels(texels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Four f32 channels: integers as normalised, missing channels 0, and 1 for the last."""
    wide = texels.astype(np.float64)
    if texels.dtype == np.uint8:
        wide /= 255.0
    elif texels.dtype == np.int8:
        wide = np.maximum(wide / 127.0, -1.0)
    out = np.zeros((*texels.shape[:2], 4), np.float32)
    out[..., 3] = 1.0
    out[..., : texels.shape[2]] = wide.astype(np.float32)
    return out


def textures(kernels: Kernels) -> None:
    """Every format, nearest texel, mirrored outside; texel centres in normalised coordinates."""
    x, y = np.meshgrid(np.arange(-7, 14), np.arange(-5, 10))
    places = np.stack([(x + 0.5) / 7, (y + 0.5) / 5], axis=-1).reshape(-1, 2).astype(np.float32)
    column, row = (np.where(v % (2 * n) < n, v % (2 * n), 2 * n - 1 - v % (2 * n)) for v, n in ((x, 7), (y, 5)))
    for name, ((bits, kind), texels) in image_formats().items():
        array = check(hip.hipMallocArray(channel_description(bits, kind), 7, 5, 0))
        pitch = texels.strides[0]
        check(hip.hipMemcpy2DToArray(array, 0, 0, texels, pitch, pitch, 5, TO_DEVICE))
        resource = hip.hipResourceDesc()
        resource.resType = hip.hipResourceType.hipResourceTypeArray
        resource.res.array.array = array
        how = hip.hipTextureDesc()
        modes = (ctypes.c_int * 3).from_address(int(how))  # the structure's first field, which hip-python leaves out
        modes[:] = [hip.hipTextureAddressMode.hipAddressModeMirror] * 3
        how.normalizedCoords = 1
        if texels.dtype.itemsize == 1:
            how.readMode = hip.hipTextureReadMode.hipReadModeNormalizedFloat
        texture = check(hip.hipCreateTextureObject(resource, how, None))
        out = on_device(np.zeros((len(places), 4), np.float32))
        blocks = -(-len(places) // 128)
        kernels.launch("sample", blocks, 128, texture, on_device(places), out, ctypes.c_uint(len(places)))
        got = fetch(out, np.zeros((len(places), 4), np.float32))
        want = expected_texels(texels)[row, column].reshape(-1, 4)
        assert (got == want).all(), name
        check(hip.hipDestroyTextureObject(texture))
        check(hip.hipFreeArray(array))


def boxes(kernels: Kernels) -> None:
    """Copies by hip-python's own structures, whose layouts come from the real headers."""
    kinds = hip.hipMemoryType
    data = RANDOM.integers(0, 256, (3, 6, 32), dtype=np.uint8)
    memory = on_device(np.zeros_like(data))
    flat = hip.hip_Memcpy2D()
    flat.srcMemoryType, flat.srcHost, flat.srcPitch = kinds.hipMemoryTypeHost, data, 32
    flat.srcXInBytes, flat.srcY = 4, 1
    flat.dstMemoryType, flat.dstDevice, flat.dstPitch = kinds.hipMemoryTypeDevice, memory, 32
    flat.dstXInBytes, flat.dstY, flat.WidthInBytes, flat.Height = 8, 2, 10, 3
    check(hip.hipMemcpyParam2D(flat))
    want = np.zeros_like(data)
    want[0, 2:5, 8:18] = data[0, 1:4, 4:14]
    assert (fetch(memory, data) == want).all()
    deep = hip.HIP_MEMCPY3D()
    deep.srcMemoryType, deep.srcHost, deep.srcPitch, deep.srcHeight = kinds.hipMemoryTypeHost, data, 32, 6
    deep.srcXInBytes, deep.srcY, deep.srcZ = 1, 2, 1
    deep.dstMemoryType, deep.dstDevice, deep.dstPitch, deep.dstHeight = kinds.hipMemoryTypeDevice, memory, 32, 6
    deep.dstXInBytes, deep.dstY, deep.dstZ = 20, 0, 0
    deep.WidthInBytes, deep.Height, deep.Depth = 7, 4, 2
    check(hip.hipDrvMemcpy3D(deep))
    want[0:2, 0:4, 20:27] = data[1:3, 2:6, 1:8]
    assert (fetch(memory, data) == want).all()
    array = check(hip.hipMallocArray(channel_description((8, 8, 0, 0), UNSIGNED), 16, 6, 0))
    params = hip.hipMemcpy3DParms()
    params.srcPtr.ptr, params.srcPtr.pitch, params.srcPtr.xsize, params.srcPtr.ysize = data, 32, 32, 6
    params.srcPos.x, params.srcPos.y = 4, 1
    params.dstArray = array
    params.dstPos.x, params.dstPos.y = 3, 2
    params.extent.width, params.extent.height, params.extent.depth = 5, 4, 1  # texels
    params.kind = TO_DEVICE
    check(hip.hipMemcpy3D(params))
    back = np.zeros((6, 32), np.uint8)
    check(hip.hipMemcpy2DFromArray(back, 32, array, 0, 0, 32, 6, TO_HOST))
    assert (back[2:6, 6:16] == data[0, 1:5, 4:14]).all()
    pinned = check(hip.hipHostMalloc(4096, 0))
    attributes = check(hip.hipPointerGetAttributes(pinned))
    assert attributes.type == kinds.hipMemoryTypeHost
    assert int(attributes.hostPointer) == int(attributes.devicePointer) == int(pinned)
    assert check(hip.hipPointerGetAttributes(memory)).type == kinds.hipMemoryTypeDevice
    function = check(hip.hipModuleGetFunction(kernels.module, b"block_sums"))
    found = check(hip.hipFuncGetAttributes(function))
    assert (found.sharedSizeBytes, found.maxThreadsPerBlock, found.localSizeBytes) == (1024, 1024, 0)


def streams(kernels: Kernels) -> None:
    first, second = (check(hip.hipStreamCreate()) for _ in range(2))
    begin, end = (check(hip.hipEventCreate()) for _ in range(2))
    a, b, c = (on_device(np.zeros(100, np.uint32)) for _ in range(3))
    count = ctypes.c_uint(100)
    check(hip.hipEventRecord(begin, first))
    kernels.launch("fill", 1, 128, a, ctypes.c_uint(3), count, stream=first)
    check(hip.hipEventRecord(end, first))
    check(hip.hipStreamWaitEvent(second, end, 0))
    kernels.launch("fill", 1, 128, b, ctypes.c_uint(5), count, stream=second)
    kernels.launch("scale_add", 1, 128, c, a, b, ctypes.c_uint(10), count, stream=second)
    check(hip.hipStreamSynchronize(second))
    i = np.arange(100, dtype=np.uint32)
    assert (fetch(c, i) == (3 + i) * 10 + 5 + i).all()
    assert check(hip.hipEventElapsedTime(begin, end)) > 0


def properties(kernels: Kernels) -> None:
    """Read through hip-python's own declarations of the structures."""
    found = check(hip.hipGetDeviceProperties(0))
    assert (found.gcnArchName, found.warpSize, found.maxThreadsPerBlock) == ("gfx1201", 32, 1024)
    assert (found.name, found.multiProcessorCount) == ("AMD Radeon RX 9070 XT (emulated)", 32)
    assert (found.sharedMemPerBlock, found.clockInstructionRate, found.isLargeBar) == (65536, 100000, 0)
    assert found.arch.hasDoubles == 1
    assert found.arch.hasDynamicParallelism == 0
    attribute = hip.hipDeviceAttribute_t
    for name, value in (("WarpSize", 32), ("ClockRate", 2970000), ("MaxThreadsPerBlock", 1024), ("ImageSupport", 1),
                        ("MultiprocessorCount", 32), ("TexturePitchAlignment", 128), ("ManagedMemory", 1)):  # fmt: skip
        assert check(hip.hipDeviceGetAttribute(getattr(attribute, f"hipDeviceAttribute{name}"), 0)) == value, name
    assert "named symbol not found" in str(hip.hipGetErrorString(hip.hipError_t.hipErrorNotFound))


def refusals(kernels: Kernels) -> None:
    """What is not there says so, once."""
    for _ in range(2):
        assert hip.hipGraphCreate(0)[0] == hip.hipError_t.hipErrorNotSupported
        assert hiprtc.hiprtcCreateProgram(b"", b"x", 0, None, None)[0] != hiprtc.hiprtcResult.HIPRTC_SUCCESS
    junk = hip.hipModuleLoadData(b"\x7fELF" + bytes(200))
    assert junk[0] == hip.hipError_t.hipErrorInvalidImage
    assert hip.hipGetLastError()[0] == hip.hipError_t.hipErrorInvalidImage


CASES: tuple[Callable[[Kernels], None], ...] = (
    vector_add, reduction, atomics, module_global, textures, boxes, streams, properties, refusals,
)  # fmt: skip

if __name__ == "__main__":
    loaded = Kernels(Path(sys.argv[1]))
    for case in CASES:
        case(loaded)
        print(f"{case.__name__}: ok", flush=True)
