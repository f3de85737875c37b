"""Writing LLVM IR text for one kernel: temporaries, PTX registers, basic blocks, operands."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from zluda_rr.lower.modifiers import Modifiers
from zluda_rr.lower.problem import LoweringError, unsupported
from zluda_rr.lower.scalar import is_float, is_signed, llvm_type, width
from zluda_rr.ptx import Body, Function, Immediate, Negated, Operand, Pair, Register, Statement, Symbol, VarDecl, Vector

# Values of PTX's special registers as IR calls; zrt_ functions are in kernels/ptx_runtime.hip.
_SPECIAL = {
    "%laneid": "call i32 @zrt_lane_id()",
    **{f"%lanemask_{name}": f"call i32 @zrt_lanemask_{name}()" for name in ("eq", "lt", "le", "gt", "ge")},
    **{f"%tid.{axis}": f"call i32 @llvm.amdgcn.workitem.id.{axis}()" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"call i32 @llvm.amdgcn.workgroup.id.{axis}()" for axis in "xyz"},
    **{f"%ntid.{axis}": f"call i32 @zrt_block_size_{axis}()" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"call i32 @zrt_grid_size_{axis}()" for axis in "xyz"},
}
WARP_SIZE = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a whole kernel.

    `flush`: the kernel's mode flushes f32 denormals, so `.ftz` needs no code. `block`: threads of a block (x, y, z)
    where the kernel fixes them (.reqntid). `shared`: LLVM globals of the variables in shared memory. `functions`: those
    called ones that the module defines, `function_names` their names in LLVM.
    """

    filename: str
    flush: bool
    block: tuple[int, int, int] | None
    shared: Mapping[VarDecl, str]
    functions: Mapping[str, Function]
    function_names: Mapping[str, str]


class Emitter:
    """State of the function being written.

    Every PTX register is an alloca that LLVM promotes; within a basic block the last value written or read is reused
    directly, which keeps the text short. No PTX name becomes a local LLVM name: those are cut at some length.
    """

    def __init__(self, body: Body, settings: Settings) -> None:
        self.body = body
        self.settings = settings
        self.statement: Statement | None = None
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._values: dict[str, str] = {}
        self.slots: dict[str, int] = {}
        self._slot_names: dict[str, str] = {}
        self._labels = {name: f"l{index}" for index, name in enumerate(body.labels)}
        self.params = {param.name: f"%p{index}" for index, param in enumerate(body.function.params)}
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

    def call(self, result: str, name: str, *arguments: tuple[str, str], local: bool = False) -> str:
        """Call `name` with (type, value) arguments, return the result's name ("" for void).

        Declares it, unless it is `local`: defined in the same text.
        """
        if not local:
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
        return self._slot_names.setdefault(name, f"%v{len(self._slot_names)}")

    def label(self, name: str) -> str:
        """LLVM block of a PTX label."""
        return self._labels[name]

    def shared_variable(self, name: str) -> str:
        """LLVM global of a variable in shared memory, "" where the name is none."""
        variable = self.body.variables.get(name)
        return "" if variable is None else self.settings.shared.get(variable, "")

    def address_of(self, statement: Statement, symbol: Symbol, bits: int) -> str:
        """Address of a shared variable (LDS offset) or a kernel parameter, plus the symbol's offset."""
        shared = self.shared_variable(symbol.name)
        if shared:
            base = self.op(f"ptrtoint ptr addrspace(3) {shared} to i32")
            value = self.resize(base, 32, bits)
        elif symbol.name in self.params and self.body.function.kind == "entry":
            value = self.resize(self.op(f"ptrtoint ptr addrspace(4) {self.params[symbol.name]} to i64"), 64, bits)
        else:
            raise self.refuse(statement, f"address of {symbol.name}")
        return self.op(f"add i{bits} {value}, {symbol.offset}") if symbol.offset else value

    # ------------------------------------------------------------------------------------------------ operands

    def integer(self, operand: Operand, bits: int, *, floating: bool = False) -> str:
        """Value of an operand as an integer of `bits`; a wider register is truncated, a narrower zero-extended.

        `floating`: the bits are those of a float, to which floating-point constants of another width are converted.
        """
        if isinstance(operand, Immediate):
            return self._immediate(operand, bits, floating)
        if isinstance(operand, Negated):
            return self.op(f"xor i1 {self.integer(operand.operand, 1)}, true")
        if isinstance(operand, Register) and operand.name in self.body.registers:
            return self.resize(self.read(operand.name), self.register_width(operand.name), bits)
        if isinstance(operand, Register | Symbol):
            return self._special(operand.name, bits)
        raise self.refuse(self.statement, f"operand {operand}")

    def _immediate(self, operand: Immediate, bits: int, floating: bool) -> str:
        value = operand.value
        if operand.kind != "int" and bits != (have := 32 if operand.kind == "f32" else 64):
            if not floating:
                raise self.refuse(self.statement, f"constant {operand.text} of another width")
            value = _f32_bits(value) if have == 64 else _f64_bits(value)
        return str(value & ((1 << bits) - 1)) if bits > 1 else ("true" if value else "false")

    def _special(self, name: str, bits: int) -> str:
        if name == "WARP_SZ":
            return str(WARP_SIZE)
        if name.startswith("%ntid.") and self.settings.block is not None:
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

    def integer_of(self, operand: Operand, kind: str) -> str:
        """Bits of an operand of PTX type `kind`: a floating-point constant is converted to it."""
        return self.integer(operand, width(kind), floating=kind in ("f32", "f64"))

    def value(self, operand: Operand, kind: str) -> str:
        """Value of an operand as PTX type `kind`, of LLVM type `llvm_type(kind)`."""
        bits = width(kind)
        value = self.integer_of(operand, kind)
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

    def kind(self, statement: Statement, modifiers: Modifiers, allowed: Collection[str]) -> str:
        """The statement's only type, taken; refuses none, several, and one that is not `allowed`."""
        kinds = modifiers.types()
        if len(kinds) != 1 or kinds[0] not in allowed:
            raise self.refuse(statement, " ".join(f".{kind}" for kind in kinds) or "its type")
        return kinds[0]

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


def _f64_bits(single_bits: int) -> int:
    """An f32 constant as f64."""
    (value,) = struct.unpack("<f", single_bits.to_bytes(4, "little"))
    return int.from_bytes(struct.pack("<d", value), "little")


def operand_elements(operand: Operand) -> tuple[Operand, ...]:
    """Elements of `{a, b}`, or the operand alone."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def pair_elements(operand: Operand) -> tuple[Operand, Operand | None]:
    """The two results of `%r1|%p1`, or the operand and None."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
