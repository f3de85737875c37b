"""Every lowered scalar instruction against the PTX oracle, byte for byte, on special and random operands."""

import numpy as np
import pytest

from tests.lower.harness import LANES, assert_same, kernel, operands

WORD = ("b32",)

# name: (number of b32 inputs %a0.., statements that set %d0.., kinds of the outputs)
INTEGER = {
    "add.s32": (2, "add.s32 %d0, %a0, %a1;", WORD),
    "sub.s32": (2, "sub.s32 %d0, %a0, %a1;", WORD),
    "add.s64": (2, "mov.b64 %x, {%a0, %a1}; add.s64 %x, %x, -5000000000; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "mul.lo.s32": (2, "mul.lo.s32 %d0, %a0, %a1;", WORD),
    "mul.hi.s32": (2, "mul.hi.s32 %d0, %a0, %a1;", WORD),
    "mul.hi.u32": (2, "mul.hi.u32 %d0, %a0, %a1;", WORD),
    "mul.wide.s32": (2, "mul.wide.s32 %x, %a0, %a1; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "mul.wide.u32": (2, "mul.wide.u32 %x, %a0, %a1; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "mul.wide.u16": (2, "cvt.u16.u32 %h, %a0; mul.wide.u16 %d0, %h, 300;", WORD),
    "mad.lo.s32": (3, "mad.lo.s32 %d0, %a0, %a1, %a2;", WORD),
    "mad.wide.s32": (3, "mov.b64 %x, {%a1, %a2}; mad.wide.s32 %x, %a0, %a1, %x; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "min.s32": (2, "min.s32 %d0, %a0, %a1;", WORD),
    "min.u32": (2, "min.u32 %d0, %a0, %a1;", WORD),
    "max.s32": (2, "max.s32 %d0, %a0, %a1;", WORD),
    "max.u32": (2, "max.u32 %d0, %a0, %a1;", WORD),
    "neg.s32": (1, "neg.s32 %d0, %a0;", WORD),
    "abs.s32": (1, "abs.s32 %d0, %a0;", WORD),
    "and.b32": (2, "and.b32 %d0, %a0, %a1;", WORD),
    "or.b32": (2, "or.b32 %d0, %a0, %a1;", WORD),
    "xor.b32": (2, "xor.b32 %d0, %a0, %a1;", WORD),
    "not.b32": (1, "not.b32 %d0, %a0;", WORD),
    "and.b64": (2, "mov.b64 %x, {%a0, %a1}; and.b64 %x, %x, 12; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "popc.b32": (1, "popc.b32 %d0, %a0;", WORD),
    "clz.b32": (1, "clz.b32 %d0, %a0;", WORD),
    "brev.b32": (1, "brev.b32 %d0, %a0;", WORD),
    "shl.b32": (2, "shl.b32 %d0, %a0, %a1;", WORD),
    "shr.u32": (2, "shr.u32 %d0, %a0, %a1;", WORD),
    "shr.s32": (2, "shr.s32 %d0, %a0, %a1;", WORD),
    "shl.b64": (3, "mov.b64 %x, {%a0, %a2}; shl.b64 %x, %x, %a1; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "shr.s64": (3, "mov.b64 %x, {%a0, %a2}; shr.s64 %x, %x, %a1; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "shr.s16": (2, "cvt.u16.u32 %h, %a0; shr.s16 %h, %h, %a1; cvt.s32.s16 %d0, %h;", WORD),
    "shift by constants": (1, "shl.b32 %d0, %a0, 5; shr.s32 %d1, %a0, 31; shl.b32 %d2, %a0, 32;", WORD * 3),
    "shf.l.wrap": (3, "shf.l.wrap.b32 %d0, %a0, %a2, %a1;", WORD),
    "shf.r.clamp": (3, "shf.r.clamp.b32 %d0, %a0, %a2, %a1;", WORD),
    "bfe.u32": (3, "bfe.u32 %d0, %a2, %a0, %a1; bfe.u32 %d1, %a2, 5, 7;", WORD * 2),
    "bfe.s32": (3, "bfe.s32 %d0, %a2, %a0, %a1; bfe.s32 %d1, %a2, 5, 7;", WORD * 2),
    "bfi.b32": (4, "bfi.b32 %d0, %a2, %a3, %a0, %a1; bfi.b32 %d1, %a2, %a3, 2, 3;", WORD * 2),
    "prmt.b32": (3, "prmt.b32 %d0, %a0, %a1, %a2; prmt.b32 %d1, %a0, %a1, 0x5410;", WORD * 2),
    "lop3.b32": (3, "lop3.b32 %d0, %a0, %a1, %a2, 0xe8; lop3.b32 %d1, %a0, %a1, %a2, 0x6a;", WORD * 2),
    "div.s32": (2, "or.b32 %r, %a1, 1; div.s32 %d0, %a0, %r; rem.s32 %d1, %a0, %r;", WORD * 2),
    "div.u32": (2, "or.b32 %r, %a1, 1; div.u32 %d0, %a0, %r; rem.u32 %d1, %a0, %r;", WORD * 2),
    "cvt.u16.u32": (1, "cvt.u16.u32 %h, %a0; cvt.u32.u16 %d0, %h; cvt.s32.s16 %d1, %h;", WORD * 2),
    "cvt.s64.s32": (1, "cvt.s64.s32 %x, %a0; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "cvt.u64.u32": (1, "cvt.u64.u32 %x, %a0; mov.b64 {%d0, %d1}, %x;", WORD * 2),
    "cvt.s8": (1, "cvt.s32.s8 %d0, %a0; cvt.u32.u8 %d1, %a0;", WORD * 2),
    "mov pack": (2, "mov.b32 {%h, %k}, %a0; mov.b32 %d0, {%k, %h};", WORD),
    "mov sink": (1, "mov.b32 {_, %h}, %a0; mov.b32 %d0, {%h, %h};", WORD),
    "selp": (3, "setp.lt.s32 %p, %a0, %a1; selp.b32 %d0, %a2, -1, %p;", WORD),
    "guards": (2, "mov.u32 %d0, 7; setp.gt.u32 %p, %a0, %a1; @%p mov.u32 %d0, %a0; @!%p add.s32 %d0, %a1, 1;", WORD),
    "branches": (
        2,
        ("mov.u32 %d0, 0; setp.ge.s32 %p, %a0, %a1; @%p bra LEFT; add.s32 %d0, %d0, 5; bra.uni JOIN;\n"
        "LEFT: sub.s32 %d0, %d0, %a0; JOIN: xor.b32 %d0, %d0, %a1;"),
        WORD,
    ),
    "loop": (
        1,
        ("and.b32 %r, %a0, 31; mov.u32 %d0, 1; AGAIN: mad.lo.s32 %d0, %d0, 3, %r; sub.s32 %r, %r, 1; "
        "setp.ge.s32 %p, %r, 0; @%p bra AGAIN;"),
        WORD,
    ),
    "predicates": (
        2,
        ("setp.eq.s32 %p, %a0, 0; setp.lt.and.u32 %q|%p, %a0, %a1, !%p; or.pred %q, %q, %p; not.pred %p, %p; "
        "xor.pred %q, %q, %p; selp.u32 %d0, 1, 0, %q; selp.u32 %d1, 1, 0, %p;"),
        WORD * 2,
    ),
}  # fmt: skip

SETP_INTEGER = [f"{relation}.{kind}" for relation in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("s32", "u32")]
SETP_INTEGER += [f"{relation}.u32" for relation in ("lo", "ls", "hi", "hs")] + ["eq.b32", "ne.b32"]
SETP_FLOAT = [
    f"{relation}.{kind}"
    for relation in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    for kind in ("ftz.f32", "f32")
]

F16X2 = ("f16x2",)
HALF = {
    **{f"{op}.f16x2": (2, f"{op}.f16x2 %d0, %a0, %a1;", F16X2) for op in ("add", "sub", "mul", "min", "max")},
    **{f"{op}.rn.f16x2": (2, f"{op}.rn.f16x2 %d0, %a0, %a1;", F16X2) for op in ("add", "sub", "mul")},
    "fma.rn.f16x2": (3, "fma.rn.f16x2 %d0, %a0, %a1, %a2;", F16X2),
    "neg.f16x2": (1, "neg.f16x2 %d0, %a0;", F16X2),
    "abs.f16x2": (1, "abs.f16x2 %d0, %a0;", F16X2),
    "unfused": (3, "mul.f16x2 %d0, %a0, %a1; add.f16x2 %d0, %d0, %a2;", F16X2),
    **{
        f"{op}.f16": (
            2,
            (f"mov.b32 {{%h, %k}}, %a0; mov.b32 {{%l, %m}}, %a1; {op}.f16 %h, %h, %l; {op}.f16 %k, %k, %m; "
            "mov.b32 %d0, {%h, %k};"),
            F16X2,
        )
        for op in ("add", "sub", "mul", "min", "max")
    },
    "fma.rn.f16": (3, ("cvt.u16.u32 %h, %a0; cvt.u16.u32 %k, %a1; cvt.u16.u32 %l, %a2; fma.rn.f16 %h, %h, %k, %l; "
                   "mov.b32 %d0, {%h, %h};"), F16X2),
    "cvt.f32.f16": (1, "cvt.u16.u32 %h, %a0; cvt.f32.f16 %f, %h; mov.b32 %d0, %f;", ("f32",)),
    "cvt.rn.f16.f32": (1, "mov.b32 %f, %a0; cvt.rn.f16.f32 %h, %f; mov.b32 %d0, {%h, 0};", F16X2),
    "cvt.rn.f16x2.f32": (2, "mov.b32 %f, %a0; mov.b32 %g, %a1; cvt.rn.f16x2.f32 %d0, %f, %g;", F16X2),
    "cvt.rn.f16.f64": (2, "mov.b64 %z, {%a0, %a1}; cvt.rn.f16.f64 %h, %z; mov.b32 %d0, {%h, 0};", F16X2),
    "constant f16": (1, "mov.f64 %z, 0dBFE1CC0000000000; cvt.rn.f16.f64 %h, %z; mov.b32 %d0, {%h, %h};", F16X2),
}  # fmt: skip

F32 = ("f32",)
SINGLE = {
    **{f"{op}.ftz.f32": (2, f"mov.b32 %f, %a0; mov.b32 %g, %a1; {op}.ftz.f32 %f, %f, %g; mov.b32 %d0, %f;", F32)
       for op in ("add", "sub", "mul", "min", "max")},
    **{f"{op}.f32": (2, f"mov.b32 %f, %a0; mov.b32 %g, %a1; {op}.f32 %f, %f, %g; mov.b32 %d0, %f;", F32)
       for op in ("add", "sub", "mul", "min", "max")},
    "fma.rn.ftz.f32": (3, ("mov.b32 %f, %a0; mov.b32 %g, %a1; mov.b32 %e, %a2; fma.rn.ftz.f32 %f, %f, %g, %e; "
                       "mov.b32 %d0, %f;"), F32),
    "mixed denormal modes": (2, ("mov.b32 %f, %a0; mov.b32 %g, %a1; add.ftz.f32 %e, %f, %g; mul.f32 %f, %f, %g; "
                             "mov.b32 %d0, %e; mov.b32 %d1, %f;"), F32 * 2),
    **{f"{op}.approx.ftz.f32": (1, f"mov.b32 %f, %a0; {op}.approx.ftz.f32 %f, %f; mov.b32 %d0, %f;", F32)
       for op in ("rcp", "rsqrt", "ex2", "lg2", "sqrt")},
    "div.approx.ftz.f32": (2, "mov.b32 %f, %a0; mov.b32 %g, %a1; div.approx.ftz.f32 %f, %f, %g; mov.b32 %d0, %f;", F32),
    "cvt.rzi.s32.f32": (1, "mov.b32 %f, %a0; cvt.rzi.s32.f32 %d0, %f;", WORD),
    "cvt.rni.s32.f32": (1, "mov.b32 %f, %a0; cvt.rni.s32.f32 %d0, %f;", WORD),
    "cvt.rzi.u32.f32": (1, "mov.b32 %f, %a0; cvt.rzi.u32.f32 %d0, %f;", WORD),
    "cvt.rn.f32.s32": (1, "cvt.rn.f32.s32 %f, %a0; mov.b32 %d0, %f;", F32),
    "cvt.rn.f32.u32": (1, "cvt.rn.f32.u32 %f, %a0; mov.b32 %d0, %f;", F32),
    "decimal constants": (1, ("mov.b32 %f, %a0; mov.f32 %g, 1.5; mul.f32 %f, %f, 0d4004000000000000; "
                          "add.f32 %f, %f, %g; mov.b32 %d0, %f;"), F32),
    "cvt.rmi.f32.f32": (1, "mov.b32 %f, %a0; cvt.rmi.f32.f32 %f, %f; mov.b32 %d0, %f;", F32),
}  # fmt: skip

DECLARATIONS = (
    ".reg .b32 %r; .reg .b64 %x; .reg .b16 %h, %k, %l, %m; .reg .pred %p, %q; .reg .f32 %e, %f, %g; .reg .f64 %z;"
)


@pytest.mark.parametrize("name", [*INTEGER, *HALF, *SINGLE])
def test_instruction(name: str) -> None:
    inputs, statements, kinds = {**INTEGER, **HALF, **SINGLE}[name]
    module = kernel(statements, inputs=inputs, outputs=len(kinds), declarations=DECLARATIONS)
    assert_same(module, operands(inputs), kinds)


@pytest.mark.parametrize("relation", SETP_INTEGER)
def test_setp_of_integers(relation: str) -> None:
    module = kernel(
        f"setp.{relation} %p, %a0, %a1; selp.u32 %d0, 1, 0, %p;", inputs=2, outputs=1, declarations=DECLARATIONS
    )
    assert_same(module, operands(2), WORD)


@pytest.mark.parametrize("relation", SETP_FLOAT)
def test_setp_of_floats(relation: str) -> None:
    text = f"mov.b32 %f, %a0; mov.b32 %g, %a1; setp.{relation} %p, %f, %g; selp.u32 %d0, 1, 0, %p;"
    assert_same(kernel(text, inputs=2, outputs=1, declarations=DECLARATIONS), operands(2), WORD)


def test_f16_addition_over_every_half() -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    shuffled = np.random.default_rng(1).permutation(halves)
    words = np.stack([halves | shuffled << 16, shuffled | halves[::-1] << 16], axis=1)
    text = "add.f16x2 %d0, %a0, %a1; mul.f16x2 %d1, %a0, %a1; fma.rn.f16x2 %d2, %a0, %a1, %a0;"
    assert_same(kernel(text, inputs=2, outputs=3), words, F16X2 * 3)


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_e4m3_conversion_of_every_half_in_both_positions(relu: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    other = np.random.default_rng(2).permutation(halves)
    words = np.concatenate([halves | other << 16, other | halves << 16])[:, None]
    text = f"cvt.rn.satfinite{relu}.e4m3x2.f16x2 %h, %a0; cvt.u32.u16 %d0, %h;"
    assert_same(kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS), words, WORD)


def test_e4m3_decoding_of_every_byte_in_both_positions() -> None:
    words = np.arange(1 << 16, dtype=np.uint32)[:, None]
    text = "cvt.u16.u32 %h, %a0; cvt.rn.f16x2.e4m3x2 %d0, %h;"
    assert_same(kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS), words, F16X2)


def test_special_registers() -> None:
    text = (
        "mov.u32 %d0, %laneid; mov.u32 %d1, %tid.x; mov.u32 %d2, %ctaid.x; mov.u32 %d3, %ntid.x; mov.u32 %d4, WARP_SZ;"
        "mov.u32 %d5, %lanemask_eq; mov.u32 %d6, %lanemask_lt; mov.u32 %d7, %lanemask_le; mov.u32 %d8, %lanemask_gt; "
        "mov.u32 %d9, %lanemask_ge; mov.u16 %h, %tid.x; cvt.u32.u16 %d10, %h; mov.u32 %d11, %nctaid.x;"
    )
    words = np.zeros((3 * LANES, 1), np.uint32)
    assert_same(kernel(text, inputs=1, outputs=12, declarations=DECLARATIONS), words, WORD * 12)
