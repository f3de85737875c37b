"""Operands that the validator does not understand end the validation; they are never skipped."""

import pytest

from zluda_rr.ptx import parse
from zluda_rr.rewrite.validate import validate_fusion

TEXT = """.version 8.7
.target sm_89
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    {line}
    ld.param.u64 %rd1, [p];
    st.global.u32 [%rd1], %r2;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("line", "equal"),
    [
        ("add.u32 %r2, %r1, 1;", True),
        ("vadd.u32.u32.u32 %r2, %r1.h1, %r1.b2;", False),
        ("vmad.s32.s32.s32 %r2, %r1, %r1, -%r1;", False),
    ],
)
def test_parts_of_registers(line: str, equal: bool) -> None:
    module = parse(TEXT.format(line=line))
    verdict = validate_fusion(module, parse(TEXT.format(line=line)), "k")
    assert verdict.equal == equal
    assert equal or "not understood" in (verdict.reason or "")
