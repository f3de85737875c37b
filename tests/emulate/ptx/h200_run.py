"""Runs prepared kernels on the CUDA device of this machine. Needs nothing but Python and the driver.

`python h200_run.py launches.json results.json`: the input is a list of {"ptx", "threads", "in", "out_bytes"} with
"in" in base64; the kernel is `k(in, out)`, blocks of 32 threads. The output has the driver's version and the bytes.
"""

import base64
import ctypes
import json
import sys
from pathlib import Path


class Cuda:
    """The few driver calls that are needed; an error code raises."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self("cuDeviceGetName", name, 256, device)
        self("cuDriverGetVersion", ctypes.byref(version))
        self.device, self.version = name.value.decode(), version.value

    def __call__(self, function: str, *arguments: object) -> None:
        code = getattr(self._lib, function)(*arguments)
        if code:
            raise RuntimeError(f"{function} returned {code}")

    def allocate(self, data: bytes) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address

    def launch(self, ptx: str, threads: int, data: bytes, out_bytes: int) -> bytes:
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
        self("cuModuleGetFunction", ctypes.byref(kernel), module, b"k")
        buffers = [self.allocate(data), self.allocate(bytes(out_bytes))]
        pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(b), ctypes.c_void_p) for b in buffers))
        self("cuLaunchKernel", kernel, threads // 32, 1, 1, 32, 1, 1, 0, None, pointers, None)
        self("cuCtxSynchronize")
        out = ctypes.create_string_buffer(out_bytes)
        self("cuMemcpyDtoH_v2", out, buffers[1], ctypes.c_size_t(out_bytes))
        for buffer in buffers:
            self("cuMemFree_v2", buffer)
        self("cuModuleUnload", module)
        return out.raw


def main(source: str, target: str) -> None:
    cuda = Cuda()
    results = []
    for item in json.loads(Path(source).read_text()):
        out = cuda.launch(item["ptx"], item["threads"], base64.b64decode(item["in"]), item["out_bytes"])
        results.append(base64.b64encode(out).decode())
    record = {"device": cuda.device, "cuda": cuda.version, "results": results}
    Path(target).write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
