"""Every PTX module of a file or directory, as a list; see `scan` for one after the other."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image.model import Contents, PtxImage, Skip, Skipped, one_line
from zluda_rr.image.scan import Found, Scan, files_below
from zluda_rr.image.source import Source

MAX_KEPT_BYTES = 128 << 20
"""Texts that `contents` keeps together."""
_SHA_PREFIX = re.compile(r"[0-9a-f]{6,64}")


def contents(path: Path, wanted: Collection[str] = ()) -> Contents:
    """All modules in `path`, a file or a directory (read recursively, in sorted order).

    Where the texts are more than MAX_KEPT_BYTES together, those without a kernel in `wanted` are left empty; the first
    one is always kept. In a directory, files that hold no PTX are passed over, links to directories are not followed.
    Raises UserError for a single file without any PTX, with the reason of the first entry that was skipped.
    """
    modules: list[PtxImage] = []
    skipped: list[Skipped] = []
    kept = 0
    for item in _found(path):
        if isinstance(item, Skipped):
            if item.kind is not Skip.ORDINARY:
                skipped.append(item)
            continue
        kept += item.text_bytes
        spare = kept > MAX_KEPT_BYTES and modules and not any(name in wanted for name in item.entries)
        modules.append(dataclasses.replace(item, text="") if spare else item)
        if spare:
            kept -= item.text_bytes
    if not modules and not path.is_dir():
        raise UserError(_nothing_inside(path, skipped))
    return Contents(path, tuple(modules), tuple(skipped))


def _found(path: Path) -> Iterator[Found]:
    if path.is_dir():
        scan = Scan(many=True)
        return (item for file in files_below(path) for item in scan.path(file))
    return Scan().path(path)


def modules_in(path: Path) -> tuple[PtxImage, ...]:
    """The modules alone, each with its text; see `contents`."""
    found = list(_found(path))
    modules = tuple(item for item in found if isinstance(item, PtxImage))
    if not modules and not path.is_dir():
        raise UserError(_nothing_inside(path, [item for item in found if isinstance(item, Skipped)]))
    return modules


def modules_in_bytes(data: bytes, name: str = "<image>") -> tuple[PtxImage, ...]:
    """The modules of one file's content in memory; `name` stands for the path in places and messages."""
    found = list(Scan().source(Source.of(data), Path(name)))
    modules = tuple(item for item in found if isinstance(item, PtxImage))
    if not modules:
        raise UserError(_nothing_inside(Path(name), [item for item in found if isinstance(item, Skipped)]))
    return modules


def read_single(path: Path, module: str | None = None) -> PtxImage:
    """One module of `path`: the only one, or the one that `module` names, a number from 1 or a sha256 prefix.

    Raises UserError that lists the modules when the choice is open or wrong.
    """
    chosen: PtxImage | None = None
    different, number = False, 0
    listed: list[str] = []
    skipped: list[Skipped] = []
    for item in _found(path):
        if isinstance(item, Skipped):
            skipped.append(item)
            continue
        number += 1
        if number <= 8:
            listed.append(f"{number} = {_short(item)}")
        if module is None or _is_named(item, number, module):
            # The same text may be stored twice; it is one module all the same.
            different = different or (chosen is not None and chosen.sha256 != item.sha256)
            chosen = chosen or item
    if chosen is not None and not different:
        return chosen
    if not number:
        if not path.is_dir():
            raise UserError(_nothing_inside(path, skipped))
        raise UserError(f"{one_line(path)}: no PTX inside; name a file or directory that has some")
    what = f"{number} modules" if module is None else f"no single module {one_line(module)}"
    more = f"; and {number - 8} more (see inspect)" if number > 8 else ""
    raise UserError(f"{one_line(path)}: {what}; choose with --module NUMBER or SHA256: {'; '.join(listed)}{more}")


def _is_named(module: PtxImage, number: int, name: str) -> bool:
    if name.isdecimal() and len(name) < 6:
        return number == int(name)
    return _SHA_PREFIX.fullmatch(name.lower()) is not None and module.sha256.startswith(name.lower())


def _short(module: PtxImage) -> str:
    kernels = ", ".join(name[:80] for name in module.entries[:2]) + (", ..." if len(module.entries) > 2 else "")
    return f"{module.sha256[:8]} {module.arch} {kernels}".strip()


def _nothing_inside(path: Path, skipped: Iterable[Skipped]) -> str:
    for first in skipped:
        if first.kind is not Skip.ORDINARY:
            return f"{first}; expected PTX inside"
    return f"{one_line(path)}: no PTX inside; expected PTX text, a fatbin, a cubin, or an ELF or PE file with fatbins"
