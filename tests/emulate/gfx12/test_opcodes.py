"""The opcode table against LLVM's assembler: a sample regenerated, and every opcode round-tripped."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.gfx12_opcodes.assembler import assemble
from tests.tools.gfx12_opcodes.generate import TARGET, mnemonics, table_text
from tests.tools.gfx12_opcodes.lines import random_line
from zluda_rr.emulate.gfx12.decode import decode
from zluda_rr.emulate.gfx12.opcodes import Signature, opcode_table

NEEDED = """
v_wmma_f32_16x16x16_fp8_fp8 v_wmma_f32_16x16x16_fp8_bf8 v_wmma_f32_16x16x16_f16 v_wmma_f16_16x16x16_f16
v_wmma_f32_16x16x16_bf16 v_wmma_i32_16x16x16_iu8 v_permlane16_b32 v_permlanex16_b32 v_permlane16_var_b32
v_permlanex16_var_b32 v_permlane64_b32 ds_bpermute_b32 ds_permute_b32 ds_swizzle_b32 s_barrier_signal s_barrier_wait
s_wait_loadcnt s_wait_dscnt s_wait_kmcnt s_wait_storecnt s_wait_alu global_wb global_inv s_getpc_b64 s_setpc_b64
s_swappc_b64 v_readlane_b32 v_writelane_b32 v_readfirstlane_b32 v_cvt_pk_fp8_f32 v_cvt_f32_fp8 v_cvt_pk_f32_fp8
v_cvt_sr_fp8_f32 v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16 v_dot2_f32_f16 v_dot4_i32_iu8 v_dot4_f32_fp8_fp8
v_s_rcp_f32 v_s_exp_f32 s_fmac_f32 s_add_f16 s_fmamk_f32 v_cmpx_class_f32 v_dual_fmac_f32 v_pk_fma_f16
v_cvt_pk_rtz_f16_f32 s_load_b512 buffer_load_b128 scratch_load_b128 flat_load_b128 global_load_b128
"""


@cache
def signatures() -> list[Signature]:
    return list(opcode_table().values())


def test_needed_instructions_are_there() -> None:
    assert set(NEEDED.split()) <= {signature.mnemonic for signature in signatures()}


def test_table_is_complete() -> None:
    """1,457 opcodes of LLVM 22; another LLVM may add some, never fewer."""
    assert len(signatures()) >= 1457


def test_regenerated_sample_is_equal() -> None:
    committed = {line for line in TARGET.read_text().splitlines() if not line.startswith("#")}
    by_line = {line.split("\t")[2] for line in committed}
    sample = sorted(random.Random(0).sample(sorted(by_line & set(mnemonics())), 60))
    again = {line for line in table_text(sample).splitlines() if not line.startswith("#")}
    assert len(again) >= len(sample)
    assert again <= committed


@pytest.mark.soak
def test_regenerated_table_is_equal() -> None:
    assert table_text(mnemonics()) == TARGET.read_text()


def round_trip(lines: list[str], *, true16: bool = True) -> int:
    """Assemble, decode, print, assemble again; returns how many lines LLVM accepted."""
    first = [got for got in assemble(lines, true16=true16) if got is not None]
    insts = [decode(got.code, 0, 0) for got in first]
    for got, inst, again in zip(first, insts, assemble([i.text for i in insts]), strict=True):
        assert inst.size == len(got.code), got.text
        assert again is not None, (got.text, inst.text)
        assert again.code == got.code, (got.text, inst.text)
    return len(first)


def test_every_opcode_round_trips() -> None:
    """Each opcode with random legal operands at least once."""
    rng = random.Random(1201)
    missing = signatures()
    for _ in range(8):
        lines = [random_line(rng, signature) for signature in missing for _ in range(12)]
        accepted = assemble(lines)
        round_trip([line for line, got in zip(lines, accepted, strict=True) if got is not None])
        missing = [s for i, s in enumerate(missing) if not any(accepted[12 * i : 12 * i + 12])]
        if not missing:
            break
    assert [signature.mnemonic for signature in missing] == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 2000), min_size=40, max_size=40))
def test_random_operands_round_trip(seed: int, choices: list[int]) -> None:
    rng = random.Random(seed)
    chosen = [signatures()[choice % len(signatures())] for choice in choices]
    round_trip([random_line(rng, signature) for signature in chosen for _ in range(5)])


def test_bytes_do_not_depend_on_the_half_syntax() -> None:
    """Code assembled without real-true16 (v1 for v1.l, op_sel for .h) decodes to the same text."""
    plain = ["v_add_f16_e32 v1, v2, v3", "v_fma_f16 v1, v2, v3, v4 op_sel:[1,0,1,1]", "v_cvt_f32_f16_e32 v1, v2",
             "v_pack_b32_f16 v1, v2, v3 op_sel:[0,1,0]", "v_cmp_lt_f16_e64 s1, v2, v3"]  # fmt: skip
    assert round_trip(plain, true16=False) == len(plain)
