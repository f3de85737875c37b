"""The committed golden run: reading it, and `python -m tests.device.golden RUN_DIR`, which stores a new one."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.corpus.build import read_module
from tests.corpus.compilers import nvcc_13_0

from .inputs import CASES, Case
from .layer import ENC0, LAYERS, POISON, Layer

U8 = npt.NDArray[np.uint8]
HERE = Path(__file__).parent / "golden"
SURFACE_TOLERANCE = 1e-3  # largest share of half words that may differ


def data_file(layer: Layer) -> Path:
    """The outputs."""
    return HERE / f"{layer.name}.npz"


def record_file(layer: Layer) -> Path:
    """Versions and digests."""
    return HERE / f"{layer.name}.toml"


def names(layer: Layer) -> tuple[str, ...]:
    """The outputs of a layer."""
    return (*layer.exact, *layer.surfaces)


def load(case: Case, layer: Layer = ENC0) -> dict[str, U8]:
    """Outputs of one case as the GPU left them; bytes that no block wrote are POISON."""
    with np.load(data_file(layer)) as data:
        return {name: data[f"{case.name}/{name}"] for name in names(layer)}


def record(layer: Layer = ENC0) -> dict[str, Any]:
    """Versions, digests and modules of the run."""
    return tomllib.loads(record_file(layer).read_text())


def digest(array: npt.NDArray[Any]) -> str:
    """sha256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def input_digest(case: Case, layer: Layer = ENC0) -> str:
    """sha256 of the input buffers by parameter offset, followed by the texels."""
    buffers = [make(case).tobytes() for _, make in sorted(layer.buffers.items())]
    images = [pixels.tobytes() for _, pixels in sorted(layer.texels(case).items())]
    return hashlib.sha256(b"".join(buffers + images)).hexdigest()


def differing_halves(got: U8, expected: U8) -> int:
    """Half words of a surface that differ, all NaN counting as one value."""
    a, b = (np.ascontiguousarray(v).reshape(-1).view(np.float16) for v in (got, expected))
    return int(((a.view(np.uint16) != b.view(np.uint16)) & ~(np.isnan(a) & np.isnan(b))).sum())


def check(case: Case, outputs: Mapping[str, U8], layer: Layer = ENC0) -> None:
    """Assert that `outputs` (filled with POISON before the run) are what the GPU gave."""
    expected = load(case, layer)
    for name in layer.exact:
        differ = int((outputs[name] != expected[name]).sum())
        assert differ == 0, f"{case.name}: {differ} of {expected[name].size} bytes of {name} differ from the H200"
    halves = sum(expected[name].size // 2 for name in layer.surfaces)
    differ = sum(differing_halves(outputs[name], expected[name]) for name in layer.surfaces)
    assert differ <= SURFACE_TOLERANCE * halves, f"{case.name}: {differ} of {halves} surface half words differ"


def _toml(report: dict[str, Any], data: Mapping[str, U8], layer: Layer) -> str:
    ptx = hashlib.sha256(read_module(report["cubins"][0]).encode()).hexdigest()
    lines = [
        "# A run of tests/device/run.py on a real GPU; written by `python -m tests.device.golden`.",
        f"poison = {POISON}  # what outputs held before the launch",
        f'ptx_sha256 = "{ptx}"',
        f'ptxas = "{nvcc_13_0().versions()["nvidia-cuda-nvcc"]}"',
        'ptxas_flags = ["-arch=sm_90", "-fmad", "false"]',
        f"modules_with_equal_outputs = {json.dumps(report['cubins'])}",
        "",
        "[versions]",
        *(f'{key} = "{value}"' for key, value in report["versions"].items()),
    ]
    for case in CASES:
        blocks = case.grid[0] * case.grid[1]
        lines += ["", f'[cases."{case.name}"]', f"blocks = {blocks}", f'inputs = "{input_digest(case, layer)}"']
        lines += [f'{name} = "{digest(data[f"{case.name}/{name}"])}"' for name in names(layer)]
    return "\n".join(lines) + "\n"


def store(run: Path) -> None:
    """Copy a run's outputs here, layer by layer; refuses a layer whose modules disagreed."""
    HERE.mkdir(exist_ok=True)
    for layer in (layer for layer in LAYERS.values() if (run / f"{layer.name}.json").is_file()):
        report = json.loads((run / f"{layer.name}.json").read_text())
        if report["bytes_differing_from_first"]:
            raise SystemExit(f"modules disagree: {report['bytes_differing_from_first']}")
        data_file(layer).write_bytes((run / f"{layer.name}.npz").read_bytes())
        with np.load(data_file(layer)) as data:
            record_file(layer).write_text(_toml(report, data, layer))


if __name__ == "__main__":
    store(Path(sys.argv[1]))
