"""Pairs that one load gives every lane: read again at the addresses of WMMA order instead of exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from zluda_rr.ptx import Address, Register, Vector

from .fusion_view import KernelView
from .patterns import Value

_LANE_BYTES = 16  # the lane stride of the weight image and of the score bias (rr-details.md 16)
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Reload:
    """A pair of words of one load whose address grows by 16 bytes per lane.

    Value x of a lane in WMMA order is at the load's `base` register + the offset register of `step` (see `prelude`) +
    `offset` + 16 * x; `step` is the distance of the two words in bytes.
    """

    statement: int
    base: str
    offset: int
    step: int

    def lines(self, address: str, targets: tuple[str, str]) -> list[str]:
        """The two loads, behind the original one."""
        offsets = (self.offset, self.offset + _LANE_BYTES)
        loads = [f"ld.global.u32 {name}, [{address}+{at}];" for name, at in zip(targets, offsets, strict=True)]
        return [f"add.s64 {address}, {self.base}, {offset_register(self.step)};", *loads]


def reload_of(view: KernelView, pair: tuple[Value, Value]) -> Reload | None:
    """How to read a pair again; None where it does not come from one such load."""
    first, second = pair
    statement = view.statement(first.statement)
    plain = statement.opcode == "ld" and statement.guard is None and "global" in statement.modifiers
    if first.statement != second.statement or not plain or not view.is_together(first.statement):
        return None
    if not {"volatile", "relaxed", "acquire", "mmio"}.isdisjoint(statement.modifiers):
        return None
    target, address = statement.operands
    if not isinstance(target, Vector) or not isinstance(address, Address) or not isinstance(address.base, Register):
        return None
    names = [element.name if isinstance(element, Register) else "" for element in target.elements]
    if any(view.width(register) != 8 * _WORD_BYTES for register in (first.register, second.register)):
        return None
    access = view.values.access(statement)
    if access is None or not access.exact or access.offset.step() != _LANE_BYTES:
        return None
    low, high = (_WORD_BYTES * names.index(value.register) for value in pair)
    if view.width(address.base.name) != 64:
        return None
    base = view.scopes.written(first.statement, address.base.name)
    return None if base is None else Reload(first.statement, base, address.offset + low, high - low)


def offset_register(step: int) -> str:
    """Name of the b64 register that `prelude` sets for pairs whose words are `step` bytes apart."""
    return f"%zrr_o{step}" if step >= 0 else f"%zrr_om{-step}"


def prelude(steps: tuple[int, ...]) -> list[str]:
    """Declarations and statements for the start of the kernel.

    The offset is 16 * (lane that holds value 0 - own lane), + step where the lane wants the second of the pair: lane
    b4 b3 b2 b1 b0 reads of lane b3 b2 b0 b4 x (kernels/fragment_consumer.hip). It is written as a sum from which the
    compiler can cancel the address's own 16 * lane.
    """
    if not steps:
        return []
    names = ", ".join(offset_register(step) for step in steps)
    lines = [
        f".reg .b64 {names}, %zrr_own;",
        ".reg .b32 %zrr_lane, %zrr_from, %zrr_bit;",
        "mov.u32 %zrr_lane, %laneid;",
        "mul.wide.u32 %zrr_own, %zrr_lane, 16;",
        "and.b32 %zrr_from, %zrr_lane, 12;",
        "shl.b32 %zrr_from, %zrr_from, 5;",  # b3 b2 to bits 4 and 3, times 16
        "and.b32 %zrr_bit, %zrr_lane, 1;",
        "shl.b32 %zrr_bit, %zrr_bit, 6;",
        "or.b32 %zrr_from, %zrr_from, %zrr_bit;",
        "and.b32 %zrr_bit, %zrr_lane, 16;",
        "shl.b32 %zrr_bit, %zrr_bit, 1;",
        "or.b32 %zrr_from, %zrr_from, %zrr_bit;",
    ]
    for step in steps:
        register = offset_register(step)
        lines += [
            "shr.u32 %zrr_bit, %zrr_lane, 1;",
            "and.b32 %zrr_bit, %zrr_bit, 1;",
            f"mad.lo.s32 %zrr_bit, %zrr_bit, {step}, %zrr_from;",
            f"cvt.s64.s32 {register}, %zrr_bit;",
            f"sub.s64 {register}, {register}, %zrr_own;",
        ]
    return [f"\t{line}" for line in lines]
