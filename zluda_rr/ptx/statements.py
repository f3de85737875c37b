"""Statement numbering and name resolution of one function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .nodes import Function, Guard, Instruction, Module, Operand, VarDecl


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """Statement `number` (s1, s2, …): an instruction or a label, with names resolved.

    Names declared in an inner scope get `@n`, n the ordinal of the scope in the function (`low@3`), so a name means one
    register everywhere in the function. The same holds for variables and labels of inner scopes.
    """

    number: int
    line: int
    instruction: Instruction | None
    label: str | None
    words: tuple[str, ...]  # the instruction's words, resolved
    guard: Guard | None
    defs: tuple[str, ...]  # registers written
    uses: tuple[str, ...]  # registers read, incl. guard and address bases; special registers are not listed
    known: bool  # False: not in the instruction table; then defs is () and every register is in uses

    @property
    def opcode(self) -> str:
        """`""` for a label."""
        raise NotImplementedError

    @property
    def modifiers(self) -> tuple[str, ...]:
        """`()` for a label."""
        raise NotImplementedError

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Operands with resolved names; scope-declared names are Registers here."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """Source text without leading trivia."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The linearised body of a function; `statements[i]` has number i + 1."""

    function: Function
    statements: tuple[Statement, ...]
    registers: Mapping[str, str]  # unique name -> type without dot
    variables: Mapping[str, VarDecl]  # unique name -> declaration; with `module` also its module-scope variables
    labels: Mapping[str, int]  # unique name -> statement number

    def __getitem__(self, number: int) -> Statement:
        """Statement by number."""
        return self.statements[number - 1]


def linearise(function: Function, module: Module | None = None) -> Body:
    """Number the statements of a function that has a body."""
    raise NotImplementedError
