"""ZLUDA's offline compiler `zoc` as a function: PTX text in, gfx1201 code object out."""

import lzma
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from zluda_rr.emulate.gfx12 import CodeObjectError, load_code_object
from zluda_rr.errors import UserError
from zluda_rr.lower import CompiledKernel
from zluda_rr.resources import resource_dir
from zluda_rr.toolchain import TARGET_CPU, cache_get, cache_put, compile_hip, content_key, llvm_binding

ZOC_VARIABLE = "ZLUDA_RR_ZOC"
# A caller without the same features could not inline the body.
_ATTRIBUTES = re.compile(r' "(?:amdgpu-[\w-]+|target-features|uniform-work-group-size)"(?:="[^"]*")?')


def zoc_path(given: str | None, environ: Mapping[str, str] | None = None) -> Path:
    """The compiler: `given`, or what `ZLUDA_RR_ZOC` names when that is empty. UserError where there is no such file."""
    name = given or (os.environ if environ is None else environ).get(ZOC_VARIABLE, "")
    if not name:
        raise UserError(f"no ZLUDA compiler named: give --zoc a file or set {ZOC_VARIABLE} to ZLUDA's zoc")
    path = Path(name)
    if not path.is_file():
        raise UserError(f"{name}: no such file; build ZLUDA's `compiler` package for its zoc (docs/zluda.md)")
    return path.resolve()


def compile_with_zoc(
    zoc: Path,
    text: str,
    entry: str,
    *,
    bodies: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Compile one kernel of a PTX module with ZLUDA.

    `bodies` are HIP sources of the functions it calls, linked as bitcode: the committed one of a kernel of this
    project, else (with `defines`, or for a source from elsewhere) what this project's clang makes of it. UserError with
    the compiler's complaint.
    """
    linked = [_bitcode(body, defines or {}) for body in bodies]
    key = content_key("zoc", zoc.read_bytes(), text, *linked)
    elf, assembly = cache_get(key), cache_get(key + ".s")
    if elf is None or assembly is None:
        elf, assembly = _run_zoc(zoc, text, linked)
        cache_put(key, elf)
        cache_put(key + ".s", assembly)
    return _kernel(elf, assembly.decode(errors="replace"), entry, zoc)


def _bitcode(body: Path, defines: Mapping[str, str]) -> bytes:
    kernels = resource_dir("kernels")
    committed = kernels / "bitcode" / f"{body.stem}.bc.xz"
    if not defines and body.parent == kernels and committed.is_file():
        return lzma.decompress(committed.read_bytes())
    text = _ATTRIBUTES.sub("", compile_hip(body, defines=defines))
    return bytes(llvm_binding().parse_assembly(text).as_bitcode())


def _run_zoc(zoc: Path, text: str, linked: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Code object and assembly."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = work / "module.ptx"
        source.write_text(text)
        options: list[str] = []
        for number, data in enumerate(linked):
            path = work / f"body{number}.bc"
            path.write_bytes(data)
            options += ["--link-bitcode", str(path)]
        command = [str(zoc), "--arch", TARGET_CPU, "--output-dir", folder, *options, str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise UserError(f"{zoc}: {error.strerror}; give ZLUDA's offline compiler, zoc") from error
        output = work / "module.elf"
        if not done.returncode and not output.is_file():
            raise UserError(f"{zoc}: wrote no {output.name}; give ZLUDA's offline compiler, zoc")
        if done.returncode:
            raise UserError(f"{zoc}: {_complaint(done.stdout + done.stderr, done.returncode)}")
        return output.read_bytes(), (work / "module.asm").read_bytes()


def _complaint(output: str, code: int) -> str:
    """The first error, else the last line that says something: zoc prints its passes and files, LLVM its hints."""
    noise = ("Pass ", "Wrote to ", "'+", "Available options")
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.strip().startswith(noise)]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines[-1:] or [f"exit code {code}"])[0].removeprefix("Error: ")


def _kernel(elf: bytes, assembly: str, entry: str, zoc: Path) -> CompiledKernel:
    try:
        code = load_code_object(elf)
    except CodeObjectError as error:
        raise UserError(f"{zoc}: what it wrote is no code object: {error}") from error
    if entry not in code.kernels:
        raise UserError(f"{zoc}: compiled without the kernel {entry}; there are: {', '.join(code.kernels) or 'none'}")
    kernel = code.kernels[entry]
    return CompiledKernel(
        name=entry,
        code_object=elf,
        assembly=assembly,
        vgprs=kernel.vgprs,
        sgprs=kernel.sgprs,
        lds_bytes=kernel.lds_bytes,
        scratch_bytes=kernel.scratch_bytes,
        spills=kernel.vgpr_spills + kernel.sgpr_spills,
    )
