"""`rewrite` and `compile` on files: read, do, write the result whole or not at all."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.contract import load_contract
from zluda_rr.errors import UserError, listed
from zluda_rr.image import Loader, PtxImage, entry_image, read_fatbin, read_single, write_atomically
from zluda_rr.lower import compile_module
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import (
    Fusion,
    FusionResult,
    RewriteOptions,
    RewriteResult,
    fusion_json,
    fusion_text,
    rewrite_kernels,
)
from zluda_rr.runtime.progress import Progress


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What the code object needs of the machine. Registers per lane (VGPR) and wave (SGPR), memory in bytes."""

    entry: str
    output: str
    code_object_bytes: int
    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    spills: int

    def __str__(self) -> str:
        return (
            f"{self.output}: {self.entry}, {self.code_object_bytes} bytes, {self.vgprs} VGPRs, {self.sgprs} SGPRs, "
            f"{self.lds_bytes} B LDS, {self.scratch_bytes} B scratch, {self.spills} spills"
        )


@dataclass(frozen=True, slots=True)
class FileRewrite:
    """What `rewrite` did: the cuts of a layer (None where none was asked for), and fusion by kernel."""

    cuts: RewriteResult | None
    fusion: tuple[FusionResult, ...]
    with_fusion: bool

    def text(self) -> str:
        """For people."""
        parts = [] if self.cuts is None else [self.cuts.text()]
        return "\n".join((*parts, *([fusion_text(self.fusion)] if self.with_fusion else [])))

    def json(self) -> dict[str, object]:
        """The same for programs; `fusion` is there where fusion was asked for."""
        document: dict[str, object] = {"schema": "zluda-rr.rewrite/1", "layer": None, "entry": None, "equal": None}
        document |= {"cuts": []} if self.cuts is None else self.cuts.json()
        return {**document, "fusion": fusion_json(self.fusion)} if self.with_fusion else document


def rewrite_file(
    source: Path,
    output: Path,
    layer: str,
    cuts: tuple[str, ...],
    chosen: str | None = None,
    finish: Callable[[str], str] = str,
    body: str | None = None,
    *,
    fusion: bool = False,
    loader: Loader = Loader.ZLUDA,
) -> FileRewrite:
    """Rewrite a module of `source`, a text or a container, into the PTX text `output`.

    `chosen` names the module where `source` holds several: its number or sha256. `finish` is applied to the text
    before it is written, `body` chooses one of a layer cut's bodies. Of a fatbin the entry that `loader` takes is
    rewritten where `chosen` names no other, and the output is the fatbin with the new text in its place; a name that
    ends in `.ptx` asks for the text alone. With `fusion` fragment-consumer fusion of every kernel follows the cuts, and
    no names mean no cut: then the module needs no layer. Raises UserError, and writes nothing, when a cut is refused; a
    kernel that fusion leaves as it was is in the report.
    """
    image, place = _read(source, output, chosen, loader)
    module = parse(image.text, filename=image.origin)
    contracts = [load_contract(layer)] if cuts or not fusion else []
    options = RewriteOptions(
        cuts or tuple(name for contract in contracts for name in contract.default_cuts),
        body,
        Fusion.FOLLOWING if fusion else Fusion.OFF,
    )
    entries = [function.name for function in module.entries] if fusion else []
    module, done = rewrite_kernels(module, contracts, entries, options)
    for kernel in done:
        kernel.check(image.origin)
    result = next((kernel.cuts for kernel in done if kernel.cuts is not None), None)
    fused = tuple(kernel.fusion for kernel in done if kernel.fusion is not None)
    text = finish(print_module(module))
    write_atomically(output, text.encode() if place is None else place(text))
    return FileRewrite(result, fused, fusion)


def _read(
    source: Path, output: Path, chosen: str | None, loader: Loader
) -> tuple[PtxImage, Callable[[str], bytes] | None]:
    """The module to rewrite; of a fatbin the one that `loader` takes, and what puts its text back."""
    fatbin = read_fatbin(source)
    if fatbin is None:
        return read_single(source, chosen), None
    if chosen is not None:
        image = read_single(source, chosen)
        entry = next((text for text in fatbin.texts() if text.text == image.text), None)
    else:
        entry = fatbin.chosen(loader, lambda text: _parses(text.text))
        image = read_single(source) if entry is None else entry_image(entry, source)
    if entry is None or output.suffix == ".ptx":
        return image, None
    return image, lambda text: fatbin.replaced(entry, text, loader)[0]


def _parses(text: str) -> bool:
    try:
        parse(text)
    except UserError:
        return False
    return True


def compile_file(
    source: Path, output: Path, entry: str | None, progress: Progress, chosen: str | None = None
) -> CompileReport:
    """Compile one kernel of a module of `source` (see `rewrite_file`) into the code object `output`."""
    image = read_single(source, chosen)
    module = parse(image.text, filename=image.origin)
    name = _entry(module, entry, source)
    with progress.step(f"compile {name}"):
        compiled = compile_module(module, name, bodies=body_sources(module))
    write_atomically(output, compiled.code_object)
    return CompileReport(
        name,
        str(output),
        len(compiled.code_object),
        compiled.vgprs,
        compiled.sgprs,
        compiled.lds_bytes,
        compiled.scratch_bytes,
        compiled.spills,
    )


def _entry(module: Module, entry: str | None, source: Path) -> str:
    names = [function.name for function in module.entries]
    if entry is None and len(names) == 1:
        return names[0]
    if entry in names:
        return str(entry)
    wanted = "several entries; name one with --entry" if entry is None else f"no entry {entry}"
    raise UserError(f"{source}: {wanted}; there are: {listed(names)}")


def body_sources(module: Module) -> tuple[Path, ...]:
    """Kernel sources that define the `zrr_` bodies a module declares. Raises UserError for an unknown body."""
    found: list[Path] = []
    kernels = sorted(resource_dir("kernels").glob("*.hip"))
    for function in module.functions:
        if function.kind != "func" or function.body is not None or not function.name.startswith("zrr_"):
            continue
        defining = [k for k in kernels if re.search(rf"\b{function.name}\(", k.read_text())]
        if not defining:
            raise UserError(f"the module calls {function.name}, which no kernel source defines")
        found.extend(k for k in defining if k not in found)
    return tuple(found)
