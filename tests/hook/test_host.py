"""Hosts that are not like others: option values, small stacks, filters, containers, homes, descriptor 2."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from zluda_rr.hook import Library, library_path
from zluda_rr.hook.options import hook_folder, read_settings

from .sandbox import BY_FILE, CALL, FATBIN, GREETING, REWRITTEN, TEXT, Sandbox, assert_original


def raw(call: str) -> tuple[str, ...]:
    """A file has no NUL at its end."""
    return ("--raw",) if call in BY_FILE else ()


# ---- option values


def test_the_second_attempt_gets_the_callers_values(box: Sandbox) -> None:
    """The driver writes into the arrays; a log of the attempt that was rejected is not the caller's."""
    box.store(TEXT)
    outcome = box.run("cuModuleLoadDataEx", "dlsym", TEXT, "--logs", FAKE_CUDA_REJECT="zrr_body")
    assert [load[1] for load in outcome.loads] == [218, 0]
    assert outcome.status == 0, "the sizes were what the caller passed"
    assert outcome.values == "4 0 info fine errors "


def test_results_in_the_values_reach_the_caller(box: Sandbox) -> None:
    box.store(TEXT)
    outcome = box.run("cuModuleLoadDataEx", "dlsym", TEXT, "--logs")
    assert [load[2] for load in outcome.loads] == [REWRITTEN.encode()]
    assert outcome.values == "4 0 info fine errors "
    both = box.run("cuModuleLoadDataEx", "dlsym", TEXT, "--logs", FAKE_CUDA_REJECT=".version", LD_PRELOAD="")
    assert box.run("cuModuleLoadDataEx", "dlsym", TEXT, "--logs", FAKE_CUDA_REJECT=".version").values == both.values


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLibraryLoadFromFile"])
def test_the_second_attempt_of_a_library_gets_the_callers_values(box: Sandbox, call: str) -> None:
    box.store(TEXT)
    outcome = box.run(call, "dlsym", TEXT, *raw(call), FAKE_CUDA_REJECT="zrr_body")
    assert [load[1] for load in outcome.loads] == [218, 0]
    assert outcome.status == 0


def test_a_rewrite_that_fails_like_the_original_is_told_so(box: Sandbox) -> None:
    box.store(TEXT)
    outcome = box.run(CALL, "dlsym", TEXT, FAKE_CUDA_REJECT=".version")
    assert outcome.status == 218
    assert len(outcome.log) == 1
    assert "rejects the rewritten module (error 218), and the original (error 218)" in outcome.log[0]


# ---- the process


@pytest.mark.parametrize("size", [65536, 16384])
@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuModuleLoad", "cuModuleLoadDataEx", "cuLibraryLoadFromFile"])
def test_threads_with_small_stacks(box: Sandbox, call: str, size: int) -> None:
    box.rewriter(box.prepared(TEXT))
    flags = (*raw(call), "--stack", str(size))
    outcome = box.run(call, "dlsym", TEXT, *flags, ZLUDA_RR_DUMP_DIR=str(box.folder))
    assert outcome.loads[0][2] == REWRITTEN.encode(), "a miss and its rewrite"
    assert box.run(call, "dlsym", TEXT, *flags).loads[0][2] == REWRITTEN.encode()


@pytest.mark.parametrize("image", [TEXT, FATBIN], ids=["text", "fatbin"])
def test_a_filter_that_ends_the_process(box: Sandbox, image: bytes) -> None:
    box.store(image)
    flags = ("--filter", "--raw") if image is FATBIN else ("--filter",)
    assert box.run(CALL, "dlsym", image, *flags).loads == ((CALL, 0, REWRITTEN.encode()),)


def test_every_process_says_once_that_the_hook_is_there(box: Sandbox) -> None:
    box.store(TEXT)
    outcome = box.run(CALL, "dlsym", TEXT, "--repeat", "3")
    assert len(outcome.greetings) == 1
    assert outcome.greetings[0].endswith("hook libzluda_rr.so is loaded into host")
    lines = (box.cache.folder / "runs.log").read_text().splitlines()
    assert [line.split()[3] for line in lines] == ["loaded", "replaced", "replaced", "replaced"]
    done = subprocess.run(["true"], env=box.env, capture_output=True, text=True, check=True)
    assert done.stderr.count(GREETING) == 1, "also where no module is ever loaded"
    for env in ({"ZLUDA_RR": "0"}, {"ZLUDA_RR_LOG": "off"}):
        assert subprocess.run(["true"], env={**box.env, **env}, capture_output=True, check=True).stderr == b""


def test_a_descriptor_that_the_host_reopened_is_not_written_to(box: Sandbox) -> None:
    box.store(TEXT)
    data = box.folder / "data"
    outcome = box.run(CALL, "dlsym", TEXT, "--reopen", str(data))
    assert outcome.loads == ((CALL, 0, REWRITTEN.encode()),)
    assert data.read_bytes() == b""
    assert "replaced" in (box.cache.folder / "runs.log").read_text(), "the log of runs has it"
    log = box.folder / "log"
    box.run(CALL, "dlsym", TEXT, "--reopen", str(data), ZLUDA_RR_LOG_FILE=str(log))
    assert data.read_bytes() == b""
    assert "replaced" in log.read_text()


def test_the_log_goes_to_what_a_shell_gives(box: Sandbox) -> None:
    box.store(TEXT)
    path = box.folder / "stderr"
    host = f'"{box.programs.host}" {CALL} dlsym "$0" 2>"$1"'
    image = box.folder / "one"
    image.write_bytes(TEXT)
    subprocess.run(["sh", "-c", host, str(image), str(path)], env=box.env, check=True, stderr=subprocess.DEVNULL)
    assert "replaced" in path.read_text()
    command = [str(box.programs.host), CALL, "dlsym", str(image)]
    with (box.folder / "both ways").open("w+") as stream:  # as a test harness gives it
        subprocess.run(command, env=box.env, check=True, stdout=subprocess.DEVNULL, stderr=stream)
        stream.seek(0)
        assert "replaced" in stream.read()


def test_a_hook_that_comes_late_does_not_write_into_a_file(box: Sandbox) -> None:
    """The proxy, opened when descriptor 2 is a file of the program's that it also reads."""
    box.store(TEXT)
    folder = box.folder / "proxy"
    folder.mkdir()
    shutil.copy(library_path(Library.PROXY), folder / "libcuda.so.1")
    shutil.copy(box.programs.cuda / "libcuda.so.1", folder / "libzluda_rr_real.so")
    box.env |= {"LD_PRELOAD": "", "LD_LIBRARY_PATH": str(folder)}
    data = box.folder / "data"
    outcome = box.run(CALL, "dlsym", TEXT, "--early", str(data))
    assert outcome.loads == ((CALL, 0, REWRITTEN.encode()),)
    assert data.read_bytes() == b""
    assert box.run(CALL, "dlsym", TEXT).log[0].endswith("ms)"), "a pipe is what a launcher gives"


# ---- caches


def test_a_container_without_the_tool(box: Sandbox) -> None:
    """Only the library and the cache are there; a tool that is there in part has changed."""
    tool = box.folder / "tool"
    tool.mkdir()
    files = (tool / "one", tool / "two")
    for path in files:
        path.write_text(path.name)
    box.write_tool("/nonexistent", files)
    box.store(TEXT)
    files[0].unlink()
    assert_original(box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="off"), reason="not in the cache")
    shutil.rmtree(tool)
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    tool.write_text("a file where the folder was")
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()


def can_bind() -> bool:
    script = ["unshare", "-m", "sh", "-c", "mount --bind -o ro /tmp /tmp"]
    return (
        shutil.which("unshare") is not None and subprocess.run(script, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_bind(), reason="needs a mount namespace")
def test_a_read_only_cache(box: Sandbox) -> None:
    """What is there serves; what is not is told once, and nothing is left behind."""
    box.store(TEXT)
    script = box.folder / "wrapped"
    folder = box.cache.folder.parent
    script.write_text(
        f'#!/bin/sh\nexec env -u LD_PRELOAD unshare -m sh -c \'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" '
        f'&& LD_PRELOAD={box.programs.hook} exec "$@"\' {folder} {box.programs.host} "$@"\n'
    )
    script.chmod(0o755)
    box.programs = type(box.programs)(script, box.programs.cuda, box.programs.faults, box.programs.hook)
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    assert_original(box.run(CALL, "dlsym", TEXT + b"//\n"), TEXT + b"//\n", "Read-only file system")


# ---- homes


def test_a_home_with_blanks(box: Sandbox) -> None:
    home = box.folder / "a home  with\tblanks"
    home.mkdir()
    box.rewriter(box.prepared(TEXT))
    box.env.update(HOME=str(home), ZLUDA_RR_CACHE_DIR="")
    folder = home / ".cache" / "zluda-rr" / "hook"
    outcome = box.run(CALL, "dlsym", TEXT)
    assert outcome.loads[0][2] == TEXT, "no record there yet"
    shutil.copy(box.cache.folder / "tool", folder / "tool")
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    assert box.runs == 1
    assert hook_folder(read_settings({}), {"HOME": str(home)}) == folder


@pytest.mark.parametrize("home", ["", "not/absolute"])
def test_without_a_home_the_accounts_is_taken(box: Sandbox, home: str) -> None:
    env = {"HOME": home} if home else {}
    folder = hook_folder(read_settings(env), env)
    assert folder == Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache" / "zluda-rr" / "hook"
    outcome = box.run(CALL, "dlsym", TEXT, HOME=home, ZLUDA_RR_CACHE_DIR="", ZLUDA_RR_MISS="off")
    assert_original(outcome, reason="not in the cache" if folder.is_dir() else f"cache {folder}: No such file")


def test_relative_xdg_folders_are_made_absolute(box: Sandbox) -> None:
    """Where the program was started counts, for it and for the rewriter."""
    box.rewriter(f"env >{box.folder}/env; {box.prepared(TEXT)}")
    folder = box.folder / "here" / "cache" / "zluda-rr" / "hook"
    folder.mkdir(parents=True, mode=0o700)
    shutil.copy(box.cache.folder / "tool", folder / "tool")
    config = box.folder / "here" / "config" / "zluda-rr"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('ZLUDA_RR_LOG = "debug"\n')
    env = {**box.env, "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "FAKE_CUDA_DIR": ""}
    del env["ZLUDA_RR_CACHE_DIR"]
    image = box.folder / "image"
    image.write_bytes(TEXT)
    command = [str(box.programs.host), CALL, "dlsym", str(image)]
    here = box.folder / "here"
    done = subprocess.run(command, env=env, cwd=here, capture_output=True, text=True, check=True)
    assert "replaced enc0" in done.stderr, done.stderr
    seen = (box.folder / "env").read_text()
    assert f"XDG_CACHE_HOME={here}/cache\n" in seen
    assert f"XDG_CONFIG_HOME={here}/config\n" in seen
    os.chdir(here)
    try:
        relative = {"XDG_CACHE_HOME": "cache", "HOME": "/h"}
        assert hook_folder(read_settings(relative), relative) == folder
    finally:
        os.chdir("/")


def test_the_files_of_the_cache_are_the_users_alone(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="async")
    for path in box.cache.folder.iterdir():
        if re.search(r"\.(err|img|lock)$", path.name):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
