"""Program control: hand-assembled branches, calls, barriers and MODE; compiled kernels with real divergence."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import MODE, ORIGIN, execute, lanes_of, machine, program_of, run
from zluda_rr.emulate.gfx12 import CodeObject, EmulationError, Emulator, Stats, classify, load_code_object, run_kernel
from zluda_rr.emulate.gfx12.blocks import Compiler
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.scheduler import Scheduler
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_hip_kernel

SOURCE = r"""
typedef unsigned int u32;
#define KERNEL extern "C" __attribute__((global))
#define TID __builtin_amdgcn_workitem_id_x()
#define BID __builtin_amdgcn_workgroup_id_x()

// Collatz steps, with a nested branch and an early exit: lanes and waves leave the loop at different times.
KERNEL void collatz(u32* out, u32 limit) {
  u32 i = BID * 96 + TID, x = i + 1, steps = 0, odd = 0;
  while (x != 1) {
    if (x & 1) { x = 3 * x + 1; if (x % 5 == 0) ++odd; } else x >>= 1;
    if (++steps == limit) break;
  }
  out[2 * i] = steps; out[2 * i + 1] = odd;
}

// Sum over a workgroup of four waves by a tree in LDS with a barrier per level.
KERNEL void tree(const u32* in, u32* out) {
  __attribute__((shared)) static u32 part[128];
  part[TID] = in[BID * 128 + TID];
  for (u32 step = 64; step; step >>= 1) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    if (TID < step) part[TID] += part[TID + step];
  }
  if (TID == 0) out[BID] = part[0];
}

// A local array with a dynamic index lives in scratch.
KERNEL void histogram(const u32* in, u32* out, u32 n) {
  u32 count[128];
  for (int k = 0; k < 128; ++k) count[k] = 0;
  for (u32 k = 0; k < n; ++k) count[in[TID * n + k] & 127] += k + 1;
  for (int k = 0; k < 128; ++k) out[TID * 128 + k] = count[k];
}

__attribute__((noinline, device)) u32 power(u32 base, u32 exponent) {
  if (exponent == 0) return 1;
  u32 half = power(base, exponent >> 1);
  half *= half;
  return exponent & 1 ? half * base : half;
}
KERNEL void calls(u32* out) { out[TID] = power(TID + 1, TID % 13); }

// Function pointers: every lane picks its own target.
typedef u32 (*Function)(u32);
__attribute__((noinline, device)) u32 twice(u32 x) { return 2 * x; }
__attribute__((noinline, device)) u32 square(u32 x) { return x * x; }
__attribute__((noinline, device)) u32 negate(u32 x) { return -x; }
KERNEL void indirect(u32* out) {
  Function table[3] = {twice, square, negate};
  out[TID] = table[TID % 3](TID);
}

// A constant table needs the address of the code object.
__attribute__((device)) const u32 primes[32] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53,
  59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131};
KERNEL void table(u32* out) { out[TID] = primes[(TID * 7) & 31]; }

KERNEL void ids(u32* out) {
  u32 x = TID, y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
  u32 bx = BID, by = __builtin_amdgcn_workgroup_id_y(), bz = __builtin_amdgcn_workgroup_id_z();
  const u32* hidden = (const u32*)__builtin_amdgcn_implicitarg_ptr();
  u32 item = x + 5 * (y + 3 * z), group = bx + hidden[0] * (by + hidden[1] * bz);
  u32* o = out + (group * 30 + item) * 4;
  o[0] = x | y << 8 | z << 16; o[1] = bx | by << 8 | bz << 16;
  o[2] = hidden[0] | hidden[1] << 8 | hidden[2] << 16; o[3] = hidden[3];
}
"""


@cache
def code_object() -> CodeObject:
    return load_code_object(compile_hip_kernel(SOURCE).code_object)


def launch(
    name: str, blocks: int, threads: int, arguments: list[int | np.ndarray], **options: int
) -> tuple[list[np.ndarray], Stats]:
    """Run a kernel; arrays become buffers (returned as they are afterwards), integers are u32 arguments."""
    space = AddressSpace(1 << 20)
    packed = b""
    names = []
    for i, value in enumerate(arguments):
        if isinstance(value, np.ndarray):
            packed += struct.pack("<Q", space.allocate(f"b{i}", value.nbytes, data=value.tobytes()))
            names.append(f"b{i}")
        else:
            packed += struct.pack("<I", value)
    stats = run_kernel(code_object(), name, (blocks, 1, 1), (threads, 1, 1), packed, space, "exact", **options)
    return [space.view(n).view(np.uint32) for n in names], stats


def collatz(x: int, limit: int) -> tuple[int, int]:
    steps = odd = 0
    while x != 1:
        if x & 1:
            x = 3 * x + 1
            odd += x % 5 == 0
        else:
            x >>= 1
        steps += 1
        if steps == limit:
            break
    return steps, odd


@pytest.mark.parametrize("waves_per_batch", [128, 4])
def test_divergent_loops(waves_per_batch: int) -> None:
    """Seven workgroups of three waves; in one batch, and in batches of one workgroup."""
    n = 7 * 96
    (out,), _ = launch("collatz", 7, 96, [np.zeros(2 * n, np.uint32), 90], waves_per_batch=waves_per_batch)
    assert [tuple(row) for row in out.reshape(n, 2).tolist()] == [collatz(i + 1, 90) for i in range(n)]


def test_barriers_between_the_waves_of_a_workgroup() -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 5 * 128, dtype=np.uint32)
    (_, out), stats = launch("tree", 5, 128, [values, np.zeros(5, np.uint32)])
    assert out.tolist() == values.reshape(5, 128).sum(axis=1, dtype=np.uint32).tolist()
    assert stats.by_mnemonic["s_barrier_wait"] == 7 * 4 * 5


def test_scratch_arrays() -> None:
    n = 40
    values = np.random.default_rng(2).integers(0, 2**32, 32 * n, dtype=np.uint32)
    (_, out), stats = launch("histogram", 1, 32, [values, np.zeros(4096, np.uint32), n])
    expected = np.zeros((32, 128), np.uint32)
    for lane in range(32):
        for k in range(n):
            expected[lane, values[lane * n + k] & 127] += k + 1
    assert (out.reshape(32, 128) == expected).all()
    assert stats.by_class["scratch"] > 0


def test_recursive_calls_use_the_stack() -> None:
    (out,), stats = launch("calls", 1, 32, [np.zeros(32, np.uint32)])
    assert out.tolist() == [pow(lane + 1, lane % 13, 1 << 32) for lane in range(32)]
    assert stats.by_mnemonic["s_swappc_b64"] > 1


def test_indirect_calls() -> None:
    (out,), _ = launch("indirect", 1, 32, [np.zeros(32, np.uint32)])
    functions = (lambda x: 2 * x, lambda x: x * x, lambda x: -x & 0xFFFF_FFFF)
    assert out.tolist() == [functions[lane % 3](lane) for lane in range(32)]


def test_constant_tables_are_found() -> None:
    (out,), _ = launch("table", 1, 32, [np.zeros(32, np.uint32)])
    primes = [p for p in range(2, 132) if all(p % d for d in range(2, p))]
    assert out.tolist() == [primes[lane * 7 % 32] for lane in range(32)]


def test_ids_and_hidden_arguments() -> None:
    """A 4x3x2 grid of 5x3x2 work items, one partial wave each."""
    grid, block = (4, 3, 2), (5, 3, 2)
    space = AddressSpace(1 << 20)
    out = space.allocate("out", 4 * 4 * 30 * 24)
    stats = run_kernel(code_object(), "ids", grid, block, struct.pack("<Q", out), space, "exact")
    assert stats.waves == 24
    rows = space.view("out").view(np.uint32).reshape(24, 30, 4)
    for group in range(24):
        bx, by, bz = group % 4, group // 4 % 3, group // 12
        for item in range(30):
            x, y, z = item % 5, item // 5 % 3, item // 15
            assert rows[group, item].tolist() == [
                x | y << 8 | z << 16,
                bx | by << 8 | bz << 16,
                4 | 3 << 8 | 2 << 16,
                5 | 3 << 16,
            ]


def test_an_emulator_runs_again_from_a_clean_state() -> None:
    emulator = Emulator(code_object(), "collatz")
    results = []
    for _ in range(2):
        space = AddressSpace(1 << 16)
        out = space.allocate("out", 8 * 96 * 2)
        stats = emulator.run((2, 1, 1), (96, 1, 1), struct.pack("<QI", out, 50), space, "exact")
        results.append((space.view("out").tobytes(), stats))
    assert results[0] == results[1]


def test_counts_are_per_wave_that_executes() -> None:
    """Two waves branch apart: one runs the two instructions between, the other does not."""
    target = machine(2)
    target.sgpr[0] = [0, 1]
    lines = ("s_cmp_eq_u32 s0, 0", "s_cbranch_scc1 2", "v_mov_b32 v0, 1", "v_mov_b32 v1, 1", "v_nop")
    target.refresh_lanes()
    compiler = Compiler(target, program_of(lines), operations())
    Scheduler(target, compiler, 100).run(ORIGIN, MODE)
    counts = compiler.take_counts()
    assert not +compiler.take_counts()
    stats = Stats(2, counts, {address: inst.mnemonic for address, inst in program_of(lines).items()})
    assert stats.by_mnemonic == {"s_cmp_eq_u32": 2, "s_cbranch_scc1": 2, "v_mov_b32": 2, "v_nop": 2, "s_endpgm": 2}
    assert stats.instructions_per_wave == 5.0
    assert stats.by_class["valu"] == 2.0
    assert stats.by_class["branch"] == 2.0


def test_classes() -> None:
    expected = {
        "v_add_f32": "valu", "v_exp_f32": "transcendental", "v_rcp_iflag_f32": "transcendental",
        "v_s_rsq_f32": "transcendental", "v_frexp_exp_i32_f32": "valu", "v_wmma_f32_16x16x16_fp8_fp8": "wmma",
        "s_add_co_u32": "salu", "ds_bpermute_b32": "lds", "global_load_b32": "global", "flat_load_b32": "global",
        "s_load_b64": "global", "scratch_load_b32": "scratch", "s_cbranch_execz": "branch", "s_endpgm": "branch",
        "s_wait_dscnt": "wait", "s_delay_alu": "wait", "s_barrier_signal": "wait", "global_inv": "wait",
        "v_dual_add_f32": "valu", "s_setreg_imm32_b32": "salu",
    }  # fmt: skip
    assert {name: classify(name) for name in expected} == expected


def test_scalar_waves_that_part_meet_again() -> None:
    done = run(
        "s_cmp_eq_u32 s0, 1",
        "s_cbranch_scc1 2",
        "s_mov_b32 s1, 10",
        "s_branch 1",
        "s_mov_b32 s1, 20",
        "s_add_co_u32 s1, s1, s0",
        s={0: [0, 1, 2, 1]},
        waves=4,
    )
    assert done.sgpr[1].tolist() == [10, 21, 12, 21]


def test_masked_vector_and_scalar_writes_of_parted_waves() -> None:
    """Only waves on the path write, vector and scalar alike."""
    done = run(
        "v_mov_b32 v0, 1",
        "s_cmp_eq_u32 s0, 1",
        "s_cbranch_scc1 4",
        "v_mov_b32 v0, 5",
        "s_mov_b64 s[2:3], 7",
        "v_cmp_eq_u32 s4, v0, v0",
        s={0: [0, 1], 2: 0, 3: 9, 4: 0},
        waves=2,
    )
    assert (lanes_of(done, 0, 0)[0], lanes_of(done, 0, 1)[0]) == (5, 1)
    assert done.sgpr[2].tolist() == [7, 0]
    assert done.sgpr[3].tolist() == [0, 9]
    assert done.sgpr[4].tolist() == [0xFFFF_FFFF, 0]


def test_save_exec_and_vcc_branches() -> None:
    target = machine(3)
    target.sgpr[126] = [0xFF, 0xF0, 0x0F]
    target.vgpr[0] = 0
    execute(
        target,
        [
            "s_and_saveexec_b32 s0, 0xf0",
            "s_cbranch_execz 1",
            "v_mov_b32 v0, 1",
            "s_or_b32 exec_lo, exec_lo, s0",
            "v_cmp_eq_u32 vcc_lo, 1, v0",
            "s_cbranch_vccz 1",
            "s_mov_b32 s1, 1",
            "s_and_not1_wrexec_b32 s2, 3",
        ],
    )
    assert target.sgpr[0].tolist() == [0xFF, 0xF0, 0x0F]
    assert [sum(lanes_of(target, 0, wave)) for wave in range(3)] == [4, 4, 0]
    assert target.sgpr[1].tolist() == [1, 1, 0xDEAD_BEEF]
    assert target.sgpr[126].tolist() == [3 & ~0xFF, 3 & ~0xF0, 3 & ~0x0F]


def test_program_counter_and_indirect_jumps() -> None:
    """s_getpc gives the next address; each wave jumps to its own place, and s_swappc returns there."""
    done = run(
        "s_getpc_b64 s[0:1]",
        "s_add_nc_u64 s[2:3], s[0:1], s[4:5]",
        "s_swappc_b64 s[6:7], s[2:3]",
        "s_mov_b32 s8, 1",
        "s_branch 4",
        "s_mov_b32 s9, 2",
        "s_setpc_b64 s[6:7]",
        "s_mov_b32 s9, 3",
        "s_setpc_b64 s[6:7]",
        s={4: [16, 24], 5: 0},
        waves=2,
    )
    assert done.sgpr[0].tolist() == [0x1004, 0x1004]
    assert done.sgpr[6].tolist() == [0x100C, 0x100C]
    assert done.sgpr[8].tolist() == [1, 1]
    assert done.sgpr[9].tolist() == [2, 3]


def test_call_and_return() -> None:
    done = run("s_call_b64 s[0:1], 2", "s_mov_b32 s3, 4", "s_branch 2", "s_mov_b32 s2, 5", "s_setpc_b64 s[0:1]")
    assert done.sgpr[2:4, 0].tolist() == [5, 4]


def test_mode_register() -> None:
    """Rounding up for one addition; waves that set different modes go different ways."""
    lines = (
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1",
        "v_add_f32 v1, 1.0, v0",
        "s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 8)",
        "s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s2",
        "v_add_f32 v2, 1.0, v0",
        "s_round_mode 0x0",
        "v_add_f32 v3, 1.0, v0",
    )
    done = run(*lines, v={0: [0x2000_0000] * 32}, s={2: [0, 1]}, waves=2)
    assert lanes_of(done, 1)[0] == 0x3F80_0001
    assert done.sgpr[0].tolist() == [0xF1, 0xF1]
    assert [lanes_of(done, 2, wave)[0] for wave in range(2)] == [0x3F80_0000, 0x3F80_0001]
    assert [lanes_of(done, 3, wave)[0] for wave in range(2)] == [0x3F80_0000] * 2


def test_barrier_with_a_wave_that_has_ended() -> None:
    target = machine(2, per_group=2)
    target.sgpr[0] = [0, 1]
    execute(
        target,
        ["s_cmp_eq_u32 s0, 1", "s_cbranch_scc1 3", "s_barrier_signal -1", "s_barrier_wait -1", "s_mov_b32 s1, 1"],
    )
    assert target.sgpr[1].tolist() == [1, 0xDEAD_BEEF]


def test_first_wave_at_a_barrier() -> None:
    target = machine(4, per_group=2)
    target.sgpr[0] = [0, 1, 1, 0]
    execute(
        target,
        [
            "s_barrier_signal_isfirst -1",
            "s_cselect_b32 s1, 1, 0",
            "s_barrier_wait -1",
        ],
    )
    assert target.sgpr[1].reshape(2, 2).sum(axis=1).tolist() == [1, 1]


def test_first_wave_when_they_arrive_apart() -> None:
    """Wave 1 of each group takes a longer way: it finds wave 0's signal there."""
    target = machine(4, per_group=2)
    target.sgpr[0] = [0, 1, 0, 1]
    execute(
        target,
        [
            "s_cmp_eq_u32 s0, 1",
            "s_cbranch_scc1 3",
            "s_barrier_signal_isfirst -1",
            "s_cselect_b32 s1, 1, 0",
            "s_branch 3",
            "s_nop 0",
            "s_barrier_signal_isfirst -1",
            "s_cselect_b32 s1, 1, 0",
            "s_barrier_wait -1",
        ],
    )
    assert target.sgpr[1].tolist() == [1, 0, 1, 0]


def test_a_barrier_ends_when_the_slower_wave_does() -> None:
    """Wave 0 signals three times, wave 1 twice: wave 0's last wait ends only because wave 1 does."""
    target = machine(2, per_group=2)
    target.sgpr[0] = [0, 1]
    execute(
        target,
        [
            "s_cmp_eq_u32 s0, 1",
            "s_cbranch_scc1 1",
            "s_barrier_signal -1",
            "s_barrier_signal -1",
            "s_barrier_wait -1",
            "s_barrier_signal -1",
            "s_barrier_wait -1",
            "s_mov_b32 s1, 1",
        ],
    )
    assert target.sgpr[1].tolist() == [1, 1]


def test_what_would_hang_is_reported() -> None:
    with pytest.raises(EmulationError, match="s_barrier_wait at 0x1004 without an s_barrier_signal"):
        run("s_nop 0", "s_barrier_wait -1")
    with pytest.raises(EmulationError, match="endless loop"):
        run("s_branch -1")


def test_unknown_instruction_is_named() -> None:
    with pytest.raises(EmulationError, match=r"'s_rfe_b64 s\[0:1\]' at 0x1004") as caught:
        run("s_nop 0", "s_rfe_b64 s[0:1]")
    assert "s_rfe_b64" in str(caught.value)


def test_branch_out_of_the_code() -> None:
    with pytest.raises(EmulationError, match="no instruction at 0x1190"):
        run("s_branch 99")


def test_trap_stops() -> None:
    with pytest.raises(EmulationError, match="s_trap"):
        run("s_trap 2")
