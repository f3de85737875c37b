"""A cache folder, a recording CUDA library and a program that loads modules through the hook."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zluda_rr.hook.cache import Cache, Entry, Kind, entry_key
from zluda_rr.hook.murmur import murmur128
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.tool import Tool

NATIVE = Path(__file__).parent / "native"
TEXT = b"// made by hand\n.version 9.0\n.target sm_89\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
REWRITTEN = (
    ".version 9.0\n.target sm_89\n.address_size 64\n// rewritten by zrr_body\n.visible .entry k()\n{\n\tret;\n}\n"
)
NOTE = "enc0 (phase8)"
FINGERPRINT = "0123456789abcdef" * 2
FATBIN = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64) + bytes(range(64))
CALLS = (
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
)
CALL = "cuModuleLoadData"
BY_FILE = ("cuModuleLoad", "cuLibraryLoadFromFile")
GREETING = " is loaded into "
WAYS = ("dlsym", "link", "next", "proc", "proc2")


@dataclass(frozen=True, slots=True)
class Programs:
    """What the tests build once: the host program, the recording library's folder, faults, the hook."""

    host: Path
    cuda: Path
    faults: Path
    hook: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the loader received: (call, status, bytes) in order, and the library's name.

    What the host printed, and times by the clock and of the processor."""

    status: int
    calls: tuple[tuple[str, int, bytes], ...]
    log: tuple[str, ...]
    printed: Mapping[str, tuple[int, ...]]
    times_us: tuple[tuple[int, int], ...]
    libraries: tuple[str, ...]
    greetings: tuple[str, ...] = ()
    """The lines with which the hook says that it is loaded; not in `log`."""
    values: str = ""
    """Of the options after cuModuleLoadDataEx, with --logs."""

    @property
    def loads(self) -> tuple[tuple[str, int, bytes], ...]:
        """Calls that load a module."""
        return tuple(call for call in self.calls if call[0] in CALLS)


def c_compiler() -> list[str]:
    """A system compiler; the tests' own programs need nothing special."""
    for name in ("gcc", "cc", "clang"):
        if found := shutil.which(name):
            return [found]
    from zluda_rr.hook.build import compiler

    return compiler()


def compile_programs(folder: Path, hook: Path) -> Programs:
    """Build the helpers into `folder`."""
    cc = [*c_compiler(), "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    shared = ["-shared", "-fPIC"]
    cuda, host, faults = folder / "libcuda.so.1", folder / "host", folder / "write_fault.so"
    soname = "-Wl,-soname,libcuda.so.1"
    for command in (
        [*cc, *shared, soname, str(NATIVE / "fake_cuda.c"), "-o", str(cuda), "-ldl"],
        [*cc, *shared, str(NATIVE / "write_fault.c"), "-o", str(faults)],
        [*cc, str(NATIVE / "host.c"), "-o", str(host), "-ldl", "-lpthread"],
    ):
        subprocess.run(command, check=True)
    return Programs(host, folder, faults, hook)


@dataclass(slots=True)
class Sandbox:
    """One test's folders and environment."""

    folder: Path
    programs: Programs
    env: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LD_LIBRARY_PATH": str(self.programs.cuda),
            "LD_PRELOAD": str(self.programs.hook),
            "ZLUDA_RR_CACHE_DIR": str(self.folder / "cache"),
            "ZLUDA_RR_TIMEOUT": "5",
            "ZLUDA_RR_MISS": "sync",
        }
        self.cache.prepare()
        self.write_tool("/nonexistent/zluda-rr")

    @property
    def cache(self) -> Cache:
        return Cache(self.folder / "cache" / "hook")

    def write_tool(
        self, command: str, files: tuple[Path, ...] = (), layers: tuple[str, ...] = ("enc0", "enc1")
    ) -> None:
        """The record of the Python side, as if it were installed with `command`."""
        self.cache.write_tool(Tool(FINGERPRINT, command, layers, files))

    def key(self, image: bytes, fingerprint: str = FINGERPRINT) -> str:
        return entry_key(murmur128(image), read_settings(self.env), fingerprint)

    def store(self, image: bytes, entry: Entry | None = None) -> Path:
        """An entry as the rewriter would have made it."""
        path = self.cache.folder / f"{self.key(image)}.zrr"
        path.write_bytes((entry or Entry(Kind.REPLACED, NOTE, REWRITTEN)).pack(image))
        return path

    def rewriter(self, script: str) -> Path:
        """A shell script in place of `zluda-rr`; it counts its runs in `runs`. $2 is the cache folder, $3 the key."""
        path = self.folder / "rewriter"
        path.write_text(f"#!/bin/sh\necho $$ >>{self.folder}/runs\n{script}\n")
        path.chmod(0o755)
        self.env["ZLUDA_RR_TOOL"] = str(path)
        return path

    def prepared(self, image: bytes) -> str:
        """Shell text that stores a good entry for `image`."""
        entry = self.store(image)
        ready = self.folder / entry.name
        entry.rename(ready)
        return f'cp {ready} "$2/{entry.name}.new" && mv "$2/{entry.name}.new" "$2/{entry.name}"'

    @property
    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def start(self, call: str, way: str, image: bytes, *flags: str, **env: str) -> subprocess.Popen[str]:
        """The host program on an image; `env` adds to the environment, an empty value removes."""
        self.count += 1
        path = self.folder / f"image{self.count}"
        path.write_bytes(image)
        record = self.folder / "record"
        record.mkdir(exist_ok=True)
        whole = {**self.env, "FAKE_CUDA_DIR": str(record), **env}
        whole = {name: value for name, value in whole.items() if value}
        command = [str(self.programs.host), call, way, str(path), *flags]
        return subprocess.Popen(
            command, env=whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )

    def finish(self, host: subprocess.Popen[str]) -> Outcome:
        """Wait for the host and collect what was recorded."""
        out, err = host.communicate(timeout=60)
        assert host.returncode in (0, 3), (host.returncode, out, err)
        record = self.folder / "record"
        calls, libraries = [], []
        path = record / "calls"
        for line in path.read_text().splitlines() if path.exists() else []:
            name, status, file, library = line.split(" ")
            libraries.append(library)
            calls.append((name, int(status), Path(file).read_bytes()))
        shutil.rmtree(record, ignore_errors=True)
        numbers = {k: tuple(map(int, re.findall(r"\d+", v))) for k, v in re.findall(r"^(\w+) (.*)$", out, re.M)}
        times = tuple((int(a), int(b)) for a, b in re.findall(r"^us (\d+) (\d+)$", out, re.M))
        status = numbers.get("status", (-1,))[0]
        lines = [line for line in (err or "").splitlines() if line]
        greetings = tuple(line for line in lines if GREETING in line)
        log = tuple(line for line in lines if GREETING not in line)
        values = next(iter(re.findall(r"^values (.*)$", out, re.M)), "")
        return Outcome(status, tuple(calls), log, numbers, times, tuple(libraries), greetings, values)

    def run(self, call: str, way: str, image: bytes, *flags: str, **env: str) -> Outcome:
        """Start and finish."""
        return self.finish(self.start(call, way, image, *flags, **env))


def assert_original(outcome: Outcome, image: bytes = TEXT, reason: str = "") -> None:
    """The original arrived, once, and one line of the log gives the reason."""
    assert outcome.status == 0
    assert [call[:2] for call in outcome.loads] == [(CALL, 0)]
    assert outcome.loads[0][2].startswith(image[: len(outcome.loads[0][2])])
    assert outcome.loads[0][2]
    assert len(outcome.log) == 1, outcome.log
    assert reason in outcome.log[0]
    assert outcome.printed["fds"][0] == outcome.printed["fds"][1]
