"""Finds and drives the compilers: clang and lld (`ziglang`), LLVM (`llvmlite`), nvcc and ptxas.

Everything comes from the Python package index. A missing tool is a `ToolError` that names the extra to
install. What costs time is cached under ``$ZLUDA_RR_CACHE_DIR`` (default ``$XDG_CACHE_HOME/zluda-rr``) by a
hash over tool versions, flags and every input byte; files appear there by atomic rename only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zluda_rr.atomic import replace_file
from zluda_rr.errors import UserError
from zluda_rr.resources import resource_dir

TARGET_TRIPLE = "amdgcn-amd-amdhsa"
TARGET_CPU = "gfx1201"

# Raised when the commands below change in a way that changes their output.
_CACHE_FORMAT = "3"
_DIGEST_BYTES = 32  # SHA-256 of the data, in front of it in every cache entry

# -ffp-contract=off: every f16 and f32 step is rounded where the PTX rounds it.
# -fgpu-rdc: keeps device functions that no kernel of the file calls, so that bodies can be linked later.
# -fuse-cuid=none: no hash of the file's path in the IR, so equal sources give equal IR.
_HIP_FLAGS = (
    "-x", "hip", "--cuda-device-only", f"--offload-arch={TARGET_CPU}", "-nogpuinc", "-nogpulib",
    "-std=c++20", "-O3", "-ffp-contract=off", "-fgpu-rdc", "-fuse-cuid=none", "-Wall", "-Werror",
)  # fmt: skip

# Old enough for the container that games run in (Steam Linux Runtime).
GLIBC = "2.17"

# The unit's identifier, and the lists that keep functions alive which the link is meant to inline and drop.
_BOOKKEEPING = re.compile(r"^@(?:__hip_cuid_\w*|llvm\.(?:compiler\.)?used) = .*\n", re.MULTILINE)


class ToolError(UserError):
    """A compiler that is missing, or that rejected its input; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What the code object's metadata says about one kernel. Sizes in bytes, registers per lane / wave."""

    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A linked code object (ELF, version 6) and the assembly text it was made from."""

    code_object: bytes
    assembly: str

    def resources(self, kernel: str) -> KernelResources:
        """Resources of `kernel` as the assembly's ``.amdgpu_metadata`` states them."""
        return kernel_resources(self.assembly, kernel)


# --- cache -------------------------------------------------------------------------------------------------


def user_folder(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """An XDG folder, absolute: a relative one counts from here; without an absolute home, it is the account's."""
    if base := environ.get(variable):
        return Path(base).absolute()
    home = environ.get("HOME") or ""
    if not home.startswith("/"):
        with contextlib.suppress(KeyError):
            home = pwd.getpwuid(os.geteuid()).pw_dir
    return Path(home) / fallback


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Where results are kept: ZLUDA_RR_CACHE_DIR, else zluda-rr under $XDG_CACHE_HOME or ~/.cache."""
    env = os.environ if environ is None else environ
    if env.get("ZLUDA_RR_CACHE_DIR"):
        return Path(env["ZLUDA_RR_CACHE_DIR"])
    return user_folder(env, "XDG_CACHE_HOME", ".cache") / "zluda-rr"


def content_key(*parts: str | bytes) -> str:
    """Hash of `parts` (length-prefixed, so that different lists never collide) and of the tools' versions."""
    digest = hashlib.sha256()
    for part in (_CACHE_FORMAT, _version("ziglang"), _version("llvmlite"), *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def cache_get(key: str) -> bytes | None:
    """The bytes stored under `key`, or None. An entry that cannot be read or is damaged is a miss."""
    try:
        entry = (cache_dir() / key[:2] / key).read_bytes()
    except OSError:
        return None
    digest, data = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def cache_put(key: str, data: bytes) -> None:
    """Store `data` under `key` by atomic rename; a cache that cannot be written is left alone."""
    folder = cache_dir() / key[:2]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / key, hashlib.sha256(data).digest() + data)
    except OSError:
        return


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


# --- clang and lld -----------------------------------------------------------------------------------------


def require_compilers() -> None:
    """ToolError, before any work is done, where the extra `build` is not installed."""
    for package in ("ziglang", "llvmlite"):
        _require(package, package)


def _require(package: str, tool: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ToolError(f"{tool} is missing; install it with: pip install 'zluda-rr[build]'")


def _zig(tool: str) -> list[str]:
    _require("ziglang", tool)
    return [sys.executable, "-m", "ziglang", tool]


def c_compiler(what: str) -> list[str]:
    """The command of a C compiler for this machine: `ziglang`'s, else the system's. ToolError that names `what`."""
    if importlib.util.find_spec("ziglang") is not None:
        return [*_zig("cc"), "-target", f"{platform.machine()}-linux-gnu.{GLIBC}"]
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise ToolError(f"no C compiler for {what}; install one with: pip install 'zluda-rr[build]'")


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise ToolError(f"{what}: {lines[0].strip() if lines else f'exit status {done.returncode}'}")


def compile_hip(
    source: Path,
    *,
    includes: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> str:
    """LLVM IR text of the device side of a HIP file for gfx1201.

    `includes` are searched after the file's own folder; every ``.h`` and ``.hip`` file in them counts as an
    input for the cache. Raises ToolError with clang's first error.
    """
    if not source.is_file():
        raise ToolError(f"{source}: no such HIP source")
    folders = [source.parent, *includes]
    options = [*_HIP_FLAGS, *_define_flags(defines), *flags]
    # Paths stay out of the key, so that a cache serves every checkout.
    key = content_key("hip", *options, source.read_bytes(), *_headers(folders))
    cached = cache_get(key)
    if cached is None:
        with tempfile.TemporaryDirectory() as work:
            output = Path(work) / "device.ll"
            search = [f"-I{folder}" for folder in folders]
            files = ["-S", "-emit-llvm", str(source), "-o", str(output)]
            _run([*_zig("clang"), *options, *search, *files], f"clang: {source.name}")
            cached = _BOOKKEEPING.sub("", output.read_text()).encode()
        cache_put(key, cached)
    return cached.decode()


def compile_hip_text(text: str, **options: Any) -> str:
    """`compile_hip` of source text; the ``kernels`` folder is on the include path."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "source.hip"
        source.write_text(text)
        includes = [*options.pop("includes", ()), resource_dir("kernels")]
        return compile_hip(source, includes=includes, **options)


def _define_flags(defines: Mapping[str, str] | None) -> list[str]:
    return [f"-D{name}={value}" if value else f"-D{name}" for name, value in sorted((defines or {}).items())]


def _headers(folders: Iterable[Path]) -> list[bytes]:
    names = (path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in {".h", ".hip"})
    return [part for path in names for part in (path.name.encode(), path.read_bytes())]


def assemble(assembly: str) -> bytes:
    """Relocatable object of gfx1201 assembly text. Raises ToolError with the assembler's first error."""
    with tempfile.TemporaryDirectory() as work:
        source, output = Path(work) / "kernel.s", Path(work) / "kernel.o"
        source.write_text(assembly)
        target = ["-target", TARGET_TRIPLE, f"-mcpu={TARGET_CPU}"]
        _run([*_zig("clang"), "-c", "-x", "assembler", *target, str(source), "-o", str(output)], "assembler")
        return output.read_bytes()


def link_code_object(*objects: bytes) -> bytes:
    """Code object (shared ELF that the HSA loader takes) of relocatable objects."""
    with tempfile.TemporaryDirectory() as work:
        paths = [Path(work) / f"{index}.o" for index in range(len(objects))]
        for path, data in zip(paths, objects, strict=True):
            path.write_bytes(data)
        output = Path(work) / "linked.co"
        _run([*_zig("ld.lld"), "-shared", *map(str, paths), "-o", str(output)], "lld")
        return output.read_bytes()


# --- LLVM --------------------------------------------------------------------------------------------------


def llvm_binding() -> Any:
    """`llvmlite.binding` with the AMDGPU target ready."""
    _require("llvmlite", "llvmlite")
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def compile_ir(modules: Sequence[str], *, level: int = 3) -> Compiled:
    """Link LLVM IR modules, optimise (new pass manager, O`level`), emit gfx1201 assembly, link a code object.

    Every defined function that is not a kernel is inlined unless marked otherwise, and leaves nothing behind.
    Raises ToolError when LLVM rejects a module or a called function is defined in none of them.
    """
    assembly = compile_ir_assembly(modules, level=level)
    object_key = content_key("object", assembly)
    code_object = cache_get(object_key)
    if code_object is None:
        code_object = link_code_object(assemble(assembly))
        cache_put(object_key, code_object)
    return Compiled(code_object, assembly)


def compile_ir_assembly(modules: Sequence[str], *, level: int = 3) -> str:
    """The assembly text of `compile_ir`."""
    key = content_key("ir", str(level), *modules)
    cached = cache_get(key)
    if cached is not None:
        return cached.decode()
    assembly = _optimised_assembly(modules, level)
    cache_put(key, assembly.encode())
    return assembly


def _optimised_assembly(modules: Sequence[str], level: int) -> str:
    llvm = llvm_binding()
    target = llvm.Target.from_triple(TARGET_TRIPLE)
    machine = target.create_target_machine(cpu=TARGET_CPU, opt=level, reloc="pic")
    try:
        parsed = [llvm.parse_assembly(text) for text in modules]
        linked = parsed[0]
        for other in parsed[1:]:
            linked.link_in(other)
        linked.verify()
    except RuntimeError as error:
        raise ToolError(f"LLVM: {str(error).strip().splitlines()[0]}") from error
    _inline_everything(linked)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(linked, builder)
    return str(machine.emit_assembly(linked))


def _inline_everything(module: Any) -> None:
    for function in module.functions:
        if function.is_declaration:
            if not function.name.startswith("llvm."):
                raise ToolError(f"function {function.name} is called but no linked file defines it")
        elif "amdgpu_kernel" not in str(function).split("{", 1)[0]:
            function.linkage = "internal"
            if not any(b"noinline" in attributes for attributes in function.attributes):
                function.add_function_attribute("alwaysinline")


def compile_hip_kernel(source: Path | str, **options: Any) -> Compiled:
    """Compile HIP text (or a file) with ``__global__`` kernels to a code object; for tests of device code."""
    ir = compile_hip(source, **options) if isinstance(source, Path) else compile_hip_text(source, **options)
    return compile_ir([ir])


def kernel_resources(assembly: str, kernel: str) -> KernelResources:
    """Resources of `kernel` from the ``amdhsa.kernels`` list in `assembly`; KeyError when it is not there."""
    metadata = assembly[assembly.index("amdhsa.kernels:") :]
    # One list item per kernel: "  - .args:" starts it, the keys are sorted and ".name" is one of them.
    for item in re.split(r"\n  - (?=\.)", metadata)[1:]:
        fields = dict(re.findall(r"^\s{0,4}(\.\w+):\s+(\S+)$", item, re.MULTILINE))
        if fields.get(".name", "").strip("'\"") == kernel:  # a name with `$` is quoted
            return KernelResources(
                vgprs=int(fields[".vgpr_count"]),
                sgprs=int(fields[".sgpr_count"]),
                lds_bytes=int(fields[".group_segment_fixed_size"]),
                scratch_bytes=int(fields[".private_segment_fixed_size"]),
                vgpr_spills=int(fields[".vgpr_spill_count"]),
                sgpr_spills=int(fields[".sgpr_spill_count"]),
            )
    raise KeyError(kernel)


# --- NVIDIA ------------------------------------------------------------------------------------------------


def nvcc() -> Path:
    """nvcc of the installed `nvidia-cuda-nvcc` wheel, else the one on PATH.

    It preprocesses with a host compiler: pass one with ``-ccbin`` where the system has none.
    """
    return _cuda_tool("nvcc")


def ptxas() -> Path:
    """ptxas of the installed `nvidia-cuda-nvcc` wheel, else the one on PATH."""
    return _cuda_tool("ptxas")


def _cuda_tool(name: str) -> Path:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for candidate in sorted(Path(root).glob(f"*/bin/{name}"), reverse=True):
            return candidate
    found = shutil.which(name)
    if found is None:
        raise ToolError(f"{name} is missing; install it with: pip install 'zluda-rr[corpus]'")
    return Path(found)
