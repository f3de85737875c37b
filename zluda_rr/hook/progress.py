"""What `precompile` shows while it looks at a folder: a line at once, and then one that is kept up to date."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import click

_TTY_SECONDS = 0.2
_FIRST_SECONDS, _SECONDS = 0.5, 5.0


@dataclass(slots=True)
class Progress:
    """Lines on `stream`, rewritten in place on a terminal."""

    quiet: bool = False
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _next: float = 0.0
    _begun: float = field(default_factory=time.monotonic)
    _width: int = 0

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self._write(text, "\n")
            self._next = time.monotonic() + (_TTY_SECONDS if self.stream.isatty() else _FIRST_SECONDS)

    def update(self, files: int, modules: int, path: Path) -> None:
        """Where the search is; shown now and then."""
        now = time.monotonic()
        if self.quiet or now < self._next:
            return
        terminal = self.stream.isatty()
        self._next = now + (_TTY_SECONDS if terminal else _SECONDS)
        name = click.format_filename(path.name, shorten=True)[:40]
        text = f"precompile: {now - self._begun:.0f} s, {files:,} files, {modules:,} modules of a layer, at {name}"
        self._write(text, "\r" if terminal else "\n")

    def _write(self, text: str, end: str) -> None:
        self.stream.write(text.ljust(self._width) + end)
        self.stream.flush()
        self._width = len(text) if end == "\r" else 0
