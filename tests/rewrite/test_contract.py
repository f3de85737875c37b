"""Rule files: what they say, and what is wrong with a bad one."""

from pathlib import Path

import pytest

from zluda_rr.contract import ContractError, LayerContract, load_contract, load_contracts, read_contract
from zluda_rr.contract.expressions import evaluate
from zluda_rr.resources import resource_dir


def test_launch_of_the_reference_size(contract: LayerContract) -> None:
    assert contract.launch.grid_size(1280, 736, 4, 4) == (161, 93, 1)
    assert contract.launch.block == (32, 1, 1)
    assert (contract.launch.extents_offset, contract.launch.shift_offset) == (0, 80)


def test_buffers_and_surfaces(contract: LayerContract) -> None:
    sizes = {b.name: (b.offset, b.size(44, 36), b.role) for b in contract.buffers}
    assert sizes == {
        "weights": (40, 54560, "weights"),
        "plane_arena": (48, 32 * 44 * 36, "output"),
        "merged_planes": (56, 16 * 44 * 36, "output"),
    }
    extents = {s.offset: (s.extent(44, 36), s.role) for s in contract.surfaces}
    assert extents == {
        304: ((44, 36), "input"),
        112: ((44, 36), "output"),
        120: ((44, 36), "output"),
        128: ((22, 18), "output"),
    }


def test_weight_regions_tile_the_image(contract: LayerContract) -> None:
    end = 0
    for region in contract.weights:
        assert region.offset == end
        end += region.nbytes
    assert end == contract.weights_bytes == 54560
    assert {r.name for r in contract.weights if r.bounded} == {"P2.c", "P7.table"}


def test_rule_files_name_no_register_and_no_statement() -> None:
    import re

    for path in resource_dir("rules").glob("*.toml"):
        text = path.read_text()
        assert not re.search(r"%\w+\d|\bs\d{3,}\b|_Z\w+", text)


def test_all_rules_load() -> None:
    assert [c.layer for c in load_contracts()] == sorted(p.stem for p in resource_dir("rules").glob("*.toml"))


def test_unknown_layer() -> None:
    with pytest.raises(ContractError, match=r"no rule file for layer 'enc99'; known layers: .*enc0"):
        load_contract("enc99")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 7", "schema 7, this version reads schema 1"),
        ("schema = 1", "schema = = 1", "Invalid value"),
        ('layer = "enc0"', "", "KeyError: 'layer'"),
        ("shape = [96, 32, 32]\nmma = 24", "shape = [96, 32, 32]\nmma = 25", "phase 1: shape 96x32x32"),
        ("at = 4096, bytes = 1024", "at = 4096, bytes = 512", "phase 1: B of 512 bytes, N.K is 1024"),
        ("at = 54016, bytes = 512", "at = 54300, bytes = 512", "phase 22: .* ends after the weight image"),
        ("at = 5120, bytes = 64", "at = 5184, bytes = 64", "inside the region before it"),
        ('kind = "relu-pack", phase = 1', 'kind = "relu-pack", phase = 2', "phase 2: .* is not an earlier phase"),
        ('kind = "relu-pack", phase = 1', 'kind = "relu", phase = 1', "operand kind 'relu'"),
        ("index = 2\n", "index = 3\n", "phase 3: is number 2 in the file"),
        ("region = { phase = 8 }", "region = { phase = 88 }", "phase 88 does not exist"),
        ('symbol = "zrr_swin_phase"', 'symbol = "swin_phase"', "does not start with zrr_"),
        ("rows = 48", "rows = 40", "40 rows per call"),
    ],
)
def test_bad_rule_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (resource_dir("rules") / "enc0.toml").read_text()
    assert old in text
    path = tmp_path / "enc0.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ContractError, match=message) as error:
        read_contract(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value).strip()


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="missing"):
        read_contract(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("ceil((ex + 3) / 8)", 2), ("ex / 2 - 1", 5), ("2 * ex", 24), ("ceil(ex / 4)", 3), ("7", 7)],
)
def test_expressions(text: str, value: int) -> None:
    assert evaluate(text, {"ex": 12}) == value


@pytest.mark.parametrize("text", ["ex ** 2", "__import__('os')", "ex if ex else 1", "ceil(ex)", "1.5"])
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an integer expression"):
        evaluate(text, {"ex": 12})
