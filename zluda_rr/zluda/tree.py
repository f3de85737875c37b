"""A checkout of ZLUDA and how much of the series it holds.

The states that a checkout can be in are computed by git itself: the tree of the base commit, and after each patch. They
are made in an index and an object folder of their own, so that nothing is left behind in the user's repository. A
checkout is in a state when every file that the series touches has that state's contents; other files are the user's
affair, also those of the optional patches where these are not applied. From one state to another goes a single
`git apply`, which changes all files or none.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from zluda_rr.errors import UserError

from .series import Series

# What a git hook or an alias around us may have set.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout, the series, and the trees of its states: `trees[n]` is the base with the first n patches."""

    source: Path
    series: Series
    trees: tuple[str, ...]
    contents: tuple[Mapping[str, str], ...]
    """Of each state: hash of every file that the series touches; a file that it does not have is missing."""
    env: Mapping[str, str]

    def applied(self) -> int:
        """How many patches the checkout holds. UserError where its files are in no state of the series."""
        everything, wanted = len(self.series.patches), self.series.length(False)
        for count in dict.fromkeys((everything, wanted)):
            paths = sorted(set().union(*self.contents[: count + 1]) - self._untouched(count))
            found = self._hashes(paths)
            for number in reversed(range(count + 1)):
                if all(found.get(path) == self.contents[number].get(path) for path in paths):
                    return number
        short = self.series.base[:8]
        raise UserError(f"{self.source}: {self._foreign(found, paths)}; commit {short} has other contents: move the "
                        "files away, or git checkout them")  # fmt: skip

    def _untouched(self, count: int) -> set[str]:
        """Files that only patches behind the first `count` touch."""
        states = self.contents[: count + 1]
        return {path for path in set().union(*states) if len({state.get(path) for state in states}) == 1}

    def _hashes(self, paths: list[str]) -> dict[str, str]:
        present = [path for path in paths if os.path.lexists(self.source / path)]
        odd = [path for path in present if (self.source / path).is_symlink() or not (self.source / path).is_file()]
        if odd:
            raise UserError(f"{self.source / odd[0]}: no regular file, as ZLUDA has it; move it away")
        listed = "\n".join(present) + "\n" if present else ""
        hashes = _git(self.source, "hash-object", "--stdin-paths", env=self.env, stdin=listed).split()
        return dict(zip(present, hashes, strict=True))

    def _foreign(self, found: Mapping[str, str], paths: list[str]) -> str:
        """The files that keep the checkout from the state it is nearest to."""

        def differing(contents: Mapping[str, str]) -> list[str]:
            return [path for path in paths if found.get(path) != contents.get(path)]

        nearest = min(map(differing, self.contents[: self.series.length(False) + 1]), key=len)
        more = f" and {len(nearest) - _SHOWN} more" if len(nearest) > _SHOWN else ""
        return f"changed in {', '.join(nearest[:_SHOWN])}{more}"

    def move(self, before: int, after: int) -> None:
        """Change the files from one state to another, all or none."""
        change = _git(self.source, "diff-tree", "-p", "--binary", "--full-index", self.trees[before], self.trees[after],
                      env=self.env)  # fmt: skip
        if change:
            _git(self.source, "apply", "--whitespace=nowarn", "-", env=self.env, stdin=change)


@contextmanager
def opened(source: Path, series: Series) -> Iterator[Checkout]:
    """A checkout of ZLUDA. UserError where it is none, or the series does not fit its base."""
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN} | {"LC_ALL": "C"}
    if not source.is_dir():
        raise UserError(f"{source}: no such folder")
    top = _git(source, "rev-parse", "--show-toplevel", env=env).strip()
    if Path(top).resolve() != source.resolve():
        raise UserError(f"{source}: not the root of a git checkout of ZLUDA")
    if _run(source, "cat-file", "-e", f"{series.base}^{{commit}}", env=env).returncode:
        short = series.base[:8]
        raise UserError(f"{source}: has no commit {short}: if this is ZLUDA, git fetch origin {series.base}")
    objects = _git(source, "rev-parse", "--path-format=absolute", "--git-path", "objects", env=env).strip()
    with tempfile.TemporaryDirectory() as work:
        env |= {
            "GIT_INDEX_FILE": str(Path(work) / "index"),
            "GIT_OBJECT_DIRECTORY": str(Path(work) / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        (Path(work) / "objects").mkdir()
        trees = _trees(source, series, env)
        yield Checkout(source, series, trees, _contents(source, trees, env), env)


def _trees(source: Path, series: Series, env: Mapping[str, str]) -> tuple[str, ...]:
    _git(source, "read-tree", series.base, env=env)
    trees = [_git(source, "write-tree", env=env).strip()]
    for patch in series.patches:
        done = _run(source, "apply", "--cached", "--whitespace=nowarn", str(patch.path.resolve()), env=env)
        if done.returncode:
            raise UserError(f"{patch.path.name}: does not apply to {series.base[:8]}: {_complaint(done)}")
        trees.append(_git(source, "write-tree", env=env).strip())
    return tuple(trees)


def _contents(source: Path, trees: tuple[str, ...], env: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    touched: set[str] = set()
    for before, after in pairwise(trees):
        names = _git(source, "diff-tree", "-r", "--no-renames", "--name-only", "-z", before, after, env=env)
        touched.update(name for name in names.split("\0") if name)
    states = []
    for tree in trees:
        files = _git(source, "ls-tree", "-r", "-z", tree, env=env).split("\0")
        entries = (line.split("\t", 1) for line in files if line)
        states.append({path: fields.split()[2] for fields, path in entries if path in touched})
    return tuple(states)


def _run(
    source: Path, *arguments: str, env: Mapping[str, str], stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(source), *arguments]
    try:
        return subprocess.run(command, env=env, input=stdin, capture_output=True, encoding="utf-8",
                              errors="surrogateescape", check=False)  # fmt: skip
    except FileNotFoundError as error:
        raise UserError("git is missing; install it with the system's package manager") from error


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[0].removeprefix("error: ").removeprefix("fatal: ")


def _git(source: Path, *arguments: str, env: Mapping[str, str], stdin: str | None = None) -> str:
    done = _run(source, *arguments, env=env, stdin=stdin)
    if done.returncode:
        raise UserError(f"{source}: git {arguments[0]}: {_complaint(done)}")
    return done.stdout


def apply_series(source: Path, series: Series, *, system_llvm: bool = False) -> str:
    """Apply what is missing of the series; what was done, in a line. UserError, nothing changed, where that fails."""
    wanted = series.length(system_llvm)
    with opened(source, series) as checkout:
        applied = checkout.applied()
        if applied >= wanted:
            return f"{source}: all {wanted} patches are applied already"
        checkout.move(applied, wanted)
        before = f", {applied} were already" if applied else ""
        return f"{source}: {wanted - applied} patches applied{before}"


def revert_series(source: Path, series: Series) -> str:
    """Take the series back, as much of it as is applied; what was done, in a line."""
    with opened(source, series) as checkout:
        applied = checkout.applied()
        checkout.move(applied, 0)
        return f"{source}: {applied} patches taken back" if applied else f"{source}: no patch is applied"


def describe_series(source: Path, series: Series) -> tuple[str, ...]:
    """A line per patch: applied, or can be applied."""
    with opened(source, series) as checkout:
        applied = checkout.applied()
    lines = []
    for number, patch in enumerate(series.patches):
        state = "applied" if number < applied else "optional" if patch.local else "applies"
        lines.append(f"{state:<8}  {patch.name}: {patch.title}" if patch.title else f"{state:<8}  {patch.name}")
    return tuple(lines)
