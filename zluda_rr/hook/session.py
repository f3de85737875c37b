"""`launch`, `doctor` and `log`: the plugin from the outside."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.contract import load_contracts
from zluda_rr.errors import UserError

from .bitcode import unpack_bodies
from .build import library_path
from .cache import Cache
from .options import Settings, config_path, hook_folder, read_settings
from .tool import current_tool, program
from .transform import unknown_layers


def launch_environment(environ: Mapping[str, str], library: Path) -> dict[str, str]:
    """The environment of a game: the library before whatever else is preloaded, once."""
    env = dict(environ)
    others = [p for p in env.get("LD_PRELOAD", "").replace(":", " ").split() if Path(p).name != library.name]
    env["LD_PRELOAD"] = ":".join([str(library), *others])
    env.setdefault("ZLUDA_RR_TOOL", program())
    return env


def refresh_tool(settings: Settings) -> Cache:
    """The cache with this installation's record in it. UserError where the folder cannot be used."""
    cache = Cache(hook_folder(settings))
    cache.prepare()
    cache.write_tool(current_tool(settings["tool"]))
    return cache


def refresh_bodies(settings: Settings) -> Cache:
    """The same, with the bodies that a patched ZLUDA links."""
    cache = refresh_tool(settings)
    unpack_bodies(cache)
    return cache


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `doctor`: what is well, or what to do about it."""

    what: str
    well: bool
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{'ok  ' if self.well else 'FIX '} {self.what}: {self.detail}"
        return line if self.well or not self.remedy else f"{line}\n     -> {self.remedy}"


def examine(environ: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Everything that the hook needs, without changing anything but the cache's own record."""
    env = os.environ if environ is None else environ
    settings = read_settings(env)
    complaints = (*settings.complaints, *(f"no layer {name}" for name in unknown_layers(settings)))
    state = "on" if settings["enabled"] == "1" else "switched off by ZLUDA_RR=0"
    findings = [Finding("plugin", settings["enabled"] == "1", state, "unset ZLUDA_RR")]
    findings += [Finding("setting", False, text, f"correct it there or in {config_path(env)}") for text in complaints]
    findings += [_library(), _cache(settings), _program(settings), _cuda(settings), _layers()]
    return tuple(findings)


def _library() -> Finding:
    try:
        path = library_path()
    except UserError as error:
        return Finding("library", False, str(error), "pip install 'zluda-rr[build]'")
    return Finding("library", True, f"{path} ({path.stat().st_size} bytes)")


def _cache(settings: Settings) -> Finding:
    try:
        cache = refresh_bodies(settings)
    except UserError as error:
        return Finding("cache", False, str(error), "set ZLUDA_RR_CACHE_DIR to a folder of your own")
    return Finding("cache", True, f"{cache.folder}, {len(cache.entries())} modules")


def _program(settings: Settings) -> Finding:
    command = settings["tool"] or program()
    if command and os.access(command, os.X_OK):
        return Finding("rewriter", True, command)
    return Finding("rewriter", False, command or "no zluda-rr program", "set ZLUDA_RR_TOOL to the zluda-rr program")


def _cuda(settings: Settings) -> Finding:
    name = settings["cuda_lib"] or "libcuda.so.1"
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return Finding("CUDA", False, str(error), "install ZLUDA and put its folder into LD_LIBRARY_PATH")
    return Finding("CUDA", True, f"{name} loads")


def _layers() -> Finding:
    with_cuts = [f"{c.layer} ({', '.join(cut.name for cut in c.cuts)})" for c in load_contracts() if c.cuts]
    return Finding("layers", bool(with_cuts), ", ".join(with_cuts) or "no rule states a cut")


def recent_runs(folder: Path, count: int) -> Sequence[str]:
    """The last lines of the log of runs: time, program, what happened to which module, why."""
    lines: list[str] = []
    for name in ("runs.log.1", "runs.log"):
        path = folder / name
        if path.is_file():
            lines += path.read_text(errors="replace").splitlines()
    return [_readable(line) for line in lines[-count:]]


def _readable(line: str) -> str:
    fields = line.split(" ", 5)
    if len(fields) < 6 or not fields[0].isdigit():
        return line
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(fields[0])))
    return f"{stamp}  {fields[2]}[{fields[1]}]  {fields[3]:<9}  {fields[4][:8]}  {fields[5]}"
