"""From an instruction's text to its shape and words.

The shape of most instructions is met before and found by what stands between their words. The rest goes the slow way:
the parts of an opcode with blanks between them are joined, constant expressions are folded, and only then the grammar
is asked.
"""

from __future__ import annotations

import re

from .constants import NUMBER_START, is_integer
from .expressions import NoList, Unfoldable, fold_operands
from .grammar import ChunkError
from .scan import WORD, blank_comments
from .shapes import InstructionShape, parse_shape

_UNKNOWN = "its operands have a form that is not known"
_Key = tuple[str, str, str]

_LONGEST = 20_000
"""Characters of operands in which expressions are looked for."""
# A modifier behind blanks; a constant such as .5 is none.
_NEXT_MODIFIERS = re.compile(r"\s*((?:\.(?!\d+(?:[eE][+-]?\d+)?(?![\w:]))[\w:]+)+)", re.ASCII)
_DETACHED_MEMBER = re.compile(r"(?<=[\w$])\s+(\.(?:[xyzwrgba]|[bh][0-7]+)(?![\w$]))", re.ASCII)
_PLAIN_BETWEEN = re.compile(r"[\s,\[\]{}|!+]*")
_PLAIN_IN_CALL = re.compile(r"[\s,\[\]{}|!+()]*")


class InstructionReader:
    """Reads the instructions of one module."""

    __slots__ = ("_failed", "_shapes", "_warp_size")

    def __init__(self, *, warp_size: bool = False) -> None:
        """`warp_size`: the constant WARP_SZ may occur."""
        self._warp_size = warp_size
        self._shapes: dict[_Key, InstructionShape] = {}
        self._failed: set[tuple[_Key, str]] = set()

    def read(self, text: str, sign: str, opcode: str, operands: str) -> tuple[InstructionShape, tuple[str, ...]]:
        """Shape and words of an instruction whose whole text is `text`; `sign` is "!" behind a negated guard's "@".

        Raises ChunkError.
        """
        parts = WORD.split(blank_comments(operands))
        key = (opcode, "\0".join(parts[::2]), sign)
        words = tuple(parts[1::2])
        shape = self._shapes.get(key)
        if (
            shape is not None
            and (not shape.exacting or _fits(shape, words))
            and not (self._warp_size and "WARP_SZ" in words)
        ):
            return shape, words
        return self._read_slowly(text, key, parts)

    def _read_slowly(self, text: str, key: _Key, parts: list[str]) -> tuple[InstructionShape, tuple[str, ...]]:
        opcode, _, sign = key
        kinds = key, "".join(map(_kind, parts[1::2]))
        if kinds in self._failed:
            raise ChunkError(_UNKNOWN, 0)
        try:
            return self._known_or_new(*_join(opcode, "".join(parts)), sign)
        except (ChunkError, Unfoldable) as problem:
            if isinstance(problem, ChunkError | NoList):  # and not for a value: a division by zero
                self._failed.add(kinds)
            shape = parse_shape(text)  # for the message about the text as it stands
            words = tuple(parts[1::2])
            _check(shape, words)
            raise ChunkError(_UNKNOWN if isinstance(problem, NoList) else str(problem), 0) from None

    def _known_or_new(self, opcode: str, operands: str, sign: str) -> tuple[InstructionShape, tuple[str, ...]]:
        parts = WORD.split(operands)
        if not _is_plain(opcode, parts):
            if len(operands) > _LONGEST:
                raise Unfoldable("too long")
            operands = fold_operands(operands, groups=opcode.partition(".")[0] == "call")
            parts = WORD.split(operands)
        key = (opcode, "\0".join(parts[::2]), sign)
        words = tuple(parts[1::2])
        shape = self._shapes.get(key)
        if shape is None or not _fits(shape, words):
            shape = parse_shape(f"{opcode} {operands};")
            _check(shape, words)
            self._shapes[key] = shape
        return shape, words


def _kind(word: str) -> str:
    """The class of a word: whether a form is known depends on these alone."""
    if word[0] not in NUMBER_START:
        return "a"
    if is_integer(word):
        return "i"
    return "f" if word.lstrip("-")[:2] in ("0f", "0F") else "d"


def _join(opcode: str, operands: str) -> tuple[str, str]:
    """The opcode with the modifiers that blanks or comments part from it; members of vectors likewise."""
    while found := _NEXT_MODIFIERS.match(operands):
        opcode += found.group(1)
        operands = operands[found.end() :]
    return opcode, _DETACHED_MEMBER.sub(r"\1", operands)


def _is_plain(opcode: str, parts: list[str]) -> bool:
    """No constant expression is in the operands; where in doubt, False."""
    allowed = _PLAIN_IN_CALL if opcode.startswith("call") else _PLAIN_BETWEEN
    between, words = [part.strip() for part in parts[::2]], parts[1::2]
    if "WARP_SZ" in words or not all(map(allowed.fullmatch, between)):
        return False
    numbers = [word[0] in NUMBER_START for word in words]
    for index, number in enumerate(numbers):
        before, after = between[index], between[index + 1]
        if "+" in before and not (index and before == "+" and number and not numbers[index - 1]):
            return False
        if "+" in after and "+" in before:
            return False
        if number and before[-1:] in ("!", "|"):
            return False
        if (
            index
            and not before
            and (numbers[index - 1] or words[index][0] != "-" or after[:1] not in ("]", ",", "", "}"))
        ):
            return False
        if not after and "+" in before and index + 1 < len(words):
            return False
    return "+" not in between[-1]


def _fits(shape: InstructionShape, words: tuple[str, ...]) -> bool:
    """Do the words of another instruction of the same shape mean the same."""
    for index in shape.numeric:
        if not is_integer(words[index]):
            return False
    for index in shape.bases:
        if words[index][0] in NUMBER_START and not is_integer(words[index]):
            return False
    return all(words[index][0] not in NUMBER_START for index in shape.names)


def _check(shape: InstructionShape, words: tuple[str, ...]) -> None:
    for index in (*shape.numeric, *shape.bases):
        word = words[index]
        if word[0] in NUMBER_START and not is_integer(word):
            raise ChunkError(f'expected an integer, found "{word}"', 0)
