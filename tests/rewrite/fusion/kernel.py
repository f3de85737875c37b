"""A random kernel in the making, and the start of every one: addresses, loads, uniform values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from zluda_rr.ptx import Address, Negated, Operand, Register, Symbol, Vector

from .builder import Builder

INPUTS = 16
"""Words per lane: A 0..3, B of two n-tiles 4..7, C 8..11, f16 pairs 8..15."""
OUTPUTS = 48
Four = list[Register]
NOWHERE = Register("")
HALVES = [0x3C003C00, 0xB8003800, 0x2E003C00, 0xBC004000, 0x40003400]
"""Pairs of f16 constants."""


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
    inputs: Register = NOWHERE
    outputs: Register = NOWHERE
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
    k.predicates = [
        b.set("setp.eq.u32", cta, 0, kind="pred"),
        b.set("setp.lt.u32", k.lanes[12], k.lanes[13], kind="pred"),
    ]
