"""The emulator against the host's processor: the same random C functions compiled for both."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulate.gfx12.compiled import compile_true16
from tests.emulate.gfx12.random_programs import UNIFORM, WORDS, device_source, host_source
from zluda_rr.emulate.gfx12 import Emulator, load_code_object
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_hip_kernel, compile_hip_text

ROWS = 256
_FLAGS = ["-fwrapv", "-ffp-contract=off", "-Wno-everything"]
# Rounding, fused multiply-add and f16 conversion as instructions: no runtime library is needed.
_HOST = ["-target", "x86_64-linux-gnu", "-march=x86-64-v3"]

Rows = NDArray[np.uint64]


def inputs(seed: int) -> Rows:
    """Random bits, small integers and ordinary floats."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, WORDS)
    anything = rng.integers(0, 1 << 64, shape, dtype=np.uint64)
    small = rng.integers(0, 300, shape).astype(np.uint64)
    single = rng.normal(0, 100, (ROWS, 2 * WORDS)).astype(np.float32).view(np.uint64)
    double = rng.normal(0, 100, shape).view(np.uint64)
    half = rng.normal(0, 10, (ROWS, 4 * WORDS)).astype(np.float16).view(np.uint64)
    return np.choose(rng.integers(0, 5, shape), [anything, small, single, double, half])


def uniform(seed: int) -> list[int]:
    """The words that every work item shares."""
    rng = np.random.default_rng(seed + 1_000_000)
    single = int(np.float32(rng.normal(0, 30)).view(np.uint32))
    half = int(np.float16(rng.normal(0, 30)).view(np.uint16))
    return [int(rng.integers(0, 1 << 63)), int(rng.integers(0, 40)), single, half | 0xFFFF_FFFF_FFFF_0000][:UNIFORM]


def host_engine(source: str, folder: Path) -> llvm.ExecutionEngine:
    """The C++ source compiled into this process."""
    path, output = folder / "host.cpp", folder / "host.ll"
    path.write_text(source)
    command = [sys.executable, "-m", "ziglang", "clang", "-std=c++20", "-O1", "-S", "-emit-llvm", "-nostdinc"]
    subprocess.run([*command, *_HOST, *_FLAGS, str(path), "-o", str(output)], check=True)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(output.read_text()), machine)


def host_results(seeds: list[int], folder: Path) -> dict[int, Rows]:
    engine = host_engine(host_source(seeds), folder)
    engine.finalize_object()
    word, pointer = ctypes.c_uint64, ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, pointer, word, word, word, word, pointer, word)
    results = {}
    for seed in seeds:
        rows, out = np.ascontiguousarray(inputs(seed)), np.zeros((ROWS, WORDS), dtype=np.uint64)
        prototype(engine.get_function_address(f"h{seed}"))(rows.ctypes.data, *uniform(seed), out.ctypes.data, ROWS)
        results[seed] = out
    return results


def emulated(seeds: list[int], *, true16: bool = False) -> dict[int, Rows]:
    source = device_source(seeds)
    if true16:
        built = compile_true16(compile_hip_text(source, flags=_FLAGS))
    else:
        built = compile_hip_kernel(source, flags=_FLAGS)
    code_object = load_code_object(built.code_object)
    results = {}
    for seed in seeds:
        memory = AddressSpace()
        rows = inputs(seed)
        places = [
            memory.allocate("in", rows.nbytes, data=np.ascontiguousarray(rows).view(np.uint8).reshape(-1)),
            memory.allocate("out", rows.nbytes),
        ]
        kernarg = np.array([places[0], *uniform(seed), places[1]], dtype=np.uint64).tobytes()
        Emulator(code_object, f"k{seed}").run((ROWS // 64, 1, 1), (64, 1, 1), kernarg, memory, "exact")
        results[seed] = memory.view("out").view(np.uint64).reshape(ROWS, WORDS).copy()
    return results


def check(seeds: list[int], folder: Path, *, true16: bool = False) -> None:
    expected, got = host_results(seeds, folder), emulated(seeds, true16=true16)
    for seed in seeds:
        wrong = np.argwhere(expected[seed] != got[seed])
        assert not len(wrong), (
            f"seed {seed}, row {wrong[0][0]}, word {wrong[0][1]}: host {expected[seed][tuple(wrong[0])]:#x}, "
            f"emulator {got[seed][tuple(wrong[0])]:#x} ({len(wrong)} words differ)"
        )


pytestmark = pytest.mark.skipif(
    not all(llvm.get_host_cpu_features().get(name) for name in ("avx2", "fma", "f16c")),
    reason="the host has no x86-64-v3 instructions",
)


@pytest.mark.parametrize("true16", [False, True])
def test_random_programs(tmp_path: Path, true16: bool) -> None:
    check(list(range(8)), tmp_path, true16=true16)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 500, 20))
def test_many_random_programs(first: int, tmp_path: Path) -> None:
    seeds = list(range(first, first + 20))
    check(seeds[:15], tmp_path)
    check(seeds[15:], tmp_path, true16=True)
