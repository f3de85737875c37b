"""The validation shares no code with what it validates."""

from __future__ import annotations

from pathlib import Path

from tests.test_layering import ROOT, imported_modules

PACKAGE = ROOT / "rewrite" / "validate"


def strangers(path: Path, source: str) -> list[str]:
    """Imports of the project from outside the package and zluda_rr.ptx."""
    names = [name for _, name in imported_modules(path, source) if name.split(".")[0] == "zluda_rr"]
    own = "zluda_rr.rewrite.validate"
    return [n for n in names if n != "zluda_rr.ptx" and n != own and not n.startswith(own + ".")]


def test_only_the_syntax_tree_is_shared() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 5
    for path in files:
        assert strangers(path, path.read_text()) == [], path


def test_the_check_can_fail() -> None:
    for line in (
        "from ..fusion_view import KernelView",
        "from zluda_rr.analysis import Values",
        "from .. import fusion",
    ):
        assert strangers(PACKAGE / "x.py", line) != []
