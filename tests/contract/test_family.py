"""Layers from numbers: the tables that the family gives, and rule files that are refused."""

import json
from pathlib import Path

import pytest

from zluda_rr.contract import ContractError, LayerNumbers, Window, expand, load_contract, show_contract

GOLDEN = Path(__file__).parent / "golden"
BEFORE = json.loads((GOLDEN / "before.json").read_text())
"""Phases and weight regions as they were written by hand, phase by phase, before the family's rule made them."""


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
def test_the_family_gives_what_was_written_by_hand(layer: str) -> None:
    contract = load_contract(layer)
    rows = [[r.index, "x".join(map(str, r.shape)), r.mma, str(r.a), str(r.b), str(r.c)] for r in contract.phases]
    assert rows == BEFORE[layer]
    regions = [[w.name, w.offset, w.nbytes, w.kind, w.bounded] for w in contract.weights]
    assert regions == BEFORE[f"{layer} weights"]


def test_all_phases_of_both_layers_are_compared() -> None:
    assert len(BEFORE["enc0"]) + len(BEFORE["enc1"]) == 54


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
def test_expanded_tables_are_current(layer: str) -> None:
    """`zluda-rr rules show LAYER` prints the golden text."""
    assert show_contract(load_contract(layer)) == (GOLDEN / f"{layer}.txt").read_text()


def numbers(**changes: object) -> LayerNumbers:
    plain: dict[str, object] = {
        "channels": 64, "heads": 2, "branches": 8, "window": Window((8, 8), 1), "input_kind": "planes", "input_at": 0,
        "input_parameter": 8, "array": "", "merge": 96, "logits": 16,
    }  # fmt: skip
    return LayerNumbers(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("channels", "heads", "branches", "merge", "end"),
    [(96, 4, 12, 128, 212_256), (128, 4, 16, 160, 315_744), (160, 8, 20, 160, 533_856)],
)
def test_images_of_other_layers_close(channels: int, heads: int, branches: int, merge: int, end: int) -> None:
    """enc2, enc3 and enc4 have these images (docs/reference): their numbers alone give their size."""
    found, image = expand(numbers(channels=channels, heads=heads, branches=branches, merge=merge))
    assert image == end
    assert all((m // 16) * (n // 8) * (k // 32) == row.mma for row in found for m, n, k in [row.shape])


def test_windows_are_a_field() -> None:
    """4x4 tokens without a ring: one m-tile of queries, keys the same tokens: no whole k step, so refused; 8x4 fits."""
    rows, _ = expand(numbers(window=Window((8, 4), 0)))
    scores = next(row for row in rows if str(row.c).startswith("bias"))
    assert scores.shape == (32, 32, 32)
    with pytest.raises(ContractError, match="window of 16 queries and 16 keys"):
        expand(numbers(window=Window((4, 4), 0)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": 48}, "channels = 48"),
        ({"heads": 0}, "heads and branches"),
        ({"merge": 40}, "merge = 40"),
        ({"logits": 9}, "logits = 9"),
        ({"input_kind": "embedding"}, "an embedding gives 32"),
    ],
)
def test_impossible_numbers(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        expand(numbers(**changes))
