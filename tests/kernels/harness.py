"""Runs small device functions of `kernels/` in the gfx12 emulator."""

import tempfile
from pathlib import Path

import numpy as np

from zluda_rr import toolchain
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.resources import resource_dir

LDS_BYTES = 4096


def kernel_text(include: str, body: str) -> str:
    """HIP text of the kernel `probe`: `in` and `out` are u32 arrays, `block` the workgroup's number, `lds` the shared
    address of 4,096 bytes, `l` the lane."""
    return f"""
#include "{include}"
using namespace zrr;
extern "C" __attribute__((global)) void probe(const uint32_t* in, uint32_t* out) {{
    static __attribute__((shared)) uint32_t shared_bytes[{LDS_BYTES // 4}];
    const uint32_t lds = (uint32_t)(ZRR_LDS uint32_t*)shared_bytes;
    [[maybe_unused]] const uint32_t l = lane_id(), block = __builtin_amdgcn_workgroup_id_x();
    {body}
}}
"""


def compile_probe(include: str, body: str, kernels: Path | None = None) -> toolchain.Compiled:
    """Compile `kernel_text` against `kernels/`, or against a patched copy of it."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "probe.hip"
        source.write_text(kernel_text(include, body))
        ir = toolchain.compile_hip(source, includes=[kernels or resource_dir("kernels")])
    return toolchain.compile_ir([ir])


def run_probe(
    compiled: toolchain.Compiled, words: np.ndarray, out_words: int, *, blocks: int = 1, model: str = "exact"
) -> np.ndarray:
    """Run `probe` on `blocks` one-wave workgroups; returns the u32 output array."""
    memory = AddressSpace(capacity=1 << 24)
    data = np.ascontiguousarray(words).view(np.uint32).ravel()
    source = memory.allocate("in", data.nbytes, data=data.view(np.uint8), writable=False)
    target = memory.allocate("out", 4 * out_words)
    kernarg = np.array([source, target], dtype=np.uint64).tobytes()
    code = load_code_object(compiled.code_object)
    run_kernel(code, "probe", (blocks, 1, 1), (32, 1, 1), kernarg, memory, model)
    return memory.view("out").view(np.uint32).copy()


def as_words(*parts: np.ndarray) -> np.ndarray:
    """Concatenate arrays as u32 words."""
    return np.concatenate([np.ascontiguousarray(part).view(np.uint32).ravel() for part in parts])
