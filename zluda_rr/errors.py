"""The one base class of errors that the user can cause and correct, and how a message lists names."""

from collections.abc import Iterable


class UserError(Exception):
    """A one-line message with the place and the remedy; the command line prints it and exits with status 2."""


_NAMES = 10
_NAME_CHARS = 100


def listed(names: Iterable[str]) -> str:
    """Names for a message of one line: ten at most, and how many more there are."""
    every = tuple(names)
    shown = [name if len(name) <= _NAME_CHARS else name[:_NAME_CHARS] + "…" for name in every[:_NAMES]]
    more = f" and {len(every) - _NAMES:,} more" if len(every) > _NAMES else ""
    return ", ".join(shown) + more if shown else "none"
