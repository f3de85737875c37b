"""Random small programs with their own control-flow model, for brute-force comparison."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.ptx.modules import entry
from zluda_rr.ptx import Body, linearise, parse

REGISTERS = tuple(f"%r{i}" for i in range(4))


@dataclass(frozen=True)
class Op:
    """One statement. `target` is an op index to branch to; falls: control may go on to the next statement."""

    text: str
    certain: frozenset[str] = frozenset()  # registers certainly written
    possible: frozenset[str] = frozenset()  # registers certainly or perhaps written
    reads: frozenset[str] = frozenset()
    target: int | None = None
    falls: bool = True


@dataclass(frozen=True)
class Program:
    """Statements s1… (labels included) and their successors, as the model sees them; 0 stands for leaving."""

    body: Body
    ops: tuple[Op, ...]
    successors: tuple[tuple[int, ...], ...]

    def after(self, number: int) -> tuple[int, ...]:
        return self.successors[number - 1]

    def numbers(self) -> range:
        return range(1, len(self.ops) + 1)


def _op(kind: str, d: str, a: str, b: str, target: int) -> Op:
    reads, writes, p = frozenset((a, b)), frozenset((d,)), frozenset(("%p1",))
    return {
        "move": Op(f"mov.u32 {d}, 7;", writes, writes),
        "add": Op(f"add.s32 {d}, {a}, {b};", writes, writes, reads),
        "pair": Op(f"mov.b64 {{{d}, {a}}}, %rd1;", writes | {a}, writes | {a}, frozenset(("%rd1",))),
        "guarded": Op(f"@%p1 add.s32 {d}, {a}, {b};", frozenset(), writes, reads | p),
        "unknown": Op(f"frobnicate.b32 {d}, {a};", frozenset(), writes | {a}, writes | {a}),
        "store": Op(f"st.shared.u32 [{a}], {b};", reads=reads),
        "branch": Op("bra {label};", target=target, falls=False),
        "maybe": Op("@!%p1 bra {label};", reads=p, target=target),
        "return": Op("ret;", falls=False),
        "perhaps": Op("@%p1 ret;", reads=p, target=-1),
    }[kind]


KINDS = ("move", "add", "add", "pair", "guarded", "unknown", "store", "branch", "maybe", "maybe", "return", "perhaps")


@st.composite
def programs(draw: st.DrawFn, *, max_size: int = 14) -> Program:
    size = draw(st.integers(1, max_size))
    register = st.sampled_from(REGISTERS)
    drawn = [
        _op(
            draw(st.sampled_from(KINDS)), draw(register), draw(register), draw(register), draw(st.integers(0, size - 1))
        )
        for _ in range(size)
    ]
    return build(drawn)


def build(drawn: list[Op]) -> Program:
    """Put a label in front of every branch target and number everything."""
    targets = {op.target for op in drawn if op.target is not None and op.target >= 0}
    ops: list[Op] = []
    number_of: dict[int, int] = {}
    for index, op in enumerate(drawn):
        if index in targets:
            ops.append(Op(f"L{index}:"))
            number_of[index] = len(ops)
        ops.append(op)
    successors = []
    for position, op in enumerate(ops):
        following = [position + 2 if position + 1 < len(ops) else 0] if op.falls else []
        if op.target is not None:
            following.append(number_of.get(op.target, 0))
        elif not op.falls:
            following.append(0)
        successors.append(tuple(following))
    text = "\n".join(op.text.replace("{label}", f"L{op.target}") for op in ops)
    module = parse(entry(text))
    return Program(linearise(module.entries[0]), tuple(ops), tuple(successors))
