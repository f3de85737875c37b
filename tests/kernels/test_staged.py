"""Primitives on staged images against numpy models, in the emulator."""

import numpy as np
import pytest

from tests.kernels import model
from tests.kernels.harness import as_words, compile_probe, run_probe
from zluda_rr.numerics import layout as lay
from zluda_rr.numerics.mma import WMMA_MODELS

LANE = np.arange(32)
DUMP = (
    "lds_order(); for (uint32_t i = l; i < {words}; i += 32) out[{words} * block + i] = *lds_at<uint32_t>(lds, 4 * i);"
)


def weight_image(matrix: np.ndarray) -> np.ndarray:
    """The module's bytes of a block given by (column, slot)."""
    columns = len(matrix)
    n, slot = lay.grid(columns, 32)
    image = np.zeros(32 * columns, dtype=np.uint8)
    image[lay.weight_offset(n, lay.logical_of_slot(slot))] = matrix
    return image


def fragments(tokens: np.ndarray) -> np.ndarray:
    """A fragment words [m-tile, register, lane] of tokens u8[rows, 32] in slot order."""
    m, register, lane, byte = lay.grid(len(tokens) // 16, 4, 32, 4)
    row, slot = lay.nv_a_element(lane, register, byte)
    return np.ascontiguousarray(tokens[16 * m + row, slot]).view(np.uint32)[..., 0]


@pytest.mark.parametrize("columns", [16, 32, 64])
def test_slots_from_wimg(columns: int) -> None:
    matrix = model.random_codes(np.random.default_rng(columns), (columns, 32))
    body = f"swin_slots_from_wimg<{columns}>(lds, global_pointer((uint64_t)in), 64);" + DUMP.format(words=8 * columns)
    padded = np.concatenate([np.zeros(64, dtype=np.uint8), weight_image(matrix)])
    slots = run_probe(compile_probe("zrr_staged.h", body), padded, 8 * columns).view(np.uint8)
    n, slot = lay.grid(columns, 32)
    assert np.array_equal(slots[lay.kslot_offset(n, slot, columns)], matrix)


@pytest.mark.parametrize("tiles", [1, 3, 4])
def test_stage_fragment_is_the_image_in_slot_order(tiles: int) -> None:
    tokens = model.random_codes(np.random.default_rng(tiles), (16 * tiles, 32))
    body = f"""
    uint32_t frag[{4 * tiles}];
    for (int i = 0; i < {4 * tiles}; ++i) frag[i] = in[32 * i + l];
    swin_stage_fragment<{tiles}, 32>(lds, frag);
    """ + DUMP.format(words=128 * tiles)
    image = run_probe(compile_probe("zrr_staged.h", body), fragments(tokens), 128 * tiles).view(np.uint8)
    assert np.array_equal(image.reshape(16 * tiles, 32), tokens)


def test_operands_are_the_wmma_bytes() -> None:
    """Image rows as B, slots as A: lane l holds row r, slots 16w + 8h ..+7, dwords in order."""
    tokens = model.random_codes(np.random.default_rng(5), (32, 32))
    body = """
    for (int i = 0; i < 8; ++i) *lds_at<uint32_t>(lds, 4 * (32 * i + l)) = in[32 * i + l];
    lds_order();
    for (int w = 0; w < 2; ++w) {
        const kop image = swin_operand<32>(lds, 16, w), slots = kop_image(lds, 2 * (l & 15) + w);
        for (int d = 0; d < 2; ++d) out[32 * (2 * w + d) + l] = image.word[d];
        for (int d = 0; d < 2; ++d) out[32 * (4 + 2 * w + d) + l] = slots.word[d];
    }
    """
    out = run_probe(compile_probe("zrr_staged.h", body), tokens, 256)
    lane, w, byte = lay.grid(32, 2, 8)
    row, k = lay.wmma_operand_element(lane, byte)
    for base, expected in ((0, tokens[16 + row, 16 * w + k]), (128, tokens[row, 16 * w + k])):
        read = out[base : base + 128].reshape(2, 2, 32).transpose(2, 0, 1)
        assert np.array_equal(np.ascontiguousarray(read).view(np.uint8), expected)


@pytest.mark.parametrize(("order", "tiles", "n_tiles"), [("direct", 2, 4), ("narrow", 1, 2)])
def test_dcell_exchange(order: str, tiles: int, n_tiles: int) -> None:
    """Each cell of two 16-token tiles carries its own number through writer and reader."""
    body = f"""
    for (int tile = 0; tile < {2 * tiles}; ++tile) {{
        Pairs pairs;
        for (int p = 0; p < 4; ++p) pairs.pair[p] = as_half2(in[32 * (4 * tile + p) + l]);
        swin_dcell_write(lds, tile, pairs);
    }}
    lds_order();
    for (int token = 0; token < 2; ++token)
        for (int half = 0; half < 2; ++half)
            for (int n = 0; n < {n_tiles}; ++n)
                out[32 * ({2 * n_tiles} * token + {n_tiles} * half + n) + l] =
                    swin_dcell_read<RowOrder::{order}>(lds, token, 2, half, n);
    """
    # Tiles in the order of the exchange: weight tile first, token tile innermost.
    u, token, pair, lane, half = lay.grid(tiles, 2, 4, 32, 2)
    row, column = lay.wmma_d_element(lane, 2 * pair + half)
    out_column = row if order == "narrow" else lay.direct_column(row, u)
    cells = (1000 * (16 * token + column) + out_column).astype(np.uint16)
    words = np.ascontiguousarray(np.broadcast_to(cells, (tiles, 2, 4, 32, 2)))
    out = run_probe(compile_probe("zrr_staged.h", body), words, 64 * 2 * n_tiles).view(np.uint16)
    token, row_half, n, lane, half = lay.grid(2, 2, n_tiles, 32, 2)
    nv_row, nv_column = lay.nv_d_element(lane, row_half, half)
    expected = (1000 * (16 * token + nv_row) + 8 * n + nv_column).astype(np.uint16)
    assert np.array_equal(out.reshape(expected.shape), expected)


@pytest.mark.parametrize("mode", ["plain", "relu", "activate"])
def test_stage_operand_over_all_halves(mode: str) -> None:
    """All 65,536 halves in both packed positions: 256 waves, each stages one tile of 256 values, twice."""
    body = f"""
    Pairs tile;
    for (int p = 0; p < 4; ++p) tile.pair[p] = as_half2(in[128 * block + 4 * l + p]);
    swin_stage_operand_p<StageMode::{mode}, 32>(lds, 0, 0, tile);
    for (int p = 0; p < 4; ++p) tile.pair[p] = swap_halves(tile.pair[p]);
    swin_stage_operand_p<StageMode::{mode}, 32>(lds, 0, 1, tile);
    """ + DUMP.format(words=128)
    halves = np.arange(65536, dtype=np.uint16)
    out = run_probe(compile_probe("zrr_staged.h", body), halves, 128 * 256, blocks=256).view(np.uint8)
    value = halves.view(np.float16)
    codes = model.encode(model.activation(value) if mode == "activate" else value, relu=mode == "relu")
    if mode == "activate":  # the sign of a computed NaN is not defined
        out = np.where(out & 0x7F == 0x7F, 0x7F, out)
        codes = np.where(codes & 0x7F == 0x7F, 0x7F, codes)
    image = out.reshape(256, 16, 2, 2, 8)  # wave, token r, chunk, h, byte
    source = codes.reshape(256, 2, 16, 8).transpose(0, 2, 1, 3)  # lane = 16h + r
    assert np.array_equal(image[:, :, 0], source)
    assert np.array_equal(image[:, :, 1], source.reshape(*source.shape[:3], 4, 2)[..., ::-1].reshape(source.shape))


@pytest.mark.parametrize("wmma_model", WMMA_MODELS)
@pytest.mark.parametrize("kind", ["random", "cancelling"])
def test_k32_step(wmma_model: str, kind: str) -> None:
    """16 tokens by 16 columns with a C: lower slots first, one rounding to f16."""
    rng = np.random.default_rng(11)
    a, b = model.random_codes(rng, (16, 32)), model.random_codes(rng, (16, 32))
    if kind == "cancelling":
        a, b = model.cancelling_codes(rng, 16, 16)
    c = rng.normal(0, 64, (16, 16)).astype(np.float16)
    body = """
    for (int i = 0; i < 8; ++i) *lds_at<uint32_t>(lds, 4 * (32 * i + l)) = in[32 * i + l];
    lds_order();
    Pairs tile;
    for (int p = 0; p < 4; ++p) tile.pair[p] = as_half2(in[256 + 32 * p + l]);
    tile = round_tile(k32_e4m3(widen(tile), swin_operand<32>(lds, 16, 0), swin_operand<32>(lds, 0, 0),
                               swin_operand<32>(lds, 16, 1), swin_operand<32>(lds, 0, 1)));
    for (int p = 0; p < 4; ++p) out[32 * p + l] = as_bits(tile.pair[p]);
    """
    pair, lane, half = lay.grid(4, 32, 2)
    column, token = lay.wmma_d_element(lane, 2 * pair + half)
    seeds = np.ascontiguousarray(c[token, column])
    compiled = compile_probe("zrr_staged.h", body)
    out = run_probe(compiled, as_words(a, b, seeds), 128, model=wmma_model).view(np.float16)
    expected = model.step(a, b, c, wmma_model)[token, column]
    assert np.array_equal(out.reshape(expected.shape), expected)
