"""Integer and bit instructions. Functions take and return arrays of the operands' dtype; overflow wraps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.compiler import Compiler, Op, lift
from zluda_rr.emulate.ptx.kinds import BITS, DTYPES, INTEGERS, Array, Spec
from zluda_rr.emulate.ptx.problem import Unsupported
from zluda_rr.ptx import Statement

Handler = Callable[[Compiler, Statement, Spec], Op]

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_LOGIC = frozenset({"b16", "b32", "b64"})


def bits_of(name: str) -> int:
    """Width of a type."""
    return 8 * DTYPES[name].itemsize


def widening_product(a: Array, b: Array, wide: str) -> Array:
    """Full product of two narrower integers in the dtype of `wide`."""
    dtype = DTYPES[wide]
    product: Array = a.astype(dtype) * b.astype(dtype)
    return product


def high_product(a: Array, b: Array) -> Array:
    """Upper half of the product, same dtype as the operands (16, 32 or 64 bits)."""
    width = 8 * a.dtype.itemsize
    if width < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        narrow: Array = ((a.astype(wide) * b.astype(wide)) >> width).astype(a.dtype)
        return narrow
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    middle = (x >> half) * (y & low) + ((x & low) * (y & low) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high: Array = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, 0).astype(np.uint64) - np.where(b < 0, x, 0).astype(np.uint64)
    return high.view(a.dtype)


def divide(a: Array, b: Array) -> Array:
    """Quotient truncated towards zero; division by zero gives all ones, as NVIDIA's does."""
    return _divide(a, b)[0]


def remainder(a: Array, b: Array) -> Array:
    """a - b * divide(a, b); all ones for b = 0, as NVIDIA's."""
    return _divide(a, b)[1]


def _divide(a: Array, b: Array) -> tuple[Array, Array]:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    x = np.abs(a).view(unsigned) if a.dtype.kind == "i" else a
    y = np.abs(b).view(unsigned) if b.dtype.kind == "i" else b
    zero = y == 0
    quotient = x // np.where(zero, unsigned.type(1), y)
    if a.dtype.kind == "i":
        quotient = np.where((a < 0) != (b < 0), np.negative(quotient), quotient)
    ones = ~unsigned.type(0)
    result = np.where(zero, ones, quotient).astype(unsigned).view(a.dtype)
    return result, np.where(zero, ones.view(a.dtype), a - b * result)


def bit_length(a: Array) -> NDArray[np.uint32]:
    """Position of the highest set bit plus one, 0 for 0; a is unsigned."""
    if a.dtype.itemsize == 8:
        high = (a >> np.uint64(32)).astype(np.uint32)
        return np.where(high != 0, bit_length(high) + np.uint32(32), bit_length(a.astype(np.uint32)))
    # frexp of an integer that f64 holds exactly is its bit length.
    return np.frexp(a.astype(np.float64))[1].astype(np.uint32)


def leading_zeros(a: Array) -> NDArray[np.uint32]:
    """`clz` of unsigned a."""
    return np.uint32(8 * a.dtype.itemsize) - bit_length(a)


def find_leading(a: Array) -> NDArray[np.uint32]:
    """`bfind`: position of the highest bit that differs from the sign (of the highest set bit when
    unsigned)."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    magnitude = np.where(a < 0, ~a, a).view(unsigned) if a.dtype.kind == "i" else a
    return bit_length(magnitude) - np.uint32(1)


def reverse_bits(a: Array) -> Array:
    """`brev` of b32 or b64."""
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)[..., ::-1]
    bits = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1, bitorder="big")
    return np.ascontiguousarray(bits).view(a.dtype)[..., 0]


def shift_left(a: Array, amount: NDArray[np.uint32]) -> Array:
    """`shl`: amounts from the width on give 0."""
    width = 8 * a.dtype.itemsize
    shifted: Array = a << np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
    return np.where(amount >= width, a.dtype.type(0), shifted)


def shift_right(a: Array, amount: NDArray[np.uint32]) -> Array:
    """`shr`: arithmetic for signed dtypes; amounts from the width on give 0 or the sign."""
    width = 8 * a.dtype.itemsize
    shifted: Array = a >> np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(amount >= width, a.dtype.type(0), shifted)


def extract_field(a: Array, position: NDArray[np.uint32], length: NDArray[np.uint32]) -> Array:
    """`bfe`: `length` bits of a from `position` (low bytes of both), sign-extended for signed dtypes."""
    width = np.uint32(8 * a.dtype.itemsize)
    start, count = position & np.uint32(255), length & np.uint32(255)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    field = shift_right(a.view(unsigned), start) & _low_bits(count, unsigned)
    if a.dtype.kind == "u":
        return field
    top = np.minimum(start + count - np.uint32(1), width - np.uint32(1))
    sign = shift_right(a.view(unsigned), top) & unsigned.type(1)
    taken = np.minimum(count, width - np.minimum(start, width))  # bits that lie inside a
    extended = field | np.where(sign != 0, ~_low_bits(taken, unsigned), unsigned.type(0))
    return np.where(count == 0, unsigned.type(0), extended).view(a.dtype)


def insert_field(a: Array, b: Array, position: NDArray[np.uint32], length: NDArray[np.uint32]) -> Array:
    """`bfi`: the low `length` bits of a replace those of b from `position` on."""
    start, count = position & np.uint32(255), length & np.uint32(255)
    mask = shift_left(_low_bits(count, a.dtype), start)
    return (b & ~mask) | (shift_left(a, start) & mask)


def _low_bits(count: NDArray[np.uint32], dtype: np.dtype[np.generic]) -> Array:
    one: Array = np.full(count.shape, 1, dtype=dtype)
    mask: Array = shift_left(one, count) - one
    return mask


def funnel_shift(low: Array, high: Array, amount: NDArray[np.uint32], left: bool, clamp: bool) -> Array:
    """`shf`: upper (left) or lower (right) word of the 64-bit value high:low shifted."""
    count = np.minimum(amount, np.uint32(32)) if clamp else amount & np.uint32(31)
    value = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    wide = count.astype(np.uint64)
    shifted: Array = (value << wide) >> np.uint64(32) if left else value >> wide
    return shifted.astype(np.uint32)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """`lop3`: bit i of the result is bit (a_i, b_i, c_i) of the table, a the highest."""
    result = np.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            x, y, z = (value if index >> bit & 1 else ~value for value, bit in ((a, 2), (b, 1), (c, 0)))
            result |= x & y & z
    return result


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """`prmt` without a mode: each nibble picks one of the eight bytes of b:a; its top bit repeats the
    sign."""
    octets = np.stack([a, b], axis=-1).view(np.uint8)
    result = np.zeros_like(a)
    for index in range(4):
        nibble = (selector >> np.uint32(4 * index)) & np.uint32(15)
        chosen = np.take_along_axis(octets, (nibble & np.uint32(7)).astype(np.int64)[..., None], axis=-1)[..., 0]
        sign = np.where(chosen & 0x80, np.uint8(255), np.uint8(0))
        octet = np.where(nibble & np.uint32(8), sign, chosen)
        result |= octet.astype(np.uint32) << np.uint32(8 * index)
    return result


def binary(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """add, sub, mul, div, rem, min, max of integers."""
    name = spec.type
    if spec.opcode == "mul":
        return _multiply(compiler, statement, spec)
    if spec.flags == {"sat"} and name == "s32" and spec.opcode in ("add", "sub"):
        operation = np.add if spec.opcode == "add" else np.subtract
        return lift(compiler, statement, lambda a, b: _saturate(operation, a, b), name, (name, name))
    spec.allow((), INTEGERS)
    return lift(compiler, statement, _BINARY[spec.opcode], name, (name, name))


def _saturate(operation: np.ufunc, a: Array, b: Array) -> Array:
    exact = operation(a.astype(np.int64), b.astype(np.int64))
    clamped: Array = np.clip(exact, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    return clamped


def _multiply(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    spec.allow(("lo", "hi", "wide"), INTEGERS)
    name = spec.type
    if "wide" in spec.flags:
        wide = _wide_of(name)
        return lift(compiler, statement, lambda a, b: widening_product(a, b, wide), wide, (name, name))
    function = high_product if "hi" in spec.flags else np.multiply
    return lift(compiler, statement, function, name, (name, name))


def _wide_of(name: str) -> str:
    if name not in _WIDER:
        raise Unsupported(f".wide of .{name}")
    return _WIDER[name]


def multiply_add(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """mad of integers: lo, hi, wide."""
    spec.allow(("lo", "hi", "wide"), INTEGERS)
    name = spec.type
    if "wide" in spec.flags:
        wide = _wide_of(name)
        return lift(compiler, statement, lambda a, b, c: widening_product(a, b, wide) + c, wide, (name, name, wide))
    product = high_product if "hi" in spec.flags else np.multiply
    return lift(compiler, statement, lambda a, b, c: product(a, b) + c, name, (name, name, name))


def unary(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """abs and neg of integers."""
    spec.allow((), {"s16", "s32", "s64"})
    return lift(compiler, statement, np.absolute if spec.opcode == "abs" else np.negative, spec.type, (spec.type,))


def logic(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """and, or, xor, not, cnot."""
    spec.allow((), _LOGIC | {"pred"})
    name = spec.type
    if spec.opcode == "not":
        return lift(compiler, statement, np.invert, name, (name,))
    if spec.opcode == "cnot":
        return lift(compiler, statement, lambda a: (a == 0).astype(a.dtype), name, (name,))
    return lift(compiler, statement, _BINARY[spec.opcode], name, (name, name))


def shift(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """shl and shr; the amount is always u32."""
    spec.allow((), INTEGERS | BITS)
    function = shift_left if spec.opcode == "shl" else shift_right
    return lift(compiler, statement, function, spec.type, (spec.type, "u32"))


def funnel(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """shf."""
    spec.allow(("l", "r", "wrap", "clamp"), {"b32"})
    left, clamp = "l" in spec.flags, "clamp" in spec.flags
    return lift(compiler, statement, lambda a, b, c: funnel_shift(a, b, c, left, clamp), "b32", ("b32", "b32", "u32"))


def bit_count(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """popc, clz and bfind: the result is u32."""
    spec.allow(("shiftamt",) if spec.opcode == "bfind" else ())
    name = spec.type
    functions: Mapping[str, Callable[[Array], Array]] = {
        "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
        "clz": leading_zeros,
        "bfind": find_leading,
    }
    function = functions[spec.opcode]
    if "shiftamt" in spec.flags:
        top = np.uint32(bits_of(name) - 1)
        return lift(
            compiler,
            statement,
            lambda a: np.where(find_leading(a) == 0xFFFFFFFF, np.uint32(0xFFFFFFFF), top - find_leading(a)),
            "u32",
            (name,),
        )
    return lift(compiler, statement, function, "u32", (name,))


def bit_field(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """bfe, bfi and brev."""
    name = spec.type
    if spec.opcode == "brev":
        spec.allow((), {"b32", "b64"})
        return lift(compiler, statement, reverse_bits, name, (name,))
    if spec.opcode == "bfe":
        spec.allow((), INTEGERS)
        return lift(compiler, statement, extract_field, name, (name, "u32", "u32"))
    spec.allow((), {"b32", "b64"})
    return lift(compiler, statement, insert_field, name, (name, name, "u32", "u32"))


def three_way(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
    """lop3 and prmt."""
    spec.allow((), {"b32"})
    if spec.opcode == "prmt":
        return lift(compiler, statement, permute_bytes, "b32", ("b32", "b32", "b32"))
    *_, table = statement.operands
    value = getattr(table, "value", None)
    if not isinstance(value, int):
        raise Unsupported("lop3's table is no constant")
    return lift(compiler, statement, lambda a, b, c, _: logic3(a, b, c, value), "b32", ("b32", "b32", "b32", "b32"))


_BINARY: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "add": np.add,
        "sub": np.subtract,
        "div": divide,
        "rem": remainder,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
)

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "rem": binary,
        **dict.fromkeys(("and", "or", "xor", "not", "cnot"), logic),
        **dict.fromkeys(("shl", "shr"), shift),
        "shf": funnel,
        **dict.fromkeys(("popc", "clz", "bfind"), bit_count),
        **dict.fromkeys(("bfe", "bfi", "brev"), bit_field),
        **dict.fromkeys(("lop3", "prmt"), three_way),
    }
)
