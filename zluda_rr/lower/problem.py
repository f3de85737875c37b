"""What the lowering says about PTX that it does not translate."""

from __future__ import annotations

from zluda_rr.errors import UserError
from zluda_rr.ptx import Statement


class LoweringError(UserError):
    """An instruction or declaration outside the lowered subset; the message names it and its line."""


def unsupported(filename: str, statement: Statement | None, why: str = "") -> LoweringError:
    """The error for `statement`: file, line, the instruction's name and, where it helps, the part not supported."""
    detail = f" ({why})" if why else ""
    if statement is None:
        return LoweringError(f"{filename}: not in the lowered PTX subset{detail}")
    name = ".".join((statement.opcode, *statement.modifiers))
    return LoweringError(
        f"{filename}:{statement.line}: {name} is not in the lowered PTX subset{detail}; "
        "inspect and rewrite take the module, compile and verify cannot"
    )
