"""Other words in an instruction's text: its registers by their place in the tree, never by what the text looks like."""

from __future__ import annotations

from collections.abc import Mapping

from .nodes import Instruction
from .scan import WORD, blank_comments
from .statements import Statement


def rename_reads(statement: Statement, names: Mapping[str, str]) -> str:
    """The statement's text reading other registers. `names` are by resolved name (`low@3`); results keep theirs.

    Raises ValueError where a register that is to be renamed is read in a way that the text does not show.
    """
    instruction = statement.instruction
    if instruction is None:
        raise ValueError(f"s{statement.number} is a label")
    guard, words = _spans(instruction)
    changes: list[tuple[int, int, str]] = []
    renamed = set()
    for index in sorted(set(instruction.shape.reads)):
        name = statement.words[index]
        if name in names:
            changes.append((*words[index], names[name]))
            renamed.add(name)
    if statement.guard is not None and statement.guard.register in names:
        changes.append((*guard, names[statement.guard.register]))
        renamed.add(statement.guard.register)
    missing = sorted(name for name in names if name not in renamed and name in statement.uses)
    if missing:
        raise ValueError(f"s{statement.number} reads {missing[0]} in a form that cannot be renamed")
    text = instruction.text
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def on_one_line(statement: Statement) -> str:
    """The statement's text without comments and line ends."""
    return " ".join(blank_comments(statement.text).split())


def with_modifier(instruction: Instruction, modifier: str) -> str:
    """The instruction's text with `.modifier` right behind its opcode."""
    text = blank_comments(instruction.text)
    start = _spans(instruction)[0][1] if instruction.guard is not None else 0
    at = text.index(instruction.opcode, start) + len(instruction.opcode)
    return f"{instruction.text[:at]}.{modifier}{instruction.text[at:]}"


def _spans(instruction: Instruction) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Where the guard's register (0, 0 for none) and each of the instruction's words stand in its text."""
    found = list(WORD.finditer(blank_comments(instruction.text)))
    words = found[len(found) - len(instruction.words) :]
    if tuple(word.group() for word in words) != instruction.words:
        raise ValueError(f"line {instruction.span.line}: the words of {instruction.shape.spelling} are not in its text")
    guard = found[0].span() if instruction.guard is not None else (0, 0)
    return guard, [word.span() for word in words]
