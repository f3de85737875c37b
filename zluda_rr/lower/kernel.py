"""A whole kernel: from the linearised PTX body to one LLVM IR module."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zluda_rr.errors import listed
from zluda_rr.lower import calls, convert, floating, integer, memory, mma, warp
from zluda_rr.lower.emitter import Emitter, Settings
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.problem import LoweringError
from zluda_rr.lower.scalar import is_float, is_scalar
from zluda_rr.ptx import Body, Function, Module, Statement, Symbol, VarDecl, linearise

# Waves per SIMD that the register allocation aims at: 1,536 VGPRs / 8 = 192 per lane, as ZLUDA's patch budgets.
_WAVES = 8
_BLOCK = (32, 1, 1)
# Statements between barriers to LLVM's instruction scheduler. Several of its steps are quadratic in the length of a
# region, and an unrolled kernel is one region of 40,000 instructions; a run of mma is never divided.
_REGION = 250

_PLAIN: Mapping[str, Handler] = {
    **integer.HANDLERS,
    **floating.HANDLERS,
    **convert.HANDLERS,
    **memory.HANDLERS,
    **warp.HANDLERS,
    "call": calls.call,
}
# f32 instructions that read or write denormals; moves, selections and memory accesses do not look.
_DENORMAL_SENSITIVE = frozenset(
    "add sub mul fma mad min max div rcp rsqrt sqrt ex2 lg2 setp abs neg".split()  # noqa: SIM905 - a table
)
# Conversions for which f32 denormals are as good as zeros: to and from f16, and from integers.
_CONVERTS_SAFELY = re.compile(r"(?:f16|f16x2)\.f32|f32\.(?:f16|[su]\d+)$")


def lower_module(module: Module, entry: str) -> str:
    """LLVM IR (text) of one entry of `module` for gfx1201.

    The kernel takes the parameters as kernarg bytes in PTX's layout. Functions whose names start with zrt_ come
    from kernels/ptx_runtime.hip, called ones from body files. Raises LoweringError for what is not supported.
    """
    function = module.function(entry)
    if function is None or function.kind != "entry" or function.body is None:
        known = listed(f.name for f in module.entries)
        raise LoweringError(f"{module.filename}: no entry {entry}; the module's entries: {known}")
    body = linearise(function, module)
    settings = Settings(module.filename, _flushes(body), _block(function))
    e = Emitter(body, settings)
    partners, zeros = mma.pair_statements(body.statements), mma.zero_registers(body)
    seconds = frozenset(partners.values())
    e.start_block("start")
    region = 0
    for statement in body.statements:
        region += 1
        if region > _REGION and e.open and statement.opcode != "mma":
            e.call("void", "llvm.amdgcn.sched.barrier", ("i32", "0"))
            region = 0
        if statement.number not in seconds:
            partner = partners.get(statement.number)
            _lower_statement(e, statement, None if partner is None else body[partner], zeros)
    if e.open:
        e.end_block("ret void")
    return _module_text(function, body, e)


def _flushes(body: Body) -> bool:
    """Whether every f32 instruction that could see a denormal says .ftz (nvcc's -ftz=true)."""
    seen = ["ftz" in s.modifiers for s in body.statements if _sees_denormals(s)]
    return bool(seen) and all(seen)


def _sees_denormals(s: Statement) -> bool:
    if "f32" not in s.modifiers:
        return False
    if s.opcode == "cvt":
        return not _CONVERTS_SAFELY.search(".".join(s.modifiers))
    return s.opcode in _DENORMAL_SENSITIVE


def _block(function: Function) -> tuple[int, int, int]:
    """Threads of a block: .reqntid or .maxntid where written, else one warp."""
    sizes = dict(function.directives)
    given = sizes.get("reqntid") or sizes.get("maxntid") or _BLOCK
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _lower_statement(e: Emitter, s: Statement, partner: Statement | None, zeros: frozenset[str]) -> None:
    e.statement = s
    if s.label is not None:
        e.start_block(s.label)
        return
    if not e.open:
        e.start_block(e.fresh_block())
    condition = ""
    if s.guard is not None:
        condition = e.read(s.guard.register)
        if s.guard.negated:
            condition = e.op(f"xor i1 {condition}, true")
    if s.opcode == "bra":
        _branch(e, s, condition)
    elif condition:
        e.guarded(condition, lambda: _instruction(e, s, partner, zeros))
    else:
        _instruction(e, s, partner, zeros)


def _branch(e: Emitter, s: Statement, condition: str) -> None:
    (target,) = s.operands
    if not isinstance(target, Symbol) or target.name not in e.body.labels:
        raise e.refuse(s, "target")
    if condition:
        after = e.fresh_block()
        e.end_block(f'br i1 {condition}, label %"{target.name}", label %"{after}"')
        e.start_block(after)
    else:
        e.end_block(f'br label %"{target.name}"')


def _instruction(e: Emitter, s: Statement, partner: Statement | None, zeros: frozenset[str]) -> None:
    if s.opcode in ("ret", "exit"):
        e.end_block("ret void")
    elif s.opcode == "mma":
        if s.modifiers != mma.MODIFIERS:
            raise e.refuse(s)
        mma.emit(e, s, partner, zeros)
    else:
        _handler(e, s)(e, s)


def _handler(e: Emitter, s: Statement) -> Handler:
    if s.opcode in _PLAIN:
        return _PLAIN[s.opcode]
    kind = next((name for name in s.modifiers if is_scalar(name)), "")
    table = floating.FLOAT_HANDLERS if is_float(kind) else integer.INTEGER_HANDLERS
    if s.opcode not in table:
        raise e.refuse(s)
    return table[s.opcode]


def _module_text(function: Function, body: Body, e: Emitter) -> str:
    params = ", ".join(
        f'ptr addrspace(4) noundef byref([{p.nbytes} x i8]) align {p.align or p.nbytes} %"{p.name}"'
        for p in function.params
    )
    slots = [f'  %"{name}" = alloca i{bits}, addrspace(5)' for name, bits in sorted(e.slots.items())]
    shared = [_shared(v) for v in body.variables.values() if v.space == "shared"]
    # The entry block's branch to "start" is the first line that the emitter wrote.
    return "\n".join(
        (
            'target triple = "amdgcn-amd-amdhsa"',
            *shared,
            f'define protected amdgpu_kernel void @"{function.name}"({params}) #0 {{',
            *slots,
            *e.lines,
            "}",
            *sorted(e.declarations),
            f"attributes #0 = {{ {_attributes(e.settings)} }}",
            "!0 = !{}",
            "",
        )
    )


def _shared(variable: VarDecl) -> str:
    if variable.nbytes is None:
        raise LoweringError(f"shared array {variable.name} has no size; dynamic shared memory is not supported")
    return (
        f'@"{variable.name}" = internal addrspace(3) global [{variable.nbytes} x i8] undef, '
        f"align {max(variable.align or 1, 16)}"
    )


def _attributes(settings: Settings) -> str:
    threads = settings.block[0] * settings.block[1] * settings.block[2]
    f32 = "preserve-sign,preserve-sign" if settings.flush else "ieee,ieee"
    return " ".join(
        (
            "convergent mustprogress nounwind",
            f'"amdgpu-flat-work-group-size"="{threads},{threads}"',
            f'"amdgpu-waves-per-eu"="{_WAVES}"',
            '"denormal-fp-math"="ieee,ieee"',
            f'"denormal-fp-math-f32"="{f32}"',
            '"target-cpu"="gfx1201"',
            '"uniform-work-group-size"="true"',
        )
    )
