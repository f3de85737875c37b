"""The results table: how it shows numbers, complaints and differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zluda.results import LAYERS, Row, State, conversions, ratios, reference, requests_of, row, table
from zluda_rr.emulate.gfx12 import CLASSES
from zluda_rr.errors import UserError
from zluda_rr.runtime import Progress, Shape, subject
from zluda_rr.runtime.bench import VariantCounts

QUIET = Progress(quiet=True)


def counts(total: float) -> VariantCounts:
    """A kernel of that many instructions, all of them VALU."""
    classes = {**dict.fromkeys(CLASSES, 0.0), "valu": total}
    return VariantCounts(total, 0.0, classes, classes, {}, {}, 0.0, 0.0, 96, 100, 64, 3200, 0.0)


ROWS = (
    Row("a", "enc0", "original", counts(50_000.0), "yes"),
    Row("b", "enc0", "original", counts(40_000.4), "NO (3 of 3 models)"),
    Row("b", "enc0", "rewritten (layer body)", counts(8_000.0), "yes"),
    Row("a", "enc1", "original", problem="no such instruction %p1|%p2"),
)


def test_table_has_a_cell_per_head() -> None:
    lines = table(ROWS).splitlines()
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert lines[3].split("|")[4].strip() == "40,000"
    assert lines[3].endswith("| 96 | 64 | 3200 | NO (3 of 3 models) |")
    assert lines[5].endswith("| does not compile or run: `no such instruction %p1\\|%p2` |")


def test_ratio_is_best_against_best() -> None:
    assert ratios(ROWS) == (
        "- enc0: best original (b) 40,000, best rewritten (layer body) (b) 8,000 instructions per wave: "
        "5.00 times fewer"
    )


@pytest.mark.parametrize("word", ["zoc", "=zoc", "a=", "a=nothing-there"])
def test_states_are_names_of_files(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZLUDA_RR_ZOC", raising=False)
    with pytest.raises(UserError):
        State.parse(word)


@pytest.mark.parametrize("layer", LAYERS)
def test_both_kernels_are_measured(layer: str) -> None:
    names = [name for name, _ in requests_of(subject(layer, (), fusion=layer == "enc1"))]
    assert names[0] == "original"
    assert names[1].startswith("rewritten")


def test_a_compiler_that_refuses_is_a_row(tmp_path: Path) -> None:
    zoc = tmp_path / "zoc"
    zoc.write_text("#!/bin/sh\necho 'mma is unknown' >&2\nexit 1\n")
    zoc.chmod(0o755)
    state = State("broken", zoc)
    ref = reference("enc0", Shape(ex=2, ey=2, shift_x=0, shift_y=0), QUIET)
    kernel, request = requests_of(ref.what)[0]
    found = row(state, ref, kernel, request, QUIET)
    assert (found.counts, found.problem) == (None, "mma is unknown")
    assert "| broken | does not compile: `mma is unknown` |" in conversions([state], QUIET)
