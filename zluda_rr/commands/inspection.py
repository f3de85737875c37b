"""`inspect` on files: the report of a PTX text, or the list of a container's modules with the reports worth reading."""

from collections.abc import Mapping
from pathlib import Path

from zluda_rr.contract import load_contracts
from zluda_rr.image import Contents, PtxImage, contents, listing_json, listing_text, read_single, write_atomically
from zluda_rr.ptx import PtxError
from zluda_rr.rewrite import (
    Difference,
    ModuleReport,
    compare_modules,
    examine_module,
    inspect_json,
    inspect_text,
    report_page,
)


def inspect_file(
    source: Path, chosen: str | None = None, *, as_json: bool = False, fusion: bool = False
) -> str | Mapping[str, object]:
    """Report on `source`, as text or as a JSON document.

    Of a container (or directory) the modules are listed; the report follows for the only module, else for each one
    with a kernel that a rule names. `chosen` (number or sha256) asks for the report of that module alone. `fusion` adds
    the chains of fragment-consumer fusion.
    """
    if chosen is not None:
        return _report(read_single(source, chosen), as_json, fusion)
    found = contents(source, _named())
    if found.is_text:
        return _report(found.modules[0], as_json, fusion)
    reports = {number: _guarded_report(module, as_json, fusion) for number, module in _worth_reading(found)}
    if as_json:
        return listing_json(found, reports)
    text = "".join(f"\n--- module {number}\n{report}" for number, report in reports.items())
    return listing_text(found) + text


def page_file(source: Path, output: Path, chosen: str | None = None) -> str:
    """Write the report on `source` as one HTML page; the line to print about it."""
    if chosen is not None:
        images = [read_single(source, chosen)]
    else:
        found = contents(source, _named())
        images = [found.modules[0]] if found.is_text else [module for _, module in _worth_reading(found)]
    page = report_page([examine_module(image.text, filename=image.origin) for image in images], source.name)
    write_atomically(output, page.encode())
    return (
        f"{output}: page of {len(images)} {'module' if len(images) == 1 else 'modules'}, "
        f"{output.stat().st_size} bytes\n"
    )


def diff_files(a: Path, b: Path) -> Difference:
    """What changed from one module to another; both are recovered without rules."""
    return compare_modules(_without_rules(a), _without_rules(b))


def _without_rules(source: Path) -> ModuleReport:
    image = read_single(source)
    return examine_module(image.text, filename=image.origin, contracts=())


def _worth_reading(found: Contents) -> list[tuple[int, PtxImage]]:
    if len(found.modules) == 1:
        return [(1, found.modules[0])]
    named = _named()
    return [(number, module) for number, module in enumerate(found.modules, 1) if named.intersection(module.entries)]


def _named() -> set[str]:
    return {contract.entry for contract in load_contracts()}


def _report(image: PtxImage, as_json: bool, fusion: bool) -> str | Mapping[str, object]:
    if as_json:
        return inspect_json(image.text, filename=image.origin, fusion=fusion)
    return inspect_text(image.text, filename=image.origin, fusion=fusion)


def _guarded_report(image: PtxImage, as_json: bool, fusion: bool) -> str | Mapping[str, object]:
    """One module that does not parse must not hide the others."""
    try:
        return _report(image, as_json, fusion)
    except PtxError as error:
        return {"error": str(error)} if as_json else f"{error}\n"
