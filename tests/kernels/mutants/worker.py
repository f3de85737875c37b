"""The process that judges mutants: replaced where one keeps it busy for too long or kills it."""

from __future__ import annotations

import multiprocessing
import os
import resource
from multiprocessing.connection import Connection

from tests.kernels.mutants.judge import RED, Judge, Verdict
from tests.kernels.mutants.operators import Mutant
from tests.kernels.mutants.sources import BODIES

PATIENCE = 120.0  # seconds for one mutant
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

    def ask(self, mutant: Mutant) -> Verdict:
        """The verdict; one that does not come in time, or a process that dies, is red."""
        self._pipe.send(mutant)
        why = "no verdict in time: the compiler or the kernel does not end"
        try:
            if self._pipe.poll(PATIENCE):
                found: Verdict = self._pipe.recv()
                return found
        except EOFError:
            why = "the compiler or the emulator died"
        self._process.kill()
        self._process.join()
        self._start()
        return Verdict(RED, why)

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
