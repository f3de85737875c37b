"""Rewriters: two at a time, at low priority, the rest queued and done; what a rewriter that cannot start says."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zluda_rr.hook.cache import Kind

from .sandbox import CALL, REWRITTEN, TEXT, Sandbox, assert_original

# The real one, but for what it does with a module.
_PYTHON = """#!{python}
import os, sys, time
from pathlib import Path
from zluda_rr.hook import child
from zluda_rr.hook.cache import Entry, Kind
work = Path({folder!r})
def transform(image, settings, known=None):
    mine = work / f"busy-{{os.getpid()}}"
    mine.touch()
    names = [p for p in work.glob("busy-*")]
    time.sleep({seconds})
    with (work / "seen").open("a") as stream:
        stream.write(f"{{len(names)}} {{os.getpriority(os.PRIO_PROCESS, 0)}} {{os.getpid()}}\\n")
    mine.unlink()
    if b"sick" in image:
        raise ValueError("no good\\nat all")
    return Entry(Kind.REPLACED, "enc0", {text!r})
child.transform_image = transform
child.current_tool = lambda: child.Tool("{fingerprint}", {command!r}, ("enc0", "enc1"), ())
assert sys.argv[1] == "hook-child"
try:
    child.serve(Path(sys.argv[2]), sys.argv[3])
except Exception as error:
    sys.exit(f"zluda-rr: {{error}}")
"""


def python_rewriter(box: Sandbox, seconds: float = 0.1) -> None:
    work = box.folder / "work"
    work.mkdir(exist_ok=True)
    path = box.folder / "rewriter"
    fields = {"folder": str(work), "seconds": seconds, "text": REWRITTEN, "command": str(path)}
    path.write_text(_PYTHON.format(python=sys.executable, fingerprint="0123456789abcdef" * 2, **fields))
    path.chmod(0o755)
    box.env["ZLUDA_RR_TOOL"] = str(path)


def seen(box: Sandbox) -> list[tuple[int, int, int]]:
    """Rewrites at the time, niceness and process, for each rewrite."""
    path = box.folder / "work" / "seen"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in lines)]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def texts(count: int) -> list[bytes]:
    return [TEXT + f"// {i}\n".encode() for i in range(count)]


def test_ten_new_modules_are_rewritten_by_two(box: Sandbox) -> None:
    python_rewriter(box)
    images = texts(10)
    logs = [box.run(CALL, "dlsym", image, ZLUDA_RR_MISS="async").log[0] for image in images]
    assert "under way" in logs[0]
    wait_for(lambda: len(seen(box)) == 10)
    for image in images:
        wait_for(lambda image=image: box.cache.read(box.key(image)))  # type: ignore[misc]
    assert max(count for count, _, _ in seen(box)) <= 2
    assert len({process for _, _, process in seen(box)}) < 10, "who is done takes what waits"
    assert sum("waits for others" in line for line in logs) >= 5
    assert {nice for _, nice, _ in seen(box)} == {max(10, os.getpriority(os.PRIO_PROCESS, 0))}
    wait_for(lambda: not list(box.cache.folder.glob("*.img")))
    assert not list(box.cache.folder.glob("*.err"))


def test_threads_that_wait_for_ten_new_modules(box: Sandbox) -> None:
    python_rewriter(box, 0.05)
    hosts = [box.start(CALL, "dlsym", image, ZLUDA_RR_TIMEOUT="60") for image in texts(6)]
    for host in hosts:
        host.wait(timeout=90)
    outcome = box.finish(hosts[0])
    assert [load[2] for load in outcome.loads] == [REWRITTEN.encode()] * 6
    assert max(count for count, _, _ in seen(box)) <= 2


def test_a_module_that_fails_in_the_queue_tells_so_and_stops_nothing(box: Sandbox) -> None:
    python_rewriter(box, 0.5)
    images = [*texts(2), TEXT + b"// sick\n", *texts(4)[2:]]
    for image in images:
        box.run(CALL, "dlsym", image, ZLUDA_RR_MISS="async")
    wait_for(lambda: len(seen(box)) == 5)
    for image in texts(4):
        wait_for(lambda image=image: box.cache.read(box.key(image)))  # type: ignore[misc]
    errors = box.cache.folder / f"{box.key(images[2], '')}.err"
    wait_for(lambda: errors.exists() and errors.read_text())
    outcome = box.run(CALL, "dlsym", images[2], ZLUDA_RR_MISS="async")
    assert "the last one failed (ValueError: no good" in outcome.log[0] or "at all" in outcome.log[0]


# ---- a rewriter that cannot start


BROKEN = {
    "wrong Python": (f"#!{sys.executable} -S\nimport zluda_rr_of_another_python\n", "ModuleNotFoundError: No module"),
    "exit code": ("#!/bin/sh\nexit 7\n", "exit status 7"),
    "exit code and words": (
        "#!/bin/sh\necho one >&2; echo the last words >&2; exit 3\n",
        "exit status 3: the last words",
    ),
    "no interpreter": ("#!/nonexistent/python3\n", "its interpreter /nonexistent/python3: No such file"),
    "no program": ("hello\n", "Exec format error"),
    "no interpreter on PATH": ("#!/usr/bin/env python_of_nowhere\n", "exit status 127: "),
    "killed": ("#!/bin/sh\nkill -9 $$\n", "exit status 137"),
}


@pytest.mark.parametrize("miss", ["sync", "async"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_rewriter_that_cannot_start(box: Sandbox, name: str, miss: str) -> None:
    """The reason is there at the latest with the next load, and it is not started for ever."""
    text, words = BROKEN[name]
    box.rewriter("").write_text(text)
    lock = box.cache.folder / f"{box.key(TEXT, '')}.err"
    pause = "600" if miss == "async" else "0"
    outcome = box.run(CALL, "dlsym", TEXT, "--repeat", "4", "--pause", pause, ZLUDA_RR_MISS=miss)
    assert [load[2] for load in outcome.loads] == [TEXT] * 4
    assert len(outcome.log) == 4
    first = outcome.log[0]
    assert words in first or (miss == "async" and "under way" in first), first
    assert all(words in line for line in outcome.log[1:]), outcome.log
    assert not any("under way" in line for line in outcome.log[1:])
    assert lock.exists() == (name not in ("no interpreter", "no program"))


def test_the_next_process_tries_again_and_says_what_failed(box: Sandbox) -> None:
    box.rewriter("echo broken >&2; exit 9")
    box.run(CALL, "dlsym", TEXT)
    box.rewriter(box.prepared(TEXT))
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="async")
    assert_original(outcome, reason="under way again; the last one failed (exit status 9: broken)")
    wait_for(lambda: box.cache.read(box.key(TEXT)))
    assert box.runs == 2


def test_a_failing_rewriter_runs_once_a_process(box: Sandbox) -> None:
    box.rewriter("exit 1")
    box.run(CALL, "dlsym", TEXT, "--repeat", "8", "--pause", "100", ZLUDA_RR_MISS="async")
    assert box.runs == 1


def test_priority_and_descriptors_of_the_rewriter(box: Sandbox) -> None:
    script = f"cat /proc/self/stat >{box.folder}/stat; ionice -p $$ >{box.folder}/io 2>&1"
    box.rewriter(script)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    box.run(CALL, "dlsym", TEXT)
    assert int((box.folder / "stat").read_text().split()[18]) == max(own, 10)
    io = (box.folder / "io").read_text()
    assert "best-effort: prio 7" in io or "not found" in io


def test_the_host_keeps_its_priority(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    host = box.start(CALL, "dlsym", TEXT, "--repeat", "2", "--pause", "1500")
    wait_for(lambda: box.runs)
    time.sleep(0.3)
    assert os.getpriority(os.PRIO_PROCESS, host.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert box.finish(host).status == 0


def test_entries_of_the_queue_are_entries(box: Sandbox) -> None:
    python_rewriter(box)
    box.run(CALL, "dlsym", TEXT)
    entry = box.cache.read(box.key(TEXT))
    assert entry is not None
    assert (entry.kind, entry.text) == (Kind.REPLACED, REWRITTEN)
    assert Path(box.env["ZLUDA_RR_TOOL"]).exists()
