"""What the library starts on a cache miss: `zluda-rr hook-child FOLDER KEY`. The lock is open in descriptor 3."""

from __future__ import annotations

import os
import re
import time
import traceback
from pathlib import Path

from zluda_rr.errors import UserError

from .bitcode import named_bodies, unpack_bodies
from .cache import Cache, Entry, entry_key
from .murmur import hash_hex, murmur128
from .options import Settings, read_settings
from .tool import Tool, current_tool
from .transform import transform_image, unknown_layers

_KEY = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}")


def serve(folder: Path, key: str) -> None:
    """Rewrite the requested module and store the result; whatever happens is in the log of runs."""
    cache = Cache(folder)
    cache.prepare()
    request = folder / f"{key}.img"
    try:
        if _KEY.fullmatch(key) is None:
            raise UserError(f"{key[:60]!r} is no key of a request")
        image = request.read_bytes()
        if hash_hex(murmur128(image)) != key[:32]:
            raise UserError(f"{request}: damaged")
        settings = read_settings()
        for complaint in (*settings.complaints, *(f"no layer {name}" for name in unknown_layers(settings))):
            record(folder, "setting", key, complaint)
        entry = store(cache, image, settings, current_tool())
        record(folder, entry.kind.name.lower(), key, f"rewriter: {entry.note}")
    except Exception as error:
        record(folder, "failed", key, f"{type(error).__name__}: {error}")
        (folder / "last-failure.txt").write_text(traceback.format_exc())
        raise
    finally:
        request.unlink(missing_ok=True)


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
