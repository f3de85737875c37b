"""Random C functions without undefined behaviour, for the GPU in the emulator and for the host alike.

A function reads eight 64-bit words of its own and four that are the same for all calls (so that a GPU keeps
them and much of what follows from them in scalar registers), and writes eight. Types are fixed-width integers,
f16, f32 and f64; all operations are exactly defined (wrapping integers, masked shifts, guarded divisions and
conversions), so that two correct machines agree bit for bit except in the payload of NaNs.
"""

from __future__ import annotations

import random

WORDS = 8
UNIFORM = 4
PRELUDE = """
typedef unsigned char u8; typedef signed char i8; typedef unsigned short u16; typedef short i16;
typedef unsigned u32; typedef int i32; typedef unsigned long long u64; typedef long long i64;
typedef _Float16 f16; typedef float f32; typedef double f64;
#define CAST(type, x) __builtin_bit_cast(type, x)
#define DIV(type, a, b) ((b) == 0 || (b) == (type)-1 ? (a) : (type)((a) / (b)))
#define REM(type, a, b) ((b) == 0 || (b) == (type)-1 ? (a) : (type)((a) % (b)))
"""
# LLVM turns a product that is rounded to f16 into v_fma_mixlo with an addend of +0, which loses the sign of -0.
DEVICE_HEAD = """
#define DEVICE __attribute__((device))
static DEVICE inline float OPAQUE(float x) { asm volatile("" : "+v"(x)); return x; }
"""
INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
FLOATS = ("f16", "f32", "f64")
BITS = {"f16": 16, "f32": 32, "f64": 64, **{name: int(name[1:]) for name in INTEGERS}}
_CARRIER = {"f16": "u16", "f32": "u32", "f64": "u64"}
_LIMIT = {"f16": "30000.0", "f32": "1e9f", "f64": "1e9"}


class Writer:
    """Writes one function body."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {name: [] for name in (*INTEGERS, *FLOATS)}
        self.count = 0
        self.depth = 0

    def body(self) -> str:
        """Declarations from the inputs, statements, results."""
        rng = self.rng
        for index in range(WORDS):
            for name in rng.sample((*INTEGERS, *FLOATS), 3):
                carrier = _CARRIER.get(name, name)
                raw = f"({carrier})(in[{index}] >> {rng.randrange(64 - BITS[name] + 1)})"
                self.declare(name, f"CAST({name}, {raw})" if name in FLOATS else raw)
        for index in range(UNIFORM):
            for name in rng.sample(("u16", "i32", "u32", "u64", "i64", "f16", "f32", "u32", "i32"), 3):
                carrier = _CARRIER.get(name, name)
                self.declare(name, f"CAST({name}, ({carrier})u{index})" if name in FLOATS else f"({carrier})u{index}")
        self.lines.append(f"u32 table[{WORDS}]; for (u32 j = 0; j < {WORDS}; ++j) table[j] = (u32)in[j] * (j + 1);")
        for _ in range(rng.randrange(6, 14)):
            self.statement()
        for index in range(WORDS):
            self.lines.append(f"out[{index}] = {self.result()};")
        return "\n  ".join(self.lines)

    def declare(self, type_: str, value: str) -> None:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{type_} {name} = {value};")
        self.variables[type_].append(name)

    def variable(self, type_: str) -> str | None:
        names = self.variables[type_]
        return self.rng.choice(names) if names else None

    def result(self) -> str:
        rng = self.rng
        type_ = rng.choice([t for t in (*INTEGERS, *FLOATS) if self.variables[t]])
        name = self.variable(type_)
        if type_ in FLOATS:
            return f"{name} == {name} ? (u64)CAST({_CARRIER[type_]}, {name}) : 0x7ff8ull"
        return f"(u64){name} ^ (u64)table[{rng.randrange(WORDS)}]"

    def statement(self) -> None:
        rng = self.rng
        roll = rng.random()
        type_ = rng.choice((*INTEGERS, *FLOATS, "u32", "i32", "f32"))
        name = self.variable(type_)
        if name is None or (roll < 0.3 and self.depth == 0):
            self.declare(type_, self.expression(type_, 3)) if self.depth == 0 else None
        elif roll < 0.6 or self.depth >= 2:
            self.lines.append(f"{name} = {self.expression(type_, 3)};")
        elif roll < 0.7:
            index = f"({self.expression('u32', 1)}) & {WORDS - 1}"
            self.lines.append(f"table[{index}] = {self.expression('u32', 2)};")
        elif roll < 0.85:
            self.block(f"if ({self.condition(2)})")
            if rng.random() < 0.5:
                self.block("else")
        else:
            counter = f"n{self.count}"
            self.count += 1
            bound = f"(u32)({self.expression('u32', 1)}) % 6"
            self.block(f"for (u32 {counter} = 0, end{counter} = {bound}; {counter} < end{counter}; ++{counter})")

    def block(self, head: str) -> None:
        self.lines.append(head + " {")
        self.depth += 1
        for _ in range(self.rng.randrange(1, 4)):
            self.statement()
        self.depth -= 1
        self.lines.append("}")

    def condition(self, depth: int) -> str:
        type_ = self.rng.choice((*INTEGERS, *FLOATS))
        operator = self.rng.choice(("<", ">", "<=", ">=", "==", "!="))
        return f"{self.expression(type_, depth)} {operator} {self.expression(type_, depth)}"

    def expression(self, type_: str, depth: int) -> str:
        """An expression of exactly that type."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf(type_)
        if rng.random() < 0.12:
            return f"({self.condition(1)} ? {self.expression(type_, depth - 1)} : {self.expression(type_, depth - 1)})"
        if rng.random() < 0.15:
            return self.conversion(type_, depth - 1)
        return self.float_operation(type_, depth - 1) if type_ in FLOATS else self.integer_operation(type_, depth - 1)

    def leaf(self, type_: str) -> str:
        rng = self.rng
        name = self.variable(type_)
        if name is not None and rng.random() < 0.75:
            return name
        if type_ in FLOATS:
            return f"({type_}){rng.choice(('0.5', '1.0', '-2.0', '3.25', '0.0', '-0.1', '1024.0', '1e-4'))}"
        if type_ == "u32" and rng.random() < 0.3:
            return f"table[{rng.randrange(WORDS)}]"
        return f"({type_}){rng.choice((0, 1, 2, -1, 7, 31, 100, 255, -128, 4096, 65535, 123456789))}"

    def integer_operation(self, type_: str, depth: int) -> str:
        rng = self.rng
        a, b = self.expression(type_, depth), self.expression(type_, depth)
        operator = rng.choice(("+", "-", "*", "&", "|", "^", "<<", ">>", "~", "/", "%", "min", "bits"))
        if operator in ("<<", ">>"):
            return f"({type_})({a} {operator} ((u32){b} & {BITS[type_] - 1}))"
        if operator == "~":
            return f"({type_})~{a}"
        if operator in "/%":
            return f"({type_}){'DIV' if operator == '/' else 'REM'}({type_}, {a}, {b})"
        if operator == "min":
            return f"({a} < {b} ? {a} : {b})"
        if operator == "bits":
            function = rng.choice(("__builtin_popcountll", "__builtin_ctzll", "__builtin_clzll", "__builtin_bswap64"))
            return f"({type_}){function}((u64){a} | 1)"
        return f"({type_})({a} {operator} {b})"

    def float_operation(self, type_: str, depth: int) -> str:
        rng = self.rng
        a, b = self.expression(type_, depth), self.expression(type_, depth)
        operator = rng.choice(("+", "-", "*", "/", "abs", "neg", "sqrt", "fma", "floor", "trunc", "rint"))
        suffix = {"f16": "f16", "f32": "f", "f64": ""}[type_]
        if operator in "+-*/":
            return f"({type_})({a} {operator} {b})"
        if operator == "neg":
            return f"(-{a})"
        if operator == "abs":
            return f"({a} < 0 ? -{a} : {a})"
        if type_ == "f16":
            return f"({type_})({a} * {b})"
        if operator == "fma":
            return f"__builtin_fma{suffix}({a}, {b}, {self.expression(type_, depth)})"
        return f"__builtin_{operator}{suffix}({a})"

    def conversion(self, type_: str, depth: int) -> str:
        rng = self.rng
        if type_ == "f16":
            source = rng.choice(("f32", "u16", "i16", "u8"))  # f64 to f16 takes a library call on the host
            value = self.expression(source, depth)
            return f"(f16)OPAQUE({value})" if source == "f32" else f"(f16){value}"
        source = rng.choice((*INTEGERS, *FLOATS))
        value = self.expression(source, depth)
        if source in FLOATS and type_ in INTEGERS:
            limit = _LIMIT[source]
            middle = "i32" if source == "f16" else "i64"
            return f"({type_})({middle})({value} > -{limit} && {value} < {limit} ? {value} : ({source})0)"
        return f"({type_}){value}"


def functions(seeds: list[int]) -> str:
    """Definitions `static DEVICE void body_<seed>(in, u0, u1, u2, u3, out)` for every seed."""
    text = [PRELUDE]
    for seed in seeds:
        head = f"static DEVICE void body_{seed}(const u64* in, u64 u0, u64 u1, u64 u2, u64 u3, u64* out)"
        text.append(f"{head} {{\n  {Writer(seed).body()}\n}}\n")
    return "\n".join(text)


def device_source(seeds: list[int]) -> str:
    """HIP: one kernel `k<seed>` per function, one work item per row of eight words."""
    kernels = [
        f"""extern "C" __attribute__((global)) void k{seed}(
    const u64* in, u64 u0, u64 u1, u64 u2, u64 u3, u64* out) {{
  const u32 i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  body_{seed}(in + i * {WORDS}, u0, u1, u2, u3, out + i * {WORDS});
}}"""
        for seed in seeds
    ]
    return DEVICE_HEAD + functions(seeds) + "\n".join(kernels)


def host_source(seeds: list[int]) -> str:
    """C++: `h<seed>(in, u0, u1, u2, u3, out, rows)` per function."""
    loops = [
        f"""extern "C" void h{seed}(
    const u64* in, u64 u0, u64 u1, u64 u2, u64 u3, u64* out, u64 rows) {{
  for (u64 i = 0; i < rows; ++i) body_{seed}(in + i * {WORDS}, u0, u1, u2, u3, out + i * {WORDS});
}}"""
        for seed in seeds
    ]
    return "#define DEVICE\n#define OPAQUE(x) (x)\n" + functions(seeds) + "\n".join(loops)
