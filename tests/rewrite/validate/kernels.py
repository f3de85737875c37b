"""Modules for tests of the validation: the samples of fusion, and small kernels with control flow."""

from __future__ import annotations

import lzma
from pathlib import Path

from tests.rewrite.fusion.cases import CHAIN, MMA, PRODUCE, consume, convert, module
from zluda_rr.ptx import Module, parse

ROOT = Path(__file__).parent
CORPUS = ROOT.parents[1] / "corpus" / "ptx"
SAMPLES = ROOT.parent / "fusion" / "samples"


def read(path: Path) -> Module:
    """A module out of a compressed file."""
    return parse(lzma.open(path, "rt").read(), filename=path.name)


def fault(name: str) -> tuple[Module, Module]:
    """(original, wrongly fused) as the fusion once wrote it."""
    return read(ROOT / "faults" / f"{name}.original.ptx.xz"), read(ROOT / "faults" / f"{name}.fused.ptx.xz")


SHARED = (
    PRODUCE
    + """
    mov.u32 %w0, %laneid;
    setp.lt.u32 %p0, %w0, 20;
    setp.eq.u32 %p1, %w0, 3;
    max.f16x2 %v0, %x0, %a12;
    max.f16x2 %v1, %x1, %a12;
    max.f16x2 %v2, %x2, %a12;
    max.f16x2 %v3, %x3, %a12;
    @%p0 st.global.u32 [%out+0], %v0;
    @!%p1 st.global.u32 [%out+4], %v3;
"""
    + convert("u", "v")
    + consume()
)
"""Guarded stores of values that are fused besides."""

LOOP = (
    PRODUCE
    + convert("u", "x")
    + f"""
    mov.u32 %w0, 0;
    mov.b32 %v0, %a8;
    mov.b32 %v1, %a9;
    mov.b32 %v2, %a10;
    mov.b32 %v3, %a11;
$again:
    {MMA} {{%z0, %z1}}, {{%u0, %u1, %u0, %u1}}, {{%a4, %a5}}, {{%v0, %v1}};
    {MMA} {{%z2, %z3}}, {{%u0, %u1, %u0, %u1}}, {{%a6, %a7}}, {{%v2, %v3}};
    mul.f16x2 %v0, %z0, %a13;
    mul.f16x2 %v1, %z1, %a13;
    mul.f16x2 %v2, %z2, %a13;
    mul.f16x2 %v3, %z3, %a13;
    st.global.u32 [%out+0], %v1;
    bar.sync 0;
    add.u32 %w0, %w0, 1;
    setp.lt.u32 %p0, %w0, 3;
    @%p0 bra $again;
    mov.b32 %d0, %v0;
    mov.b32 %d1, %v1;
    mov.b32 %d2, %v2;
    mov.b32 %d3, %v3;
"""
)
"""A loop that carries accumulators."""

SMALL = {name: module(text) for name, text in (("chain", CHAIN), ("guards", SHARED), ("loop", LOOP))}
"""Kernels `probe` that fusion rewrites."""
