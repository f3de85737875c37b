"""The patches as files: `NNNN-TITLE.patch` in the order of their numbers, and in `local/` the optional one for a system
LLVM, which comes last. The file `base` names the commit they are made against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.resources import resource_dir

_SUBJECT = re.compile(r"^Subject: (?:\[PATCH[^]]*\] )?(.*(?:\n .*)*)", re.M)
_NAME = re.compile(r"\d{4}-.+\.patch")


@dataclass(frozen=True, slots=True)
class Patch:
    """One file of the series."""

    path: Path
    title: str
    local: bool

    @property
    def name(self) -> str:
        """Its file name without the suffix."""
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Series:
    """`base`: full hash of the commit; `patches`: in order, those for a system LLVM last."""

    base: str
    patches: tuple[Patch, ...]

    def length(self, system_llvm: bool) -> int:
        """How many patches are wanted."""
        return len(self.patches) if system_llvm else sum(not patch.local for patch in self.patches)


def load_series(folder: Path | None = None) -> Series:
    """The series in `folder`, default the one that is shipped. UserError when there is none."""
    root = resource_dir("patches") / "zluda" if folder is None else folder
    try:
        base = (root / "base").read_text().strip()
    except OSError as error:
        raise UserError(f"{root}: no patch series ({error.strerror}); install zluda-rr again") from error
    if re.fullmatch(r"[0-9a-f]{40}", base) is None:
        raise UserError(f"{root / 'base'}: {base[:60]!r} is no commit; install zluda-rr again")
    patches = [*_patches(root, local=False), *_patches(root / "local", local=True)]
    return Series(base, tuple(patches))


def _patches(folder: Path, *, local: bool) -> list[Patch]:
    files = sorted(path for path in folder.glob("*.patch") if _NAME.fullmatch(path.name))
    return [Patch(path, _title(path.read_text(errors="replace")), local) for path in files]


def _title(text: str) -> str:
    found = _SUBJECT.search(text)
    return " ".join(found[1].split()) if found else ""
