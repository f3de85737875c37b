"""The mistakes that fusion once made, one at a time: what `put_back` changes makes it wrong again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from zluda_rr.ptx import Address, Negated, Operand, Statement
from zluda_rr.rewrite import fusion_plan, fusion_view, fusion_words
from zluda_rr.rewrite.fusion_scopes import sets_flag
from zluda_rr.rewrite.fusion_uniform import Uniform, UniformKey
from zluda_rr.rewrite.fusion_words import Step, Words

from .cases import MMA, PRODUCE, consume, convert

PutBack = Callable[[pytest.MonkeyPatch], None]
_operand, _parameter, _add = Uniform._operand, Uniform._parameter, Words.add


def negation_ignored(patch: pytest.MonkeyPatch) -> None:
    """A negated predicate counts as the predicate."""

    def operand(self: Uniform, number: int, found: Operand) -> UniformKey | None:
        return _operand(self, number, found.operand if isinstance(found, Negated) else found)

    patch.setattr(Uniform, "_operand", operand)


def one_use_dropped(patch: pytest.MonkeyPatch) -> None:
    """A value that a product wants in both orders counts as wanted in NVIDIA's only."""

    def add(self: Words, step: Step, taken: tuple[int, ...]) -> None:
        lifted = {value for pair in step.lifts for value in pair}
        _add(self, replace(step, words=tuple(word for word in step.words if word not in lifted)), taken)

    patch.setattr(Words, "add", add)


def results_of_calls_uniform(patch: pytest.MonkeyPatch) -> None:
    """Whatever is loaded from the space of parameters is equal in all lanes."""

    def parameter(self: Uniform, statement: Statement) -> UniformKey | None:
        address = statement.operands[1]
        assert isinstance(address, Address)
        return _parameter(self, statement) or ("parameter", str(address.base), address.offset)

    patch.setattr(Uniform, "_parameter", parameter)


def flags_ignored(patch: pytest.MonkeyPatch) -> None:
    """An instruction that sets the carry flag is carried like any other, and calls stand where the flag is alive."""
    assert fusion_words.sets_flag is sets_flag
    patch.setattr(fusion_words, "sets_flag", lambda statement: False)
    patch.setattr(fusion_view, "flag_alive", lambda body, flow: frozenset())
    assert fusion_plan.CARRY_FLAG


SELECT = """
    mov.u32 %w0, %ctaid.x; setp.eq.u32 %p0, %w0, 0;
    selp.b32 %w1, 0x3c003c00, 0xb8003800, %p0;
    selp.b32 %w2, 0x3c003c00, 0xb8003800, !%p0;
"""
COMBINE = """
    mov.u32 %w0, %ctaid.x; setp.eq.u32 %p0, %w0, 0;
    setp.ge.and.u32 %p1, %w0, 0, %p0;
    setp.ge.and.u32 %p2, %w0, 0, !%p0;
    selp.b32 %w1, 0x3c003c00, 0xb8003800, %p1;
    selp.b32 %w2, 0x3c003c00, 0xb8003800, %p2;
"""
SCALE = "".join(f"mul.f16x2 %v{i}, %x{i}, %w{1 + i % 2};\n" for i in range(4))
MIXED = (
    PRODUCE
    + convert("u", "x")
    + f"""
    {MMA} {{%d0, %d1}}, {{%a0, %a1, %a2, %a3}}, {{%u0, %u1}}, {{%a8, %a9}};
    {MMA} {{%d2, %d3}}, {{%a0, %a1, %a2, %a3}}, {{%u1, %u0}}, {{%a10, %a11}};
"""
)
CALL = """
    {
    .param .b32 given;
    st.param.b32 [given], %one;
    .param .b32 returned;
    call.uni (returned), lane_mix, (given);
    ld.param.b32 %w0, [returned];
    }
    and.b32 %w1, %w0, 0x3fff3fff;
    and.b32 %w2, %w0, 0x3fff3fff;
"""
CARRY = "".join(f"add.cc.u32 %v{i}, %x{i}, %a12;\naddc.u32 %d{4 + i}, %zero, 0;\n" for i in range(4))

KERNELS: dict[str, tuple[PutBack, str]] = {
    "selp with a negated predicate": (negation_ignored, PRODUCE + SELECT + SCALE + convert("u", "v") + consume()),
    "setp with a negated predicate": (negation_ignored, PRODUCE + COMBINE + SCALE + convert("u", "v") + consume()),
    "one value in both orders": (one_use_dropped, MIXED),
    "a call's result": (results_of_calls_uniform, PRODUCE + CALL + SCALE + convert("u", "v") + consume()),
    "a carry": (flags_ignored, PRODUCE + CARRY + convert("u", "v") + consume()),
    "a carry over a call": (
        flags_ignored,
        PRODUCE
        + "add.cc.u32 %d4, %a12, %a13;\n"
        + "".join(f"add.f16x2 %y{i}, %x{i}, %x{i};\n" for i in range(4))
        + "addc.u32 %d5, %a14, 0;\nxor.b32 %d6, %y0, %y1;\n"
        + convert("u", "y")
        + consume(),
    ),
}
"""Kernels of cases.py that each mistake makes wrong. %d0 to %d7 are stored."""
