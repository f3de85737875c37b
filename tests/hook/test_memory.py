"""The C code under valgrind and under AddressSanitizer with UndefinedBehaviorSanitizer."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from zluda_rr.hook.bitcode import committed_bitcode, content_name, unpack_bodies
from zluda_rr.hook.build import Library, build
from zluda_rr.hook.cache import Cache, Entry, Kind, entry_key
from zluda_rr.hook.murmur import murmur128
from zluda_rr.hook.options import NATIVE as SOURCES
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.tool import Tool

from .sandbox import FATBIN, FINGERPRINT, NATIVE, REWRITTEN, TEXT, Programs, Sandbox, c_compiler
from .test_handles import Libraries, drive, made

__all__ = ["made"]

_SANITIZERS = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# What a program of its own must not have: dlsym and the calls of the driver.
_INTERCEPTING = ("find", "hooks", "slots", "start", "symbols")
_VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]


def sanitizer_library(name: str) -> Path | None:
    """The runtime that has to be loaded first."""
    done = subprocess.run([*c_compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = Path(done.stdout.strip())
    return path if path.is_absolute() and path.is_file() else None


def wrap(box: Sandbox, command: Sequence[str], library: Path) -> None:
    """Run the host through `command`; only the host gets the hook."""
    script = box.folder / "wrapped"
    script.write_text(f'#!/bin/sh\nexec env -u LD_PRELOAD {" ".join(command)} {box.programs.host} "$@"\n')
    script.chmod(0o755)
    box.programs = Programs(script, box.programs.cuda, box.programs.faults, library)


def scenarios(box: Sandbox) -> None:
    """A hit, a miss with a rewrite, a failing rewriter, a spoiled entry, a fatbin, threads, a rejected module."""
    box.env["ZLUDA_RR_TIMEOUT"] = "120"
    box.rewriter(box.prepared(TEXT))
    for call in ("cuModuleLoadData", "cuModuleLoad", "cuLibraryLoadFromFile"):
        outcome = box.run(call, "dlsym", TEXT, *(() if call.endswith("Data") else ("--raw",)))
        assert outcome.loads[0][2] == REWRITTEN.encode(), outcome.log
    assert box.runs == 1
    assert box.run("cuModuleLoadData", "proc2", TEXT, "--threads", "8").status == 0
    rejected = box.run("cuModuleLoadData", "dlsym", TEXT, FAKE_CUDA_REJECT="zrr_body")
    assert [load[1] for load in rejected.loads] == [218, 0]
    box.rewriter("exit 1")
    entry = box.cache.folder / f"{box.key(TEXT)}.zrr"
    entry.write_bytes(entry.read_bytes()[:-3])
    assert box.run("cuModuleLoadData", "link", TEXT).loads[0][2] == TEXT
    assert box.run("cuModuleLoadFatBinary", "dlsym", FATBIN, "--raw", "--wrapper", "good").status == 0


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind(box: Sandbox) -> None:
    # valgrind itself is a static program: what it preloads is only seen by the host.
    wrap(box, [f"LD_PRELOAD={box.programs.hook}", *_VALGRIND], box.programs.hook)
    scenarios(box)


def test_sanitizers(box: Sandbox, tmp_path: Path) -> None:
    runtime = sanitizer_library("libasan.so")
    if runtime is None:
        pytest.skip("this compiler has no AddressSanitizer")
    library = tmp_path / "asan" / "libzluda_rr.so"
    build(Library.PRELOAD, library, c_compiler(), _SANITIZERS)
    wrap(box, [f"LD_PRELOAD={runtime}:{library}", "ASAN_OPTIONS=detect_leaks=0"], library)
    scenarios(box)


def test_sanitizers_on_libraries_that_come_and_go(box: Sandbox, made: Libraries, tmp_path: Path) -> None:
    runtime = sanitizer_library("libasan.so")
    if runtime is None:
        pytest.skip("this compiler has no AddressSanitizer")
    library = tmp_path / "asan" / "libzluda_rr.so"
    build(Library.PRELOAD, library, c_compiler(), _SANITIZERS)
    box.env |= {"LD_PRELOAD": f"{runtime}:{library}", "ASAN_OPTIONS": "detect_leaks=0"}
    box.store(TEXT)
    again = ["open,1,@libfirst.so", "load,dlsym,1", "load,proc2,1", "close,1", "bury,1"] * 20
    shim = ["open,2,@libshim.so", "load,dlsym,2", "open,3,@plugin_two.so", "play,3", "load,default", "load,next"]
    outcome = drive(box, made, *again, *shim, "threads,4,20,@libfirst.so,@libsecond.so", SHIM_REAL=made["libsecond.so"])
    assert len(outcome.loads) == 40 + 2 + 80, outcome.log
    assert {load[2] for load in outcome.loads} == {REWRITTEN.encode()}


def fuzz(tmp_path: Path, count: int, *, extra: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The fuzzer on `count` images."""
    if sanitizer_library("libasan.so") is None:
        pytest.skip("this compiler has no AddressSanitizer")
    program = tmp_path / "fuzz"
    sources = [str(path) for path in sorted(SOURCES.glob("*.c")) if path.stem not in _INTERCEPTING]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *_SANITIZERS, *extra]
    subprocess.run(
        [*c_compiler(), *flags, f"-I{SOURCES}", str(NATIVE / "fuzz.c"), *sources, "-o", str(program), "-ldl"],
        check=True,
    )
    env = {**os.environ, "ZLUDA_RR_CACHE_DIR": str(tmp_path / "cache"), "ZLUDA_RR_MISS": "off", "ZLUDA_RR_LOG": "off"}
    cache, seeds = Cache(tmp_path / "cache" / "hook"), tmp_path / "seeds"
    cache.prepare()
    seeds.mkdir()
    text = b"".join(re.findall(rb'static const char ptx\[\] = "(.*)";', (NATIVE / "fuzz.c").read_bytes()))
    image = text.replace(rb"\n", b"\n").replace(rb"\t", b"\t")
    (seeds / "tool").write_text(Tool(FINGERPRINT, "/nonexistent", ("enc0",), (NATIVE / "fuzz.c",)).text())
    (seeds / "entry").write_bytes(Entry(Kind.REPLACED, "enc0", REWRITTEN).pack(image))
    (seeds / "name").write_text(entry_key(murmur128(image), read_settings(env), FINGERPRINT) + ".zrr")
    unpack_bodies(cache)
    (seeds / "body").write_text(content_name(committed_bitcode("swin_phase")))
    command = [str(program), str(count), "1", str(cache.folder), str(seeds)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_some_mutated_images(tmp_path: Path) -> None:
    done = fuzz(tmp_path, 4000)
    assert done.returncode == 0, done.stderr[:2000]
    found = re.search(r"(\d+) images, (\d+) accepted, (\d+) replaced, (\d+) named", done.stdout)
    assert found
    assert int(found[2]) > 400
    assert 50 < int(found[3]) < 400, "some entries are sound, most are not"
    assert 400 < int(found[4]) < 1000, "half of the names are sound"


def test_the_fuzzer_finds_a_missing_check(tmp_path: Path) -> None:
    """A C file without the readability check, in place of image.c, must be caught."""
    weakened = tmp_path / "native"
    shutil.copytree(SOURCES, weakened)
    text = (weakened / "image.c").read_text()
    check = "if (limit > 0 ? size > limit : !zrr_readable(at, size))"
    assert check in text
    (weakened / "image.c").write_text(text.replace(check, "if (limit > 0 && size > limit)"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.SOURCES", weakened)
        assert fuzz(tmp_path, 4000).returncode != 0


@pytest.mark.soak
def test_two_hundred_thousand_mutated_images(tmp_path: Path) -> None:
    done = fuzz(tmp_path, 200_000)
    assert done.returncode == 0, done.stderr[:2000]
    assert done.stdout.startswith("200000 images")
