"""The process that judges mutants: replaced where one keeps it busy for too long or kills it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.kernels.mutants.judge import RED, Judge, Verdict
from tests.kernels.mutants.operators import Mutant
from tests.kernels.mutants.sources import BODIES

PATIENCE = 60.0  # processor seconds for one mutant: of a busy machine the clock says nothing
GIVEN_UP = 1800.0  # seconds after which there is no verdict
MEMORY = 6 << 30


class Worker:
    """The process that judges."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._body), daemon=True)
        self._process.start()
        other.close()
        self._pipe.recv()

    def ask(self, mutant: Mutant) -> Verdict | None:
        """The verdict. Red where it costs too much or kills the process; None where the machine had no time for it."""
        self._pipe.send(mutant)
        before, start = self._spent(), time.monotonic()
        verdict: Verdict | None = Verdict(RED, "the compiler or the emulator died")
        try:
            while not self._pipe.poll(2.0):
                if self._spent() - before > PATIENCE:
                    verdict = Verdict(RED, f"after {PATIENCE:.0f} s no verdict: compiler or kernel do not end")
                    break
                if time.monotonic() - start > GIVEN_UP:
                    verdict = None
                    break
            else:
                found: Verdict = self._pipe.recv()
                return found
        except EOFError:
            pass
        self._process.kill()
        self._process.join()
        self._start()
        return verdict

    def _spent(self) -> float:
        """Processor seconds of the process and of the compilers that it has run."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()


def _serve(pipe: Connection, body: str) -> None:
    os.nice(10)
    os.environ["ZLUDA_RR_CACHE_DIR"] = os.devnull + "/none"  # thousands of compilations, none of which comes again
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    judge = Judge.of(BODIES[body])
    pipe.send("ready")
    while (mutant := pipe.recv()) is not None:
        try:
            pipe.send(judge.judge(mutant))
        except MemoryError:
            pipe.send(Verdict(RED, "needs too much memory"))
    judge.close()
