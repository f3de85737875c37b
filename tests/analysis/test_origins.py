"""What a value depends on, and what it is called for it."""

import pytest

from tests.analysis.snippets import Snippet
from tests.analysis.test_phases import mma
from zluda_rr.analysis import Derived, Operands, Summary, Unknown, build_phase, collect_mma
from zluda_rr.analysis import origins as op
from zluda_rr.analysis.origins import operation


def summary(snippet: Snippet, text: str, register: str) -> Summary:
    number = snippet.number(text)
    return snippet.origins.of(snippet.values.value(number, register))


def test_direct_operands_stop_at_a_reciprocal() -> None:
    """x * rsqrt(x*x + y*y): both accumulators count, only x is direct."""
    lines = mma(100, 0, 40, 90) + (
        "mul.f16x2 %r1, %r100, %r100; fma.rn.f16x2 %r2, %r101, %r101, %r1; mov.b32 {%rs1, %rs2}, %r2;"
        "cvt.f32.f16 %f1, %rs1; rsqrt.approx.ftz.f32 %f2, %f1; cvt.rn.f16.f32 %rs3, %f2; mov.b32 %r3, {%rs3, %rs3};"
        "mul.f16x2 %r4, %r100, %r3; mov.u32 %r5, %r4;"
    )
    snippet = Snippet(lines)
    found = summary(snippet, "mov.u32 %r5", "%r4")
    direct = [leaf.word for leaf in snippet.origins.expand(found.direct)]
    full = [leaf.word for leaf in snippet.origins.expand(found.full)]
    assert (direct, full) == ([0], [0, 1])
    assert found.direct_ops == op.MULTIPLY
    assert found.ops & op.RSQRT


def test_loads_and_accumulators_are_leaves() -> None:
    lines = "mov.u64 %rd1, 64; ld.global.v2.u32 {%r0, %r1}, [%rd1];" + mma(100, 0, 40, 0) + "add.f16x2 %r2, %r100, %r1;"
    snippet = Snippet(lines + "mov.u32 %r3, %r2;")
    found = summary(snippet, "mov.u32 %r3", "%r2")
    leaves = [(leaf.kind, leaf.word) for leaf in snippet.origins.expand(found.full)]
    assert leaves == [("load", 1), ("accumulator", 0)]


def test_a_value_that_a_loop_carries_has_all_its_sources() -> None:
    lines = mma(100, 0, 40, 90) + (
        "mov.u32 %r1, 0; mov.u32 %r2, 0; $L_loop: mov.u32 %r3, %r2; mov.u32 %r2, %r1; mov.u32 %r1, %r100;"
        "setp.lt.u32 %p1, %r3, 5; @%p1 bra $L_loop; add.u32 %r4, %r3, 1;"
    )
    snippet = Snippet(lines)
    found = snippet.origins.of(snippet.values.value(snippet.number("add.u32 %r4"), "%r3"))
    assert len(list(snippet.origins.expand(found.full))) == 1


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("cvt.rn.satfinite.e4m3x2.f16x2 %rs1, %r1;", op.E4M3),
        ("cvt.rn.satfinite.relu.e4m3x2.f16x2 %rs1, %r1;", op.RELU),
        ("cvt.f32.f16 %f1, %rs1;", 0),
        ("add.f16x2 %r1, %r2, %r3;", op.ADD),
        ("add.s32 %r1, %r2, %r3;", op.BITS),
        ("movmatrix.sync.trans.aligned.m8n8.b16 %r1, %r2;", op.TRANSPOSE),
        ("ex2.approx.ftz.f32 %f1, %f2;", op.EXPONENT),
    ],
)
def test_operations(text: str, flags: int) -> None:
    assert operation(Snippet(text).body[1]) == flags


def packed(conversions: tuple[str, str, str, str], extra: str = "") -> str:
    """A 16x32x32 phase and a word pair per A register made of its D as the layers pack it: n-tiles w and w + 2."""
    lines = [mma(100 + 10 * n, 0, 40 + 2 * n, 90) for n in range(4)]
    lines.append(extra)
    for i in range(4):
        low, high = 100 + 10 * (i >> 1) + (i & 1), 120 + 10 * (i >> 1) + (i & 1)
        lines.append(f"{conversions[i]} %rs{2 * i}, %r{high}; {conversions[i]} %rs{2 * i + 1}, %r{low};")
        lines.append(f"mov.b32 %r{200 + i}, {{%rs{2 * i + 1}, %rs{2 * i}}};")
    lines += [mma(300 + 10 * n, 200, 60 + 2 * n, 90) for n in range(4)]
    return "\n".join(lines)


PLAIN = "cvt.rn.satfinite.e4m3x2.f16x2"
RELU = "cvt.rn.satfinite.relu.e4m3x2.f16x2"


def a_source(lines: str) -> object:
    snippet = Snippet(lines)
    mmas = collect_mma(snippet.body, snippet.values)
    operands = Operands(snippet.body, snippet.values, snippet.origins)
    operands.add(build_phase(1, mmas[:4]))
    return operands.add(build_phase(2, mmas[4:])).a


def test_pack_and_relu_pack() -> None:
    assert a_source(packed((PLAIN,) * 4)) == Derived("pack", 1)
    assert a_source(packed((RELU,) * 4)) == Derived("relu-pack", 1)


def test_mixed_conversions_have_no_name() -> None:
    assert a_source(packed((PLAIN, PLAIN, RELU, PLAIN))) == Unknown("mixed: pack, relu-pack of D1")


def test_an_elementwise_change_before_the_pack_is_an_activation() -> None:
    changed = "".join(f"max.f16x2 %r{r}, %r{r}, %r0;" for r in (100, 101, 110, 111, 120, 121, 130, 131))
    assert a_source(packed((PLAIN,) * 4, changed)) == Derived("activation", 1)


def test_exchanged_words_are_seen() -> None:
    lines = packed((PLAIN,) * 4).replace("%r200, %r201, %r202, %r203", "%r201, %r200, %r202, %r203")
    assert isinstance(a_source(lines), Unknown)


def test_exchanged_halves_are_seen() -> None:
    lines = packed((PLAIN,) * 4).replace("{%rs1, %rs0}", "{%rs0, %rs1}")
    assert isinstance(a_source(lines), Unknown)
