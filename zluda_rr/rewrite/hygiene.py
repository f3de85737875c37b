"""What a splice takes for granted about names, scopes and loops, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zluda_rr.errors import UserError
from zluda_rr.ptx import Address, Body, Module, Statement, Symbol, print_module

from .match import Kernel

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OWN = re.compile(r"\bzrr_\w*")
_IMAGE = "%zrr_image"


def refuse_own_names(module: Module) -> None:
    """UserError for a module that uses names starting with `zrr_`: the inserted text could mean others by them."""
    found = _OWN.search(_COMMENT.sub("", print_module(module)))
    if found is not None:
        raise UserError(
            f"{module.filename}: it already uses {found.group()}; zrr_ names are for rewritten modules only"
        )


def refuse_shadowed_calls(filename: str, body: Body) -> None:
    """UserError where an inserted call stands in a scope whose registers hide those it passes or reloads."""
    for statement in body.statements:
        names = (*statement.defs, *statement.uses)
        if not _passes_argument(statement) and not any(name.startswith(_IMAGE) for name in statement.uses):
            continue
        hidden = next((name for name in names if "@" in name and not name.startswith("%zrr_")), None)
        if hidden is not None:
            raise UserError(
                f"{filename}: the calls would stand in a scope that declares {hidden.partition('@')[0]} itself"
            )


def _passes_argument(statement: Statement) -> bool:
    if statement.opcode != "st" or "param" not in statement.modifiers:
        return False
    target = statement.operands[0]
    return isinstance(target, Address) and isinstance(target.base, Symbol) and target.base.name.startswith("zrr_param")


def looping_definition(kernel: Kernel, numbers: Iterable[int]) -> int | None:
    """A statement inside a loop on which the register operands of `numbers` depend, those themselves counted.

    The analyses give a register one value per set of reaching definitions; inside a loop that is many values.
    """
    todo = list(numbers)
    seen = set(todo)
    while todo:
        number = todo.pop()
        block = kernel.flow.block_of(number)
        if kernel.flow.block_reaches(block, block):
            return number
        for register in kernel.body[number].uses:
            for source in kernel.values.reaching(number, register):
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
    return None
