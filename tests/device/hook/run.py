"""enc0 with and without the hook on a CUDA device, in one run: `python -m tests.device.hook.run [--work DIR]`.

A plain C program (launch_enc0.c) loads the module through the real driver and launches it over 200x120 tokens. Both
modules forbid contraction, so that the driver's own compiler gives unfused bytes. Exit status 0: outputs equal byte for
byte, the log says that enc0 was replaced, and a module with a broken body was noticed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.device.inputs import Case, texels, weight_image
from zluda_rr.hook import Library, build, without_contraction
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.transform import Wanted, transform_text
from zluda_rr.image import read_ptx, shipped_module

CASES = (Case("plain", 200, 120, 2, 4), Case("wide", 200, 120, 6, 2), Case("hostile", 200, 120, 4, 6))
ROOT = Path(__file__).resolve().parents[3]


def compile_program(folder: Path) -> Path:
    """launch_enc0 with the system's compiler."""
    program = folder / "launch_enc0"
    source = Path(__file__).with_name("launch_enc0.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), "-ldl"], check=True)
    return program


def rewriter(folder: Path) -> Path:
    """A `zluda-rr` program for this checkout, which need not be installed."""
    path = folder / "zluda-rr"
    search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    call = "from zluda_rr.cli import main; main()"
    path.write_text(f"#!/bin/sh\nexport PYTHONPATH='{search}'\nexec '{sys.executable}' -c '{call}' \"$@\"\n")
    path.chmod(0o755)
    return path


def broken(text: str) -> str:
    """The rewritten module with two A registers of the body's first mma exchanged."""
    start = text.rindex(".visible .func")
    swapped, count = re.subn(r"(mma\.sync\S+ \{[^}]*\}, )\{(%r\d+), (%r\d+),", r"\1{\3, \2,", text[start:], count=1)
    assert count == 1
    return text[:start] + swapped


def launch(program: Path, module: Path, case: Case, folder: Path, env: Mapping[str, str]) -> tuple[bytes, str, str]:
    """Outputs, what the program prints and what the hook logs."""
    out = folder / "out"
    out.unlink(missing_ok=True)
    files = [str(module), str(folder / f"{case.kind}.weights"), str(folder / f"{case.kind}.texels")]
    numbers = [str(v) for v in (case.ex, case.ey, case.shift_x, case.shift_y)]
    command = [str(program), *files, *numbers, str(out), "200"]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"launch_enc0: status {done.returncode}: {done.stderr}")
    return out.read_bytes(), done.stdout.strip(), done.stderr.strip()


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "zluda-rr-hook-run")
    folder = parser.parse_args().work
    folder.mkdir(parents=True, exist_ok=True)
    program, library = compile_program(folder), folder / "libzluda_rr.so"
    build(Library.PRELOAD, library, ["cc"], ["-s"])
    module = folder / "enc0.ptx"
    module.write_text(without_contraction(read_ptx(shipped_module("enc0"))))
    for case in CASES:
        (folder / f"{case.kind}.weights").write_bytes(weight_image(case).tobytes())
        (folder / f"{case.kind}.texels").write_bytes(texels(case).tobytes())
    plain_env = {
        "ZLUDA_RR_TARGET": "nvptx",
        "ZLUDA_RR_CACHE_DIR": str(folder / "cache"),
        "CUDA_CACHE_PATH": str(folder / "cubins"),
    }
    hook_env = {**plain_env, "LD_PRELOAD": str(library), "ZLUDA_RR_MISS": "sync", "ZLUDA_RR_TIMEOUT": "120"}
    hook_env["ZLUDA_RR_TOOL"] = str(rewriter(folder))
    good = True
    for number, case in enumerate(CASES):
        plain, plain_times, _ = launch(program, module, case, folder, plain_env)
        hooked, hooked_times, log = launch(program, module, case, folder, hook_env)
        same, replaced = plain == hooked, "replaced enc0" in log
        good = good and same and replaced
        print(f"{case.name}: {len(plain)} output bytes, {'equal' if same else 'DIFFERENT'}")
        print(f"  without the hook: {plain_times}")
        print(f"  with the hook ({'first load, rewritten now' if number == 0 else 'from the cache'}): {hooked_times}")
        print(f"  log: {re.sub(r'zluda-rr.[0-9]+.', 'zluda-rr', log)}")
    _, _, off = launch(program, module, CASES[0], folder, {**hook_env, "ZLUDA_RR": "0"})
    print(f"ZLUDA_RR=0: log is {off or 'empty'}")
    entry = transform_text(module.read_text(), Wanted.of(read_settings({"ZLUDA_RR_TARGET": "nvptx"})))
    sabotaged = folder / "broken.ptx"
    sabotaged.write_text(broken(entry.text))
    differing = 0
    for case in CASES[:1]:
        plain, _, _ = launch(program, module, case, folder, plain_env)
        other, _, _ = launch(program, sabotaged, case, folder, plain_env)
        differing = sum(a != b for a, b in zip(plain, other, strict=True))
    print(f"body with two A registers exchanged: {differing} bytes differ, as they must")
    good = good and differing > 0 and not off
    print("PASS" if good else "FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
