"""The record `tool` in the cache folder: which rules, bodies and program its entries are from (native/tool.c)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.contract import load_contracts
from zluda_rr.resources import resource_dir

from .murmur import hash_hex, murmur128

_PACKAGE = Path(__file__).resolve().parent.parent
_STAGES = ("analysis", "hook", "image", "ptx", "rewrite")
_SUFFIXES = {".py", ".lark", ".toml", ".def", ".rule", ".hip", ".h", ".xz", ".json"}


@dataclass(frozen=True, slots=True)
class Tool:
    """`fingerprint` covers the contents of `files`, all that a rewrite depends on."""

    fingerprint: str
    command: str
    layers: tuple[str, ...]
    files: tuple[Path, ...]

    def text(self) -> str:
        """The record's lines, with the check at the end."""
        lines = ["zluda-rr tool 1", f"fingerprint {self.fingerprint}", f"command {self.command}"]
        lines.append(f"layers {','.join(self.layers)}")
        for path in self.files:
            about = path.stat()
            lines.append(f"file {about.st_mtime_ns} {about.st_size} {path}")
        body = "\n".join(lines) + "\n"
        return f"{body}check {hash_hex(murmur128(body.encode()))}\n"


def _version() -> str:
    try:
        return importlib.metadata.version("zluda-rr")
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return "0"


def covered_files() -> tuple[Path, ...]:
    """Everything whose change may change a rewritten module."""
    roots = [_PACKAGE / stage for stage in _STAGES] + [resource_dir("rules"), resource_dir("kernels")]
    return tuple(sorted(p for root in roots for p in root.rglob("*") if p.suffix in _SUFFIXES and p.is_file()))


def program() -> str:
    """The `zluda-rr` command beside this interpreter, else the one on PATH, else empty."""
    beside = Path(sys.executable).with_name("zluda-rr")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("zluda-rr") or ""


def current_tool(command: str = "") -> Tool:
    """The record of this installation."""
    digest = hashlib.sha256(_version().encode())
    files = covered_files()
    for path in files:
        data = path.read_bytes()
        digest.update(f"\n{path.name} {len(data)}\n".encode())
        digest.update(data)
    layers = tuple(contract.layer for contract in load_contracts())
    return Tool(digest.hexdigest()[:32], command or program(), layers, files)
