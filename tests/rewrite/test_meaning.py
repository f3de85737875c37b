"""Mutations of meaning: one small change of a kernel's PTX each, refused, with the place that differs named.

Every change keeps the text legal and the structure plausible; what is different is a guard, an address, a constant, an
order of sums or of k steps, a table, a lane bit, a rounding. The layer cut has to notice each.
"""

import re
from collections.abc import Callable

import pytest

from zluda_rr.contract import LayerContract
from zluda_rr.ptx import parse
from zluda_rr.rewrite import rewrite_module

Change = str | Callable[[re.Match[str]], str]
_MMA = (24, 24, 24, 24, 48, 48, 16, 24, 24, 48, 48, 16, 16, 16, 16, 16, 16, 16, 16, 16, 32, 8)


def anchor(text: str, phase: int) -> int:
    """Where the epilogue of a phase begins; 0: the kernel."""
    at = text.index("{", text.index(".entry"))
    for _ in range(sum(_MMA[:phase])):
        at = text.index("mma.sync", at + 1)
    return text.index("\n", at)


def swapped(first: int, second: int) -> Callable[[re.Match[str]], str]:
    """The match with two groups exchanged."""

    def change(match: re.Match[str]) -> str:
        a, b = sorted((first, second))
        text, start = match[0], match.start()
        (a0, a1), (b0, b1) = ((x - start, y - start) for x, y in (match.span(a), match.span(b)))
        return text[:a0] + text[b0:b1] + text[a1:b0] + text[a0:a1] + text[b1:]

    return change


_MMA_CALL = r"\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\},\s*\{(%r\d+), (%r\d+)\},\s*\{(%r\d+), (%r\d+)\};"
_SUM = r"add\.f16x2 (%r\d+),(%r\d+),(%r\d+);"
_STORE = r"st\.global\.u32 \t\[%rd\d+\], (%r\d+);"

# name: epilogue in which to look, pattern, change, what the refusal says
# fmt: off
MUTATIONS: dict[str, tuple[int, str, Change, str]] = {
    "guard: x < 0": (20, r"(setp\.lt\.s32\s+%p\d+, %r\d+, )0;", r"\g<1>1;", "plane_arena: .* guard"),
    "guard: y >= ey": (20, r"setp\.ge\.s32", "setp.gt.s32", "plane_arena: .* guard"),
    "guard: joined by and": (20, r"or\.pred", "and.pred", "plane_arena: .* guard"),
    "guard: rows of the block": (20, r"(setp\.gt\.u32\s+%p\d+, %r\d+, )255;", r"\g<1>15;", "plane_arena: .* guard"),
    "guard: merged tokens": (21, r"setp\.ge\.u32", "setp.gt.u32", "merged_planes: .* guard"),
    "address: bytes of a word": (20, r"(mul\.wide\.s32\s+%rd\d+, %r\d+, )4;", r"\g<1>8;", "plane_arena: .* address"),
    "address: words of a token": (20, r"(bfi\.b32\s+%r\d+, %r\d+, %r\d+, )3, 29;", r"\g<1>4, 28;", "plane_arena"),
    "address: row of a lane": (20, r"(shr\.u32\s+%r\d+, %r\d+, )2;", r"\g<1>3;", "plane_arena"),
    "address: halved twice": (21, r"(shr\.u32\s+%r\d+, %r\d+, )1;", r"\g<1>2;", "merged_planes"),
    "address: origin halved twice": (21, r"(shr\.s32\s+%r\d+, %r\d+, )1;", r"\g<1>2;", "merged_planes"),
    "address: merged row": (21, r"(bfi.*?bfi\.b32\s+%r\d+, %r\d+, %r\d+, )1, 31;", r"\g<1>2, 30;", "merged_planes"),
    "store: values exchanged": (20, rf"{_STORE}(.*?){_STORE}", swapped(1, 3), "plane_arena: .* (guard|address)"),
    "store: dropped": (20, _STORE, "", "plane_arena: .* is not stored"),
    "store: other buffer": (20, r"\[(%rd\d+)\+-32\];", r"[\1+-24];", "writes|plane_arena|merged_planes"),
    "weights: offset": (6, r"\b21184;", "21188;", "phase 7: B"),
    "weights: lane stride": (6, r"(mul\.wide\.u32\s+%rd\d+, %r\d+, )16;", r"\g<1>32;", "phase 7: B"),
    "weights: pointer": (0, r"\+-40\];", "+-32];", "phase"),
    "seeds: offset": (0, r"\b5120;", "5136;", "phase 1: C|phase 1"),
    "bias: offset": (4, r"\b8384;", "8400;", "phase 5: C"),
    "table: offset": (6, r"\b37056;", "37072;", "phase 7: C"),
    "table: halves exchanged": (6, r"ld\.global\.v2\.u16 \t\{(%rs\d+), (%rs\d+)\}", swapped(1, 2), "phase 7: C"),
    "table: columns of a lane": (6, r"(and\.b(?:32|64)\s+%r\w?\d+, %r\w?\d+, )12;", r"\g<1>8;", "phase 7: C"),
    "gain: offset": (2, r"\b6272;", "6208;", "phase 3: A"),
    "norm: epsilon": (2, "0d3F20000000000000", "0d3F10000000000000", "phase 3: A .*0x800, found 0x400"),
    "norm: root": (2, r"rsqrt\.approx\.ftz\.f32", "rcp.approx.ftz.f32", "phase 3: A"),
    "norm: tree": (2, rf"{_SUM}(.{{1,80}}?){_SUM}", swapped(3, 7), "phase 3: A"),
    "norm: butterfly": (2, r"(shfl\.sync\.bfly\.b32 %r\d+,%r\d+,)%r\d+,", r"\g<1>4,", "phase 3: A"),
    "norm: square": (2, r"mul\.f16 (%rs\d+),(%rs\d+),\2;", r"add.f16 \1,\2,\2;", "phase 3: A"),
    "norm: rounding": (2, r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32", "phase 3: A"),
    "relu: dropped": (1, r"satfinite\.relu\.", "satfinite.", "phase 2: A"),
    "relu: added": (3, r"cvt\.rn\.satfinite\.e4m3x2", "cvt.rn.satfinite.relu.e4m3x2", "phase 5: (A|B)|phase 5"),
    "pack: other format": (3, r"satfinite\.e4m3x2", "satfinite.e5m2x2", "phase"),
    "pack: halves exchanged": (3, r"mov\.b32 (%r\d+), \{(%rs\d+), (%rs\d+)\}", swapped(2, 3), "phase"),
    "exponent: scale": (5, "0f3C8CCB50", "0f3C8CDB50", "phase 6: A .*0x2466, found 0x2467"),
    "exponent: bound": (5, "0d3FE1CC0000000000", "0d3FE1D00000000000", "phase 6: A"),
    "exponent: linear": (5, "0f3F6D6000", "0f3F6D8000", "phase 6: A"),
    "exponent: offset": (5, "0f3FB00000", "0f3FB02000", "phase 6: A"),
    "exponent: shift": (5, r"(shl\.b32\s+%r\d+, %r\d+, )5;", r"\g<1>4;", "phase 6: A"),
    "exponent: mask": (5, "2145419232", "2145419200", "phase 6: A"),
    "exponent: sign": (5, r"neg\.f16x2", "abs.f16x2", "phase 6: A"),
    "exponent: clamp": (5, r"max\.f16x2", "min.f16x2", "phase 6: A"),
    "softmax: inverse": (5, r"rcp\.approx\.ftz\.f32", "rsqrt.approx.ftz.f32", "phase 6: A"),
    "values: not transposed": (5, r"movmatrix\.sync\.trans\.aligned\.m8n8\.b16", "mov.b32", "phase 6: B"),
    "product: rows exchanged": (7, _MMA_CALL, swapped(1, 2), "phase [0-9]+: A"),
    "product: words of B": (7, _MMA_CALL, swapped(5, 6), "phase [0-9]+: B"),
    "product: words of C": (7, _MMA_CALL, swapped(7, 8), "phase [0-9]+: "),
    "activation: slope": (13, "0f3ED306EB", "0f3ED326EB", "phase 14: A .*0x3698, found 0x3699"),
    "activation: curve": (13, "0f3DA60DD6", "0f3DA70DD6", "phase 14: A .*0x2d30, found 0x2d38"),
    "activation: one half": (13, "0f3F000000", "0f3F002000", "phase 14: A"),
    "activation: limit": (13, "0f40000000", "0f40002000", "phase 14: A"),
    "activation: magnitude": (13, r"abs\.f16x2", "neg.f16x2", "phase 14: A"),
    "activation: difference": (13, r"sub\.f16x2 (%r\d+),(%r\d+),(%r\d+);", swapped(2, 3), "phase 14: A"),
    "merge: lane bit": (20, r"(and\.b32\s+%r\d+, %r\d+, )4;", r"\g<1>8;", "phase 21: A"),
    "merge: distance": (20, r"(mov\.u32\s+%r\d+, )4;", r"\g<1>2;", "phase 21: A"),
    "merge: sides": (20, r"selp\.b32\s+%r\d+, (%r\d+), (%r\d+), %p", swapped(1, 2), "phase 21: A"),
    "merge: direction": (20, r"shfl\.sync\.up", "shfl.sync.down", "phase 21: A"),
}
# fmt: on


@pytest.mark.parametrize("name", MUTATIONS)
def test_refused_with_its_place(name: str, enc0_text: str, contract: LayerContract) -> None:
    phase, pattern, change, place = MUTATIONS[name]
    start = anchor(enc0_text, phase)
    text, count = re.subn(pattern, change, enc0_text[start:], count=1, flags=re.S)
    assert count == 1, pattern
    result = rewrite_module(parse(enc0_text[:start] + text), contract, ("layer",))
    assert result.refused is not None, "accepted"
    assert re.search(place, result.refused), result.refused


def test_there_are_forty() -> None:
    assert len(MUTATIONS) >= 40
