"""Seeded launches of enc1 for a golden run: the kinds of `inputs`, with input planes beside the texels."""

from __future__ import annotations

import numpy as np

from .inputs import INFINITY, LARGE, NAN, U8, Case, codes, halves, matrix, stream_of

IMAGE_BYTES = 96480
# Offsets and bytes of the e4m3 blocks.
MATRICES = (
    *((offset, 1024) for base in (128, 18560) for offset in range(base, base + 4096, 1024)),
    *((offset, 2048) for offset in (16512, 34944, 37248, 39360)),
    *((41536 + 4160 * i + half, 2048) for i in range(7) for half in (0, 2112)),
    (70656, 24576),
    (95424, 1024),
)
# Offsets of f16 vectors per column: seeds and tables, and the gains.
VECTORS = {36992: 64, 39296: 32, 41408: 64, **{43584 + 4160 * i: 32 for i in range(7)}, 95232: 96, 96448: 16}
GAINS = (0, 37120)
SCORE_BIAS = (4224, 22656)
# hostile: f16 bits poked into vectors and the score bias, and NaN codes into P31's B (offset ->
# value); one anywhere before P31 would leave nothing but NaN.
HOSTILE_HALVES = {
    4224 + 2 * 77: NAN,
    22656 + 2 * 501: INFINITY | 0x8000,
    39296 + 2 * 1: LARGE,
    43584 + 2 * 5: INFINITY,
    95232 + 2 * 7: NAN,
    95232 + 2 * 70: INFINITY | 0x8000,
    96448 + 2 * 0: INFINITY | 0x8000,
    96448 + 2 * 10: INFINITY,
}
HOSTILE_CODES = {70656 + 64: 0x7F, 70656 + 512: 0xFF}
SPECIAL_CODES = (0x7F, 0xFF, 0x80, 0x01, 0x81, 0x7E)


def weight_image(case: Case) -> U8:
    """The 96,480 bytes of a case."""
    stream = stream_of(case)
    image = np.zeros(IMAGE_BYTES, np.uint8)
    for offset, nbytes in MATRICES:
        image[offset : offset + nbytes] = matrix(stream, case.kind, nbytes)
    for offset, columns in VECTORS.items():
        vector = stream.normal(1.0 if columns == 16 else 0.3, (columns,))
        vector[3:5] = 6e-8, -0.0
        image[offset : offset + 2 * columns] = halves(vector)
    for offset in GAINS:
        image[offset : offset + 128] = halves(2.0 + stream.normal(1.0, (64,)))
    for offset in SCORE_BIAS:
        image[offset : offset + 12288] = halves(stream.normal(12.0, (6144,)))
    if case.kind == "hostile":
        for offset, bits in HOSTILE_HALVES.items():
            image[offset : offset + 2] = bits & 0xFF, bits >> 8
        for offset, code in HOSTILE_CODES.items():
            image[offset] = code
    return image


def planes(case: Case) -> U8:
    """Input planes u8 [2, ey, ex, 32 slots]: codes around 1, some -0 and subnormals, special ones at single tokens."""
    stream = stream_of(case)
    stream.words(1)  # not the stream of the weights
    shape = (2, case.ey, case.ex, 32)
    out = codes(stream.normal(1.0, shape))
    chance = stream.uniform(shape)
    out[chance < 0.02] = 0x80
    out[chance > 0.98] = 0x01
    if case.kind in ("special", "hostile"):
        for i, code in enumerate(SPECIAL_CODES):
            out[i & 1, (5 * i + 1) % case.ey, (7 * i + 2) % case.ex, 3 * i] = code
    return out
