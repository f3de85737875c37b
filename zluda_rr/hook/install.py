"""`install` and `uninstall`: the proxy takes the place of ZLUDA's libcuda.so(.1), which stays beside it.

What was done stands in a manifest in the folder, written before anything is changed. Only files that still are what the
manifest says are touched again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.image import write_atomically

from .build import REAL_LIBRARY, Library, library_path

MANIFEST = "zluda-rr-install.json"
_NAMES = ("libcuda.so.1", "libcuda.so")
_SUFFIX = ".before-zluda-rr"


@dataclass(frozen=True, slots=True)
class Replaced:
    """A name that now is the proxy. Its former self was a link to `link`, or the file now called `moved`."""

    name: str
    link: str = ""
    moved: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The proxy's sha256 and what it replaced."""

    proxy_sha256: str
    replaced: tuple[Replaced, ...]


def install(folder: Path) -> str:
    """Put the proxy in place; once more does nothing, or brings a newer proxy. UserError, and no change, in doubt."""
    manifest = _read(folder)
    proxy = library_path(Library.PROXY)
    digest = _sha256(proxy)
    ours = {item.name for item in manifest.replaced if _is_ours(folder, item.name, manifest)} if manifest else set()
    present = [name for name in _NAMES if os.path.lexists(folder / name)]
    if not present:
        raise UserError(f"{folder}: no libcuda.so or libcuda.so.1; name the folder that holds ZLUDA's libraries")
    if manifest and ours == set(present) and manifest.proxy_sha256 == digest:
        return f"{folder}: already installed"
    kept = tuple(item for item in manifest.replaced if item.name in ours) if manifest else ()
    fresh = tuple(_plan(folder, name) for name in present if name not in ours)
    if fresh:
        _link_real(folder, fresh)
    _write(folder, Manifest(digest, (*kept, *fresh)))
    for item in fresh:
        if item.moved:
            os.replace(folder / item.name, folder / item.moved)
    for name in present:
        temporary = folder / f".{name}.zluda-rr"
        shutil.copyfile(proxy, temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, folder / name)
    return f"{folder}: installed ({', '.join(present)}); undo with: zluda-rr uninstall --zluda {folder}"


def uninstall(folder: Path) -> str:
    """Put back what was there. UserError where nothing of ours is found or a file has changed since."""
    manifest = _read(folder)
    if manifest is None:
        raise UserError(f"{folder}: zluda-rr is not installed here (no {MANIFEST}); nothing was changed")
    changed = [i.name for i in manifest.replaced if not _untouched(folder, i, manifest)]
    if changed:
        raise UserError(
            f"{folder}: {', '.join(changed)} changed since zluda-rr was installed; nothing was touched, "
            f"run `zluda-rr install --zluda {folder}` to take the new file over, or restore it by hand"
        )
    for item in manifest.replaced:
        path = folder / item.name
        if item.moved:
            if (folder / item.moved).exists():
                os.replace(folder / item.moved, path)
        else:
            path.unlink(missing_ok=True)
            path.symlink_to(item.link)
    (folder / REAL_LIBRARY).unlink(missing_ok=True)
    (folder / MANIFEST).unlink()
    return f"{folder}: removed; {', '.join(i.name for i in manifest.replaced)} are as before"


def _plan(folder: Path, name: str) -> Replaced:
    path = folder / name
    if path.is_symlink():
        return Replaced(name, link=os.readlink(path))
    if not path.is_file():
        raise UserError(f"{path}: not a file; nothing was changed")
    return Replaced(name, moved=name + _SUFFIX)


def _link_real(folder: Path, fresh: tuple[Replaced, ...]) -> None:
    """The name that the proxy needs, pointing at where the real library will be."""
    first = folder / fresh[0].name
    target = first.resolve()
    if not target.is_file():
        raise UserError(f"{first}: points to no file; nothing was changed")
    moved = {item.name: item.moved for item in fresh if item.moved}
    inside = target.parent == folder.resolve()
    link = folder / REAL_LIBRARY
    if os.path.lexists(link):
        link.unlink()
    link.symlink_to(moved.get(target.name, target.name) if inside else target)


def _untouched(folder: Path, item: Replaced, manifest: Manifest) -> bool:
    if _is_ours(folder, item.name, manifest):
        return not item.moved or (folder / item.moved).is_file()
    # An install that was cut short before the name was replaced.
    return bool(item.moved) and not os.path.lexists(folder / item.moved) and (folder / item.name).is_file()


def _is_ours(folder: Path, name: str, manifest: Manifest) -> bool:
    path = folder / name
    return path.is_file() and not path.is_symlink() and _sha256(path) == manifest.proxy_sha256


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / MANIFEST, (json.dumps(asdict(manifest), indent=1) + "\n").encode())


def _read(folder: Path) -> Manifest | None:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text())
        replaced = tuple(Replaced(str(i["name"]), str(i["link"]), str(i["moved"])) for i in data["replaced"])
        if any(i.name not in _NAMES or i.moved not in ("", i.name + _SUFFIX) for i in replaced):
            raise ValueError("foreign names")
        return Manifest(str(data["proxy_sha256"]), replaced)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a manifest of zluda-rr ({error}); nothing was changed") from error
