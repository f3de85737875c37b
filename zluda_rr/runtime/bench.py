"""Instruction counts of the translated and the rewritten kernels, measured side by side in the emulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from zluda_rr.contract import LayerCutRule
from zluda_rr.emulate.gfx12 import Stats, decode_program, load_code_object
from zluda_rr.lower import CompiledKernel
from zluda_rr.ptx import Module, edit_function, linearise
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import HELPERS
from zluda_rr.runtime.backend import Backend
from zluda_rr.runtime.cost import estimated_ms
from zluda_rr.runtime.device import Device, EmulatorDevice, Program
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
    body_by_mnemonic: Mapping[str, float]
    static_by_class: Mapping[str, int]
    wmma: float
    ds_bpermute: float
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
    def default(self) -> str:
        """The variant that a player gets."""
        return next(name for name in ("direct", "rewritten", *self.variants) if name in self.variants)

    @property
    def ratios(self) -> Mapping[str, float]:
        """Instructions per wave of the translated kernel over those of every other variant."""
        before = self.variants["translated"].instructions_per_wave
        return {n: before / c.instructions_per_wave for n, c in self.variants.items() if n != "translated"}

    @property
    def zluda_ratio(self) -> float | None:
        """Instructions per wave as ZLUDA compiles the original over those of the rewritten; None without ZLUDA."""
        if not {"zluda", "zluda_rewritten"} <= self.variants.keys():
            return None
        before, after = (self.variants[name].instructions_per_wave for name in ("zluda", "zluda_rewritten"))
        return before / after

    @property
    def ratio(self) -> float:
        """Instructions per wave, translated over the default variant."""
        return self.ratios[self.default]


def bench(
    what: Subject,
    *,
    shape: Shape = DEFAULT_SHAPE,
    fused: bool = False,
    zluda: Backend | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Compile all variants, run them over one launch and count what they execute.

    With `fused` also the kernel with fragment-consumer fusion alone, with `zluda` also the kernels of that compiler.
    """
    show = progress or Progress(quiet=True)
    launch = build_launch(what.contract, shape)
    plain, marked = _requests(what)
    if fused:
        plain.append(_fused(what))
    programs = compile_all((*plain, *marked), what.contract.entry, show)
    counts = {}
    for bare, probe in zip_longest(programs[: len(plain)], programs[len(plain) :]):
        with show.step(f"run {bare.name}"):
            counts[bare.name] = _count(EmulatorDevice(), bare, probe, launch)
    if zluda is not None:
        counts |= count_with(zluda, zluda_requests(what, fused=fused), what.contract.entry, launch, show)
    return BenchReport(what.contract.layer, what.cuts, launch.name, shape.blocks, counts)


def bench_requests(what: Subject, *, fused: bool = False) -> tuple[Request, ...]:
    """Every variant as it is: the translated kernel, the rewritten ones, with `fused` also fusion alone."""
    plain, _ = _requests(what)
    return (*plain, _fused(what)) if fused else tuple(plain)


def zluda_requests(what: Subject, *, fused: bool = False) -> list[Request]:
    """The original, and what a rewrite makes of it, for another compiler."""
    requests = [Request("zluda", what.module)]
    if what.cuts:
        result = what.rewrite()
        requests.append(Request("zluda_rewritten", result.module, what.body_sources(result), what.defines))
    return [*requests, replace(_fused(what), name="zluda_fused")] if fused else requests


def count_with(
    backend: Backend, requests: Sequence[Request], entry: str, launch: Launch, progress: Progress
) -> dict[str, VariantCounts]:
    """Compile and run each request with a backend; whole kernels only."""
    counts = {}
    for program in compile_all(requests, entry, progress, backend):
        with progress.step(f"run {program.name}"):
            counts[program.name] = _count(backend.device(), program, None, launch)
    return counts


def _fused(what: Subject) -> Request:
    alone = replace(what, cuts=(), body=None, edit=None, fusion=True)
    return Request("fused", alone.rewrite().module, (resource_dir("kernels") / HELPERS,))


def _requests(what: Subject) -> tuple[list[Request], list[Request]]:
    """Every variant as it is, and with markers around the replaced region."""
    entry = what.contract.entry
    plain: list[Request] = []
    marked: list[Request] = []
    for name, variant in _variants(what).items():
        result = variant.rewrite()
        first, last = result.region
        bodies = variant.body_sources(result)
        plain += [] if plain else [Request("translated", what.module)]
        plain.append(Request(name, result.module, bodies, variant.defines))
        if variant.fusion or not result.plans:  # no one region is replaced
            continue
        if not marked:
            marked.append(Request("translated with markers", mark(what.module, entry, first, last)))
        end = last + _statements(result.module, entry) - _statements(what.module, entry)
        module = mark(result.module, entry, first, end)
        marked.append(Request(f"{name} with markers", module, bodies, variant.defines))
    return plain, marked


def _variants(what: Subject) -> dict[str, Subject]:
    """The rewritten kernels to measure: all bodies of a layer cut, and the direct one in its saturating mode."""
    whole = next((r for r in map(what.contract.cut, what.cuts) if isinstance(r, LayerCutRule)), None)
    if whole is None or what.body is not None:
        return {what.body or "rewritten": what}
    found = {body.name: replace(what, body=body.name) for body in reversed(whole.bodies)}
    if "direct" in found:
        saturating = (*what.defines, ("ZRR_SATURATING", "1"))
        found["direct_saturating"] = replace(found["direct"], defines=saturating)
    return found


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


def _count(device: Device, program: Program, marked: Program | None, launch: Launch) -> VariantCounts:
    stats = _stats(device, program, launch)
    body = None if marked is None else _stats(device, marked, launch).between(*_markers(marked))
    return counts_of(stats, program.code(), body)


def counts_of(stats: Stats, compiled: CompiledKernel, region: Stats | None = None) -> VariantCounts:
    """Counts of a run of a compiled kernel; `region` is the part that a body replaces."""
    body = stats.between(0, 0) if region is None else region
    return VariantCounts(
        instructions_per_wave=stats.instructions_per_wave,
        body_instructions_per_wave=body.instructions_per_wave,
        by_class=stats.by_class,
        body_by_class=body.by_class,
        body_by_mnemonic=_most_frequent(body),
        static_by_class=stats.static_by_class,
        wmma=stats.by_class["wmma"],
        ds_bpermute=stats.by_mnemonic.get("ds_bpermute_b32", 0) / stats.waves,
        vgprs=compiled.vgprs,
        sgprs=compiled.sgprs,
        scratch_bytes=compiled.scratch_bytes,
        lds_bytes=compiled.lds_bytes,
        estimated_ms=estimated_ms(stats.by_class),
    )


def _most_frequent(stats: Stats, count: int = 24) -> Mapping[str, float]:
    """Executions per wave of the most frequent instructions."""
    ranked = sorted(stats.by_mnemonic.items(), key=lambda item: (-item[1], item[0]))[:count]
    return {mnemonic: number / stats.waves for mnemonic, number in ranked}


def _markers(program: Program) -> tuple[int, int]:
    """Addresses of the two trace markers in the machine code."""
    code = load_code_object(program.code().code_object)
    found = {
        inst.mods["simm16"]: address
        for address, inst in decode_program(code, code.kernels[program.entry]).items()
        if inst.mnemonic == "s_ttracedata_imm"
    }
    return found[BODY_BEGIN], found[BODY_END]


def _stats(device: Device, program: Program, launch: Launch) -> Stats:
    stats = device.run(program, launch, "exact").stats
    if stats is None:
        raise ValueError("the emulator counts instructions")
    return stats
