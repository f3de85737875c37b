"""Builds PTX kernels instruction by instruction from the operands of the syntax tree, as nvcc lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zluda_rr.ptx import Address, Group, Immediate, Negated, Operand, Pair, Register, Symbol, Vector

_PREFIX = {"pred": "%p", "b16": "%rs", "b32": "%r", "f32": "%f", "b64": "%rd"}


def number(value: int) -> Immediate:
    """An integer constant."""
    return Immediate(str(value), "int", value)


def operand_text(operand: Operand) -> str:
    """PTX of an operand."""
    match operand:
        case Register(name):
            return name
        case Immediate(text):
            return text
        case Symbol(name, offset):
            return f"{name}+{offset}" if offset else name
        case Vector(elements):
            return "{" + ", ".join(map(operand_text, elements)) + "}"
        case Address(base, offset):
            assert base is not None
            return f"[{operand_text(base)}+{offset}]" if offset else f"[{operand_text(base)}]"
        case Pair(first, second):
            return f"{operand_text(first)}|{operand_text(second)}"
        case Negated(inner):
            return f"!{operand_text(inner)}"
        case Group(elements):
            return "(" + ", ".join(map(operand_text, elements)) + ")"
    raise TypeError(f"no text for {operand}")


class Builder:
    """The body of one entry. Registers are numbered by type, declared at its head."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._lines: list[str] = []
        self._counts = dict.fromkeys(_PREFIX, 0)
        self._labels = 0
        self._local: list[dict[str, int]] = []

    def register(self, kind: str = "b32") -> Register:
        """A new register; inside `scope` one that only the scope knows."""
        if self._local:
            counts = self._local[-1]
            counts[kind] = counts.get(kind, 0) + 1
            return Register(f"{_PREFIX[kind][1:]}l{len(self._local)}_{counts[kind]}")
        self._counts[kind] += 1
        return Register(f"{_PREFIX[kind]}{self._counts[kind]}")

    def outer_registers(self, kind: str, count: int) -> list[Register]:
        """New registers of the whole kernel, also inside a scope."""
        local, self._local = self._local, []
        found = [self.register(kind) for _ in range(count)]
        self._local = local
        return found

    def put(self, opcode: str, *operands: Operand | int, guard: Register | Negated | None = None) -> None:
        """One instruction."""
        texts = [operand_text(number(o) if isinstance(o, int) else o) for o in operands]
        lead = "" if guard is None else f"@{operand_text(guard)} "
        self._lines.append(f"\t{lead}{opcode} \t{', '.join(texts)};" if texts else f"\t{lead}{opcode};")

    def set(self, opcode: str, *operands: Operand | int, kind: str = "b32") -> Register:
        """One instruction with a new register as its result."""
        target = self.register(kind)
        self.put(opcode, target, *operands)
        return target

    def label(self) -> str:
        """A new label's name; `place` puts it."""
        self._labels += 1
        return f"$L__BB{self._index}_{self._labels}"

    def place(self, label: str) -> None:
        """A label."""
        self._lines.append(f"{label}:")

    def comment(self, text: str) -> None:
        """A comment line."""
        self._lines.append(f"\t// {text}")

    @contextmanager
    def scope(self, hidden: Sequence[Register] = ()) -> Iterator[None]:
        """A block with registers of its own, between the markers of inline assembly; `hidden` are names of the kernel's
        b32 registers that it declares again.
        """
        outer, self._lines = self._lines, []
        self._local.append({})
        yield
        counts, inner = self._local.pop(), self._lines
        level = len(self._local) + 1
        outer += ["\t// begin inline asm", "\t{", *(f"\t.reg .b32 {register.name};" for register in hidden)]
        for kind, count in counts.items():
            names = ", ".join(f"{_PREFIX[kind][1:]}l{level}_{i + 1}" for i in range(count))
            outer.append(f"\t.reg .{kind} {names};")
        self._lines = [*outer, *inner, "\t}", "\t// end inline asm"]

    def call(self, function: str, arguments: Sequence[Operand]) -> Register:
        """A call as nvcc writes it, in a scope with its parameters; the result."""
        result = self.register()
        self._lines += ["\t{ // callseq", "\t.reg .b32 temp_param_reg;"]
        for i, argument in enumerate(arguments):
            self._lines += [f"\t.param .b32 param{i};", f"\tst.param.b32 \t[param{i}+0], {operand_text(argument)};"]
        names = Group(tuple(Symbol(f"param{i}") for i in range(len(arguments))))
        self._lines.append("\t.param .b32 retval0;")
        self.put("call.uni", Group((Symbol("retval0"),)), Symbol(function), names)
        self.put("ld.param.b32", result, Address(Symbol("retval0"), 0))
        self._lines.append("\t} // callseq")
        return result

    def entry(self, name: str, parameters: Sequence[tuple[str, str]]) -> str:
        """The whole entry."""
        listed = ",\n".join(f"\t.param .{kind} {name}_param_{field}" for kind, field in parameters)
        declared = [f"\t.reg .{k} \t{_PREFIX[k]}<{n + 1}>;" for k, n in self._counts.items() if n]
        return "\n".join(
            (f".visible .entry {name}(\n{listed}\n)\n{{", *declared, "", *self._lines, "\tret;", "", "}\n")
        )
