"""Code objects of gfx1201 under the name of gfx1200 are what a compiler makes for gfx1200."""

from __future__ import annotations

from pathlib import Path

import pytest

from zluda_rr import toolchain
from zluda_rr.resources import resource_dir
from zluda_rr.runtime.devices.siblings import for_architecture
from zluda_rr.toolchain import compile_hip, compile_ir


@pytest.mark.parametrize("source", ["convert", "rates", "matrix"])
def test_every_byte_is_the_compilers(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = resource_dir("kernels")
    text = compile_hip(kernels / "selftest" / f"{source}.hip", includes=[kernels])
    ours = compile_ir([text]).code_object
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path))  # its keys do not know of another target
    monkeypatch.setattr(toolchain, "TARGET_CPU", "gfx1200")
    theirs = compile_ir([text.replace("gfx1201", "gfx1200")]).code_object
    assert theirs != ours
    assert for_architecture(ours, "gfx1200") == theirs
    with pytest.raises(ValueError, match="code object for machine 0x48, not gfx1201"):
        for_architecture(theirs, "gfx1200")


def test_the_own_architecture_is_left_alone() -> None:
    assert for_architecture(b"anything", "gfx1201") == b"anything"
