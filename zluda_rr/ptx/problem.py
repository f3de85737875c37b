"""Errors in PTX text."""

from zluda_rr.errors import UserError


class PtxError(UserError):
    """A place in a PTX text that cannot be understood.

    `str(error)` is three lines: `file:line:column: message`, the offending source line, a caret under the column.
    """

    def __init__(self, filename: str, line: int, column: int, message: str, source: str, expected: tuple[str, ...] = ()) -> None:
        self.filename = filename
        self.line = line
        self.column = column
        self.message = message
        self.source = source
        self.expected = expected
        super().__init__(f"{filename}:{line}:{column}: {message}\n{source}\n{' ' * (column - 1)}^")
