"""`precompile` on a game's folder: whatever else lies there costs little, stores nothing, and is counted."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from zluda_rr.cli import main
from zluda_rr.hook.options import Settings, read_settings
from zluda_rr.hook.precompile import Tally, candidates, fill_from
from zluda_rr.hook.progress import Progress
from zluda_rr.hook.transform import MAX_REWRITE_BYTES
from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.image.model import image_of

from .folders import make_folder
from .sandbox import TEXT
from .test_fatbins import entry, fatbin

LIBRARIES = "ZLUDA_RR_TEST_LIBRARIES"
"""Names a folder with CUDA libraries for the soak test, in place of a download."""
PROGRAM = Path(sys.executable).with_name("zluda-rr")


@dataclass(frozen=True, slots=True)
class Run:
    """Of one `precompile`: what it printed, when the first line came, and what it cost."""

    printed: str
    progress: list[tuple[float, str]]
    seconds: float
    busy_seconds: float
    rss_bytes: int

    def count(self, what: str) -> int:
        """A number of the sum in the last line."""
        found = re.search(rf"([\d,]+) {what}", self.printed.splitlines()[-1])
        return int(found[1].replace(",", "")) if found else 0


_MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""


def precompile(folder: Path, cache: Path, *flags: str) -> Run:
    """The command in a process of its own, measured from outside."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cache), "ZLUDA_RR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", _MEASURE, str(PROGRAM), "precompile", *flags, str(folder)]
    begun = time.monotonic()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        progress = []
        if "--list-skipped" not in flags:  # else the pipe of the output fills meanwhile
            progress = [(time.monotonic() - begun, line) for line in process.stderr]
        out, _ = process.communicate()
    assert process.returncode == 0, progress
    *lines, used = out.splitlines()
    busy, rss = used.split()
    return Run("\n".join(lines), progress, time.monotonic() - begun, float(busy), int(rss) << 10)


def put_enc0(folder: Path) -> None:
    folder.mkdir(parents=True)
    text = read_ptx(shipped_module("enc0")).encode()
    image = fatbin(entry(TEXT, 75), entry(text, 89, "zstd"))
    (folder / "libgame.so").write_bytes(b"\x7fELF" + bytes(4092) + image + bytes(64))


def test_a_small_game(tmp_path: Path) -> None:
    """A fiftieth of the soak test below, with modules that no rule is for in place of NVIDIA's libraries."""
    game, cache = tmp_path / "game", tmp_path / "cache"
    files = make_folder(game, files=1000, text_bytes=12 << 20, sparse_bytes=4 << 30)
    put_enc0(game / "bin")
    foreign = [TEXT.replace(b"entry k(", f"entry k{i}(".encode()) for i in range(500)]
    (game / "libother.so").write_bytes(b"\x7fELF" + bytes(60) + b"".join(fatbin(entry(t, mode="lz4")) for t in foreign))
    (game / "video.pak").write_bytes(b"PAK\0" + bytes(range(1, 256)) * (17 << 12))
    done = precompile(game, cache)
    assert done.printed.count(": replaced: enc0 (layer)") == 2
    assert done.count("files,") == files + 3
    assert done.count("files without PTX") == files
    assert done.count("too large") == 1
    assert done.count("modules that no rule concerns") == 501
    assert done.rss_bytes < 500 << 20
    assert len(list((cache / "hook").iterdir())) <= 10
    assert "looking into" in done.progress[0][1]
    listed = precompile(game, cache, "--list-skipped", "--quiet").printed
    assert listed.count("skipped: ") == files + 1 + 501
    assert f"skipped: {game}/video.pak: {(17 << 12) * 255 + 4} bytes, and the first are no container's" in listed
    assert f"skipped: {game}/libother.so: offset 0x40, entry 1: no kernel of a rule" in listed


def test_what_no_rule_concerns_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even text that is no PTX behind its first line; with the name in it, it is."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("zluda_rr.hook.transform.parse", refuse)
    monkeypatch.setattr("zluda_rr.image.scan.image_of", refuse)
    broken = TEXT + b"} this is no PTX"
    (tmp_path / "a.ptx").write_bytes(broken)
    (tmp_path / "b.fatbin").write_bytes(fatbin(entry(broken), entry(broken, mode="zstd")))
    tally = Tally()
    assert list(candidates((tmp_path,), read_settings({}), tally)) == []
    assert tally.passed["unnamed"] == 3
    monkeypatch.setattr("zluda_rr.image.scan.image_of", image_of)
    (tmp_path / "b.fatbin").write_bytes(fatbin(entry(broken.replace(b"k(", b"cuda_dldn_engine_swin_enc0_kernel("))))
    with pytest.raises(AssertionError, match="parsed"):
        list(candidates((tmp_path,), read_settings({}), tally))


def test_a_huge_module_is_passed_over_by_its_size(tmp_path: Path) -> None:
    text = TEXT.replace(b"k(", b"cuda_dldn_engine_swin_enc0_kernel(")
    (tmp_path / "huge.ptx").write_bytes(text + b"// more\n" * (MAX_REWRITE_BYTES // 8))
    lines: list[str] = []
    assert list(candidates((tmp_path,), read_settings({}), Tally(say=lines.append))) == []
    assert len(lines) == 1
    assert "6 MiB of PTX, over the bound of 6 MiB for a rewrite" in lines[0]


def test_files_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "cut.ptx.xz").write_bytes(b"\xfd7zXZ\0" + bytes(20))
    (tmp_path / "not.ptx").write_bytes(b".version 9.0\n\xff")
    (tmp_path / "lies.bin").write_bytes(b"\0" + fatbin(entry(TEXT))[:-4])
    (tmp_path / "pipe").symlink_to("/dev/null")
    lines: list[str] = []
    assert list(candidates((tmp_path,), read_settings({}), Tally(say=lines.append))) == []
    reasons = " ".join(lines)
    for words in ("broken xz", "not UTF-8", "claims 4 bytes more"):
        assert words in reasons
    assert all("\n" not in line for line in lines)


def test_progress_comes_before_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line is there when the search begins; the sum is all that is left of a folder without a module."""
    said: list[str] = []
    begin = fill_from

    def watch(paths: tuple[Path, ...], settings: Settings, show: Progress, *rest: Any, **options: Any) -> None:
        assert isinstance(show.stream, io.TextIOBase)
        said.append(sys.stderr.getvalue())  # type: ignore[attr-defined]
        begin(paths, settings, show, *rest, **options)

    monkeypatch.setattr("zluda_rr.hook.precompile.fill_from", watch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path / "cache"))
    make_folder(tmp_path / "game", files=100, text_bytes=1 << 20, sparse_bytes=1 << 20)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    main(["precompile", str(tmp_path / "game")], standalone_mode=False)
    assert said == [f"precompile: looking into {tmp_path / 'game'}\n"]
    expected = "115 files, 0 modules of a layer; passed over: 115 files without PTX (--list-skipped names them)\n"
    assert out.getvalue() == expected


@pytest.mark.parametrize(("terminal", "shown"), [(False, [0.6, 5.7]), (True, [0.3, 0.6, 5.7, 6.0])])
def test_progress_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch, terminal: bool, shown: list[float]) -> None:
    """A line soon, then now and then; on a terminal often, in place."""
    now = [0.0]
    monkeypatch.setattr("zluda_rr.hook.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    show = Progress(stream=stream)
    show.say("begin")
    for moment in (0.1, 0.3, 0.6, 0.7, 5.7, 5.8, 6.0):
        now[0] = moment
        show.update(int(moment * 10), 2, Path("/game/file.pak"))
    ends = "\r" if terminal else "\n"
    lines = stream.getvalue().replace("begin\n", "").rstrip(ends).split(ends)
    counts = [int(line.split("s, ")[1].split(" ")[0]) for line in lines]
    assert counts == [int(moment * 10) for moment in shown]
    assert all("2 modules of a layer, at file.pak" in line for line in lines)


@pytest.mark.soak
def test_a_game_with_real_libraries(tmp_path: Path) -> None:
    """50,000 files, 600 MB of JSON, sparse files of 4 GiB, NVIDIA's libraries, one module that a rule is for."""
    game, cache = tmp_path / "game", tmp_path / "cache"
    files = make_folder(game, files=50_000, text_bytes=600 << 20, sparse_bytes=4 << 30)
    put_enc0(game / "bin")
    libraries = os.environ.get(LIBRARIES)
    if libraries is None:
        wheel = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
            str(game / "lib"),
            "nvidia-cufft",
        ]
        if subprocess.run(wheel, check=False).returncode:
            pytest.skip(f"no download of nvidia-cufft; set {LIBRARIES}")
    else:
        (game / "lib").mkdir()
        for path in Path(libraries).rglob("*.so*"):
            (game / "lib" / path.name).symlink_to(path)
    done = precompile(game, cache)
    print(f"{done.seconds:.1f} s by the clock, {done.busy_seconds:.1f} s busy, {done.rss_bytes >> 20} MiB")
    print(*done.printed.splitlines()[-3:], sep="\n")
    assert done.printed.count(": replaced: enc0 (layer)") == 2
    assert done.count("files without PTX") >= files
    assert done.count("modules that no rule concerns") > 1500
    assert done.busy_seconds < 60
    assert done.rss_bytes < 500 << 20
    assert len(list((cache / "hook").iterdir())) <= 10
    assert done.progress[0][0] < 3
    count = sum(done.count(kind) for kind in ("files without PTX", "too large", "unreadable", "damaged"))
    count += done.count("entries without PTX") + done.count("modules that no rule concerns")
    listed = precompile(game, cache, "--list-skipped", "--quiet").printed
    assert listed.count("skipped: ") == count
