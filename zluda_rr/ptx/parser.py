"""PTX text to syntax tree."""

from .nodes import Module


def parse(text: str, *, filename: str = "<ptx>") -> Module:
    """Parse a whole module. Raises PtxError."""
    raise NotImplementedError
