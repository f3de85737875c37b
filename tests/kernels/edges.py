"""The edge data of zluda_rr/runtime/edges.py for the enc0 bodies: one launch in which every block has its own image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tests.corpus import model_enc0, model_formats
from tests.kernels import enc0
from zluda_rr.contract import load_contract
from zluda_rr.runtime.edges import GAIN_LIMITS, edge_images
from zluda_rr.runtime.weights import WorkloadKind, weight_image
from zluda_rr.runtime.workload import regions_of

NAN_CODES = (0x7F, 0xFF, 0x7F, 0xFF)
PLAIN = (WorkloadKind.RANDOM, WorkloadKind.CANCELLATION, WorkloadKind.SATURATING)


@dataclass(frozen=True, slots=True)
class Suite:
    """A launch of many cases: image [B, bytes], codes [B, 96, 32] by block, and what the model makes of them."""

    name: str
    cases: tuple[str, ...]
    image: np.ndarray
    codes: np.ndarray
    extents: tuple[int, int]
    model: str
    expected: enc0.Result

    def differences(self, result: enc0.Result) -> list[str]:
        """Names of cases whose block differs. Of D22 any NaN equals any NaN: a payload is no one's promise."""
        geometry = model_enc0.Geometry(*self.extents, *enc0.SHIFT)
        inputs = model_enc0.Inputs(*self.extents, *enc0.SHIFT, self.image, np.zeros((1, 1, 4), np.float16))
        x0, y0 = model_enc0.block_origins(inputs)
        wrong = np.zeros(len(self.cases), bool)
        arena = (result.arena != self.expected.arena).any(axis=-1)
        planes = (result.planes != self.expected.planes).any(axis=(0, -1))
        d22 = (_bits(result.d22) != _bits(self.expected.d22)).reshape(geometry.grid[0] * geometry.grid[1], -1)
        for number in range(len(self.cases)):
            x, y = int(x0[number]), int(y0[number])
            rows, columns = slice(max(y, 0), y + 8), slice(max(x, 0), x + 8)
            half = slice(max(y, 0) // 2, (y + 8) // 2), slice(max(x, 0) // 2, (x + 8) // 2)
            wrong[number] = arena[rows, columns].any() or planes[half].any() or d22[number].any()
        found = [name for name, bad in zip(self.cases, wrong, strict=True) if bad]
        if not found and (d22.any() or arena.any() or planes.any()):
            return ["outside every case's patch"]
        return found


def _bits(halves: np.ndarray) -> np.ndarray:
    bits = halves.view(np.uint16)
    return np.where((bits & 0x7FFF) > 0x7C00, np.uint16(0x7FFF), bits)


def suite(name: str, images: dict[str, np.ndarray], model: str = "exact", seed: int = 3) -> Suite:
    """A launch over the given images: as many blocks as there are, rounded up to whole rows by repeating the first."""
    columns = min(12, max(2, int(len(images) ** 0.5)))
    rows = -(-len(images) // columns)
    cases = list(images)
    cases += cases[: columns * rows - len(cases)]
    extents = 8 * columns - enc0.SHIFT[0] - 2, 8 * rows - enc0.SHIFT[1] - 4
    rng = np.random.default_rng(seed)
    values = rng.uniform(-8, 8, (len(cases), 96, 32)) * 2.0 ** rng.integers(-9, 1, 32)
    codes = model_formats.requantise(values.astype(np.float16))
    for number, case in enumerate(cases):
        if case.startswith("special"):
            codes[number, rng.integers(0, 96, 4), rng.integers(0, 32, 4)] = NAN_CODES
    image = np.stack([images[case] for case in cases])
    expected = enc0.expected(image, codes, model, extents=extents)
    return Suite(name, tuple(cases), image, codes, extents, model, expected)


@cache
def edges(kind: WorkloadKind, seed: int = 1) -> dict[str, np.ndarray]:
    """The edge images of enc0 by name."""
    regions = regions_of(load_contract("enc0"))
    return {edge.name: edge.image for edge in edge_images(regions, enc0.WEIGHT_BYTES, kind, seed)}


def plain(seed: int = 3) -> dict[str, np.ndarray]:
    """Ordinary images, several of each kind, and the largest proved weights with few signs."""
    image_of = partial(weight_image, enc0.REGIONS, enc0.WEIGHT_BYTES)
    found = {f"{kind}-{s}": image_of(kind, s) for s in (seed, seed + 1) for kind in PLAIN}
    for part in ("heads", "branches"):
        found[f"bounds-{part}"] = enc0.workload_at_the_bounds(part)[0]
    for s in (seed, seed + 1):
        image = weight_image(enc0.REGIONS, enc0.WEIGHT_BYTES, WorkloadKind.RANDOM, s)
        found[f"special-{s}: NaN tokens"] = image
        found[f"special-{s}: NaN tokens, weights and vectors that are no numbers"] = _hostile(image, s)
    return found


def inside() -> dict[str, np.ndarray]:
    """The images of `bounds` that stand at a limit from inside: there the copies without clamps run."""
    names = [f"D2.gain={GAIN_LIMITS[0]:g}", f"D12.gain={GAIN_LIMITS[1]:g}", "P13.c=8", "P14.table=8"]
    return {name: edges(WorkloadKind.BOUNDS)[name] for name in names}


def _hostile(image: np.ndarray, seed: int) -> np.ndarray:
    """NaN codes in some matrices; infinities, NaN and the largest halves in some vectors and score biases."""
    rng, image = np.random.default_rng(seed), image.copy()
    for at, size in enc0.MATRICES[::5]:
        image[at + rng.integers(0, size)] = rng.choice(NAN_CODES)
    for at, size in [*enc0.COLUMNS[2::2], (8384, 12288), (23744, 12288)]:
        for bits in (0x7C00, 0xFC00, 0x7E00, 0x7BFF):
            where = at + 2 * int(rng.integers(0, size // 2))
            image[where : where + 2] = bits & 0xFF, bits >> 8
    return image
