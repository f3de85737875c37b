"""The instruction table: one place for operand directions, types and the manual's section."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperandForm:
    """One operand: name as in the manual, whether it is written and read, its type (`f16x2`), or a role.

    Roles instead of a type: "label", "address", "coordinates", "function", "any".
    """

    name: str
    written: bool
    read: bool
    type: str


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form; `fields` maps the pattern's named modifier groups to what the instruction has."""

    opcode: str
    syntax: str
    section: str
    operands: tuple[OperandForm, ...]
    fields: tuple[tuple[str, str], ...]


def lookup(opcode: str, modifiers: tuple[str, ...], n_operands: int | None = None) -> Form | None:
    """The form of an instruction, or None when the table does not have it."""
    raise NotImplementedError
