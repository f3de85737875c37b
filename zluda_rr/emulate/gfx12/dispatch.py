"""The instruction table: every mnemonic the emulator executes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from zluda_rr.emulate.gfx12 import (
    execute_control,
    execute_image,
    execute_lds,
    execute_memory,
    execute_memory_rare,
    execute_salu,
    execute_salu_compare,
    execute_salu_rare,
    execute_valu_compare,
    execute_valu_convert,
    execute_valu_float,
    execute_valu_int,
    execute_valu_lanes,
    execute_valu_rare,
    execute_vop3p,
    execute_wmma,
    execute_wmma_wide,
)
from zluda_rr.emulate.gfx12.inst import Inst
from zluda_rr.emulate.gfx12.machine import EmulationError
from zluda_rr.emulate.gfx12.opcodes import opcode_table
from zluda_rr.emulate.gfx12.table import Build

_FAMILIES = (
    execute_control,
    execute_image,
    execute_lds,
    execute_memory,
    execute_memory_rare,
    execute_salu,
    execute_salu_compare,
    execute_salu_rare,
    execute_valu_compare,
    execute_valu_convert,
    execute_valu_float,
    execute_valu_int,
    execute_valu_lanes,
    execute_valu_rare,
    execute_vop3p,
    execute_wmma,
    execute_wmma_wide,
)


@cache
def operations() -> Mapping[str, Build]:
    """Builders by mnemonic; ValueError where two families claim one.

    Families list operations by regular rules; combinations that gfx1201 has no opcode for are left out.
    """
    real = {signature.mnemonic.replace("v_dual_", "v_") for signature in opcode_table().values()}
    table: dict[str, Build] = {}
    for family in _FAMILIES:
        fresh = family.operations()
        twice = table.keys() & fresh.keys()
        if twice:
            raise ValueError(f"two families execute {', '.join(sorted(twice))}")
        table |= fresh
    return {name: build for name, build in table.items() if name in real}


def builder_of(table: Mapping[str, Build], inst: Inst) -> Build:
    """The builder of an instruction; EmulationError names one that is not known."""
    build = table.get(inst.mnemonic)
    if build is None:
        raise EmulationError(f"the emulator does not know {inst.text!r} at {inst.address:#x}")
    return build
