"""What fusion once did wrong, as it wrote it, is not accepted."""

from __future__ import annotations

import re

import pytest

from zluda_rr.rewrite.validate import validate_fusion

from .kernels import fault

REASONS = {
    # selp …, p and selp …, !p for both rows of a pair
    "negated": r"s48 / s222: st.global.u32 \[\] r, operand 1: lane 0 depends on 0xb8003800, not on 0x3c003c00",
    # one word as B of both n-tiles, in either order
    "mixed": r"s40 / s236: st.global.u32 \[\] r, operand 1: lane 0 depends on load .* \+ 4\], not on load .* \+ 0\]",
    # a call's result in another lane
    "call": r"s57 / s239: st.global.u32 \[\] r, operand 1: lane 0 depends on result:0:0:0@0, not on result:0:0:0@1",
    # add.cc on values in WMMA order, addc on others
    "flags": r"s36 / s210: st.global.v4.u32 \[\] {rrrr}, operand 1: lane 1 depends on load .*, not on load",
}


@pytest.mark.parametrize("name", REASONS)
def test_rejected(name: str) -> None:
    original, fused = fault(name)
    entry = original.entries[0].name
    assert validate_fusion(original, original, entry).equal
    verdict = validate_fusion(original, fused, entry)
    assert not verdict.equal
    assert verdict.reason is not None
    assert re.match(REASONS[name], verdict.reason), verdict.reason
