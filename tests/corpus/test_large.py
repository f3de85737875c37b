"""The benchmark's modules have the size asked for and the structure promised."""

from __future__ import annotations

import pytest

from .large import LINES, branches, large_module
from .structure import mma_runs


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return large_module(12_000, tmp_path_factory.mktemp("large"))


def test_size_and_phases(small):
    text = small.read_text()
    assert 0.85 * 12_000 < text.count("\n") < 1.15 * 12_000
    assert mma_runs(text) == [32, 32] * branches(12_000)
    assert ".local" not in text


def test_a_module_is_compiled_once(small, monkeypatch):
    monkeypatch.setattr("tests.corpus.large.nvcc_13_0", None)
    assert large_module(12_000, small.parent) == small


def test_number_of_branches_grows_with_the_lines():
    counts = [branches(lines) for lines in (1, 30_000, LINES, 250_000)]
    assert counts[0] == 1
    assert counts == sorted(set(counts))
