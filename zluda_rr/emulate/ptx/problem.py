"""Errors of the PTX oracle."""

from __future__ import annotations

from zluda_rr.errors import UserError


class OracleError(UserError):
    """A module that the oracle cannot execute: an instruction or a call without semantics, a wrong launch."""


class ExecutionFault(RuntimeError):  # noqa: N818 - named as MemoryFault is
    """The program did something that PTX leaves undefined: divergent warp-wide instructions, a barrier that
    not every thread reaches, a surface access that traps, a loop without end."""


class Unsupported(Exception):  # noqa: N818 - internal, turned into OracleError with the place
    """Raised while an instruction is compiled; the message says which part has no semantics."""
