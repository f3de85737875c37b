"""The second source of enc0 on a CUDA device, against the first: `python -m tests.device.hook.second [--work DIR]`.

Every variant that the device takes is launched over three sets of data; its bytes have to be the first source's, and
with the hook in front, which has to replace the layer, its own. Exit status 0: all of them were.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.device.hook.run import CASES, compile_program, launch, rewriter
from tests.device.inputs import texels, weight_image
from zluda_rr.hook import Library, build, without_contraction
from zluda_rr.image import read_ptx, shipped_module

VARIANTS = Path(__file__).resolve().parents[2] / "corpus" / "second" / "ptx"


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "zluda-rr-second-run")
    folder = parser.parse_args().work
    folder.mkdir(parents=True, exist_ok=True)
    program, library = compile_program(folder), folder / "libzluda_rr.so"
    build(Library.PRELOAD, library, ["cc"], ["-s"])
    for case in CASES:
        (folder / f"{case.kind}.weights").write_bytes(weight_image(case).tobytes())
        (folder / f"{case.kind}.texels").write_bytes(texels(case).tobytes())
    off = {"ZLUDA_RR": "0"}
    on = {"LD_PRELOAD": str(library), "ZLUDA_RR_TARGET": "nvptx", "ZLUDA_RR_MISS": "sync", "ZLUDA_RR_TIMEOUT": "120"}
    on |= {"ZLUDA_RR_CACHE_DIR": str(folder / "cache"), "ZLUDA_RR_TOOL": str(rewriter(folder))}
    first = folder / "first.ptx"
    first.write_text(without_contraction(read_ptx(shipped_module("enc0"))))
    expected = {case.kind: launch(program, first, case, folder, off)[0] for case in CASES}
    good = True
    for path in sorted([*VARIANTS.glob("*-sm89*"), *VARIANTS.glob("*-sm90*")]):
        module = folder / "second.ptx"
        module.write_text(without_contraction(read_ptx(path)))
        try:
            outputs = {case.kind: launch(program, module, case, folder, off)[0] for case in CASES}
            hooked, _, log = launch(program, module, CASES[0], folder, on)
        except SystemExit as problem:  # a PTX version newer than the driver's
            print(f"{path.name}: not run: {problem}".strip())
            continue
        differing = [sum(a != b for a, b in zip(outputs[k], expected[k], strict=True)) for k in expected]
        same, replaced = hooked == outputs[CASES[0].kind], "replaced enc0" in log
        good = good and not any(differing) and same and replaced
        print(f"{path.name}: {differing} bytes differ; hook: {'equal' if same and replaced else log}", flush=True)
    print("PASS" if good else "FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
