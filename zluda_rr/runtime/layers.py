"""Every layer of a file, whatever holds its modules: found, then verified or measured, one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from zluda_rr.contract import ContractError, LayerContract, LayerCutRule, load_contracts
from zluda_rr.errors import UserError
from zluda_rr.image import PtxImage, contents, one_line, read_single
from zluda_rr.ptx import Module, parse
from zluda_rr.rewrite import Proofs
from zluda_rr.runtime.backend import Backend, LoweringBackend
from zluda_rr.runtime.variants import Subject

FAMILY = "cuda_dldn_engine_swin_"  # kernels of it that no rule names are rows as well
Report = TypeVar("Report")


class Result(StrEnum):
    """What became of a layer."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MEASURED = "measured"
    REFUSED = "refused"
    UNKNOWN = "not recognised"


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for: one layer (None: all), cuts (`layer` or `enc0.layer`; none: the rule's default), a body,
    and fusion (None: where no cut is stated).
    """

    layer: str | None = None
    cuts: tuple[str, ...] = ()
    body: str | None = None
    fusion: bool | None = None
    backend: Backend = field(default_factory=LoweringBackend)


@dataclass(frozen=True, slots=True)
class FoundLayer:
    """A kernel of a layer in a file; `module` is its module's number in `inspect`. Without `subject`, `reason` says why
    nothing can be done with it.
    """

    layer: str
    entry: str
    module: int
    origin: str
    subject: Subject | None
    result: Result = Result.UNKNOWN
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LayerRow(Generic[Report]):
    """One layer, and what was found about it: `report` is None where nothing was compared or measured."""

    found: FoundLayer
    result: Result
    reason: str
    report: Report | None


def find_layers(path: Path, choice: Choice, module: str | None = None) -> tuple[FoundLayer, ...]:
    """The layers in a file or folder, each text once. UserError where there is none, or not the one that was chosen."""
    contracts = {contract.entry: contract for contract in load_contracts()}
    _check_layer(choice, contracts.values())
    if module is None:
        images = tuple(enumerate(contents(path, contracts).modules, 1))
    else:
        images = ((1, read_single(path, module)),)
    found, seen = [], set()
    for number, image in images:
        if image.sha256 not in seen:
            seen.add(image.sha256)
            found += [f for f in _of_module(number, image, contracts, choice) if choice.layer in (None, f.layer)]
    if not found:
        what = "a layer with a rule" if choice.layer is None else f"layer {choice.layer}"
        raise UserError(f"{one_line(path)}: no kernel of {what}; `zluda-rr inspect` lists what is inside")
    return tuple(found)


def _check_layer(choice: Choice, contracts: Iterable[LayerContract]) -> None:
    known = sorted(contract.layer for contract in contracts)
    if choice.layer is not None and choice.layer not in known:
        raise ContractError(f"no rule file for layer {choice.layer!r}; known layers: {', '.join(known)}")


def _of_module(
    number: int, image: PtxImage, contracts: Mapping[str, LayerContract], choice: Choice
) -> Iterator[FoundLayer]:
    names = [name for name in image.entries if name in contracts or name.startswith(FAMILY)]
    if not names:
        return
    parsed: Module | None = None
    problem = ""
    try:
        parsed = parse(image.text, filename=image.origin)
    except UserError as error:  # it must not hide the others
        problem = _one_line(error)
    for name in names:
        contract = contracts.get(name)
        layer = name.removeprefix(FAMILY).removesuffix("_kernel") if contract is None else contract.layer
        if parsed is None or contract is None:
            yield FoundLayer(layer, name, number, image.origin, None, reason=problem or "no rule for it")
        elif choice.layer in (None, layer):
            yield _of_kernel(number, image.origin, parsed, contract, choice)


def _of_kernel(number: int, origin: str, module: Module, contract: LayerContract, choice: Choice) -> FoundLayer:
    def row(subject: Subject | None, result: Result, reason: str = "") -> FoundLayer:
        return FoundLayer(contract.layer, contract.entry, number, origin, subject, result, reason)

    proofs = Proofs()
    try:
        difference = proofs.of(module, contract).match.first_difference()
    except UserError as error:
        difference = _one_line(error)
    if difference is not None:
        return row(None, Result.UNKNOWN, difference)
    known = {cut.name for cut in contract.cuts}
    named = tuple(cut.removeprefix(f"{contract.layer}.") for cut in choice.cuts)
    cuts = tuple(cut for cut in named if cut in known)
    if named and not cuts:
        there = f"there are: {', '.join(sorted(known))}" if known else "its rule states none"
        return row(None, Result.REFUSED, f"no cut {', '.join(named)}; {there}")
    if not named and not choice.fusion:
        cuts = contract.default_cuts
    whole = [rule for rule in map(contract.cut, cuts) if isinstance(rule, LayerCutRule)]
    body = choice.body if whole else None
    if body is not None:
        whole[0].using(body)  # complains about an unknown name
    fusion = not cuts if choice.fusion is None else choice.fusion
    subject = Subject(contract, module, cuts, body=body, fusion=fusion, backend=choice.backend, proofs=proofs)
    return row(subject, Result.REFUSED)


def each_layer(
    found: Sequence[FoundLayer], work: Callable[[Subject], Report], judge: Callable[[Report], Result]
) -> tuple[LayerRow[Report], ...]:
    """Do the work on every layer that allows it; what one refuses does not keep the others from it."""
    return tuple(_row(layer, work, judge) for layer in found)


def _row(layer: FoundLayer, work: Callable[[Subject], Report], judge: Callable[[Report], Result]) -> LayerRow[Report]:
    if layer.subject is None:
        return LayerRow(layer, layer.result, layer.reason, None)
    try:
        report = work(layer.subject)
    except UserError as error:
        return LayerRow(layer, Result.REFUSED, _one_line(error).removeprefix(f"{layer.layer}: "), None)
    return LayerRow(layer, judge(report), "", report)


def _one_line(error: UserError) -> str:
    return " ".join(str(error).split())
