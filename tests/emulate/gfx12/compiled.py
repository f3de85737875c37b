"""Compiled device code for the decoder's tests, built once per process."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from zluda_rr.toolchain import (
    TARGET_CPU,
    TARGET_TRIPLE,
    Compiled,
    compile_hip,
    compile_hip_kernel,
    link_code_object,
    llvm_binding,
)

SOURCE = Path(__file__).with_name("kernels.hip")
_SUFFIX = re.compile(r"_e(32|64)(_dpp)?$|_dpp$")


@cache
def compiled() -> Compiled:
    """The code object and assembly of kernels.hip."""
    return compile_hip_kernel(SOURCE)


@cache
def compiled_true16() -> Compiled:
    """The same with 16-bit values in halves of registers."""
    return compile_true16(compile_hip(SOURCE))


def compile_true16(ir: str) -> Compiled:
    """Code generated with the feature real-true16; the IR is already optimised."""
    ir = ir.replace('"target-features"="', '"target-features"="+real-true16,')
    llvm = llvm_binding()
    target = llvm.Target.from_triple(TARGET_TRIPLE)
    machine = target.create_target_machine(cpu=TARGET_CPU, opt=3, reloc="pic", features="+real-true16")
    # Emitting changes a module, so each output has its own.
    code = link_code_object(machine.emit_object(llvm.parse_assembly(ir)))
    return Compiled(code, str(machine.emit_assembly(llvm.parse_assembly(ir))))


def assembly_mnemonics(assembly: str) -> list[str]:
    """Mnemonics of the instructions of LLVM's assembly text in order, without encoding suffixes."""
    lines = (line for line in assembly.splitlines() if re.match(r"\t[a-z]\w+( |$)", line))
    return [_SUFFIX.sub("", line.split()[0]) for line in lines]
