"""The reference module gives the same report from every container as from its text."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.image.conftest import Samples
from zluda_rr.cli import main
from zluda_rr.image import contents

CONTAINERS = ["fatbin-none", "fatbin-speed", "fatbin-balance", "elf", "pe", "cubin"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def without_file_line(report: str) -> str:
    return "".join(line for line in report.splitlines(keepends=True) if not line.startswith("file "))


@pytest.fixture(scope="module")
def expected(enc0: Samples) -> str:
    result = run("inspect", enc0.ptx)
    assert result.exit_code == 0
    assert "22 phases" in result.output
    return without_file_line(result.output)


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_report_is_that_of_the_text(name: str, enc0: Samples, expected: str) -> None:
    result = run("inspect", enc0.files[name])
    assert result.exit_code == 0
    listing, report = result.output.split("--- module 1\n")
    assert without_file_line(report) == expected
    assert contents(enc0.files[name]).modules[0].sha256 in listing
    assert max(map(len, listing.splitlines())) <= 100


def test_a_chosen_module_gives_its_report_alone(enc0: Samples, expected: str) -> None:
    digest = contents(enc0.files["elf"]).modules[0].sha256
    assert without_file_line(run("inspect", enc0.files["elf"], "--module", digest).output) == expected


def _timeless(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what differs between two runs: the file's name and how long each rule took."""
    fusion = {
        entry: {**found, "rules": [{**rule, "seconds": 0} for rule in found["rules"]]}
        for entry, found in report["fusion"].items()
    }
    return {**report, "file": "", "fusion": fusion}


def test_json_lists_the_modules_with_their_reports(enc0: Samples) -> None:
    document = json.loads(run("inspect", enc0.files["pe"], "--json").output)
    (module,) = document["modules"]
    report = module["report"]
    text_report = json.loads(run("inspect", enc0.ptx, "--json").output)
    assert _timeless(report) == _timeless(text_report)
    assert document["schema"] == "zluda-rr.contents/1"
    assert (module["container"], module["compression"], module["target"]) == ("pe", "zstd", "sm_89")
    assert module["entries"] == ["cuda_dldn_engine_swin_enc0_kernel"]


def test_rewriting_a_container_writes_the_rewritten_text(enc0: Samples, tmp_path: Path) -> None:
    for source, name in ((enc0.files["fatbin-speed"], "fatbin.ptx"), (enc0.files["elf"], "elf.ptx")):
        result = run("rewrite", source, "-o", tmp_path / name, "--cut", "phase8")
        assert result.exit_code == 0, result.output
    assert "call.uni" in (tmp_path / "fatbin.ptx").read_text()
    assert (tmp_path / "fatbin.ptx").read_bytes() == (tmp_path / "elf.ptx").read_bytes()


def test_compiling_a_module_of_a_container(small: Samples, tmp_path: Path) -> None:
    outputs = []
    for number, source in enumerate((small.ptx, small.files["fatbin-size"], small.files["pe"])):
        output = tmp_path / f"{number}.co"
        result = run("compile", source, "-o", output, "--quiet")
        assert result.exit_code == 0, result.output
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_directory_reports_only_the_layers_of_a_rule(enc0: Samples, small: Samples, tmp_path: Path) -> None:
    (tmp_path / "a.dll").symlink_to(enc0.files["pe"])
    (tmp_path / "b.ptx").symlink_to(small.ptx)
    (tmp_path / "notes.txt").write_text(".version of these notes: 1\n")
    (tmp_path / "photo.jpg").write_bytes(bytes(range(256)))
    output = run("inspect", tmp_path).output
    assert "modules   2 with PTX, 0 skipped" in output
    assert output.count("--- module") == 1
    assert "--- module 1\n" in output


def test_several_modules_need_a_choice(enc0: Samples, small: Samples, tmp_path: Path) -> None:
    (tmp_path / "a.so").symlink_to(enc0.files["elf"])
    (tmp_path / "b.so").symlink_to(small.files["elf"])
    output = tmp_path / "out.ptx"
    result = run("rewrite", tmp_path, "-o", output)
    assert result.exit_code == 2
    assert "2 modules; choose with --module" in result.stderr
    assert not output.exists()
    digest = contents(small.files["elf"]).modules[0].sha256
    for choice in ("2", digest, digest[:10]):
        assert run("compile", tmp_path, "-o", tmp_path / "x.co", "--module", choice, "--quiet").exit_code == 0
    for wrong in ("0", "3", "abcdef0123", "nonsense", digest[:3]):
        result = run("inspect", tmp_path, "--module", wrong)
        assert result.exit_code == 2, wrong
        assert "no single module" in result.stderr
