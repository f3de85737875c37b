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
from .bypass import Bypass, examine_program, past_bypasses, preloadable, rewriter_problem, try_start
from .cache import Cache
from .options import Settings, config_path, hook_folder, read_settings
from .tool import current_tool, program
from .transform import unknown_layers

_XDG = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")


def launch_environment(environ: Mapping[str, str], library: Path) -> dict[str, str]:
    """The environment of a game: the library before whatever else is preloaded, once; folders absolute.

    UserError where the library's path cannot be preloaded.
    """
    env = dict(environ)
    library = preloadable(library, environ)
    for name in _XDG:
        if env.get(name):
            env[name] = str(Path(env[name]).absolute())
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


def examine(environ: Mapping[str, str] | None = None, programs: Sequence[Path] = ()) -> tuple[Finding, ...]:
    """Everything that the hook needs, without changing anything but the cache's own record.

    Also what passes it by, in past runs and in the files of `programs`. UserError for a program that is not there.
    """
    env = os.environ if environ is None else environ
    settings = read_settings(env)
    complaints = (*settings.complaints, *(f"no layer {name}" for name in unknown_layers(settings)))
    state = "on" if settings["enabled"] == "1" else "switched off by ZLUDA_RR=0"
    findings = [Finding("plugin", settings["enabled"] == "1", state, "unset ZLUDA_RR")]
    findings += [Finding("setting", False, text, f"correct it there or in {config_path(env)}") for text in complaints]
    findings += [_library(), _preload(env), _cache(settings), _program(settings), _cuda(settings), _layers()]
    found = [*_past(settings), *(bypass for path in programs for bypass in examine_program(path))]
    findings += [_bypass(bypass) for bypass in found]
    return tuple(findings)


def _library() -> Finding:
    try:
        path = library_path()
    except UserError as error:
        return Finding("library", False, str(error), "pip install 'zluda-rr[build]'")
    return Finding("library", True, f"{path} ({path.stat().st_size} bytes)")


def _bypass(bypass: Bypass) -> Finding:
    return Finding(f"passes by ({bypass.what})", False, bypass.detail, bypass.remedy)


def _preload(environ: Mapping[str, str]) -> Finding:
    """As a game would be started; as this program was, where that was with the hook."""
    try:
        library = library_path()
        env = dict(environ) if library.name in environ.get("LD_PRELOAD", "") else launch_environment(environ, library)
    except UserError as error:
        return Finding("preload", False, str(error), "set ZLUDA_RR_CACHE_DIR to a folder without blanks and colons")
    bypass = try_start({**env, "ZLUDA_RR_LOG": "off"})
    detail = "a program that `launch` starts has the hook, and before all others"
    return Finding("preload", True, detail) if bypass is None else _bypass(bypass)


def _past(settings: Settings) -> tuple[Bypass, ...]:
    try:
        return past_bypasses(_run_lines(hook_folder(settings)))
    except UserError:
        return ()


def _cache(settings: Settings) -> Finding:
    try:
        cache = refresh_bodies(settings)
    except UserError as error:
        return Finding("cache", False, str(error), "set ZLUDA_RR_CACHE_DIR to a folder of your own")
    return Finding("cache", True, f"{cache.folder}, {len(cache.entries())} modules")


def _program(settings: Settings) -> Finding:
    command = settings["tool"] or program()
    remedy = "set ZLUDA_RR_TOOL to the zluda-rr program, or install zluda-rr again with a Python that is there"
    if not command or not os.access(command, os.X_OK):
        return Finding("rewriter", False, command or "no zluda-rr program", remedy)
    problem = rewriter_problem(command)
    return Finding("rewriter", problem is None, problem or command, remedy)


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


def _run_lines(folder: Path) -> list[str]:
    lines: list[str] = []
    for name in ("runs.log.1", "runs.log"):
        path = folder / name
        if path.is_file():
            lines += path.read_text(errors="replace").splitlines()
    return lines


def recent_runs(folder: Path, count: int) -> Sequence[str]:
    """The last lines of the log of runs: time, program, what happened to which module, why.

    That the hook was loaded is said of each program once, the last time.
    """
    kept, said = [], set()
    for line in reversed(_run_lines(folder)):
        fields = line.split(" ", 5)
        loaded = len(fields) == 6 and fields[3] == "loaded"
        if loaded and fields[2] in said:
            continue
        if loaded:
            said.add(fields[2])
        kept.append(_readable(line))
    return kept[:count][::-1]


def _readable(line: str) -> str:
    fields = line.split(" ", 5)
    if len(fields) < 6 or not fields[0].isdigit():
        return line
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(fields[0])))
    return f"{stamp}  {fields[2]}[{fields[1]}]  {fields[3]:<9}  {fields[4][:8]}  {fields[5]}"
