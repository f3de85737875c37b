"""Second operands of a step on four words: uniform values, and what must not be taken for one or for another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zluda_rr.ptx import Address, Immediate, Negated, Operand, Pair, Register, Symbol, Vector

from .kernel import HALVES, INPUTS, Kernel

MIX = "_Z3mixj"
"""A device function whose result differs from lane to lane; MIX_EVEN's argument decides alone."""
MIX_EVEN = "_Z4evenj"
FUNCTIONS = f"""
.func (.param .b32 func_retval0) {MIX}(
\t.param .b32 {MIX}_param_0
)
{{
\t.reg .b32 \t%r<5>;
\tld.param.u32 \t%r1, [{MIX}_param_0];
\tmov.u32 \t%r2, %tid.x;
\tmul.lo.s32 \t%r3, %r2, 201326603;
\txor.b32 \t%r4, %r3, %r1;
\tst.param.b32 \t[func_retval0+0], %r4;
\tret;
}}
.func (.param .b32 func_retval0) {MIX_EVEN}(
\t.param .b32 {MIX_EVEN}_param_0
)
{{
\t.reg .b32 \t%r<3>;
\tld.param.u32 \t%r1, [{MIX_EVEN}_param_0];
\txor.b32 \t%r2, %r1, 1006648320;
\tst.param.b32 \t[func_retval0+0], %r2;
\tret;
}}
"""
Partners = Callable[[Kernel], list[Operand]]
"""Four operands, for the words (row half 0, row half 1) of the first n-tile and of the second."""


def one_for_all(k: Kernel) -> list[Operand]:
    return [k.chance.choice(k.uniform)] * 4


def by_row(k: Kernel) -> list[Operand]:
    return [*k.chance.sample(k.uniform, 2)] * 2


def per_lane(k: Kernel) -> list[Operand]:
    return [k.chance.choice(k.lanes[8:])] * 4


def per_lane_by_row(k: Kernel) -> list[Operand]:
    return [*k.chance.sample(k.lanes[8:], 2)] * 2


def the_words(k: Kernel) -> list[Operand]:
    return [k.chance.choice(k.words) for _ in range(4)] if k.words else one_for_all(k)


def selected(k: Kernel) -> list[Operand]:
    """selp of two constants by a predicate for row half 0, by its negation for the other, or by the same."""
    k.used("selp")
    b, p = k.builder, k.chance.choice(k.predicates)
    one, other = k.chance.sample(HALVES, 2)
    first = b.set("selp.b32", one, other, p)
    if k.often(0.2):
        return [first, b.set("selp.b32", one, other, p)] * 2
    k.used("negated")
    if k.often(0.5):
        return [first, b.set("selp.b32", one, other, Negated(p))] * 2
    q = b.set("not.pred", p, kind="pred")
    return [first, b.set("selp.b32", one, other, q)] * 2


def combined(k: Kernel) -> list[Operand]:
    """setp.and with a predicate, and with its negation."""
    k.used("setp.and")
    b, p = k.builder, k.chance.choice(k.predicates)
    compare = f"setp.eq.{k.chance.choice(['and', 'or', 'xor'])}.u32"
    operands: list[Operand] = [k.uniform[1], number_of(0)]
    both = [b.set(compare, *operands, p, kind="pred")]
    negated = k.often(0.8)
    both.append(b.set(compare, *operands, Negated(p) if negated else p, kind="pred"))
    if negated:
        k.used("negated")
    return [b.set("selp.b32", HALVES[0], HALVES[1], q) for q in both] * 2


def two_results(k: Kernel) -> list[Operand]:
    """The two results of one setp, or a result behind a sink."""
    k.used("two results")
    b = k.builder
    if k.often(0.5):
        p, q = b.register("pred"), b.register("pred")
        b.put("setp.eq.u32", Pair(p, q), k.uniform[1], 0)
        return [b.set("selp.b32", HALVES[0], HALVES[1], r) for r in (p, q)] * 2
    low, high = b.register("b16"), b.register("b16")
    b.put("mov.b32", Vector((low, Symbol("_"))), k.uniform[0])
    b.put("mov.b32", Vector((Symbol("_"), high)), k.uniform[0])
    return [b.set("mov.b32", Vector((half, half))) for half in (low, high)] * 2


def called(k: Kernel) -> list[Operand]:
    k.used("called")
    argument = k.chance.choice([*k.uniform, k.lanes[14]])
    calls = [k.builder.call(k.chance.choice([MIX, MIX, MIX_EVEN]), [argument]) for _ in range(k.chance.choice([1, 2]))]
    masked: list[Operand] = [k.builder.set("and.b32", call, 0x7BFF7BFF) for call in calls]
    return (masked * 2)[:2] * 2


def of_the_moment(k: Kernel) -> list[Operand]:
    """Values that look uniform and differ by lane, warp or moment."""
    k.used("of the moment")
    b = k.builder
    makers: list[Callable[[], Register]] = [
        lambda: b.set("mov.u32", Register(k.chance.choice(["%laneid", "%tid.x", "%lanemask_lt", "%ctaid.x"]))),
        lambda: b.set("ld.volatile.global.u32", Address(k.inputs, 4 * k.chance.randrange(INPUTS))),
        lambda: b.set("vote.sync.ballot.b32", k.chance.choice(k.predicates), -1),
        lambda: b.set("shfl.sync.idx.b32", k.lanes[12], k.chance.randrange(4), 31, -1),
        lambda: b.set("activemask.b32"),
    ]
    first = k.chance.choice(makers)
    values = [first(), first() if k.often(0.5) else k.chance.choice(makers)()]
    return [b.set("and.b32", value, 0x3FFF3FFF) for value in values] * 2


def guarded(k: Kernel) -> list[Operand]:
    """A constant that a predicated instruction may replace."""
    k.used("guarded constant")
    b, p = k.builder, k.chance.choice(k.predicates)
    values = []
    for negated in k.chance.choice([(False, True), (False, False), (True, True)]):
        value = b.set("mov.u32", HALVES[0])
        b.put("mov.u32", value, HALVES[1], guard=Negated(p) if negated else p)
        values.append(value)
    return [*values, *values]


def computed(k: Kernel) -> list[Operand]:
    """Equal or nearly equal expressions of uniform values."""
    k.used("computed")
    b = k.builder
    texts: list[tuple[str, tuple[Operand | int, ...]]] = [
        ("add.u32", (k.uniform[0], 5)),
        ("add.u32", (k.uniform[0], 6)),
        ("xor.b32", (k.uniform[1], k.uniform[0])),
        ("xor.b32", (k.uniform[0], k.uniform[1])),
        ("lop3.b32", (k.uniform[0], k.uniform[1], k.uniform[2], 0x96)),
        ("lop3.b32", (k.uniform[0], k.uniform[1], k.uniform[2], 0xE8)),
        ("shl.b32", (k.uniform[0], 1)),
        ("mov.u32", (Register("%ctaid.x"),)),
        ("mov.u32", (Register("%nctaid.x"),)),
    ]
    chosen = k.chance.choice(texts), k.chance.choice(texts)
    chosen = (chosen[0], chosen[0]) if k.often(0.5) else chosen
    return [b.set("and.b32", b.set(opcode, *operands), 0x3FFF3FFF) for opcode, operands in chosen] * 2


def number_of(value: int) -> Immediate:
    return Immediate(str(value), "int", value)


PARTNERS: Sequence[Partners] = (
    one_for_all, one_for_all, by_row, per_lane, per_lane_by_row, the_words, selected, combined, two_results, called,
    of_the_moment, guarded, computed,
)  # fmt: skip
