"""One case per instruction form: PTX text and an independent model on the raw bits of one lane."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from tests.emulate.ptx.harness import Snippet
from tests.numerics.exact import DOUBLE, HALF, SINGLE, Format, bits_of, evaluate, round_exact, value_of

Model = Callable[..., int]
FORMATS = {"f16": HALF, "f32": SINGLE, "f64": DOUBLE}
NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


@dataclass(frozen=True, slots=True)
class Case:
    """`ulp` > 0: the result may differ from the model's by so many units in the last place."""

    name: str
    snippet: Snippet
    model: Model
    ulp: int = 0


def case(name: str, result: str, sources: str, model: Model, *, ulp: int = 0, tail: str = "", head: str = "") -> Case:
    """`{head}name d, a, b…{tail};` with types given by `result` and the words of `sources`."""
    inputs = tuple(sources.split())
    operands = ", ".join(["%d0", *(f"%a{i}" for i in range(len(inputs)))])
    return Case(name, Snippet(f"{head}{name} {operands}{tail};", inputs, (result,)), model, ulp)


def signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


# ------------------------------------------------------------------------------------------------------------- integers


def read(bits: int, name: str) -> int:
    """The integer that a register's bits mean for a type."""
    width = int(name[1:])
    return signed(bits, width) if name[0] == "s" else bits & ((1 << width) - 1)


def on_integers(names: str, width: int, function: Callable[..., int]) -> Model:
    """Read each operand by its type, wrap the result to `width` bits."""
    types = names.split()
    return lambda *bits: function(*(read(b, n) for b, n in zip(bits, types, strict=True))) & ((1 << width) - 1)


def truncated_quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_cases() -> Iterator[Case]:
    for name in ("u16", "s16", "u32", "s32", "u64", "s64"):
        width = int(name[1:])
        pair = f"{name} {name}"
        functions: dict[str, Callable[[int, int], int]] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul.lo": lambda a, b: a * b,
            "mul.hi": lambda a, b, w=width: a * b >> w,  # type: ignore[misc]
            "div": truncated_quotient,
            "rem": lambda a, b: a - b * truncated_quotient(a, b) if b else -1,
            "min": min,
            "max": max,
        }
        for opcode, function in functions.items():
            yield case(f"{opcode}.{name}", name, pair, on_integers(pair, width, function))
        yield case(
            f"mad.lo.{name}", name, f"{pair} {name}", on_integers(f"{pair} {name}", width, lambda a, b, c: a * b + c)
        )
        if name[0] == "s":
            yield case(f"abs.{name}", name, name, on_integers(name, width, abs))
            yield case(f"neg.{name}", name, name, on_integers(name, width, lambda a: -a))
        yield case(f"shr.{name}", name, f"{name} u32", on_integers(f"{name} u32", width, lambda a, n: a >> min(n, 200)))
        if width < 64:
            wide = f"{name[0]}{2 * width}"
            yield case(f"mul.wide.{name}", wide, pair, on_integers(pair, 2 * width, lambda a, b: a * b))
            yield case(
                f"mad.wide.{name}",
                wide,
                f"{pair} {wide}",
                on_integers(f"{pair} {wide}", 2 * width, lambda a, b, c: a * b + c),
            )
    saturated = on_integers("s32 s32", 32, lambda a, b: max(-(1 << 31), min((1 << 31) - 1, a + b)))
    yield case("add.sat.s32", "s32", "s32 s32", saturated)


def funnel(left: bool, clamp: bool) -> Model:
    def model(low: int, high: int, amount: int) -> int:
        count = min(amount, 32) if clamp else amount & 31
        value = (high & 0xFFFFFFFF) << 32 | (low & 0xFFFFFFFF)
        return (value << count >> 32 if left else value >> count) & 0xFFFFFFFF

    return model


def field_extract(name: str) -> Model:
    """The manual's pseudo code of bfe."""
    width = int(name[1:])

    def model(a: int, b: int, c: int) -> int:
        position, length = b & 255, c & 255
        top = a >> min(max(position + length - 1, 0), width - 1) & 1
        sign = top if name[0] == "s" and length else 0
        result = 0
        for i in range(width):
            bit = a >> (position + i) & 1 if i < length and position + i < width else sign
            result |= bit << i
        return result

    return model


def field_insert(width: int) -> Model:
    """The manual's pseudo code of bfi."""

    def model(a: int, b: int, c: int, d: int) -> int:
        position, length = c & 255, d & 255
        result = b
        for i in range(length):
            if position + i < width:
                result = result & ~(1 << (position + i)) | (a >> i & 1 if i < width else 0) << (position + i)
        return result

    return model


def permute(a: int, b: int, selector: int) -> int:
    value = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    result = 0
    for i in range(4):
        nibble = selector >> (4 * i) & 15
        octet = value >> (8 * (nibble & 7)) & 255
        if nibble & 8:
            octet = 255 if octet & 128 else 0
        result |= octet << (8 * i)
    return result


def table3(table: int) -> Model:
    def model(a: int, b: int, c: int) -> int:
        bits = range(32)
        return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in bits)

    return model


def bit_cases() -> Iterator[Case]:
    for name in ("b16", "b32", "b64"):
        width, pair = int(name[1:]), f"{name} {name}"
        yield case(f"and.{name}", name, pair, on_integers(pair, width, lambda a, b: a & b))
        yield case(f"or.{name}", name, pair, on_integers(pair, width, lambda a, b: a | b))
        yield case(f"xor.{name}", name, pair, on_integers(pair, width, lambda a, b: a ^ b))
        yield case(f"not.{name}", name, name, on_integers(name, width, lambda a: ~a))
        yield case(f"cnot.{name}", name, name, on_integers(name, width, lambda a: int(a == 0)))
        yield case(f"shl.{name}", name, f"{name} u32", on_integers(f"{name} u32", width, lambda a, n: a << min(n, 99)))
    for name in ("b32", "b64"):
        width = int(name[1:])
        yield case(f"popc.{name}", "u32", name, on_integers(name, 32, int.bit_count))
        yield case(
            f"clz.{name}",
            "u32",
            name,
            on_integers(name, 32, lambda a, w=width: w - a.bit_length()),  # type: ignore[misc]
        )
        yield case(
            f"brev.{name}",
            name,
            name,
            on_integers(name, width, lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2)),  # type: ignore[misc]
        )
        low = "and.b32 %a2, %a2, 255; and.b32 %a3, %a3, 255;\n"
        yield case(f"bfi.{name}", name, f"{name} {name} u32 u32", field_insert(width), head=low)
    for name in ("u32", "s32", "u64", "s64"):
        find = on_integers(name, 32, lambda a: (~a if a < 0 else a).bit_length() - 1)
        yield case(f"bfind.{name}", "u32", name, find)
        low = "and.b32 %a1, %a1, 255; and.b32 %a2, %a2, 255;\n"  # more is undefined
        yield case(f"bfe.{name}", name, f"{name} u32 u32", field_extract(name), head=low)
    for side in "lr":
        for mode in ("wrap", "clamp"):
            yield case(f"shf.{side}.{mode}.b32", "b32", "b32 b32 u32", funnel(side == "l", mode == "clamp"))
    yield case("prmt.b32", "b32", "b32 b32 b32", permute)
    for table in (0x80, 0xFE, 0x96, 0x2D):
        yield case("lop3.b32", "b32", "b32 b32 b32", table3(table), tail=f", {table:#x}")
    for opcode, truth in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        yield case(f"{opcode}.pred", "pred", "pred pred", truth)
    yield case("not.pred", "pred", "pred", lambda a: 1 - a)


# --------------------------------------------------------------------------------------------------------------- floats


def encode(value: float, name: str) -> int:
    return NAN.get(name, 0x7FF8 << 48) if math.isnan(value) else bits_of(value, FORMATS[name])


def flushed(bits: int, name: str) -> int:
    form = FORMATS[name]
    mantissa = form.precision - 1
    width = {"f16": 16, "f32": 32, "f64": 64}[name]
    magnitude = bits & ((1 << (width - 1)) - 1)
    return bits if magnitude >> mantissa else bits ^ magnitude


def saturated(bits: int, name: str) -> int:
    value = value_of(bits, FORMATS[name])
    return encode(min(value, 1.0) if value > 0 else 0.0, name)


def on_floats(name: str, operation: Callable[..., object], flags: str = "") -> Model:
    """A rational function rounded once, with ftz, sat and relu around it."""

    def model(*bits: int) -> int:
        if "ftz" in flags:
            bits = tuple(flushed(b, name) for b in bits)
        result = encode(evaluate(operation, FORMATS[name], *(value_of(b, FORMATS[name]) for b in bits)), name)
        if "ftz" in flags:
            result = flushed(result, name)
        if "sat" in flags:
            result = saturated(result, name)
        if "relu" in flags and not math.isnan(value_of(result, FORMATS[name])):
            result = 0 if math.copysign(1, value_of(result, FORMATS[name])) < 0 else result
        return result

    return model


def on_halves(model: Model) -> Model:
    """The same on both halves of f16x2."""
    return lambda *bits: model(*(b & 0xFFFF for b in bits)) | model(*(b >> 16 & 0xFFFF for b in bits)) << 16


def pick(name: str, largest: bool, *, nan: bool = False, ftz: bool = False) -> Model:
    """min and max: NaN loses (or wins with .NaN), -0 is below +0."""
    form = FORMATS[name]

    def model(a: int, b: int) -> int:
        if ftz:
            a, b = flushed(a, name), flushed(b, name)
        x, y = value_of(a, form), value_of(b, form)
        if math.isnan(x) or math.isnan(y):
            if nan or (math.isnan(x) and math.isnan(y)):
                return NAN[name]
            return b if math.isnan(x) else a
        key = (x, math.copysign(1, x)), (y, math.copysign(1, y))
        return a if (key[0] >= key[1] if largest else key[0] <= key[1]) else b

    return model


def add(a: float, b: float) -> float:
    return a + b


def sub(a: float, b: float) -> float:
    return a - b


def mul(a: float, b: float) -> float:
    return a * b


def fma(a: float, b: float, c: float) -> float:
    return a * b + c


BINARY: dict[str, Callable[..., object]] = {"add": add, "sub": sub, "mul": mul}


def float_cases() -> Iterator[Case]:
    for flags in ("", ".ftz", ".rn", ".sat", ".rn.ftz.sat", ".ftz.sat"):
        for opcode, operation in BINARY.items():
            yield case(f"{opcode}{flags}.f32", "f32", "f32 f32", on_floats("f32", operation, flags))
        if "rn" not in flags:
            yield case(f"fma.rn{flags}.f32", "f32", "f32 f32 f32", on_floats("f32", fma, flags))
    for opcode, operation in BINARY.items():
        yield case(f"{opcode}.f64", "f64", "f64 f64", on_floats("f64", operation))
    for flags in ("", ".ftz"):
        yield case(f"div.rn{flags}.f32", "f32", "f32 f32", on_floats("f32", lambda a, b: a / b, flags))
        for opcode in ("min", "max"):
            plain = pick("f32", opcode == "max", ftz=bool(flags))
            yield case(f"{opcode}{flags}.f32", "f32", "f32 f32", plain)
            strict = pick("f32", opcode == "max", ftz=bool(flags), nan=True)
            yield case(f"{opcode}{flags}.NaN.f32", "f32", "f32 f32", strict)
    yield case("abs.f64", "f64", "f64", lambda a: a & ~(1 << 63))
    yield case("neg.f64", "f64", "f64", lambda a: a ^ 1 << 63)
    yield case("copysign.f32", "f32", "f32 f32", lambda a, b: b & 0x7FFFFFFF | a & 0x80000000)


def half_cases() -> Iterator[Case]:
    for name, wrap in (("f16", lambda m: m), ("f16x2", on_halves)):
        pair = f"{name} {name}"
        for flags in ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat"):
            for opcode, operation in BINARY.items():
                yield case(f"{opcode}{flags}.{name}", name, pair, wrap(on_floats("f16", operation, flags)))
        for flags in ("", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"):
            yield case(f"fma.rn{flags}.{name}", name, f"{pair} {name}", wrap(on_floats("f16", fma, flags)))
        for opcode in ("min", "max"):
            largest = opcode == "max"
            yield case(f"{opcode}.{name}", name, pair, wrap(pick("f16", largest)))
            yield case(f"{opcode}.ftz.{name}", name, pair, wrap(pick("f16", largest, ftz=True)))
            yield case(f"{opcode}.NaN.{name}", name, pair, wrap(pick("f16", largest, nan=True)))


def sign_cases() -> Iterator[Case]:
    """abs and neg change the sign; NaN comes out canonical."""
    for flags in ("", ".ftz"):
        yield case(f"abs{flags}.f32", "f32", "f32", on_floats("f32", abs, flags))
        yield case(f"neg{flags}.f32", "f32", "f32", on_floats("f32", operator.neg, flags))
        for name, wrap in (("f16", lambda m: m), ("f16x2", on_halves)):
            yield case(f"abs{flags}.{name}", name, name, wrap(on_floats("f16", abs, flags)))
            yield case(f"neg{flags}.{name}", name, name, wrap(on_floats("f16", operator.neg, flags)))


def approximate(function: Callable[[float], float], *, name: str = "f32", ftz: bool = True) -> Model:
    """A real function rounded once; poles and domain errors as IEEE has them."""

    def model(bits: int) -> int:
        value = value_of(flushed(bits, name) if ftz else bits, FORMATS[name])
        if math.isnan(value):
            return NAN[name]
        try:
            exact = function(value)
        except ZeroDivisionError:
            return encode(math.copysign(math.inf, value), name)
        except ValueError:
            return encode(-math.inf if value == 0 else math.nan, name)
        except OverflowError:
            return encode(math.inf, name)
        if math.isfinite(exact):
            exact = round_exact(Fraction(exact), FORMATS[name], negative_zero=math.copysign(1, exact) < 0)
        result = encode(exact, name)
        return flushed(result, name) if ftz else result

    return model


def approximation_cases() -> Iterator[Case]:
    functions: dict[str, Callable[[float], float]] = {
        "rcp": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / math.sqrt(x) if x else math.copysign(math.inf, x),
        "sqrt": math.sqrt,
        "ex2": lambda x: 2.0**x,
        "lg2": lambda x: math.log2(x) if not math.isinf(x) or x < 0 else x,
    }
    for opcode, function in functions.items():
        yield case(f"{opcode}.approx.ftz.f32", "f32", "f32", approximate(function), ulp=2)
        yield case(f"{opcode}.approx.f32", "f32", "f32", approximate(function, ftz=False), ulp=2)
    yield case("rcp.rn.f32", "f32", "f32", approximate(functions["rcp"], ftz=False))
    yield case("sqrt.rn.f32", "f32", "f32", approximate(functions["sqrt"], ftz=False))
    yield case("tanh.approx.f16", "f16", "f16", approximate(math.tanh, name="f16", ftz=False), ulp=2)


FLOATING = [*float_cases(), *half_cases(), *sign_cases(), *approximation_cases()]
INTEGER = [*integer_cases(), *bit_cases()]


def format_of(name: str) -> Format:
    """Format of a scalar float type."""
    return FORMATS[name]
