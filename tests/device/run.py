"""Runs the reference kernels on a real GPU and writes their outputs (README.md: the commands).

Needs numpy and the CUDA driver only. The first cubin of a layer is the golden one; every other must give the same
bytes. Outputs go to `DIR/<layer>.npz`, the versions and the agreement of the others to `DIR/<layer>.json`. Build cubins
without contraction (`python -m tests.device.cubins DIR`), else f16 products and sums are fused (rr-details.md 45).
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .driver import Gpu
from .inputs import CASES, Case
from .layer import LAYERS, Layer

U8 = npt.NDArray[np.uint8]


def launch(gpu: Gpu, image: bytes, layer: Layer, case: Case) -> dict[str, U8]:
    """Outputs of one launch by name, in the shapes of `layer.outputs`."""
    empty = layer.empty(case)
    words = {offset: gpu.upload(make(case)) for offset, make in layer.buffers.items()}
    for offset, pixels in layer.texels(case).items():
        words[offset] = (gpu.texture if layer.textures else gpu.surface)(pixels).handle
    surfaces = {name: gpu.surface(empty[name]) for name in layer.surfaces}
    address = {name: gpu.upload(empty[name]) for name in layer.exact}
    handles = address | {name: surface.handle for name, surface in surfaces.items()}
    words |= {output.offset: handles[output.name] for output in layer.outputs}
    params = layer.parameters(case, words)
    gpu.launch(gpu.function(image, layer.entry), case.grid, (32, 1, 1), params)
    out = {name: gpu.download(address[name], empty[name].size).reshape(empty[name].shape) for name in layer.exact}
    return out | {name: gpu.read_surface(surface) for name, surface in surfaces.items()}


def driver_version() -> str:
    """Version of the kernel driver, from nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def run_layer(gpu: Gpu, layer: Layer, cubins: Mapping[str, bytes], folder: Path) -> None:
    """All cases of a layer with every cubin."""
    golden: dict[str, U8] = {}
    differing: dict[str, dict[str, int]] = {}
    for name, image in cubins.items():
        for case in CASES:
            for key, value in launch(gpu, image, layer, case).items():
                first = golden.setdefault(f"{case.name}/{key}", value)
                bytes_off = int((first != value).sum())
                if bytes_off:
                    differing.setdefault(name, {})[f"{case.name}/{key}"] = bytes_off
    np.savez_compressed(folder / f"{layer.name}.npz", **golden)  # type: ignore[arg-type]
    versions = gpu.describe() | {
        "driver": driver_version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    report = {"versions": versions, "cubins": list(cubins), "bytes_differing_from_first": differing}
    (folder / f"{layer.name}.json").write_text(json.dumps(report, indent=1))
    print(layer.name, json.dumps(report, indent=1))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cubins", nargs="+", help="module=path; the layer is the module's name up to a dash")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    cubins = {name: Path(path).read_bytes() for name, path in (c.split("=", 1) for c in arguments.cubins)}
    arguments.out.mkdir(parents=True, exist_ok=True)
    gpu = Gpu()
    for layer in LAYERS.values():
        own = {name: image for name, image in cubins.items() if name.split("-")[0] == layer.name}
        if own:
            run_layer(gpu, layer, own, arguments.out)


if __name__ == "__main__":
    main()
