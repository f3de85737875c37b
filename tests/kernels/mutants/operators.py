"""What a mutant is: one small change of one place of a kernel source, at the level of tokens.

Operators: numeric constants (next, previous; of a float doubled, halved and its f16 neighbour; of a mask one bit),
comparisons, arithmetic and bit operations, conditions negated or held true or false, guards, ternaries, order of sums,
exchanged neighbouring arguments, deleted statements, booleans and rounding modes.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

Replacement = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`text` in place of characters start..end of `file`; `operator` is the kind of change."""

    file: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    text: str

    @property
    def name(self) -> str:
        """Key in result files: stays the same while the file's text does."""
        return (
            f"{self.file}:{self.line}:{self.start}-{self.end} {self.operator} {_short(self.old)} -> {_short(self.text)}"
        )

    def apply(self, source: str) -> str:
        """The mutated source."""
        return source[: self.start] + self.text + source[self.end :]


def _short(text: str) -> str:
    return " ".join(text.split()) or "(nothing)"


_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|^[ \t]*#[^\n]*|^typedef[^\n]*', re.S | re.M)
_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+(?:p[-+]?\d+f?)?|\d+\.\d*f?|\d+)(u?)(?![\w.])")
_EXCHANGED = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("+",), "&": ("|",), "|": ("&",), "^": ("|",), "<<": (">>",), ">>": ("<<",),
    "&&": ("||",), "||": ("&&",), "|=": ("&=",), "+=": ("-=",),
}  # fmt: skip
_OPERATOR = re.compile(r"(?<= )(<<|>>|<=|>=|==|!=|&&|\|\||\|=|\+=|[-<>+*&|^])(?= |\n)")
_WORDS = {"true": "false", "false": "true", "propagate": "in_range", "exact": "propagate", "direct": "narrow",
          "relu": "plain", "activate": "plain"}  # fmt: skip
_WORD = re.compile(
    r"(?<![\w])(?:Requantise::|RowOrder::|StageMode::)?(true|false|propagate|exact|direct|relu|activate)(?!\w)(?! =|,\s*//)"  # noqa: E501
)
_TERM = r"(\([^()]*(?:\([^()]*\)[^()]*)*\)|[\w.]+(?:\[[^\[\]]*\])*(?:\([^()]*\))?(?:\[[^\[\]]*\])*)"
_PAIR_OF_SUMS = re.compile(r"\((?P<a>[^()+]+) \+ (?P<b>[^()+]+)\) \+ \((?P<c>[^()+]+) \+ (?P<d>[^()+]+)\)")
_NESTED_SUM = re.compile(r"(?P<a>[\w.\[\]]+) \+\s+\((?P<b>[^()+]+) \+ (?P<c>[^()+]+)\)")
_IF = re.compile(r"\bif \(")
_NOT = re.compile(r"(?<![\w)\]])!(?=[\w(])")
_TERNARY = re.compile(r"\? ([^?:;{}]+) : ([^?:;,{}]+)(?=[;,)])")
_CALL = re.compile(r"(?<![\w])([A-Za-z_]\w*)(?:<[^<>;()]*>)?\(")
_STATEMENT = re.compile(
    r"^[ \t]*(?P<s>(?!return\b|if\b|for\b|else\b|static_assert\b|asm\b|#)[A-Za-z_*][^;{}\n]*;)[ \t]*$", re.M
)
_DECLARATION = re.compile(
    r"^(?:(?:const|constexpr|static)\s+)?[\w:]+(?:<[^=;]*>)?\s*[&*]*\s+[&*]*\w+\s*(?:[=;{(\[,]|$)"
)
_TYPED = re.compile(
    r"\b(const|auto|uint32_t|uint64_t|int|float|gptr|bool|typename|half2|_Float16|kop|float8|Pairs|int32_t)\s*[&*]?\s*\(?&?\w+"
)


def mutants(file: str, source: str, operators: frozenset[str] | None = None) -> list[Mutant]:
    """Every mutant of a source, by place. Comments, strings, typedefs and `#` lines stay as they are."""
    blind = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    found: dict[tuple[int, int, str], Mutant] = {}
    for operator, changes in _OPERATORS.items():
        if operators is not None and operator not in operators:
            continue
        for start, end, text in changes(blind):
            old = source[start:end]
            if old != text:
                line = source.count("\n", 0, start) + 1
                found.setdefault((start, end, text), Mutant(file, line, operator, start, end, old, text))
    return sorted(found.values(), key=lambda m: (m.start, m.end, m.text))


def _constants(text: str) -> Iterator[Replacement]:
    for match in _NUMBER.finditer(text):
        for new in _other_numbers(match[1]):
            yield match.start(), match.end(), new + match[2]


def _other_numbers(number: str) -> list[str]:
    if number.lower().startswith("0x") and "p" not in number:
        value = int(number, 16)
        low, high = value & -value, 1 << (value.bit_length() - 1) if value else 0
        return list(dict.fromkeys(hex(v) for v in (value ^ low, value ^ high) if value))
    if "." in number or "p" in number or number.endswith("f"):
        return _other_floats(number)
    value = int(number)
    return [str(v) for v in (value + 1, value - 1) if v >= 0]


def _other_floats(number: str) -> list[str]:
    plain = number.rstrip("f")
    value = float.fromhex(plain) if "p" in plain else float(plain)
    if value == 0:
        return ["1.0f"]
    bits = struct.unpack("<H", struct.pack("<e", value))[0]
    neighbour = struct.unpack("<e", struct.pack("<H", bits + 1))[0]
    return [f"{v!r}f" for v in (2 * value, value / 2, neighbour)]


def _operations(text: str) -> Iterator[Replacement]:
    for match in _OPERATOR.finditer(text):
        for new in _EXCHANGED[match[1]]:
            yield match.start(1), match.end(1), new


def _words(text: str) -> Iterator[Replacement]:
    for match in _WORD.finditer(text):
        yield match.start(1), match.end(1), _WORDS[match[1]]


def _sums(text: str) -> Iterator[Replacement]:
    for match in _PAIR_OF_SUMS.finditer(text):
        a, b, c, d = (match[name].strip() for name in "abcd")
        yield match.start(), match.end(), f"({a} + {c}) + ({b} + {d})"
        yield match.start(), match.end(), f"(({a} + {b}) + {c}) + {d}"
    for match in _NESTED_SUM.finditer(text):
        a, b, c = (match[name].strip() for name in "abc")
        yield match.start(), match.end(), f"({a} + {b}) + {c}"


def _conditions(text: str) -> Iterator[Replacement]:
    for match in _IF.finditer(text):
        end = _closing(text, match.end() - 1)
        for new in ("true", "false"):
            yield match.end(), end, new
    for match in _NOT.finditer(text):
        yield match.start(), match.end(), ""
    for match in _TERNARY.finditer(text):
        yield match.start(1), match.end(2), f"{match[2]} : {match[1]}"


def _arguments(text: str) -> Iterator[Replacement]:
    for match in _CALL.finditer(text):
        if match[1] in ("if", "for", "while", "switch", "static_assert", "__attribute__", "defined"):
            continue
        end = _closing(text, match.end() - 1)
        parts = _split(text, match.end(), end)
        if any(_TYPED.search(text[a:b]) for a, b in parts):
            continue
        for (a, b), (c, d) in itertools.pairwise(parts):
            yield a, d, text[c:d] + text[b:c] + text[a:b]


def _deletions(text: str) -> Iterator[Replacement]:
    for match in _STATEMENT.finditer(text):
        if not _DECLARATION.match(match["s"]) and text.count("(", *match.span("s")) == text.count(
            ")", *match.span("s")
        ):
            yield match.start("s"), match.end("s"), ";"


_OPERATORS = {
    "constant": _constants,
    "operation": _operations,
    "word": _words,
    "sum": _sums,
    "condition": _conditions,
    "arguments": _arguments,
    "deletion": _deletions,
}


def _closing(text: str, opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    raise ValueError("brackets do not match")


def _split(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the arguments between start and end, without the blanks around them."""
    spans, depth, first = [], 0, start
    for at in range(start, end + 1):
        if at == end or (text[at] == "," and depth == 0):
            inner = text[first:at]
            left = len(inner) - len(inner.lstrip())
            if inner.strip():
                spans.append((first + left, first + left + len(inner.strip())))
            first = at + 1
        elif at < end:
            depth += (text[at] in "([{") - (text[at] in ")]}")
    return spans
