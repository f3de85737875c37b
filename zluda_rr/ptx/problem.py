"""Errors in PTX text."""

from zluda_rr.errors import UserError

_SHOWN = 160  # columns of the offending line that a message repeats


class PtxError(UserError):
    """A place in a PTX text that cannot be understood.

    `str(error)` is three lines: `file:line:column: message`, the offending source line, a caret under the column.
    `line` and `column` count from 1; `expected` names what would have been accepted, as far as that is known.
    """

    def __init__(
        self, filename: str, line: int, column: int, message: str, source: str, expected: tuple[str, ...] = ()
    ) -> None:
        self.filename = filename
        self.line = line
        self.column = column
        self.message = message
        self.source = source
        self.expected = expected
        super().__init__(f"{filename}:{line}:{column}: {message}\n{_excerpt(source, column)}")


def error_at(filename: str, text: str, offset: int, message: str, expected: tuple[str, ...] = ()) -> PtxError:
    """The error for a character offset of a text."""
    offset = min(offset, len(text))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    source = text[start:] if end < 0 else text[start:end]
    line = text.count("\n", 0, offset) + 1
    return PtxError(filename, line, offset - start + 1, message, source.rstrip("\r"), expected)


def _excerpt(source: str, column: int) -> str:
    """The line around the column and the caret; a tab and anything unprintable is shown as one space or dot."""
    first = max(0, column - 1 - _SHOWN // 2) if len(source) > _SHOWN else 0
    shown = source[first : first + _SHOWN].replace("\t", " ")
    shown = "".join(c if c.isprintable() else "." for c in shown)
    return f"  {shown}\n  {' ' * (column - 1 - first)}^"
