"""Reading the modifiers of an instruction so that none is overlooked."""

from __future__ import annotations

from zluda_rr.lower.scalar import is_scalar
from zluda_rr.ptx import Statement


class Modifiers:
    """The modifiers of a statement, taken one by one; what is left at the end is not supported."""

    __slots__ = ("_left",)

    def __init__(self, statement: Statement) -> None:
        self._left = list(statement.modifiers)

    def take(self, *names: str) -> str:
        """Remove and return the first modifier that is one of `names`; "" when none is there."""
        for name in self._left:
            if name in names:
                self._left.remove(name)
                return name
        return ""

    def flag(self, name: str) -> bool:
        """Remove `name`; whether it was there."""
        return bool(self.take(name))

    def types(self) -> list[str]:
        """Remove and return the type modifiers in order."""
        found = [name for name in self._left if is_scalar(name)]
        self._left = [name for name in self._left if not is_scalar(name)]
        return found

    @property
    def left(self) -> str:
        """What was not taken, for the error: `.sat.rz`."""
        return "".join(f".{name}" for name in self._left)
