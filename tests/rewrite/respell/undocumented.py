"""Respellings that nobody documented of NVIDIA's module: what other compilers would write."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping

import numpy as np

from .text import Draft, Respelling

_PAIR = r"mov\.b32\s+(%r\d+), \{(%rs\d+), ?(%rs\d+)\};"
_UNPAIR = r"mov\.b32\s+\{(%rs\d+), ?(%rs\d+)\}, (%r\d+);"
_V4 = r"ld\.weak\.global\.ca\.v4\.u32 \{ (%r\d+), (%r\d+), (%r\d+), (%r\d+)\},\[(%rd\d+)\];"
_WIDEN = "cvt.u32.u16 <r0>, \\2; cvt.u32.u16 <r1>, \\3; "


def _rule(
    *rules: tuple[str, str | Callable[[re.Match[str]], str]], part: Callable[[Draft], tuple[int, int]] | None = None
) -> Respelling:
    def change(draft: Draft) -> None:
        for pattern, template in rules:
            draft.sub(pattern, template, part(draft) if part else None)

    return change


def _stores(draft: Draft) -> tuple[int, int]:
    """Both epilogues that store words."""
    return draft.tokens()[0], draft.merged()[1]


def shl_mul(match: re.Match[str]) -> str:
    """A shift as a product, but for the exponent's."""
    return match[0] if match[3] == "5" else f"mul.lo.s32 \t{match[1]}, {match[2]}, {1 << int(match[3])};"


def bfi_or(draft: Draft) -> None:
    """Insert as mask, shift and or."""

    def change(match: re.Match[str]) -> str:
        at, count = int(match[4]), int(match[5])
        mask = (1 << count) - 1
        template = rf"and.b32 <r0>, \2, {mask if count < 32 else -1}; shl.b32 <r1>, <r0>, {at}; "
        return draft.filled(template + rf"and.b32 <r2>, \3, {~(mask << at)}; or.b32 \1, <r1>, <r2>;", match)

    draft.sub(r"bfi\.b32\s+(%r\d+), (%r\d+), (%r\d+), (\d+), (\d+);", change)


def mul_wide(draft: Draft) -> None:
    """Conversion and shift for a widening product."""

    def change(match: re.Match[str]) -> str:
        power, kind = int(match[4]).bit_length() - 1, match[1]
        return draft.filled(rf"cvt.{kind}64.{kind}32 <rd0>, \3; shl.b64 \2, <rd0>, {power};", match)

    draft.sub(r"mul\.wide\.([us])32\s+(%rd\d+), (%r\d+), (4|16);", change)


def setp_swapped(draft: Draft) -> None:
    """The opposite relation with operands exchanged, negated."""
    opposite = {"lt": "le", "ge": "gt", "gt": "ge"}

    def change(match: re.Match[str]) -> str:
        return draft.filled(rf"setp.{opposite[match[1]]}.\2 <p0>, \5, \4; not.pred \3, <p0>;", match)

    draft.sub(r"setp\.(lt|ge|gt)\.([us]32)\s+(%p\d+), ([^,]+), ([^;]+);", change)


def _flow(draft: Draft, pattern: str, template: str) -> None:
    draft.sub(pattern, template, _stores(draft))


def setp_or(draft: Draft) -> None:
    """A comparison joined with a predicate in one instruction."""
    _flow(
        draft,
        r"setp\.(\w\w)\.([us]32)\s+(%p\d+), ([^;]+);(\s+)\bor\.pred\s+(%p\d+), \3, (%p\d+);",
        r"setp.\1.\2 \3, \4;\5setp.\1.or.\2 \6, \4, \7;",
    )


def mad_wide(draft: Draft) -> None:
    """Product and sum of an address in one."""
    draft.sub(
        r"mul\.wide\.([us])32\s+(%rd\d+), (%r\d+), (\d+);\s+add\.s64\s+(%rd\d+), (%rd\d+), \2;",
        r"mul.wide.\g<1>32 \2, \3, \4; mad.wide.\g<1>32 \5, \3, \4, \6;",
    )


def guard_no_minus1(draft: Draft) -> None:
    """The branch is on the guard itself."""
    _flow(
        draft,
        r"selp\.b32\s+(%r\d+), -1, (%r\d+), (%p\d+);\s+setp\.lt\.s32\s+(%p\d+), \1, 0;\s+@\4 bra",
        r"mov.b32 \1, \2;\n\t@\3 bra",
    )


def predicated_stores(draft: Draft) -> None:
    """No branch: the stores are predicated."""
    _flow(
        draft,
        r"@(%p\d+) bra\s+(\$\w+);\s+(mul\.wide[^;]*;\s+add\.s64[^;]*;\s+)(st\.global[^;]*;)\s+\2:",
        r"\3@!\1 \4",
    )


def constants_as_bits(draft: Draft) -> None:
    """Constants of two halves as bits, where they were converted."""
    floats = {m[1]: m[2] for m in re.finditer(r"mov\.f(?:32|64)\s+(%fd?\d+), (0[fd][0-9A-F]+);", draft.text)}

    def change(match: re.Match[str]) -> str:
        text = floats.get(match[2])
        if text is None:
            return match[0]
        raw = bytes.fromhex(text[2:])
        (value,) = struct.unpack(">f" if text[1] == "f" else ">d", raw)
        bits = int(np.float64(value).astype(np.float16).view(np.uint16))
        return f"mov.u32 \t{match[3]}, {bits | bits << 16};"

    draft.sub(
        r"\{\.reg \.f16 low;\s+(cvt\.rn\.f16\.f(?:32|64)) low, (%fd?\d+);\s+mov\.b32 (%r\d+), \{low, ?low\};\}", change
    )


def scopes_flat(draft: Draft) -> None:
    """No scopes: their registers are the kernel's."""

    def change(match: re.Match[str]) -> str:
        text = match[2]
        for name in re.split(r",\s*", match[1]):
            text = re.sub(rf"\b{name}\b", draft.fresh("rs"), text)
        return text

    draft.sub(r"\{\s*\.reg \.[fb]16 ([\w, ]+);([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", change)


def _split(match: re.Match[str]) -> str:
    names = re.findall(r"%r\d+", match[2])
    parts = "; ".join(f"mov.b32 {{<rs{2 * i}>, <rs{2 * i + 1}>}}, {name}" for i, name in enumerate(names[1:]))
    low, high = (
        f"{match[1]}.f16 <rs{6 + h}>, " + ", ".join(f"<rs{2 * i + h}>" for i in range(len(names) - 1)) for h in (0, 1)
    )
    return f"{parts}; {low}; {high}; mov.b32 {names[0]}, {{<rs6>, <rs7>}};"


def halves_apart(draft: Draft) -> None:
    """f16x2 instructions as two of f16."""
    draft.sub(
        r"(add|mul|sub|max|min|fma\.rn|neg|abs)\.f16x2 ([^;]+);", lambda m: draft.filled(_split(m).replace("\\", ""), m)
    )


UNDOCUMENTED: Mapping[str, Respelling] = {
    "mad_apart": _rule(
        (r"mad\.lo\.s32\s+(%r\d+), ([^,]+), ([^,]+), ([^;]+);", r"mul.lo.s32 <r0>, \2, \3; add.s32 \1, <r0>, \4;")
    ),
    "shl_mul": _rule((r"shl\.b32\s+(%r\d+), (%r\d+), (\d+);", shl_mul)),
    "bfi_or": bfi_or,
    "mul_wide": mul_wide,
    "mad_wide": mad_wide,
    "setp_swapped": setp_swapped,
    "or_pred_de_morgan": _rule(
        (
            r"\bor\.pred\s+(%p\d+), (%p\d+), (%p\d+);",
            r"not.pred <p0>, \2; not.pred <p1>, \3; and.pred <p2>, <p0>, <p1>; not.pred \1, <p2>;",
        )
    ),
    "v4_b32": _rule((r"ca\.v4\.u32", "ca.v4.b32")),
    "v4_nc": _rule((r"ld\.weak\.global\.ca\.v4\.u32", "ld.global.nc.L1::no_allocate.v4.u32")),
    "v4_scalars": _rule(
        (
            _V4,
            r"ld.global.u32 \1, [\5]; ld.global.u32 \2, [\5+4]; ld.global.u32 \3, [\5+8]; ld.global.u32 \4, [\5+12];",
        )
    ),
    "v4_u64": _rule((_V4, r"ld.global.v2.u64 {<rd0>, <rd1>}, [\5]; mov.b64 {\1, \2}, <rd0>; mov.b64 {\3, \4}, <rd1>;")),
    "seeds_f32": _rule((r"ld\.global\.u32\s+(%r\d+), ([^;]+);", r"ld.global.f32 <f0>, \2; mov.b32 \1, <f0>;")),
    "table_u32": _rule(
        (
            r"ld\.global\.v2\.u16\s+\{(%rs\d+), (%rs\d+)\}, ([^;]+);",
            r"ld.global.u32 <r0>, \3; mov.b32 {\1, \2}, <r0>;",
        )
    ),
    "shfl_inside": _rule((r"shfl\.sync\.bfly\.b32 (%r\d+),", r"shfl.sync.bfly.b32 \1|<p0>,")),
    "constants_as_bits": constants_as_bits,
    "scopes_flat": scopes_flat,
    "halves_apart": halves_apart,
    "operands_swapped": _rule((r"(add|mul|max|min)\.(f16|f16x2) ([^,;]+),([^,;]+),([^,;]+);", r"\1.\2 \3,\5,\4;")),
    "mov_b32": _rule((r"mov\.u32", "mov.b32")),
    "guard_as_integers": _rule(
        (
            r"\bor\.pred\s+(%p\d+), (%p\d+), (%p\d+);",
            r"selp.u32 <r0>, 1, 0, \2; selp.u32 <r1>, 1, 0, \3; or.b32 <r2>, <r0>, <r1>; setp.ne.s32 \1, <r2>, 0;",
        ),
        part=_stores,
    ),
    "setp_or": setp_or,
    "guard_bounds": _rule(
        (r"setp\.lt\.s32\s+(%p\d+), (%r\d+), 0;", r"setp.le.s32 \1, \2, -1;"),
        (
            r"setp\.gt\.u32\s+(%p\d+), (%r\d+), (?=(?:255|63);)(\d+);",
            lambda m: f"setp.ge.u32 {m[1]}, {m[2]}, {int(m[3]) + 1};",
        ),
        part=_stores,
    ),
    "guard_one_unsigned": _rule(
        (
            (
                r"setp\.lt\.s32\s+(%p\d+), (%r\d+), 0;\s+setp\.ge\.s32\s+(%p\d+), \2, (%r\d+);\s+"
                r"\bor\.pred\s+(%p\d+), \1, \3;"
            ),
            r"setp.ge.u32 \5, \2, \4;",
        ),
        part=_stores,
    ),
    "guard_no_minus1": guard_no_minus1,
    "predicated_stores": predicated_stores,
    "bfe_lane": _rule(
        (r"and\.b32\s+(%r\d+), (%r\d+), 3;", r"bfe.u32 \1, \2, 0, 2;"),
        (r"and\.b32\s+(%r\d+), (%r\d+), 7;", r"bfe.u32 \1, \2, 0, 3;"),
    ),
    "bfe_merge": _rule((r"and\.b32\s+(%r\d+), (%r\d+), 4;", r"bfe.u32 \1, \2, 2, 1;")),
    "selp_predicated_mov": _rule(
        (r"selp\.b32\s+(%r\d+), ([^,]+), ([^,]+), (%p\d+);", r"mov.b32 \1, \3; @\4 mov.b32 \1, \2;")
    ),
    "lane_from_tid": _rule((r"mov\.u32 (%r\d+), %laneid;", r"mov.u32 <r0>, %tid.x; and.b32 \1, <r0>, 31;")),
    "mask_lop3": _rule(
        (r"and\.b32\s+(%r\d+), (%r\d+), (2145419232);", r"lop3.b32 \1, \2, \3, 0, 0xC0;"),
    ),
    "mask_add": _rule(
        (
            r"shl\.b32\s+(%r\d+), (%r\d+), 5;(.{1,80}?)and\.b32\s+(%r\d+), \1, 2145419232;",
            r"shl.b32 \1, \2, 5;\3add.s32 \4, \1, 0x7FF88000;",
        )
    ),
    "shl5_mul": _rule((r"shl\.b32\s+(%r\d+), (%r\d+), 5;", r"mul.lo.s32 \1, \2, 32;")),
    "clamp_swapped": _rule(
        (
            (
                r"max\.f16x2 (%r\d+),(%r\d+),(%r\d+);(\s*\}\s+// end inline asm\s+(?:[^\n]*\n){0,12}?[^\n]*)"
                r"min\.f16x2 (%r\d+),\1,(%r\d+);"
            ),
            r"mov.b32 \1,\2;\4min.f16x2 <r0>,\1,\6; max.f16x2 \5,<r0>,\3;",
        )
    ),
    "mul_fma": _rule(
        (r"mul\.f16x2 ([^,;]+),([^,;]+),([^,;]+);", r"mov.u32 <r0>, 0x80008000; fma.rn.f16x2 \1,\2,\3,<r0>;")
    ),
    "sub_add": _rule((r"sub\.f16x2 ([^,;]+),([^,;]+),([^,;]+);", r"neg.f16x2 <r0>, \3; add.f16x2 \1,\2,<r0>;")),
    "zero_xor": _rule((r"mov\.u32\s+(%r\d+), 0;", r"mov.u32 <r0>, %laneid; xor.b32 \1, <r0>, <r0>;")),
    "bfly_idx": _rule(
        (
            r"shfl\.sync\.bfly\.b32 ([^,;]+),([^,;]+),([^,;]+),([^,;]+),([^;]+);",
            r"mov.u32 <r0>, %laneid; xor.b32 <r1>, <r0>, \3; shfl.sync.idx.b32 \1,\2,<r1>,\4,\5;",
        )
    ),
    "relu_max": _rule(
        (
            r"cvt\.rn\.satfinite\.relu\.e4m3x2\.f16x2 (%rs\d+), (%r\d+);",
            r"mov.u32 <r0>, 0; max.f16x2 <r1>, \2, <r0>; cvt.rn.satfinite.e4m3x2.f16x2 \1, <r1>;",
        )
    ),
    "pack_prmt": _rule((_PAIR, _WIDEN + r"prmt.b32 \1, <r0>, <r1>, 0x5410;")),
    "pack_shl_or": _rule((_PAIR, _WIDEN + r"shl.b32 <r2>, <r1>, 16; or.b32 \1, <r2>, <r0>;")),
    "pack_bfi": _rule((_PAIR, _WIDEN + r"bfi.b32 \1, <r1>, <r0>, 16, 16;")),
    "unpack_shr": _rule((_UNPAIR, r"cvt.u16.u32 \1, \3; shr.u32 <r0>, \3, 16; cvt.u16.u32 \2, <r0>;")),
    "neg_xor": _rule((r"neg\.f16x2 ([^,;]+),([^,;]+);", r"xor.b32 \1,\2,0x80008000;")),
    "abs_and": _rule((r"abs\.f16x2 ([^,;]+),([^,;]+);", r"and.b32 \1,\2,0x7FFF7FFF;")),
    "and_lop3": _rule((r"and\.b32\s+(%r\d+), (%r\d+), (-?\d+);", r"lop3.b32 \1, \2, \3, 0, 0xC0;")),
}
