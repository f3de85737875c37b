"""How a line of the instruction table is written on the reference page."""

from . import isa


def form_text(pattern: isa.Pattern) -> str:
    """Opcode and modifiers: `add[.sat].T{u16 u32}`."""
    return pattern.opcode + "".join(map(_modifier, pattern.modifiers))


def _modifier(modifier: isa.ModifierPattern) -> str:
    words = " ".join(modifier.words)
    text = f".{modifier.name}{{{words}}}" if modifier.name or len(modifier.words) > 1 else f".{words}"
    return f"[{text}]" if modifier.optional else text


def operands_text(pattern: isa.Pattern) -> str:
    """Operands with their types: `→ d: T, a: T`."""
    shown = []
    for index, operand in enumerate(pattern.operands):
        arrow = "→ " if operand.written and not operand.read else "↔ " if operand.written else ""
        text = f"{arrow}{operand.name}: {operand.type}"
        shown.append(f"[{text}]" if index >= pattern.required else text)
    return ", ".join(shown) or "–"
