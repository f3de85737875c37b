"""A whole kernel with the functions that it calls: from the linearised PTX bodies to one LLVM IR module."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zluda_rr.lower import calls
from zluda_rr.lower.body import lower_body, refusals
from zluda_rr.lower.emitter import Emitter, Settings
from zluda_rr.lower.problem import LoweringError
from zluda_rr.ptx import Body, Function, Module, Statement, VarDecl, linearise

# Waves per SIMD that the register allocation aims at: 1,536 VGPRs / 8 = 192 per lane, as ZLUDA's patch budgets.
_WAVES = 8
# Threads of a block where neither .reqntid nor .maxntid is written: the code object's launch limit.
_THREADS = 32
# f32 instructions that read or write denormals; moves, selections and memory accesses do not look.
_DENORMAL_SENSITIVE = frozenset(
    "add sub mul fma mad min max div rcp rsqrt sqrt ex2 lg2 set setp slct abs neg".split()  # noqa: SIM905 - a table
)
# Conversions for which f32 denormals are as good as zeros: to and from f16, and from integers.
_CONVERTS_SAFELY = re.compile(r"(?:f16|f16x2)\.f32|f32\.(?:f16|[su]\d+)$")


def lower_module(module: Module, entry: str) -> str:
    """LLVM IR (text) of one entry of `module` for gfx1201.

    The kernel takes the parameters as kernarg bytes in PTX's layout. Functions whose names start with zrt_ come
    from kernels/ptx_runtime.hip, called ones from the module or from body files. Raises LoweringError for what is not
    supported.
    """
    bodies = _bodies(module, entry)
    emitters = _emitters(module, bodies)
    for emitter in emitters:
        lower_body(emitter)
    return _module_text(module, emitters)


def refused_statements(module: Module, entry: str) -> Mapping[int, LoweringError]:
    """Every statement of the entry that is not supported: its number and what `lower_module` would say of it."""
    bodies = _bodies(module, entry)
    found: dict[int, LoweringError] = {}
    emitter = _emitters(module, bodies)[0]
    for problem in refusals(emitter):
        assert emitter.statement is not None
        found[emitter.statement.number] = problem
    return found


def _bodies(module: Module, entry: str) -> list[Body]:
    """The entry's body, then those of the functions that it calls, directly or not."""
    function = module.function(entry)
    if function is None or function.kind != "entry" or function.body is None:
        known = ", ".join(f.name for f in module.entries) or "none"
        raise LoweringError(f"{module.filename}: no entry {entry}; the module's entries: {known}")
    if entry.startswith(calls.RESERVED):
        raise LoweringError(f"{module.filename}: {entry}: names that start with zrt_ are the lowering's own")
    return calls.reachable(module, linearise(function, module))


def _emitters(module: Module, bodies: Sequence[Body]) -> list[Emitter]:
    shared: dict[VarDecl, str] = {}
    for body in bodies:
        for variable in body.variables.values():
            if variable.space.startswith("shared"):
                shared.setdefault(variable, f"@zrr.shared.{len(shared)}")
    functions = {body.function.name: body.function for body in bodies[1:]}
    names = {name: f"zrr.function.{index}" for index, name in enumerate(functions)}
    settings = Settings(module.filename, _flushes(bodies), _fixed_block(bodies[0].function), shared, functions, names)
    return [Emitter(body, settings) for body in bodies]


def _flushes(bodies: Sequence[Body]) -> bool:
    """Whether every f32 instruction that could see a denormal says .ftz (nvcc's -ftz=true)."""
    seen = ["ftz" in s.modifiers for body in bodies for s in body.statements if _sees_denormals(s)]
    return bool(seen) and all(seen)


def _sees_denormals(s: Statement) -> bool:
    if "f32" not in s.modifiers:
        return False
    if s.opcode == "cvt":
        return not _CONVERTS_SAFELY.search(".".join(s.modifiers))
    return s.opcode in _DENORMAL_SENSITIVE


def _size(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _fixed_block(function: Function) -> tuple[int, int, int] | None:
    """Threads of a block where the kernel says so, else None: then a launch decides."""
    given = dict(function.directives).get("reqntid")
    return _size(given) if given else None


def _threads(function: Function) -> tuple[int, int]:
    """Least and greatest number of threads of a block."""
    sizes = dict(function.directives)
    given = sizes.get("reqntid") or sizes.get("maxntid") or (_THREADS,)
    x, y, z = _size(given)
    return (x * y * z if "reqntid" in sizes else 1), x * y * z


def _module_text(module: Module, emitters: Sequence[Emitter]) -> str:
    kernel = emitters[0]
    shared = [_shared(module.filename, variable, name) for variable, name in kernel.settings.shared.items()]
    declarations = sorted({line for emitter in emitters for line in emitter.declarations})
    attributes = _attributes(kernel)
    return "\n".join(
        (
            'target triple = "amdgcn-amd-amdhsa"',
            *shared,
            *(line for emitter in emitters for line in _function_text(emitter)),
            *declarations,
            f"attributes #0 = {{ {attributes} }}",
            "!0 = !{}",
            "",
        )
    )


def _function_text(e: Emitter) -> list[str]:
    slots = [f"  {e.slot(name, bits)} = alloca i{bits}, addrspace(5)" for name, bits in sorted(e.slots.items())]
    # The entry block's branch to "start" is the first line that the emitter wrote.
    return [_header(e), *slots, *calls.incoming(e), *e.lines, "}"]


def _header(e: Emitter) -> str:
    function = e.body.function
    if function.kind != "entry":
        return calls.header(e)
    params = ", ".join(
        f"ptr addrspace(4) noundef byref([{p.nbytes} x i8]) align {p.align or p.nbytes} {e.params[p.name]}"
        for p in function.params
    )
    return f'define protected amdgpu_kernel void @"{function.name}"({params}) #0 {{'


def _shared(filename: str, variable: VarDecl, name: str) -> str:
    if variable.nbytes is None:
        raise LoweringError(
            f"{filename}: shared array {variable.name} has no size; dynamic shared memory is not supported"
        )
    # externally_initialized: what nobody stored is not LLVM's undefined value.
    return (
        f"{name} = internal addrspace(3) externally_initialized global [{variable.nbytes} x i8] undef, "
        f"align {max(variable.align or 1, 16)}"
    )


def _attributes(e: Emitter) -> str:
    least, most = _threads(e.body.function)
    f32 = "preserve-sign,preserve-sign" if e.settings.flush else "ieee,ieee"
    return " ".join(
        (
            "convergent nounwind",
            f'"amdgpu-flat-work-group-size"="{least},{most}"',
            f'"amdgpu-waves-per-eu"="{_WAVES}"',
            '"denormal-fp-math"="ieee,ieee"',
            f'"denormal-fp-math-f32"="{f32}"',
            '"target-cpu"="gfx1201"',
            '"uniform-work-group-size"="true"',
        )
    )
