"""Definitions and uses of registers."""

from .flow import ControlFlow
from .statements import Body


class DefUse:
    """Statement numbers that define and read each register.

    A guarded definition, and any register operand of an unknown instruction, may define: it reaches, but earlier
    definitions reach past it.
    """

    def __init__(self, body: Body, cfg: ControlFlow) -> None:
        raise NotImplementedError

    def defs(self, register: str) -> tuple[int, ...]:
        """Statements that (may) write the register, ascending."""
        raise NotImplementedError

    def uses(self, register: str) -> tuple[int, ...]:
        """Statements that read the register, ascending."""
        raise NotImplementedError

    def reaching(self, number: int, register: str) -> frozenset[int]:
        """Definitions of the register that reach the point before statement `number`."""
        raise NotImplementedError

    def is_single_def(self, register: str) -> bool:
        """Exactly one definition."""
        raise NotImplementedError

    def readers(self, number: int, register: str) -> tuple[int, ...]:
        """Statements that may read the value that statement `number` gave the register, ascending."""
        raise NotImplementedError
