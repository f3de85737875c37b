"""Initialisers of variables: where they stand in a declaration, and whether they are any.

They can be long (tables of 100,000 numbers), so lists of plain numbers and names never meet a grammar.
"""

from __future__ import annotations

import re

from .expressions import Unfoldable, parse_list
from .grammar import ChunkError

_TO_BRACKET_OR_END = re.compile(r"[^(){}\[\],;]*([(){}\[\],;])")
_TO_BRACKET = re.compile(r"[^(){}\[\]]*([(){}\[\]])")
_ITEM = r"\s*+(?:-?\s*+(?:0[fFdDxXbB][\da-fA-F]++U?|[\d.]++(?:[eE][+-]?\d+)?U?)|[A-Za-z_$%][\w$]*+)\s*+"
_PLAIN = re.compile(_ITEM, re.ASCII)
_LIST = re.compile(rf"\{{(?:{_ITEM}(?:,{_ITEM})*+|\s*+)\}}", re.ASCII)
# Of textures, samplers and surfaces: `{ addr_mode_0 = wrap, filter_mode = nearest }`.
_SETTINGS = re.compile(r"\s*\{\s*\w+\s*=\s*\w+\s*(?:,\s*\w+\s*=\s*\w+\s*)*\}\s*", re.ASCII)
_DEEPEST = 50
"""Lists inside one another."""
_LONGEST = 20_000
"""Characters that the grammar of constants is asked about."""


def cut_initialisers(chunk: str) -> tuple[str, dict[int, int]]:
    """A declaration (comments blanked) without its initialisers, and where they stood: offset of the `=` -> end."""
    found: dict[int, int] = {}
    start = chunk.find("=")
    while start >= 0:
        end = _end(chunk, start + 1)
        found[start] = end
        start = chunk.find("=", end)
    pieces, at = [], 0
    for start, end in found.items():
        pieces += [chunk[at : start + 1], " " * (end - start - 1)]
        at = end
    return "".join((*pieces, chunk[at:])), found


def _end(chunk: str, at: int) -> int:
    """The comma or semicolon outside brackets after `at`."""
    depth = 0
    while found := (_TO_BRACKET if depth else _TO_BRACKET_OR_END).match(chunk, at):
        mark = found.group(1)
        if not depth and mark in ",;)]}":
            return found.start(1)
        depth += 1 if mark in "({[" else -1
        at = found.end()
    return len(chunk)


def check_initialiser(text: str) -> None:
    """Raises ChunkError, with its offset in `text`, for what is no initialiser: `{1,,2}`."""
    short = text
    for _ in range(_DEEPEST):
        shorter = _LIST.sub("0", short)
        if shorter == short:
            break
        short = shorter
    if _PLAIN.fullmatch(short) or _SETTINGS.fullmatch(short):
        return
    try:
        (_,) = parse_list(text if len(text) <= _LONGEST else short).children
    except (Unfoldable, ValueError):
        at = len(text) - len(text.lstrip())
        raise ChunkError("the initialiser is not a constant or a list of constants", at) from None
