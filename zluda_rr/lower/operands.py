"""Whether a statement's operands have the types that the instruction table says, before anything is emitted."""

from __future__ import annotations

from collections.abc import Iterator

from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.scalar import is_scalar, width
from zluda_rr.ptx import Immediate, Negated, Operand, Pair, Register, Statement, Symbol, Vector

# A register of these may be wider than the type, where the type is an integer's or of bits (PTX ISA, Operand Size
# Exceeding Instruction-Type Size).
_WIDENING = frozenset({"ld", "ldu", "st", "suld", "sust", "cvt"})
_NEGATABLE = frozenset({"set", "setp", "selp", "vote"})
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})


def check(e: Emitter, s: Statement) -> None:
    """Refuse an instruction that the table does not have, and operands of another kind or width than its types."""
    form = s.form
    if form is None:
        raise e.refuse(s, "not in the instruction table with these operands")
    if s.opcode == "call":  # its operands have no types here
        return
    for operand, declared in zip(s.operands, form.operands, strict=True):
        kind = "b32" if s.opcode == "mma" else declared.type  # only the e4m3 form gets further: packed words
        if is_scalar(kind):
            for part, part_kind in _parts(e, s, operand, kind):
                _scalar(e, s, part, part_kind)


def _parts(e: Emitter, s: Statement, operand: Operand, kind: str) -> Iterator[tuple[Operand, str]]:
    """Scalars of an operand with their types."""
    if isinstance(operand, Pair):
        second = "pred" if s.opcode in ("setp", "shfl") else kind
        yield from ((operand.first, kind), (operand.second, second))
    elif not isinstance(operand, Vector):
        yield operand, kind
    elif s.opcode != "mov":
        yield from ((part, kind) for part in operand.elements)
    else:
        bits, rest = divmod(width(kind), len(operand.elements))
        if rest or not is_scalar(f"b{bits}") or kind == "pred":
            raise e.refuse(s, f"{len(operand.elements)} parts of {width(kind)} bits")
        yield from ((part, f"b{bits}") for part in operand.elements)


def _scalar(e: Emitter, s: Statement, operand: Operand, kind: str) -> None:
    if isinstance(operand, Negated):
        if kind != "pred" or s.opcode not in _NEGATABLE:
            raise e.refuse(s, "a negated operand")
        operand = operand.operand
    if isinstance(operand, Immediate):
        _constant(e, s, operand, kind)
    elif isinstance(operand, Register):
        declared = e.body.registers.get(operand.name)
        if declared is not None and not is_scalar(declared):
            raise e.refuse(s, f"register {operand.name} of type .{declared}")
        _register(e, s, operand.name, 32 if declared is None else width(declared), kind)
    elif not isinstance(operand, Symbol):
        raise e.refuse(s, "operand")


def _constant(e: Emitter, s: Statement, constant: Immediate, kind: str) -> None:
    """Integers are no floating-point operands; a floating-point constant is converted for f32 and f64 only."""
    if constant.kind == "int":
        fits = kind not in _FLOATS
    else:
        fits = kind in ("f32", "f64") or width(kind) == (32 if constant.kind == "f32" else 64)
    if not fits:
        raise e.refuse(s, f"constant {constant.text} as .{kind}")


def _register(e: Emitter, s: Statement, name: str, bits: int, kind: str) -> None:
    wanted = width(kind)
    if s.opcode in _WIDENING and kind not in _FLOATS and kind != "pred" and 1 < wanted <= bits:
        return
    # A special register is read as 32 bits; a narrower move takes its low half.
    if bits != wanted and not (name not in e.body.registers and 1 < wanted < bits):
        raise e.refuse(s, f"register {name} of {bits} bits as .{kind}")
