"""What the library starts on a cache miss: `zluda-rr hook-child FOLDER KEY`.

Inherited descriptors: 3 the module's lock, 4 a pipe on which one byte says that the module is done, 5 a place among
the rewriters (native/queue.c). Who has a place goes on with the requests that wait, so that nobody has to come back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from zluda_rr.errors import UserError

from .bitcode import named_bodies, unpack_bodies
from .cache import Cache, Entry, entry_key, locked
from .murmur import hash_hex, murmur128
from .options import Settings, read_settings
from .tool import Tool, current_tool
from .transform import transform_image, unknown_layers

_KEY = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}")
_LOCK, _DONE, _PLACE = 3, 4, 5
_SECONDS = 300  # for one module; a rewrite that hangs ends the process
_ROUNDS, _PAUSE = 20, 0.05  # how long a request is waited for whose lock its own program still has


def serve(folder: Path, key: str) -> None:
    """Rewrite the requested module and store the result, then those that wait; what happens is in the log of runs."""
    cache = Cache(folder)
    cache.prepare()
    errors = folder / f"{key}.err"
    place = _holds(_PLACE, folder.glob("worker-*.lock"))
    try:
        _answer(cache, key)
        errors.unlink(missing_ok=True)
    except Exception as error:
        if errors.exists():
            errors.write_text(f"{type(error).__name__}: {error}\n")
        raise
    finally:
        if _holds(_LOCK, [folder / f"{key}.lock"]):
            fcntl.flock(_LOCK, fcntl.LOCK_UN)
        if place:
            with contextlib.suppress(OSError):  # nobody waits
                os.write(_DONE, b".")
            _serve_queue(cache)


def _answer(cache: Cache, key: str) -> None:
    """The rewrite of one request, whose lock is held. The request goes first: what ends this process ends it once."""
    signal.alarm(_SECONDS)
    request = cache.folder / f"{key}.img"
    try:
        if _KEY.fullmatch(key) is None:
            raise UserError(f"{key[:60]!r} is no key of a request")
        image = request.read_bytes()
        request.unlink(missing_ok=True)
        if hash_hex(murmur128(image)) != key[:32]:
            raise UserError(f"{request}: damaged")
        settings = read_settings()
        for complaint in (*settings.complaints, *(f"no layer {name}" for name in unknown_layers(settings))):
            record(cache.folder, "setting", key, complaint)
        entry = store(cache, image, settings, current_tool())
        record(cache.folder, entry.kind.name.lower(), key, f"rewriter: {entry.note}")
    except Exception as error:
        record(cache.folder, "failed", key, f"{type(error).__name__}: {error}")
        (cache.folder / "last-failure.txt").write_text(traceback.format_exc())
        raise
    finally:
        request.unlink(missing_ok=True)
        signal.alarm(0)


def _holds(descriptor: int, paths: Iterator[Path] | list[Path]) -> bool:
    """Whether the library left this descriptor open on one of the files."""
    try:
        about = os.fstat(descriptor)
    except OSError:
        return False
    return any(p.exists() and os.path.samestat(about, p.stat()) for p in paths)


def _waiting(cache: Cache) -> list[str]:
    """Keys of requests made with this process's settings, oldest first; others are for a rewriter that has theirs."""
    suffix = entry_key(bytes(16), read_settings(), "")[32:]
    found = []
    for path in cache.folder.glob(f"*{suffix}.img"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime_ns, path.stem))
    return [key for _, key in sorted(found) if _KEY.fullmatch(key)]


def _serve_queue(cache: Cache) -> None:
    """Until nothing waits. The place is given back before the last look: whoever found it taken has asked by then."""
    idle = 0
    while idle < _ROUNDS:
        served = [_serve_waiting(cache, key) for key in _waiting(cache)]
        idle = 0 if any(served) else idle + 1
        fcntl.flock(_PLACE, fcntl.LOCK_UN)
        if not _waiting(cache):
            return
        try:
            fcntl.flock(_PLACE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # somebody else has it, and the queue with it
        if idle:
            time.sleep(_PAUSE)


def _serve_waiting(cache: Cache, key: str) -> bool:
    """One request of the queue; false where somebody else has it. A failure is left for the program to read."""
    errors = cache.folder / f"{key}.err"
    try:
        with locked(cache.folder / f"{key}.lock", wait=False):
            if not (cache.folder / f"{key}.img").exists():
                return False
            errors.unlink(missing_ok=True)
            _answer(cache, key)
    except BlockingIOError:
        return False
    except Exception as error:  # the next one may be sound
        errors.write_text(f"{type(error).__name__}: {error}\n")
    return True


def store(cache: Cache, image: bytes, settings: Settings, tool: Tool, known: dict[str, Entry] | None = None) -> Entry:
    """The entry of an image, from the cache or made now; `known` as in `transform_image`."""
    key = entry_key(murmur128(image), settings, tool.fingerprint)
    entry = cache.read(key)
    if entry is None:
        entry = transform_image(image, settings, known)
        if named_bodies(entry.text or entry.fatbin.decode("utf-8", "replace")):
            unpack_bodies(cache)
        cache.write(f"{key}.zrr", entry.pack(image))
    cache.write_tool(tool)
    return entry


def record(folder: Path, event: str, key: str, note: str) -> None:
    """One line of the log of runs, in the library's form: time, process, program, event, module, note."""
    line = f"{int(time.time())} {os.getpid()} zluda-rr {event} {key[:32]} {' '.join(note.split())}"
    with (folder / "runs.log").open("a") as stream:
        stream.write(line[:1000] + "\n")
