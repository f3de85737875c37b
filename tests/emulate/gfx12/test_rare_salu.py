"""64-bit EXEC forms, bit spreading and relative moves of scalar registers."""

from __future__ import annotations

import pytest

from tests.emulate.gfx12.snippet import run
from zluda_rr.emulate.gfx12.inst import Special
from zluda_rr.emulate.gfx12.machine import SCC_ROW, Machine

M64 = (1 << 64) - 1
EXEC = 0x0FF0_F00F
SOURCE = 0x1234_5678_9ABC_DEF0


def pair(done: Machine, register: int) -> int:
    return int(done.sgpr[register + 1, 0]) << 32 | int(done.sgpr[register, 0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("and", SOURCE & EXEC),
        ("or", SOURCE | EXEC),
        ("xor", SOURCE ^ EXEC),
        ("nand", ~(SOURCE & EXEC) & M64),
        ("nor", ~(SOURCE | EXEC) & M64),
        ("xnor", ~(SOURCE ^ EXEC) & M64),
        ("and_not0", ~SOURCE & EXEC & M64),
        ("or_not0", (~SOURCE | EXEC) & M64),
        ("and_not1", SOURCE & ~EXEC & M64),
        ("or_not1", (SOURCE | ~EXEC) & M64),
    ],
)
def test_saveexec(name: str, expected: int) -> None:
    source = {0: SOURCE & 0xFFFF_FFFF, 1: SOURCE >> 32}
    done = run(f"s_{name}_saveexec_b64 s[4:5], s[0:1]", s=source, execution=EXEC)
    assert pair(done, 4) == EXEC
    assert pair(done, int(Special.EXEC_LO)) == expected
    assert done.sgpr[SCC_ROW, 0] == (expected != 0)


def test_wrexec_returns_the_new_mask() -> None:
    done = run("s_and_not1_wrexec_b64 s[4:5], s[0:1]", s={0: 0xFFFF, 1: 0}, execution=EXEC)
    assert pair(done, 4) == pair(done, int(Special.EXEC_LO)) == 0xFFFF & ~EXEC


def test_new_mask_applies_to_what_follows() -> None:
    lines = ["s_and_saveexec_b64 s[4:5], s[0:1]", "v_mov_b32 v0, 1"]
    done = run(*lines, s={0: 0x5, 1: 0}, v={0: [0] * 32})
    assert done.vgpr[0, 0].tolist() == [1, 0, 1, *[0] * 29]


def test_single_bits_of_pairs() -> None:
    values = {0: 0, 1: 0, 2: 0xFFFF_FFFF, 3: 0xFFFF_FFFF, 4: 33 + 64}
    done = run("s_bitset1_b64 s[0:1], s4", "s_bitset0_b64 s[2:3], s4", s=values)
    assert pair(done, 0) == 1 << 33
    assert pair(done, 2) == M64 ^ 1 << 33


def test_bit_spreading() -> None:
    word = 0x8000_1234
    done = run("s_bitreplicate_b64_b32 s[2:3], s0", "s_quadmask_b32 s4, s0", "s_wqm_b32 s5, s0", s={0: word})
    assert pair(done, 2) == sum(3 << 2 * bit for bit in range(32) if word >> bit & 1)
    quads = [index for index in range(8) if word >> 4 * index & 15]
    assert done.sgpr[4, 0] == sum(1 << index for index in quads)
    assert done.sgpr[5, 0] == sum(15 << 4 * index for index in quads)
    assert done.sgpr[SCC_ROW, 0] == 1
    assert run("s_wqm_b64 s[2:3], s[0:1]", s={0: 0, 1: 0}).sgpr[SCC_ROW, 0] == 0


def test_relative_registers() -> None:
    lines = ["s_mov_b32 m0, 2", "s_movrels_b32 s8, s0", "s_movreld_b64 s[10:11], s[2:3]"]
    done = run(*lines, s={2: 77, 3: 88, 10: 1, 11: 2})
    assert done.sgpr[8, 0] == 77
    assert [int(done.sgpr[r, 0]) for r in (10, 11, 12, 13)] == [1, 2, 77, 88]


def test_hints_do_nothing() -> None:
    assert run("s_setkill 1", "s_wakeup", "s_version 2", s={0: 5}).sgpr[0, 0] == 5
