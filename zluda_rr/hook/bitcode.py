"""Bodies for ZLUDA: LLVM bitcode of the kernel sources, linked by its compiler into the modules that call them.

ZLUDA is on LLVM 21 and reads no newer bitcode, while this project compiles with clang 22; so the bitcode is made by a
clang 21, committed as `kernels/bitcode/*.bc.xz`, and `manifest.json` says what it was made from. To make it again:
`ZLUDA_RR_CLANG21='PYTHON -m ziglang clang' python -m zluda_rr.hook` with the PYTHON of an environment that has
ziglang 0.16.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.ptx import Module, parse
from zluda_rr.resources import resource_dir

from .cache import Cache
from .murmur import hash_hex, murmur128

SOURCES = ("swin_phase.hip", "swin_enc0.hip", "swin_enc0_staged.hip", "fragment_consumer.hip")
CLANG_VARIABLE = "ZLUDA_RR_CLANG21"
"""Names the command of a clang 21 or older."""
_NEWEST_CLANG = 21
_TARGET = "gfx1201"
_HIP_FLAGS = (
    "-x", "hip", "--cuda-device-only", f"--offload-arch={_TARGET}", "-nogpuinc", "-nogpulib", "-std=c++20", "-O3",
    "-ffp-contract=off", "-fgpu-rdc", "-fuse-cuid=none", "-Wall", "-Werror", "-include", "clang21.h",
    "-S", "-emit-llvm",
)  # fmt: skip
_ASSEMBLE_FLAGS = (
    "--target=amdgcn-amd-amdhsa", f"-mcpu={_TARGET}", "-nogpulib", "-O0", "-Xclang", "-disable-llvm-passes", "-x", "ir",
    "-emit-llvm", "-c",
)  # fmt: skip
# What belongs to a program of its own: a code object version that is not ZLUDA's, lists that keep functions alive.
_BOOKKEEPING = re.compile(
    r"^(?:@(?:__hip_cuid_\w*|llvm\.(?:compiler\.)?used)|!llvm\.(?:module\.flags|ident)|source_filename) = .*\n", re.M
)
# The caller's are used. `target-cpu` stays: ZLUDA refuses a body for another generation, and drops it then.
_ATTRIBUTE = re.compile(
    r' "(?:amdgpu-[\w-]+|target-features|stack-protector-buffer-size|uniform-work-group-size)"(?:="[^"]*")?'
)
_LINE = re.compile(r"^// zluda-rr bitcode ([0-9a-f]{32})$", re.M)


@dataclass(frozen=True, slots=True)
class Record:
    """One file of bitcode: the functions it defines, SHA-256 of what it was made from and of itself, the compiler."""

    symbols: tuple[str, ...]
    sources: str
    bitcode: str
    compiler: str


def bitcode_folder() -> Path:
    """Where the bitcode lies."""
    return resource_dir("kernels") / "bitcode"


def load_manifest() -> dict[str, Record]:
    """What is recorded of every file, by the stem of its source. UserError when it cannot be read."""
    path = bitcode_folder() / "manifest.json"
    try:
        found = json.loads(path.read_text())
        return {stem: Record(**{**fields, "symbols": tuple(fields["symbols"])}) for stem, fields in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: {error}; install zluda-rr again") from error


def committed_bitcode(stem: str) -> bytes:
    """Bitcode of one kernel source as it is committed. UserError when the file is not the recorded one."""
    path = bitcode_folder() / f"{stem}.bc.xz"
    try:
        data = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise UserError(f"{path}: {error}; install zluda-rr again") from error
    if hashlib.sha256(data).hexdigest() != load_manifest()[stem].bitcode:
        raise UserError(f"{path}: not the file that manifest.json records; install zluda-rr again")
    return data


def needed_bodies(text: str, module: Module | None = None) -> tuple[str, ...]:
    """Stems of the files that define the `zrr_` functions a module declares. UserError names one without bitcode.

    `module` is the text parsed, where that is known.
    """
    homes = {symbol: stem for stem, record in load_manifest().items() for symbol in record.symbols}
    if module is None and "zrr_" in text:
        module = parse(text, filename="<module>")
    functions = () if module is None else module.functions
    names = dict.fromkeys(f.name for f in functions if f.body is None and f.name.startswith("zrr_"))
    if missing := [name for name in names if name not in homes]:
        raise UserError(f"{missing[0]}: no bitcode; there is: {', '.join(sorted(homes))}")
    return tuple(dict.fromkeys(homes[name] for name in names))


def content_name(bitcode: bytes) -> str:
    """The name of a body's file in the cache, without `.bc`: the hash that the library checks."""
    return hash_hex(murmur128(bitcode))


def name_bodies(text: str, module: Module | None = None) -> str:
    """The module with a comment line for every file of bitcode it needs (native/bodies.c reads them).

    `module`: see `needed_bodies`.
    """
    lines = [f"// zluda-rr bitcode {content_name(committed_bitcode(stem))}\n" for stem in needed_bodies(text, module)]
    return text if not lines else "".join([text, "" if text.endswith("\n") else "\n", *lines])


def named_bodies(text: str) -> tuple[str, ...]:
    """Names of the files that `name_bodies` put into a module."""
    return tuple(_LINE.findall(text))


def unpack_bodies(cache: Cache) -> None:
    """Every file of bitcode in the cache folder, where the library finds it. UserError when it cannot be written."""
    for stem in load_manifest():
        data = committed_bitcode(stem)
        name = f"{content_name(data)}.bc"
        try:
            there = (cache.folder / name).read_bytes() == data
        except OSError:
            there = False
        if not there:
            cache.write(name, data)


def write_bitcode(text: str, folder: Path) -> tuple[Path, ...]:
    """The bitcode that a module needs, as files `STEM.bc` in `folder`."""
    contents = {folder / f"{stem}.bc": committed_bitcode(stem) for stem in needed_bodies(text)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in contents.items():
            path.write_bytes(data)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; name a writable folder") from error
    return tuple(contents)


def storing_bitcode(finish: Callable[[str], str], folder: Path) -> Callable[[str], str]:
    """`finish`, and then `write_bitcode`, so that a module is written only when its bitcode is."""

    def finish_and_store(text: str) -> str:
        finished = finish(text)
        write_bitcode(finished, folder)
        return finished

    return finish_and_store


def inputs(source: Path) -> tuple[Path, ...]:
    """A kernel source and the headers it includes, in the order they are found."""
    found: list[Path] = [source]
    for path in found:
        included = [path.parent / name for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)]
        found += [header for header in dict.fromkeys(included) if header not in found]
    return (*found, bitcode_folder() / "clang21.h")


def source_digest(source: Path) -> str:
    """SHA-256 of everything that the bitcode of a source depends on but the compiler."""
    digest = hashlib.sha256("\0".join((*_HIP_FLAGS, *_ASSEMBLE_FLAGS, _ATTRIBUTE.pattern)).encode())
    for path in inputs(source):
        data = path.read_bytes()
        digest.update(f"\n{path.name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def compile_bitcode(source: Path, clang: Sequence[str]) -> tuple[bytes, str]:
    """Bitcode of one kernel source, and its LLVM IR. UserError with clang's first error, or for a clang too new."""
    version = clang_version(clang)
    if int(version.split()[-1].split(".")[0]) > _NEWEST_CLANG:
        raise UserError(f"{' '.join(clang)} is {version}; ZLUDA reads bitcode of clang {_NEWEST_CLANG} and older")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        # Relative names only: the IR says where it comes from.
        for path in inputs(source):
            (folder / path.name).write_bytes(path.read_bytes())
        _run([*clang, *_HIP_FLAGS, source.name, "-o", "device.ll"], folder)
        text = _ATTRIBUTE.sub("", _BOOKKEEPING.sub("", (folder / "device.ll").read_text()))
        (folder / "device.ll").write_text(text)
        _run([*clang, *_ASSEMBLE_FLAGS, "device.ll", "-o", "device.bc"], folder)
        return (folder / "device.bc").read_bytes(), text


def clang_version(clang: Sequence[str]) -> str:
    """`clang version 21.1.0` of the command."""
    found = re.search(r"clang version \d+\.\d+\.\d+", _run([*clang, "--version"], None))
    if found is None:
        raise UserError(f"{' '.join(clang)}: no clang")
    return found[0]


def _run(command: Sequence[str], folder: Path | None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}; correct {CLANG_VARIABLE}") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line] or ["clang failed"]
        raise UserError(f"clang: {errors[0].strip()}")
    return done.stdout


def regenerate(environ: Mapping[str, str]) -> str:
    """Compile every source again where `ZLUDA_RR_CLANG21` names a compiler; what was done, in a line."""
    clang = shlex.split(environ.get(CLANG_VARIABLE, ""))
    if not clang:
        return f"kernels/bitcode: left alone, {CLANG_VARIABLE} names no clang 21"
    records = {}
    for name in SOURCES:
        source = resource_dir("kernels") / name
        data, text = compile_bitcode(source, clang)
        (bitcode_folder() / f"{source.stem}.bc.xz").write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
        symbols = tuple(re.findall(r"^define hidden [^@]*@(zrr_\w+)\(", text, re.M))
        record = Record(symbols, source_digest(source), hashlib.sha256(data).hexdigest(), clang_version(clang))
        records[source.stem] = asdict(record)
    (bitcode_folder() / "manifest.json").write_text(json.dumps(records, indent=2) + "\n")
    return f"kernels/bitcode: {len(records)} files by {clang_version(clang)}"
