"""ZLUDA's e4m3x2 conversions, software or native, over all halves in both positions."""

from __future__ import annotations

import numpy as np

from tests.runtime.zluda_compiler import needs_zoc, zoc
from tests.runtime.zluda_conversions import HALVES, mismatches, module_text, packed_inputs
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.numerics.e4m3 import encode_half_pairs
from zluda_rr.ptx import parse


def test_every_half_is_in_both_positions() -> None:
    packed = packed_inputs()
    for shift in (0, 16):
        assert len(np.unique(packed >> np.uint32(shift) & np.uint32(0xFFFF))) == HALVES


def test_the_module_is_what_the_oracle_takes_for_a_conversion() -> None:
    """Where there is no compiler, at least the test's own PTX is checked."""
    memory = AddressSpace(1 << 20)
    packed = packed_inputs()[:: HALVES // 512].copy()
    source = memory.allocate("inputs", packed.nbytes, data=packed.view(np.uint8))
    target = memory.allocate("outputs", packed.nbytes)
    params = np.array([source, target], np.uint64).tobytes()
    module = parse(module_text())
    run_entry(module, "conversions", grid=(2, 1, 1), block=(256, 1, 1), params=params, memory=memory, model="exact")
    got = memory.view("outputs").view(np.uint16).reshape(-1, 2)
    for column, relu in enumerate((False, True)):
        assert (got[:, column] == encode_half_pairs(packed, relu=relu)).all()


@needs_zoc
def test_all_halves() -> None:
    found = mismatches(zoc())
    assert not found, f"{len(found)} differ, first: {found[0]}"
