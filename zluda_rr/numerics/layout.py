"""Index maps of the operand layouts: NVIDIA fragments, the weight image, gfx12 WMMA operands and
the engine's images.

Every function is exact index arithmetic on broadcasting integer arrays (`grid` makes the axes) and
holds no data. Notation (used in the kernels too): lane `l`; for NVIDIA `g = l >> 2`, `t = l & 3`;
for gfx12 `r = l & 15`, `h = l >> 4`. A *slot* is the position along K inside one k32 step as
NVIDIA's fragment stores it; a *logical k* is the channel the layer means. Matrices are M x K (A), K
x N (B) and M x N (C, D).

Sources: PTX ISA 8.x, "Matrix fragments for mma.m16n8k32" (NVIDIA side); AMD RDNA4 ISA, "Wave Matrix
Multiply Accumulate" (gfx12 side); the order of the weight image, the score bias and the planes is
the reference module's own.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LANES = 32
K_STEP = 32
"""Slots of one k32 step: one m16n8k32 on NVIDIA, two FP8 WMMAs on gfx12."""
WEIGHT_TILE_BYTES = 512
"""One 16-column tile of a 32-deep weight block."""
SCORE_BIAS_BYTES = 12_288


def grid(*sizes: int) -> tuple[Ints, ...]:
    """Broadcasting axes 0..size-1, one per argument, in the order of the arguments."""
    return tuple(np.asarray(axis, dtype=np.int64) for axis in np.ogrid[tuple(slice(size) for size in sizes)])


def _ints(values: object) -> Ints:
    return np.asarray(values, dtype=np.int64)


# NVIDIA m16n8k32, e4m3 operands, f16 accumulators.


def nv_a_element(lane: Ints, register: Ints, byte: Ints) -> tuple[Ints, Ints]:
    """(row, slot) of byte 0..3 of A register 0..3."""
    row = (lane >> 2) + 8 * (register & 1)
    slot = 4 * (lane & 3) + byte + 16 * (register >> 1)
    return row, slot


def nv_b_element(lane: Ints, register: Ints, byte: Ints) -> tuple[Ints, Ints]:
    """(slot, column) of byte 0..3 of B register 0..1."""
    return 4 * (lane & 3) + byte + 16 * register, (lane >> 2) + 0 * byte


def nv_d_element(lane: Ints, register: Ints, half: Ints) -> tuple[Ints, Ints]:
    """(row, column) of half 0..1 of C or D register 0..1."""
    return (lane >> 2) + 8 * register, 2 * (lane & 3) + half


def logical_of_slot(slot: Ints) -> Ints:
    """Logical k of a slot 0..31 as the layers fill fragments.

    The word with bit 4 of the slot clear packs n-tiles 0 and 2 of the producer, the other packs
    n-tiles 1 and 3.
    """
    return _ints(2 * ((slot >> 2) & 3) + (slot & 1) + 16 * ((slot >> 1) & 1) + 8 * (slot >> 4))


def slot_of_logical(k: Ints) -> Ints:
    """Inverse of `logical_of_slot`."""
    return _ints(4 * ((k >> 1) & 3) + (k & 1) + 2 * (k >> 4) + 16 * ((k >> 3) & 1))


# Weight image, score bias and planes, as the module keeps them in global memory.


def weight_offset(n: Ints, k: Ints) -> Ints:
    """Byte of column `n`, logical `k` (0..31) in a 32-deep weight block of any multiple of 16
    columns.
    """
    return _ints(
        WEIGHT_TILE_BYTES * (n >> 4)
        + 64 * (n & 7)
        + 16 * ((k >> 1) & 3)
        + 8 * ((n >> 3) & 1)
        + 4 * ((k >> 3) & 1)
        + 2 * ((k >> 4) & 1)
        + (k & 1)
    )


def weight_lane_offset(tile: Ints, lane: Ints, word: Ints, byte: Ints) -> Ints:
    """Byte read by NVIDIA's lane: one 16-byte load (words 0..3) per lane and 16-column tile."""
    return _ints(WEIGHT_TILE_BYTES * tile + 16 * lane + 4 * word + byte)


def weight_lane_element(tile: Ints, lane: Ints, word: Ints, byte: Ints) -> tuple[Ints, Ints]:
    """(column, slot) of the byte at `weight_lane_offset`."""
    column = 16 * tile + (lane >> 2) + 8 * (word >> 1)
    slot = 4 * (lane & 3) + byte + 16 * (word & 1)
    return column, slot


def score_bias_offset(query: Ints, key: Ints) -> Ints:
    """Byte of the f16 bias of (query 0..63, key 0..95) in the 12,288-byte score table."""
    return _ints(
        512 * (4 * (key >> 4) + (query >> 4))
        + 64 * (query & 7)
        + 16 * ((key >> 1) & 3)
        + 8 * ((key >> 3) & 1)
        + 4 * ((query >> 3) & 1)
        + 2 * (key & 1)
    )


# gfx12 v_wmma_f32_16x16x16_fp8_fp8, wave32.


def wmma_operand_element(lane: Ints, byte: Ints) -> tuple[Ints, Ints]:
    """(row of A or column of B, k 0..15) of byte 0..7 of an operand; A and B have the same form."""
    return (lane & 15) + 0 * byte, 8 * (lane >> 4) + byte


def wmma_d_element(lane: Ints, vgpr: Ints) -> tuple[Ints, Ints]:
    """(row, column) of VGPR 0..7 of C or D."""
    return vgpr + 8 * (lane >> 4), (lane & 15) + 0 * vgpr


# Direct operands: weights on the A side with this row order, tokens on the B side.


def direct_column(row: Ints, tile: Ints) -> Ints:
    """Output column of row 0..15 of A tile `tile`; tiles 2s and 2s+1 share the 32-column block s.

    Row r of tile u is logical k of slot 16u + r, so that an accumulator is the next operand byte
    for byte.
    """
    return _ints(2 * (row >> 2) + (row & 1) + 16 * ((row >> 1) & 1) + 8 * (tile & 1) + 32 * (tile >> 1))


def direct_row(column: Ints) -> tuple[Ints, Ints]:
    """(tile, row) of an output column: inverse of `direct_column`."""
    slot = slot_of_logical(column & 31)
    return 2 * (column >> 5) + (slot >> 4), slot & 15


def direct_weight_offset(lane: Ints, load: Ints, byte: Ints) -> Ints:
    """Byte 0..15 of 16-byte load 0..1 by which a lane reads its operands of one 32 x 32 block."""
    r, h = lane & 15, lane >> 4
    return _ints(WEIGHT_TILE_BYTES * ((r >> 1) & 1) + 64 * (2 * (r >> 2) + (r & 1)) + 32 * h + 16 * load + byte)


def direct_weight_operand(load: Ints, dword: Ints) -> tuple[Ints, Ints, Ints]:
    """(tile u, WMMA w, dword of the operand) that dword 0..3 of a load is."""
    return dword >> 1, dword & 1, load + 0 * dword


def narrow_weight_offset(lane: Ints, load: Ints, byte: Ints) -> Ints:
    """As `direct_weight_offset` for a block of 16 columns (one tile, row = column): byte 0..7 of
    8-byte load 0..1.

    Dword w of load j is dword j of the operand of WMMA w.
    """
    r, h = lane & 15, lane >> 4
    return _ints(64 * (r & 7) + 8 * (r >> 3) + 32 * h + 16 * load + byte)


def direct_bias_offset(lane: Ints, query_pair: Ints, key_tile: Ints, load: Ints) -> Ints:
    """Byte of the 16-byte load of score bias, loads 0..1 of (query pair 0..1, key tile 0..5).

    A lane of query tile 2p + u holds token `direct_column(r, u) + 32p`; tiles 2p and 2p+1 of one
    lane are the queries q and q + 8, VGPRs of key tiles 2s and 2s+1 the keys k and k + 8, so one
    16-byte slot serves four elements pairs. `key_tile` counts 16-key groups of the table (two per
    32-key block).
    """
    r, h = lane & 15, lane >> 4
    token = 2 * (r >> 2) + (r & 1)
    group = 4 * key_tile + 2 * query_pair + ((r >> 1) & 1)
    return _ints(512 * group + 64 * token + 16 * (2 * h + load))


def direct_bias_element(lane: Ints, query_pair: Ints, key_tile: Ints, load: Ints, half: Ints) -> tuple[Ints, Ints]:
    """(query, key) of f16 0..7 of the load at `direct_bias_offset`."""
    r, h = lane & 15, lane >> 4
    query = direct_column(r, 2 * query_pair + ((half >> 1) & 1))
    vgpr = 4 * load + 2 * (key_tile & 1) + (half & 1)
    key = direct_column(vgpr + 8 * h, 2 * (key_tile >> 1) + (half >> 2))
    return query, key


# Staged images in shared memory.


def staged_offset(row: Ints, slot: Ints, stride: int = K_STEP) -> Ints:
    """Byte of (token row, slot) in a staged image: slot order, one 8-byte read per WMMA operand."""
    return _ints(row * stride + slot)


def kslot_offset(n: Ints, slot: Ints, n_rows: int) -> Ints:
    """Byte of (column n, slot) in prepared weight slots: 16 bytes per column and WMMA half,
    `n_rows` columns.
    """
    return _ints((n_rows * (slot >> 4) + n) * 16 + (slot & 15))


def dcell_write_word(tile: Ints, lane: Ints, pair: Ints) -> Ints:
    """32-bit word of accumulator pair 0..3 (VGPRs 2p, 2p+1 as f16x2) in the exchange image, 128
    words per tile.
    """
    return _ints(128 * tile + 4 * lane + pair)


def dcell_read_word(lane: Ints, row_half: Ints, n_tile: Ints, *, narrow: bool = False) -> tuple[Ints, Ints]:
    """(weight tile, word in that tile) of NVIDIA's D register (row_half, n_tile 0..3) of one
    16-token tile.

    `narrow`: rows of the weight tile in column order (a block of 16 columns); else in
    `direct_column` order.
    """
    g, t = lane >> 2, lane & 3
    token = 8 * row_half + g
    if narrow:
        return n_tile >> 1, 4 * (token + 16 * (n_tile & 1)) + t
    return (n_tile & 1) + 0 * token, 4 * (token + 16 * (t >> 1)) + 2 * (t & 1) + (n_tile >> 1)


def phase_result_offset(lane: Ints, m_tile: Ints, row_half: Ints, n_tile: Ints) -> Ints:
    """Byte of D register (m, half, n) of `lane` in the lane-major result image of `zrr_swin_phase`."""
    return _ints(4 * lane + 128 * (8 * m_tile + 4 * row_half + n_tile))


def cut_result_offset(token: Ints, column: Ints) -> Ints:
    """Byte of (token 0..63, column 0..15) in the result image of `zrr_swin_enc0`, f16[64][16]."""
    return _ints(32 * token + 2 * column)


# Row sums on direct operands.


def direct_pair_element(lane: Ints, tile: Ints, pair: Ints) -> tuple[Ints, Ints]:
    """(n-tile, t) of NVIDIA's f16x2 register that packed pair 0..3 of a direct accumulator tile is."""
    h = lane >> 4
    return 4 * (tile >> 1) + (tile & 1) + 2 * (pair & 1), 2 * h + (pair >> 1)


def merged_token(row: Ints, step: Ints) -> tuple[Ints, Ints]:
    """(x, y) in the 8 x 8 patch of the token that k step 0..3 of merged row 0..15 reads (2 x 2
    patch merge).
    """
    x, y = (row & 7) >> 1, 2 * (row >> 3) + (row & 1)
    return 2 * x + (step & 1), 2 * y + (step >> 1)
