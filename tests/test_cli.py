"""The command line: reports, exit codes, one-line errors, and no half-written files."""

import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zluda_rr.cli import main
from zluda_rr.image import read_ptx, shipped_module

ENC0 = str(shipped_module("enc0"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_inspect_prints_the_phases_and_the_obligations() -> None:
    result = run("inspect", ENC0)
    assert result.exit_code == 0
    assert "22 phases" in result.output
    assert result.output.count(" pass  ") >= 7
    assert max(map(len, result.output.splitlines())) <= 100


def test_inspect_json_is_the_same_report() -> None:
    report = json.loads(run("inspect", ENC0, "--json").output)
    assert "enc0" in json.dumps(report)


def test_rewrite_writes_ptx_that_calls_the_body(tmp_path: Path) -> None:
    output = tmp_path / "out.ptx"
    result = run("rewrite", ENC0, "-o", str(output), "--cut", "enc0.phase8")
    assert result.exit_code == 0
    assert "call.uni" in output.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["out.ptx"]


BAD_INPUTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 8,
    "not utf-8": b".version 9.0\n\xff\xfe",
    "prose": b"dear reader, this is no PTX\n",
    "no entry": b".version 9.0\n.target sm_89\n.address_size 64\n",
    "unbalanced": b".version 9.0\n.target sm_89\n.address_size 64\n.visible .entry f()\n{\n\tret;\n",
    "broken xz": lzma.compress(b".version 9.0\n" * 99)[:-9],
}


@pytest.mark.parametrize("name", sorted(BAD_INPUTS))
@pytest.mark.parametrize("command", ["inspect", "rewrite", "compile"])
def test_bad_input_is_one_line_and_exit_code_2(name: str, command: str, tmp_path: Path) -> None:
    source, output = tmp_path / "in.ptx", tmp_path / "out"
    source.write_bytes(BAD_INPUTS[name])
    arguments = [command, str(source)] + ([] if command == "inspect" else ["-o", str(output)])
    result = run(*arguments)
    if name == "no entry" and command == "inspect":
        assert result.exit_code == 0, "a module without entries is a report, not an error"
        return
    assert result.exit_code == 2, result.output
    message = result.stderr.strip()
    assert message.startswith("zluda-rr: ")
    assert str(source) in message
    assert "Traceback" not in message
    assert len([line for line in message.splitlines() if not line.startswith(" ")]) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["in.ptx"]


def test_truncated_modules_are_never_a_traceback(tmp_path: Path) -> None:
    text = read_ptx(Path(ENC0))
    for end in (10, 400, 4_000, len(text) // 2, len(text) - 3):
        source = tmp_path / "in.ptx"
        source.write_text(text[:end])
        result = run("inspect", str(source))
        assert result.exit_code in (0, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit)


def first_mma(text: str) -> tuple[int, int]:
    start = text.index("mma.sync")
    return start, text.index(";", start)


def one_operand_less(text: str) -> str:
    start, end = first_mma(text)
    return text[:start] + text[start:end].rpartition("{")[0].rstrip().rstrip(",") + text[end:]


def special_result(text: str) -> str:
    start, _ = first_mma(text)
    return text[: text.index("{", start)] + "{%tid.x, %r1}" + text[text.index("}", start) + 1 :]


def negative_shift(text: str) -> str:
    start = text.index("shl.b32")
    end = text.index(";", start)
    return text[:start] + ",".join([*text[start:end].split(",")[:2], " -1"]) + text[end:]


def untyped_parameter(text: str) -> str:
    return text.replace("ld.param.u64", "ld.param", 1)


@pytest.mark.parametrize("damage", [one_operand_less, special_result, negative_shift, untyped_parameter])
@pytest.mark.parametrize("command", ["inspect", "rewrite"])
def test_damaged_instructions_are_never_a_traceback(damage: Callable[[str], str], command: str, tmp_path: Path) -> None:
    source = tmp_path / "in.ptx"
    source.write_text(damage(read_ptx(Path(ENC0))))
    arguments = [command, str(source)] + ([] if command == "inspect" else ["-o", str(tmp_path / "out.ptx")])
    result = run(*arguments)
    assert result.exit_code in (0, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    command = [sys.executable, "-c", "from zluda_rr.cli import main; main()", "inspect", ENC0]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no space left" in done.stderr


def test_only_plain_files_are_replaced() -> None:
    result = run("rewrite", ENC0, "-o", "/dev/null")
    assert result.exit_code == 2
    assert "no plain file" in result.stderr
    assert not Path("/dev/null").is_file()


def test_a_module_is_not_written_without_its_bitcode(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("rewrite", ENC0, "-o", str(tmp_path / "out.ptx"), "--bitcode", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "name a writable folder" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "Exec format error"),
        ("#!/bin/sh\n", "wrote no module.elf"),
        ("#!/bin/sh\necho Error: refused >&2; exit 1\n", "zoc: refused"),
    ],
)
def test_what_is_no_zluda_compiler_is_one_line(script: str, message: str, tmp_path: Path) -> None:
    zoc = tmp_path / "zoc"
    zoc.write_text(script or "no program")
    zoc.chmod(0o755)
    result = run("verify", "--quiet", "--zoc", str(zoc))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_refused_cut_writes_nothing(tmp_path: Path) -> None:
    source, output = tmp_path / "in.ptx", tmp_path / "out.ptx"
    source.write_text(read_ptx(Path(ENC0)).replace(", 21696;", ", 21712;"))
    result = run("rewrite", str(source), "-o", str(output))
    assert result.exit_code == 2
    assert "obligation 7" in result.stderr
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verify", "--layer", "nothing"), "known layers"),
        (("verify", "--layer", "../rules/enc0"), "known layers"),
        (("verify", "--cut", "phase9"), "no cut phase9"),
        (("bench", "--layer", "nothing"), "known layers"),
        (("rewrite", ENC0, "-o", "/nonexistent/x.ptx"), "/nonexistent/x.ptx"),
        (("inspect", "/nonexistent.ptx"), "/nonexistent.ptx"),
    ],
)
def test_mistakes_name_the_remedy(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
