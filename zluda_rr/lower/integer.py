"""Integer, bit and predicate instructions."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import BITS, INTEGERS, is_signed, width
from zluda_rr.ptx import Immediate, Statement

_WIDE = ("u16", "s16", "u32", "s32")
_LOGIC = ("pred", *BITS)


def arithmetic(e: Emitter, s: Statement) -> None:
    """add, sub, and of s32 their .sat forms."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, INTEGERS)
    sat = mods.flag("sat")
    e.finish(s, mods)
    if sat and kind != "s32":
        raise e.refuse(s, f".sat of .{kind}")
    target, left, right = s.operands
    a, b, bits = e.value(left, kind), e.value(right, kind), f"i{width(kind)}"
    if sat:
        e.set(target, e.call("i32", f"llvm.s{s.opcode}.sat.i32", ("i32", a), ("i32", b)), kind)
    else:
        e.set(target, e.op(f"{s.opcode} {bits} {a}, {b}"), kind)


def logic(e: Emitter, s: Statement) -> None:
    """and, or, xor, not, cnot."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, BITS if s.opcode == "cnot" else _LOGIC)
    e.finish(s, mods)
    bits = f"i{width(kind)}"
    target, *sources = s.operands
    values = [e.value(source, kind) for source in sources]
    if s.opcode == "cnot":
        zero = e.op(f"icmp eq {bits} {values[0]}, 0")
        e.set(target, e.op(f"zext i1 {zero} to {bits}"), kind)
    elif s.opcode == "not":
        e.set(target, e.op(f"xor {bits} {values[0]}, {'true' if bits == 'i1' else -1}"), kind)
    else:
        e.set(target, e.op(f"{s.opcode} {bits} {values[0]}, {values[1]}"), kind)


def divide(e: Emitter, s: Statement) -> None:
    """div, rem. PTX leaves division by zero open: all ones, as NVIDIA's GPUs give. The least number by -1 wraps."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, INTEGERS)
    e.finish(s, mods)
    bits, sign = f"i{width(kind)}", "s" if is_signed(kind) else "u"
    target, left, right = s.operands
    a, b = e.value(left, kind), e.value(right, kind)
    zero = e.op(f"icmp eq {bits} {b}, 0")
    # LLVM's division is undefined there: divide by one instead. For -1, x / -1 = -x and the rest is 0.
    divisor = e.op(f"select i1 {zero}, {bits} 1, {bits} {b}")
    special = "0"
    if sign == "s":
        minus = e.op(f"icmp eq {bits} {b}, -1")
        divisor = e.op(f"select i1 {minus}, {bits} 1, {bits} {divisor}")
        special = e.op(f"sub {bits} 0, {a}") if s.opcode == "div" else "0"
    result = e.op(f"{sign}{s.opcode} {bits} {a}, {divisor}")
    if sign == "s":
        result = e.op(f"select i1 {minus}, {bits} {special}, {bits} {result}")
    e.set(target, e.op(f"select i1 {zero}, {bits} -1, {bits} {result}"), kind)


def minmax(e: Emitter, s: Statement) -> None:
    """min, max of integers."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, INTEGERS)
    e.finish(s, mods)
    target, left, right = s.operands
    name = f"llvm.{'s' if is_signed(kind) else 'u'}{s.opcode}.i{width(kind)}"
    bits = f"i{width(kind)}"
    e.set(target, e.call(bits, name, (bits, e.value(left, kind)), (bits, e.value(right, kind))), kind)


def multiply(e: Emitter, s: Statement) -> None:
    """mul and mad: .lo, .hi, .wide."""
    mods = e.modifiers(s)
    part = mods.take("lo", "hi", "wide")
    kind = e.kind(s, mods, _WIDE if part == "wide" else INTEGERS)
    e.finish(s, mods)
    bits, signed = width(kind), is_signed(kind)
    target, left, right, *addend = s.operands
    a, b = e.value(left, kind), e.value(right, kind)
    if part == "lo":
        product, result = e.op(f"mul i{bits} {a}, {b}"), kind
    else:
        wide = [e.resize(value, bits, 2 * bits, signed=signed) for value in (a, b)]
        product, result = e.op(f"mul i{2 * bits} {wide[0]}, {wide[1]}"), f"{kind[0]}{2 * bits}"
        if part == "hi":
            high = e.op(f"lshr i{2 * bits} {product}, {bits}")
            product, result = e.op(f"trunc i{2 * bits} {high} to i{bits}"), kind
    if addend:
        product = e.op(f"add i{width(result)} {product}, {e.value(addend[0], result)}")
    e.set(target, product, result)


def unary(e: Emitter, s: Statement) -> None:
    """neg, abs, brev."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("b32", "b64") if s.opcode == "brev" else ("s16", "s32", "s64"))
    e.finish(s, mods)
    bits = f"i{width(kind)}"
    target, source = s.operands
    value = e.value(source, kind)
    if s.opcode == "neg":
        e.set(target, e.op(f"sub {bits} 0, {value}"), kind)
    elif s.opcode == "abs":
        e.set(target, e.call(bits, f"llvm.abs.{bits}", (bits, value), ("i1", "false")), kind)
    else:
        e.set(target, e.call(bits, f"llvm.bitreverse.{bits}", (bits, value)), kind)


def count(e: Emitter, s: Statement) -> None:
    """popc, clz, bfind: the result is u32."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("u32", "s32", "u64", "s64") if s.opcode == "bfind" else ("b32", "b64"))
    shiftamt = s.opcode == "bfind" and mods.flag("shiftamt")
    e.finish(s, mods)
    bits = f"i{width(kind)}"
    target, source = s.operands
    value = e.value(source, kind)
    if is_signed(kind):  # the highest bit that differs from the sign
        value = e.op(f"xor {bits} {value}, {e.op(f'ashr {bits} {value}, {width(kind) - 1}')}")
    if s.opcode == "popc":
        number = e.call(bits, f"llvm.ctpop.{bits}", (bits, value))
    else:
        number = e.call(bits, f"llvm.ctlz.{bits}", (bits, value), ("i1", "false"))
    if s.opcode == "bfind":
        number = number if shiftamt else e.op(f"sub {bits} {width(kind) - 1}, {number}")
        number = e.op(f"select i1 {e.op(f'icmp eq {bits} {value}, 0')}, {bits} -1, {bits} {number}")
    e.set(target, e.resize(number, width(kind), 32), "u32")


def shift(e: Emitter, s: Statement) -> None:
    """shl, shr: an amount of the width or more gives 0, or the sign for shr.s; the amount is a 32-bit value."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, BITS if s.opcode == "shl" else (*BITS, *INTEGERS))
    e.finish(s, mods)
    bits = width(kind)
    target, source, amount = s.operands
    name = "shl" if s.opcode == "shl" else "ashr" if is_signed(kind) else "lshr"
    value, distance = e.value(source, kind), e.integer(amount, 32)
    if isinstance(amount, Immediate) and 0 <= amount.value < bits:
        e.set(target, e.op(f"{name} i{bits} {value}, {distance}"), kind)
        return
    if name == "ashr":
        distance = e.call("i32", "llvm.umin.i32", ("i32", distance), ("i32", str(bits - 1)))
    within = e.op(f"icmp ult i32 {distance}, {bits}")
    shifted = e.op(f"{name} i{bits} {value}, {e.resize(distance, 32, bits)}")
    e.set(target, e.op(f"select i1 {within}, i{bits} {shifted}, i{bits} 0"), kind)


def funnel(e: Emitter, s: Statement) -> None:
    """shf.l / shf.r with .wrap (amount modulo 32) or .clamp (at most 32)."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("b32",))
    direction, mode = mods.take("l", "r"), mods.take("wrap", "clamp")
    e.finish(s, mods)
    target, low, high, amount = s.operands
    wide = [e.resize(e.value(word, kind), 32, 64) for word in (low, high)]
    both = e.op(f"or i64 {wide[0]}, {e.op(f'shl i64 {wide[1]}, 32')}")
    distance = e.integer(amount, 32)
    if mode == "wrap":
        distance = e.op(f"and i32 {distance}, 31")
    else:
        distance = e.call("i32", "llvm.umin.i32", ("i32", distance), ("i32", "32"))
    distance = e.resize(distance, 32, 64)
    moved = e.op(f"{'shl' if direction == 'l' else 'lshr'} i64 {both}, {distance}")
    if direction == "l":
        moved = e.op(f"lshr i64 {moved}, 32")
    e.set(target, e.resize(moved, 64, 32), kind)


def runtime_bits(e: Emitter, s: Statement) -> None:
    """bfe, bfi, prmt through kernels/ptx_runtime.hip; constants fold after inlining."""
    mods = e.modifiers(s)
    allowed = {"bfe": ("u32", "s32", "u64", "s64"), "bfi": ("b32", "b64"), "prmt": ("b32",)}[s.opcode]
    kind = e.kind(s, mods, allowed)
    e.finish(s, mods)
    target, *sources = s.operands
    fields = {"bfe": 1, "bfi": 2, "prmt": 3}[s.opcode]
    arguments = [(f"i{width(kind)}", e.integer(source, width(kind))) for source in sources[:fields]]
    arguments += [("i32", e.integer(source, 32)) for source in sources[fields:]]
    e.set(target, e.call(f"i{width(kind)}", f"zrt_{s.opcode}_{kind}", *arguments), kind)


def logic3(e: Emitter, s: Statement) -> None:
    """lop3: the function given by its truth table, as a sum of products."""
    mods = e.modifiers(s)
    kind = e.kind(s, mods, ("b32",))
    e.finish(s, mods)
    target, *sources, table = s.operands
    if not isinstance(table, Immediate):
        raise e.refuse(s, "table must be a constant")
    plain = [e.value(source, kind) for source in sources]
    inverse = [e.op(f"xor i32 {value}, -1") for value in plain]
    total = "0"
    for row in range(8):
        if table.value >> row & 1:
            picked = [plain[i] if row >> (2 - i) & 1 else inverse[i] for i in range(3)]
            term = e.op(f"and i32 {e.op(f'and i32 {picked[0]}, {picked[1]}')}, {picked[2]}")
            total = e.op(f"or i32 {total}, {term}")
    e.set(target, total, kind)


HANDLERS: Mapping[str, Handler] = {
    "and": logic,
    "or": logic,
    "xor": logic,
    "not": logic,
    "cnot": logic,
    "popc": count,
    "clz": count,
    "bfind": count,
    "brev": unary,
    "shl": shift,
    "shr": shift,
    "shf": funnel,
    "bfe": runtime_bits,
    "bfi": runtime_bits,
    "prmt": runtime_bits,
    "lop3": logic3,
}
INTEGER_HANDLERS: Mapping[str, Handler] = {
    "add": arithmetic,
    "sub": arithmetic,
    "div": divide,
    "rem": divide,
    "mul": multiply,
    "mad": multiply,
    "min": minmax,
    "max": minmax,
    "neg": unary,
    "abs": unary,
}
