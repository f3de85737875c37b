"""What fusion keeps in WMMA order, on the smallest kernels, each compared with the original."""

from __future__ import annotations

import pytest

from zluda_rr.ptx import print_module
from zluda_rr.rewrite import fuse_module

from .cases import CHAIN, MMA, PRODUCE, compare, consume, convert, module

BUTTERFLY = "".join(
    f"shfl.sync.bfly.b32 %z{i}, %x{i}, {{step}}, 31, -1;\nadd.f16x2 %y{i}, %x{i}, %z{i};\n" for i in range(4)
)
TRANSPOSE = PRODUCE + "".join(f"movmatrix.sync.aligned.m8n8.trans.b16 %y{i}, %x{i};\n" for i in range(4))
SCORES = (
    PRODUCE
    + convert("u", "x")
    + f"""
    {MMA} {{%d0, %d1}}, {{%u0, %u1, %u0, %u1}}, {{%u0, %u0}}, {{%a8, %a9}};
    {MMA} {{%d2, %d3}}, {{%u0, %u1, %u0, %u1}}, {{%u1, %u1}}, {{%a10, %a11}};
"""
)
STEPS = CHAIN.replace("%d", "%w") + consume(c="%w0, %w1", g="%w2, %w3").replace(
    "{%u0, %u1, %u0, %u1}", "{%u1, %u0, %u1, %u0}"
)
CASES = {
    "pair": PRODUCE + "\n".join(f"mov.b32 %d{i}, %x{i};" for i in range(4)),
    "plain": CHAIN,
    "relu": PRODUCE + convert("u", "x", (".relu",) * 4) + consume(),
    "activation": PRODUCE
    + "".join(
        f"max.f16x2 %y{i}, %x{i}, %a12;\nmin.f16x2 %z{i}, %a13, %y{i};\nmul.f16x2 %v{i}, %z{i}, %x{i};\n"
        for i in range(4)
    )
    + convert("u", "v")
    + consume(),
    "residual": PRODUCE + convert("u", "x") + consume(c="%x0, %x1", g="%x2, %x3"),
    "butterfly 1": PRODUCE + BUTTERFLY.format(step=1) + convert("u", "y") + consume(),
    "butterfly 2": PRODUCE + BUTTERFLY.format(step=2) + convert("u", "y") + consume(),
    "transpose": TRANSPOSE
    + "".join(f"cvt.rn.satfinite.e4m3x2.f16x2 %h{i}, %y{i};\nmov.b32 %u{i}, {{%h{i}, %h{i}}};\n" for i in range(4))
    + f"""
    {MMA} {{%d0, %d1}}, {{%a0, %a1, %a2, %a3}}, {{%u0, %u1}}, {{%a8, %a9}};
    {MMA} {{%d2, %d3}}, {{%a0, %a1, %a2, %a3}}, {{%u2, %u3}}, {{%a10, %a11}};
""",
    "transpose of two steps": PRODUCE.replace("%x", "%v")
    + f"""
    {MMA} {{%x0, %x1}}, {{%a1, %a0, %a3, %a2}}, {{%a5, %a4}}, {{%v0, %v1}};
    {MMA} {{%x2, %x3}}, {{%a1, %a0, %a3, %a2}}, {{%a7, %a6}}, {{%v2, %v3}};
"""
    + TRANSPOSE.removeprefix(PRODUCE)
    + "".join(f"cvt.rn.satfinite.e4m3x2.f16x2 %h{i}, %y{i};\nmov.b32 %u{i}, {{%h{i}, %h{i}}};\n" for i in range(4))
    + f"""
    {MMA} {{%d0, %d1}}, {{%a0, %a1, %a2, %a3}}, {{%u0, %u1}}, {{%a8, %a9}};
    {MMA} {{%d2, %d3}}, {{%a0, %a1, %a2, %a3}}, {{%u2, %u3}}, {{%a10, %a11}};
""",
    "scores": SCORES,
    "k steps": STEPS,
}
HALVES = "".join(f"mov.b32 {{%e{i}, %f{i}}}, %x{i};\nmov.b32 {{%g{i}, %i{i}}}, %y{i};\n" for i in range(4))
PACKED = {
    "square": "mul.f16 %j{i}, %e{i}, %e{i};\nmul.f16 %k{i}, %f{i}, %f{i};\n",
    "scale": "mul.f16 %j{i}, %e{i}, %g{i};\nmul.f16 %k{i}, %i{i}, %f{i};\n",
    "scale_halves": "mul.f16 %j{i}, %e{i}, %g{i};\nmul.f16 %k{i}, %f{i}, %g{i};\n",
}


def packed(rule: str) -> str:
    """A chain whose halves are multiplied apart."""
    registers = ", ".join(f"%{name}<4>" for name in "efgijk")
    steps = "".join(f"{PACKED[rule].format(i=i)}mov.b32 %v{i}, {{%j{i}, %k{i}}};\n" for i in range(4))
    doubled = "".join(f"add.f16x2 %y{i}, %x{i}, %x{i};\n" for i in range(4))
    return f".reg .b16 {registers};\n" + PRODUCE + doubled + HALVES + steps + convert("u", "v") + consume()


CONSUMED = {
    "pair": "",
    "residual": "AC",
    "transpose": "B",
    "transpose of two steps": "B",
    "scores": "AB",
    "k steps": "A",
}


@pytest.mark.parametrize("name", CASES)
def test_fused_equals_original(name: str) -> None:
    outcome = compare(CASES[name])
    assert outcome.equal
    operands = {chain.operand for chain in outcome.report.chains if chain.producer == 1}
    assert operands == set(CONSUMED.get(name, "A"))


@pytest.mark.parametrize("model", ["sequential", "pairwise"])
def test_the_model_does_not_matter(model: str) -> None:
    assert compare(CASES["residual"], model=model).equal


def test_a_fused_chain_exchanges_only_at_its_ends() -> None:
    outcome = compare(CHAIN)
    # Into WMMA order: A, B of two n-tiles and C of the second product. Out of it: its D.
    assert (outcome.report.lifted_pairs, outcome.report.lowered_pairs) == (6, 2)


def test_other_readers_get_nvidias_order_once() -> None:
    text = CHAIN + "add.u32 %d4, %d0, %x0;\nxor.b32 %d5, %d1, %x1;\nadd.u32 %d6, %d2, %x0;\n"
    outcome = compare(text, outputs=7)
    assert outcome.equal
    assert outcome.report.lowered_pairs == 3
    assert print_module(outcome.result.module).count("zrr_fc_lower0, ") == 3


def test_values_of_every_lane_are_exchanged_into_the_chain() -> None:
    """Operands that differ from lane to lane: one of each row half, one for both, and f16 scalars."""
    text = PRODUCE + "".join(
        f"add.f16x2 %y{i}, %a{12 + i}, %x{i};\nmul.f16x2 %z{i}, %y{i}, %a12;\n"
        f"mov.b32 {{%h{2 * i}, %h{2 * i + 1}}}, %z{i};\nmov.b32 %v{i}, {{%h{2 * i + 1}, %h{2 * i}}};\n"
        for i in range(4)
    )
    outcome = compare(text + convert("u", "v") + consume())
    assert outcome.equal
    assert any(chain.operand == "A" for chain in outcome.report.chains)


@pytest.mark.parametrize("rule", PACKED)
def test_halves_that_are_treated_alike_are_one_instruction(rule: str) -> None:
    outcome = compare(packed(rule))
    assert outcome.equal
    assert next(record for record in outcome.report.rules if record.rule == rule).places
    assert "mul.f16x2" in print_module(outcome.result.module)


def test_nothing_to_do_is_the_same_module() -> None:
    plain = module("mov.b32 %d0, %a0;", outputs=1)
    assert fuse_module(plain, "probe").module is plain


def test_a_second_run_changes_nothing() -> None:
    once = fuse_module(module(CHAIN), "probe").module
    assert fuse_module(once, "probe").module is once
