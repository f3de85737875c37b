"""Live registers."""

from .flow import ControlFlow
from .statements import Body


class Liveness:
    """Registers whose value may still be read."""

    def __init__(self, body: Body, cfg: ControlFlow) -> None:
        raise NotImplementedError

    def live_in(self, number: int) -> frozenset[str]:
        """Live before the statement."""
        raise NotImplementedError

    def live_out(self, number: int) -> frozenset[str]:
        """Live after the statement."""
        raise NotImplementedError
