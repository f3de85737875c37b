"""Instruction counts of the translated against the rewritten kernel, measured side by side in the emulator."""

from collections.abc import Mapping
from dataclasses import dataclass

from zluda_rr.emulate.gfx12 import Stats, decode_program, load_code_object
from zluda_rr.lower import CompiledKernel
from zluda_rr.ptx import Module, edit_function, linearise
from zluda_rr.runtime.cost import estimated_ms
from zluda_rr.runtime.device import EmulatorDevice, Program
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.variants import Request, Subject, compile_all
from zluda_rr.runtime.workload import Launch, Shape, build_launch

DEFAULT_SHAPE = Shape(ex=42, ey=36, shift_x=4, shift_y=2)
BODY_BEGIN, BODY_END = 1, 2  # operands of the pmevent markers around the body


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """One kernel. Counts are means per wave over the launch; static counts are of the code object.

    `estimated_ms` is an estimate for 14,973 waves from issue costs (engine.md §5), not a measurement.
    """

    instructions_per_wave: float
    body_instructions_per_wave: float
    by_class: Mapping[str, float]
    body_by_class: Mapping[str, float]
    static_by_class: Mapping[str, int]
    wmma: float
    vgprs: int
    sgprs: int
    scratch_bytes: int
    lds_bytes: int
    estimated_ms: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Every variant by name, from one run over one launch."""

    layer: str
    cuts: tuple[str, ...]
    launch: str
    waves: int
    variants: Mapping[str, VariantCounts]

    @property
    def ratio(self) -> float:
        """Instructions per wave, translated over rewritten."""
        return self.variants["translated"].instructions_per_wave / self.variants["rewritten"].instructions_per_wave


def bench(what: Subject, *, shape: Shape = DEFAULT_SHAPE, progress: Progress | None = None) -> BenchReport:
    """Compile both kernels, run both over one launch and count what they execute."""
    show = progress or Progress(quiet=True)
    launch = build_launch(what.contract, shape)
    result = what.rewrite()
    entry = what.contract.entry
    first, last = result.region
    rewritten_last = last + _statements(result.module, entry) - _statements(what.module, entry)
    bodies = what.body_sources(result)
    requests = (
        Request("translated", what.module),
        Request("rewritten", result.module, bodies),
        Request("translated with markers", mark(what.module, entry, first, last)),
        Request("rewritten with markers", mark(result.module, entry, first, rewritten_last), bodies),
    )
    programs = compile_all(requests, entry, show)
    counts = {}
    for plain, marked in zip(programs[:2], programs[2:], strict=True):
        with show.step(f"run {plain.name}"):
            counts[plain.name] = _count(plain, marked, launch)
    return BenchReport(what.contract.layer, what.cuts, launch.name, shape.blocks, counts)


def _statements(module: Module, entry: str) -> int:
    function = next(f for f in module.entries if f.name == entry)
    return len(linearise(function).statements)


def mark(module: Module, entry: str, first: int, last: int) -> Module:
    """Put `pmevent` markers around statements first..last; the lowering turns them into trace markers."""
    return edit_function(
        module,
        entry,
        delete=(),
        insert_before={first: f"\tpmevent {BODY_BEGIN};"},
        insert_after={last: f"\tpmevent {BODY_END};"},
    )


def _count(program: Program, marked: Program, launch: Launch) -> VariantCounts:
    device = EmulatorDevice()
    stats = _stats(device, program, launch)
    body = _stats(device, marked, launch).between(*_markers(marked))
    compiled: CompiledKernel = program.code()
    return VariantCounts(
        instructions_per_wave=stats.instructions_per_wave,
        body_instructions_per_wave=body.instructions_per_wave,
        by_class=stats.by_class,
        body_by_class=body.by_class,
        static_by_class=stats.static_by_class,
        wmma=stats.by_class["wmma"],
        vgprs=compiled.vgprs,
        sgprs=compiled.sgprs,
        scratch_bytes=compiled.scratch_bytes,
        lds_bytes=compiled.lds_bytes,
        estimated_ms=estimated_ms(stats.by_class),
    )


def _markers(program: Program) -> tuple[int, int]:
    """Addresses of the two trace markers in the machine code."""
    code = load_code_object(program.code().code_object)
    found = {
        inst.mods["simm16"]: address
        for address, inst in decode_program(code, code.kernels[program.entry]).items()
        if inst.mnemonic == "s_ttracedata_imm"
    }
    return found[BODY_BEGIN], found[BODY_END]


def _stats(device: EmulatorDevice, program: Program, launch: Launch) -> Stats:
    stats = device.run(program, launch, "exact").stats
    if stats is None:
        raise ValueError("the emulator counts instructions")
    return stats
