"""The reference module enc0, from every compiler, through the lowering."""

import lzma
from pathlib import Path

import pytest

from zluda_rr.lower import lower_module, pair_statements
from zluda_rr.ptx import Module, linearise, parse
from zluda_rr.resources import resource_dir

ENTRY = "cuda_dldn_engine_swin_enc0_kernel"
TILES = 268  # 536 mma, two to a tile
# Tiles of the phases with C = 0: 3, 4, 8, 9 (12 each), and the first of three k steps of 6 and 11 (8 each).
ZERO_TILES = 4 * 12 + 2 * 8


def modules() -> list[Path]:
    return sorted(resource_dir("modules").glob("enc0*.ptx.xz"))


def read(path: Path) -> Module:
    return parse(lzma.decompress(path.read_bytes()).decode(), filename=path.name)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.name)
def test_every_mma_finds_its_partner(path: Path) -> None:
    module = read(path)
    body = linearise(module.entries[0], module)
    assert sum(s.opcode == "mma" for s in body.statements) == 2 * TILES
    pairs = pair_statements(body.statements)
    assert len(pairs) == TILES
    assert all(second - first == 1 for first, second in pairs.items()) or "reordered" in path.name


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.name)
def test_lowered_text(path: Path) -> None:
    module = read(path)
    text = lower_module(module, module.entries[0].name)
    assert text.count(" @zrt_mma_e4m3_pair(") == TILES - ZERO_TILES + 1  # and the declaration
    assert text.count(" @zrt_mma_e4m3_pair_zero(") == ZERO_TILES + 1
    assert '"denormal-fp-math-f32"="preserve-sign,preserve-sign"' in text
    assert "byref([1032 x i8])" in text
