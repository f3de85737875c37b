"""A module image to the module that should be loaded in its place, or the reason to leave it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zluda_rr.contract import LayerContract, load_contracts
from zluda_rr.errors import UserError
from zluda_rr.image import Container, Fatbin, FatbinText, Loader, modules_in_bytes
from zluda_rr.ptx import PtxError, no_collection, parse, print_module
from zluda_rr.rewrite import Fusion, KernelRewrite, RewriteOptions, rewrite_kernels

from .bitcode import name_bodies
from .cache import Entry, Kind
from .nvptx import has_body, insert_bodies, without_contraction
from .options import Settings

_FATBIN_MAGIC = (0xBA55ED50).to_bytes(4, "little")
# Kernels of the family, those without a rule of their own among them.
_FAMILY = "cuda_dldn_engine_swin_"
MAX_REWRITE_BYTES = 6 << 20
"""Largest text that is rewritten, which takes 70 times its size in memory; the largest known RR module has 3 MB."""
_NOTHING = "no kernel of a layer that is switched on"


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """What became of one layer: the cuts that were applied, or why none was."""

    layer: str
    cuts: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.layer} ({', '.join(self.cuts)})" if self.cuts else f"{self.layer} refused: {self.reason}"


def module_extent(data: bytes) -> bytes:
    """The part of a file's bytes that the library hashes: text up to its NUL, a fatbin as long as its header says."""
    if data[:4] == _FATBIN_MAGIC and len(data) >= 16:
        return data[: int.from_bytes(data[6:8], "little") + int.from_bytes(data[8:16], "little")]
    end = data.find(0)
    return data if end < 0 or data[:4] == _FATBIN_MAGIC else data[:end]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the settings ask for, with the rules read once. `contracts` are the layers that are switched on."""

    target: str
    contracts: tuple[LayerContract, ...]
    unknown: tuple[str, ...]
    """Names in the two lists that no rule has; they are ignored."""
    fuses: bool
    everything: bool
    """Whether kernels of the family without a rule of their own may be touched."""
    known: frozenset[str]
    """Entries of all rules."""

    @classmethod
    def of(cls, settings: Settings) -> Wanted:
        """Read the rules."""
        rules = load_contracts()
        layers = {contract.layer for contract in rules}
        listed, disabled = settings.names("layers"), settings.names("disable")
        chosen = set(listed) & layers
        contracts = tuple(c for c in rules if (not chosen or c.layer in chosen) and c.layer not in disabled)
        unknown = tuple(name for name in (*listed, *disabled) if name not in layers)
        # The helpers of fusion exist for gfx12 only.
        fuses = settings["fusion"] == "1" and settings["target"] == "zluda"
        everything = fuses and not chosen
        entries = frozenset(contract.entry for contract in rules)
        return cls(settings["target"], contracts, unknown, fuses, everything, entries)

    @property
    def nvidia(self) -> bool:
        """Whether NVIDIA's own driver loads the result."""
        return self.target == "nvptx"

    def entry(self, name: str) -> bool:
        """Whether a kernel may be touched. With a list of layers only theirs, else all of the family but the disabled
        ones.
        """
        if any(contract.entry == name for contract in self.contracts):
            return True
        return self.everything and name.startswith(_FAMILY) and name not in self.known

    @property
    def names(self) -> tuple[str, ...]:
        """Words of which a text has at least one if it has a kernel that may be touched."""
        family = [_FAMILY] if self.fuses else []
        return tuple(dict.fromkeys([*family, *(contract.entry for contract in self.contracts)]))


def unknown_layers(settings: Settings) -> tuple[str, ...]:
    """Names in the two lists that no rule has. The rules are read only where there are names."""
    return Wanted.of(settings).unknown if settings.names("layers") or settings.names("disable") else ()


def transform_image(data: bytes, settings: Settings, known: dict[str, Entry] | None = None) -> Entry:
    """The entry for PTX text or a fatbin. Only a bug raises: a module that is no PTX stays unchanged.

    `known` keeps what became of texts, for calls with the same settings.
    """
    return _transform(data, Wanted.of(settings), {} if known is None else known)


def _transform(data: bytes, wanted: Wanted, known: dict[str, Entry]) -> Entry:
    try:
        if data[:4] == _FATBIN_MAGIC:
            return _transform_fatbin(data, wanted, known)
        module = modules_in_bytes(data, "module")[0]
        if module.container is not Container.TEXT:
            return Entry(Kind.UNCHANGED, "neither PTX text nor a fatbin")
        if not any(map(wanted.entry, module.entries)):
            return Entry(Kind.UNCHANGED, _NOTHING)
        if module.text not in known:
            known[module.text] = transform_text(module.text, wanted)
        return known[module.text]
    except UserError as error:
        return Entry(Kind.UNCHANGED, " ".join(str(error).split()))


def chosen_text(fatbin: Fatbin, wanted: Wanted) -> FatbinText | None:
    """The text that the loader takes, if any text of the fatbin has a kernel that may be touched."""
    if not any(word in text.text for text in fatbin.texts() for word in wanted.names):
        return None
    return fatbin.chosen(Loader(wanted.target), _reads)


def _transform_fatbin(data: bytes, wanted: Wanted, known: dict[str, Entry]) -> Entry:
    """Only the text that the loader takes is rewritten; see `Fatbin.chosen`."""
    fatbin = Fatbin.of(data)
    if fatbin is None:
        return Entry(Kind.UNCHANGED, "a damaged fatbin")
    chosen = chosen_text(fatbin, wanted)
    if chosen is None:
        return Entry(Kind.UNCHANGED, _NOTHING)
    entry = _transform(chosen.text.encode(), wanted, known)
    if entry.kind is Kind.UNCHANGED:
        place = f"{chosen.place} for {chosen.target}, which the loader takes: "
        return replace(entry, note=place + entry.note) if entry.note == _NOTHING else entry
    image, first = fatbin.replaced(chosen, entry.text, Loader(wanted.target))
    note = f"{entry.note}; but the driver may take {first}, in its place" if first else entry.note
    return Entry(Kind.REPLACED, note, fatbin=image)


def _reads(text: FatbinText) -> bool:
    """Whether the text is PTX without an error; of one too large to tell, that it is."""
    if len(text.text) > MAX_REWRITE_BYTES:
        return True
    try:
        parse(text.text, filename=text.place)
    except UserError:
        return False
    return True


@no_collection()
def transform_text(text: str, wanted: Wanted) -> Entry:
    """The entry for PTX text. UserError where the text cannot be read."""
    if len(text) > MAX_REWRITE_BYTES:
        raise UserError(f"{len(text) >> 20} MiB of PTX, over the bound of {MAX_REWRITE_BYTES >> 20} MiB for a rewrite")
    module = parse(text, filename="<module>")
    entries = [function.name for function in module.entries if wanted.entry(function.name)]
    contracts = [contract for contract in wanted.contracts if contract.entry in entries]
    fusion = Fusion.INSTEAD if wanted.fuses else Fusion.OFF
    options = RewriteOptions(cuts=None, fusion=fusion, has_body=has_body if wanted.nvidia else None)
    edited, kernels = rewrite_kernels(module, contracts, entries, options)
    note = "; ".join(str(_outcome(kernel)) for kernel in kernels)
    if edited is module:
        return Entry(Kind.UNCHANGED, note or _NOTHING)
    result = print_module(edited)
    finished = insert_bodies(without_contraction(result)) if wanted.nvidia else name_bodies(result, edited)
    return Entry(Kind.REPLACED, note, finished)


def _outcome(kernel: KernelRewrite) -> LayerOutcome:
    layer = kernel.entry.removeprefix(_FAMILY).removesuffix("_kernel")
    if kernel.contract is not None:
        layer = kernel.contract.layer
    if kernel.cuts is not None and kernel.cuts.plans:
        return LayerOutcome(layer, tuple(plan.rule.name for plan in kernel.cuts.plans), "")
    if kernel.fusion is not None and kernel.fusion.fused:
        return LayerOutcome(layer, ("fusion",), "")
    return LayerOutcome(layer, (), _reason(kernel))


def _reason(kernel: KernelRewrite) -> str:
    """Why a kernel stays as it was: no cut, and no fusion where that was tried."""
    if kernel.fusion_error is not None:
        return _one_line(kernel.fusion_error)
    if kernel.refused is not None:
        reason = _one_line(kernel.refused)
    else:
        reason = "no rule for it" if kernel.contract is None else "no cut is stated for it"
    return reason if kernel.fusion is None else f"{reason}; fusion left it as it was: {kernel.fusion.left}"


def _one_line(error: UserError) -> str:
    """Why a kernel stays as it is, without the quoted source line."""
    return f"line {error.line}: {error.message}" if isinstance(error, PtxError) else " ".join(str(error).split())
