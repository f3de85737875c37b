"""A rewrite reads the rules once, and analyses and proves a kernel once, whoever asks."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zluda_rr.hook import transform
from zluda_rr.hook.options import read_settings
from zluda_rr.image import shipped_module
from zluda_rr.rewrite import pipeline
from zluda_rr.runtime import subject

BOTH = Path(__file__).parent.parent / "corpus/ptx/rr.ptx.xz"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    for module, name in ((pipeline, "match_entry"), (pipeline, "examine_cut"), (transform, "load_contracts")):
        original = getattr(module, name)

        def count(*arguments: Any, _name: str = name, _original: Any = original) -> Any:
            counted[_name] += 1
            return _original(*arguments)

        monkeypatch.setattr(module, name, count)
    return counted


def test_a_hook_miss(calls: Counter[str]) -> None:
    entry = transform.transform_image(shipped_module("enc0").read_bytes(), read_settings({}))
    assert entry.note == "enc0 (layer)"
    assert calls == {"load_contracts": 1, "match_entry": 1, "examine_cut": 1}


def test_variants_of_a_subject_share_the_proofs(calls: Counter[str]) -> None:
    what = subject("enc0", ("layer",), body="staged")
    staged, captured = what.rewrite(), what.rewrite(capture=True)
    assert [plan.rule.symbol for plan in staged.plans] == ["zrr_swin_enc0_staged"]
    assert captured.capture is not None
    assert captured.match is staged.match
    assert (calls["match_entry"], calls["examine_cut"]) == (1, 1)


def test_a_kernel_whose_rule_states_no_cut_says_so() -> None:
    settings = read_settings({"ZLUDA_RR_TARGET": "nvptx", "ZLUDA_RR_LAYERS": "enc1"})
    entry = transform.transform_image(BOTH.read_bytes(), settings)
    assert entry.note == "enc1 refused: no cut is stated for it"
