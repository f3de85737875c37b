"""Random kernels around products: the idioms of real kernels, and in each of them what must not be mistaken for it.

A kernel reads INPUTS words per lane, makes accumulators, sends them through steps that treat the four words of a tile
alike or not quite, requantises them to fragments, multiplies again, and stores what came out and much of what came
between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zluda_rr.ptx import Address, Immediate, Negated, Operand, Pair, Register, Symbol, Vector

from .builder import Builder

MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
INPUTS = 16
OUTPUTS = 48
MIX = "_Z3mixj"
"""A device function whose result differs from lane to lane; MIX_EVEN's argument decides alone."""
MIX_EVEN = "_Z4evenj"
PARAMETERS = (("u64", "0"), ("u64", "1"), ("u32", "2"))
HEADER = ".version 9.0\n.target sm_89\n.address_size 64\n"
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
Four = list[Register]
HALVES = [0x3C003C00, 0xB8003800, 0x2E003C00, 0xBC004000, 0x40003400]


@dataclass
class Kernel:
    """One kernel in the making: what can be read, and what it has used so far."""

    builder: Builder
    chance: random.Random
    name: str
    lanes: list[Register] = field(default_factory=list)
    uniform: list[Register] = field(default_factory=list)
    predicates: list[Register] = field(default_factory=list)
    words: list[Register] = field(default_factory=list)
    fragments: list[Register] = field(default_factory=list)
    results: list[Register] = field(default_factory=list)
    inputs: Register = Register("")
    outputs: Register = Register("")
    stored: int = 0
    features: set[str] = field(default_factory=set)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def used(self, feature: str) -> None:
        self.features.add(feature)

    def store(self, value: Operand, guard: Register | Negated | None = None) -> None:
        if self.stored < OUTPUTS:
            self.builder.put("st.global.u32", Address(self.outputs, 4 * self.stored), value, guard=guard)
            self.stored += 1


# --------------------------------------------------------------------------------------------------------------- start


def prologue(k: Kernel) -> None:
    """Addresses, loads, uniform values."""
    b = k.builder
    source, target = b.register("b64"), b.register("b64")
    b.put("ld.param.u64", source, Address(Symbol(f"{k.name}_param_0"), 0))
    b.put("ld.param.u64", target, Address(Symbol(f"{k.name}_param_1"), 0))
    source, target = (b.set("cvta.to.global.u64", r, kind="b64") for r in (source, target))
    tid, cta = b.set("mov.u32", Register("%tid.x")), b.set("mov.u32", Register("%ctaid.x"))
    index = b.set("mad.lo.s32", cta, 32, tid)
    k.inputs = b.set("add.s64", source, b.set("mul.wide.u32", index, 4 * INPUTS, kind="b64"), kind="b64")
    k.outputs = b.set("add.s64", target, b.set("mul.wide.u32", index, 4 * OUTPUTS, kind="b64"), kind="b64")
    for first in range(0, INPUTS, 4):
        four = [b.register() for _ in range(4)]
        if k.often(0.3):
            b.put("ld.global.v4.u32", Vector(tuple(four)), Address(k.inputs, 4 * first))
        else:
            for i, register in enumerate(four):
                b.put("ld.global.u32", register, Address(k.inputs, 4 * (first + i)))
        k.lanes += four
    if k.often(0.3):  # a weight image: 16 bytes a lane, the same for all blocks
        lane = b.set("mov.u32", Register("%laneid"))
        place = b.set("add.s64", source, b.set("mul.wide.u32", lane, 16, kind="b64"), kind="b64")
        if k.often(0.2):  # and an offset that nobody knows
            k.used("weight image somewhere")
            more = b.set("and.b32", k.lanes[15], 48)
            place = b.set("add.s64", place, b.set("mul.wide.u32", more, 1, kind="b64"), kind="b64")
        four = [b.register() for _ in range(4)]
        opcode = k.chance.choice(("ld.global.v4.u32",) * 3 + ("ld.global.nc.v4.u32", "ld.volatile.global.v4.u32"))
        b.put(opcode, Vector(tuple(four)), Address(place, 512 * k.chance.randrange(2)))
        k.lanes[4:8] = four
        k.used("weight image")
    k.uniform = [b.set("ld.param.u32", Address(Symbol(f"{k.name}_param_2"), 0)), cta]
    k.uniform += [b.set("mov.u32", k.chance.choice(HALVES)) for _ in range(2)]
    k.predicates = [b.set("setp.eq.u32", cta, 0, kind="pred"), b.set("setp.lt.u32", k.lanes[12], k.lanes[13], kind="pred")]


# ------------------------------------------------------------------------------------------- second operands of a step

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


# ----------------------------------------------------------------------------------------------------------- the steps


def step(k: Kernel, words: Four) -> Four:
    """One step on four words; sometimes one of them gets another."""
    kind = k.chance.choices(
        (binary, fused_multiply, unary, shuffle, halves, flagged, around, predicated, wide, triple, reused, scoped),
        (8, 3, 2, 3, 2, 2, 1, 1, 1, 2, 1, 1),
    )[0]
    if k.often(0.12):
        k.used("one word apart")
        other = k.chance.choice((binary, unary, halves))
        whole, odd = kind(k, words), other(k, words)
        at = k.chance.randrange(4)
        return [odd[i] if i == at else word for i, word in enumerate(whole)]
    return kind(k, words)


def _order(k: Kernel) -> list[int]:
    order = list(range(4))
    if k.often(0.3):
        k.chance.shuffle(order)
    return order


def binary(k: Kernel, words: Four) -> Four:
    opcode = k.chance.choice(("add.f16x2", "mul.f16x2", "min.f16x2", "max.f16x2", "sub.f16x2", "and.b32", "xor.b32"))
    partners = k.chance.choice(PARTNERS)(k)
    out: dict[int, Register] = {}
    for i in _order(k):
        operands = [words[i], partners[i]]
        if k.often(0.25):
            k.used("swapped")
            operands.reverse()
        out[i] = k.builder.set(opcode, *operands)
    return [out[i] for i in range(4)]


def fused_multiply(k: Kernel, words: Four) -> Four:
    first, second = (k.chance.choice(PARTNERS)(k) for _ in range(2))
    if k.often(0.3):
        second = [first[0], first[2], second[0], second[1]] if k.often(0.5) else first
    opcode = k.chance.choice(("fma.rn.f16x2", "fma.rn.relu.f16x2", "mad.lo.s32"))
    out: dict[int, Register] = {}
    for i in _order(k):
        multiplied: list[Operand] = [words[i], first[i]]
        if k.often(0.25):
            multiplied.reverse()
        out[i] = k.builder.set(opcode, *multiplied, second[i])
    return [out[i] for i in range(4)]


def unary(k: Kernel, words: Four) -> Four:
    opcode, *rest = k.chance.choice((("neg.f16x2",), ("abs.f16x2",), ("not.b32",), ("mov.b32",), ("shl.b32", 1)))
    return [k.builder.set(str(opcode), word, *[int(r) for r in rest]) for word in words]


def triple(k: Kernel, words: Four) -> Four:
    """prmt, lop3, bfi with constants that are the same or nearly so."""
    first, second = k.chance.choice(PARTNERS)(k), k.chance.choice((one_for_all, per_lane))(k)
    table = [k.chance.choice((0x96, 0xE8))] * 4
    if k.often(0.2):
        table[k.chance.randrange(4)] = 0x1E
    kind = k.chance.randrange(3)
    if kind == 0:
        return [k.builder.set("lop3.b32", w, first[i], second[i], table[i]) for i, w in enumerate(words)]
    if kind == 1:
        return [k.builder.set("prmt.b32", w, first[i], 0x5410 if table[i] == 0x96 else 0x7632) for i, w in enumerate(words)]
    return [k.builder.set("bfi.b32", w, first[i], 4, 8 if table[i] != 0x1E else 7) for i, w in enumerate(words)]


def shuffle(k: Kernel, words: Four) -> Four:
    k.used("shuffle")
    distance = k.chance.choice((1, 1, 2, 2, 4))
    moved = []
    read = k.often(0.15)
    for word in words:
        target = k.builder.register()
        p = k.builder.register("pred") if read or k.often(0.2) else None
        result = target if p is None else Pair(target, p)
        k.builder.put("shfl.sync.bfly.b32", result, word, distance, 31, -1)
        if read and p is not None:
            k.store(k.builder.set("selp.b32", 1, 0, Negated(p) if k.often(0.5) else p))
        moved.append(target)
    if k.often(0.2):
        return moved
    return [k.builder.set("add.f16x2", word, other) for word, other in zip(words, moved, strict=True)]


def halves(k: Kernel, words: Four) -> Four:
    """Taken apart, multiplied and joined; in the joined word the halves may have changed places."""
    k.used("halves")
    b, out = k.builder, []
    crossed = k.often(0.2)
    factor = k.chance.choice((None, None, *k.chance.choice((by_row, per_lane_by_row))(k)[:2]))
    for word in words:
        low, high = b.register("b16"), b.register("b16")
        b.put("mov.b32", Vector((low, high)), word)
        if factor is None:
            products = [b.set("mul.f16", half, half, kind="b16") for half in (low, high)]
        else:
            other_low, other_high = b.register("b16"), b.register("b16")
            b.put("mov.b32", Vector((other_low, other_high)), factor)
            products = [
                b.set("mul.f16", a, c, kind="b16") for a, c in ((low, other_low), (high, other_high if k.often(0.8) else other_low))
            ]
        if crossed:
            products.reverse()
        out.append(b.set("mov.b32", Vector(tuple(products))))
    return out


def flagged(k: Kernel, words: Four) -> Four:
    """An addition with carry-out; the carry goes into a stored word or into the words' own upper parts."""
    k.used("flagged")
    b, out = k.builder, []
    addend = k.chance.choice((one_for_all, per_lane, by_row))(k)
    late: list[Register] = []
    for i, word in enumerate(words):
        opcode = k.chance.choice(("add.cc.u32",) * 3 + ("sub.cc.u32",))
        out.append(b.set(opcode, word, addend[i]))
        if k.often(0.5):
            between = b.set("mul.f16x2", word, k.uniform[2])
            late.append(between)
        carry = b.set("addc.u32" if opcode.startswith("add") else "subc.u32", k.chance.choice((word, k.lanes[15])), 0)
        late.append(carry)
    for register in k.chance.sample(late, min(2, len(late))):
        k.store(register)
    return out


def around(k: Kernel, words: Four) -> Four:
    """The step is jumped over by some lanes, or by none, or by all."""
    k.used("branch")
    b = k.builder
    label, p = b.label(), k.chance.choice(k.predicates)
    out = [b.set("mov.b32", k.chance.choice((word, k.lanes[12]))) for word in words]
    b.put("bra", Symbol(label), guard=Negated(p) if k.often(0.5) else p)
    for target, word in zip(out, words, strict=True):
        b.put("add.f16x2", target, word, word)
    b.place(label)
    return out


def predicated(k: Kernel, words: Four) -> Four:
    k.used("predicated")
    b, p = k.builder, k.chance.choice(k.predicates)
    out = [b.set("mov.b32", word) for word in words]
    for i in k.chance.sample(range(4), k.chance.choice((1, 4))):
        b.put("add.f16x2", out[i], words[i], k.uniform[2], guard=Negated(p) if k.often(0.5) else p)
    return out


def reused(k: Kernel, words: Four) -> Four:
    """One register for all four words on their way, and for something else behind them."""
    k.used("register written again")
    b = k.builder
    way, partner = b.register(), k.chance.choice((one_for_all, by_row))(k)
    out = []
    for i, word in enumerate(words):
        b.put("mul.f16x2", way, word, partner[i])
        if k.often(0.2):
            k.store(way)
        out.append(b.set("add.f16x2", way, way if k.often(0.7) else word))
    if k.often(0.5):
        b.put("mov.b32", way, k.lanes[12])
        k.store(way)
    return out


def scoped(k: Kernel, words: Four) -> Four:
    """The way inside a scope, whose registers may bear the names of others."""
    k.used("scope")
    b = k.builder
    out = b.outer_registers("b32", 4)
    partner = k.chance.choice((one_for_all, by_row))(k)
    hide = k.often(0.5)
    for i, word in enumerate(words):
        hidden = [r for r in (words[(i + 1) % 4],) if hide and r != word and r != partner[i]]
        with b.scope(hidden):
            way = hidden[0] if hidden else b.register()
            b.put("mul.f16x2", way, word, partner[i])
            b.put("max.f16x2", out[i], way, word)
    return out


def wide(k: Kernel, words: Four) -> Four:
    """Through 64 bits, and by predicates: comparisons of words that select among them."""
    k.used("wide")
    b = k.builder
    if k.often(0.5):
        partner = k.chance.choice((one_for_all, by_row))(k)
        found = [b.set("setp.gt.u32", word, partner[i], kind="pred") for i, word in enumerate(words)]
        if k.often(0.3):
            found[1] = b.set("setp.gt.and.u32", words[1], partner[1], Negated(found[1]), kind="pred")
        return [b.set("selp.b32", w, k.uniform[2], p) for w, p in zip(words, found, strict=True)]
    products = [b.set("mul.wide.u32", word, 3, kind="b64") for word in words]
    return [b.set("cvt.u32.u64", product) for product in products]


# -------------------------------------------------------------------------------------------------- products and others


def product(
    k: Kernel, a: Sequence[Operand], b: Sequence[Operand], c: Sequence[Operand], targets: Sequence[Register] = ()
) -> Four:
    """Two mma that share A; b are (b0, b1) of both n-tiles, c the four seeds."""
    targets = list(targets) or [k.builder.register() for _ in range(4)]
    pairs = [(targets[:2], b[:2], c[:2]), (targets[2:], b[2:], c[2:])]
    if k.often(0.15):
        pairs.reverse()
    for position, (target, columns, seeds) in enumerate(pairs):
        k.builder.put(MMA, Vector(tuple(target)), Vector(tuple(a)), Vector(tuple(columns)), Vector(tuple(seeds)))
        if position == 0 and k.often(0.1):
            outsider(k, targets[:1] if pairs[0][0] is targets[:2] else [k.lanes[9]])
    k.words += targets
    return targets


def fragment(k: Kernel, words: Four) -> tuple[Register, Register]:
    """The words requantised: (row half 0, row half 1), both n-tiles side by side; sometimes not quite so."""
    b = k.builder
    variants = [k.chance.choice(("", ".relu"))] * 4
    if k.often(0.12):
        variants[k.chance.randrange(4)] = ".relu"
    places = [(0, 2), (1, 3)]
    if k.often(0.12):
        places = k.chance.choice(([(0, 1), (2, 3)], [(0, 2), (3, 1)], [(0, 0), (1, 1)], [(1, 3), (0, 2)]))
    out = b.outer_registers("b32", 2)
    if k.often(0.5):
        for target, place in zip(out, places, strict=True):
            with b.scope():
                converted = [_convert(k, words[i], variants[i]) for i in place]
                b.put("mov.b32", target, Vector(tuple(converted)))
    else:
        codes = [_convert(k, word, variant) for word, variant in zip(words, variants, strict=True)]
        for target, (i, j) in zip(out, places, strict=True):
            b.put("mov.b32", target, Vector((codes[i], codes[j])))
    k.fragments += out
    return out[0], out[1]


def _convert(k: Kernel, word: Register, variant: str) -> Register:
    return k.builder.set(f"cvt.rn.satfinite{variant}.e4m3x2.f16x2", word, kind="b16")


def operands(k: Kernel, u: tuple[Register, Register]) -> tuple[list[Operand], list[Operand], list[Operand]]:
    """A, B and C of a product that eats a fragment: as real kernels do, or anything in any place."""
    lanes = k.lanes
    a: list[Operand] = [u[0], u[1], u[0], u[1]]
    b: list[Operand] = [lanes[4], lanes[5], lanes[6], lanes[7]]
    c: list[Operand] = k.chance.choice(([*lanes[8:12]], [k.uniform[3]] * 4, [number_to_register(k)] * 4))
    if k.often(0.3):
        c = list(k.chance.sample(k.words[-8:], 4)) if k.often(0.4) else list(k.words[-4:])
        k.used("residual")
    if k.often(0.2):
        a, b = list(lanes[0:4]), [u[0], u[0], u[1], u[1]]
        k.used("fragment as B")
    if k.often(0.35):
        k.used("shared")
        pool = [*k.fragments[-4:], *k.fragments[-2:], *k.words[-4:], *lanes[0:8]]
        for operand in k.chance.sample((a, b, b, c), 2):
            for i in k.chance.sample(range(4), k.chance.choice((1, 2, 4))):
                operand[i] = k.chance.choice(pool)
    return a, b, c


def number_to_register(k: Kernel) -> Register:
    return k.builder.set("mov.u32", 0)


def transposed(k: Kernel, words: Four) -> Four:
    k.used("transposed")
    return [k.builder.set("movmatrix.sync.aligned.m8n8.trans.b16", word) for word in words]


def outsider(k: Kernel, words: Sequence[Register]) -> None:
    """Other code that reads words: stores, guarded ones, carries, calls, shuffles."""
    b, word = k.builder, k.chance.choice(words)
    kind = k.chance.randrange(6)
    if kind == 0:
        k.store(word)
    elif kind == 1:
        p = k.chance.choice(k.predicates)
        k.store(b.set("xor.b32", word, k.lanes[14]), guard=Negated(p) if k.often(0.5) else p)
    elif kind == 2:
        k.used("flagged")
        b.set("add.cc.u32", word, k.lanes[13])
        k.store(b.set("addc.u32", k.chance.choice(words), 0))
    elif kind == 3:
        k.used("called")
        k.store(b.call(MIX, [word]))
    elif kind == 4:
        k.store(b.set("shfl.sync.down.b32", word, 1, 31, -1))
    else:
        label, p = b.label(), k.chance.choice(k.predicates)
        b.put("bra", Symbol(label), guard=p)
        k.store(b.set("add.u32", word, 1))
        b.place(label)


def chain(k: Kernel, words: Four) -> Four:
    """Steps, requantisation, product."""
    for _ in range(k.chance.choice((0, 1, 1, 2, 3))):
        words = step(k, words)
        k.words += words
        if k.often(0.2):
            outsider(k, words)
        if k.often(0.05):
            label = k.builder.label()
            k.builder.put("bra.uni", Symbol(label))
            k.builder.place(label)
    if k.often(0.1):
        words = transposed(k, words)
    u = fragment(k, words)
    k.results += product(k, *operands(k, u))
    return k.results[-4:]


def looped(k: Kernel, words: Four) -> Four:
    """A chain in a loop whose accumulators are carried from turn to turn."""
    k.used("loop")
    b = k.builder
    carried = [b.set("mov.b32", k.chance.choice((word, k.lanes[8 + i]))) for i, word in enumerate(words)]
    count = b.set("mov.u32", 0)
    label, p = b.label(), b.register("pred")
    b.place(label)
    before = len(k.words), len(k.fragments)
    again, targets = b.register("pred"), [b.register() for _ in range(4)]
    if k.often(0.4):  # what the turn before left, read in front of the only instruction that writes it
        k.used("late definition")
        b.put("setp.ne.u32", again, count, 0)
        late = list(targets) if k.often(0.5) else [b.set("add.f16x2", t, k.uniform[2]) for t in targets]
        for register in k.chance.sample(late, 2):
            k.store(register, guard=again)
    eaten = carried if k.often(0.5) else words
    u = fragment(k, step(k, eaten))
    a, columns, seeds = operands(k, u)
    out = product(k, a, columns, list(carried) if k.often(0.6) else seeds, targets)
    order = list(range(4))
    if k.often(0.2):
        k.chance.shuffle(order)
    for i in order:
        b.put("mov.b32", carried[i], out[i])
    b.put("add.s32", count, count, 1)
    b.put("setp.lt.u32", p, count, 2)
    b.put("bra", Symbol(label), guard=p)
    del k.words[before[0] :], k.fragments[before[1] :]
    k.results += carried
    return carried


def build(seed: int, index: int, name: str) -> Kernel:
    """A random kernel; the same for the same seed and name."""
    k = Kernel(Builder(index), random.Random(f"{seed} {index}"), name)
    prologue(k)
    zero = number_to_register(k)
    c = [zero] * 4 if k.often(0.7) else list(k.lanes[8:12])
    words = product(k, k.lanes[0:4], k.lanes[4:8], list(c))
    if k.often(0.15):  # a second k step
        words = product(k, [k.lanes[i] for i in (1, 0, 3, 2)], [k.lanes[i] for i in (5, 4, 7, 6)], list(words))
    if k.often(0.1):
        words = transposed(k, words)
    for _ in range(k.chance.choice((1, 1, 1, 2))):
        words = looped(k, words) if k.often(0.15) else chain(k, words)
    for value in k.results[-8:]:
        k.store(value)
    return k


@dataclass(frozen=True)
class Module:
    """Text of a module, its entries, and the features in it."""

    text: str
    entries: tuple[str, ...]
    features: frozenset[str]


def random_module(seed: int) -> Module:
    """One to three kernels; where there are several, one's name begins another's."""
    chance = random.Random(seed)
    names = chance.choice((("probe",),) * 6 + (("probe$1", "probe"), ("probe", "probe_1", "probe$1")))
    kernels = [build(seed, index, name) for index, name in enumerate(names)]
    features = {feature for kernel in kernels for feature in kernel.features}
    text = [HEADER]
    if "called" in features:
        text.append(FUNCTIONS)
    if chance.random() < 0.2:
        text.append(f"// .entry {names[-1]}(\n")
        features.add("a comment with an entry")
    text += [kernel.builder.entry(kernel.name, PARAMETERS) for kernel in kernels]
    return Module("".join(text), names, frozenset(features | ({"several entries"} if len(names) > 1 else set())))
