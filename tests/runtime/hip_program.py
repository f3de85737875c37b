"""HIP's device against the emulator, for a process whose loader path has the emulated library.

usage: hip_program.py CASE CODE_OBJECT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from zluda_rr.contract import load_contracts
from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.lower import CompiledKernel
from zluda_rr.ptx import Module, parse
from zluda_rr.runtime import (
    MODELS,
    EmulatorDevice,
    Launch,
    Program,
    Progress,
    Shape,
    Surface,
    WorkloadKind,
    build_launch,
    subject,
)
from zluda_rr.runtime.devices.hip import HipDevice, hip_device
from zluda_rr.runtime.variants import variants

SHAPE = Shape(ex=10, ey=10, shift_x=4, shift_y=2)  # 2 x 2 blocks, all of them partial
NOTHING: Module = parse(".version 8.1\n.target sm_89\n.address_size 64\n")


def program(name: str, code_object: bytes) -> Program:
    return Program(name, NOTHING, name, CompiledKernel(name, code_object, "", 0, 0, 0, 0, 0))


def same(device: HipDevice, subject_: Program, launch: Launch, model: str) -> AddressSpace:
    """Memory after both, which is the same in every allocation."""
    expected = EmulatorDevice().run(subject_, launch, model).memory
    actual = device.run(subject_, launch, model).memory
    for name in expected.allocations:
        assert (expected.view(name) == actual.view(name)).all(), (launch.name, model, name)
    assert any((expected.view(name) != launch.memory.view(name)).any() for name in launch.outputs)
    return actual


def layers(kinds: Sequence[WorkloadKind], models: Sequence[str], *, both: bool) -> None:
    """Every layer with a body: the same bytes from HIP's device as from the emulator."""
    device, checked = hip_device(), 0
    for contract in load_contracts():
        if not contract.default_cuts:
            continue
        translated, rewritten = variants(subject(contract.layer, ()), Progress(quiet=True))
        for kind in kinds:
            launch = build_launch(contract, SHAPE, kind)
            found = [same(device, rewritten, launch, model) for model in models]
            if both:
                found += [same(device, translated, launch, model) for model in models]
            checked += len(found)
    assert checked
    print(f"{checked} launches")


def one_launch() -> None:
    layers([WorkloadKind.CANCELLATION], ["sequential"], both=False)


def all_launches() -> None:
    layers(list(WorkloadKind), MODELS, both=True)


def small_launch(count: int) -> Launch:
    """vector_add over `count` values in buffers of 100."""
    memory = AddressSpace(1 << 16)
    values = np.arange(200, dtype=np.float32)
    addresses = [memory.allocate(n, 400, data=d, writable=False) for n, d in (("a", values[:100]), ("b", values[100:]))]
    addresses.append(memory.allocate("c", 400))
    params = np.array([*addresses, count], np.uint64).tobytes()
    return Launch("add", (1, 1, 1), (128, 1, 1), params, memory, ("c",), pointers=(0, 8, 16))


def sums() -> None:
    same(hip_device(), program("vector_add", Path(sys.argv[2]).read_bytes()), small_launch(100), "exact")
    print("ok")


def faults() -> None:
    """A kernel that leaves its buffers is a fault, and the device is usable afterwards."""
    device, add = hip_device(), program("vector_add", Path(sys.argv[2]).read_bytes())
    for _ in range(2):
        after = same(device, add, small_launch(100), "exact")
        assert (after.view("c").view(np.float32) == np.arange(100) * 2 + 100).all()
        try:
            device.run(add, small_launch(101), "exact")
        except MemoryFault as fault:
            print(fault)
        else:
            raise AssertionError("no fault")
    wrong = replace(small_launch(100), pointers=(0, 8))
    try:
        device.run(add, wrong, "exact")  # a pointer that was not named: not the device's memory
    except MemoryFault:
        print("ok")
    read_only = small_launch(100)
    params = bytearray(read_only.params)
    params[16:24] = params[0:8]  # the kernel writes to `a`
    try:
        device.run(add, replace(read_only, params=bytes(params)), "exact")
    except MemoryFault as fault:
        print(fault)


def surfaces() -> None:
    """Texels go to HIP's own arrays and come back."""
    memory = AddressSpace(1 << 20)
    texels = np.arange(7 * 5 * 4).reshape(5, 7, 4).astype(np.float16)
    memory.allocate("from", texels.nbytes, data=texels.view(np.uint8), writable=False)
    memory.allocate("to", texels.nbytes)
    params = np.array([0, 0, 7 | 5 << 32], np.uint64).tobytes()
    both = (Surface("from", 0, 7, 5), Surface("to", 8, 7, 5))
    launch = Launch("bump", (2, 1, 1), (32, 1, 1), params, memory, ("to",), surfaces=both)
    device = hip_device(images=True)
    for _ in range(2):
        after = device.run(program("bump", Path(sys.argv[2]).read_bytes()), launch, "exact").memory
        assert (after.view("to").view(np.float16).reshape(texels.shape) == texels + 1).all()
    print("ok")


def times() -> None:
    device, add = hip_device(), program("vector_add", Path(sys.argv[2]).read_bytes())
    found = device.times(add, small_launch(100), 3)
    assert len(found) == 3
    assert min(found) > 0
    print(device.name)


if __name__ == "__main__":
    {case.__name__: case for case in (one_launch, all_launches, sums, faults, surfaces, times)}[sys.argv[1]]()
