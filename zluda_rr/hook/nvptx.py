"""Bodies for NVIDIA's own driver: PTX `.func`s from the kernel sources, put into the module that calls them.

The sources in `kernels/` are compiled as they are; three headers of `kernels/nvptx/` take the place of those that speak
gfx12 (mma.sync for WMMA, shuffles for lane exchanges). The result is committed beside those headers, so that a rewrite
needs no compiler: `python -m zluda_rr.hook` makes it again.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from zluda_rr.errors import UserError
from zluda_rr.ptx import (
    Instruction,
    change_instructions,
    define_functions,
    linearise,
    parse,
    print_module,
    with_modifier,
)
from zluda_rr.resources import resource_dir

SOURCES = ("swin_phase.hip", "swin_enc0.hip")
_FLAGS = (
    "--target=nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", "sm_89", "-Xclang", "-target-feature",
    "-Xclang", "+ptx84", "-ffp-contract=off", "-O3", "-mllvm", "-unroll-threshold=100000", "-x", "c++", "-std=c++20",
    "-Wall", "-Werror", "-Wno-ignored-attributes",
)  # fmt: skip
# Statements without an instruction, for the gfx12 scheduler and register allocator, and a lane number made on the spot.
_GFX12_HINT = re.compile(r'\basm(?: volatile)?\("" : [^;]*\);')
_GFX12_LANE = re.compile(r'\basm volatile\("v_mbcnt_lo_u32_b32 %0, -1, 0" : "=v"\((\w+)\)\);')
_ROUNDED = ("add", "sub", "mul")
_FLOATS = ("f16x2", "f16", "f32", "f64")


def without_contraction(text: str) -> str:
    """The module with an explicit `.rn` on every f16, f32 and f64 add, sub and mul, which forbids fusing them.

    The rounding is the one they have without it. A second run changes nothing. PtxError where the text is no PTX.
    """
    return print_module(change_instructions(parse(text, filename="<module>"), _rounded))


def _rounded(instruction: Instruction) -> str | None:
    """No rounding named: ptxas may fuse it with another (shared fact: contraction changes activations)."""
    *options, kind = instruction.modifiers or ("",)
    plain = instruction.opcode in _ROUNDED and kind in _FLOATS and all(option in ("ftz", "sat") for option in options)
    return with_modifier(instruction, "rn") if plain else None


def body_folder() -> Path:
    """Where the compiled bodies lie."""
    return resource_dir("kernels") / "nvptx"


def committed_body(stem: str) -> str:
    """PTX of one kernel source as it is committed."""
    return lzma.decompress((body_folder() / f"{stem}.ptx.xz").read_bytes()).decode()


def _bodies() -> dict[str, str]:
    found = {}
    for path in sorted(body_folder().glob("*.ptx.xz")):
        text = committed_body(path.name.removesuffix(".ptx.xz"))
        found.update(dict.fromkeys(re.findall(r"^// body (zrr_\w+)$", text, re.M), text))
    return found


def has_body(symbol: str) -> bool:
    """Whether a body exists for NVIDIA's driver."""
    return symbol in _bodies()


def insert_bodies(text: str) -> str:
    """The module with every declared `zrr_` body defined in place. UserError names one that has no PTX."""
    if "zrr_" not in text:
        return text
    bodies = _bodies()
    module = parse(text, filename="<module>")
    declared = [f.name for f in module.functions if f.body is None and f.kind == "func" and f.name.startswith("zrr_")]
    for name in declared:
        if name not in bodies:
            raise UserError(f"{name}: no body for --target nvptx; there are: {', '.join(bodies) or 'none'}")
    if not declared:
        return text
    edited = define_functions(module, {name: bodies[name].rstrip("\n") for name in declared})
    for function in edited.functions:
        if function.body is not None:
            linearise(function, edited)
    return print_module(edited)


def finishing(nvidia: bool, no_contraction: bool) -> Callable[[str], str]:
    """What `rewrite` does to a module's text before it is written."""

    def finish(text: str) -> str:
        text = insert_bodies(text) if nvidia else text
        return without_contraction(text) if no_contraction else text

    return finish


def compile_body(source: Path) -> str:
    """PTX functions of one kernel source, without a module header; each is named in a `// body` line."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for path in (*source.parent.glob("*.h"), source):
            text = _GFX12_LANE.sub(r"\1 = lane_id();", _GFX12_HINT.sub(";", path.read_text()))
            (folder / path.name).write_text(text)
        for path in (source.parent / "nvptx").glob("*.h"):
            shutil.copy(path, folder / path.name)
        output = folder / "body.ptx"
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "clang",
            *_FLAGS,
            "-S",
            str(folder / source.name),
            "-o",
            str(output),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error:" in line] or ["clang failed"]
            raise UserError(f"{source}: {errors[0].strip()}")
        return _functions(output.read_text(), source.name)


def _functions(text: str, name: str) -> str:
    body = text[text.index(".address_size") :].partition("\n")[2]
    lines = [line.rstrip() for line in body.splitlines()]
    kept = [line for line in lines if line and not line.lstrip().startswith("//")]
    symbols = dict.fromkeys(re.findall(r"\.visible\s+\.func\b[^\n]*?\b(zrr_\w+)\b", body))
    head = [f"// zluda-rr: {name} compiled for nvptx64 (python -m zluda_rr.hook)"]
    return "\n".join([*head, *(f"// body {symbol}" for symbol in symbols), *kept]) + "\n"


def main() -> None:
    """Compile every source again."""
    for name in SOURCES:
        source = resource_dir("kernels") / name
        packed = lzma.compress(compile_body(source).encode(), preset=9 | lzma.PRESET_EXTREME)
        (body_folder() / f"{source.stem}.ptx.xz").write_bytes(packed)
