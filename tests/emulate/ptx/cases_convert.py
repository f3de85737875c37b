"""cvt, setp, set, selp and mov forms with models on the raw bits of one lane."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np

from tests.emulate.ptx.cases import FORMATS, Case, Model, case, encode, flushed, read, saturated
from tests.emulate.ptx.harness import Snippet, register_bits
from tests.numerics.exact import round_exact, value_of

ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def convert(name: str, model: Model) -> Case:
    """`cvt.….result.source`."""
    result, source = name.split(".")[-2:]
    return case(name, result, source, model)


def between_floats(result: str, source: str, flags: str) -> Model:
    def model(bits: int) -> int:
        value = value_of(flushed(bits, source) if "ftz" in flags and source == "f32" else bits, FORMATS[source])
        if math.isfinite(value):
            value = round_exact(Fraction(value), FORMATS[result], negative_zero=math.copysign(1, value) < 0)
        out = encode(value, result)
        if "ftz" in flags and result == "f32":
            out = flushed(out, result)
        return saturated(out, result) if "sat" in flags else out

    return model


def toward_zero(bits: int) -> int:
    """f32 to f16, truncating."""
    value = value_of(bits, FORMATS["f32"])
    if not math.isfinite(value):
        return encode(value, "f16")
    nearest = encode(round_exact(Fraction(value), FORMATS["f16"], negative_zero=math.copysign(1, value) < 0), "f16")
    rounded = value_of(nearest, FORMATS["f16"])
    return nearest - (abs(rounded) > abs(value))


def to_integer(result: str, source: str, rounding: str) -> Model:
    width = int(result[1:])
    least, most = (0, (1 << width) - 1) if result[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)

    def model(bits: int) -> int:
        value = value_of(bits, FORMATS[source])
        if math.isnan(value):
            return 1 << (width - 1) if width == 64 or source == "f64" else 0
        if math.isinf(value):
            integer = most if value > 0 else least
        else:
            integer = min(max(ROUNDINGS[rounding](Fraction(value)), least), most)
        return integer & ((1 << max(width, 16)) - 1)

    return model


def from_integer(result: str, source: str) -> Model:
    return lambda bits: encode(round_exact(Fraction(read(bits, source)), FORMATS[result]), result)


def extend(result: str, source: str, sat: bool) -> Model:
    width = int(result[1:])
    least, most = (0, (1 << width) - 1) if result[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)

    def model(bits: int) -> int:
        value = read(bits, source)
        value = min(max(value, least), most) if sat else value & ((1 << width) - 1)
        value = read(value, result)  # the register holds the narrow value, extended
        return value & ((1 << register_bits(result)) - 1)

    return model


def to_integral(name: str, rounding: str) -> Model:
    """cvt.rni.f32.f32 and the like keep the sign of zeros."""

    def model(bits: int) -> int:
        value = value_of(bits, FORMATS[name])
        if not math.isfinite(value):
            return encode(value, name)
        integer = ROUNDINGS[rounding](Fraction(value))
        return encode(math.copysign(float(integer), value) if integer == 0 else float(integer), name)

    return model


def e4m3_code(half: int, relu: bool) -> int:
    value = value_of(half, FORMATS["f16"])
    sign = half >> 15 << 7
    if math.isnan(value):
        return 0x7F
    if relu and sign:
        return 0
    clamped = np.float64([min(max(value, -448.0), 448.0)])
    return int(clamped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)[0])


def e4m3_pair(relu: bool) -> Model:
    return lambda bits: e4m3_code(bits & 0xFFFF, relu) | e4m3_code(bits >> 16 & 0xFFFF, relu) << 8


def from_e4m3(bits: int) -> int:
    codes = np.uint8([bits & 255, bits >> 8 & 255]).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return encode(float(codes[0]), "f16") | encode(float(codes[1]), "f16") << 16


def conversion_cases() -> Iterator[Case]:
    for flags in ("", ".ftz", ".sat", ".ftz.sat"):
        yield convert(f"cvt.rn{flags}.f16.f32", between_floats("f16", "f32", flags))
        yield convert(f"cvt{flags}.f32.f16", between_floats("f32", "f16", flags))
        yield convert(f"cvt.rn{flags}.f32.f64", between_floats("f32", "f64", flags))
    yield convert("cvt.rn.f16.f64", between_floats("f16", "f64", ""))
    yield convert("cvt.f64.f16", between_floats("f64", "f16", ""))
    yield convert("cvt.f64.f32", between_floats("f64", "f32", ""))
    yield convert("cvt.rz.f16.f32", toward_zero)
    yield case(
        "cvt.rn.f16x2.f32",
        "f16x2",
        "f32 f32",
        lambda a, b: between_floats("f16", "f32", "")(a) << 16 | between_floats("f16", "f32", "")(b),
    )
    for rounding in ROUNDINGS:
        for result in ("u16", "s16", "u32", "s32", "u64", "s64"):
            for source in ("f16", "f32", "f64"):
                yield convert(f"cvt.{rounding}.{result}.{source}", to_integer(result, source, rounding))
        yield convert(f"cvt.{rounding}.f32.f32", to_integral("f32", rounding))
        yield convert(f"cvt.{rounding}.f16.f16", to_integral("f16", rounding))
    integers = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    for source in integers:
        for result in integers:
            if result != source:
                yield convert(f"cvt.{result}.{source}", extend(result, source, False))
            if _may_saturate(result, source):
                yield convert(f"cvt.sat.{result}.{source}", extend(result, source, True))
        for result in FORMATS:
            yield convert(f"cvt.rn.{result}.{source}", from_integer(result, source))
    yield convert("cvt.rn.satfinite.e4m3x2.f16x2", e4m3_pair(False))
    yield convert("cvt.rn.satfinite.relu.e4m3x2.f16x2", e4m3_pair(True))
    yield convert("cvt.rn.f16x2.e4m3x2", from_e4m3)


def _may_saturate(result: str, source: str) -> bool:
    """PTX has .sat only where a value can be out of range."""
    wider = int(result[1:]) - int(source[1:])
    return wider < 0 or (wider == 0 and result != source) or (result[0] == "u" and source[0] == "s")


ORDERED: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": lambda a, b: a != b and not (math.isnan(a) or math.isnan(b)),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def float_test(name: str) -> Callable[[float, float], bool]:
    if name in ORDERED:
        return ORDERED[name]
    if name in ("num", "nan"):
        return lambda a, b: (math.isnan(a) or math.isnan(b)) == (name == "nan")
    return lambda a, b: math.isnan(a) or math.isnan(b) or ORDERED[name[:-1]](a, b)


def comparison_cases() -> Iterator[Case]:
    for name in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for test in ORDERED:
            yield case(f"setp.{test}.{name}", "pred", f"{name} {name}", _integer_test(test, name))
    for test, plain in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        yield case(f"setp.{test}.u32", "pred", "u32 u32", _integer_test(plain, "u32"))
    unordered = [f"{test}u" for test in ORDERED] + ["num", "nan"]
    for name in FORMATS:
        for test in (*ORDERED, *unordered):
            yield case(f"setp.{test}.{name}", "pred", f"{name} {name}", _float_comparison(test, name))
    yield case("setp.lt.ftz.f32", "pred", "f32 f32", _float_comparison("lt", "f32", ftz=True))
    yield case("setp.eq.ftz.f32", "pred", "f32 f32", _float_comparison("eq", "f32", ftz=True))
    yield from _combined_cases()


def _integer_test(test: str, name: str) -> Model:
    return lambda a, b: int(ORDERED[test](read(a, name), read(b, name)))


def _float_comparison(test: str, name: str, *, ftz: bool = False) -> Model:
    def model(a: int, b: int) -> int:
        if ftz:
            a, b = flushed(a, name), flushed(b, name)
        return int(float_test(test)(value_of(a, FORMATS[name]), value_of(b, FORMATS[name])))

    return model


def _combined_cases() -> Iterator[Case]:
    less = _integer_test("lt", "s32")
    for flag, combine in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        snippet = Snippet(
            f"setp.lt.{flag}.s32 %p|%q, %a0, %a1, !%a2;\nselp.b32 %d0, 2, 0, %p;\n@%q add.u32 %d0, %d0, 1;",
            ("s32", "s32", "pred"),
            ("u32",),
            declare=".reg .pred %p, %q;\n",
        )

        def model(a: int, b: int, c: int, combine: Callable[[int, int], int] = combine) -> int:
            return combine(less(a, b), 1 - c) * 2 + combine(1 - less(a, b), 1 - c)

        yield Case(f"setp.lt.{flag}.s32 p|q", snippet, model)
    halves = Snippet(
        "setp.gt.f16x2 %p|%q, %a0, %a1;\nselp.b32 %d0, 2, 0, %p;\n@%q add.u32 %d0, %d0, 1;",
        ("f16x2", "f16x2"),
        ("u32",),
        declare=".reg .pred %p, %q;\n",
    )
    greater = _float_comparison("gt", "f16")
    yield Case("setp.gt.f16x2", halves, lambda a, b: greater(a & 65535, b & 65535) * 2 + greater(a >> 16, b >> 16))
    equal = _float_comparison("eq", "f32")
    yield case("set.eq.u32.f32", "u32", "f32 f32", lambda a, b: 0xFFFFFFFF * equal(a, b))
    yield case("set.lt.f32.s32", "f32", "s32 s32", lambda a, b: 0x3F800000 * less(a, b))
    yield case("set.gt.f16.f16", "f16", "f16 f16", lambda a, b: 0x3C00 * greater(a, b))
    packed: Model = lambda a, b: 0x3C00 * greater(a & 65535, b & 65535) | 0x3C000000 * greater(a >> 16, b >> 16)  # noqa: E731
    yield case("set.gt.f16x2.f16x2", "f16x2", "f16x2 f16x2", packed)
    for name in ("b16", "b32", "b64", "f32"):
        yield case(f"selp.{name}", name, f"{name} {name} pred", lambda a, b, c: a if c else b)
    yield case("slct.b32.s32", "b32", "b32 b32 s32", lambda a, b, c: a if read(c, "s32") >= 0 else b)


def move_cases() -> Iterator[Case]:
    for name in ("b16", "b32", "b64", "f32", "f64", "pred"):
        yield case(f"mov.{name}", name, name, lambda a: a)
    pack = {
        "mov.b32 %d0, {{%a0, %a1}};": ("b16 b16", "b32", lambda a, b: a | b << 16),
        "mov.b64 %d0, {{%a0, %a1}};": ("b32 b32", "b64", lambda a, b: a | b << 32),
        "mov.b64 %d0, {{%a0, %a1, %a2, %a3}};": (
            "b16 b16 b16 b16",
            "b64",
            lambda a, b, c, d: a | b << 16 | c << 32 | d << 48,
        ),
    }
    for text, (sources, result, model) in pack.items():
        plain = text.replace("{{", "{").replace("}}", "}")
        yield Case(plain, Snippet(plain, tuple(sources.split()), (result,)), model)
    unpack = "{.reg .b16 low, high;\n mov.b32 {low, high}, %a0;\n mov.b32 %d0, {high, low};}"
    yield Case("halves exchanged", Snippet(unpack, ("b32",), ("b32",)), lambda a: a >> 16 | (a & 0xFFFF) << 16)
    wide = "{.reg .b32 low;\n mov.b64 {low, _}, %a0;\n mov.b32 %d0, low;}"
    yield Case("sink", Snippet(wide, ("b64",), ("b32",)), lambda a: a & 0xFFFFFFFF)


CONVERSIONS = [*conversion_cases(), *comparison_cases(), *move_cases()]
