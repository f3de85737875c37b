"""Fills the cache ahead of the game: from its folder, however much else lies there."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image import Fatbin, PtxImage, Scan, Skip, Skipped, files_below, one_line, read_range

from .cache import Cache, Entry, entry_key, locked
from .child import store
from .murmur import murmur128
from .options import Settings
from .progress import Progress
from .session import refresh_tool
from .tool import Tool, current_tool
from .transform import MAX_REWRITE_BYTES, Wanted, chosen_text, module_extent

_MAX_IMAGE_BYTES = 64 << 20  # ZRR_MAX_IMAGE of native/zrr.h


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bytes that a program may hand to the loader, and where they come from."""

    origin: str
    image: bytes


@dataclass(slots=True)
class Tally:
    """What a search comes to: files looked at, modules that a rule concerns, and what is passed over by its kind."""

    show: Progress = field(default_factory=lambda: Progress(quiet=True))
    say: Callable[[str], object] | None = None
    """Is given a line for everything that is passed over."""
    files: int = 0
    modules: int = 0
    passed: Counter[Skip] = field(default_factory=Counter)
    _file: Path = Path()

    def file(self, path: Path) -> None:
        """A file is looked at now."""
        self.files += 1
        self._file = path
        self.show.update(self.files, self.modules, path)

    def module(self) -> None:
        """A module was found that a rule concerns."""
        self.modules += 1

    def skipped(self, what: Skipped) -> None:
        """Something is passed over: a file, an entry, or a module that no rule concerns."""
        self.passed[what.kind] += 1
        self.show.update(self.files, self.modules, self._file)
        if self.say is not None:
            self.say(f"skipped: {what}")

    def __str__(self) -> str:
        parts = [f"{count:,} {kind.plural}" for kind in Skip if (count := self.passed[kind])]
        some = f"passed over: {', '.join(parts)}" if parts else "nothing passed over"
        return f"{self.files:,} files, {self.modules:,} modules of a layer; {some}"


def fill_from(
    paths: tuple[Path, ...], settings: Settings, show: Progress, say: Callable[[str], object], *, listing: bool
) -> None:
    """Store what becomes of every module in `paths` that a rule concerns, a line for each, and the sum at the end."""
    cache, tool = refresh_tool(settings), current_tool(settings["tool"])
    tally, known = Tally(show, say if listing else None), dict[str, Entry]()
    for candidate in candidates(paths, settings, tally):
        show.say(f"precompile: rewriting {candidate.origin}")
        entry = fill(cache, candidate, settings, tool, known)
        say(f"{candidate.origin}: {entry.kind.name.lower()}: {entry.note}")
    say(str(tally) + ("" if listing or not tally.passed else " (--list-skipped names them)"))


def candidates(paths: tuple[Path, ...], settings: Settings, tally: Tally) -> Iterator[Candidate]:
    """Every module that a rule concerns in the files and folders, as text and as the fatbin that holds it; each once.

    Kernel names decide, before a module is parsed or anything is kept of it. UserError for a path that is not there,
    and for a file that was named and has no PTX.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"{one_line(path)}: no such file or folder")
    seen: set[bytes] = set()
    wanted = Wanted.of(settings)
    for path in paths:
        for candidate in _Search(path, wanted, tally).candidates():
            digest = hashlib.sha256(candidate.image).digest()
            if candidate.image and digest not in seen:
                seen.add(digest)
                yield candidate


@dataclass(slots=True)
class _Search:
    """One path of the command line."""

    path: Path
    wanted: Wanted
    tally: Tally

    def candidates(self) -> Iterator[Candidate]:
        names, many = self.wanted.names, self.path.is_dir()
        scan = Scan(many=many, names=names)
        for file in files_below(self.path) if many else [self.path]:
            self.tally.file(file)
            some, first = False, None
            for item in scan.path(file):
                first = first or item
                some = some or isinstance(item, PtxImage) or item.kind is Skip.UNNAMED
                if isinstance(item, Skipped):
                    self.tally.skipped(item)
                else:
                    yield from self._of_module(file, item)
            if not some and not many:
                raise UserError(f"{first}; expected PTX inside" if first else f"{one_line(file)}: no PTX inside")

    def _of_module(self, file: Path, module: PtxImage) -> Iterator[Candidate]:
        if not any(map(self.wanted.entry, module.entries)):
            self.tally.skipped(Skipped(module.origin, "no kernel of a layer that is switched on", Skip.UNNAMED))
            return
        if module.text_bytes > MAX_REWRITE_BYTES:
            bound = f"over the bound of {MAX_REWRITE_BYTES >> 20} MiB for a rewrite"
            what = f"{module.text_bytes >> 20} MiB of PTX, {bound}"
            self.tally.skipped(Skipped(module.origin, what, Skip.LARGE))
            return
        text = Candidate(module.origin, module_extent(module.text.encode()))
        if module.fatbin is None or module.fatbin[1] - module.fatbin[0] > _MAX_IMAGE_BYTES:
            self.tally.module()
            yield text
            return
        image = read_range(file, *module.fatbin)
        fatbin = Fatbin.of(image)
        chosen = chosen_text(fatbin, self.wanted) if fatbin is not None else None
        if chosen is None or chosen.text != module.text:
            what = f"the loader takes {chosen.place if chosen else 'nothing'} of this fatbin"
            self.tally.skipped(Skipped(module.origin, what, Skip.UNNAMED))
            return
        self.tally.module()
        yield text
        yield Candidate(f"{module.origin.rpartition(',')[0] or one_line(file)} (fatbin)", image)


def fill(cache: Cache, candidate: Candidate, settings: Settings, tool: Tool, known: dict[str, Entry]) -> Entry:
    """The entry of one candidate; waits for a program that is rewriting the same module. `known`: see `store`."""
    lock = cache.folder / f"{entry_key(murmur128(candidate.image), settings, '')}.lock"
    with locked(lock, wait=True):
        entry = store(cache, candidate.image, settings, tool, known)
        # Whoever waits for it finds the entry now.
        lock.unlink(missing_ok=True)
    return entry
