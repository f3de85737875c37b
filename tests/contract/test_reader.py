"""Rule files: what they say, and what is wrong with a bad one."""

import re
from pathlib import Path

import pytest

from zluda_rr.contract import ContractError, LayerContract, load_contract, load_contracts, read_contract
from zluda_rr.contract.expressions import evaluate
from zluda_rr.errors import UserError
from zluda_rr.resources import resource_dir


@pytest.fixture(scope="module")
def contract() -> LayerContract:
    return load_contract("enc0")


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
    for path in resource_dir("rules").glob("*.toml"):
        text = path.read_text()
        assert not re.search(r"%\w+\d|\bs\d{3,}\b|_Z\w+", text)


def test_all_rules_load() -> None:
    families = {c.family for c in load_contracts()}
    layers = {p.stem for p in resource_dir("rules").glob("*.toml")} - families
    assert [c.layer for c in load_contracts()] == sorted(layers)


def test_unknown_layer() -> None:
    with pytest.raises(ContractError, match=r"no rule file for layer 'enc99'; known layers: .*enc0"):
        load_contract("enc99")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 2", "schema = 7", "schema 7, this version reads schema 2"),
        ("schema = 2", "schema = = 2", "Invalid value"),
        ('layer = "enc0"', "", "key 'layer' is missing"),
        ("channels = 32", "channels = 64", "an embedding gives 32"),
        ("channels = 32", 'channels = "many"', "channels = 'many', a number is needed"),
        ("heads = 2", "heads = 3", "weights.bytes = 54560, the phases end at 69920"),
        ("branches = 4", "branches = 5", "weights.bytes = 54560, the phases end at 56672"),
        ("waves = 1", 'waves = 1\nepilogue = "banana"', "unknown key 'epilogue'"),
        ("tokens = [8, 8]", "tokens = [4, 8]", "is not the launch's tile"),
        ("ring = 1", "ring = 2", "weights.bytes = 54560"),
        ("merge = 64", "merge = 96", "weights.bytes = 54560"),
        ("bytes = 54560", "bytes = 54561", "weights.bytes = 54561, the phases end at 54560"),
        ("at = 4096\n", "at = 4160\n", "the phases end at 54624"),
        ("at = 256, bytes = 3840", "at = 128, bytes = 3840", "inside the region before it"),
        ("at = 256, bytes = 3840", "at = 256, bytes = 3836", "4 bytes after it"),
        ('kind = "embedding"', 'kind = "tokens"', "'embedding' or 'planes' is needed"),
        ('role = "output" }\nhalf', 'role = "both" }\nhalf', "'input' or 'output' is needed"),
        ("phase = 8 ", "phase = 88 ", "phase 88 does not exist"),
        ("phases = [1, 22]", "phases = [22, 1]", "phases 22 to 1"),
        ('symbol = "zrr_swin_phase"', 'symbol = "swin_phase"', "does not start with zrr_"),
        ("rows = 48", "rows = 40", "40 rows per call"),
        ('lend = "input_tensor"\nbody', 'lend = "input_sensor"\nbody', "lend = 'input_sensor'"),
        ('name = "phase8"', 'name = "phase8"\nform = 1', "unknown key 'form'"),
    ],
)
def test_bad_rule_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (resource_dir("rules") / "enc0.toml").read_text()
    assert old in text
    (tmp_path / "swin.toml").write_text((resource_dir("rules") / "swin.toml").read_text())
    path = tmp_path / "enc0.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ContractError, match=re.escape(message)) as error:
        read_contract(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value).strip()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tile = [8, 8]", "tile = [8, 4]", "is not the launch's tile"),
        ("range = [2, 8192]", "range = [2, 65536]", "reach indices of 2^31"),
        ('even = ["ex"', 'even = ["ez"', "a list of ex, ey, sx, sy is needed"),
        ("norm_epsilon = 0x0800", "", "key 'norm_epsilon' is missing"),
        ("[buffers]", "[buffers]\nskip = 24", "unknown key 'skip'"),
    ],
)
def test_bad_family_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (resource_dir("rules") / "swin.toml").read_text()
    assert old in text
    (tmp_path / "swin.toml").write_text(text.replace(old, new, 1))
    path = tmp_path / "enc0.toml"
    path.write_text((resource_dir("rules") / "enc0.toml").read_text())
    with pytest.raises(ContractError, match=re.escape(message)):
        read_contract(path)


@pytest.mark.parametrize(
    ("ex", "ey", "sx", "sy"), [(9, 8, 0, 0), (8, 8, 1, 0), (8, 8, 0, 8), (16384, 8, 0, 0), (0, 8, 0, 0)]
)
def test_launches_that_no_rule_allows(ex: int, ey: int, sx: int, sy: int, contract: LayerContract) -> None:
    contract.launch.check(8, 8, 6, 0)
    with pytest.raises(UserError, match="the layer's rule allows"):
        contract.launch.check(ex, ey, sx, sy)


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
