"""The kernels that are compared: a layer's reference module translated as it is, and rewritten with engine bodies."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from zluda_rr.contract import LayerContract, LayerCutRule, load_contract
from zluda_rr.errors import UserError
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.lower import CompiledKernel
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import (
    HELPERS,
    Fusion,
    Proofs,
    RewriteOptions,
    RewriteResult,
    calls_helpers,
    rewrite_kernels,
)
from zluda_rr.runtime.backend import Backend, LoweringBackend
from zluda_rr.runtime.device import Program
from zluda_rr.runtime.progress import Progress

Edit = Callable[[Module], Module]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is verified: a layer, its module, the cuts to apply and the sources of their bodies.

    `kernels` is a folder in place of the shipped `kernels/`: bodies under development.
    `body` chooses among a layer cut's bodies, `defines` are macros its sources are compiled with. `bodies` replaces the
    rule's own kernel sources (a test's broken body), `edit` changes the rewritten module (a test's broken call).
    With `fusion` fragment-consumer fusion follows the cuts. `backend` compiles both modules.
    `proofs` keeps the proofs of the cuts, so that variants of one subject share them.
    """

    contract: LayerContract
    module: Module
    cuts: tuple[str, ...]
    bodies: tuple[Path, ...] | None = None
    edit: Edit | None = None
    body: str | None = None
    defines: tuple[tuple[str, str], ...] = ()
    fusion: bool = False
    backend: Backend = field(default_factory=LoweringBackend)
    kernels: Path | None = None
    proofs: Proofs = field(default_factory=Proofs, compare=False, repr=False)

    def rewrite(self, *, capture: bool = False) -> RewriteResult:
        """The rewritten module. UserError with a refused cut's first failed obligation, or why nothing is fused."""
        use = Fusion.FOLLOWING if self.fusion else Fusion.OFF
        options = RewriteOptions(self.cuts, self.body, use, capture=capture)
        module, (kernel,) = rewrite_kernels(self.module, [self.contract], (), options, self.proofs)
        kernel.check(self.contract.layer)
        if kernel.fusion is not None and not kernel.fusion.fused:
            left = f"fusion leaves {kernel.entry} as it is: {kernel.fusion.left}"
            raise UserError(f"{self.contract.layer}: {left}")
        cuts = kernel.cuts
        if cuts is None:
            match = self.proofs.of(self.module, self.contract).match
            cuts = RewriteResult(module, self.contract, match, (), ())
        result = replace(cuts, module=module)
        return result if self.edit is None else replace(result, module=self.edit(result.module))

    def body_sources(self, result: RewriteResult) -> tuple[Path, ...]:
        """HIP sources of the bodies the rewritten module calls."""
        if self.bodies is not None:
            return self.bodies
        helpers = (HELPERS,) if calls_helpers(result.module) else ()
        folder = self.kernels or resource_dir("kernels")
        sources = tuple(folder / name for name in (*result.body_sources, *helpers))
        missing = [source for source in sources if not source.is_file()]
        if missing:
            raise UserError(
                f"{missing[0]}: no such file; the folder must hold the sources of the bodies, as kernels/ does"
            )
        return sources


def subject(
    layer: str,
    cuts: Sequence[str],
    *,
    module: Path | None = None,
    body: str | None = None,
    fusion: bool = False,
    backend: Backend | None = None,
    kernels: Path | None = None,
) -> Subject:
    """A layer's reference module (or the one in `module`) with the named cuts; no names mean what a player gets.

    With `fusion` no names mean no cut: fragment-consumer fusion alone. `kernels`: see Subject.
    """
    contract = load_contract(layer)
    path = shipped_module(layer) if module is None else module
    known = {cut.name for cut in contract.cuts}
    for cut in cuts:
        if cut not in known:
            raise UserError(f"{layer} has no cut {cut}; there are: {', '.join(sorted(known))}")
    chosen = tuple(cuts) or (() if fusion else contract.default_cuts)
    if body is not None:
        whole = [rule for rule in map(contract.cut, chosen) if isinstance(rule, LayerCutRule)]
        if not whole:
            raise UserError(f"{layer}: --body {body}: none of the cuts {', '.join(chosen)} has bodies to choose from")
        whole[0].using(body)  # complains about an unknown name
    original = parse(read_ptx(path), filename=str(path))
    chosen_backend = backend or LoweringBackend()
    return Subject(contract, original, chosen, body=body, fusion=fusion, backend=chosen_backend, kernels=kernels)


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel to compile: what reports call it, its module, the sources of the bodies it calls, and their macros."""

    name: str
    module: Module
    bodies: tuple[Path, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()


def compile_all(
    requests: Sequence[Request], entry: str, progress: Progress, backend: Backend | None = None
) -> tuple[Program, ...]:
    """Compile modules for gfx1201, each in its own process; cached by content, so a second time is quick."""
    chosen = backend or LoweringBackend()
    jobs = [(chosen, print_module(r.module), r.module.filename, entry, r.bodies, r.defines) for r in requests]
    with progress.step("compile " + ", ".join(r.name for r in requests)):
        workers = min(len(jobs), os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            compiled = list(pool.map(_compile, jobs))
    return tuple(Program(r.name, r.module, entry, c) for r, c in zip(requests, compiled, strict=True))


def _compile(job: tuple[Backend, str, str, str, tuple[Path, ...], tuple[tuple[str, str], ...]]) -> CompiledKernel:
    backend, text, filename, entry, bodies, defines = job
    return backend.compile(parse(text, filename=filename), entry, bodies, defines)


def variants(what: Subject, progress: Progress) -> tuple[Program, Program]:
    """The translated original and the rewritten kernel, both compiled."""
    result = what.rewrite()
    requests = (
        Request("translated", what.module),
        Request("rewritten", result.module, what.body_sources(result), what.defines),
    )
    translated, rewritten = compile_all(requests, what.contract.entry, progress, what.backend)
    return translated, rewritten
