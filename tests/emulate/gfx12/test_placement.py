"""A code object that a runtime has placed in memory: variables last from launch to launch, addresses are relocated."""

from __future__ import annotations

import numpy as np

from zluda_rr.emulate.gfx12 import Emulator, Placement, code_image, kernel_arguments, load_code_object
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_hip_kernel

SOURCE = """
__attribute__((device)) unsigned count = 7;
__attribute__((constant, device)) unsigned table[2] = {5, 6};
__attribute__((device)) const unsigned *place[1] = {table};
extern "C" __attribute__((global)) void counted(unsigned *out) {
  out[0] = ++count;
  out[1] = place[0][1];
  out[2] = __builtin_amdgcn_grid_size_x();
}
"""


def test_variables_last_and_pointers_are_relocated() -> None:
    code = load_code_object(compile_hip_kernel(SOURCE).code_object)
    assert code.variables["count"].size == 4
    memory = AddressSpace(1 << 20)
    out = memory.allocate("out", 12)
    size = len(code_image(code, 0))
    base = memory.allocate("code", size, align=4096)
    memory.view("code")[:] = np.frombuffer(code_image(code, base), np.uint8)
    kernel = code.kernels["counted"]
    arguments = kernel_arguments(kernel, (3, 1, 1), (1, 1, 1), out.to_bytes(8, "little"), 0)
    segment = memory.allocate("arguments", len(arguments) + 64, data=arguments)
    emulator = Emulator(code, "counted")
    for launch in range(3):
        emulator.run((3, 1, 1), (1, 1, 1), b"", memory, "exact", placement=Placement(base, segment))
        last, entry, items = memory.view("out").view(np.uint32)
        assert (entry, items) == (6, 3)
        assert 8 + launch <= last <= 7 + 3 * (launch + 1)  # three workgroups, at once or one after another
    count = code.variables["count"]
    stored = memory.view("code")[count.address : count.address + 4].view(np.uint32)[0]
    assert stored == last


def test_without_a_placement_every_launch_starts_afresh() -> None:
    code = load_code_object(compile_hip_kernel(SOURCE.replace("++count", "count + 1")).code_object)
    memory = AddressSpace(1 << 16)
    out = memory.allocate("out", 12)
    for _ in range(2):
        Emulator(code, "counted").run((1, 1, 1), (1, 1, 1), out.to_bytes(8, "little"), memory, "exact")
        assert memory.view("out").view(np.uint32).tolist() == [8, 6, 1]
