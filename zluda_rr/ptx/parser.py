"""PTX text to syntax tree."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from lark import Token

from .collection import no_collection
from .constants import DeclarationError
from .declarations import function_header, register_declaration, variable_declarations
from .grammar import ChunkError, ChunkTree, first_word, parse_chunk
from .initialisers import check_initialiser, cut_initialisers
from .instructions import InstructionReader
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
    Opaque,
    RegDecl,
    Span,
    VarDecl,
)
from .problem import PtxError, error_at
from .scan import (
    BODY_CHUNK,
    MODULE_CHUNK,
    TRIVIA,
    WORD,
    blank_comments,
    is_balanced,
    opaque_end,
    opaque_item_end,
)

MAX_DEPTH = 4096
"""Blocks inside one another; compilers write two or three."""

_SPACES = frozenset({"reg", "global", "shared", "const", "local", "param", "tex", "align", "attribute"})
# Without these nothing in the module has a meaning.
_MODULE_HEAD = frozenset({"version", "target", "address_size"})
_LINKAGE = frozenset({"visible", "extern", "weak", "common"})
# Directives that repeat thousands of times with other words: the grammar sees each shape once.
_REPEATED = frozenset({"loc", "branchtargets"})
_NAME = re.compile(r"\.(\w+)")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak|common)\s*)*\.(?:entry|func)\b")
_FUNCTION_NAME = re.compile(
    r"\.(entry|func)\b\s*(?:\.attribute\s*\([^()]*(?:\([^()]*\)\s*)?\)\s*)*(?:\([^()]*\))?\s*([A-Za-z_$%][\w$]*)",
    re.ASCII,
)
_SECTION = re.compile(r"\.section\s+[\w.]+\s*\{[^}]*\Z")
# Control characters, and what a decoder puts in place of bytes that are no text.
# A constant of its own, in dimensions; written out with blanks, so that places stay.
_WARP_SIZE = re.compile(r"\bWARP_SZ\b")
_NUL = re.compile("\0")
_DIRECTIVE = re.compile(r"\.[A-Za-z]")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f\ufffd\ufeff]")


def parse(text: str, *, filename: str = "<ptx>") -> Module:
    """Parse a whole module.

    Raises PtxError (line, column, the line with a caret, what was expected) for anything that is not PTX.
    """
    with no_collection():
        return _Parser(text, filename).module()


class _Parser:
    """One run over one text. `position`, `line` and `column` (from 1) say where the next chunk's trivia begins."""

    __slots__ = ("checked", "column", "filename", "line", "position", "reader", "text", "trees")

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self.position = 0
        self.line = 1
        self.column = 1
        self.reader = InstructionReader(warp_size="WARP_SZ" in text)
        self.trees: dict[str, ChunkTree] = {}
        self.checked: set[tuple[str, str]] = set()

    # ----------------------------------------------------------------------------------------------------- module level

    def module(self) -> Module:
        self._reject_non_text()
        items: list[ModuleItem] = []
        match = MODULE_CHUNK.match
        while True:
            found = match(self.text, self.position)
            if found is None:
                opaque = self._opaque_item(bool(items))
                if opaque is None:
                    break
                items.append(opaque)
                continue
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
        function, problem = self._header(trivia, header, span)
        if header.endswith(";") and not _ends_in_pragma(function):
            return function
        found = BODY_CHUNK.match(self.text, self.position)
        if found is None or found.group(7) != "{":
            if problem is not None:
                raise self._located(problem, self.position - len(header))
            raise self._stuck("function_header", 'expected "{" or ";" after a function header')
        return replace(function, body=self._block(found.group(1)))

    def _header(self, trivia: str, header: str, span: Span) -> tuple[Function, ChunkError | None]:
        try:
            try:
                tree = self._tree("function_header", header)
                return function_header(tree, trivia, header, span), None
            except DeclarationError as error:
                raise ChunkError(str(error), 0) from None
        except ChunkError as problem:
            named = _FUNCTION_NAME.search(blank_comments(header))
            if named is None or not is_balanced(header):
                raise self._located(problem, self.position - len(header)) from None
            unread = self._opaque(trivia, header, span, f".{named.group(1)} {named.group(2)}", problem)
            kind: Literal["entry", "func"] = "entry" if named.group(1) == "entry" else "func"
            return Function(trivia, header, span, kind, named.group(2), (), (), (), (), None, unread), problem

    def _opaque_item(self, begun: bool) -> Opaque | None:
        """The directive of module scope at `position` that is none of those that are known."""
        at = _end(TRIVIA, self.text, self.position)
        end = opaque_item_end(self.text, at) if begun and _DIRECTIVE.match(self.text, at) else None
        if end is None:
            return None
        trivia, chunk = self.text[self.position : at], self.text[at:end]
        name = _directive_name(chunk)
        if name in _MODULE_HEAD or _FUNCTION.match(blank_comments(chunk)):
            return None
        span = self._advance(trivia, chunk)
        return self._opaque(trivia, chunk, span, f".{name}", _problem_of(_rule_of(chunk), chunk))

    def _opaque(self, trivia: str, text: str, span: Span, name: str, problem: ChunkError) -> Opaque:
        return Opaque(trivia, text, span, name, problem.message, problem.at, problem.expected)

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
                items.append(self._opaque_statement(opened[-1][1]))
                continue
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
    ) -> Instruction | Opaque:
        start = self.position + len(trivia)
        text = self.text[start:end]
        span = self._advance(trivia, text)
        negated = sign is not None and sign.endswith("!")
        try:
            shape, words = self.reader.read(text, "!" if negated else "", opcode, operands)
        except ChunkError as problem:
            return self._kept(trivia, text, span, opcode, problem)
        return Instruction(trivia, text, span, shape, words, None if guard is None else Guard(guard, negated))

    def _opaque_statement(self, opened: Span) -> Opaque:
        """What stands at `position` in a body and is none of what a body holds."""
        at = _end(TRIVIA, self.text, self.position)
        end = opaque_end(self.text, at)
        if end is None:
            raise self._stuck_in_body(opened)
        trivia, chunk = self.text[self.position : at], self.text[at:end]
        span = self._advance(trivia, chunk)
        return self._opaque(trivia, chunk, span, first_word(chunk), _problem_of("instruction", chunk))

    def _body_directive(self, trivia: str, chunk: str) -> list[RegDecl | VarDecl | Directive | Opaque]:
        name = _directive_name(chunk)
        if name in _SPACES:
            return [*self._declaration(trivia, chunk)]
        return [self._directive(trivia, chunk)]

    # ----------------------------------------------------------------------------------------------------------- either

    def _declaration(self, trivia: str, chunk: str) -> list[RegDecl | VarDecl | Opaque]:
        span = self._advance(trivia, chunk)
        try:
            return self._declared(trivia, chunk, span)
        except ChunkError as problem:
            return [self._kept(trivia, chunk, span, f".{_directive_name(chunk)}", problem)]

    def _declared(self, trivia: str, chunk: str, span: Span) -> list[RegDecl | VarDecl | Opaque]:
        try:
            if _directive_name(chunk) == "reg":
                return [register_declaration(self._tree("register_declaration", chunk), trivia, chunk, span)]
            blanked, initialisers = cut_initialisers(blank_comments(chunk))
            tree = self._tree("variable_declaration", _WARP_SIZE.sub("32     ", blanked))
            for start, end in initialisers.items():
                _check_at(blank_comments(chunk), start + 1, end)
            return list(variable_declarations(tree, trivia, chunk, span, initialisers))
        except DeclarationError as error:
            raise ChunkError(str(error), 0) from None

    def _kept(self, trivia: str, text: str, span: Span, name: str, problem: ChunkError) -> Opaque:
        """A statement of a body or of the module that was stepped over and is not known.

        With semicolons inside brackets it is longer than the scanner took it for. An error where it has no end.
        """
        if not is_balanced(text):
            start = self.position - len(text)
            end = opaque_end(self.text, start)
            if end is None:
                raise self._located(problem, start)
            rest = self.text[self.position : end]
            span = Span(span.line, span.column, self._advance("", rest).end_line)
            text += rest
        return self._opaque(trivia, text, span, name, problem)

    def _directive(self, trivia: str, own: str) -> Directive | Opaque:
        span = self._advance(trivia, own)
        name = _directive_name(own)
        parts = WORD.split(blank_comments(own))
        key = (name, "\0".join(parts[::2]))
        if name in _REPEATED and key in self.checked:
            return Directive(trivia, own, span, name, tuple(parts[1::2]))
        try:
            tree = self._tree("directive", own)
        except ChunkError as problem:
            if name in _MODULE_HEAD:
                raise self._located(problem, self.position - len(own)) from None
            return self._kept(trivia, own, span, f".{name}", problem)
        if name not in _REPEATED:
            return Directive(trivia, own, span, name, tuple(str(t) for t in tree.scan_values(_is_word)))
        self.checked.add(key)
        return Directive(trivia, own, span, name, tuple(parts[1::2]))

    def _tree(self, start: str, chunk: str) -> ChunkTree:
        """A chunk, parsed; equal texts are parsed once. Raises ChunkError."""
        tree = self.trees.get(chunk)
        if tree is None:
            tree = parse_chunk(start, blank_comments(chunk))
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

    def _located(self, problem: ChunkError, offset: int) -> PtxError:
        """The error for a chunk that stands at `offset`."""
        return error_at(self.filename, self.text, offset + problem.at, problem.message, problem.expected)

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
            parse_chunk(start, rest)
        except ChunkError as problem:
            return self._located(problem, at)
        return error_at(self.filename, self.text, at, f'unexpected "{first_word(rest[:40])}"')

    def _reject_non_text(self) -> None:
        if _NOT_TEXT.search(self.text) is None:
            return
        # Comments may hold anything but the character that ends a C string.
        found = _NOT_TEXT.search(blank_comments(self.text)) or _NUL.search(self.text)
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


def _problem_of(start: str, chunk: str) -> ChunkError:
    """What the grammar says of a chunk that it does not know."""
    try:
        parse_chunk(start, chunk)
    except ChunkError as problem:
        return problem
    return ChunkError(f'unexpected "{first_word(chunk)}"', 0)


def _check_at(text: str, start: int, end: int) -> None:
    """`check_initialiser` of a part of a declaration, with offsets in the whole."""
    try:
        check_initialiser(text[start:end])
    except ChunkError as problem:
        raise ChunkError(problem.message, start + problem.at) from None


def _ends_in_pragma(function: Function) -> bool:
    """The semicolon at the end of a header belongs to a `.pragma` there."""
    return re.search(r"\"\s*;\Z", blank_comments(function.text)) is not None


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
