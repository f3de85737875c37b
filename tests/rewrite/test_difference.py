"""`diff`: builds of one source are equal; a change is named where it is, and alone."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.rewrite.reports import BUILDS, report, text
from zluda_rr.cli import main
from zluda_rr.rewrite import Difference, compare_modules, difference_text, examine_module


def against(source: str, layer: str = "enc0") -> Difference:
    return compare_modules(report(layer), examine_module(source, filename="other.ptx", contracts=()))


def changes(found: Difference) -> list[tuple[str, int | None, str, str, str]]:
    (entry,) = found.entries
    return [(c.place, c.first, c.field, c.a, c.b) for c in entry.changes]


@pytest.mark.parametrize("layer", ["enc0", "enc1"])
@pytest.mark.parametrize("build", BUILDS[1:])
def test_builds_of_one_source_are_equal(layer: str, build: str) -> None:
    found = compare_modules(report(layer), report(layer + build))
    assert found.equal
    assert difference_text(found).endswith("no change in phases and contracts\n")


def test_two_layers_differ() -> None:
    found = compare_modules(report("enc0"), report("enc1"))
    assert ("parameters", None, "bytes", "1032", "144") in changes(found)
    assert ("phases", None, "mma", "536", "1072") in changes(found)
    assert max(map(len, difference_text(found).splitlines())) <= 100


def test_an_inserted_layer_is_one_entry() -> None:
    found = compare_modules(report("enc0"), report("rr"))
    assert [(entry.entry[-11:], entry.only_in, entry.changes) for entry in found.entries] == [
        ("enc0_kernel", None, ()),
        ("enc1_kernel", "b", ()),
    ]
    assert not found.equal


def test_a_moved_weight_block() -> None:
    """All loads of P8's B by 512 bytes: one change."""
    source = text("enc0")
    first = re.search(r"add\.s64 \s*(%rd\d+), (%rd\d+), 21696;", source)
    assert first is not None
    moved = source.replace(", 21696;", ", 21728;").replace(", 22208;", ", 22240;")
    assert changes(against(moved)) == [("phase", 8, "B", "weights 21696..22720", "weights 21728..22752")]


def test_another_table() -> None:
    source = text("enc0").replace(", 37056;", ", 41152;")
    found = changes(against(source))
    assert ("phase", 7, "C", "D2 + table 37056", "D2 + table 41152") in found
    assert {change[0] for change in found} == {"phase", "epilogue"}


def test_another_formula() -> None:
    found = changes(against(text("enc0").replace("0f3ED306EB", "0f3ED00000")))
    lost = [index for place, index, field, _, b in found if field == "operations" and b == "-" and place == "epilogue"]
    assert lost == [13, 15, 17, 19]
    assert [index for _, index, field, a, _ in found if field == "uncharacterised statements" and a == "0"] == lost


def test_a_removed_phase_is_one_change_and_the_rest_keeps_its_numbers() -> None:
    """Without the mma of P22 nothing else of a phase changes."""
    source = text("enc0")
    runs = list(re.finditer(r"mma\.sync[^;]*;", source))[-8:]
    for match in reversed(runs):
        source = source[: match.start()] + "mov.b32 %r1, %r1;" + source[match.end() :]
    found = against(source)
    lost = [change for change in found.entries[0].changes if change.field == "phase"]
    assert [(change.first, change.second, change.b) for change in lost] == [(22, None, "absent")]
    assert not [
        change for change in found.entries[0].changes if change.place == "phase" and change.first not in (None, 22)
    ]


TINY = (
    ".version 9.0\n.target sm_89\n.address_size 64\n.visible .entry k(.param .align 8 .b8 p[{size}])\n{{\n\tret;\n}}\n"
)


def test_json_and_exit_codes(tmp_path: Path) -> None:
    """0: equal, 1: changes, 2: an error of the user."""
    names = [str(tmp_path / f"{size}.ptx") for size in (8, 16)]
    for name, size in zip(names, (8, 16), strict=True):
        Path(name).write_text(TINY.format(size=size))
    run = CliRunner().invoke(main, ["diff", *names, "--json"])
    assert run.exit_code == 1
    found = json.loads(run.output)
    assert (found["schema"], found["equal"]) == ("zluda-rr.diff/1", False)
    assert found["entries"][0]["changes"] == [
        {"place": "parameters", "phase_a": None, "phase_b": None, "field": "bytes", "a": "8", "b": "16"}
    ]
    assert CliRunner().invoke(main, ["diff", names[0], names[0]]).exit_code == 0
    assert CliRunner().invoke(main, ["diff", names[0], str(tmp_path / "none")]).exit_code == 2
