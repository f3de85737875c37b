"""The whole of enc0 as numpy over all blocks at once, in terms of (row, column) matrices.

Written from rr-module.md, rr-details.md and engine.md, not from the CUDA sources: no lanes, fragments or
registers. It is compared with the PTX oracle and with a real GPU. Arrays start with the block axis [B]; a block is
an 8x8 patch of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import model_formats as fmt
from .model_formats import F16, U8, Accumulate

I64 = npt.NDArray[np.int64]
LOG2E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Geometry:
    """Extents and shift of a launch in tokens."""

    ex: int
    ey: int
    shift_x: int
    shift_y: int

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks in x and y (rr-details.md 26)."""
        return (self.ex + self.shift_x + 7) // 8, (self.ey + self.shift_y + 7) // 8


@dataclass(frozen=True, slots=True)
class Inputs(Geometry):
    """One launch: the weight image (54,560 bytes) and the input texels f16 [ey, ex, 4]."""

    weights: U8
    texels: F16


@dataclass(frozen=True, slots=True)
class Outputs:
    """arena u8 [ey, ex, 32 slots], merged u8 [2, ey/2, ex/2, 32 slots], surfaces f16 [.., .., 4].

    `d[p]` is D of phase p, f16 [B, rows, columns].
    """

    arena: U8
    merged: U8
    blend: F16
    gate: F16
    half: F16
    d: dict[int, F16] = field(default_factory=dict)


def tile_address(n: I64, k: I64, k_steps: int) -> I64:
    """Byte of weight (column n, channel k) inside a phase's block (engine.md 1, rr-details.md 13)."""
    within = 64 * (n & 7) + 16 * (k >> 1 & 3) + 8 * (n >> 3 & 1) + 4 * (k >> 3 & 1) + 2 * (k >> 4 & 1) + (k & 1)
    return np.asarray(512 * (k_steps * (n >> 4) + (k >> 5)) + within)


def weight_block(image: U8, offset: int, columns: int, channels: int) -> U8:
    """B of a phase as codes [columns, channels]."""
    n, k = np.mgrid[0:columns, 0:channels]
    return image[offset + tile_address(n, k, channels // 32)]


def column_vector(image: U8, offset: int, columns: int) -> F16:
    """f16 per column."""
    return image[offset : offset + 2 * columns].view(np.float16)


def score_bias(image: U8, offset: int) -> F16:
    """f16 [64 queries, 96 keys] (rr-details.md 16)."""
    q, key = np.mgrid[0:64, 0:96]
    at = 512 * (4 * (key >> 4) + (q >> 4)) + 64 * (q & 7) + 16 * (key >> 1 & 3) + 8 * (key >> 3 & 1)
    at += 4 * (q >> 3 & 1) + 2 * (key & 1)
    bias: F16 = image[offset : offset + 12288].view(np.float16)[at // 2]
    return bias


def pack(x: F16, *, relu: bool = False) -> U8:
    """Requantise the result of f16 arithmetic: NVIDIA's NaN is positive whatever the operands' signs."""
    return fmt.requantise(np.where(np.isnan(x), np.float16(np.nan), x), relu=relu)


def mirror(v: I64, extent: int) -> I64:
    """Reflect once at each border, then clamp (rr-details.md 22)."""
    v = np.where(v < 0, -v, v)
    v = np.where(v >= extent, 2 * extent - 2 - v, v)
    return np.clip(v, 0, extent - 1)


def block_origins(inputs: Geometry) -> tuple[I64, I64]:
    """x0, y0 of every block, x fastest."""
    gx, gy = inputs.grid
    by, bx = np.divmod(np.arange(gx * gy), gx)
    return 8 * bx - inputs.shift_x, 8 * by - inputs.shift_y


def halo_grid(inputs: Geometry, image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The 10x10 tokens around every patch, mirrored: image [ey, ex, C] -> [B, 10 (y), 10 (x), C]."""
    x0, y0 = block_origins(inputs)
    reach = np.arange(-1, 9)
    x, y = mirror(x0[:, None] + reach, inputs.ex), mirror(y0[:, None] + reach, inputs.ey)
    return image[y[:, :, None], x[:, None, :]]


def features(texels: F16, image: U8) -> F16:
    """32 bounded features of each token (rr-details.md 23): [..., 4] -> [..., 32]."""
    w = image[:256].view(np.float16).reshape(32, 4)
    k = np.arange(32)
    near, far = texels[..., k & 3], texels[..., k + 1 & 3]
    total = fmt.fma16(near, w[:, 0], np.broadcast_to(w[:, 1], near.shape)) + w[:, 2] * np.abs(far)
    return fmt.min16(fmt.max16(total, np.float16(-8)), np.float16(8))


def rows_of_grid(grid: U8) -> U8:
    """[B, 10, 10, C] -> 96 rows: the patch, then above, below, left, right of it (rr-details.md 21)."""
    patch = grid[:, 1:9, 1:9].reshape(len(grid), 64, -1)
    return np.concatenate([patch, grid[:, 0, 1:9], grid[:, 9, 1:9], grid[:, 1:9, 0], grid[:, 1:9, 9]], axis=1)


def tree_sum(x: F16) -> F16:
    """Sum over the last axis (32, 64 or 96) in the documented f16 tree (rr-details.md 51): column 8n + 2t + c."""
    v = x.reshape(*x.shape[:-1], x.shape[-1] // 8, 4, 2)
    parity = []
    for first in (0, 1):
        acc = v[..., first, :, :] + v[..., first + 2, :, :]
        for n in range(first + 4, v.shape[-3], 4):
            acc = acc + (v[..., n, :, :] + v[..., n + 2, :, :])
        parity.append(acc)
    s = parity[0] + parity[1]
    r: F16 = (s[..., 0, :] + s[..., 1, :]) + (s[..., 2, :] + s[..., 3, :])
    total: F16 = r[..., 0] + r[..., 1]
    return total


def rms_norm(x: F16, gain: F16) -> F16:
    """x * (rsqrt(sum of squares + 2^-13) * gain) (rr-details.md 8, 9)."""
    inverse = fmt.rsqrt16(tree_sum(x * x) + np.float16(2.0**-13))
    return x * (inverse[..., None] * gain)


def cubic_exponent(x: F16) -> F16:
    """Seed 001 E5 (a)."""
    bound = np.float16(0.55615234375)
    m = fmt.min16(fmt.max16(x * np.float16(0.017186790704727173), -bound), bound)
    t = fmt.fma16(m, -m, np.broadcast_to(np.float16(0.92724609375), m.shape))
    u = fmt.fma16(m, t, np.broadcast_to(np.float16(1.375), m.shape))
    bits = u.view(np.uint16) << np.uint16(5) & np.uint16(0x7FE0)
    return bits.view(np.float16)


def activation(x: F16) -> F16:
    """Seed 001 E15."""
    y = fmt.min16(fmt.max16(x, np.float16(-2)), np.float16(2))
    slope = np.float16(0.4121621549129486) - np.float16(0.0810810774564743) * np.abs(y)
    return np.asarray(x * (np.float16(0.5) + y * slope), np.float16)


def attention(keys: F16, values: F16, bias: F16, mma: Accumulate) -> tuple[F16, F16]:
    """Scores and P*V of one head: keys, values [B, 96, 32] -> [B, 64, 96], [B, 64, 32]."""
    packed = pack(keys)
    scores = fmt.gemm(packed[:, :64], packed, np.broadcast_to(bias, (len(keys), 64, 96)), mma)
    e = cubic_exponent(scores)
    p = e * fmt.rcp16(tree_sum(e))[..., None]
    v = pack(np.swapaxes(values, 1, 2))
    return scores, fmt.gemm(pack(p), v, np.zeros((len(keys), 64, 32), np.float16), mma)


def sigmoid(x: F16) -> F16:
    """f16 of 1/(1 + 2^(-log2e*x)) in f32."""
    return fmt.rcp32(np.float32(1) + fmt.expf(x, -LOG2E)).astype(np.float16)


def tap_weights(logits: F16) -> F16:
    """Softmax of nine logits [..., 9], in f32 from f16 differences (rr-details.md 4)."""
    e = fmt.expf(logits - np.fmax.reduce(logits, axis=-1, keepdims=True), LOG2E)
    total = e[..., 0]
    for k in range(1, 9):
        total = total + e[..., k]
    return e.astype(np.float16) * fmt.rcp32(total).astype(np.float16)[..., None]


def stencil(grid: F16, p: F16) -> F16:
    """Nine taps around each patch token: grid [B, 10, 10, 4], p [B, 8, 8, 9] -> [B, 8, 8, 3] (rr-details.md 2)."""
    taps = [grid[:, k // 3 : k // 3 + 8, k % 3 : k % 3 + 8, :3] for k in range(9)]
    acc = [np.zeros(taps[0].shape, np.float16)] * 2
    for k in range(8):
        acc[k & 1] = fmt.fma16(taps[k], p[..., k, None], acc[k & 1])
    return fmt.fma16(taps[8], p[..., 8, None], acc[0] + acc[1])


def last_epilogue(grid: F16, d22: F16) -> tuple[F16, F16, F16]:
    """E22: the three surfaces' texels [B, 8, 8, 4], [B, 8, 8, 4], [B, 4, 4, 4]."""
    logits = d22.reshape(-1, 8, 8, 16)
    s = stencil(grid, tap_weights(logits[..., :9]))
    g, h = sigmoid(logits[..., 9]), sigmoid(logits[..., 10])
    gated = g[..., None] * s
    rest = s - gated
    q = np.float16(0.25) * rest
    rows = q[:, :, 0::2] + q[:, :, 1::2]
    mean = rows[:, 0::2] + rows[:, 1::2]
    with_fourth = [np.concatenate([rest, (g * h)[..., None]], -1), np.concatenate([gated, h[..., None]], -1)]
    return with_fourth[0], with_fourth[1], np.concatenate([mean, np.zeros_like(mean[..., :1])], -1)


def scatter(blocks: npt.NDArray[np.generic], plane: npt.NDArray[np.generic], x0: I64, y0: I64) -> None:
    """Write [B, n, n, C] at the blocks' origins into plane [height, width, C], dropping what is outside."""
    n = blocks.shape[1]
    y = np.broadcast_to(y0[:, None, None] + np.arange(n)[:, None], blocks.shape[:3])
    x = np.broadcast_to(x0[:, None, None] + np.arange(n), blocks.shape[:3])
    inside = (y >= 0) & (y < plane.shape[0]) & (x >= 0) & (x < plane.shape[1])
    plane[y[inside], x[inside]] = blocks[inside]


def merge(codes: U8) -> U8:
    """[B, 8, 8, C] -> 16 merged rows of 4*C channels: row 4*Y + X, part 2*dy + dx is token (2X + dx, 2Y + dy)."""
    parts = [codes[:, dy::2, dx::2] for dy in (0, 1) for dx in (0, 1)]
    return np.concatenate(parts, axis=-1).reshape(len(codes), 16, -1)


def phases(rows: U8, image: U8, mma: Accumulate) -> dict[int, F16]:
    """D of the 22 phases from the prologue's 96 rows of codes [B, 96, 32]."""
    count = len(rows)

    def seeds(offset: int, columns: int, height: int) -> F16:
        return np.broadcast_to(column_vector(image, offset, columns), (count, height, columns))

    def block(offset: int) -> U8:
        return weight_block(image, offset, 32, 32)

    zero = np.zeros((count, 96, 32), np.float16)
    d = {1: fmt.gemm(rows, block(4096), seeds(5120, 32, 96), mma)}
    d[2] = fmt.gemm(pack(d[1], relu=True), block(5184), seeds(6208, 32, 96), mma)
    normed = pack(rms_norm(d[2], column_vector(image, 6272, 32)))
    for first, keys, values, bias in ((3, 6336, 7360, 8384), (8, 21696, 22720, 23744)):
        d[first] = fmt.gemm(normed, block(keys), zero, mma)
        d[first + 1] = fmt.gemm(normed, block(values), zero, mma)
        d[first + 2], d[first + 3] = attention(d[first], d[first + 1], score_bias(image, bias), mma)
        if first == 3:
            residual = d[2][:, :64] + column_vector(image, 37056, 32)
            d[7] = fmt.gemm(pack(d[6]), block(20672), residual, mma)
    d[12] = fmt.gemm(pack(d[11]), block(36032), d[7], mma)
    normed = pack(rms_norm(d[12], column_vector(image, 37120, 32)))
    residual = d[12] + column_vector(image, 39296, 32)
    for p, up, down in ((13, 37184, 38272), (15, 39360, 40448), (17, 41472, 42560), (19, 43584, 44672)):
        d[p] = fmt.gemm(normed, block(up), seeds(up + 1024, 32, 64), mma)
        d[p + 1] = fmt.gemm(pack(activation(d[p])), block(down), residual, mma)
        residual = d[p + 1]
    codes = pack(d[20])
    b21 = weight_block(image, 45696, 64, 128)
    d[21] = fmt.gemm(merge(codes.reshape(count, 8, 8, 32)), b21, seeds(53888, 64, 16), mma)
    d[22] = fmt.gemm(codes, weight_block(image, 54016, 16, 32), seeds(54528, 16, 64), mma)
    return d


def run(inputs: Inputs, mma: Accumulate, *, fill: int = 0) -> Outputs:
    """The launch's outputs; bytes that no block writes are `fill`."""
    x0, y0 = block_origins(inputs)
    grid = halo_grid(inputs, inputs.texels)
    with np.errstate(all="ignore"):
        rows = rows_of_grid(pack(features(grid, inputs.weights)))
        d = phases(rows, inputs.weights, mma)
        texels = last_epilogue(grid, d[22])
    half_y, half_x = inputs.ey // 2, inputs.ex // 2
    out = Outputs(
        arena=np.full((inputs.ey, inputs.ex, 32), fill, np.uint8),
        merged=np.full((2, half_y, half_x, 32), fill, np.uint8),
        blend=np.full((inputs.ey, inputs.ex, 8), fill, np.uint8).view(np.float16),
        gate=np.full((inputs.ey, inputs.ex, 8), fill, np.uint8).view(np.float16),
        half=np.full((half_y, half_x, 8), fill, np.uint8).view(np.float16),
        d=d,
    )
    scatter(pack(d[20]).reshape(-1, 8, 8, 32)[..., fmt.SLOT_CHANNEL], out.arena, x0, y0)
    planes = pack(d[21]).reshape(-1, 4, 4, 2, 32)
    for plane in range(2):
        scatter(planes[..., plane, fmt.SLOT_CHANNEL], out.merged[plane], x0 // 2, y0 // 2)
    for blocks, surface, scale in zip(texels, (out.blend, out.gate, out.half), (1, 1, 2), strict=True):
        scatter(blocks, surface, x0 // scale, y0 // scale)
    return out
