"""The lark parser for one chunk, and what it says of a chunk that it does not know."""

import re
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

ChunkTree = Tree[Token]

STARTS = ("instruction", "register_declaration", "variable_declaration", "function_header", "directive")

_FRIENDLY = {
    "REGISTER": "a register",
    "NAME": "a name",
    "NUMBER": "a constant",
    "OPCODE": "an instruction",
    "TYPE": "a type",
    "SPACE": "a state space",
    "STRING": "a string",
    "VERSION": "a version such as 9.0",
    "DOTTED": "a directive",
    "HEADER_DIRECTIVE": "a directive of a function",
    "PARAM_SPACE": '".param"',
    "VECTOR": '".v4"',
    "LINKAGE": '".visible"',
    "FUNCTION_KIND": '".entry"',
    "SECTION_BODY": '"{"',
}


@cache
def chunk_parser() -> Lark:
    """The LALR parser (lark) of grammar.lark; one start rule per kind of chunk."""
    text = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", start=list(STARTS), maybe_placeholders=False, g_regex_flags=re.ASCII)


class ChunkError(Exception):
    """A chunk that the grammar does not know: what it says, and the offset in the chunk that it says it of."""

    def __init__(self, message: str, at: int, expected: tuple[str, ...] = ()) -> None:
        self.message = message
        self.at = at
        self.expected = expected
        super().__init__(message)


def parse_chunk(start: str, chunk: str) -> ChunkTree:
    """Parse one chunk. Raises ChunkError."""
    try:
        return chunk_parser().parse(chunk, start=start)
    except UnexpectedInput as error:
        raise _explain(error, chunk) from None


def _explain(error: UnexpectedInput, chunk: str) -> ChunkError:
    at = len(chunk.rstrip())
    found = "the end"
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
        if error.token.type != "$END" and error.token.start_pos is not None:
            at = error.token.start_pos
            found = _quoted(first_word(chunk[at:]))
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
        at = error.pos_in_stream or 0
        found = _quoted(first_word(chunk[at:]))
    elif isinstance(error, UnexpectedEOF):
        names = set(error.expected)
    expected = _names(names)
    message = f"expected {_any_of(expected)}, found {found}" if expected else f"unexpected {found}"
    return ChunkError(message, at, expected)


def first_word(text: str) -> str:
    """What a message calls the thing at the start of a text: its first word or character."""
    found = _WORD.match(text)
    return found.group() if found else "the end"


_WORD = re.compile(r"[\w.%$]+|.", re.DOTALL)


def _quoted(text: str) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    return f'"{shown[:40]}"'


def _name(terminal: str) -> str:
    if terminal in _FRIENDLY:
        return _FRIENDLY[terminal]
    pattern = chunk_parser().get_terminal(terminal).pattern
    return f'"{pattern.value}"' if isinstance(pattern, PatternStr) else terminal.lower()


def _names(terminals: set[str]) -> tuple[str, ...]:
    """What a person calls a set of terminals, sorted."""
    names = {_name(n) for n in terminals - _UNNAMED}
    if names >= _OPERAND:
        names = names - _OPERAND - {'"("'} | {"an operand"}
    directives = {name for name in names if name.startswith('".')}
    if len(directives) > _MANY:
        names = names - directives | {"a directive"}
    return tuple(sorted(names))


_UNNAMED = frozenset({"$END", "<END-OF-FILE>", "WHITE", "LINE_COMMENT", "BLOCK_COMMENT", "LINE_MARKER", "SELECTOR"})
_OPERAND = frozenset({'"!"', '"-"', '"["', '"{"', "a constant", "a name", "a register"})
_MANY = 6


def _any_of(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
