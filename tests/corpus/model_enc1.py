"""The whole of enc1 as numpy over all blocks at once, in terms of (row, column) matrices.

Written from seed 001 and rr-details.md B, not from the CUDA sources: no lanes, fragments or registers. What enc0
does as well (head, norm, activation, last epilogue) comes from its model. Arrays start with the block axis [B]; a
block is an 8x8 patch of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import model_formats as fmt
from .model_enc0 import (
    Geometry,
    activation,
    attention,
    block_origins,
    column_vector,
    halo_grid,
    last_epilogue,
    merge,
    pack,
    rms_norm,
    rows_of_grid,
    scatter,
    score_bias,
    weight_block,
)
from .model_formats import F16, U8, Accumulate

SLOT_OF_CHANNEL = np.argsort(fmt.SLOT_CHANNEL)
# keys slice 0, then slice 1, values 0 and 1 follow at + 1024 each; score bias; output projection (rr-details.md 29).
HEADS = ((1, 128, 4224, 16512), (8, 18560, 22656, 34944))
# (phase, B of the expansion, B of the projection back); the bias follows the expansion's 2048 bytes.
BRANCHES = ((15, 37248, 39360), *((17 + 2 * i, 41536 + 4160 * i, 41536 + 4160 * i + 2112) for i in range(7)))
INPUT_GAIN, INPUT_TABLE, GAIN, TABLE = 0, 36992, 37120, 41408


@dataclass(frozen=True, slots=True)
class Inputs(Geometry):
    """One launch: the weight image (96,480 bytes), input planes u8 [2, ey, ex, 32 slots] and texels f16 [ey, ex, 4]."""

    weights: U8
    planes: U8
    texels: F16


@dataclass(frozen=True, slots=True)
class Outputs:
    """arena u8 [2, ey, ex, 32 slots], merged u8 [3, ey/2, ex/2, 32 slots], surfaces f16 [.., .., 4].

    `d[p]` is D of phase p, f16 [B, rows, columns].
    """

    arena: U8
    merged: U8
    blend: F16
    gate: F16
    half: F16
    d: dict[int, F16] = field(default_factory=dict)


def input_rows(inputs: Inputs) -> F16:
    """96 rows of 64 channels: the planes' codes decoded (rr-details.md 33)."""
    codes = np.concatenate([plane[..., SLOT_OF_CHANNEL] for plane in inputs.planes], axis=-1)
    rows: F16 = fmt.decode(rows_of_grid(halo_grid(inputs, codes))).astype(np.float16)
    return rows


def phases(rows: F16, image: U8, mma: Accumulate) -> dict[int, F16]:
    """D of the 32 phases from the prologue's 96 rows [B, 96, 64]."""
    count = len(rows)

    def seeds(offset: int, columns: int, height: int) -> F16:
        return np.broadcast_to(column_vector(image, offset, columns), (count, height, columns))

    normed = pack(rms_norm(rows, column_vector(image, INPUT_GAIN, 64)))
    residual = rows[:, :64] + column_vector(image, INPUT_TABLE, 64)
    d: dict[int, F16] = {}
    for first, projection, bias, out in HEADS:
        for p, channels, at in (
            (first, slice(0, 32), projection),
            (first + 1, slice(0, 32), projection + 2048),
            (first + 2, slice(32, 64), projection + 1024),
            (first + 3, slice(32, 64), projection + 3072),
        ):
            c = d[p - 2] if p >= first + 2 else np.zeros((count, 96, 32), np.float16)
            d[p] = fmt.gemm(normed[..., channels], weight_block(image, at, 32, 32), c, mma)
        d[first + 4], d[first + 5] = attention(d[first + 2], d[first + 3], score_bias(image, bias), mma)
        d[first + 6] = fmt.gemm(pack(d[first + 5]), weight_block(image, out, 64, 32), residual, mma)
        residual = d[first + 6]
    normed = pack(rms_norm(d[14], column_vector(image, GAIN, 64)))
    residual = d[14] + column_vector(image, TABLE, 64)
    for p, up, down in BRANCHES:
        d[p] = fmt.gemm(normed, weight_block(image, up, 32, 64), seeds(up + 2048, 32, 64), mma)
        d[p + 1] = fmt.gemm(pack(activation(d[p])), weight_block(image, down, 64, 32), residual, mma)
        residual = d[p + 1]
    codes = pack(d[30])
    b31 = weight_block(image, 70656, 96, 256)
    d[31] = fmt.gemm(merge(codes.reshape(count, 8, 8, 64)), b31, seeds(95232, 96, 16), mma)
    d[32] = fmt.gemm(codes, weight_block(image, 95424, 16, 64), seeds(96448, 16, 64), mma)
    return d


def run(inputs: Inputs, mma: Accumulate, *, fill: int = 0) -> Outputs:
    """The launch's outputs; bytes that no block writes are `fill`."""
    x0, y0 = block_origins(inputs)
    with np.errstate(all="ignore"):
        d = phases(input_rows(inputs), inputs.weights, mma)
        texels = last_epilogue(halo_grid(inputs, inputs.texels), d[32])
    half_y, half_x = inputs.ey // 2, inputs.ex // 2
    out = Outputs(
        arena=np.full((2, inputs.ey, inputs.ex, 32), fill, np.uint8),
        merged=np.full((3, half_y, half_x, 32), fill, np.uint8),
        blend=np.full((inputs.ey, inputs.ex, 8), fill, np.uint8).view(np.float16),
        gate=np.full((inputs.ey, inputs.ex, 8), fill, np.uint8).view(np.float16),
        half=np.full((half_y, half_x, 8), fill, np.uint8).view(np.float16),
        d=d,
    )
    for planes, size, phase, scale in ((out.arena, 8, 30, 1), (out.merged, 4, 31, 2)):
        codes = pack(d[phase]).reshape(-1, size, size, len(planes), 32)
        for p, plane in enumerate(planes):
            scatter(codes[..., p, fmt.SLOT_CHANNEL], plane, x0 // scale, y0 // scale)
    for blocks, surface, scale in zip(texels, (out.blend, out.gate, out.half), (1, 1, 2), strict=True):
        scatter(blocks, surface, x0 // scale, y0 // scale)
    return out
