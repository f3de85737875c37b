"""The commands, and the whole way with the real rewriter: the library asks, `zluda-rr` answers, the loader receives."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import lz4.block
import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.hook import library_path
from zluda_rr.hook.bitcode import committed_bitcode
from zluda_rr.hook.cache import Kind
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.precompile import Tally, candidates
from zluda_rr.hook.session import launch_environment
from zluda_rr.hook.transform import module_extent, transform_image
from zluda_rr.image import modules_in_bytes, read_ptx, shipped_module

from .sandbox import TEXT, Sandbox

PROGRAM = Path(sys.executable).with_name("zluda-rr")


@pytest.fixture
def cli(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The sandbox's settings in this process, too; the record of the real installation."""
    built = library_path().parent.parent
    for name in [n for n in os.environ if n.startswith(("ZLUDA_RR", "LD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", box.env["ZLUDA_RR_CACHE_DIR"])
    monkeypatch.setenv("HOME", box.env["HOME"])
    # The libraries that the session has built already.
    (box.cache.folder.parent / "lib").symlink_to(built)
    box.env["ZLUDA_RR_TOOL"] = str(PROGRAM)
    box.env["ZLUDA_RR_TIMEOUT"] = "120"
    return box


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def fatbin_of(text: bytes) -> bytes:
    """A container with one compressed PTX entry (docs/containers.md)."""
    packed = lz4.block.compress(text, store_size=False)
    padded = packed + bytes(-len(packed) % 8)
    head = (1, 0x101, 64, len(padded), len(packed), 64, 0, 9, 89, 0, 0, 0x2011, 0, len(text))
    entry = struct.pack("<HHIQIIHHIIIQQQ", *head) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


@pytest.fixture(scope="module")
def enc0() -> bytes:
    return read_ptx(shipped_module("enc0")).encode()


def test_from_the_miss_to_the_log(cli: Sandbox, enc0: bytes) -> None:
    """One module in three containers. The first load rewrites, `precompile` does the rest, `log` and `cache` tell."""
    image = fatbin_of(enc0)
    outcome = cli.run("cuModuleLoadFatBinary", "dlsym", image, "--raw", "--wrapper", "good")
    call, status, text = outcome.loads[0]
    assert (call, status) == ("cuModuleLoadData", 0), outcome.log
    assert b"call.uni (zrr_result), zrr_swin_phase" in text or b".extern .func" in text
    assert b".visible .entry cuda_dldn_engine_swin_enc0_kernel" in text
    assert "replaced enc0" in outcome.log[0]
    assert not list(cli.cache.folder.glob("*.img"))

    library = cli.folder / "game" / "nvngx.bin"
    library.parent.mkdir()
    library.write_bytes(b"\x7fELF" + bytes(4092) + image + bytes(100))
    found = candidates((library.parent,), read_settings({}), Tally())
    assert [c.image for c in found] == [enc0, image]
    code, printed = run("precompile", str(library.parent))
    assert code == 0
    assert printed.count("replaced: enc0") == 2
    warm = cli.run("cuModuleLoadData", "dlsym", enc0, ZLUDA_RR_MISS="off")
    assert warm.loads[0][2] == modules_in_bytes(text)[0].text.encode(), "the text is rewritten like the container"

    code, printed = run("cache", "list")
    assert code == 0
    assert printed.count("replaced   enc0") == 2
    code, printed = run("log")
    assert "host[" in printed
    assert "rewriter: enc0" in printed
    assert run("cache", "prune", "--keep", "0")[1] == "2 modules removed\n"
    assert run("cache", "clear")[1] == "0 modules removed\n"


def test_a_disabled_layer_stays(cli: Sandbox, enc0: bytes) -> None:
    for env in ({"ZLUDA_RR_DISABLE": "enc0"}, {"ZLUDA_RR_LAYERS": "enc1"}):
        outcome = cli.run("cuModuleLoadData", "dlsym", enc0, **env)
        assert outcome.loads == (("cuModuleLoadData", 0, enc0),)
        assert "no kernel of a layer that is switched on" in outcome.log[0]


def test_a_module_without_our_kernels_is_remembered(cli: Sandbox) -> None:
    first = cli.run("cuModuleLoadData", "dlsym", TEXT)
    assert first.loads[0][2] == TEXT
    assert "no kernel of a layer" in first.log[0]
    cli.rewriter("true")
    second = cli.run("cuModuleLoadData", "dlsym", TEXT)
    assert second.log[0].split("): ")[1] == first.log[0].split("): ")[1]
    assert cli.runs == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b".version 9.0\n.target sm_89\n.visible .entry cuda_dldn_engine_swin_enc0_kernel(\n{", "expected"),
        (b"\xff\xfe garbage", "PTX"),
        (fatbin_of(b".version 9.0\n")[:-9], "damaged fatbin"),
        (fatbin_of(TEXT)[:40], ""),
        (b"", "empty"),
    ],
)
def test_what_cannot_be_read_stays(data: bytes, words: str) -> None:
    entry = transform_image(data, read_settings({}))
    assert entry.kind is Kind.UNCHANGED
    assert "\n" not in entry.note
    assert entry.note


def test_unknown_layers_are_ignored(enc0: bytes) -> None:
    settings = read_settings({"ZLUDA_RR_LAYERS": "nothing", "ZLUDA_RR_DISABLE": "enc0"})
    assert transform_image(enc0, settings).note == "no kernel of a layer that is switched on"


def test_extent_of_images() -> None:
    assert module_extent(b".version\0rest") == b".version"
    image = fatbin_of(TEXT)
    assert module_extent(image + b"more") == image


def test_a_rewriter_that_fails_leaves_its_reason(cli: Sandbox) -> None:
    code = subprocess.run(
        [str(PROGRAM), "hook-child", str(cli.cache.folder), "no key"], capture_output=True, check=False
    )
    assert code.returncode == 2
    key = cli.key(TEXT, "")
    (cli.cache.folder / f"{key}.img").write_bytes(TEXT + b"changed")
    done = subprocess.run([str(PROGRAM), "hook-child", str(cli.cache.folder), key], capture_output=True, check=False)
    assert done.returncode == 2
    assert "damaged" in run("log")[1]
    assert not list(cli.cache.folder.glob("*.img"))


def test_precompile_of_nothing(cli: Sandbox) -> None:
    code, printed = run("precompile", str(cli.folder / "missing"))
    assert code == 2
    assert "no such file" in printed


# ---- launch and doctor


def test_launch_sets_the_environment(cli: Sandbox) -> None:
    command = [str(PROGRAM), "launch", "--", sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])"]
    env = {**cli.env, "LD_PRELOAD": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("libzluda_rr.so")
    assert (cli.cache.folder / "tool").read_text().startswith("zluda-rr tool 1\nfingerprint ")
    missing = subprocess.run([*command[:3], "/nonexistent/game"], env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert missing.stderr == "zluda-rr: /nonexistent/game: No such file or directory\n"


def test_launch_passes_options_and_exit_status_on(cli: Sandbox) -> None:
    command = [str(PROGRAM), "launch", "--", "sh", "-c", "exit $1", "sh", "7"]
    assert subprocess.run(command, env={**cli.env, "LD_PRELOAD": ""}, check=False).returncode == 7


def test_launch_without_a_usable_cache_still_runs_the_game(cli: Sandbox) -> None:
    (cli.folder / "file").write_text("")
    env = {**cli.env, "LD_PRELOAD": "", "ZLUDA_RR_CACHE_DIR": str(cli.folder / "file")}
    command = [str(PROGRAM), "launch", "--", "sh", "-c", "echo runs $LD_PRELOAD"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "runs\n"
    assert "running without the hook" in done.stderr


def test_launch_adds_itself_once() -> None:
    library = Path("/x/libzluda_rr.so")
    once = launch_environment({"LD_PRELOAD": "/other.so:/y/libzluda_rr.so", "ZLUDA_RR_TOOL": "/t"}, library)
    assert once["LD_PRELOAD"] == "/x/libzluda_rr.so:/other.so"
    assert launch_environment(once, library) == once
    assert once["ZLUDA_RR_TOOL"] == "/t"


def test_doctor(cli: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLUDA_RR_CUDA_LIB", str(cli.programs.cuda / "libcuda.so.1"))
    code, printed = run("doctor")
    assert code == 0, printed
    assert [line.split(":")[0] for line in printed.splitlines()] == [
        f"ok   {name}" for name in ("plugin", "library", "preload", "cache", "rewriter", "CUDA", "layers")
    ]
    for name, value in {"ZLUDA_RR": "0", "ZLUDA_RR_MISS": "never", "ZLUDA_RR_TOOL": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ZLUDA_RR_CUDA_LIB", "/nonexistent.so")
    monkeypatch.setenv("ZLUDA_RR_DISABLE", "enc99")
    code, printed = run("doctor")
    assert code == 1
    bad = [line for line in printed.splitlines() if line.startswith("FIX")]
    assert len(bad) == 5, printed
    assert printed.count("-> ") == 5, "each with a remedy"


def test_doctor_names_what_passes_the_hook_by(cli: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriter of another Python, a past run, a program with a privilege; each with its remedy."""
    monkeypatch.setenv("ZLUDA_RR_CUDA_LIB", str(cli.programs.cuda / "libcuda.so.1"))
    rewriter = cli.rewriter("")
    rewriter.write_text(f"#!{sys.executable} -S\nimport zluda_rr_of_another_python\n")
    monkeypatch.setenv("ZLUDA_RR_TOOL", str(rewriter))
    how = "libgame.so: opened with RTLD_DEEPBIND, so its own calls of CUDA do not pass the hook"
    (cli.cache.folder / "runs.log").write_text(f"{int(time.time())} 7 game bypass RTLD_DEEPBIND {how}\n")
    program = cli.folder / "game"
    shutil.copy(cli.programs.host, program)
    program.chmod(0o4755)
    code, printed = run("doctor", str(program))
    assert code == 1
    bad = [line for line in printed.splitlines() if line.startswith("FIX")]
    assert [line.split(":")[0] for line in bad] == [
        "FIX  rewriter",
        "FIX  passes by (RTLD_DEEPBIND)",
        "FIX  passes by (AT_SECURE)",
    ]
    assert "ModuleNotFoundError: No module named 'zluda_rr_of_another_python'" in bad[0]
    assert f"game: {how}" in bad[1]
    assert printed.count("-> ") == 3
    code, printed = run("doctor", str(cli.folder / "nothing"))
    assert code == 2
    assert "no such file or folder" in printed


def test_the_whole_way_of_a_patched_zluda(cli: Sandbox, enc0: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    status, printed = run("hook-path")
    assert (status, printed) == (0, f"{library_path()}\n")
    path = cli.folder / "enc0.ptx"
    path.write_bytes(enc0)
    assert run("precompile", "--quiet", str(path))[0] == 0
    monkeypatch.setenv("ZLUDA_RR_MISS", "off")
    library, size = ctypes.CDLL(printed.strip()), ctypes.c_size_t()
    text, paths = ctypes.c_void_p(), ctypes.c_void_p()
    image = ctypes.c_size_t(len(enc0))
    assert library.zluda_rr_transform(enc0, image, ctypes.byref(text), ctypes.byref(size)) == 1
    rewritten = ctypes.string_at(text.value or 0, size.value).decode()
    assert "call.uni (zrr_result), zrr_swin_enc0," in rewritten
    assert library.zluda_rr_bodies(text, size, ctypes.byref(paths)) == 1
    files = ctypes.string_at(paths.value or 0).decode().splitlines()
    assert [Path(file).read_bytes() for file in files] == [committed_bitcode("swin_enc0")]
    assert all(Path(file).parent == cli.cache.folder for file in files)
    for memory in (text, paths):
        library.zluda_rr_free(memory)
