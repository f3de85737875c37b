"""Exhaustive checks of the layout maps and of the identities the engine relies on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zluda_rr.numerics import layout as lay

LANE = np.arange(32)


def placed(index: Any, values: Any, size: int) -> np.ndarray:
    """Array of `size` cells, each written exactly once: proves that `index` is a bijection onto the cells."""
    index, values = np.broadcast_arrays(index, values)
    assert index.size == size
    cells = np.full(size, -1, dtype=np.int64)
    cells[index.ravel()] = values.ravel()
    assert np.unique(index).size == size
    return cells


def random_block(columns: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A weight matrix by (column, logical k) and its image in the module's byte order."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 256, (columns, 32))
    n, k = lay.grid(columns, 32)
    image = placed(lay.weight_offset(n, k), matrix, 32 * columns)
    return matrix, image


class TestNvidia:
    def test_a_fragment_covers_every_element_once(self) -> None:
        row, slot = lay.nv_a_element(*lay.grid(32, 4, 4))
        placed(row * 32 + slot, 0, 16 * 32)

    def test_b_fragment_covers_every_element_once(self) -> None:
        slot, column = lay.nv_b_element(*lay.grid(32, 2, 4))
        placed(slot * 8 + column, 0, 32 * 8)

    def test_d_fragment_covers_every_element_once(self) -> None:
        row, column = lay.nv_d_element(*lay.grid(32, 2, 2))
        placed(row * 8 + column, 0, 16 * 8)

    def test_slot_and_logical_are_inverse_permutations(self) -> None:
        slot = np.arange(32)
        logical = lay.logical_of_slot(slot)
        assert sorted(logical) == list(range(32))
        assert np.array_equal(lay.slot_of_logical(logical), slot)

    def test_packing_of_producer_n_tiles_defines_the_slots(self) -> None:
        """Word w of a lane packs D pairs of n-tiles w and w+2 (low and high u16)."""
        lane, w, byte = lay.grid(32, 2, 4)
        _, slot = lay.nv_a_element(lane, 2 * w, byte)
        _, column = lay.nv_d_element(lane, 0, byte & 1)
        n_tile = w + 2 * (byte >> 1)
        assert np.array_equal(lay.logical_of_slot(slot) + 0 * lane, column + 8 * n_tile)

    def test_first_wmma_takes_logical_0_to_7_and_16_to_23(self) -> None:
        assert sorted(lay.logical_of_slot(np.arange(16))) == [*range(8), *range(16, 24)]


class TestGlobalImages:
    @pytest.mark.parametrize("columns", [16, 32, 64, 96])
    def test_weight_image_is_dense(self, columns: int) -> None:
        n, k = lay.grid(columns, 32)
        placed(lay.weight_offset(n, k), 0, 32 * columns)

    @pytest.mark.parametrize("columns", [16, 32, 64])
    def test_weight_lane_reads_column_and_slot(self, columns: int) -> None:
        axes = lay.grid(columns // 16, 32, 4, 4)
        column, slot = lay.weight_lane_element(*axes)
        expected = lay.weight_offset(column, lay.logical_of_slot(slot))
        assert np.array_equal(expected, lay.weight_lane_offset(*axes))

    def test_weight_lane_words_are_b_fragments(self) -> None:
        """Words 0, 1 of tile T are n-tile 2T's registers 0, 1; words 2, 3 are n-tile 2T+1's."""
        tile, lane, word, byte = lay.grid(2, 32, 4, 4)
        column, slot = lay.weight_lane_element(tile, lane, word, byte)
        nv_slot, nv_column = lay.nv_b_element(lane, word & 1, byte)
        assert np.array_equal(slot + 0 * tile, nv_slot + 0 * tile)
        assert np.array_equal(column + 0 * byte, 8 * (2 * tile + (word >> 1)) + nv_column)

    def test_score_bias_is_dense(self) -> None:
        query, key = lay.grid(64, 96)
        offset = lay.score_bias_offset(query, key)
        placed(offset >> 1, 0, 64 * 96)
        assert int(offset.max()) + 2 == lay.SCORE_BIAS_BYTES

    def test_score_bias_slots_are_c_fragments(self) -> None:
        """NVIDIA reads C of (m-tile, n-tile) at 512*(4*(n>>1) + m) + 16*lane + 8*(n&1), two registers."""
        m, n, lane, register, half = lay.grid(4, 12, 32, 2, 2)
        row, column = lay.nv_d_element(lane, register, half)
        byte = 512 * (4 * (n >> 1) + m) + 16 * lane + 8 * (n & 1) + 4 * register + 2 * half
        assert np.array_equal(lay.score_bias_offset(16 * m + row, 8 * n + column), byte)


class TestDirectOperands:
    def test_operands_and_accumulators_are_dense(self) -> None:
        row, k = lay.wmma_operand_element(*lay.grid(32, 8))
        placed(row * 16 + k, 0, 256)
        row, column = lay.wmma_d_element(*lay.grid(32, 8))
        placed(row * 16 + column, 0, 256)

    def test_row_order_is_a_bijection_with_inverse(self) -> None:
        row, tile = lay.grid(16, 6)
        column = lay.direct_column(row, tile)
        placed(column, 0, 96)
        back_tile, back_row = lay.direct_row(column)
        assert np.array_equal(back_tile, tile + 0 * row)
        assert np.array_equal(back_row, row + 0 * tile)

    def test_weights_need_no_prepared_slots(self) -> None:
        """Two 16-byte loads from the module's image are the operands of both tiles and WMMAs."""
        matrix, image = random_block(32)
        lane, load, dword, byte = lay.grid(32, 2, 4, 4)
        read = image[lay.direct_weight_offset(lane, load, 4 * dword + byte)]
        tile, wmma, operand_dword = lay.direct_weight_operand(load, dword)
        row, k = lay.wmma_operand_element(lane, 4 * operand_dword + byte)
        expected = matrix[lay.direct_column(row, tile), lay.logical_of_slot(16 * wmma + k)]
        assert np.array_equal(read, expected)

    def test_weights_of_sixteen_columns(self) -> None:
        """With N = 16 row r is column r; direct_column would leave the block."""
        assert np.any(lay.direct_column(np.arange(16), np.int64(0)) > 15)
        matrix, image = random_block(16)
        lane, load, wmma, byte = lay.grid(32, 2, 2, 4)
        read = image[lay.narrow_weight_offset(lane, load, 4 * wmma + byte)]
        row, k = lay.wmma_operand_element(lane, 4 * load + byte)
        assert np.array_equal(read, matrix[row, lay.logical_of_slot(16 * wmma + k)])

    def test_accumulators_are_the_next_operand(self) -> None:
        """VGPR i of tile u is slot 8h + i of WMMA u, of the same token (a column of D and of B)."""
        lane, u, i = lay.grid(32, 2, 8)
        row, token = lay.wmma_d_element(lane, i)
        next_token, k = lay.wmma_operand_element(lane, i)
        assert np.array_equal(token, next_token)
        assert np.array_equal(lay.slot_of_logical(lay.direct_column(row, u)), 16 * u + k + 0 * lane)

    def test_attention_scores_are_the_probability_operand(self) -> None:
        """Key rows of tile 2s+u are slots 16u.. of k step s; queries and keys share the token order."""
        lane, s, u, i = lay.grid(32, 3, 2, 8)
        row, _ = lay.wmma_d_element(lane, i)
        key = lay.direct_column(row, 2 * s + u)
        _, k = lay.wmma_operand_element(lane, i)
        assert np.array_equal(key, 32 * s + lay.logical_of_slot(16 * u + k) + 0 * lane)

    def test_values_with_swapped_roles_are_an_operand(self) -> None:
        """V's D with tokens on A: lane = channel, VGPR = token slot, the form of an A operand over keys."""
        lane, i = lay.grid(32, 8)
        token_row, channel = lay.wmma_d_element(lane, i)
        operand_row, k = lay.wmma_operand_element(lane, i)
        assert np.array_equal(channel, operand_row)
        assert np.array_equal(token_row, k + 0 * lane)

    def test_score_bias_loads(self) -> None:
        """24 16-byte loads per lane read the whole table, each f16 where its accumulator is."""
        lane, pair, key_tile, load, half = lay.grid(32, 2, 6, 2, 8)
        query, key = lay.direct_bias_element(lane, pair, key_tile, load, half)
        byte = lay.direct_bias_offset(lane, pair, key_tile, load) + 2 * half
        assert np.array_equal(lay.score_bias_offset(query, key), byte)
        placed(byte >> 1, 0, 64 * 96)

    def test_score_bias_elements_are_the_lane_s_accumulators(self) -> None:
        lane, pair, key_tile, load, half = lay.grid(32, 2, 6, 2, 8)
        query, key = lay.direct_bias_element(lane, pair, key_tile, load, half)
        query_tile, query_row = lay.direct_row(query)
        key_tile_row, key_row = lay.direct_row(key)
        assert np.array_equal(query_row, (lane & 15) + 0 * query_row)
        assert np.array_equal(query_tile >> 1, pair + 0 * query_tile)
        assert np.array_equal(key_row >> 3, (lane >> 4) + 0 * key_row)
        assert np.array_equal(key_tile_row >> 1, (key_tile >> 1) + 0 * key_tile_row)

    def test_plane_words_are_two_eight_byte_stores(self) -> None:
        """A token's 32 plane bytes are in slot order: word t is n-tiles 0/2, word t|4 n-tiles 1/3."""
        lane, w, byte = lay.grid(32, 2, 4)
        _, slot = lay.nv_a_element(lane, 2 * w, byte)
        word = (lane & 3) | (4 * w)
        assert np.array_equal(4 * word + byte, slot + 0 * lane)


class TestStagedImages:
    @pytest.mark.parametrize("stride", [32, 40])
    def test_staged_operand_is_eight_consecutive_bytes(self, stride: int) -> None:
        token, k = lay.wmma_operand_element(*lay.grid(32, 8))
        offset = lay.staged_offset(token, 16 + k, stride)
        assert np.all(np.diff(offset, axis=1) == 1)
        assert np.array_equal(offset[:, 0], (LANE & 15) * stride + 16 + 8 * (LANE >> 4))

    def test_fragment_words_are_staged_words(self) -> None:
        lane, register, byte = lay.grid(32, 4, 4)
        row, slot = lay.nv_a_element(lane, register, byte)
        word = row * 32 + 16 * (register >> 1) + 4 * (lane & 3)
        assert np.array_equal(lay.staged_offset(row, slot), word + byte)

    @pytest.mark.parametrize("n_rows", [16, 32, 64])
    def test_slots_are_dense_and_written_by_words(self, n_rows: int) -> None:
        tile, lane, word, byte = lay.grid(n_rows // 16, 32, 4, 4)
        column, slot = lay.weight_lane_element(tile, lane, word, byte)
        offset = lay.kslot_offset(column, slot, n_rows)
        placed(offset, 0, 32 * n_rows)
        assert np.array_equal(offset, offset[..., :1] + byte)
        assert not np.any(offset[..., 0] & 3)

    def test_slots_give_the_direct_weight_operand(self) -> None:
        matrix, _ = random_block(32)
        n, slot = lay.grid(32, 32)
        slots = placed(lay.kslot_offset(n, slot, 32), matrix[n, lay.logical_of_slot(slot)], 1024)
        lane, u, w, byte = lay.grid(32, 2, 2, 8)
        row, k = lay.wmma_operand_element(lane, byte)
        column = lay.direct_column(row, u)
        read = slots[lay.kslot_offset(column, 16 * w + k, 32)]
        assert np.array_equal(read, matrix[column, lay.logical_of_slot(16 * w + k)])

    @pytest.mark.parametrize(("narrow", "tiles"), [(False, 2), (True, 1)])
    def test_dcell_exchange_returns_nvidia_s_d(self, narrow: bool, tiles: int) -> None:
        tile, lane, pair, half = lay.grid(tiles, 32, 4, 2)
        row, token = lay.wmma_d_element(lane, 2 * pair + half)
        column = row if narrow else lay.direct_column(row, tile)
        word = lay.dcell_write_word(tile, lane, pair)
        cells = placed(2 * word + half, 16 * column + token, 256 * tiles)
        lane, row_half, n_tile, half = lay.grid(32, 2, 2 * tiles, 2)
        nv_row, nv_column = lay.nv_d_element(lane, row_half, half)
        source, word = lay.dcell_read_word(lane, row_half, n_tile, narrow=narrow)
        read = cells[2 * (128 * source + word) + half]
        assert np.array_equal(read, 16 * (8 * n_tile + nv_column) + nv_row)

    def test_phase_result_image_is_dense_and_fits_the_lent_bytes(self) -> None:
        offset = lay.phase_result_offset(*lay.grid(32, 3, 2, 4))
        placed(offset >> 2, 0, 768)
        assert int(offset.max()) + 4 <= 3200

    def test_cut_result_word_of_an_nvidia_register(self) -> None:
        """Register (m, half, n) is the word at 512m + 256*half + 32g + 16n + 4t."""
        lane, m, row_half, n, half = lay.grid(32, 4, 2, 2, 2)
        row, column = lay.nv_d_element(lane, row_half, half)
        offset = lay.cut_result_offset(16 * m + row, 8 * n + column)
        word = 512 * m + 256 * row_half + 32 * (lane >> 2) + 16 * n + 4 * (lane & 3)
        assert np.array_equal(offset, word + 2 * half)

    def test_merge_reads_every_token_once(self) -> None:
        x, y = lay.merged_token(*lay.grid(16, 4))
        placed(8 * y + x, 0, 64)

    def test_merge_keeps_the_two_by_two_groups(self) -> None:
        """Merged row r is the group (X, Y); dx is bit 0 of the step, dy bit 1."""
        row, step = lay.grid(16, 4)
        x, y = lay.merged_token(row, step)
        assert np.array_equal(x >> 1, ((row & 7) >> 1) + 0 * step)
        assert np.array_equal(y >> 1, 2 * (row >> 3) + (row & 1) + 0 * step)
        assert np.array_equal(2 * (y & 1) + (x & 1), step + 0 * row)


# Symbolic addition trees: a commutative node is the sorted pair of its operands.

Tree = tuple[Any, ...]
Fold = Callable[[Callable[[int, int], Tree], int, int], Tree]


def add(left: Tree, right: Tree) -> Tree:
    return ("+", *sorted((left, right), key=repr))


def nvidia_row_sum(blocks: int) -> Tree:
    """The module's f16 addition tree of one row: column 8n + 2t + c, n first, then t, then c."""

    def leaf(n: int, t: int, c: int) -> Tree:
        return ("x", 8 * n + 2 * t + c)

    def lane_sum(t: int, c: int) -> Tree:
        parity = []
        for u in range(2):
            acc = add(leaf(u, t, c), leaf(u + 2, t, c))
            for block in range(1, blocks):
                n = 4 * block + u
                acc = add(acc, add(leaf(n, t, c), leaf(n + 2, t, c)))
            parity.append(acc)
        return add(*parity)

    def row_half(c: int) -> Tree:
        s = [lane_sum(t, c) for t in range(4)]
        return add(add(s[0], s[1]), add(s[2], s[3]))

    return add(row_half(0), row_half(1))


def engine_row_sum(blocks: int, *, halves_first: bool = False) -> Tree:
    """The engine's order: pairs of a tile, blocks inside a parity, parities, VGPR bit 2, l^16, low + high."""

    def leaf(tile: int, vgpr: int, h: int) -> Tree:
        return ("x", int(lay.direct_column(np.int64(vgpr + 8 * h), np.int64(tile))))

    def half_wave(h: int, c: int) -> Tree:
        quads = []
        for q in range(2):
            parity = []
            for u in range(2):
                acc: Tree | None = None
                for block in range(blocks):
                    tile = 2 * block + u
                    pair = add(leaf(tile, 4 * q + c, h), leaf(tile, 4 * q + 2 + c, h))
                    acc = pair if acc is None else add(acc, pair)
                assert acc is not None
                parity.append(acc)
            quads.append(add(*parity))
        return add(*quads)

    if halves_first:
        return add(*(add(half_wave(h, 0), half_wave(h, 1)) for h in range(2)))
    return add(*(add(half_wave(0, c), half_wave(1, c)) for c in range(2)))


class TestAdditionTrees:
    @pytest.mark.parametrize("blocks", [1, 2, 3])
    def test_engine_order_is_nvidia_s_tree(self, blocks: int) -> None:
        assert engine_row_sum(blocks) == nvidia_row_sum(blocks)

    @pytest.mark.parametrize("blocks", [1, 3])
    def test_low_plus_high_before_the_exchange_is_another_tree(self, blocks: int) -> None:
        assert engine_row_sum(blocks, halves_first=True) != nvidia_row_sum(blocks)

    def test_pairs_are_nvidia_s_registers(self) -> None:
        """Packed pair p of a tile is one f16x2 register of NVIDIA's D: same n-tile, same t."""
        lane, tile, pair, half = lay.grid(32, 6, 4, 2)
        row, _ = lay.wmma_d_element(lane, 2 * pair + half)
        n_tile, t = lay.direct_pair_element(lane, tile, pair)
        assert np.array_equal(lay.direct_column(row, tile), 8 * n_tile + 2 * t + half)
