"""Progress on the terminal for anything that takes seconds: one line per step on stderr, with its duration."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Progress:
    """Prints `label … 1.2 s` per step; `quiet` prints nothing (tests, `--quiet`)."""

    quiet: bool = False
    stream: TextIO = sys.stderr

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Show `label` while the body runs, and how long it took once it ended."""
        if self.quiet:
            yield
            return
        start = time.monotonic()
        self.stream.write(f"{label} … ")
        self.stream.flush()
        try:
            yield
        except BaseException:
            self.stream.write("failed\n")
            raise
        self.stream.write(f"{time.monotonic() - start:.1f} s\n")
