"""`verify FILE` and `bench FILE`: every layer of any container in one table."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.image import samples
from zluda_rr import runtime
from zluda_rr.cli import main
from zluda_rr.errors import UserError
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.runtime import Choice, Difference, Subject, VerifyReport, each_layer, find_layers

QUICK = ("--quiet", "--kind", "random", "--model", "exact", "--no-oracle")
BOTH = Path(__file__).parent.parent / "corpus/ptx/rr.ptx.xz"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def report(what: Subject, equal: bool = True) -> VerifyReport:
    difference = None if equal else Difference("launch", "blend", 4, 1, 2, 1, 22)
    return VerifyReport(what.contract.layer, what.cuts, equal, None, ("exact",), ("random",), 64, 1, 8, difference)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PE DLL whose fatbin has a module with both layers."""
    folder = tmp_path_factory.mktemp("both")
    ptx = folder / "module.ptx"
    ptx.write_text(read_ptx(BOTH))
    source = samples.embedding_source(folder, [samples.Image("ptx", "89", ptx)], "balance")
    return samples.windows_dll(folder, source)


@pytest.mark.soak
def test_both_layers_of_a_library_are_equal(library: Path) -> None:
    result = run("verify", library, *QUICK)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["layer", "module", "cuts", "result", "launches", "bytes", "oracle"]
    rows = [line.split()[:4] for line in lines[2:]]
    assert rows == [["enc0", "1", "layer", "equal"], ["enc1", "1", "fusion", "equal"]]


def test_both_layers_are_found_and_one_that_refuses_hides_no_other(library: Path) -> None:
    found = find_layers(library, Choice())

    def work(what: Subject) -> VerifyReport:
        if what.contract.layer == "enc0":
            raise UserError("enc0: no such instruction")
        return report(what)

    rows = each_layer(found, work, lambda _: runtime.Result.EQUAL)
    assert [(f.layer, f.module, f.subject is not None) for f in found] == [("enc0", 1, True), ("enc1", 1, True)]
    assert [(r.result, r.reason) for r in rows] == [("refused", "no such instruction"), ("equal", "")]
    assert [(f.subject.cuts, f.subject.fusion) for f in found if f.subject] == [(("layer",), False), ((), True)]


def test_a_chosen_layer_is_verified(library: Path) -> None:
    result = run("verify", library, "--layer", "enc0", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    (row,) = document["layers"]
    assert document["equal"]
    assert (row["layer"], row["result"], row["report"]["launches"]) == ("enc0", "equal", 1)
    assert "host.dll" in row["origin"]


def test_a_difference_is_exit_code_1(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "verify", lambda what, **_: report(what, equal=what.contract.layer == "enc1"))
    result = run("verify", library)
    assert result.exit_code == 1
    assert re.search(r"enc0 .* differs .*\n    first difference: .*blend.*\nenc1 .* equal ", result.output)


def test_a_kernel_with_another_meaning_is_not_recognised(tmp_path: Path) -> None:
    text = read_ptx(shipped_module("enc0"))
    place = text.index("fma.rn.f16x2", len(text) // 2)
    module = tmp_path / "module.ptx"
    module.write_text(text[:place] + text[place:].replace("fma.rn.f16x2", "fma.rn.relu.f16x2", 1))
    result = run("verify", module, "--quiet")
    assert result.exit_code == 2
    assert re.search(r"enc0 +1 +- +not recognised", result.output)
    assert "no layer could be compared" in result.output


def test_unusable_input_is_one_line(tmp_path: Path) -> None:
    module = tmp_path / "module.ptx"
    module.write_text(samples.SMALL_PTX)
    for arguments, reason in (
        ((module,), "no kernel of a layer with a rule"),
        ((BOTH, "--layer", "enc9"), "known layers: enc0, enc1"),
        (("--module", "1"), "--module is for a FILE"),
        ((tmp_path / "none",), "none"),
    ):
        for command in ("verify", "bench"):
            result = run(command, *arguments)
            assert result.exit_code == 2
            assert reason in result.output
            assert result.output.count("\n") == 1
