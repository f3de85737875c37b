"""The reference page docs/instructions.md, made from the instruction table.

`python -m zluda_rr.ptx.page > docs/instructions.md` rewrites it; a test fails when it is stale.
"""

from collections.abc import Iterator

from . import isa

_HEAD = """# PTX instructions

Made from `zluda_rr/ptx/instructions.toml` by `python -m zluda_rr.ptx.page`; do not edit.

The table drives the validity check, definitions and uses of registers, the PTX oracle and the lowering. An instruction
that is not in it still parses and prints; an analysis that would have to know it says so by name. Sections are those of
the PTX ISA manual 9.0.

`[…]` is optional, `{a b}` a choice, `.T{…}` a choice that operand types refer to. The order of modifiers in a module
does not matter. `→` marks what an instruction writes; roles: address, coordinates, label, function, params, any.
"""


def instruction_page() -> str:
    """The page's whole text."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield from _HEAD.splitlines()
    section = ""
    for pattern in isa.patterns():
        title = pattern.section.partition(":")[0]
        if title != section:
            section = title
            yield ""
            yield f"## {title}"
            yield ""
            yield "| instruction | form | operands |"
            yield "|---|---|---|"
        yield f"| [{pattern.opcode}]({isa.page_link(pattern.section)}) | `{_form(pattern)}` | {_operands(pattern)} |"


def _form(pattern: isa.Pattern) -> str:
    return pattern.opcode + "".join(map(_modifier, pattern.modifiers))


def _modifier(modifier: isa.ModifierPattern) -> str:
    words = " ".join(modifier.words)
    text = f".{modifier.name}{{{words}}}" if modifier.name or len(modifier.words) > 1 else f".{words}"
    return f"[{text}]" if modifier.optional else text


def _operands(pattern: isa.Pattern) -> str:
    shown = []
    for index, operand in enumerate(pattern.operands):
        arrow = "→ " if operand.written and not operand.read else "↔ " if operand.written else ""
        text = f"{arrow}{operand.name}: {operand.type}"
        shown.append(f"[{text}]" if index >= pattern.required else text)
    return ", ".join(shown) or "–"


if __name__ == "__main__":
    print(instruction_page(), end="")
