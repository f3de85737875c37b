"""Where the words of matrix fragments lie, as tables of lanes.

NVIDIA's layouts are those of the PTX ISA manual (9.7.14.5, "Matrix Fragments for mma.m16n8k32", and movmatrix).
AMD's are those of V_WMMA_F32_16X16X16_FP8_FP8 for wave32 on gfx12 (docs/reference/engine.md 4): lane l holds row or
column l % 16 of an operand, its k index is 8 * (l / 16) + byte; result VGPR i of lane l is row i + 8 * (l / 16),
column l % 16. Nothing here is taken from the fusion or from its rules.
"""

from __future__ import annotations

from .terms import LANES

Place = tuple[int, int]
"""(word of an operand, lane)"""

K_WORDS = 8
"""A k32 step is eight words of four bytes."""


def nvidia_row(row: int) -> tuple[Place, ...]:
    """A fragment {a0, a1, a2, a3}: the words of row 0..15, by ascending k. a0/a2 are rows 0..7, a1/a3 rows 8..15;
    a2/a3 are k 16..31; lane 4 * (row % 8) + t holds k 4t..4t+3.
    """
    half = row // 8
    return tuple((half + 2 * (k // 4), 4 * (row % 8) + k % 4) for k in range(K_WORDS))


def nvidia_column(column: int) -> tuple[Place, ...]:
    """B fragment {b0, b1}: the words of column 0..7, by ascending k. b1 is k 16..31; lane 4 * column + t."""
    return tuple((k // 4, 4 * column + k % 4) for k in range(K_WORDS))


def nvidia_accumulator(half: int, lane: int, side: int) -> tuple[int, int]:
    """(row, column) of f16 `side` (0 low, 1 high) of accumulator word `half` (0 rows 0..7, 1 rows 8..15)."""
    return lane // 4 + 8 * half, 2 * (lane % 4) + side


def transposed(lane: int, side: int) -> tuple[int, int]:
    """movmatrix.trans of an 8x8 matrix of b16: (lane, half) of the source that a half of the result comes from."""
    row, column = lane // 4, 2 * (lane % 4) + side
    return 4 * column + row // 2, row % 2


def wmma_line(index: int) -> tuple[Place, ...]:
    """Words of row or column 0..15 of an operand of two k16 steps {first step: dword 0, 1; second step: dword 0, 1}, by
    ascending k: dword d of half-wave h is k 8h + 4d..8h + 4d + 3 of its step.
    """
    return tuple((2 * step + dword, index + 16 * half) for step in (0, 1) for half in (0, 1) for dword in (0, 1))


def wmma_result(pair: int, lane: int, side: int) -> tuple[int, int]:
    """(row, column) of f16 `side` of the pair of result VGPRs 2 * pair, 2 * pair + 1."""
    return 2 * pair + side + 8 * (lane // 16), lane % 16


def into_order(member: int, lane: int) -> Place:
    """(pair member, lane) of NVIDIA's order that member `member` of a pair has in WMMA order in `lane`.

    kernels/fragment_consumer.hip: value x of lane b4 b3 b2 b1 b0 is what NVIDIA's layout has in v[b1] of lane
    b3 b2 b0 b4 x.
    """
    bit = [lane >> i & 1 for i in range(5)]
    return bit[1], bit[3] << 4 | bit[2] << 3 | bit[0] << 2 | bit[4] << 1 | member


def out_of_order(member: int, lane: int) -> Place:
    """The inverse of `into_order`."""
    places = {into_order(x, source): (x, source) for x in (0, 1) for source in range(LANES)}
    return places[member, lane]
