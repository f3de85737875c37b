"""A kernel that executes many forms: operands from memory, one statement per form, results to memory.

Thread i of the grid reads row i of `in` and writes row i of `out`. A row of `in` has, for each operand type and place,
an 8-byte column (`COLUMNS`), whose low bytes are the operand and whose high bytes are what a wider register has there.
A row of `out` has 8-byte slots, numbered by `Probe.slots`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from zluda_rr.forms.spelling import Spelling
from zluda_rr.ptx import isa

PLACES = 4
BITS = {
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64, 128)},
    "pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "tf32": 32, "f32x2": 64, "f64": 64,
    "u16x2": 32, "s16x2": 32, "e4m3x2": 16, "e5m2x2": 16, "e4m3": 32, "e5m2": 32, "any": 32,
    "u2": 32, "s2": 32, "u4": 32, "s4": 32, "b1": 32,
}  # fmt: skip
COLUMNS = ("b16", "b32", "b64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "pred")
"""Types of the columns; every other type reads the column of bits of its width."""
BLOB_BYTES = 64
_GEOMETRY = {"1d": "x", "2d": "xy", "3d": "xyyy", "a1d": "yx", "a2d": "yxyy", "cube": "xyyy", "acube": "yxyy",
             "2dms": "yxyy", "a2dms": "yyxy"}  # fmt: skip
_ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4,
                 "u4": 4, "b1": 1, "f32": 32, "s32": 32}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probe:
    """One form in a kernel. `outputs` are the types of its result slots, `text` has its own registers as `@0`…, its
    slots as `@S0`…, labels as `@L`, `@T`. `variant`: what is unusual about the operands, for the name."""

    spelling: Spelling
    variant: str
    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """`cvt.u16.f32`, with `(wide)` for wide registers and the number of operands where it may vary."""
        extra = (
            [f"{self.spelling.operands} operands"] if self.spelling.operands > self.spelling.pattern.required else []
        )
        extra += [self.variant] if self.variant else []
        return self.spelling.name + (f" ({', '.join(extra)})" if extra else "")


@dataclass(frozen=True, slots=True)
class ProbeKernel:
    """PTX of a kernel `probe(in, out, blob)`, and for each probe its first slot in a row of `row_bytes`."""

    text: str
    slots: tuple[int, ...]
    row_bytes: int
    lines: tuple[int, ...]
    """Of each probe: the number of its statement among the kernel's statements."""


def column_of(type_name: str) -> str:
    """The column that a type reads."""
    return type_name if type_name in COLUMNS else f"b{max(16, BITS[type_name])}"


WIDE = "wide registers"


def probe_of(spelling: Spelling, *, wide: bool = False, constant: int | None = None) -> Probe:
    """The statement of a form with registers for its operands.

    `wide`: registers of twice the width, as loads, stores and conversions of integers allow. `constant`: the bits of a
    constant in place of the last source, where that may be one.
    """
    return _Builder(spelling, wide, constant).build()


class _Builder:
    def __init__(self, spelling: Spelling, wide: bool, constant: int | None) -> None:
        self.spelling = spelling
        self.form = spelling.form
        self.wide = wide
        self.constant = constant
        self.variant = WIDE if wide else ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.before = ""
        self.after = ""

    def build(self) -> Probe:
        operands = [self._operand(index, operand) for index, operand in enumerate(self.form.operands)]
        self._call(operands)
        statement = f"{self.spelling.name} {', '.join(operands)}".rstrip() + ";"
        if self.form.opcode in ("ret", "exit"):
            statement = f"@%never {statement}"
        text = self.before + statement + self.after
        return Probe(self.spelling, self.variant, text, tuple(self.inputs), tuple(self.outputs))

    def _call(self, operands: list[str]) -> None:
        """A label for a branch's target."""
        if self.form.opcode == "bra":
            self.after = "\n@L:"
        elif self.form.opcode == "brx":
            self.before, self.after = "@T: .branchtargets @L;\n", "\n@L:"

    def _operand(self, index: int, operand: isa.OperandForm) -> str:
        if operand.type == "address":
            return self._address(operand)
        if operand.type in _ROLES:
            return _ROLES[operand.type] if self.form.opcode != "brx" or index == 0 else "@T"
        if operand.type == "coordinates":
            return self._coordinates()
        constant = _CONSTANTS.get((self.form.opcode, operand.name)) or _CONSTANTS.get(("", operand.name))
        if constant is not None:
            return constant
        if self.constant is not None and not operand.written and index == len(self.form.operands) - 1:
            text = constant_text(operand.type, self.constant)
            if text:
                self.variant = f"constant {text}"
                return text
        count = self._count(operand)
        names = [self._register(operand, index, element) for element in range(count or 1)]
        if self.form.opcode == "setp" and operand.written:
            return "|".join((*names, self._register(operand, index, 1)))
        return f"{{{', '.join(names)}}}" if count else names[0]

    def _register(self, operand: isa.OperandForm, index: int, element: int) -> str:
        type_name = operand.type
        if self.form.opcode == "mma" and type_name != "f64":
            type_name = "b32"  # elements are packed
        if operand.written:
            self.outputs.append(type_name)
            return f"@{len(self.outputs) - 1}"
        prefix = "wide" if self.wide and BITS[type_name] < 64 else "in"
        place = (index - 1 if self.form.operands[0].written else index) + element
        name = f"%{prefix}_{column_of(type_name)}_{place % PLACES}"
        self.inputs.append(name)
        return name

    def _count(self, operand: isa.OperandForm) -> int:
        """Elements of a vector operand; 0 for a scalar."""
        words = self.spelling.modifiers
        if self.form.opcode == "mma":
            return _fragment(operand, self.form.fields["Shape"], operand.type)
        if self.form.opcode in ("ldmatrix", "stmatrix") and operand.name == "r":
            return next(int(word[1]) for word in words if word in ("x1", "x2", "x4"))
        if operand.name not in ("d", "b") or self.form.opcode in ("tld4",):
            return 4 if operand.name == "d" and self.form.opcode == "tld4" else 0
        vector = next((int(word[1]) for word in words if word in ("v2", "v4", "v8")), 0)
        return vector if self.form.opcode in ("ld", "ldu", "st", "tex", "suld", "sust", "atom", "red") else 0

    def _address(self, operand: isa.OperandForm) -> str:
        space = self.form.fields.get("S", "")
        if self.form.opcode in ("st", "red", "atom"):
            return self._written_address(space)
        if space.startswith("shared"):
            return "[%shared]"
        if space.startswith("param"):
            return "[blob+32]"
        return "[local]" if space == "local" else "[%row]"

    def _written_address(self, space: str) -> str:
        """Where a store goes: its own slots of the row, or shared memory that is copied there afterwards."""
        first = len(self.outputs)
        self.outputs += ["b64"] * 4
        if self.form.opcode != "st" and not space.startswith("shared"):
            self.inputs.append("%in_b64_3")
            self.before = f"st.global.b64 [%out+@S{first}], %in_b64_3;\n"
        if not space.startswith("shared"):
            self.outputs[first:] = ["memory"] * 4
            return "[local]" if space == "local" else "[blob]" if space.startswith("param") else f"[%out+@S{first}]"
        loads = (f"\nld.shared.b64 @{first + i}, [%shared+{32 + 8 * i}];" for i in range(4))
        self.after = "".join(loads)
        return "[%shared+32]"

    def _coordinates(self) -> str:
        surface = self.form.opcode != "tex" and self.form.opcode != "tld4"
        inside = "inside_" if "trap" in self.spelling.modifiers else ""
        floating = self.form.fields.get("C") == "f32" or self.form.opcode == "tld4"
        prefix = inside if surface else "float_" if floating else "texel_"
        axes = [f"%{prefix}{axis}" for axis in _GEOMETRY[self.form.fields["G"]]]
        self.inputs += ["%handle", *axes]
        if self.form.opcode in ("sust", "sured"):
            first = len(self.outputs)
            self.outputs += ["b64"] * 4
            self.inputs.append("%texels")
            self.after = "".join(f"\nld.global.b64 @{first + i}, [%texels+{8 * i}];" for i in range(4))
        return f"[%handle, {{{', '.join(axes)}}}]"


def constant_text(type_name: str, bits: int) -> str:
    """A constant of the type with (the low part of) these bits; "" where PTX has none."""
    if type_name in ("f32", "f64"):
        return f"0f{bits & 0xFFFFFFFF:08X}" if type_name == "f32" else f"0d{bits & (1 << 64) - 1:016X}"
    if type_name[0] not in "bus" or type_name.endswith("x2") or BITS[type_name] == 128:
        return ""
    value = bits & ((1 << BITS[type_name]) - 1)
    return str(value - (1 << BITS[type_name]) if type_name[0] == "s" and value >> (BITS[type_name] - 1) else value)


_ROLES = {"label": "@L", "function": "callee", "params": "()", "any": "%in_b32_0"}
_CONSTANTS = {
    ("", "lut"): "0xe8",
    ("", "membermask"): "-1",
    ("", "mask"): "-1",
    ("bar", "a"): "0",
    ("bar", "b"): "32",
    ("barrier", "a"): "0",
    ("barrier", "b"): "32",
    ("pmevent", "a"): "3",
    ("cp", "size"): "16",
    ("", "align"): "16",
    ("setmaxnreg", "count"): "64",
}


def _fragment(operand: isa.OperandForm, shape: str, type_name: str) -> int:
    """Registers of an mma fragment: a lane's 32nd of the matrix, packed where elements are narrower."""
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    elements = {"d": m * n, "c": m * n, "a": m * k, "b": k * n}[operand.name]
    bits = _ELEMENT_BITS[type_name]
    return max(1, ceil(elements * bits / 32 / max(32, bits)))


# ----------------------------------------------------------------------------------------------------------- the kernel


def probe_kernel(probes: Sequence[Probe], *, stores: bool = True) -> ProbeKernel:
    """One kernel for all probes; without `stores` it is only to be looked at."""
    slots: list[int] = []
    next_slot = 0
    for probe in probes:
        if "memory" in probe.outputs:
            next_slot = -(-next_slot // 4) * 4  # a store of 32 bytes is aligned
        slots.append(next_slot)
        next_slot += len(probe.outputs)
    row_bytes = 32 * max(1, -(-next_slot // 4))
    used = {name for probe in probes for name in probe.inputs}
    prologue = _prologue(used, row_bytes, [probe.text for probe in probes])
    number = _statements(prologue)
    lines, body, registers = [], [], []
    for index, (probe, slot) in enumerate(zip(probes, slots, strict=True)):
        text, own = _placed(probe, index, slot, stores)
        lead = probe.text.split(f"{probe.spelling.name}", 1)[0]
        lines.append(number + 1 + lead.count(";\n"))
        number += _statements(text)
        body.append(text)
        registers += own
    declared = "".join(f".reg .{kind} {name};\n" for kind, name in registers)
    text = _HEAD + declared + prologue + "\n".join(body) + "\nret;\n}\n"
    return ProbeKernel(text, tuple(slots), row_bytes, tuple(lines))


def _statements(text: str) -> int:
    """Statements in a piece of the kernel's own text: instructions and labels."""
    plain = [line for line in text.split("\n") if not line.startswith(".")]
    directives = sum(line.count(": .branchtargets") for line in plain)
    return sum(line.count(";") + (line.endswith(":") or ": ." in line) for line in plain) - directives


def _placed(probe: Probe, index: int, slot: int, stored: bool) -> tuple[str, list[tuple[str, str]]]:
    """The probe's statements with its own registers, and their declarations."""
    text = probe.text.replace("@L", f"L{index}").replace("@T", f"T{index}")
    registers, stores = [], []
    for place in reversed(range(len(probe.outputs))):
        text = text.replace(f"@S{place}", str(8 * (slot + place))).replace(f"@{place}", f"%o{index}_{place}")
    for place, type_name in enumerate(probe.outputs):
        if type_name == "memory":
            continue
        name, target = f"%o{index}_{place}", f"[%out+{8 * (slot + place)}]"
        if type_name == "pred":
            registers.append(("pred", name))
            stores.append(f"selp.b32 %flag, 1, 0, {name};\nst.global.b32 {target}, %flag;")
            continue
        bits = max(16, BITS[type_name])
        bits = 2 * bits if probe.variant == WIDE and bits < 64 else bits
        registers.append((f"b{bits}", name))
        if bits == 128:
            continue
        stores.append(f"st.global.b{bits} {target}, {name};")
    return "\n".join((text, *(stores if stored else ()))), registers


_HEAD = f""".version 9.0
.target sm_100
.address_size 64
.func callee() {{ ret; }}
.visible .entry probe(.param .u64 probe_in, .param .u64 probe_out, .param .align 32 .b8 blob[{BLOB_BYTES}])
.reqntid 32
{{
.reg .b64 %row, %out, %base, %offset, %handle, %texels;
.reg .b32 %index, %tid, %flag, %shared, %x, %y, %inside_x, %inside_y, %texel_x, %texel_y, %float_x, %float_y;
.reg .pred %never;
.shared .align 32 .b8 tile[2048];
.local .align 32 .b8 local[64];
"""


def _prologue(used: Iterable[str], row_bytes: int, texts: Sequence[str]) -> str:
    columns = [(kind, place) for kind in COLUMNS for place in range(PLACES)]
    lines = [
        "mov.u32 %index, %ctaid.x;",
        "mov.u32 %tid, %tid.x;",
        "mad.lo.s32 %index, %index, 32, %tid;",
        "setp.eq.u32 %never, %tid, 77;",
        "ld.param.u64 %base, [probe_in];",
        f"mul.wide.u32 %offset, %index, {row_stride()};",
        "add.s64 %row, %base, %offset;",
        "ld.param.u64 %base, [probe_out];",
        f"mul.wide.u32 %offset, %index, {row_bytes};",
        "add.s64 %out, %base, %offset;",
    ]
    declared = []
    wanted = set(used)
    for index, (kind, place) in enumerate(columns):
        bits = max(16, BITS[kind])
        for prefix, width in (("in", bits), ("wide", min(64, 2 * bits))):
            name = f"%{prefix}_{kind}_{place}"
            if name not in wanted:
                continue
            if kind == "pred":
                declared.append(f".reg .pred {name};")
                lines += [f"ld.global.b32 %flag, [%row+{8 * index}];", f"setp.ne.b32 {name}, %flag, 0;"]
            else:
                declared.append(f".reg .b{width} {name};")
                lines.append(f"ld.global.b{width} {name}, [%row+{8 * index}];")
    declared += [f".reg .b128 {name};" for name in sorted(wanted) if "_b128_" in name]  # nothing computes with these
    lines += _facts(wanted)
    if any("%shared" in text for text in texts):
        lines += ["mov.u32 %shared, tile;", "mad.lo.s32 %shared, %tid, 64, %shared;"]
        for place in range(8):
            lines += [f"ld.global.b64 %offset, [%row+{8 * place}];", f"st.shared.b64 [%shared+{8 * place}], %offset;"]
    return "\n".join((*declared, *lines)) + "\n"


def _facts(wanted: set[str]) -> list[str]:
    first = 8 * len(COLUMNS) * PLACES
    lines = []
    for index, (name, bits) in enumerate(FACT_BITS.items()):
        if f"%{name}" in wanted:
            lines.append(f"ld.global.b{bits} %{name}, [%row+{first + 8 * index}];")
    return lines


FACT_BITS = {
    "handle": 64, "texels": 64, "x": 32, "y": 32, "inside_x": 32, "inside_y": 32, "texel_x": 32, "texel_y": 32,
    "float_x": 32, "float_y": 32,
}  # fmt: skip
"""Columns behind those of the operands: a descriptor's address, the texels that belong to the thread, coordinates."""


def row_stride() -> int:
    """Bytes of a row of `in`."""
    return -(-8 * (len(COLUMNS) * PLACES + len(FACT_BITS)) // 32) * 32
