"""Injected faults: the rewriter fails, hangs or dies; the host has handlers, limits, closed descriptors, threads."""

import contextlib
import os
import time
from collections.abc import Callable

import pytest

from zluda_rr.hook.cache import locked

from .sandbox import CALL, REWRITTEN, TEXT, Sandbox, assert_original

# ---- the rewriter


REWRITERS = {
    "exits with an error": ("exit 1", "left no result"),
    "is killed": ("kill -9 $$", "left no result"),
    "crashes": ("kill -SEGV $$", "left no result"),
    "does nothing": ("true", "left no result"),
    "leaves garbage": ('echo garbage >"$2/GARBAGE"', "left no result"),
    "removes its request": ('rm -f "$2/$3.img"; exit 2', "left no result"),
    "prints a lot": ("yes | head -c 1000000; yes | head -c 1000000 >&2", "left no result"),
}


@pytest.mark.parametrize("name", REWRITERS)
def test_failing_rewriter(box: Sandbox, name: str) -> None:
    script, reason = REWRITERS[name]
    box.rewriter(script.replace("GARBAGE", f"{box.key(TEXT)}.tmp"))
    assert_original(box.run(CALL, "dlsym", TEXT), reason=reason)
    assert box.runs == 1


def test_rewriter_that_writes_a_damaged_entry(box: Sandbox) -> None:
    box.rewriter(f'echo garbage >"$2/{box.key(TEXT)}.zrr"')
    outcome = box.run(CALL, "dlsym", TEXT)
    assert outcome.loads == ((CALL, 0, TEXT),)
    assert "dropped" in outcome.log[0]
    assert "left no result" in outcome.log[1]


def test_rewriter_that_is_not_there(box: Sandbox) -> None:
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_TOOL="/nonexistent/zluda-rr")
    assert_original(outcome, reason="no program /nonexistent/zluda-rr")


def test_rewriter_that_may_not_run(box: Sandbox) -> None:
    box.rewriter("true").chmod(0o600)
    assert_original(box.run(CALL, "dlsym", TEXT), reason="no program")


@pytest.mark.parametrize("text", ["#!/nonexistent/interpreter\n", "no program at all\n"])
def test_rewriter_that_cannot_be_executed(box: Sandbox, text: str) -> None:
    box.rewriter("true").write_text(text)
    assert_original(box.run(CALL, "dlsym", TEXT), reason="cannot run the rewriter")


def test_rewriter_on_no_path(box: Sandbox) -> None:
    (box.cache.folder / "tool").unlink()
    outcome = box.run(CALL, "dlsym", TEXT, PATH="/nonexistent")
    assert_original(outcome, reason="no program zluda-rr")


def test_slow_rewriter_is_not_waited_for(box: Sandbox) -> None:
    box.rewriter(f"sleep 6\n{box.prepared(TEXT)}")
    began = time.monotonic()
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_TIMEOUT="1")
    assert time.monotonic() - began < 5
    assert_original(outcome, reason="takes longer than")
    wait_for(lambda: box.cache.read(box.key(TEXT)))
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode(), "it goes on and serves the next load"


def test_a_rewrite_that_somebody_else_holds(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    with locked(box.cache.folder / f"{box.key(TEXT, '')}.lock", wait=False):
        assert_original(box.run(CALL, "dlsym", TEXT, ZLUDA_RR_TIMEOUT="1"), reason="under way")
        assert_original(box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="async"), reason="under way")
    assert box.runs == 0
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode(), "a lock file without a holder is no lock"


def test_a_process_that_died_with_the_lock(box: Sandbox) -> None:
    box.rewriter("exec sleep 60")
    host = box.start(CALL, "dlsym", TEXT)
    wait_for(lambda: box.runs)
    child = int((box.folder / "runs").read_text().split()[0])
    host.kill()
    host.communicate()
    os.kill(child, 9)
    box.rewriter(box.prepared(TEXT))
    outcome = box.run(CALL, "dlsym", TEXT)
    assert outcome.loads[0][2] == REWRITTEN.encode()


# ---- the host


@pytest.mark.parametrize("handling", ["handler", "ignore"])
def test_the_host_sees_no_child(box: Sandbox, handling: str) -> None:
    box.rewriter(box.prepared(TEXT))
    outcome = box.run(CALL, "dlsym", TEXT, "--sigchld", handling, "--pause", "300", "--repeat", "2")
    assert [load[2] for load in outcome.loads] == [REWRITTEN.encode()] * 2
    assert outcome.printed["sigchld"] == (0, 0), "no signal, nothing reaped"
    assert box.runs == 1


def test_closed_standard_descriptors(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    outcome = box.run(CALL, "dlsym", TEXT, "--closed")
    assert outcome.loads == ((CALL, 0, REWRITTEN.encode()),)
    assert outcome.printed["fds"][0] == outcome.printed["fds"][1]


def test_the_child_has_none_of_the_hosts_descriptors(box: Sandbox) -> None:
    box.rewriter(f"ls /proc/self/fd >{box.folder}/fds; umask >/dev/null; env >{box.folder}/env")
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    with contextlib.ExitStack() as stack:
        for end in (read_end, write_end):
            stack.callback(os.close, end)
        box.run(CALL, "dlsym", TEXT)
    # 0 and 1 nothing, 2 the file for errors, 3 the lock, 4 the pipe, 5 the place; `ls` itself has one for the folder.
    assert len((box.folder / "fds").read_text().split()) <= 7
    environment = (box.folder / "env").read_text()
    assert "LD_PRELOAD" not in environment
    assert "ZLUDA_RR_MISS=sync" in environment


def test_no_descriptors_left(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    outcome = box.run(CALL, "dlsym", TEXT, "--files", "7", ZLUDA_RR_LOG="info")
    assert outcome.status == 0
    assert outcome.loads == ((CALL, 0, TEXT),)


def test_sixty_four_threads(box: Sandbox) -> None:
    box.rewriter(f"sleep 0.3\n{box.prepared(TEXT)}")
    outcome = box.run(CALL, "dlsym", TEXT, "--threads", "64")
    assert outcome.status == 0
    assert [load[2] for load in outcome.loads] == [REWRITTEN.encode()] * 64
    assert box.runs == 1
    assert outcome.printed["fds"][0] == outcome.printed["fds"][1]


def test_sixty_four_threads_and_a_rewriter_that_fails(box: Sandbox) -> None:
    box.rewriter("sleep 0.2; exit 1")
    outcome = box.run(CALL, "dlsym", TEXT, "--threads", "64")
    assert outcome.status == 0
    assert [load[2] for load in outcome.loads] == [TEXT] * 64
    assert box.runs <= 3


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize("miss", ["sync", "async"])
def test_two_processes_make_one_rewrite(box: Sandbox, miss: str) -> None:
    box.rewriter(f"sleep 1\n{box.prepared(TEXT)}")
    hosts = [box.start(CALL, "dlsym", TEXT, ZLUDA_RR_MISS=miss, ZLUDA_RR_TIMEOUT="30") for _ in range(2)]
    for host in hosts:
        host.wait(timeout=60)
    both = box.finish(hosts[0])  # the record has both processes' loads
    expected = REWRITTEN.encode() if miss == "sync" else TEXT
    assert [load[2] for load in both.loads] == [expected, expected]
    wait_for(lambda: box.cache.read(box.key(TEXT)))
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    assert box.runs == 1


def test_async_serves_the_next_load(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    first = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="async")
    assert_original(first, reason="serves the next load")
    wait_for(lambda: box.cache.read(box.key(TEXT)))
    assert box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="async").loads[0][2] == REWRITTEN.encode()


def test_a_limit_on_file_sizes_is_no_signal(box: Sandbox) -> None:
    """SIGXFSZ would end the host."""
    box.rewriter("true")
    outcome = box.run(CALL, "dlsym", TEXT * 40, "--file-bytes", "2000", FAKE_CUDA_BYTES="64")
    assert len(outcome.loads) == 1
    assert "File too large" in outcome.log[0]
    assert box.runs == 0


def test_a_log_that_nobody_reads_is_no_signal(box: Sandbox) -> None:
    """SIGPIPE would end the host."""
    box.store(TEXT)
    host = box.start(CALL, "dlsym", TEXT)
    assert host.stderr
    host.stderr.close()
    host.stderr = None
    assert box.finish(host).loads == ((CALL, 0, REWRITTEN.encode()),)
