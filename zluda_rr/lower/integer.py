"""Integer, bit and predicate instructions."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.scalar import is_signed, width
from zluda_rr.ptx import Immediate, Statement


def _simple(template: str) -> Handler:
    """Two-source instruction that is one LLVM instruction; `{u}` in the template becomes s or u by the type."""

    def handler(e: Emitter, s: Statement) -> None:
        mods = e.modifiers(s)
        (kind,) = mods.types()
        e.finish(s, mods)
        target, left, right = s.operands
        name = template.replace("{u}", "s" if is_signed(kind) else "u")
        e.set(target, e.op(f"{name} i{width(kind)} {e.value(left, kind)}, {e.value(right, kind)}"), kind)

    return handler


def minmax(e: Emitter, s: Statement) -> None:
    """min, max of integers."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    target, left, right = s.operands
    name = f"llvm.{'s' if is_signed(kind) else 'u'}{s.opcode}.i{width(kind)}"
    bits = f"i{width(kind)}"
    e.set(target, e.call(bits, name, (bits, e.value(left, kind)), (bits, e.value(right, kind))), kind)


def multiply(e: Emitter, s: Statement) -> None:
    """mul and mad: .lo, .hi, .wide."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    part = mods.take("lo", "hi", "wide")
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
    """neg, not, abs, popc, clz, brev of integers and predicates."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    bits = f"i{width(kind)}"
    target, source = s.operands
    value = e.value(source, kind)
    if s.opcode == "not":
        e.set(target, e.op(f"xor {bits} {value}, {'true' if bits == 'i1' else -1}"), kind)
    elif s.opcode == "neg":
        e.set(target, e.op(f"sub {bits} 0, {value}"), kind)
    elif s.opcode == "abs":
        e.set(target, e.call(bits, f"llvm.abs.{bits}", (bits, value), ("i1", "false")), kind)
    elif s.opcode == "brev":
        e.set(target, e.call(bits, f"llvm.bitreverse.{bits}", (bits, value)), kind)
    else:
        _count(e, s, value, kind)


def _count(e: Emitter, s: Statement, value: str, kind: str) -> None:
    bits = f"i{width(kind)}"
    if s.opcode == "popc":
        count = e.call(bits, f"llvm.ctpop.{bits}", (bits, value))
    else:
        count = e.call(bits, f"llvm.ctlz.{bits}", (bits, value), ("i1", "false"))
    e.set(s.operands[0], e.resize(count, width(kind), 32), "u32")


def shift(e: Emitter, s: Statement) -> None:
    """shl, shr: an amount of the width or more gives 0, or the sign for shr.s; the amount is a 32-bit value."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    bits = width(kind)
    target, source, amount = s.operands
    name = "shl" if s.opcode == "shl" else "ashr" if is_signed(kind) else "lshr"
    value, count = e.value(source, kind), e.integer(amount, 32)
    limit = bits - 1 if name == "ashr" else bits
    if isinstance(amount, Immediate) and amount.value < bits:
        e.set(target, e.op(f"{name} i{bits} {value}, {count}"), kind)
        return
    if name == "ashr":
        count = e.call("i32", "llvm.umin.i32", ("i32", count), ("i32", str(limit)))
    within = e.op(f"icmp ult i32 {count}, {bits}")
    shifted = e.op(f"{name} i{bits} {value}, {e.resize(count, 32, bits)}")
    e.set(target, e.op(f"select i1 {within}, i{bits} {shifted}, i{bits} 0"), kind)


def funnel(e: Emitter, s: Statement) -> None:
    """shf.l / shf.r with .wrap (amount modulo 32) or .clamp (at most 32)."""
    mods = e.modifiers(s)
    kind = mods.types()
    direction, mode = mods.take("l", "r"), mods.take("wrap", "clamp")
    e.finish(s, mods)
    target, low, high, amount = s.operands
    wide = [e.resize(e.value(word, kind[0]), 32, 64) for word in (low, high)]
    both = e.op(f"or i64 {wide[0]}, {e.op(f'shl i64 {wide[1]}, 32')}")
    count = e.integer(amount, 32)
    if mode == "wrap":
        count = e.op(f"and i32 {count}, 31")
    else:
        count = e.call("i32", "llvm.umin.i32", ("i32", count), ("i32", "32"))
    count = e.resize(count, 32, 64)
    moved = e.op(f"{'shl' if direction == 'l' else 'lshr'} i64 {both}, {count}")
    if direction == "l":
        moved = e.op(f"lshr i64 {moved}, 32")
    e.set(target, e.resize(moved, 64, 32), kind[0])


def runtime_bits(e: Emitter, s: Statement) -> None:
    """bfe, bfi, prmt through kernels/ptx_runtime.hip; constants fold after inlining."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
    e.finish(s, mods)
    if width(kind) != 32:
        raise e.refuse(s, "only 32 bits")
    name = f"zrt_{s.opcode}_{kind if s.opcode == 'bfe' else 'b32'}"
    target, *sources = s.operands
    e.set(target, e.call("i32", name, *(("i32", e.integer(source, 32)) for source in sources)), kind)


def logic3(e: Emitter, s: Statement) -> None:
    """lop3: the function given by its truth table, as a sum of products."""
    mods = e.modifiers(s)
    (kind,) = mods.types()
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
    "and": _simple("and"),
    "or": _simple("or"),
    "xor": _simple("xor"),
    "not": unary,
    "popc": unary,
    "clz": unary,
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
    "add": _simple("add"),
    "sub": _simple("sub"),
    "div": _simple("{u}div"),
    "rem": _simple("{u}rem"),
    "mul": multiply,
    "mad": multiply,
    "min": minmax,
    "max": minmax,
    "neg": unary,
    "abs": unary,
}
