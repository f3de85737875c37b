"""PTX text to syntax tree."""

from __future__ import annotations

import re
from dataclasses import replace

from lark import Token

from .collection import no_collection
from .constants import NotIntegerError, is_integer
from .declarations import function_header, register_declaration, variable_declarations
from .grammar import ChunkTree, first_word, parse_chunk
from .nodes import (
    Block,
    BodyItem,
    Directive,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    ModuleItem,
    RegDecl,
    Span,
    VarDecl,
)
from .problem import PtxError, error_at
from .scan import BODY_CHUNK, MODULE_CHUNK, TRIVIA, WORD, blank_comments
from .shapes import InstructionShape, parse_shape

MAX_DEPTH = 64
"""Blocks inside one another; compilers write two or three, and walks over the tree recurse."""

_DIGITS = frozenset("-0123456789")
_SPACES = frozenset({"reg", "global", "shared", "const", "local", "param", "tex"})
_LINKAGE = frozenset({"visible", "extern", "weak", "common"})
# Directives that repeat thousands of times with other words: the grammar sees each shape once.
_REPEATED = frozenset({"loc", "branchtargets"})
_NAME = re.compile(r"\.(\w+)")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b")
_SECTION = re.compile(r"\.section\s+[\w.]+\s*\{[^}]*\Z")
# Control characters, and what a decoder puts in place of bytes that are no text.
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd\ufeff]")


def parse(text: str, *, filename: str = "<ptx>") -> Module:
    """Parse a whole module.

    Raises PtxError (line, column, the line with a caret, what was expected) for anything that is not PTX.
    """
    with no_collection():
        return _Parser(text, filename).module()


class _Parser:
    """One run over one text. `position`, `line` and `column` (from 1) say where the next chunk's trivia begins."""

    __slots__ = ("checked", "column", "filename", "line", "position", "shapes", "text", "trees")

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self.position = 0
        self.line = 1
        self.column = 1
        self.shapes: dict[tuple[str, str, str], InstructionShape] = {}
        self.trees: dict[str, ChunkTree] = {}
        self.checked: set[tuple[str, str, str]] = set()

    # ----------------------------------------------------------------------------------------------------- module level

    def module(self) -> Module:
        self._reject_non_text()
        items: list[ModuleItem] = []
        match = MODULE_CHUNK.match
        while found := match(self.text, self.position):
            trivia, header, directive, variable = found.groups()
            if header is not None:
                items.append(self._function(trivia, header))
            elif directive is not None:
                items.append(self._directive(trivia, directive))
            else:
                items += self._declaration(trivia, variable)
            if len(items) == 1 and not (isinstance(items[0], Directive) and items[0].name == "version"):
                raise self._error("expected .version as the first directive of a PTX module", items[0].span)
        closing = self.text[self.position :]
        if closing and TRIVIA.fullmatch(closing) is None:
            raise self._stuck_in_module(items)
        if not items:
            raise self._error("expected .version: there is no PTX in this text", Span(self.line, self.column, 0))
        self._reject_duplicates(items)
        return Module(self.filename, tuple(items), closing)

    def _function(self, trivia: str, chunk: str) -> Function:
        header = chunk.rstrip()
        span = self._advance(trivia, header)
        tree = self._tree("function_header", header)
        try:
            function = function_header(tree, trivia, header, span)
        except NotIntegerError as error:
            raise self._error(str(error), span) from None
        if header.endswith(";"):
            return function
        found = BODY_CHUNK.match(self.text, self.position)
        if found is None or found.group(7) != "{":
            raise self._stuck("function_header", 'expected "{" or ";" after a function header')
        return replace(function, body=self._block(found.group(1)))

    # ------------------------------------------------------------------------------------------------------- body level

    def _block(self, trivia: str) -> Block:
        """The block whose `{` comes next, nested blocks included."""
        opened: list[tuple[str, Span, list[BodyItem]]] = []
        items: list[BodyItem] = []
        opened.append((trivia, self._advance(trivia, "{"), items))
        match, text = BODY_CHUNK.match, self.text
        while True:
            found = match(text, self.position)
            if found is None:
                raise self._stuck_in_body(opened[-1][1])
            trivia, sign, guard, opcode, operands, label, other = found.groups()
            if opcode is not None:
                items.append(self._instruction(found.end(), trivia, sign, guard, opcode, operands))
            elif label is not None:
                own = text[found.end(1) : found.end()]
                items.append(Label(trivia, own, self._advance(trivia, own), label))
            elif other == "{":
                if len(opened) == MAX_DEPTH:
                    raise self._too_deep(found.end() - 1)
                items = []
                opened.append((trivia, self._advance(trivia, "{"), items))
            elif other == "}":
                end = self._advance(trivia, "}")
                outer, span, _ = opened.pop()
                block = Block(outer, Span(span.line, span.column, end.line), tuple(items), trivia)
                if not opened:
                    return block
                items = opened[-1][2]
                items.append(block)
            else:
                items += self._body_directive(trivia, other)

    def _instruction(
        self, end: int, trivia: str, sign: str | None, guard: str | None, opcode: str, operands: str
    ) -> Instruction:
        start = self.position + len(trivia)
        text = self.text[start:end]
        span = self._advance(trivia, text)
        parts = WORD.split(blank_comments(operands))
        words = tuple(parts[1::2])
        key = (opcode, "\0".join(parts[::2]), sign or "")
        shape = self.shapes.get(key)
        if shape is None:
            shape = parse_shape(text, self.text, start, self.filename)
            self.shapes[key] = shape
        for index in shape.numeric:
            if words[index][0] not in _DIGITS:
                parse_shape(text, self.text, start, self.filename)
            self._check_integer(words[index], span)
        for index in shape.bases:
            if words[index][0] in _DIGITS:
                self._check_integer(words[index], span)
        condition = None if guard is None else Guard(guard, sign is not None and "!" in sign)
        return Instruction(trivia, text, span, shape, words, condition)

    def _check_integer(self, word: str, span: Span) -> None:
        if not is_integer(word):
            raise self._error(f'expected an integer, found "{word}"', span)

    def _body_directive(self, trivia: str, chunk: str) -> list[BodyItem]:
        name = _directive_name(chunk)
        if name in _SPACES:
            return [*self._declaration(trivia, chunk)]
        return [self._directive(trivia, chunk)]

    # ----------------------------------------------------------------------------------------------------------- either

    def _declaration(self, trivia: str, chunk: str) -> list[RegDecl | VarDecl]:
        span = self._advance(trivia, chunk)
        try:
            if _directive_name(chunk) == "reg":
                return [register_declaration(self._tree("register_declaration", chunk), trivia, chunk, span)]
            return list(variable_declarations(self._tree("variable_declaration", chunk), trivia, chunk, span))
        except NotIntegerError as error:
            raise self._error(str(error), span) from None

    def _directive(self, trivia: str, chunk: str) -> Directive:
        own = chunk.rstrip()  # a line directive's pattern takes trailing blanks along
        span = self._advance(trivia, own)
        name = _directive_name(own)
        parts = WORD.split(blank_comments(own))
        key = (name, "\0".join(parts[::2]), "")
        if name not in _REPEATED or key not in self.checked:
            tree = self._tree("directive", own)
            if name not in _REPEATED:
                return Directive(trivia, own, span, name, tuple(str(t) for t in tree.scan_values(_is_word)))
            self.checked.add(key)
        return Directive(trivia, own, span, name, tuple(parts[3::2]))

    def _tree(self, start: str, chunk: str) -> ChunkTree:
        """The chunk that ends at `position`, parsed; equal texts are parsed once."""
        tree = self.trees.get(chunk)
        if tree is None:
            tree = parse_chunk(start, blank_comments(chunk), self.text, self.position - len(chunk), self.filename)
            self.trees[chunk] = tree
        return tree

    def _advance(self, trivia: str, own: str) -> Span:
        """Step over trivia and a node's own text; the span of the latter."""
        self.position += len(trivia) + len(own)
        lines = trivia.count("\n")
        if lines:
            self.line += lines
            self.column = len(trivia) - trivia.rfind("\n")
        else:
            self.column += len(trivia)
        line, column = self.line, self.column
        lines = own.count("\n")
        if lines:
            self.line += lines
            self.column = len(own) - own.rfind("\n")
        else:
            self.column += len(own)
        return Span(line, column, self.line)

    # ----------------------------------------------------------------------------------------------------------- errors

    def _error(self, message: str, span: Span) -> PtxError:
        lines = self.text.split("\n")
        return PtxError(self.filename, span.line, span.column, message, lines[span.line - 1].rstrip("\r"))

    def _too_deep(self, at: int) -> PtxError:
        return error_at(self.filename, self.text, at, f"blocks are nested deeper than {MAX_DEPTH}")

    def _stuck_in_module(self, items: list[ModuleItem]) -> PtxError:
        at = _end(TRIVIA, self.text, self.position)
        section = _SECTION.match(self.text, at)
        if section is not None:
            line = self.text.count("\n", 0, at) + 1
            return self._at_end(f'expected "}}": the section at line {line} is not closed')
        if self.text[at] in ".}/":
            return self._stuck("directive", "")
        expected = "a directive, a function or a variable" if items else ".version"
        message = f'expected {expected}, found "{first_word(self.text[at : at + 40])}"'
        return error_at(self.filename, self.text, at, message)

    def _at_end(self, message: str) -> PtxError:
        return error_at(self.filename, self.text, len(self.text.rstrip()), message)

    def _stuck_in_body(self, opened: Span) -> PtxError:
        return self._stuck("instruction", f'expected "}}": the block opened at line {opened.line} is not closed')

    def _stuck(self, start: str, at_end: str) -> PtxError:
        """No chunk begins after the trivia at `position`: say why. `start` is the grammar rule for what is no
        directive."""
        at = _end(TRIVIA, self.text, self.position)
        rest = self.text[at:]
        if not rest:
            return self._at_end(at_end)
        if rest[0] == "}":
            return error_at(self.filename, self.text, at, 'unexpected "}": no block is open')
        if rest.startswith("/*"):
            return error_at(self.filename, self.text, at, 'expected "*/": the comment is not closed')
        if rest[0] == ".":
            start = _rule_of(rest)
        try:
            parse_chunk(start, rest, self.text, at, self.filename)
        except PtxError as error:
            return error
        return error_at(self.filename, self.text, at, f'unexpected "{first_word(rest[:40])}"')

    def _reject_non_text(self) -> None:
        found = _NOT_TEXT.search(self.text)
        if found is not None:
            message = f"not PTX text: unexpected character {found.group()!r}"
            raise error_at(self.filename, self.text, found.start(), message)

    def _reject_duplicates(self, items: list[ModuleItem]) -> None:
        """One definition for each function; declarations may repeat."""
        seen: dict[str, Span] = {}
        for item in items:
            if not isinstance(item, Function) or item.body is None:
                continue
            if item.name in seen:
                message = f"function {item.name} is defined twice, first at line {seen[item.name].line}"
                raise self._error(message, item.span)
            seen[item.name] = item.span


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where a pattern that may match nothing ends."""
    found = pattern.match(text, position)
    return found.end() if found else position


def _directive_name(chunk: str) -> str:
    found = _NAME.match(chunk)
    return found.group(1) if found else ""


def _rule_of(rest: str) -> str:
    """The grammar rule for text that begins with a dot."""
    name = _directive_name(rest)
    if name == "reg":
        return "register_declaration"
    if _FUNCTION.match(rest):
        return "function_header"
    return "variable_declaration" if name in _SPACES | _LINKAGE else "directive"


def _is_word(token: object) -> bool:
    return isinstance(token, Token) and token.type in ("NAME", "NUMBER", "STRING", "VERSION")
