"""`zluda-rr selftest`: its report, and what it says where something is missing."""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.emulate.hip import library_folder

ROOT = Path(__file__).parents[3]


def cli(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from zluda_rr.cli import main; main()", "selftest", *arguments]
    env = {**os.environ, "LD_LIBRARY_PATH": str(library_folder()), **environ}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_text_and_exit_code(tmp_path: Path) -> None:
    done = cli("--quiet", "--row", "fp8-dec*", "--row", "wmma-layout")
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert re.fullmatch(r"zluda-rr \S+ self-test on AMD Radeon RX 9070 XT \(emulated\), gfx1201, driver \d+", first)
    assert rest == [
        "pass     wmma-layout  4096 elements, all as expected",
        "pass     fp8-decode   2048 values, all as expected",
        "2 rows: 2 passed, 0 failed, 0 findings, 0 skipped",
    ]


def test_a_red_row_is_exit_code_1_and_nothing_private_is_told(tmp_path: Path) -> None:
    (tmp_path / "fault").write_text("bytes exchanged")
    faulty = {
        "ZLUDA_RR_HIP_HELPER": "tests.runtime.selftest.faulty_helper",
        "ZLUDA_RR_TEST_FAULT": str(tmp_path / "fault"),
    }
    done = cli("--json", "--quiet", "--row", "fp8-encode", "--row", "rate-base", **faulty)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["schema"], report["failed"], report["emulated"]) == (1, True, True)
    assert [row["verdict"] for row in report["rows"]] == ["fail", "skipped"]
    assert len(report["rows"][0]["details"]) > 1
    for private in (socket.gethostname(), str(ROOT), str(Path.home()), str(tmp_path), f"{getpass.getuser()}@"):
        assert private not in done.stdout
    assert not re.search(r"(?<![\w/])/\w+", done.stdout)


def test_no_library_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    done = cli(LD_LIBRARY_PATH="", ROCM_PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "zluda-rr: no HIP library (libamdhip64.so) on the loader's path; install ROCm, or use the emulated device: "
        "zluda-rr hip-emulated -- zluda-rr ...\n"
    )


def test_no_compilers_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["selftest"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "zluda-rr: ziglang is missing; install it with: pip install 'zluda-rr[build]'\n"


def test_an_unknown_row_is_one_line_that_names_all() -> None:
    done = CliRunner().invoke(main, ["selftest", "--row", "fp9"])
    assert done.exit_code == 2
    assert done.stderr.startswith("zluda-rr: no row fp9; there are: wmma-layout, wmma-special, ")
