"""Random kernels around products: the idioms of real kernels, and in each of them what must not be mistaken for it.

A kernel reads INPUTS words per lane, makes accumulators, sends them through steps that treat the four words of a tile
alike or not quite, requantises them to fragments, multiplies again, and stores what came out and much of what came
between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from zluda_rr.ptx import Negated, Operand, Register, Symbol, Vector

from .builder import Builder
from .kernel import OUTPUTS, Four, Kernel, prologue
from .partners import FUNCTIONS, MIX, MIX_EVEN
from .steps import step

MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
PARAMETERS = (("u64", "0"), ("u64", "1"), ("u32", "2"))
HEADER = ".version 9.0\n.target sm_89\n.address_size 64\n"
__all__ = ["MIX", "MIX_EVEN", "OUTPUTS", "Module", "random_module"]


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


def conditional(k: Kernel, words: Four) -> Four:
    """A chain that only some blocks run."""
    k.used("conditional chain")
    b, label = k.builder, k.builder.label()
    before = len(k.words), len(k.fragments), len(k.results)
    b.put("bra", Symbol(label), guard=Negated(k.predicates[0]) if k.often(0.5) else k.predicates[0])
    for value in chain(k, words):
        k.store(value)
    del k.words[before[0] :], k.fragments[before[1] :], k.results[before[2] :]
    b.place(label)
    return words


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
        if k.often(0.1):
            conditional(k, words)
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
