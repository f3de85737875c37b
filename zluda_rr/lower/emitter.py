"""Writing LLVM IR text for one kernel: temporaries, PTX registers, basic blocks, operands."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zluda_rr.lower.modifiers import Modifiers
from zluda_rr.lower.problem import LoweringError, unsupported
from zluda_rr.lower.scalar import is_float, is_signed, llvm_type, width
from zluda_rr.ptx import Body, Immediate, Negated, Operand, Pair, Register, Statement, Symbol, Vector

# Values of PTX's special registers as IR calls; zrt_ functions are in kernels/ptx_runtime.hip.
_SPECIAL = {
    "%laneid": "call i32 @zrt_lane_id()",
    **{f"%tid.{axis}": f"call i32 @llvm.amdgcn.workitem.id.{axis}()" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"call i32 @llvm.amdgcn.workgroup.id.{axis}()" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"call i32 @zrt_grid_size_{axis}()" for axis in "xyz"},
}
WARP_SIZE = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a whole kernel.

    `flush`: the kernel's mode flushes f32 denormals, so `.ftz` needs no code. `block`: threads of a block (x, y, z).
    """

    filename: str
    flush: bool
    block: tuple[int, int, int]


class Emitter:
    """State of the kernel being written.

    Every PTX register is an alloca that LLVM promotes; within a basic block the last value written or read is reused
    directly, which keeps the text short.
    """

    def __init__(self, body: Body, settings: Settings) -> None:
        self.body = body
        self.settings = settings
        self.statement: Statement | None = None
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._values: dict[str, str] = {}
        self.slots: dict[str, int] = {}
        self._count = 0
        self._blocks = 0
        self.open = True

    # ------------------------------------------------------------------------------------------------ text

    def line(self, text: str) -> None:
        """Append one instruction without a result."""
        self.lines.append(f"  {text}")

    def op(self, text: str) -> str:
        """Append `text` as an instruction with a result and return the result's name."""
        self._count += 1
        self.lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call `name` with (type, value) arguments, declare it, return the result's name ("" for void)."""
        self.declarations.add(f"declare {result} @{name}({', '.join(kind for kind, _ in arguments)})")
        text = f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.op(text)

    # ------------------------------------------------------------------------------------------------ blocks

    def fresh_block(self) -> str:
        """A block name that is not used yet."""
        self._blocks += 1
        return f"b{self._blocks}"

    def start_block(self, name: str, *, keep: Mapping[str, str] | None = None) -> None:
        """Begin block `name`, falling through from an open one; `keep`: register values that still hold."""
        if self.open:
            self.line(f'br label %"{name}"')
        self.lines.append(f'"{name}":')
        self._values = dict(keep or {})
        self.open = True

    def end_block(self, terminator: str) -> None:
        """Close the block with a terminator."""
        self.line(terminator)
        self.open = False

    def guarded(self, condition: str, body: Callable[[], None]) -> None:
        """Emit `body` under `condition` (an i1)."""
        inside, after = self.fresh_block(), self.fresh_block()
        before = dict(self._values)
        self.end_block(f'br i1 {condition}, label %"{inside}", label %"{after}"')
        self.start_block(inside, keep=before)
        body()
        kept = {name: value for name, value in before.items() if self._values.get(name) == value}
        if not self.open:
            self.lines.append(f'"{after}":')
            self._values, self.open = kept, True
            return
        self.start_block(after, keep=kept)

    # ------------------------------------------------------------------------------------------------ registers

    def register_width(self, name: str) -> int:
        """Bits of a declared register."""
        return width(self.body.registers[name])

    def read(self, name: str) -> str:
        """Integer value of a declared register, of its own width."""
        if name not in self._values:
            bits = self.register_width(name)
            self._values[name] = self.op(f"load i{bits}, ptr addrspace(5) {self.slot(name, bits)}")
        return self._values[name]

    def write(self, name: str, value: str) -> None:
        """Set a declared register to an integer value of its width."""
        bits = self.register_width(name)
        self.line(f"store i{bits} {value}, ptr addrspace(5) {self.slot(name, bits)}")
        self._values[name] = value

    def slot(self, name: str, bits: int) -> str:
        """Address of a stack variable of `bits`, made on first use; LLVM promotes it."""
        self.slots[name] = bits
        return f'%"{name}"'

    # ------------------------------------------------------------------------------------------------ operands

    def integer(self, operand: Operand, bits: int) -> str:
        """Value of an operand as an integer of `bits`; a wider register is truncated, a narrower zero-extended."""
        if isinstance(operand, Immediate):
            return self._immediate(operand, bits)
        if isinstance(operand, Negated):
            return self.op(f"xor i1 {self.integer(operand.operand, 1)}, true")
        if isinstance(operand, Register) and operand.name in self.body.registers:
            return self.resize(self.read(operand.name), self.register_width(operand.name), bits)
        if isinstance(operand, Register | Symbol):
            return self._special(operand.name, bits)
        raise self.refuse(self.statement, f"operand {operand}")

    def _immediate(self, operand: Immediate, bits: int) -> str:
        value = operand.value
        if operand.kind == "f64" and bits == 32:
            value = _f32_bits(value)
        elif operand.kind != "int" and bits != (32 if operand.kind == "f32" else 64):
            raise self.refuse(self.statement, f"constant {operand.text} of another width")
        return str(value & ((1 << bits) - 1)) if bits > 1 else ("true" if value else "false")

    def _special(self, name: str, bits: int) -> str:
        if name == "WARP_SZ":
            return str(WARP_SIZE)
        if name.startswith("%ntid."):
            return str(self.settings.block["xyz".index(name[-1])])
        if name not in _SPECIAL:
            raise self.refuse(self.statement, f"special register {name}")
        text = _SPECIAL[name]
        self.declarations.add("declare " + text.removeprefix("call "))
        return self.resize(self.op(text), 32, bits)

    def resize(self, value: str, have: int, want: int, *, signed: bool = False) -> str:
        """Truncate or extend an integer."""
        if have == want:
            return value
        how = "trunc" if have > want else "sext" if signed else "zext"
        return self.op(f"{how} i{have} {value} to i{want}")

    def value(self, operand: Operand, kind: str) -> str:
        """Value of an operand as PTX type `kind`, of LLVM type `llvm_type(kind)`."""
        bits = width(kind)
        value = self.integer(operand, bits)
        return self.op(f"bitcast i{bits} {value} to {llvm_type(kind)}") if is_float(kind) else value

    def set(self, operand: Operand, value: str, kind: str) -> None:
        """Write a value of PTX type `kind` to a register; a wider register receives its extension."""
        if isinstance(operand, Symbol) and operand.name == "_":
            return
        if not isinstance(operand, Register) or operand.name not in self.body.registers:
            raise self.refuse(self.statement, f"destination {operand}")
        if is_float(kind):
            value = self.op(f"bitcast {llvm_type(kind)} {value} to i{width(kind)}")
        have = self.register_width(operand.name)
        self.write(operand.name, self.resize(value, width(kind), have, signed=is_signed(kind)))

    def vector(self, elements: tuple[str, ...], kind: str) -> str:
        """An LLVM vector of integer values of type `kind`."""
        vector = f"<{len(elements)} x {kind}>"
        value = "poison"
        for index, element in enumerate(elements):
            value = self.op(f"insertelement {vector} {value}, {kind} {element}, i32 {index}")
        return value

    def elements(self, vector: str, kind: str, count: int) -> list[str]:
        """The elements of an LLVM vector."""
        return [self.op(f"extractelement <{count} x {kind}> {vector}, i32 {i}") for i in range(count)]

    # ------------------------------------------------------------------------------------------------ errors

    def modifiers(self, statement: Statement) -> Modifiers:
        """The statement's modifiers, to be taken one by one and then passed to `finish`."""
        return Modifiers(statement)

    def finish(self, statement: Statement, modifiers: Modifiers) -> None:
        """Refuse a statement of which some modifier was not understood."""
        if modifiers.left:
            raise self.refuse(statement, f"{modifiers.left} unknown here")

    def refuse(self, statement: Statement | None, why: str = "") -> LoweringError:
        """The error for a statement that cannot be lowered."""
        return unsupported(self.settings.filename, statement, why)


def _f32_bits(double_bits: int) -> int:
    """An f64 constant (`1.5`, `0d…`) as the f32 that PTX makes of it."""
    (value,) = struct.unpack("<d", double_bits.to_bytes(8, "little"))
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F80_0000 | int(value < 0) << 31


def operand_elements(operand: Operand) -> tuple[Operand, ...]:
    """Elements of `{a, b}`, or the operand alone."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def pair_elements(operand: Operand) -> tuple[Operand, Operand | None]:
    """The two results of `%r1|%p1`, or the operand and None."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
