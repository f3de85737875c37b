"""From a PTX module to a gfx1201 code object: lower, link the runtime and the bodies, optimise, emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.lower.kernel import lower_module
from zluda_rr.ptx import Module
from zluda_rr.resources import resource_dir
from zluda_rr.toolchain import compile_hip, compile_ir


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel as machine code. Registers per lane (VGPR) and wave (SGPR), LDS per block, scratch per lane."""

    name: str
    code_object: bytes
    assembly: str
    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    spills: int


def compile_module(
    module: Module,
    entry: str,
    *,
    bodies: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    runtime: Path | None = None,
) -> CompiledKernel:
    """Compile one entry of `module` for gfx1201.

    `bodies` are HIP files with the functions that the entry calls, compiled with `defines`; `runtime` replaces
    kernels/ptx_runtime.hip (for tests of what goes wrong with another one). Raises LoweringError or ToolError.
    """
    helpers = resource_dir("kernels") / "ptx_runtime.hip" if runtime is None else runtime
    modules = [lower_module(module, entry), compile_hip(helpers)]
    modules += [compile_hip(body, defines=defines) for body in bodies]
    compiled = compile_ir(modules)
    resources = compiled.resources(entry)
    return CompiledKernel(
        name=entry,
        code_object=compiled.code_object,
        assembly=compiled.assembly,
        vgprs=resources.vgprs,
        sgprs=resources.sgprs,
        lds_bytes=resources.lds_bytes,
        scratch_bytes=resources.scratch_bytes,
        spills=resources.vgpr_spills + resources.sgpr_spills,
    )
