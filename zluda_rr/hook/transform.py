"""A module image to the module that should be loaded in its place, or the reason to leave it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from zluda_rr.contract import LayerContract, load_contracts
from zluda_rr.errors import UserError
from zluda_rr.image import Container, Fatbin, FatbinText, Loader, modules_in_bytes
from zluda_rr.ptx import Module, PtxError, parse, print_module
from zluda_rr.rewrite import examine_cut, fuse_module, match_entry, rewrite_module

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


def wanted_layers(settings: Settings) -> tuple[LayerContract, ...]:
    """Contracts of the layers that are switched on."""
    chosen, disabled = settings.names("layers"), settings.names("disable")
    contracts = load_contracts()
    if not any(contract.layer in chosen for contract in contracts):
        chosen = ()  # unknown names are ignored
    return tuple(c for c in contracts if (not chosen or c.layer in chosen) and c.layer not in disabled)


def unknown_layers(settings: Settings) -> tuple[str, ...]:
    """Names in the two lists that no rule has."""
    known = {contract.layer for contract in load_contracts()}
    return tuple(n for name in ("layers", "disable") for n in settings.names(name) if n not in known)


def wanted_entries(settings: Settings) -> Callable[[str], bool]:
    """Which kernels may be touched. With a list of layers only theirs, else all of the family but the disabled ones."""
    wanted = {contract.entry for contract in wanted_layers(settings)}
    with_rule = {contract.entry for contract in load_contracts()}
    everything = not set(settings.names("layers")) - set(unknown_layers(settings)) and _fuses(settings)
    return lambda name: name in wanted or (everything and name.startswith(_FAMILY) and name not in with_rule)


def _fuses(settings: Settings) -> bool:
    # The helpers of fusion exist for gfx12 only.
    return settings["fusion"] == "1" and settings["target"] == "zluda"


def kernel_names(settings: Settings) -> tuple[str, ...]:
    """Words of which a text has at least one if it has a kernel that may be touched."""
    names = [contract.entry for contract in wanted_layers(settings)]
    return tuple(dict.fromkeys([*([_FAMILY] if _fuses(settings) else []), *names]))


def transform_image(data: bytes, settings: Settings, known: dict[str, Entry] | None = None) -> Entry:
    """The entry for PTX text or a fatbin. Only a bug raises: a module that is no PTX stays unchanged.

    `known` keeps what became of texts, for calls with the same settings.
    """
    known = {} if known is None else known
    try:
        if data[:4] == _FATBIN_MAGIC:
            return _transform_fatbin(data, settings, known)
        module = modules_in_bytes(data, "module")[0]
        if module.container is not Container.TEXT:
            return Entry(Kind.UNCHANGED, "neither PTX text nor a fatbin")
        if not any(map(wanted_entries(settings), module.entries)):
            return Entry(Kind.UNCHANGED, _NOTHING)
        if module.text not in known:
            known[module.text] = transform_text(module.text, settings)
        return known[module.text]
    except UserError as error:
        return Entry(Kind.UNCHANGED, " ".join(str(error).split()))


def chosen_text(fatbin: Fatbin, settings: Settings) -> FatbinText | None:
    """The text that the loader takes, if any text of the fatbin has a kernel that may be touched."""
    words = kernel_names(settings)
    if not any(word in text.text for text in fatbin.texts() for word in words):
        return None
    return fatbin.chosen(Loader(settings["target"]), _reads)


def _transform_fatbin(data: bytes, settings: Settings, known: dict[str, Entry]) -> Entry:
    """Only the text that the loader takes is rewritten; see `Fatbin.chosen`."""
    fatbin = Fatbin.of(data)
    if fatbin is None:
        return Entry(Kind.UNCHANGED, "a damaged fatbin")
    chosen = chosen_text(fatbin, settings)
    if chosen is None:
        return Entry(Kind.UNCHANGED, _NOTHING)
    entry = transform_image(chosen.text.encode(), settings, known)
    if entry.kind is Kind.UNCHANGED:
        place = f"{chosen.place} for {chosen.target}, which the loader takes: "
        return replace(entry, note=place + entry.note) if entry.note == _NOTHING else entry
    image, first = fatbin.replaced(chosen, entry.text, Loader(settings["target"]))
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


def transform_text(text: str, settings: Settings) -> Entry:
    """The entry for PTX text. UserError where the text cannot be read."""
    if len(text) > MAX_REWRITE_BYTES:
        raise UserError(f"{len(text) >> 20} MiB of PTX, over the bound of {MAX_REWRITE_BYTES >> 20} MiB for a rewrite")
    original = module = parse(text, filename="<module>")
    nvidia = settings["target"] == "nvptx"
    wanted, contracts = wanted_entries(settings), {contract.entry: contract for contract in load_contracts()}
    outcomes = []
    for name in [function.name for function in module.entries if wanted(function.name)]:
        outcome = LayerOutcome(name.removeprefix(_FAMILY).removesuffix("_kernel"), (), "no rule for it")
        try:
            if name in contracts:
                module, outcome = apply_layer(module, contracts[name], nvidia)
        except UserError as error:  # this kernel stays, the others have their chance
            outcome = replace(outcome, reason=_one_line(error))
        try:
            if not outcome.cuts and _fuses(settings):
                module, outcome = apply_fusion(module, name, outcome)
        except PtxError as error:
            outcome = replace(outcome, reason=_one_line(error))
        outcomes.append(outcome)
    note = "; ".join(map(str, outcomes))
    if module is original:
        return Entry(Kind.UNCHANGED, note or _NOTHING)
    result = print_module(module)
    finished = insert_bodies(without_contraction(result)) if nvidia else name_bodies(result)
    return Entry(Kind.REPLACED, note, finished)


def _one_line(error: UserError) -> str:
    """Why a kernel stays as it is, without the quoted source line."""
    return f"line {error.line}: {error.message}" if isinstance(error, PtxError) else " ".join(str(error).split())


def apply_fusion(module: Module, entry: str, refused: LayerOutcome) -> tuple[Module, LayerOutcome]:
    """Fragment-consumer fusion of a kernel that no cut replaces; why it was left goes behind why no cut was applied."""
    result = fuse_module(module, entry)
    if result.fused:
        return result.module, LayerOutcome(refused.layer, ("fusion",), "")
    return module, replace(refused, reason=f"{refused.reason}; fusion left it as it was: {result.left}")


def apply_layer(module: Module, contract: LayerContract, nvidia: bool) -> tuple[Module, LayerOutcome]:
    """Apply the largest cuts that may be applied and do not overlap."""
    match = match_entry(module, contract)
    rules = [cut for cut in contract.cuts if not nvidia or has_body(cut.symbol)]
    reports = [examine_cut(match, rule) for rule in rules]
    plans = sorted((r.plan for r in reports if r.plan is not None), key=lambda p: p.first - p.last)
    taken: list[tuple[int, int]] = []
    names = []
    for plan in plans:
        if all(plan.last < first or plan.first > last for first, last in taken):
            taken.append((plan.first, plan.last))
            names.append(plan.rule.name)
    if not names:
        reason = next((r.refused for r in reports if r.refused), "no cut is stated for it")
        return module, LayerOutcome(contract.layer, (), reason)
    result = rewrite_module(module, contract, names)
    if result.refused:
        return module, LayerOutcome(contract.layer, (), result.refused)
    return result.module, LayerOutcome(contract.layer, tuple(names), "")
