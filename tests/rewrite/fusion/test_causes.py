"""Kernels that fusion once made wrong: they are right, and wrong again with the mistake put back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.harness import Words
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.emulate.ptx.machine import ExternCall
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite import fuse_module

from . import cases, causes, model
from .execution import Flag, consent, with_carry

FUNCTION = """.func (.param .b32 returned) lane_mix(.param .b32 given)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r0, [given];
    mov.u32 %r1, %laneid;
    mad.lo.u32 %r2, %r1, 201326603, %r0;
    st.param.b32 [returned], %r2;
    ret;
}
"""


def module(name: str) -> Module:
    text = print_module(cases.module(causes.KERNELS[name][1], outputs=8))
    return parse(text.replace(".visible .entry", FUNCTION + ".visible .entry"), filename="probe.ptx")


def outputs(program: Module) -> Words:
    """Output words [threads, 8] in the oracle."""
    data = cases.words()
    memory = AddressSpace(capacity=1 << 20)
    source = memory.allocate("in", data.nbytes, data=np.ascontiguousarray(data).ravel().view(np.uint8), writable=False)
    target = memory.allocate("out", 32 * len(data))
    flag = Flag()

    def lane_mix(call: ExternCall) -> Words:
        flag.spoil()
        return np.arange(32, dtype=np.uint32)[None, :] * np.uint32(201326603) + call.arguments[0]

    parameters = np.array([source, target], np.uint64).tobytes()
    externs = {**model.externs("exact", flag.spoil), "lane_mix": lane_mix}
    grid, block = (len(data) // 32, 1, 1), (32, 1, 1)
    with with_carry(flag):
        run_entry(
            program, "probe", grid=grid, block=block, params=parameters, memory=memory, model="exact", externs=externs
        )
    return memory.view("out").view(np.uint32).reshape(-1, 8).copy()


@pytest.mark.parametrize("name", causes.KERNELS)
def test_the_kernel_is_right(name: str) -> None:
    original = module(name)
    result = fuse_module(original, "probe")
    assert result.fused, result.left
    assert (outputs(original) == outputs(result.module)).all()


@pytest.mark.parametrize("name", causes.KERNELS)
def test_the_mistake_put_back_makes_it_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module(name)
    causes.KERNELS[name][0](monkeypatch)
    result = fuse_module(original, "probe", validate=consent)
    assert result.fused
    assert (outputs(original) != outputs(result.module)).any()


@pytest.mark.parametrize("name", sorted(causes.KERNELS))
def test_the_validator_catches_the_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module(name)
    causes.KERNELS[name][0](monkeypatch)
    result = fuse_module(original, "probe")
    assert result.module is original
    assert result.left is not None
    assert result.left.startswith("not shown equal: ")
