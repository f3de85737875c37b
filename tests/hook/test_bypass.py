"""What passes the hook by is named: at run time in the log, and by `doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.hook import library_path
from zluda_rr.hook.build import Library
from zluda_rr.hook.bypass import (
    examine_program,
    past_bypasses,
    preloadable,
    rewriter_problem,
    start_problems,
    try_start,
)
from zluda_rr.hook.session import launch_environment, recent_runs

from .sandbox import REWRITTEN, TEXT, Sandbox, c_compiler
from .test_handles import Libraries, drive, made

__all__ = ["made"]


def compile_text(path: Path, text: str, *flags: str) -> Path:
    source = path.with_suffix(".c")
    source.write_text(text)
    subprocess.run([*c_compiler(), str(source), "-o", str(path), *flags], check=True)
    return path


# ---- at run time


def test_a_library_opened_with_deepbind_is_named_once(box: Sandbox, made: Libraries) -> None:
    box.store(TEXT)
    steps = ("open,1,@plugin_opens.so,deep", "play,1", "open,1,@plugin_opens.so,deep", "play,1")
    outcome = drive(box, made, *steps)
    assert [load[2] for load in outcome.loads] == [TEXT, TEXT], "a bypass indeed"
    assert len(outcome.log) == 1
    assert "plugin_opens.so: opened with RTLD_DEEPBIND" in outcome.log[0]
    without = drive(box, made, "open,1,@plugin_opens.so", "play,1")
    assert [load[2] for load in without.loads] == [REWRITTEN.encode()]
    found = past_bypasses((box.cache.folder / "runs.log").read_text().splitlines())
    assert [bypass.what for bypass in found] == ["RTLD_DEEPBIND"]
    assert found[0].detail.startswith("handles: ")


def test_a_namespace_of_its_own_is_named(box: Sandbox, made: Libraries) -> None:
    outcome = drive(box, made, "new,1,@libfirst.so")
    assert len(outcome.log) == 1
    assert "libfirst.so: opened in a namespace of its own" in outcome.log[0]
    assert drive(box, made, "new,1,@libfirst.so", ZLUDA_RR="0").log == ()


def test_opening_still_means_the_caller(tmp_path: Path, box: Sandbox) -> None:
    """`dlopen` goes on by a jump: a library is found by the RUNPATH of who asks."""
    (tmp_path / "inner").mkdir()
    compile_text(tmp_path / "inner" / "libdeep.so", "int deep(void) { return 7; }", "-shared", "-fPIC")
    text = '#include <dlfcn.h>\nvoid *ask(void) { return dlopen("libdeep.so", RTLD_NOW); }'
    compile_text(tmp_path / "libasks.so", text, "-shared", "-fPIC", "-ldl", "-Wl,-rpath,$ORIGIN/inner")
    text = '#include <stdio.h>\nvoid *ask(void);\nint main(void) { puts(ask() ? "found" : "lost"); return 0; }'
    program = compile_text(tmp_path / "program", text, f"-L{tmp_path}", "-lasks", f"-Wl,-rpath,{tmp_path}")
    done = subprocess.run([str(program)], env=box.env, capture_output=True, text=True, check=True)
    assert done.stdout == "found\n"


LINKS = """#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
typedef int (*add)(void *, int, void *, unsigned long, const char *, unsigned, int *, void **);
typedef int (*get)(const char *, void **, int, uint64_t);
static char ptx[] = ".version 9.0";
static int call(add what, int type) {
    return what((void *)2, type, ptx, sizeof ptx, "a", 3, (int *)16, (void **)24);
}
int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *second = 0;
    add first = (add)dlsym(library, "cuLinkAddData_v2");
    ((get)dlsym(library, "cuGetProcAddress"))("cuLinkAddData", &second, 12000, 0);
    printf("status %d\\n", call(first, 1) + call((add)second, 1) + call(first, 0));
    return 0;
}
"""


def test_the_drivers_linker_is_named(box: Sandbox, tmp_path: Path) -> None:
    program = compile_text(tmp_path / "links", LINKS, "-ldl", "-w")
    (box.folder / "record").mkdir()
    env = {**box.env, "FAKE_CUDA_DIR": str(box.folder / "record")}
    pipe = subprocess.PIPE
    outcome = box.finish(subprocess.Popen([str(program)], env=env, stdout=pipe, stderr=pipe, text=True))
    assert outcome.status == 0, "every argument arrives"
    assert [call[0] for call in outcome.calls] == ["cuLinkAddData_v2"] * 3
    assert len(outcome.log) == 2
    assert all("its module stays as it is" in line for line in outcome.log)


INTERPOSER = """#define _GNU_SOURCE
#include <dlfcn.h>
void *dlsym(void *library, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(library, name);
}
"""


def test_another_dlsym_in_front_is_named(box: Sandbox, tmp_path: Path) -> None:
    other = compile_text(tmp_path / "libother.so", INTERPOSER, "-shared", "-fPIC", "-ldl")
    for preload, lines in ((f"{other}:{box.programs.hook}", 1), (f"{box.programs.hook}:{other}", 0)):
        outcome = box.run("cuModuleLoadData", "dlsym", TEXT, LD_PRELOAD=preload, ZLUDA_RR_MISS="off")
        named = [line for line in outcome.log if "its dlsym comes first" in line]
        assert len(named) == lines, outcome.log
    env = {**os.environ, "LD_PRELOAD": f"{other}:{box.programs.hook}", "ZLUDA_RR_LOG": "off"}
    found = try_start(env)
    assert found is not None
    assert found.what == "dlsym"
    assert str(other) in found.detail


# ---- from outside


def test_a_trial_start(box: Sandbox, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "ZLUDA_RR"))}
    env["ZLUDA_RR_LOG"] = "off"
    assert try_start(launch_environment(env, library_path())) is None
    blank = tmp_path / "a blank" / "libzluda_rr.so"
    blank.parent.mkdir()
    blank.symlink_to(box.programs.hook)
    found = try_start({**env, "LD_PRELOAD": str(blank)})
    assert found is not None
    assert found.what == "LD_PRELOAD"
    assert "cannot be preloaded" in found.detail
    assert try_start(launch_environment({**env, "XDG_RUNTIME_DIR": str(tmp_path / "none")}, blank)) is None


def test_a_path_with_a_blank_is_preloaded_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "libzluda_rr.so"
    assert preloadable(plain, {}) == plain
    for name in ("a blank", "a:colon"):
        folder = tmp_path / name
        folder.mkdir()
        library = folder / "libzluda_rr.so"
        library.write_bytes(b"x")
        runtime = tmp_path / "run"
        runtime.mkdir(exist_ok=True)
        link = preloadable(library, {"XDG_RUNTIME_DIR": str(runtime)})
        assert link == runtime / f"zluda-rr-{os.geteuid()}" / "libzluda_rr.so"
        assert link.read_bytes() == b"x"
        assert link.resolve() == library.resolve()
    link.parent.chmod(0o777)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "a blank"))
    other = preloadable(library, {"XDG_RUNTIME_DIR": str(runtime)})
    assert other.parent.parent == Path("/tmp"), "not a folder that others may write"


def test_a_home_with_a_blank_can_launch(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "ZLUDA_RR", "XDG_"))}
    env |= {"HOME": str(home)}
    (home / ".cache" / "zluda-rr").mkdir(parents=True)
    (home / ".cache" / "zluda-rr" / "lib").symlink_to(library_path().parent.parent)
    command = [str(Path(sys.executable).with_name("zluda-rr")), "launch", "--", "sh", "-c", "cat /proc/$$/maps"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "is loaded into sh" in done.stderr
    assert "cannot be preloaded" not in done.stderr


def test_programs_that_start_without_the_hook(tmp_path: Path) -> None:
    plain = compile_text(tmp_path / "plain", "int main(void) { return 0; }")
    assert list(examine_program(plain)) == []
    static = compile_text(tmp_path / "static", "int main(void) { return 0; }", "-static")
    assert [bypass.what for bypass in start_problems(static)] == ["static"]
    plain.chmod(0o4755)
    assert [bypass.what for bypass in start_problems(plain)] == ["AT_SECURE"]
    small = bytearray(plain.read_bytes())
    small[4] = 1
    (tmp_path / "cut").write_bytes(bytes(small[:40]))
    assert list(start_problems(tmp_path / "cut")) == []
    assert list(start_problems(tmp_path / "plain.c")) == []
    with pytest.raises(UserError, match="no such file"):
        list(examine_program(tmp_path / "nothing"))


def test_the_linker_is_found_in_a_games_files(tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(void) { puts("cuLinkAddData_v2"); return 0; }'
    compile_text(tmp_path / "game", text)
    (tmp_path / "readme").write_text("cuLinkAddData")
    found = list(examine_program(tmp_path))
    assert [bypass.what for bypass in found] == ["cuLinkAddData"]
    assert "game: knows cuLinkAddData" in found[0].detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"#!{sys.executable} -S\nimport zluda_rr_of_another_python\n", "exit status 1: ModuleNotFoundError"),
        ("#!/nonexistent/python\n", "cannot run: No such file"),
        ("#!/bin/sh\necho first; echo last >&2; exit 4\n", "exit status 4: last"),
    ],
)
def test_a_rewriter_that_does_not_answer(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "zluda-rr"
    path.write_text(text)
    path.chmod(0o755)
    assert words in (rewriter_problem(str(path)) or "")


def test_the_real_rewriter_answers() -> None:
    assert rewriter_problem(str(Path(sys.executable).with_name("zluda-rr"))) is None


def test_old_runs_say_nothing(tmp_path: Path) -> None:
    now = int(time.time())
    line = "{} 5 game bypass RTLD_DEEPBIND libx.so: opened"
    assert past_bypasses([line.format(now - 30 * 86400)]) == ()
    assert len(past_bypasses([line.format(now), line.format(now)])) == 1
    loaded = [f"{now} {i} {name} loaded - hook is loaded" for i, name in enumerate(("sh", "sh", "game", "sh"))]
    (tmp_path / "runs.log").write_text("\n".join([*loaded, f"{now} 2 game replaced {'0' * 32} enc0"]) + "\n")
    assert [entry.split("  ")[1] for entry in recent_runs(tmp_path, 9)] == ["game[2]", "sh[3]", "game[2]"]


# ---- the library itself


@pytest.mark.parametrize("spoil", [b"", b"\x7fELF", None])
def test_a_damaged_library_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: bytes | None) -> None:
    whole = library_path(Library.PRELOAD).read_bytes()
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path))
    path = library_path(Library.PRELOAD)
    before = path.stat().st_mtime_ns
    assert library_path(Library.PRELOAD).stat().st_mtime_ns == before, "once"
    path.write_bytes(path.read_bytes()[:-100] if spoil is None else spoil)
    assert library_path(Library.PRELOAD).read_bytes() == whole


def test_a_place_where_nothing_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="ZLUDA_RR_CACHE_DIR"):
        library_path(Library.PRELOAD)
