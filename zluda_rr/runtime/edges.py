"""Weight images at the edges of a body's conditions: where taking the wrong side of one must show.

A body may skip clamps where the weights prove that nothing overflows (kernels/zrr_direct.h, range proofs). Each proof
is a condition on data, and ordinary data never stands at its edge. The images here do, on both sides, one condition at
a time: everything else stays well inside. The constants are those of the bodies; tests/runtime/test_edges.py compares
them with the kernel sources.

Regions are taken in segments: what stands behind the same number of gains. In a segment under test the products are as
large as its weights allow, so that a value which may leave its range does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zluda_rr.runtime.weights import Region, RegionKind, WorkloadKind, e4m3_normal, weight_image

U8 = npt.NDArray[np.uint8]

GAIN_LIMITS = (32.0, 16.0)
"""Largest |gain| of a proof."""
COLUMNS_LIMIT = 1024.0
"""Largest sum of squares of the columns that a lane holds: half of a 32-column vector, in groups of four."""
WEIGHT_LIMIT = 0x40
"""e4m3 code of 2, the least |weight| outside a proof."""
NORM_EPSILON = 2.0**-13
"""Added to a sum of squares: it decides where that is as small."""

LARGEST_WEIGHT, LARGEST_PROVED = 0x7E, WEIGHT_LIMIT - 1  # 448 and 1.875
ROW_BYTES = 32  # weights that a lane holds of a 32 x 32 block stand together
GAIN_FACTORS = (1.0, 1.125, 1.375, 1.5, 2.0, 4.0, 8.0)
COLUMN_VALUES = (31.0, 33.0, 448.0, 600.0, -600.0, 65504.0, np.inf, -np.inf, np.nan)
SCORE_LIMIT = 32.375
"""|score| from which on the softmax's exponent stands still (zrr_attention.h)."""
SMALL_SCALES = (2.0**-7, 2.0**-8, 2.0**-9, 2.0**-11)


@dataclass(frozen=True, slots=True)
class EdgeImage:
    """A whole weight image and what is at its edge in it."""

    name: str
    image: U8


def edge_images(
    regions: Sequence[Region], nbytes: int, kind: WorkloadKind, seed: int, *, every: int = 1
) -> list[EdgeImage]:
    """All images of a kind at the edges: `small`, `bounds` or `single`. ValueError for another kind.

    Of the single columns, which are many, only `every`-th is taken.
    """
    build = Builder(tuple(regions), nbytes, seed)
    match kind:
        case WorkloadKind.SMALL:
            return [build.small(scale) for scale in SMALL_SCALES]
        case WorkloadKind.BOUNDS:
            return [*build.gains(), *build.columns(), *build.scores()]
        case WorkloadKind.SINGLE:
            return [*build.single_weights(), *list(build.single_columns())[::every]]
        case _:
            raise ValueError(f"{kind} has one image, not several at an edge")


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the images of one layer from its regions."""

    regions: tuple[Region, ...]
    nbytes: int
    seed: int

    def small(self, scale: float) -> EdgeImage:
        """Accumulators and sums of squares about as small as the norm's epsilon, gains that make them visible."""
        rng = self._rng("small", scale)
        image = weight_image(self.regions, self.nbytes, WorkloadKind.RANDOM, self.seed)
        for region in self.regions:
            if region.kind is RegionKind.MATRIX:
                _put(image, region, e4m3_normal(rng, (region.nbytes,), 4 * scale))
            elif region.kind in (RegionKind.COLUMN, RegionKind.TABLE):
                _put_halves(image, region, rng.normal(0.0, scale, region.nbytes // 2))
        return EdgeImage(f"small-{scale:g}", image)

    def gains(self) -> Iterator[EdgeImage]:
        """Each gain at multiples of each limit, just beyond it, and with values that are no numbers."""
        values = sorted({f * limit for limit in GAIN_LIMITS for f in GAIN_FACTORS})
        beyond = [float(np.nextafter(np.float16(limit), np.float16(np.inf))) for limit in GAIN_LIMITS]
        for segment, region in self._of_kind(RegionKind.GAIN):
            for value in (*values, *beyond, -2 * GAIN_LIMITS[0], 65504.0, np.inf, np.nan):
                image = self._strong(segment, f"gain{value}", signs=0.1 if value in GAIN_LIMITS else 0.0)
                _put_halves(image, region, np.full(region.nbytes // 2, value))
                yield EdgeImage(f"{region.name}={value:g}", image)

    def columns(self) -> Iterator[EdgeImage]:
        """Vectors whose squares sum to the limit and just beyond; then one large column among zeros."""
        level = float(np.sqrt(COLUMNS_LIMIT / 16))
        just = float(np.nextafter(np.float16(level), np.float16(np.inf)))
        for segment, region in self._first_columns():
            count = region.nbytes // 2
            vectors = {f"{level:g}": np.full(count, level), f"{just:g}": np.full(count, just)}
            for number, value in enumerate(COLUMN_VALUES):
                vectors[f"one of {value:g}"] = np.where(np.arange(count) == (5 * number) % count, value, 0.0)
            for what, vector in vectors.items():
                image = self._strong(segment, region.name + what)
                _put_halves(image, region, vector)
                yield EdgeImage(f"{region.name}={what}", image)
        for segment, region in self._of_kind(RegionKind.TABLE):
            before = [r for s, r in self._of_kind(RegionKind.TABLE) if s < segment]
            if before:  # a residual that is as large as f16 allows before a table within its limit overflows it
                image = self._strong(segment, "residual")
                _put_halves(image, before[-1], np.where(np.arange(before[-1].nbytes // 2) == 3, 65504.0, 0.0))
                _put_halves(image, region, np.where(np.arange(region.nbytes // 2) == 3, 31.0, 0.0))
                yield EdgeImage(f"{before[-1].name} at f16's end", image)

    def scores(self) -> Iterator[EdgeImage]:
        """All scores of a query about the place where the exponent is clamped, at either end, and far beyond it."""
        for sign in (-1.0, 1.0):
            for low, high in ((0.4, 1.1), (0.95, 1.05), (1.0, 4.0)):
                rng = self._rng("scores", sign, low)
                image = weight_image(self.regions, self.nbytes, WorkloadKind.RANDOM, self.seed)
                for _, region in self._of_kind(RegionKind.MATRIX):
                    _put(image, region, e4m3_normal(rng, (region.nbytes,), 0.05))
                for _, region in self._of_kind(RegionKind.SCORE_BIAS):
                    _put_halves(image, region, sign * SCORE_LIMIT * rng.uniform(low, high, region.nbytes // 2))
                yield EdgeImage(f"scores {sign * low:g} to {sign * high:g} of the limit", image)

    def single_weights(self) -> Iterator[EdgeImage]:
        """One weight out of range per block: for each byte of a lane's weights, in all matrices; then at the limit
        itself, in every other matrix only."""
        for position in range(ROW_BYTES):
            yield self._outliers(f"weight {position} of 32", [position], LARGEST_WEIGHT, (0, 1))
        for parity in (0, 1):
            yield self._outliers(f"weights of matrices {parity} mod 2", range(ROW_BYTES), LARGEST_WEIGHT, (parity,))
            yield self._outliers(f"weights of 2, matrices {parity} mod 2", range(ROW_BYTES), WEIGHT_LIMIT, (parity,))

    def single_columns(self) -> Iterator[EdgeImage]:
        """One column out of range and the others as good as nothing: of a gain, then of each first vector of seeds and
        table (there f16's largest value, on a residual that it carries beyond the end)."""
        for segment, region in [*self._of_kind(RegionKind.GAIN), *self._first_columns()]:
            value, rest = {RegionKind.GAIN: (3000.0, 2.0**-5), RegionKind.COLUMN: (600.0, 0.0)}.get(
                region.kind, (65504.0, 0.0)
            )
            before = [r for s, r in self._of_kind(RegionKind.TABLE) if s < segment and region.kind is RegionKind.TABLE]
            for column in range(region.nbytes // 2):
                image = self._strong(segment, f"{region.name}{column}")
                _put_halves(image, region, np.full(region.nbytes // 2, rest))
                _put_half(image, region, column, value)
                if before:
                    _put_half(image, before[-1], column, 40.0)
                yield EdgeImage(f"{region.name}[{column}]={value:g}", image)

    def _outliers(self, name: str, positions: Iterable[int], code: int, parities: tuple[int, ...]) -> EdgeImage:
        rng = self._rng(name)
        image = weight_image(self.regions, self.nbytes, WorkloadKind.RANDOM, self.seed)
        matrices = [region for _, region in self._of_kind(RegionKind.MATRIX)]
        for number, region in enumerate(matrices):
            if number % 2 not in parities:
                continue
            for position in positions:
                rows = rng.choice(region.nbytes // ROW_BYTES, 4, replace=False)
                signs = np.where(rng.random(4) < 0.5, 0x80, 0)
                image[region.offset + ROW_BYTES * rows + position] = (code | signs).astype(np.uint8)
        return EdgeImage(name, image)

    def _strong(self, segment: int, what: str, signs: float = 0.0) -> U8:
        """The largest weights within the proof in one segment, small ones elsewhere; tokens with equal columns."""
        rng = self._rng(what)
        image = weight_image(self.regions, self.nbytes, WorkloadKind.RANDOM, self.seed)
        for at, region in self._segments():
            count = region.nbytes // 2
            if region.kind is RegionKind.MATRIX and at == segment:
                negative = rng.random(region.nbytes) < signs
                _put(image, region, np.where(negative, 0x80 | LARGEST_PROVED, LARGEST_PROVED).astype(np.uint8))
            elif region.kind is RegionKind.MATRIX:
                _put(image, region, e4m3_normal(rng, (region.nbytes,), 0.01))
            elif region.kind is RegionKind.COLUMN and region.bounded:
                _put_halves(image, region, np.full(count, 2.0))
            elif region.kind in (RegionKind.COLUMN, RegionKind.TABLE):
                _put_halves(image, region, rng.normal(0.0, 0.1, count))
            elif region.kind is RegionKind.GAIN:
                _put_halves(image, region, rng.uniform(8.0, 14.0, count))
        return image

    def _segments(self) -> Iterator[tuple[int, Region]]:
        """Regions with the number of gains up to them, in the order of their offsets."""
        gains = 0
        for region in sorted(self.regions, key=lambda r: r.offset):
            gains += region.kind is RegionKind.GAIN
            yield gains, region

    def _of_kind(self, kind: RegionKind) -> list[tuple[int, Region]]:
        return [(segment, region) for segment, region in self._segments() if region.kind is kind]

    def _first_columns(self) -> list[tuple[int, Region]]:
        """The first vector of seeds and the first table of the last segment: the others run the same code."""
        last = max((segment for segment, _ in self._segments()), default=0)
        chosen = []
        for kind in (RegionKind.COLUMN, RegionKind.TABLE):
            chosen += [(s, r) for s, r in self._of_kind(kind) if s == last and not r.bounded][:1]
        return chosen

    def _rng(self, *what: object) -> np.random.Generator:
        return np.random.default_rng([self.seed, *repr(what).encode()])


def _put(image: U8, region: Region, codes: npt.NDArray[np.uint8]) -> None:
    image[region.offset : region.offset + region.nbytes] = codes


def _put_halves(image: U8, region: Region, values: npt.NDArray[np.float64]) -> None:
    with np.errstate(over="ignore"):
        _put(image, region, values.astype(np.float16).view(np.uint8))


def _put_half(image: U8, region: Region, column: int, value: float) -> None:
    at = region.offset + 2 * column
    image[at : at + 2] = np.array([value], np.float16).view(np.uint8)
