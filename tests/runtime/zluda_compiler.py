"""ZLUDA's offline compiler for tests: skip with a reason where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zluda_rr.runtime import ZOC_VARIABLE, zoc_path

needs_zoc = pytest.mark.skipif(
    not os.environ.get(ZOC_VARIABLE), reason=f"{ZOC_VARIABLE} does not name ZLUDA's offline compiler"
)


def zoc() -> Path:
    """The compiler; a name that is no file fails instead of skipping."""
    return zoc_path(None)
