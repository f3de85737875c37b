"""What keeps the hook away from a program, found from outside: by a trial start, in its files, in past runs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from zluda_rr.errors import UserError

_PROXY = "use the proxy: zluda-rr install --zluda DIR"
_SECONDS = 60
_MOST_BYTES = 256 << 20  # larger files are data
_DAYS = 7  # older runs say nothing of today
# Where the hook is the first to be loaded, its dlsym is the one that a program finds.
_TRIAL = """
import ctypes
class Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("a", ctypes.c_void_p), ("b", ctypes.c_char_p), ("c", ctypes.c_void_p)]
program, place = ctypes.CDLL(None), Place()
program.dladdr(ctypes.cast(program.dlsym, ctypes.c_void_p), ctypes.byref(place))
print(place.file.decode("utf-8", "replace"))
print(any("libzluda_rr.so" in line for line in open("/proc/self/maps", errors="replace")))
"""


@dataclass(frozen=True, slots=True)
class Bypass:
    """Something that the hook does not see, and what to do about it."""

    what: str
    detail: str
    remedy: str = _PROXY


def last_words(text: str) -> str:
    """The last line that says something, short enough for a line of its own."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


def preloadable(library: Path, environ: Mapping[str, str]) -> Path:
    """The library under a name that LD_PRELOAD can hold.

    The loader parts names at blanks and colons, so a path with one gets a link in a folder of this user's alone.
    UserError where there is none.
    """
    if not _parted(library):
        return library
    for root in (environ.get("XDG_RUNTIME_DIR") or "", tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if not root.startswith("/") or _parted(Path(root)):
            continue
        folder = Path(root) / f"zluda-rr-{os.geteuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
                continue
            link = folder / library.name
            if not link.is_symlink() or os.readlink(link) != str(library):
                temporary = folder / f".{library.name}.{os.getpid()}"
                temporary.symlink_to(library)
                os.replace(temporary, link)
        except OSError:
            continue
        return link
    raise UserError(
        f"{library}: a path with a blank or colon cannot be preloaded, and no folder without one can be used"
    )


def _parted(path: Path) -> bool:
    return any(c in " :\t\n" for c in str(path))


def try_start(environ: Mapping[str, str]) -> Bypass | None:
    """Start a small program with this environment and see whether the hook is in it, and first."""
    command = [sys.executable, "-S", "-E", "-c", _TRIAL]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Bypass("trial", f"a program with the hook does not start: {error}", "run it without `zluda-rr launch`")
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != 2:
        return Bypass("trial", f"a program with the hook fails: {last_words(done.stderr)}", "run it without `launch`")
    if lines[1] != "True":
        said = [line for line in done.stderr.splitlines() if "LD_PRELOAD" in line]
        words = said[0][:300] if said else "the loader ignores LD_PRELOAD"
        return Bypass("LD_PRELOAD", f"the hook is not loaded: {words}")
    if Path(lines[0]).name != "libzluda_rr.so":
        remedy = "put `zluda-rr launch --` behind the program that preloads it, or " + _PROXY
        return Bypass("dlsym", f"the dlsym of {lines[0]} comes before the hook's", remedy)
    return None


def rewriter_problem(command: str) -> str | None:
    """Why the program that rewrites cannot do so; None where it gets as far as refusing a request that is none."""
    dropped = ("LD_PRELOAD", "LD_AUDIT", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    try:
        with tempfile.TemporaryDirectory() as folder:
            trial = [command, "hook-child", folder, "trial"]
            done = subprocess.run(trial, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{command}: no answer within {_SECONDS} s"
    except OSError as error:
        return f"{command}: cannot run: {error.strerror} (the program or its interpreter)"
    if done.returncode and "is no key of a request" in done.stderr:
        return None
    return f"{command}: exit status {done.returncode}: {last_words(done.stderr)}"


def examine_program(path: Path) -> Iterator[Bypass]:
    """What in a program's file, or in the files of a folder, passes the hook by. UserError where there is none."""
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        yield from _examine_file(file)


def _examine_file(path: Path) -> Iterator[Bypass]:
    yield from start_problems(path)
    yield from _call_problems(path)


def start_problems(path: Path) -> Iterator[Bypass]:
    """Why this program, if it is one, would start without the hook."""
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            kinds = {segment["p_type"] for segment in elf.iter_segments()}
            width, object_file = elf.elfclass, elf["e_type"] == "ET_REL"
        executable = bool(path.stat().st_mode & 0o111) and not object_file
    except (OSError, ELFError, KeyError):
        return
    if width == 32:
        yield Bypass("32 bits", f"{path}: a 32-bit program cannot load the hook", "only 64-bit programs can be helped")
    elif executable and "PT_INTERP" not in kinds and "PT_DYNAMIC" not in kinds:
        yield Bypass("static", f"{path}: statically linked, so nothing can be preloaded")
    if executable and _is_secure(path):
        remedy = "start it without the privilege (setuid, setgid, file capabilities), or " + _PROXY
        yield Bypass("AT_SECURE", f"{path}: runs with a privilege of its own, so the loader ignores LD_PRELOAD", remedy)


def _call_problems(path: Path) -> Iterator[Bypass]:
    """Calls that the hook does not replace or does not see; names are in a file as text, however they are looked up."""
    try:
        with path.open("rb") as stream:
            if stream.read(2) not in (b"\x7fE", b"MZ") or path.stat().st_size > _MOST_BYTES:
                return
        data = path.read_bytes()
    except OSError:
        return
    if b"cuLinkAddData" in data or b"cuLinkAddFile" in data:
        detail = f"{path}: knows cuLinkAddData; modules that it gives to the driver's linker stay as they are"
        yield Bypass("cuLinkAddData", detail, "nothing to do where its other loads are replaced (zluda-rr log)")
    if b"\0dlmopen\0" in data:
        yield Bypass("dlmopen", f"{path}: can open libraries in a namespace of their own, which the hook is not in")


def _is_secure(path: Path) -> bool:
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return True
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def past_bypasses(lines: Sequence[str]) -> tuple[Bypass, ...]:
    """What programs with the hook have noticed themselves, from the log of runs; each once, the latest last."""
    found: dict[str, Bypass] = {}
    since = time.time() - _DAYS * 86400
    for line in lines:
        fields = line.split(" ", 5)
        if len(fields) == 6 and fields[3] == "bypass" and fields[0].isdigit() and int(fields[0]) >= since:
            found.pop(fields[5], None)
            found[fields[5]] = Bypass(fields[4], f"{fields[2]}: {fields[5]}")
    return tuple(found.values())
