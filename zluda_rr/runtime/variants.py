"""The kernels that are compared: a layer's reference module translated as it is, and rewritten with engine bodies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.lower import compile_module
from zluda_rr.ptx import Module, parse
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import LayerContract, RewriteResult, load_contract, rewrite_module
from zluda_rr.runtime.device import Program
from zluda_rr.runtime.progress import Progress

Edit = Callable[[Module], Module]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is verified: a layer, its module, the cuts to apply and the sources of their bodies.

    `bodies` replaces the rule's own kernel sources (a test's broken body), `edit` changes the rewritten module
    (a test's broken call).
    """

    contract: LayerContract
    module: Module
    cuts: tuple[str, ...]
    bodies: tuple[Path, ...] | None = None
    edit: Edit | None = None

    def rewrite(self, *, capture: bool = False) -> RewriteResult:
        """The rewritten module. Raises UserError with the first failed obligation when a cut is refused."""
        result = rewrite_module(self.module, self.contract, self.cuts, capture=capture)
        if result.refused:
            raise UserError(f"{self.contract.layer}: {result.refused}")
        return result if self.edit is None else replace(result, module=self.edit(result.module))

    def body_sources(self, result: RewriteResult) -> tuple[Path, ...]:
        """HIP sources of the bodies the rewritten module calls."""
        if self.bodies is not None:
            return self.bodies
        return tuple(resource_dir("kernels") / name for name in result.body_sources)


def subject(layer: str, cuts: Sequence[str], *, module: Path | None = None) -> Subject:
    """A layer's reference module (or the one in `module`) with the named cuts; no names mean all the rule has."""
    contract = load_contract(layer)
    path = shipped_module(layer) if module is None else module
    known = {cut.name for cut in contract.cuts}
    for cut in cuts:
        if cut not in known:
            raise UserError(f"{layer} has no cut {cut}; there are: {', '.join(sorted(known))}")
    return Subject(contract, parse(read_ptx(path), filename=str(path)), tuple(cuts) or tuple(sorted(known)))


def compile_variant(name: str, module: Module, entry: str, bodies: Sequence[Path], progress: Progress) -> Program:
    """Lower and compile one module for gfx1201; cached by content, so a second call is quick."""
    with progress.step(f"compile {name}"):
        return Program(name, module, entry, compile_module(module, entry, bodies=bodies))


def variants(what: Subject, progress: Progress) -> tuple[Program, Program]:
    """The translated original and the rewritten kernel, both compiled."""
    result = what.rewrite()
    entry = what.contract.entry
    return (
        compile_variant("translated", what.module, entry, (), progress),
        compile_variant("rewritten", result.module, entry, what.body_sources(result), progress),
    )
