"""The stated arithmetic: current, the same in every build, and readable."""

from pathlib import Path

import pytest

from tests.rewrite.conftest import corpus
from tests.tools.forms import DOCS, generate, recognised
from zluda_rr.image import read_ptx
from zluda_rr.ptx import parse
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import LayerContract, LayerMatch, canonical_terms, match_entry, phase_forms


def test_rule_and_listing_are_current() -> None:
    """Else: `python -m tests.tools.forms enc0`."""
    rule, forms = generate(recognised("enc0"))
    assert (resource_dir("rules") / "enc0.toml").read_text() == rule
    assert (DOCS / "enc0-forms.txt").read_text() == forms


@pytest.mark.parametrize("name", ["enc0-nvcc13.5", "enc0-nvrtc12.9", "enc0-reordered", "enc0-parambase"])
def test_other_builds_compute_the_same(name: str, match: LayerMatch, contract: LayerContract) -> None:
    other = match_entry(parse(read_ptx(corpus(name))), contract)
    assert phase_forms(canonical_terms(other), other) == {row.index: row.form for row in contract.phases}


def test_no_operand_is_opaque(match: LayerMatch) -> None:
    """Every instruction on the way to an operand has a rule: an opaque term would equal nothing of another build."""
    canonical = canonical_terms(match)
    phase_forms(canonical, match)
    assert not [content for content in canonical.terms.table.values() if content[0] == "unknown"]


def test_listing_shows_the_constants() -> None:
    text = Path(DOCS / "enc0-forms.txt").read_text()
    for constant in ("0x800", "0x2466", "0xb873", "0x3b6b", "0x3d80"):
        assert constant in text, constant
