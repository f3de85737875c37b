"""`zluda-rr zluda`: a series made here on a repository made here, and the shipped one on a real checkout."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.errors import UserError
from zluda_rr.zluda import Series, apply_series, describe_series, load_series, revert_series

VARIABLE = "ZLUDA_RR_ZLUDA_SOURCE"
FILES = {"a.rs": "".join(f"line {i}\n" for i in range(30)), "lib/b.rs": "fn b() {}\n", "other.rs": "fn other() {}\n"}


def git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=env, input=stdin, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True, slots=True)
class Fake:
    """A checkout at the base, and a series of two patches and a local one."""

    source: Path
    series: Series
    patches: Path

    def files(self) -> dict[str, str]:
        """Everything in the checkout."""
        paths = (p for p in self.source.rglob("*") if p.is_file() and ".git" not in p.relative_to(self.source).parts)
        return {str(p.relative_to(self.source)): p.read_text() for p in paths}


def commit(source: Path, title: str, changes: dict[str, str | None]) -> None:
    for name, text in changes.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", title)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """0001 edits a.rs and adds new.rs, 0002 edits the same lines again and removes lib/b.rs, 9000 edits other.rs."""
    source, patches = tmp_path / "zluda", tmp_path / "patches"
    source.mkdir()
    (patches / "local").mkdir(parents=True)
    git(source, "init", "-q")
    commit(source, "base", dict(FILES))
    base = git(source, "rev-parse", "HEAD").strip()
    commit(source, "One: a", {"a.rs": FILES["a.rs"].replace("line 3\n", "three\n"), "new.rs": "fn new() {}\n"})
    commit(source, "Two: a and b", {"a.rs": FILES["a.rs"].replace("line 3\n", "drei\n"), "lib/b.rs": None})
    commit(source, "local", {"other.rs": "fn local() {}\n"})
    git(source, "format-patch", "-q", "-o", str(patches), f"{base}..HEAD")
    (patches / "0003-local.patch").rename(patches / "local" / "9000-local.patch")
    (patches / "base").write_text(base + "\n")
    git(source, "checkout", "-q", base)
    return Fake(source, load_series(patches), patches)


def test_order_and_titles(fake: Fake) -> None:
    assert [p.name for p in fake.series.patches] == ["0001-One-a", "0002-Two-a-and-b", "9000-local"]
    assert [p.title for p in fake.series.patches] == ["One: a", "Two: a and b", "local"]
    assert (fake.series.length(False), fake.series.length(True)) == (2, 3)


def test_apply_and_revert(fake: Fake) -> None:
    assert fake.files() == FILES
    assert apply_series(fake.source, fake.series).endswith("2 patches applied")
    after = fake.files()
    assert after["a.rs"] == FILES["a.rs"].replace("line 3\n", "drei\n")
    assert after["new.rs"] == "fn new() {}\n"
    assert "lib/b.rs" not in after
    assert after["other.rs"] == FILES["other.rs"]
    assert apply_series(fake.source, fake.series).endswith("all 2 patches are applied already")
    assert fake.files() == after
    assert revert_series(fake.source, fake.series).endswith("2 patches taken back")
    assert fake.files() == FILES
    assert revert_series(fake.source, fake.series).endswith("no patch is applied")


def test_the_local_patch_comes_and_goes_on_demand(fake: Fake) -> None:
    apply_series(fake.source, fake.series)
    assert apply_series(fake.source, fake.series, system_llvm=True).endswith("1 patches applied, 2 were already")
    assert fake.files()["other.rs"] == "fn local() {}\n"
    assert apply_series(fake.source, fake.series).endswith("all 2 patches are applied already")
    assert revert_series(fake.source, fake.series).endswith("3 patches taken back")
    assert fake.files() == FILES


def test_check_says_how_far_it_is_and_changes_nothing(fake: Fake) -> None:
    expected = ["applies", "applies", "optional"]
    for done in range(4):
        lines = describe_series(fake.source, fake.series)
        assert [line.split()[0] for line in lines] == ["applied"] * done + expected[done:]
        assert "0002-Two-a-and-b: Two: a and b" in lines[1]
        if done < 3:
            git(fake.source, "apply", str(fake.series.patches[done].path))
    before = fake.files()
    describe_series(fake.source, fake.series)
    assert fake.files() == before


def test_the_half_that_is_applied_is_completed(fake: Fake) -> None:
    git(fake.source, "apply", str(fake.series.patches[0].path))
    assert apply_series(fake.source, fake.series).endswith("1 patches applied, 1 were already")
    revert_series(fake.source, fake.series)
    assert fake.files() == FILES


def test_committed_patches_and_edits_elsewhere_do_not_matter(fake: Fake) -> None:
    (fake.source / "mine.rs").write_text("fn mine() {}\n")
    (fake.source / "other.rs").write_text(FILES["other.rs"])
    apply_series(fake.source, fake.series)
    git(fake.source, "add", "-A")
    git(fake.source, "commit", "-q", "-m", "all of it")
    assert apply_series(fake.source, fake.series).endswith("already")
    revert_series(fake.source, fake.series)
    assert fake.files() == {**FILES, "mine.rs": "fn mine() {}\n"}


@pytest.mark.parametrize("command", [apply_series, revert_series, describe_series])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.rs", FILES["a.rs"] + "more\n"), ("a.rs", None), ("new.rs", "fn mine() {}\n")],
)
def test_a_file_in_the_way_is_named_and_nothing_changes(
    fake: Fake, command: Callable[[Path, Series], object], name: str, text: str | None
) -> None:
    path = fake.source / name
    path.unlink() if text is None else path.write_text(text)
    before = fake.files()
    with pytest.raises(UserError, match=f"changed in {name}; commit {fake.series.base[:8]} has other contents"):
        command(fake.source, fake.series)
    assert fake.files() == before


def test_files_of_the_optional_patch_matter_only_to_it(fake: Fake) -> None:
    (fake.source / "other.rs").write_text("fn mine() {}\n")
    with pytest.raises(UserError, match=r"git apply: patch failed: other\.rs"):
        apply_series(fake.source, fake.series, system_llvm=True)
    assert fake.files() == {**FILES, "other.rs": "fn mine() {}\n"}
    apply_series(fake.source, fake.series)
    assert "new.rs" in fake.files()
    assert revert_series(fake.source, fake.series).endswith("2 patches taken back")
    assert fake.files() == {**FILES, "other.rs": "fn mine() {}\n"}


def test_nothing_is_left_in_the_repository(fake: Fake) -> None:
    def state() -> tuple[str, str, set[Path]]:
        objects = set((fake.source / ".git" / "objects").rglob("*"))
        return git(fake.source, "rev-parse", "HEAD"), git(fake.source, "ls-files", "-s"), objects

    before = state()
    apply_series(fake.source, fake.series)
    revert_series(fake.source, fake.series)
    assert state() == before


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("other.rs")])
def test_a_file_that_is_no_regular_one(fake: Fake, make: Callable[[Path], None]) -> None:
    (fake.source / "a.rs").unlink()
    make(fake.source / "a.rs")
    with pytest.raises(UserError, match=r"a\.rs: no regular file"):
        apply_series(fake.source, fake.series)


def test_a_series_that_does_not_fit_its_base(fake: Fake) -> None:
    path = fake.series.patches[1].path
    path.write_text(path.read_text().replace("-three", "-tree"))
    before = fake.files()
    with pytest.raises(UserError, match=r"0002-Two-a-and-b\.patch: does not apply to \w{8}: patch failed: a\.rs:"):
        apply_series(fake.source, fake.series)
    assert fake.files() == before


def test_what_is_no_checkout_of_zluda(fake: Fake, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UserError, match="not a git repository"):
        apply_series(other, fake.series)
    git(other, "init", "-q")
    base = fake.series.base
    with pytest.raises(UserError, match=f"has no commit {base[:8]}: if this is ZLUDA, git fetch origin {base}"):
        apply_series(other, fake.series)
    with pytest.raises(UserError, match="no such folder"):
        apply_series(tmp_path / "none", fake.series)
    with pytest.raises(UserError, match="not the root of a git checkout"):
        apply_series(fake.source / "lib", fake.series)
    with pytest.raises(UserError, match="no patch series"):
        load_series(other)


def test_one_line_and_exit_code_2(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("apply", "check", "revert"):
        result = CliRunner().invoke(main, ["zluda", command, "--source", str(tmp_path / "none")])
        assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(main, ["zluda", "check", "--source", str(fake.source)])
    assert result.exit_code == 2
    assert result.output == "zluda-rr: git is missing; install it with the system's package manager\n"


def test_the_shipped_series_is_well_formed() -> None:
    series = load_series()
    assert series.base == "8a7931be87d758835776f54ea2e33d30621c74ce"
    rows = re.findall(r"^\| (\d{4}) ", (Path(__file__).parents[2] / "docs" / "zluda.md").read_text(), re.M)
    assert [p.name[:4] for p in series.patches] == rows
    assert len(rows) == 9
    for patch in series.patches:
        text = patch.path.read_text()
        assert patch.title, patch.name
        assert "GIT binary patch" not in text
        assert not any(f" b/{name}" in text for name in ("Cargo.lock", "llvm_zluda/build.rs")) or patch.local


def test_the_shipped_series_on_a_real_checkout(tmp_path: Path) -> None:
    real = os.environ.get(VARIABLE)
    if not real:
        pytest.skip(f"{VARIABLE} names no checkout of ZLUDA")
    series, source = load_series(), tmp_path / "zluda"
    git(tmp_path, "clone", "-q", "--shared", "--no-checkout", real, str(source))
    # No files of large file storage, which the series does not touch.
    git(source, "config", "filter.lfs.smudge", "cat")
    git(source, "config", "filter.lfs.process", "")
    git(source, "checkout", "-q", series.base)
    clean = git(source, "status", "--porcelain")
    assert clean == ""
    apply_series(source, series, system_llvm=True)
    assert all(line.startswith("applied") for line in describe_series(source, series))
    assert git(source, "status", "--porcelain") != ""
    revert_series(source, series)
    assert git(source, "status", "--porcelain") == ""
