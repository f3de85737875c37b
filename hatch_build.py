"""Builds the hook library into the wheel, so that a player needs no compiler (pyproject.toml, build hooks)."""

from __future__ import annotations

import platform
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class HookLibrary(BuildHookInterface):
    """Puts both libraries into ``zluda_rr/_data/lib`` and names the platform that they are for.

    Elsewhere than on x86-64 Linux the wheel has none, and `zluda-rr hook-path` compiles one at need.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or (sys.platform, platform.machine()) != ("linux", "x86_64"):
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        # The package without its front, which needs what the wheel will depend on.
        package = types.ModuleType("zluda_rr.hook")
        package.__path__ = [str(root / "zluda_rr" / "hook")]
        sys.modules["zluda_rr.hook"] = package
        from zluda_rr.hook.build import Library, build, compiler
        from zluda_rr.toolchain import GLIBC

        self._work = tempfile.TemporaryDirectory()
        for library in Library:
            output = Path(self._work.name) / library
            build(library, output, compiler(), ["-s"])
            build_data["force_include"][str(output)] = f"zluda_rr/_data/lib/{library}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{GLIBC.replace('.', '_')}_x86_64"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_work"):
            self._work.cleanup()
