"""`rules show` and `rules draft`: a shipped layer's rule comes out of its kernel, but for names."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.image.samples import SMALL_PTX
from zluda_rr.cli import main
from zluda_rr.contract import load_contract, show_contract
from zluda_rr.image import shipped_module
from zluda_rr.resources import resource_dir

HEAD = ".version 9.0\n.target sm_89\n.address_size 64\n"
PRODUCT = f"""{HEAD}.visible .entry product(.param .u64 p)
{{
\t.reg .b32 %r<9>;
\t.reg .b64 %rd<3>;
\tld.param.u64 %rd1, [p];
\tmov.u32 %r1, 0;
\tmma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {{%r2,%r3}}, {{%r1,%r1,%r1,%r1}}, {{%r1,%r1}}, {{%r1,%r1}};
\tst.global.u32 [%rd1], %r2;
\tst.global.u32 [%rd1+4], %r3;
\tret;
}}
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def without_names(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule with its surfaces by parameter; what a kernel cannot show is left out."""
    surfaces = {table["parameter"]: table for table in rule["surfaces"].values()}
    weights = {key: value for key, value in rule["weights"].items() if key != "regions"}
    return {**{k: v for k, v in rule.items() if k != "cut"}, "surfaces": surfaces, "weights": weights}


def shipped_rule(layer: str) -> dict[str, Any]:
    return tomllib.loads((resource_dir("rules") / f"{layer}.toml").read_text())


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
def test_show_is_the_expanded_rule(layer: str) -> None:
    result = run("rules", "show", layer)
    assert result.exit_code == 0
    assert result.output == show_contract(load_contract(layer))


def test_show_names_the_known_layers() -> None:
    result = run("rules", "show", "enc9")
    assert result.exit_code == 2
    assert "known layers: enc0, enc1" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
def test_a_draft_is_the_layers_rule(layer: str, tmp_path: Path) -> None:
    draft = tmp_path / "draft.toml"
    result = run("rules", "draft", shipped_module(layer), "-o", draft)
    assert result.exit_code == 0, result.output
    drafted, rule = tomllib.loads(draft.read_text()), shipped_rule(layer)
    assert without_names(drafted) == without_names(rule)
    if layer == "enc1":  # no cuts, no regions that the prologue reads: nothing is left out
        assert drafted.keys() == rule.keys()
        assert drafted["weights"] == rule["weights"]
    assert "# Not inferred: names of surfaces" in draft.read_text()
    assert "not inferred: cuts" in result.output


def test_a_difference_is_no_success(tmp_path: Path) -> None:
    """A family with another constant in its norm: the draft says that the kernel is not what it states."""
    family = tmp_path / "swin.toml"
    family.write_text((resource_dir("rules") / "swin.toml").read_text().replace("0x0800", "0x0801"))
    result = run("rules", "draft", shipped_module("enc1"), "--family", family)
    assert result.exit_code == 1
    assert "not proved: phase" in result.output


@pytest.mark.parametrize(
    ("text", "reason"), [(SMALL_PTX, "0 kernels with products"), (PRODUCT, "no layer of the family")]
)
def test_a_kernel_of_no_family(text: str, reason: str, tmp_path: Path) -> None:
    module = tmp_path / "module.ptx"
    module.write_text(text)
    result = run("rules", "draft", module)
    assert result.exit_code == 2
    assert reason in result.output
    assert result.output.count("\n") == 1


def test_an_unknown_family() -> None:
    result = run("rules", "draft", shipped_module("enc1"), "--family", "conv")
    assert result.exit_code == 2
    assert "no such family" in result.output
