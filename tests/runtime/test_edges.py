"""Images at the edges: the constants are the bodies' own, and the images are what their names say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zluda_rr.contract import load_contract
from zluda_rr.numerics.layout import weight_offset
from zluda_rr.resources import resource_dir
from zluda_rr.runtime import edges
from zluda_rr.runtime.edges import edge_images
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import EDGE_SHAPE, Shape, recipes, regions_of

CONTRACT = load_contract("enc0")
NBYTES = 54_560
KINDS = [kind for kind in WorkloadKind if kind.at_an_edge]


def images(kind: WorkloadKind) -> dict[str, np.ndarray]:
    return {edge.name: edge.image for edge in edge_images(regions_of(CONTRACT), NBYTES, kind, 1)}


def kernel(name: str) -> str:
    return (resource_dir("kernels") / name).read_text()


def test_limits_are_those_of_the_bodies() -> None:
    gains = re.findall(r"beyond\(gain, ([\d.]+)f\)", kernel("swin_enc0.hip"))
    assert tuple(map(float, gains)) == edges.GAIN_LIMITS
    assert f"<= (_Float16){edges.COLUMNS_LIMIT}f" in kernel("zrr_direct.h")
    assert f"& 0x{4 * f'{edges.WEIGHT_LIMIT:02x}'}u" in kernel("zrr_direct.h")
    assert float.fromhex(re.search(r"\(_Float16\)(0x1p-\d+)f", kernel("zrr_norm.h"))[1]) == edges.NORM_EPSILON
    scale, limit = (float(x) for x in re.findall(r"splat\((0\.\d+)f\)", kernel("zrr_attention.h"))[:2])
    assert abs(edges.SCORE_LIMIT * scale - limit) < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_images_are_all_different(kind: WorkloadKind) -> None:
    found = images(kind)
    assert len({image.tobytes() for image in found.values()}) == len(found)
    assert all(image.shape == (NBYTES,) for image in found.values())


def test_single_weights_are_out_of_range_in_one_place_of_a_row_only() -> None:
    """Every place of the 32 bytes that a lane holds occurs, and no other weight of the image is out of range."""
    matrices = [r for r in regions_of(CONTRACT) if r.kind == "matrix"]
    found = images(WorkloadKind.SINGLE)
    for position in range(32):
        image = found[f"weight {position} of 32"]
        for region in matrices:
            rows = image[region.offset : region.offset + region.nbytes].reshape(-1, 32)
            assert set(np.nonzero(rows & 0x40)[1]) == {position}
    assert int(weight_offset(np.array(0), np.array(31))) < 64


def test_columns_stand_exactly_at_the_limit_and_just_beyond() -> None:
    region = next(r for r in regions_of(CONTRACT) if r.name == "P13.c")
    found = images(WorkloadKind.BOUNDS)
    squares = []
    for name in ("P13.c=8", "P13.c=8.00781"):
        half = found[name][region.offset : region.offset + 64].view(np.float16).astype(float).reshape(-1, 2, 4)
        squares.append((half**2).sum(axis=(0, 2)).tolist())
    assert squares[0] == [edges.COLUMNS_LIMIT] * 2
    assert min(squares[1]) > edges.COLUMNS_LIMIT


def test_a_kind_at_an_edge_is_many_small_launches() -> None:
    shape = Shape(ex=26, ey=18, shift_x=4, shift_y=2)
    assert [r.shape for r in recipes(CONTRACT, shape, WorkloadKind.RANDOM, 1)] == [shape]
    several = recipes(CONTRACT, shape, WorkloadKind.SMALL, 1)
    assert {r.shape for r in several} == {EDGE_SHAPE}
    assert len({r.launch().name for r in several}) == len(several) == len(edges.SMALL_SCALES)
