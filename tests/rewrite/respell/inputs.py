"""Phase 1's A words of enc0 in the forms in which a prologue of many blocks may have made them. Tests on the lane index
that never hold stand for what a compiler cannot see through: it does not know that `%laneid` is below 32.
"""

from __future__ import annotations

from collections.abc import Mapping

from .text import Draft, Respelling

_LOAD = r"ld\.shared\.u32\s+(%r\d+), \[(%r\d+)\+(\d+)\];"
_NEVER = "mov.u32 <r9>, %laneid; setp.gt.u32 <p0>, <r9>, 255; "


def _each(template: str) -> Respelling:
    def change(draft: Draft) -> None:
        first, _ = draft.prologue()
        assert draft.sub(_LOAD, template, (first, draft.mma()[24])) == 24

    return change


INPUTS: Mapping[str, Respelling] = {
    "shared_a_blocks": _each("bra.uni <L0>; \n<L0>:\n\tld.shared.u32 \\1, [\\2+\\3];"),
    "shared_a_v2u16": _each("ld.shared.v2.u16 {<rs0>, <rs1>}, [\\2+\\3]; mov.b32 \\1, {<rs0>, <rs1>};"),
    "shared_a_v4u8": _each(
        "ld.shared.v4.u8 {<rs0>, <rs1>, <rs2>, <rs3>}, [\\2+\\3]; cvt.u32.u16 <r0>, <rs0>; cvt.u32.u16 <r1>, <rs1>; "
        "cvt.u32.u16 <r2>, <rs2>; cvt.u32.u16 <r3>, <rs3>; shl.b32 <r4>, <r1>, 8; shl.b32 <r5>, <r2>, 16; "
        "shl.b32 <r6>, <r3>, 24; or.b32 <r7>, <r0>, <r4>; or.b32 <r8>, <r7>, <r5>; or.b32 \\1, <r8>, <r6>;"
    ),
    "shared_a_lane_branch": _each(
        _NEVER + "@<p0> bra <L0>; add.s32 <r0>, \\2, \\3; bra.uni <L1>; \n<L0>:\n\tadd.s32 <r0>, \\2, 16; \n<L1>:\n\t"
        "ld.shared.u32 \\1, [<r0>];"
    ),
    "shared_a_lane_selp": _each(
        _NEVER + "add.s32 <r0>, \\2, \\3; add.s32 <r1>, \\2, 16; selp.b32 <r2>, <r1>, <r0>, <p0>; "
        "ld.shared.u32 \\1, [<r2>];"
    ),
    "shared_a_two_arms": _each(
        _NEVER + "@<p0> bra <L0>; ld.shared.u32 \\1, [\\2+\\3]; bra.uni <L1>; \n<L0>:\n\t"
        "ld.shared.u32 \\1, [\\2+16]; \n<L1>:\n\t"
    ),
    "runtime_address": _each(
        "mov.u32 <r0>, %ctaid.x; shr.u32 <r1>, <r0>, 24; shl.b32 <r2>, <r1>, 2; add.s32 <r3>, \\2, <r2>; "
        "ld.shared.u32 \\1, [<r3>+\\3];"
    ),
}
