"""NVIDIA's PTX as its statements are documented: one respelling for each way in which the reference differs from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .final import final_branch
from .text import Draft, Respelling

_PREPASS = """
.visible .entry PREPASS_ENTRYPOINT_NAME(
	.param .u64 PREPASS_ENTRYPOINT_NAME_param_0
)
{
	.reg .b32 	%r1;
	.reg .b64 	%rd1, %rd2;
	ld.param.u64 	%rd1, [PREPASS_ENTRYPOINT_NAME_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r1, %tid.x;
	st.global.u32 	[%rd2], %r1;
	ret;

}
"""


def _rule(pattern: str, template: str, part: Callable[[Draft], tuple[int, int]] | None = None) -> Respelling:
    return lambda draft: draft.sub(pattern, template, part(draft) if part else None)


def entry_before(draft: Draft) -> None:
    """The module's first entry is the prepass; its registers are declared one by one, not counted."""
    at = draft.text.index("\n.visible .entry")
    draft.text = draft.text[:at] + _PREPASS + draft.text[at:]


def store_v2u16(draft: Draft) -> None:
    """The first and the last store of merged words: both halves, packed bytes, without the word."""
    first, end = draft.merged()
    stores = list(re.finditer(r"st\.global\.u32\s+\[(%rd\d+)\], (%r\d+);", draft.text[first:end]))
    for store in (stores[-1], stores[0]):
        low, high = draft.fresh("rs"), draft.fresh("rs")
        pair = f"mov.b32 \t{{{low}, {high}}}, {store[2]};\n\tst.global.v2.u16 \t[{store[1]}], {{{low}, {high}}};"
        packed = re.search(rf"mov\.b32\s+{store[2]}, \{{(%rs\d+), (%rs\d+)\}};", draft.text)
        if packed is not None:
            pair = f"st.global.v2.u16 \t[{store[1]}], {{{packed[1]}, {packed[2]}}};"
        draft.text = draft.text[: first + store.start()] + pair + draft.text[first + store.end() :]


def guard_signed(draft: Draft) -> None:
    """Merged tokens: y < 0, y >= ey, bits > 3, x < 0, x >= ex, signed."""
    draft.sub(
        r"setp\.ge\.u32\s+(%p\d+), (%r\d+), (%r\d+);\s+setp\.gt\.u32\s+(%p\d+), (%r\d+), 3;\s+"
        r"\bor\.pred\s+(%p\d+), \4, \1;\s+setp\.ge\.u32\s+(%p\d+), (%r\d+), (%r\d+);\s+\bor\.pred\s+(%p\d+), \7, \6;",
        r"setp.lt.s32 <p0>, \2, 0; setp.ge.s32 <p1>, \2, \3; or.pred <p2>, <p0>, <p1>; setp.gt.u32 \4, \5, 3; "
        r"or.pred \6, \4, <p2>; setp.lt.s32 <p3>, \8, 0; or.pred <p4>, <p3>, \6; setp.ge.s32 <p5>, \8, \9; "
        r"or.pred \10, <p5>, <p4>;",
        draft.merged(),
    )


def index_8ex(draft: Draft) -> None:
    """Words of a token: (8 ex) * y + 8 x, + t."""
    first, end = draft.tokens()

    def change(match: re.Match[str]) -> str:
        template = r"shl.b32 <r0>, \4, 3; shl.b32 <r1>, \3, 3; mad.lo.s32 \5, <r1>, \2, <r0>; "
        return draft.filled(template + r"add.s32 \6, \5, " + (match[7] or match[8]) + ";", match)

    draft.sub(
        r"mad\.lo\.s32\s+(%r\d+), (%r\d+), (%r\d+), (%r\d+);\s+shl\.b32\s+(%r\d+), \1, 3;\s+"
        r"(?:bfi\.b32\s+|or\.b32\s+)(%r\d+), (?:\1, (%r\d+), 3, 29|\5, (%r\d+));",
        change,
        (first, end),
    )


def x_per_group(draft: Draft) -> None:
    """x and both of its comparisons again in every group of rows."""
    first, end = draft.tokens()
    part = draft.text[first:end]
    column = re.search(
        r"setp\.lt\.s32\s+(%p\d+), (%r\d+), 0;\s+\bor\.pred\s+%p\d+, \1, %p\d+;\s+"
        r"setp\.ge\.s32\s+(%p\d+), \2, (%r\d+);",
        part,
    )
    assert column is not None
    below, x, beyond, extent = column.groups()
    origin = re.search(rf"add\.s32\s+{x}, %r\d+, (%r\d+);", part)
    assert origin is not None
    draft.sub(
        rf"(setp\.gt\.u32\s+%p\d+, (%r\d+), 63;\s+\bor\.pred\s+%p\d+, %p\d+, %p\d+;\s+)"
        rf"\bor\.pred\s+(%p\d+), {below}, (%p\d+);\s+\bor\.pred\s+(%p\d+), {beyond}, \3;"
        rf"(.{{1,200}}?mad\.lo\.s32\s+%r\d+, %r\d+, %r\d+, ){x};",
        rf"\1and.b32 <r0>, \2, 7; add.s32 <r1>, <r0>, {origin[1]}; setp.lt.s32 <p0>, <r1>, 0; or.pred \3, <p0>, \4; "
        rf"setp.ge.s32 <p1>, <r1>, {extent}; or.pred \5, <p1>, \3;\6<r1>;",
        (first, end),
    )


def and_b64(draft: Draft) -> None:
    """A lane's table address: widened first, masked as 64 bits, the table's offset in the load."""
    offsets: dict[str, int] = {}

    def change(match: re.Match[str]) -> str:
        if match[2] != match[4] or not _only_loads(draft.text, match[8]):
            return match[0]
        offsets[match[8]] = int(match[5])
        return draft.filled(r"cvt.u64.u32 <rd0>, \3; and.b64 <rd1>, <rd0>, 12; add.s64 \8, \7, <rd1>;", match)

    draft.sub(
        r"(and\.b32\s+(%r\d+), (%r\d+), 12;\s+)or\.b32\s+%r\d+, (%r\d+), (\d+);\s+cvt\.u64\.u32\s+(%rd\d+), %r\d+;\s+"
        r"add\.s64\s+(?=%rd\d+, (%rd\d+), \6;)(%rd\d+), %rd\d+, \6;",
        change,
    )

    def moved(match: re.Match[str]) -> str:
        offset = offsets.get(match[1])
        return match[0] if offset is None else f"[{match[1]}+{offset + int(match[2] or 0)}]"

    draft.sub(r"\[(%rd\d+)(?:\+(-?\d+))?\]", moved)


def _only_loads(text: str, register: str) -> bool:
    uses = len(re.findall(rf"{register}\b", text)) - 1
    return uses == len(re.findall(rf"\[{register}(?:\+-?\d+)?\]", text))


def handle_reloaded(draft: Draft) -> None:
    """The handle of a surface or texture is read again for every access."""
    for handle in set(re.findall(r"(?:tex\.base|sust\.b)\S+\s.*?\[(%rd\d+), ", draft.text)):
        load = re.search(rf"ld\.param\.u64\s+{handle}, (\[.*?\]);", draft.text)
        assert load is not None
        draft.sub(rf"((?:tex\.base|sust\.b)\.[^;]*?)\[{handle}, ", rf"ld.param.u64 <rd0>, {load[1]}; \1[<rd0>, ")


def laneid_once(draft: Draft) -> None:
    """One lane index for the whole kernel."""
    first = re.search(r"mov\.u32 (%r\d+), %laneid;", draft.text)
    assert first is not None
    draft.sub(r"mov\.u32 (%r\d+), %laneid;", rf"mov.u32 \1, {first[1]};", (first.end(), len(draft.text)))


def selp_to_branches(draft: Draft) -> None:
    """Every choice of the prologue as two arms."""
    draft.sub(
        r"selp\.b32\s+(%r\d+), ([^,]+), ([^,]+), (%p\d+);",
        "@\\4 bra <L0>; mov.u32 \\1, \\3; bra.uni <L1>; \n<L0>:\n\tmov.u32 \\1, \\2; \n<L1>:\n\t",
        draft.prologue(),
    )


def selp_to_skip(draft: Draft) -> None:
    """Every choice of the prologue as a branch over its other value."""
    draft.sub(
        r"selp\.b32\s+(%r\d+), ([^,]+), ([^,]+), (%p\d+);",
        "mov.u32 \\1, \\2; @\\4 bra <L0>; mov.u32 \\1, \\3; \n<L0>:\n\t",
        draft.prologue(),
    )


def header(draft: Draft) -> None:
    """Version, target and launch bounds of another release."""
    draft.sub(r"\.version \d\.\d", ".version 8.7")
    draft.sub(r"\.target sm_89", ".target sm_120, texmode_independent")
    draft.sub(r"(_param_0\[\d+\]\s*\)\s*)\{", r"\1.maxntid 32, 1, 1\n{")


def crlf(draft: Draft) -> None:
    """Lines end as on Windows."""
    draft.text = draft.text.replace("\n", "\r\n")


DOCUMENTED: Mapping[str, Respelling] = {
    "store_v2u16": store_v2u16,
    "guard_signed": guard_signed,
    "half_division": _rule(
        r"shr\.s32\s+(%r\d+), (%r\d+), 1;",
        r"shr.u32 <r0>, \2, 31; add.s32 <r1>, \2, <r0>; shr.s32 \1, <r1>, 1;",
        Draft.merged,
    ),
    "final_branch": final_branch,
    "and_b64": and_b64,
    "x_per_group": x_per_group,
    "index_8ex": index_8ex,
    "handle_reloaded": handle_reloaded,
    "warp_sz_32": _rule(r"mov\.u32 (%r\d+), WARP_SZ;", r"mov.u32 \1, 32;"),
    "param_plus0": _rule(r"\[(\w+_param_0)\]", r"[\1+0]"),
    "no_cvta": _rule(r"cvta\.to\.global\.u64\s+(%rd\d+), (%rd\d+);", r"mov.b64 \1, \2;"),
    "cvta_roundtrip": _rule(
        r"cvta\.to\.global\.u64\s+(%rd\d+), (%rd\d+);",
        r"cvta.to.global.u64 <rd0>, \2; cvta.global.u64 <rd1>, <rd0>; cvta.to.global.u64 \1, <rd1>;",
    ),
    "laneid_once": laneid_once,
    "bar_warp_sync": _rule(r"bar\.sync\s+0;", "bar.warp.sync -1;"),
    "barrier_sync": _rule(r"bar\.sync\s+0;", "barrier.sync 0;"),
    "selp_to_branches": selp_to_branches,
    "selp_to_skip": selp_to_skip,
    "div_const": _rule(
        r"mov\.f32\s+(%f\d+), 0f3F800000;(\s+)div\.approx\.ftz\.f32\s+(%f\d+), \1, (%f\d+);",
        r"mov.f32 \1, 0f3F800000;\2div.approx.ftz.f32 \3, 0f3F800000, \4;",
    ),
    "parity_joined": _rule(
        r"and\.b32\s+(%r\d+), (%r\d+), 1;\s+setp\.eq\.b32\s+(%p\d+), \1, 1;\s+and\.b32\s+(%r\d+), (%r\d+), 1;\s+"
        r"setp\.eq\.b32\s+(%p\d+), \4, 1;\s+\bor\.pred\s+(%p\d+), \6, \3;\s+mov\.pred\s+(%p\d+), 0;\s+"
        r"xor\.pred\s+(%p\d+), \7, \8;",
        r"or.b32 <r0>, \2, \5; and.b32 \1, <r0>, 1; setp.ne.s32 \9, \1, 0;",
    ),
    "trans_order": _rule(r"movmatrix\.sync\.trans\.aligned", "movmatrix.sync.aligned.trans"),
    "header": header,
    "entry_before": entry_before,
    "crlf": crlf,
}
