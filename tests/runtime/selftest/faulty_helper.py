"""A helper of the emulated HIP whose emulator has the fault that a file names (ZLUDA_RR_TEST_FAULT)."""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.runtime.selftest.faults import Planted
from zluda_rr.emulate.gfx12 import launch
from zluda_rr.emulate.hip import helper


def main(arguments: Sequence[str]) -> None:
    planted, chosen = Planted(), Path(os.environ["ZLUDA_RR_TEST_FAULT"])
    vars(launch)["operations"] = lambda: planted.table(chosen.read_text())
    helper.main(arguments)
