"""Steps on the four words of a tile: the same for all, or not quite."""

from __future__ import annotations

from zluda_rr.ptx import Negated, Operand, Pair, Register, Symbol, Vector

from .kernel import Four, Kernel
from .partners import PARTNERS, by_row, one_for_all, per_lane, per_lane_by_row


def step(k: Kernel, words: Four) -> Four:
    """One step on four words; sometimes one of them gets another."""
    kind = k.chance.choices(
        (
            binary,
            fused_multiply,
            unary,
            shuffle,
            halves,
            flagged,
            around,
            predicated,
            wide,
            triple,
            reused,
            scoped,
            single,
        ),
        (8, 3, 2, 3, 2, 2, 1, 1, 1, 2, 1, 1, 1),
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
        return [
            k.builder.set("prmt.b32", w, first[i], 0x5410 if table[i] == 0x96 else 0x7632) for i, w in enumerate(words)
        ]
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
            last = other_high if k.often(0.8) else other_low
            products = [b.set("mul.f16", x, y, kind="b16") for x, y in ((low, other_low), (high, last))]
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


def single(k: Kernel, words: Four) -> Four:
    """The halves as f32, scaled and rounded again; one of them may be read in between."""
    k.used("f32")
    b, out = k.builder, []
    partner = k.chance.choice((one_for_all, by_row, per_lane))(k)
    for i, word in enumerate(words):
        low, high = b.register("b16"), b.register("b16")
        b.put("mov.b32", Vector((low, high)), word)
        numbers = [b.set("cvt.f32.f16", half, kind="f32") for half in (low, high)]
        factor = b.set("mov.b32", partner[i], kind="f32")
        scaled = [b.set("fma.rn.f32", x, factor, numbers[0], kind="f32") for x in numbers]
        if k.often(0.15):
            k.store(scaled[1])
        rounded = [b.set("cvt.rn.f16.f32", x, kind="b16") for x in scaled]
        out.append(b.set("mov.b32", Vector(tuple(rounded))))
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
