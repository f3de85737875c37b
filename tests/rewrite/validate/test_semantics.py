"""Pairs of kernels written by hand: what counts as equal, and what does not."""

from __future__ import annotations

import pytest

from tests.rewrite.fusion.cases import module
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite.validate import validate_fusion

SHUFFLE = "shfl.sync.bfly.b32 %d0, %a12, 16, 31, -1;"
HALF = """{
    .param .b32 zrr_p0;
    st.param.b32 [zrr_p0], %a12;
    .param .b32 zrr_r;
    call.uni (zrr_r), zrr_fc_half, (zrr_p0);
    ld.param.b32 %d0, [zrr_r];
}"""
EQUAL = "setp.eq.u32 %p0, %a12, 0;\n"
CARRY = "addc.u32 %d0, %a14, 0;"
BRANCH = "setp.lt.u32 %p0, %a13, 5;\nmov.u32 %d0, 0;\n@%p0 bra $over;\n"


def kernel(text: str) -> Module:
    """A kernel that sets %d0, with the helper declared."""
    found = print_module(module(text, 1))
    extern = ".extern .func (.param .b32 r) zrr_fc_half\n(\n.param .b32 p\n)\n;\n"
    return parse(found.replace(".visible .entry", extern + ".visible .entry", 1), filename="pair")


def verdict(first: str, second: str) -> tuple[bool, str]:
    """(equal, reason) of two texts."""
    found = validate_fusion(kernel(first), kernel(second), "probe")
    return found.equal, found.reason or ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SHUFFLE, HALF),
        ("mul.f16x2 %d0, %a12, %a13;", "mul.f16x2 %d0, %a13, %a12;"),
        ("selp.b32 %d0, %a12, %a13, %p0;", "selp.b32 %d0, %a13, %a12, !%p0;"),
        (
            "mov.b32 {%h0, %h1}, %a12;\nmul.f16 %h2, %h0, %h0;\nmul.f16 %h3, %h1, %h1;\nmov.b32 %d0, {%h2, %h3};",
            "mul.f16x2 %d0, %a12, %a12;",
        ),
    ],
)
def test_equal(first: str, second: str) -> None:
    assert verdict(first, second) == (True, "")


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (f"{BRANCH}{SHUFFLE}\n$over:", f"{BRANCH}{HALF}\n$over:", "not every lane of the warp"),
        ("mov.u32 %d0, %a12;", "mov.u32 %d0, %a12;\nld.global.u32 %v0, [%in+64];", "does not load"),
        ("sub.f16x2 %d0, %a12, %a13;", "sub.f16x2 %d0, %a13, %a12;", "lane 0"),
        (f"{EQUAL}selp.b32 %d0, 1, 2, %p0;", f"{EQUAL}selp.b32 %d0, 1, 2, !%p0;", ""),
        (
            "ld.global.u32 %d0, [%in+4];\nst.global.u32 [%out+0], %a12;",
            "st.global.u32 [%out+0], %a12;\nld.global.u32 %d0, [%in+4];",
            "",
        ),
        ("mov.u32 %d0, %clock;", "mov.u32 %d0, %clock;\nmov.u32 %d0, %clock;", "clock"),
        (f"{BRANCH}$over:", f"{BRANCH.replace('@%p0', '@!%p0')}$over:", "bra"),
        ("add.cc.u32 %v0, %a12, %a13;\n" + CARRY, "add.u32 %v0, %a12, %a13;\n" + CARRY, "cc"),
        ("mov.u32 %d0, 1;\n@%p0 mov.u32 %d0, 2;", "mov.u32 %d0, 1;\n@!%p0 mov.u32 %d0, 2;", ""),
        ("cvt.rn.satfinite.e4m3x2.f16x2 %h0, %a12;\nmov.b32 %d0, {%h0, %h0};",
         "cvt.rn.satfinite.relu.e4m3x2.f16x2 %h0, %a12;\nmov.b32 %d0, {%h0, %h0};", "relu"),
    ],
)  # fmt: skip
def test_not_equal(first: str, second: str, reason: str) -> None:
    equal, found = verdict(first, second)
    assert not equal
    assert reason in found, found
    assert verdict(first, first) == (True, "")
