"""Whole kernels: every instruction decoded, in LLVM's order, and printed back to the same bytes."""

from __future__ import annotations

import time

import pytest

from tests.emulate.gfx12.compiled import assembly_mnemonics, compiled, compiled_true16
from tests.tools.gfx12_opcodes.assembler import assemble
from zluda_rr.emulate.gfx12.decode import DecodeError, decode, decode_program
from zluda_rr.emulate.gfx12.elf import CodeObject, load_code_object
from zluda_rr.emulate.gfx12.inst import Encoding, Inst, Kind, Special, Type


@pytest.fixture(scope="module")
def code_object() -> CodeObject:
    return load_code_object(compiled().code_object)


@pytest.fixture(scope="module")
def program(code_object: CodeObject) -> dict[int, Inst]:
    return decode_program(code_object)


def one(line: str) -> Inst:
    (got,) = assemble([line])
    assert got is not None, line
    inst = decode(got.code, 0, 0x1000)
    assert inst.size == len(got.code)
    return inst


def test_mnemonics_are_those_llvm_wrote(program: dict[int, Inst]) -> None:
    expected = assembly_mnemonics(compiled().assembly)
    got: list[str] = []
    for inst in program.values():
        got.append(inst.mnemonic)
    assert len(expected) > 500
    assert got == expected


def test_text_assembles_to_the_same_bytes(code_object: CodeObject, program: dict[int, Inst]) -> None:
    insts = list(program.values())
    for inst, again in zip(insts, assemble([inst.text for inst in insts]), strict=True):
        assert again is not None, inst.text
        assert again.code == code_object.read(inst.address, inst.size), inst.text


def test_true16_code_decodes_too() -> None:
    """Code with 16-bit values in register halves: LLVM's operands are exactly the ones printed."""
    code = load_code_object(compiled_true16().code_object)
    insts = list(decode_program(code).values())
    lines = [" ".join(line.split()) for line in compiled_true16().assembly.splitlines()]
    assert [inst.mnemonic for inst in insts] == assembly_mnemonics(compiled_true16().assembly)
    texts = [inst.text for inst in insts if "lit(" not in inst.text]  # LLVM does not print forced literals
    halves = {text for text in texts if ".h" in text or ".l" in text}
    assert len(halves) > 10
    assert {text.split(" op_sel")[0] for text in halves} <= {line.split(" op_sel")[0] for line in lines}
    for inst, again in zip(insts, assemble([inst.text for inst in insts]), strict=True):
        assert again is not None, inst.text
        assert again.code == code.read(inst.address, inst.size), inst.text


def test_addresses_are_contiguous_within_functions(code_object: CodeObject, program: dict[int, Inst]) -> None:
    for function in code_object.functions:
        inside = [i for a, i in program.items() if function.address <= a < function.address + function.size]
        assert sum(inst.size for inst in inside) == function.size


def test_branch_targets_are_instructions(program: dict[int, Inst]) -> None:
    branches = [i for i in program.values() if i.mnemonic.startswith(("s_branch", "s_cbranch"))]
    assert len(branches) > 10
    assert any(i.mods["simm16"] < 0 for i in branches)
    assert all(i.target in program for i in branches)


def test_kernels_start_with_code(code_object: CodeObject, program: dict[int, Inst]) -> None:
    assert set(code_object.kernels) == {"matrix", "scalars", "lanes"}
    for kernel in code_object.kernels.values():
        assert decode_program(code_object, kernel)[kernel.entry] == program[kernel.entry]


def test_speed(code_object: CodeObject, program: dict[int, Inst]) -> None:
    """100,000 instructions in under 3 s; measured on a tenth, the best of three."""
    repeats = 10_000 // len(program) + 1
    times = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(repeats):
            decode_program(code_object)
        times.append(time.process_time() - start)
    assert min(times) / (repeats * len(program)) * 100_000 < 3.0


def test_half_registers_decode_alike_in_every_encoding() -> None:
    short, long = one("v_add_f16_e32 v1.h, v2.l, v3.h"), one("v_add_f16_e64 v1.h, v2.l, v3.h")
    assert short.encoding is Encoding.VOP2
    assert long.encoding is Encoding.VOP3
    for inst in (short, long):
        assert [(o.index, o.half) for o in (*inst.dst, *inst.src)] == [(1, 1), (2, 0), (3, 1)]
    assert long.mods == {"op_sel": 0b1010}
    assert [o.half for o in one("v_fma_f16 v9.l, v1.h, s2, v3.l").src] == [1, 0, 0]


@pytest.mark.parametrize(
    ("line", "position", "value"),
    [
        ("v_add_f32_e32 v0, 1.0, v0", 0, 0x3F800000),
        ("v_add_f32_e32 v0, -16, v0", 0, 0xFFFFFFF0),
        ("v_add_f32_e32 v0, 64, v0", 0, 64),
        ("v_add_f16_e32 v0.l, 1.0, v0.l", 0, 0x3C00),
        ("v_add_f16_e32 v0.l, -4.0, v0.l", 0, 0xC400),
        ("v_add_f16_e32 v0.l, 0.15915494, v0.l", 0, 0x3118),
        ("v_add_f16_e32 v0.l, 0xfe0b, v0.l", 0, 0xFE0B),
        ("v_add_nc_u16 v0.l, -1, v0.l", 0, 0xFFFF),
        ("v_add_nc_u16 v0.l, 0.5, v0.l", 0, 0),
        ("v_pk_add_f16 v0, 1.0, v0", 0, 0x3C00),
        ("v_pk_add_f16 v0, v0, -1", 1, 0xFFFFFFFF),
        ("v_pk_add_u16 v0, 1.0, v0", 0, 0x3F800000),
        ("v_pk_fma_f16 v0, v1, 0xc71270d6, v2", 1, 0xC71270D6),
        ("v_add_f64_e32 v[0:1], 1.0, v[0:1]", 0, 0x3FF00000_00000000),
        ("v_add_f64_e32 v[0:1], 0x40490fdb, v[0:1]", 0, 0x40490FDB_00000000),
        ("v_cmp_lt_i64_e32 vcc_lo, -16, v[0:1]", 0, 0xFFFFFFFF_FFFFFFF0),
        ("v_cmp_lt_u64_e32 vcc_lo, 0x80000000, v[0:1]", 0, 0x80000000),
        ("s_mov_b64 s[0:1], 0xfffffff0", 0, 0xFFFFFFF0),
        ("s_add_f16 s0, 0.5, s1", 0, 0x3800),
        ("v_fmaak_f32 v0, v1, v2, 0x12345678", 2, 0x12345678),
        ("v_fmamk_f16 v0.h, v1.l, 0x1234, v2.l", 1, 0x1234),
        ("v_wmma_f32_16x16x16_fp8_fp8 v[0:7], v[8:9], v[10:11], 1.0", 2, 0x3F800000),
        ("v_permlane16_b32 v1, v2, 0x76543210, s3", 1, 0x76543210),
    ],
)
def test_constants_are_read_as_the_operand_type(line: str, position: int, value: int) -> None:
    operand = one(line).src[position]
    assert operand.is_constant
    assert operand.value == value


def test_implied_operands_are_explicit() -> None:
    compare, exec_compare = one("v_cmp_eq_u32_e32 vcc_lo, v1, v2"), one("v_cmpx_eq_u32_e64 s1, v2")
    assert compare.dst[0].index == Special.VCC_LO
    assert exec_compare.dst[0].index == Special.EXEC_LO
    assert exec_compare.src[0].kind is Kind.SGPR
    carry = one("v_add_co_ci_u32_e32 v1, vcc_lo, v2, v3, vcc_lo")
    assert [o.kind for o in carry.dst] == [Kind.VGPR, Kind.SPECIAL]
    assert [o.kind for o in carry.src] == [Kind.VGPR, Kind.VGPR, Kind.SPECIAL]
    assert one("v_readlane_b32 s5, v1, m0").dst[0].kind is Kind.SGPR
    assert one("v_mad_co_u64_u32 v[0:1], s2, v3, v4, v[6:7]").dst[1].kind is Kind.SGPR


def test_modifiers() -> None:
    fma = one("v_fma_f32 v0, -v1, |v2|, -|s3| clamp mul:4")
    assert [(o.neg, o.abs) for o in fma.src] == [(True, False), (False, True), (True, True)]
    assert fma.mods == {"clamp": 1, "omod": 2}
    dot = one("v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,0,0]")
    assert dot.mods == {"op_sel": 0, "op_sel_hi": 7, "neg_lo": 1, "neg_hi": 0}
    mix = one("v_fma_mix_f32 v0, -v1, |v2|, v3 op_sel:[0,1,0] op_sel_hi:[0,1,1]")
    assert mix.mods == {"op_sel": 2, "op_sel_hi": 6, "neg_lo": 1, "neg_hi": 2}
    assert one("v_cvt_f32_fp8_e64 v0, v1 byte_sel:2").mods == {"byte_sel": 2}
    assert one("v_cvt_sr_fp8_f32 v0, v1, v2 byte_sel:3").mods == {"byte_sel": 3}
    assert one("v_permlanex16_b32 v1, v2, s3, s4 op_sel:[1,0]").mods == {"op_sel": 1}


def test_dpp() -> None:
    short = one("v_add_f32_dpp v1, -v2, |v3| row_share:5 row_mask:0x3 bank_mask:0xc bound_ctrl:1 fi:1")
    assert short.mods == {"dpp_ctrl": 0x155, "row_mask": 3, "bank_mask": 12, "bound_ctrl": 1, "fi": 1}
    assert (short.src[0].index, short.src[0].neg, short.src[1].abs) == (2, True, True)
    long = one("v_add3_u32_e64_dpp v1, v2, s3, 4 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf")
    assert long.mods["dpp_ctrl"] == 0b00_01_10_11
    assert long.src[0] == one("v_mov_b32_e32 v0, v2").src[0]
    eight = one("v_mov_b32_dpp v1, v2 dpp8:[7,6,5,4,3,2,1,0] fi:1")
    assert eight.mods == {"dpp8": 0o01234567, "fi": 1}


def test_memory_operands() -> None:
    load = one("global_load_b64 v[4:5], v[2:3], off offset:-8 th:TH_LOAD_LU scope:SCOPE_DEV")
    assert [(o.kind, o.width) for o in load.src] == [(Kind.VGPR, 2), (Kind.OFF, 1)]
    assert load.mods == {"offset": -8, "cpol": 3 | 2 << 3}
    store = one("scratch_store_b96 off, v[1:3], s4 offset:16")
    assert [o.kind for o in store.src] == [Kind.OFF, Kind.VGPR, Kind.SGPR]
    assert one("global_atomic_add_u32 v0, v1, s[2:3]").dst == ()
    returning = one("flat_atomic_add_u32 v9, v[0:1], v1 th:TH_ATOMIC_RETURN")
    assert returning.dst[0].index == 9
    assert returning.src[-1].kind is Kind.OFF
    assert one("ds_load_2addr_b64 v[0:3], v4 offset0:1 offset1:255").mods == {"offset0": 1, "offset1": 255}
    scalar = one("s_load_b128 s[4:7], s[0:1], -0x10")
    assert scalar.src[1].index == Special.NULL
    assert scalar.mods["offset"] == -16


def test_dual_halves() -> None:
    inst = one("v_dual_fmac_f32 v1, s2, v3 :: v_dual_fmaak_f32 v4, v5, v6, 0x42c80000")
    assert inst.pair is not None
    assert (inst.size, inst.pair.size, inst.pair.address) == (12, 12, 0x1000)
    assert [o.index for o in (*inst.pair.dst, *inst.pair.src[:2])] == [4, 5, 6]
    assert inst.pair.src[2].value == 0x42C80000
    shared = one("v_dual_add_f32 v1, 0x42c80000, v3 :: v_dual_mul_f32 v4, 0x42c80000, v6")
    assert shared.pair is not None
    assert shared.src[0].value == shared.pair.src[0].value == 0x42C80000


def test_types_of_wide_operands() -> None:
    wmma = one("v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7]")
    assert [o.width for o in (*wmma.dst, *wmma.src)] == [8, 4, 4, 8]
    assert wmma.dst[0].type is Type.WIDE


@pytest.mark.parametrize(
    "words",
    [
        [0xBFFF0000],  # SOPP opcode 0x7f
        [0x7E02FE01],  # VOP1 opcode 0x7f
        [0xD7FF0001, 0],  # VOP3 opcode 0x3ff
        [0xCD000001, 0x00000000],  # VINTERP: graphics only
        [0xF0000000, 0, 0],  # image
        [0x060204E9],  # DPP8 announced, no dword left
        [0x060204FF],  # literal announced, no dword left
        [0x020204E6],  # source code 230
    ],
)
def test_unknown_code_is_an_error_with_its_dwords(words: list[int]) -> None:
    data = b"".join(word.to_bytes(4, "little") for word in words)
    with pytest.raises(DecodeError, match=rf"address 0x40: dwords {words[0]:08x}"):
        decode(data, 0, 0x40)
