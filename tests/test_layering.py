"""Dependencies point downward only (docs/design.md, packages), and only through package fronts."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "zluda_rr"
LEAVES = {"atomic", "errors", "resources"}
ALLOWED: dict[str, set[str]] = {
    "atomic": set(),
    "errors": set(),
    "resources": set(),
    "ptx": set(),
    "numerics": set(),
    "image": set(),
    "toolchain": set(),
    "zluda": set(),
    "analysis": {"ptx"},
    "rewrite": {"analysis", "ptx"},
    "emulate": {"ptx", "numerics", "toolchain"},
    "lower": {"ptx", "toolchain"},
    "forms": {"lower", "emulate", "ptx"},
    "runtime": {"lower", "emulate", "rewrite", "analysis", "numerics", "ptx", "image", "toolchain"},
    "hook": {"rewrite", "image", "toolchain", "ptx"},
    # Not in runtime, whose emulators would have to be loaded first.
    "inspection": {"rewrite", "ptx", "image"},
    "commands": {"runtime"},
    "cli": {
        "commands",
        "inspection",
        "runtime",
        "lower",
        "emulate",
        "rewrite",
        "analysis",
        "numerics",
        "ptx",
        "image",
        "toolchain",
        "hook",
        "zluda",
    },
    "__init__": set(),
}


def package_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Absolute dotted names imported anywhere in the file, function bodies included."""
    parts = ("zluda_rr", *path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            yield node.lineno, module
            if module == "zluda_rr":
                yield from ((node.lineno, f"zluda_rr.{alias.name}") for alias in node.names)


def violations(path: Path, source: str) -> list[str]:
    own = package_of(path)
    found = []
    for line, name in imported_modules(path, source):
        parts = name.split(".")
        if parts[0] != "zluda_rr" or len(parts) < 2 or parts[1] == own:
            continue
        target = parts[1]
        if target not in ALLOWED[own] | LEAVES:
            found.append(f"{path.name}:{line}: {own} must not import {target}")
        # emulate has three fronts (ptx, gfx12, hip) and a shared leaf (memory); each file of numerics is its own front.
        depth = 3 if target in {"emulate", "numerics"} else 2
        if len(parts) > depth:
            found.append(f"{path.name}:{line}: import {target} through its front, not {name}")
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downward(path: Path) -> None:
    assert violations(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ptx/x.py", "from zluda_rr.rewrite import y"),
        ("numerics/x.py", "def f():\n    import zluda_rr.ptx"),
        ("emulate/gfx12/x.py", "from zluda_rr import rewrite"),
        ("rewrite/x.py", "from ..lower import y"),
        ("analysis/x.py", "from zluda_rr.ptx.ast import Module"),
    ],
)
def test_the_check_can_fail(file: str, source: str) -> None:
    assert violations(ROOT / file, source) != []


def test_emulators_do_not_know_each_other() -> None:
    """Neither of machine emulator and oracle consults the other; neither knows HIP, which stands above the first."""
    for own, others in (("gfx12", ("ptx", "hip")), ("ptx", ("gfx12", "hip")), ("hip", ("ptx",))):
        for path in (ROOT / "emulate" / own).rglob("*.py"):
            names = [name for _, name in imported_modules(path, path.read_text())]
            for other in others:
                assert not any(name.startswith(f"zluda_rr.emulate.{other}") for name in names), path
            if own != "hip":
                assert not any(name.startswith("zluda_rr.toolchain") for name in names), path
            if own == "gfx12":
                assert not any(name.startswith("zluda_rr.ptx") for name in names), path
