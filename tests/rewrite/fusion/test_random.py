"""Random chains between two products: whatever fusion makes of them, the bytes are the same."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cases import PRODUCE, compare, consume, convert, words

UNIFORM = ["%c0", "%c1"]
OTHERS = ["%a12", "%a13", "%s"]  # lane words, and the accumulator itself
STEPS = st.sampled_from(
    [f"{op}.f16x2 %d, %s, {other};" for op in ("add", "mul", "min", "max") for other in (*UNIFORM, *OTHERS)]
    + [f"sub.f16x2 %d, {other}, %s;" for other in UNIFORM]
    + ["fma.rn.f16x2 %d, %s, %c0, %s;", "neg.f16x2 %d, %s;", "abs.f16x2 %d, %s;", "and.b32 %d, %s, 0x7fe07fe0;"]
    + ["shl.b32 %d, %s, 1;", "mov.b32 {%h14, %h15}, %s;\nmov.b32 %d, {%h15, %h14};"]
    + [f"shfl.sync.bfly.b32 %d, %s, {n}, 31, -1;" for n in (1, 2, 4)]
    + ["shfl.sync.down.b32 %d, %s, 1, 31, -1;"]
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, str]:
    """(declarations, statements) of a kernel with a random chain of one to four steps."""
    count = draw(st.integers(1, 4))
    lines, registers = [], []
    names = ["%x0", "%x1", "%x2", "%x3"]
    for step in range(count):
        template = draw(STEPS)
        broken = draw(st.integers(0, 9)) == 0  # one register gets another step
        order = draw(st.permutations(range(4)))
        for i in order:
            text = draw(STEPS) if broken and i == 2 else template
            target = f"%q{step}_{i}"
            registers.append(target)
            halves = (f"%k{step}_{i}a", f"%k{step}_{i}b")
            for old, new in zip(("%h14", "%h15", "%d", "%s"), (*halves, target, names[i]), strict=True):
                text = text.replace(old, new)
            lines.append(text)
        names = [f"%q{step}_{i}" for i in range(4)]
        if draw(st.integers(0, 3)) == 0:
            reader = draw(st.integers(0, 3))
            lines.append(f"xor.b32 %r{step}, {names[reader]}, %a14;\nst.global.u32 [%out+16], %r{step};")
    lines += [f"mov.b32 %v{i}, {name};" for i, name in enumerate(names)]
    variants = draw(st.lists(st.sampled_from(["", ".relu"]), min_size=4, max_size=4))
    if draw(st.booleans()):
        variants = [variants[0]] * 4
    residual = draw(st.booleans())
    c, g = ("%v0, %v1", "%v2, %v3") if residual else ("%a8, %a9", "%a10, %a11")
    text = PRODUCE + "\n".join(lines) + "\n" + convert("u", "v", variants) + consume(c=c, g=g)
    halves = ", ".join(f"{name.replace('%q', '%k')}{side}" for name in registers for side in "ab")
    declarations = f".reg .b32 {', '.join(registers)}, %r<4>, %c<2>; .reg .b16 {halves};\n"
    return declarations + "mov.b32 %c0, 0x3c003c00;\nmov.b32 %c1, 0xb8002e00;\n", text


@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(chain=chains(), model=st.sampled_from(["exact", "sequential", "pairwise"]))
def test_fused_is_never_wrong(chain: tuple[str, str], model: str) -> None:
    declarations, text = chain
    outcome = compare(declarations + text + "mov.b32 %d4, %a15;\n", outputs=5, model=model, data=words(2))
    assert outcome.equal
