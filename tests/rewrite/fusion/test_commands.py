"""The switches, and a rule file with a mistake, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zluda_rr.cli import main
from zluda_rr.rewrite import fusion, fusion_wanted

from .test_kernels import text_of


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "attention48.ptx"
    path.write_text(text_of("attention48"))
    return path


def inspect(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["inspect", str(path), *options], catch_exceptions=False)


def test_inspect_lists_the_chains(sample: Path) -> None:
    output = inspect(sample).output
    assert "fusion    39 products in WMMA order, 5 chains" in output
    assert "P2 -> P4 B" in output
    assert "P5 -> other code in NVIDIA's order: st.global.u32 is not proved" in output


def test_inspect_as_json(sample: Path) -> None:
    found = json.loads(inspect(sample, "--json").output)["fusion"]["attention48"]
    assert found["products"] == 39
    assert found["chains"][0]["exchanges_saved"] == 24
    assert {entry["rule"]: entry["applied"] for entry in found["rules"]}["product"] == 39


def test_the_switches(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "fusion " not in inspect(sample, "--no-fusion").output
    monkeypatch.setenv("ZLUDA_RR_FUSION", "0")
    assert "fusion " not in inspect(sample).output
    assert "fusion " in inspect(sample, "--fusion").output


def test_the_switch_before_the_environment_before_the_default() -> None:
    assert fusion_wanted(None, {}, default=True)
    assert not fusion_wanted(None, {"ZLUDA_RR_FUSION": "0"}, default=True)
    assert fusion_wanted(None, {"ZLUDA_RR_FUSION": "1"}, default=False)
    assert fusion_wanted(True, {"ZLUDA_RR_FUSION": "0"}, default=False)
    assert not fusion_wanted(None, {"ZLUDA_RR_FUSION": "perhaps"}, default=False)


def test_a_mistake_in_the_rules_is_shown_in_the_rules(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / fusion.RULE_FILE).write_text('rule x {\n  reason "r" source "s"\n  match { $d = neg.f16x2 $a }\n')
    monkeypatch.setattr(fusion, "resource_dir", lambda name: tmp_path)
    result = inspect(sample)
    assert result.exit_code == 2
    assert f"{fusion.RULE_FILE}:3:29: expected" in result.stderr
    assert result.stderr.splitlines()[-1] == " " * 30 + "^"
