"""Cuts PTX text into chunks: trivia, then one instruction, label, brace, declaration or directive.

One regular expression per nesting level does the work, because a module has a hundred thousand chunks and a few hundred
distinct shapes of them; only the shapes meet the grammar (grammar.lark).
"""

import re

_BLOCK_COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
# What a preprocessor leaves behind, `# 1 "file.cu" 2`: to the end of its line, wherever on the line it begins.
_MARKER = r"\#[ \t]*(?:line[ \t]+)?\d+[ \t]+\"[^\"]*\"(?:[ \t]+\d+)*[ \t]*(?=[\r\n]|\Z)"
_COMMENT = rf"//[^\n]*|{_BLOCK_COMMENT}|{_MARKER}"
_BLANK = r"[ \t\r\n\f\x1a]"
_TRIVIA = rf"((?:{_BLANK}+|{_COMMENT})*+)"
_GAP = rf"(?:{_BLANK}|{_COMMENT})*+"
_SPACE = rf"(?:{_BLANK}|{_COMMENT})++"
# Everything up to a terminator, comments and strings skipped as wholes. The first branch is the fast one.
_STRING = r"\"[^\"\n]*\""
_LONE = r"/(?!\*)|\#"
_REST = rf"{_COMMENT}|{_STRING}|{_LONE}"
_ANY_BRACES = rf"(?:[^;/\"\#]++|{_REST})"
# A function's header may hold `.pragma "…";`: the semicolon behind a string does not end it.
_HEADER = rf"(?:[^;/\"\#{{}}]++|{_COMMENT}|{_STRING}(?:{_GAP};)?+|{_LONE})"
# Directives that no semicolon ends.
_WHOLE = r"(?:0[xX][\da-fA-F]+|\d+)"
_PLACE = rf"{_SPACE}{_WHOLE}{_SPACE}{_WHOLE}{_SPACE}{_WHOLE}(?![\w$.])"
_INLINED = rf"{_GAP},{_GAP}function_name{_SPACE}[\w$%]+(?:{_GAP}\+{_GAP}{_WHOLE})?+{_GAP},{_GAP}inlined_at{_PLACE}"
_LOC = rf"\.loc{_PLACE}(?:{_INLINED})?"
_FILE = rf"\.file{_SPACE}{_WHOLE}{_SPACE}{_STRING}(?:{_GAP},{_GAP}{_WHOLE}{_GAP},{_GAP}{_WHOLE})?"
_LINE_DIRECTIVE = f"{_LOC}|{_FILE}"

# Behind an opcode; the first branch is the usual one.
_NO_LABEL = rf"(?![ \t]*+(?::|(?=[\r\n\f\x1a/\#]){_GAP}:))"

# Groups: 1 trivia, 2 "!" of the guard, 3 guard register, 4 opcode with modifiers, 5 operands, 6 label, 7 anything else.
BODY_CHUNK = re.compile(
    rf"""{_TRIVIA}(?:
    (?:@({_GAP}!?){_GAP}(%[\w$]++|[A-Za-z_$][\w$]*+){_SPACE})?([a-z]\w*+(?:\.[\w:]+)*+){_NO_LABEL}({_ANY_BRACES}*+);
  | ([A-Za-z_$%][\w$]*+){_GAP}:(?!:)
  | ([{{}}] | {_LINE_DIRECTIVE} | \.[a-z]+{_ANY_BRACES}*+;)
    )""",
    re.VERBOSE | re.ASCII,
)

# Groups: 1 trivia, 2 function header without its body, 3 directive, 4 variable.
MODULE_CHUNK = re.compile(
    rf"""{_TRIVIA}(?:
    ((?:\.(?:visible|extern|weak|common)\b{_GAP})*+\.(?:entry|func)\b{_HEADER}*+;?)
  | (\.version{_SPACE}[\w.]+ | \.target{_SPACE}\w+(?:{_GAP},{_GAP}\w+)* | \.address_size{_SPACE}\w+ | {_LINE_DIRECTIVE}
    | \.section{_SPACE}[\w.]+{_GAP}\{{(?:[^}}/\#]++|{_COMMENT}|{_LONE})*+\}} | \.(?:pragma|alias)\b{_ANY_BRACES}*+;)
  | (\.(?:global|shared|const|local|param|tex|reg|visible|extern|weak|common|align|attribute)\b{_ANY_BRACES}*+;)
    )""",
    re.VERBOSE | re.ASCII,
)

TRIVIA = re.compile(_TRIVIA, re.ASCII)

# What an opaque statement is made of: its end is the first ";" outside brackets. Strings and comments go as wholes.
PIECE = re.compile(rf"(?:[^;/\"\#()\[\]{{}}]++|{_REST})++|[;()\[\]{{}}]", re.ASCII)

# A directive that begins an item of module scope, at the start of a line.
ITEM_START = re.compile(
    r"^[ \t]*\.(?:visible|extern|weak|common|entry|func|global|const|shared|tex|section|file|pragma|alias"
    r"|version|target|address_size)\b",
    re.MULTILINE | re.ASCII,
)

# Registers, names and constants of an instruction's operands; what stands between them is the shape. The spelling of
# each kind equals the grammar's terminals REGISTER, NAME and NUMBER.
WORD = re.compile(
    r"((?:%[\w$]+|[A-Za-z_$](?<![\w$.][A-Za-z_$])[\w$]*)(?:\.[xyzwrgba](?![\w$]))?"
    r"|(?=[\d.\-])-?(?<![\w$.])(?:0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}|0[xX][0-9A-Fa-f]{1,16}U?|0[bB][01]{1,64}U?"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[0-7]{0,22}U?|[1-9]\d{0,19}U?)(?![\w$.]))",
    re.ASCII,
)


def blank_comments(text: str) -> str:
    """The text with every comment and line marker outside strings replaced by as many spaces, so that offsets stay."""
    return text if "/" not in text and "#" not in text else _STRING_OR_COMMENT.sub(_blank, text)


_STRING_OR_COMMENT = re.compile(rf"{_COMMENT}|{_STRING}", re.ASCII)


def _blank(found: re.Match[str]) -> str:
    return found.group() if found.group()[0] == '"' else re.sub(r"[^\n]", " ", found.group())


def is_balanced(text: str) -> bool:
    """Does every bracket outside strings and comments close the one that was opened last."""
    opened: list[str] = []
    for found in PIECE.finditer(text):
        piece = found.group()
        if piece in _CLOSING:
            opened.append(_CLOSING[piece])
        elif piece in ")]}" and (not opened or opened.pop() != piece):
            return False
    return not opened


def opaque_end(text: str, start: int) -> int | None:
    """Where a statement that nothing is known of ends: behind its first ";" outside brackets.

    None where a bracket closes that it did not open, or the text ends before it does.
    """
    opened: list[str] = []
    at = start
    while found := PIECE.match(text, at):
        piece, at = found.group(), found.end()
        if piece == ";" and not opened:
            return at
        if piece in _CLOSING:
            opened.append(_CLOSING[piece])
        elif piece in ")]}" and (not opened or opened.pop() != piece):
            return None
    return None


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def opaque_item_end(text: str, start: int) -> int | None:
    """The same at module scope, where a braced body or the next item ends one, too."""
    opened: list[str] = []
    at = start
    while found := PIECE.match(text, at):
        piece, end = found.group(), found.end()
        following = None if opened else ITEM_START.search(blank_comments(piece), int(at == start))
        if following is not None:
            return start + len(text[start : at + following.start()].rstrip())
        if piece == ";" and not opened:
            return end
        if piece in _CLOSING:
            opened.append(_CLOSING[piece])
        elif piece in ")]}":
            if not opened or opened.pop() != piece:
                return None
            if piece == "}" and not opened and "=" not in text[start:at]:
                return end
        at = end
    return None if opened or at < len(text) else len(text.rstrip())
