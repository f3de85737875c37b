"""Every PTX module of a file or directory.

A file is PTX text (also xz-compressed), or binary. In a binary file fatbins are found by their magic number wherever
they lie, and PTX that is stored as a plain string by its first two directives; the section table only names the place.
"""

import bisect
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image.fatbin import MAGIC, Extent, FatbinText, fatbin_at, fatbin_texts
from zluda_rr.image.model import Compression, Container, Contents, PtxImage, Skipped, image_of, looks_like_ptx, one_line
from zluda_rr.image.sections import Section, container_of, sections_of
from zluda_rr.image.text import decode_text, read_bytes
from zluda_rr.image.unpack import MAX_MODULE_BYTES, Budget, UnpackError, unpack_xz

_XZ_MAGIC = b"\xfd7zXZ\x00"
_PLAIN_PTX = re.compile(rb"\.version[ \t]++\d++\.\d++[ \t\r]*+\n\s*+\.target[ \t]++sm_\d")
# Comments of a compiler stand before .version; this many bytes are looked back for their start.
_LEADING_COMMENT_BYTES = 4096
_DEBUG_PTX = ".nv_debug_ptx_txt"
_SHA_PREFIX = re.compile(r"[0-9a-f]{6,64}")

_Found = Iterator[PtxImage | Skipped]


def contents(path: Path) -> Contents:
    """All modules in `path`, a file or a directory (read recursively, in sorted order).

    In a directory, files that hold no PTX are passed over, links to directories are not followed. Raises UserError
    for a single file without any PTX, with the reason of the first entry that was skipped.
    """
    budget = Budget(one_line(path))
    if path.is_dir():
        found: list[PtxImage | Skipped] = [item for file in _files_below(path) for item in _file_of_many(file, budget)]
    else:
        found = list(_modules_of(read_bytes(path), path, budget))
    modules = tuple(item for item in found if isinstance(item, PtxImage))
    skipped = tuple(item for item in found if isinstance(item, Skipped))
    if not modules and not path.is_dir():
        raise UserError(_nothing_inside(path, skipped))
    return Contents(path, modules, skipped)


def modules_in(path: Path) -> tuple[PtxImage, ...]:
    """The modules alone; see `contents`."""
    return contents(path).modules


def modules_in_bytes(data: bytes, name: str = "<image>") -> tuple[PtxImage, ...]:
    """The modules of one file's content in memory; `name` stands for the path in places and messages."""
    found = list(_modules_of(data, Path(name), Budget(one_line(name))))
    modules = tuple(item for item in found if isinstance(item, PtxImage))
    if not modules:
        raise UserError(_nothing_inside(Path(name), [item for item in found if isinstance(item, Skipped)]))
    return modules


def read_single(path: Path, module: str | None = None) -> PtxImage:
    """One module of `path`: the only one, or the one that `module` names, a number from 1 or a sha256 prefix.

    Raises UserError that lists the modules when the choice is open or wrong.
    """
    modules = modules_in(path)
    chosen = [m for number, m in enumerate(modules, 1) if module is None or _is_named(m, number, module)]
    # The same text may be stored twice; it is one module all the same.
    if len({m.sha256 for m in chosen}) == 1:
        return chosen[0]
    if not modules:
        raise UserError(f"{one_line(path)}: no PTX inside; name a file or directory that has some")
    what = f"{len(modules)} modules" if module is None else f"no single module {one_line(module)}"
    listed = "; ".join(f"{number} = {_short(m)}" for number, m in enumerate(modules[:8], 1))
    more = f"; and {len(modules) - 8} more (see inspect)" if len(modules) > 8 else ""
    raise UserError(f"{one_line(path)}: {what}; choose with --module NUMBER or SHA256: {listed}{more}")


def _is_named(module: PtxImage, number: int, name: str) -> bool:
    if name.isdecimal() and len(name) < 6:
        return number == int(name)
    return _SHA_PREFIX.fullmatch(name.lower()) is not None and module.sha256.startswith(name.lower())


def _short(module: PtxImage) -> str:
    kernels = ", ".join(module.entries[:2]) + (", ..." if len(module.entries) > 2 else "")
    return f"{module.sha256[:8]} {module.arch} {kernels}".strip()


def _nothing_inside(path: Path, skipped: Iterable[Skipped]) -> str:
    for first in skipped:
        return f"{first}; expected PTX inside"
    return f"{one_line(path)}: no PTX inside; expected PTX text, a fatbin, a cubin, or an ELF or PE file with fatbins"


# --- one file ----------------------------------------------------------------------------------------------


def _modules_of(data: bytes, path: Path, budget: Budget) -> _Found:
    """Modules of one file's bytes. Raises UserError for text that cannot be PTX (empty, not UTF-8)."""
    compression = Compression.NONE
    if data.startswith(_XZ_MAGIC):
        try:
            data = unpack_xz(data)
        except UnpackError as error:
            raise UserError(f"{one_line(path)}: {error}; fetch the file again") from error
        compression = Compression.XZ
    container = container_of(data)
    if container is Container.BINARY and b"\0" not in data[: 1 << 16]:
        text = decode_text(data, path)
        budget.unpacked(len(data))
        yield image_of(text, one_line(path), Container.TEXT, compression)
        return
    yield from _modules_of_binary(data, container, path, budget)


def _modules_of_binary(data: bytes, container: Container, path: Path, budget: Budget) -> _Found:
    sections = sections_of(data, container)
    name = one_line(path)
    if container is Container.CUBIN:
        yield from _modules_of_cubin(data, sections, name, budget)
    position = 0
    for extent in _fatbins(data):
        budget.entry()
        yield from _plain_modules(data, position, extent.start, container, sections, name, budget)
        prefix = f"{name}: " + ("" if container is Container.FATBIN and extent.start == 0 else _label(sections, extent))
        for item in fatbin_texts(memoryview(data), extent, budget):
            if isinstance(item, FatbinText):
                yield image_of(item.text, prefix + item.place, container, item.compression)
            else:
                yield Skipped(prefix + item.origin, item.reason)
        position = extent.end
    yield from _plain_modules(data, position, len(data), container, sections, name, budget)


def _fatbins(data: bytes) -> Iterator[Extent]:
    """Every fatbin, in order. One that claims more than the file has ends before the next."""
    extent = _fatbin_from(data, 0)
    while extent is not None:
        following = _fatbin_from(data, extent.first if extent.missing else extent.end)
        if extent.missing and following is not None:
            cut = extent.end - following.start
            extent = Extent(extent.start, extent.first, following.start, extent.missing + cut)
        yield extent
        extent = following


def _fatbin_from(data: bytes, position: int) -> Extent | None:
    view = memoryview(data)
    position = data.find(MAGIC, position)
    while position >= 0:
        extent = fatbin_at(view, position, len(data))
        if extent is not None:
            return extent
        position = data.find(MAGIC, position + 1)
    return None


def _label(sections: tuple[Section, ...], extent: Extent) -> str:
    return _place(sections, extent.start) + ", "


def _place(sections: tuple[Section, ...], offset: int) -> str:
    """``.nv_fatbin+0x40``, or the offset in the file where no section covers it."""
    index = bisect.bisect_right(sections, offset, key=lambda s: s.offset) - 1
    if index >= 0 and offset < sections[index].offset + sections[index].nbytes:
        return f"{sections[index].name}+{offset - sections[index].offset:#x}"
    return f"offset {offset:#x}"


def _modules_of_cubin(data: bytes, sections: tuple[Section, ...], name: str, budget: Budget) -> _Found:
    """PTX that ptxas keeps for debuggers (``-g``, ``-lineinfo``): the source lines, each ended by a NUL."""
    for section in sections:
        if section.name != _DEBUG_PTX:
            continue
        budget.entry()
        place = f"{name}: {_DEBUG_PTX}"
        if section.nbytes > MAX_MODULE_BYTES:
            yield Skipped(place, f"{section.nbytes} bytes, over the bound of {MAX_MODULE_BYTES >> 20} MiB")
            return
        raw = data[section.offset : section.offset + section.nbytes].rstrip(b"\0").replace(b"\0", b"\n") + b"\n"
        budget.unpacked(len(raw))
        text = raw.decode("utf-8", "replace")
        if looks_like_ptx(text) and "\ufffd" not in text:
            yield image_of(text, place, Container.CUBIN, Compression.NONE)
        else:
            yield Skipped(place, "the section is no PTX text; encrypted or damaged")
        return
    yield Skipped(name, "machine code (cubin) without PTX; compile with -lineinfo or use the fatbin")


def _plain_modules(
    data: bytes, start: int, end: int, container: Container, sections: tuple[Section, ...], name: str, budget: Budget
) -> _Found:
    """PTX stored as NUL-terminated strings in [start, end)."""
    position = start
    while match := _PLAIN_PTX.search(data, position, end):
        budget.entry()
        first = data.rfind(b"\0", max(position, match.start() - _LEADING_COMMENT_BYTES), match.start()) + 1
        begin = max(first, position) if first else match.start()
        stop = data.find(b"\0", match.end(), min(end, match.start() + MAX_MODULE_BYTES))
        position = stop if stop >= 0 else end
        place = f"{name}: {_place(sections, match.start())}"
        if stop < 0:
            yield Skipped(place, "a PTX string without an end")
            continue
        budget.unpacked(stop - begin)
        try:
            text = data[begin:stop].decode("utf-8")
        except UnicodeDecodeError:
            yield Skipped(place, "a PTX string that is not UTF-8")
            continue
        if looks_like_ptx(text):
            yield image_of(text, place, container, Compression.NONE)
        else:
            yield Skipped(place, "text that contains PTX, but does not begin with .version")


# --- a directory -------------------------------------------------------------------------------------------


def _files_below(root: Path) -> Iterator[Path]:
    """Regular files, each once however many links lead to it; os.walk follows no link to a directory."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            try:
                status = path.stat()
            except OSError:
                continue  # A dangling link, or one in a loop.
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield path


def _file_of_many(path: Path, budget: Budget) -> _Found:
    try:
        data = read_bytes(path)
    except UserError as error:
        yield Skipped(one_line(path), str(error).removeprefix(f"{one_line(path)}: "))
        return
    try:
        for item in _modules_of(data, path, budget):
            if not isinstance(item, PtxImage) or item.container is not Container.TEXT or looks_like_ptx(item.text):
                yield item
    except UserError:
        if budget.entries_left < 0 or budget.bytes_left < 0:
            raise
