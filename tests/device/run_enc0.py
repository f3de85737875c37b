"""Runs enc0 on a CUDA device: `python -m tests.device.run_enc0 --cubin enc0=PATH [...] --out DIR`.

Needs numpy and the driver alone. Every case is run with every cubin; the outputs of the first are written to
`DIR/golden.npz`, the versions and the agreement of the others to `DIR/run.json`. Build cubins without contraction
(`python -m tests.device.cubins DIR`), else f16 products and sums are fused (rr-details.md 45).
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .driver import Gpu
from .inputs import CASES, Case, texels, weight_image

U8 = npt.NDArray[np.uint8]
ENTRY = "cuda_dldn_engine_swin_enc0_kernel"
PARAMETER_BYTES = 1032
POISON = 0xCD  # what outputs hold before the launch
SURFACES = {"blend": 112, "gate": 120, "half": 128}  # parameter offsets (rr-module.md)


def launch(gpu: Gpu, image: bytes, case: Case) -> dict[str, U8]:
    """Outputs by name: arena u8 [ey, ex, 32], merged u8 [2, ey/2, ex/2, 32], surfaces u8 [.., .., 8]."""
    shapes = {"arena": (case.ey, case.ex, 32), "merged": (2, case.ey // 2, case.ex // 2, 32)}
    address = {name: gpu.upload(np.full(shape, POISON, np.uint8)) for name, shape in shapes.items()}
    surface = {}
    for name in SURFACES:
        height, width = (case.ey // 2, case.ex // 2) if name == "half" else (case.ey, case.ex)
        surface[name] = gpu.surface(np.full((height, width, 8), POISON, np.uint8))
    source = gpu.surface(texels(case).view(np.uint8).reshape(case.ey, case.ex, 8))
    words = {40: gpu.upload(weight_image(case)), 48: address["arena"], 56: address["merged"], 304: source.handle}
    words |= {offset: surface[name].handle for name, offset in SURFACES.items()}
    params = np.zeros(PARAMETER_BYTES, np.uint8)
    params[0:8] = np.array([case.ex, case.ey], np.uint32).view(np.uint8)
    params[80:84] = np.array([case.shift_x, case.shift_y], np.uint16).view(np.uint8)
    for offset, value in words.items():
        params[offset : offset + 8] = np.array([value], np.uint64).view(np.uint8)
    gpu.launch(gpu.function(image, ENTRY), case.grid, (32, 1, 1), params.tobytes())
    out = {name: gpu.download(address[name], int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()}
    return out | {name: gpu.read_surface(s) for name, s in surface.items()}


def driver_version() -> str:
    """Version of the kernel driver, from nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cubin", action="append", required=True, help="name=path; the first is the golden one")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    cubins = {name: Path(path).read_bytes() for name, path in (c.split("=", 1) for c in arguments.cubin)}
    gpu = Gpu()
    golden: dict[str, U8] = {}
    differing: dict[str, dict[str, int]] = {}
    for name, image in cubins.items():
        for case in CASES:
            for key, value in launch(gpu, image, case).items():
                first = golden.setdefault(f"{case.name}/{key}", value)
                bytes_off = int((first != value).sum())
                if bytes_off:
                    differing.setdefault(name, {})[f"{case.name}/{key}"] = bytes_off
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.out / "golden.npz", **golden)  # type: ignore[arg-type]
    versions = gpu.describe() | {
        "driver": driver_version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    report = {"versions": versions, "cubins": list(cubins), "bytes_differing_from_first": differing}
    (arguments.out / "run.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
