"""docs/add-a-layer.md, done: enc1 with one more branch, and the offsets that follow: compiled, drafted, recognised."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus.build import SOURCES, rename_entry
from tests.corpus.compilers import nvcc_13_0
from zluda_rr.contract import load_contracts, read_contract
from zluda_rr.ptx import parse
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import draft_rule, match_entry

pytestmark = pytest.mark.soak

BRANCH_BYTES = 4160
"""2048 of the first matrix, 64 of its seeds, 2048 of the second."""
LAST_BRANCH = "    mlp_branch<kNoTable>(even, normed, odd, w, 66496, 68608);\n"
BEHIND = (70656, 95232, 95424, 96448)
"""Offsets of merge and logits in enc1."""


def toy_source(text: str) -> str:
    """enc1.cu with a ninth branch, and everything behind it moved."""
    assert text.count(LAST_BRANCH) == text.count("requantise_rows(q, even)") == 1
    text = text.replace(LAST_BRANCH, LAST_BRANCH + "    mlp_branch<kNoTable>(odd, normed, even, w, 70656, 72768);\n")
    text = text.replace("requantise_rows(q, even)", "requantise_rows(q, odd)")
    for offset in BEHIND:
        text, count = re.subn(rf"p\.weights\(\), {offset}\)", f"p.weights(), {offset + BRANCH_BYTES})", text)
        assert count == 1
    return text


def renamed(text: str) -> str:
    """A name of four letters, so that the lengths in mangled names stay."""
    return text.replace("Enc1", "Toy9").replace("enc1", "toy9")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("cuda")
    for header in SOURCES.glob("*.cuh"):
        (folder / header.name).write_bytes(header.read_bytes())
    (folder / "toy9_params.cuh").write_text(renamed((SOURCES / "enc1_params.cuh").read_text()))

    def build(source: str) -> str:
        (folder / "toy9.cu").write_text(renamed(source))
        return rename_entry(nvcc_13_0().compile(folder / "toy9.cu", ()))

    return build


def test_a_new_layer_is_drafted_and_recognised(compiled: Callable[[str], str], tmp_path: Path) -> None:
    ptx = compiled(toy_source((SOURCES / "enc1.cu").read_text()))
    family = resource_dir("rules") / "swin.toml"
    draft = draft_rule(ptx, family, filename="toy9.ptx")
    assert draft.difference is None
    assert draft.layer == "toy9"
    (tmp_path / family.name).write_bytes(family.read_bytes())
    (tmp_path / "toy9.toml").write_text(draft.text)
    contract = read_contract(tmp_path / "toy9.toml")
    assert [c.layer for c in load_contracts(tmp_path)] == ["toy9"]
    assert len(contract.phases) == 34
    assert contract.weights_bytes == 96480 + BRANCH_BYTES
    assert match_entry(parse(ptx), contract).equal


def test_a_wrong_offset_is_named(compiled: Callable[[str], str]) -> None:
    """The likeliest mistake: the merge is moved, its seeds are not."""
    right = toy_source((SOURCES / "enc1.cu").read_text())
    wrong = right.replace(f"p.weights(), {95232 + BRANCH_BYTES})", "p.weights(), 95232)")
    draft = draft_rule(compiled(wrong), resource_dir("rules") / "swin.toml", filename="toy9.ptx")
    assert draft.difference is not None
    assert draft.difference.startswith("phase 33: C")
