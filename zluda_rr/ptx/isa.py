"""The instruction table: one place for operand directions, types and the manual's page.

The data is `instructions.toml`. Def-use, the validity check, the oracle, the lowering and docs/instructions.md read
it from here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"


@dataclass(frozen=True, slots=True)
class OperandForm:
    """One operand: name as in the manual, whether it is written and read, and its type (`f16x2`) or role.

    For a vector the type is that of an element. Roles: "address", "coordinates", "label", "function", "params", "any".
    """

    name: str
    written: bool
    read: bool
    type: str


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction's form; `fields` maps the pattern's named modifiers (`T`, `S`, …) to what this instruction has."""

    opcode: str
    syntax: str
    section: str
    operands: tuple[OperandForm, ...]
    fields: Mapping[str, str]

    @property
    def link(self) -> str:
        """Address of the manual's page."""
        return page_link(self.section)


@dataclass(frozen=True, slots=True)
class ModifierPattern:
    """One modifier of a form: the words it may be, its name if it has one."""

    name: str
    words: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line of the table. `required` is the number of operands that must be there."""

    opcode: str
    syntax: str
    section: str
    modifiers: tuple[ModifierPattern, ...]
    operands: tuple[OperandForm, ...]
    required: int

    def match(self, modifiers: Sequence[str], n_operands: int | None) -> Form | None:
        """The form with its types filled in, or None."""
        if n_operands is not None and not self.required <= n_operands <= len(self.operands):
            return None
        taken = _assign(self.modifiers, modifiers)
        if taken is None:
            return None
        fields = {p.name: word for p, word in zip(self.modifiers, taken, strict=True) if p.name and word}
        operands = tuple(
            OperandForm(o.name, o.written, o.read, _type(o.type, fields)) for o in self.operands[:n_operands]
        )
        return Form(self.opcode, self.syntax, self.section, operands, fields)


_SPECIAL = re.compile(
    r"%(?:(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)(?:\.[xyzw])?|laneid|n?warpid|n?smid|gridid"
    r"|cluster_n?ctarank|is_explicit_cluster|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|pm[0-7](?:_64)?|envreg\d+"
    r"|globaltimer(?:_lo|_hi)?|reserved_smem_offset_\w+|(?:total|aggr|dynamic)_smem_size|current_graph_exec)"
)
READ_ANY = OperandForm("", written=False, read=True, type="any")


def lookup(opcode: str, modifiers: Sequence[str], n_operands: int | None = None) -> Form | None:
    """The form of an instruction, or None when the table does not have it.

    `modifiers` in any order the text has; without `n_operands` the first form that fits the modifiers.
    """
    for pattern in table().get(opcode, ()):
        form = pattern.match(modifiers, n_operands)
        if form is not None:
            return form
    return None


def knows(opcode: str) -> bool:
    """Does the table have any form of the opcode."""
    return opcode in table()


def is_special_register(name: str) -> bool:
    """`%tid.x`, `%laneid`, …: read-only registers that no module declares (PTX ISA, Special Registers)."""
    return _SPECIAL.fullmatch(name) is not None


@cache
def patterns() -> tuple[Pattern, ...]:
    """The table's lines in the order of the file."""
    data = tomllib.loads(files(__package__).joinpath("instructions.toml").read_text(encoding="utf-8"))
    return tuple(parse_form(syntax, g["title"], data["sets"]) for g in data["group"] for syntax in g["forms"])


@cache
def table() -> Mapping[str, tuple[Pattern, ...]]:
    """The table by opcode."""
    found: dict[str, list[Pattern]] = {}
    for pattern in patterns():
        found.setdefault(pattern.opcode, []).append(pattern)
    return {opcode: tuple(forms) for opcode, forms in found.items()}


def page_link(section: str) -> str:
    """`Logic and Shift Instructions: lop3` is the anchor `#logic-and-shift-instructions-lop3`."""
    return MANUAL + "#" + re.sub(r"[^a-z0-9]+", "-", section.lower())


# ---------------------------------------------------------------------------------------------------- reading the table

_MODIFIER = re.compile(r"(\[)?\.(?:([A-Z]\w*)?\{([^}]*)\}|([\w:]+))\]?")
_OPERAND = re.compile(r"(\[)?(\w+):([=+]?)([\w()]+)\]?")


def parse_form(syntax: str, title: str, sets: Mapping[str, str]) -> Pattern:
    """One line of the table. A malformed line raises ValueError."""
    head = re.match(r"[a-z]\w*", syntax)
    if head is None:
        raise ValueError(f"no opcode in {syntax!r}")
    position = head.end()
    modifiers = []
    while position < len(syntax) and syntax[position] != " ":
        found = _MODIFIER.match(syntax, position)
        if found is None:
            raise ValueError(f"bad modifier in {syntax!r} at {position}")
        optional, name, words, word = found.groups()
        choices = tuple(_expand(words, sets)) if word is None else (word,)
        modifiers.append(ModifierPattern(name or "", choices, bool(optional)))
        position = found.end()
    operands = []
    required = 0
    for text in syntax[position:].split():
        found = _OPERAND.fullmatch(text)
        if found is None:
            raise ValueError(f"bad operand {text!r} in {syntax!r}")
        optional, name, direction, type_name = found.groups()
        operands.append(OperandForm(name, direction != "", direction != "=", type_name))
        required += not optional
    section = f"{title}: {head.group()}"
    return Pattern(head.group(), syntax, section, tuple(modifiers), tuple(operands), required)


def _expand(words: str, sets: Mapping[str, str]) -> list[str]:
    return [w for word in words.split() for w in (sets[word[1:]].split() if word[0] == "@" else [word])]


def _assign(patterns: tuple[ModifierPattern, ...], modifiers: Sequence[str]) -> list[str] | None:
    """Which word each pattern takes ("" for an absent optional one): each word goes to the first free pattern with
    it."""
    taken = [""] * len(patterns)
    for word in modifiers:
        for index, pattern in enumerate(patterns):
            if not taken[index] and word in pattern.words:
                taken[index] = word
                break
        else:
            return None
    if any(not word and not pattern.optional for word, pattern in zip(taken, patterns, strict=True)):
        return None
    return taken


def _type(declared: str, fields: Mapping[str, str]) -> str:
    if declared.startswith("wide("):
        base = fields[declared[5:-1]]
        return f"{base[0]}{2 * int(base[1:])}"
    return fields.get(declared, declared)


# ---------------------------------------------------------------------------------------------------------------- calls


def call_operands(kinds: Sequence[str]) -> tuple[OperandForm, ...]:
    """Directions of a call's operands from their structure: the first group before the function is written."""
    operands = [READ_ANY] * len(kinds)
    if len(kinds) > 1 and kinds[0] == "group":
        operands[0] = OperandForm("return", written=True, read=False, type="params")
    return tuple(operands)
