"""Cuts PTX text into chunks: trivia, then one instruction, label, brace, declaration or directive.

One regular expression per nesting level does the work, because a module has a hundred thousand chunks and a few hundred
distinct shapes of them; only the shapes meet the grammar (grammar.lark).
"""

import re

_BLOCK_COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
_COMMENT = rf"//[^\n]*|{_BLOCK_COMMENT}"
_TRIVIA = rf"((?:[ \t\r\n\f]+|{_COMMENT})*+)"
_GAP = rf"(?:\s|{_COMMENT})*+"
# Everything up to a terminator, comments and strings skipped as wholes. The first branch is the fast one.
_ANY = rf"(?:[^;/\"{{}}]++|{_COMMENT}|\"[^\"\n]*\")"
_ANY_BRACES = rf"(?:[^;/\"]++|{_COMMENT}|\"[^\"\n]*\")"
# Directives that no semicolon ends. Their words stay on one line.
_LOC = rf"\.loc\b(?:[ \t\w$,+]|{_BLOCK_COMMENT})*"
_FILE = r"\.file\b[ \t]+\d+[ \t]+\"[^\"\n]*\"(?:[ \t]*,[ \t]*\d+[ \t]*,[ \t]*\d+)?"
_LINE_DIRECTIVE = f"{_LOC}|{_FILE}"

# Groups: 1 trivia, 2 "!" of the guard, 3 guard register, 4 opcode with modifiers, 5 operands, 6 label, 7 anything else.
BODY_CHUNK = re.compile(
    rf"""{_TRIVIA}(?:
    (?:@([ \t]*!?)[ \t]*([%\w$]+)[ \t\r\n]+)?([a-z]\w*+(?:\.[\w:]+)*+)(?![ \t]*:)({_ANY_BRACES}*+);
  | ([A-Za-z_$%][\w$]*)[ \t]*:(?!:)
  | ([{{}}] | {_LINE_DIRECTIVE} | \.[a-z]+{_ANY_BRACES}*+;)
    )""",
    re.VERBOSE | re.ASCII,
)

# Groups: 1 trivia, 2 function header without its body, 3 directive, 4 variable.
MODULE_CHUNK = re.compile(
    rf"""{_TRIVIA}(?:
    ((?:\.(?:visible|extern|weak|common)\s+)*+\.(?:entry|func)\b{_ANY}*+;?)
  | (\.version[ \t]+[\w.]+ | \.target[ \t]+\w+(?:{_GAP},{_GAP}\w+)* | \.address_size[ \t]+\w+ | {_LINE_DIRECTIVE}
    | \.section\s+[\w.]+{_GAP}\{{(?:[^}}/]++|{_COMMENT})*+\}} | \.(?:pragma|alias)\b{_ANY}*+;)
  | (\.[a-z]+{_ANY_BRACES}*+;)
    )""",
    re.VERBOSE | re.ASCII,
)

TRIVIA = re.compile(_TRIVIA)

# Registers, names and constants of an instruction's operands; what stands between them is the shape. The spelling of
# each kind equals the grammar's terminals REGISTER, NAME and NUMBER.
WORD = re.compile(
    r"(%[\w$]+(?:\.[xyzwrgba](?![\w$]))?|[A-Za-z_$][\w$]*"
    r"|-?(?:0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}|0[xX][0-9A-Fa-f]{1,16}U?|0[bB][01]{1,64}U?"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|0[0-7]{0,22}U?|[1-9]\d{0,19}U?)(?![\w$.]))",
    re.ASCII,
)


def blank_comments(text: str) -> str:
    """The text with every comment outside strings replaced by as many spaces, so that offsets stay."""
    return text if "/" not in text else _STRING_OR_COMMENT.sub(_blank, text)


_STRING_OR_COMMENT = re.compile(rf'"[^"\n]*"|{_COMMENT}')


def _blank(found: re.Match[str]) -> str:
    return found.group() if found.group()[0] == '"' else re.sub(r"[^\n]", " ", found.group())
